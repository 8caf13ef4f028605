"""The option `--store` of commands that use a store."""

from __future__ import annotations

import functools
import inspect
from typing import Annotated, Any, cast

import typer
from typer.models import CommandFunctionType

from ..api.settings import choose_store

_Store = Annotated[
    str | None,
    typer.Option(
        "--store",
        metavar="URL",
        help="The store of finished steps: a directory, or s3://, gs:// or abfs:// with a bucket; by default `store.url` in "
        "modelwheel.toml, else a directory of this user.",
    ),
]


def with_store(command: CommandFunctionType) -> CommandFunctionType:
    """Gives a command the option; `open_store` then opens that store."""

    @functools.wraps(command)
    def run(*arguments: Any, store_address: str | None = None, **options: Any) -> Any:
        choose_store(store_address)
        return command(*arguments, **options)

    signature = inspect.signature(command, eval_str=True)
    own = inspect.Parameter(
        "store_address", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=_Store
    )
    parameters = list(signature.parameters.values())
    # Before `--json` and the like, which every command ends with.
    parameters.insert(len(parameters) - 1, own.replace(kind=parameters[-1].kind))
    run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {**command.__annotations__, "store_address": _Store}
    return cast("CommandFunctionType", run)
