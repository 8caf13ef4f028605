"""Failures of the libraries of object stores, in one sentence with a fix."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...errors import StoreError

_DENIED = [
    "NoCredentials",
    "Forbidden",
    "Permission",
    "Unauthorized",
    "Authentication",
    "TokenRetrieval",
]
_UNREACHABLE = [
    "Connect",
    "Timeout",
    "Endpoint",
    "DNS",
    "SSL",
    "Disconnected",
    "ServiceRequestError",
]
"""Words in the names of errors."""

_EXPIRED = frozenset(
    {"ExpiredToken", "ExpiredTokenException", "RequestExpired", "TokenRefreshRequired"}
)
_NO_BUCKET = frozenset({"NoSuchBucket", "ContainerNotFound"})
_THERE = frozenset({"PreconditionFailed", "412", "BlobAlreadyExists", "ConditionNotMet"})
_BUSY = frozenset({"ConditionalRequestConflict", "OperationAborted", "409"})
_CODE_ATTRIBUTES = ("error_code", "code", "status_code", "status")
"""Of errors of Azure, Google and aiohttp."""

_MISSING = frozenset({"NoSuchKey", "NoSuchUpload", "BlobNotFound", "404"})


def is_missing(error: BaseException) -> bool:
    """Whether there is no such object, but a place for it."""
    return (
        isinstance(error, FileNotFoundError) or bool(_MISSING & _codes(error))
    ) and not is_placeless(error)


def is_placeless(error: BaseException) -> bool:
    """Whether there is no such bucket or container."""
    return bool(_NO_BUCKET & _codes(error))


def is_there(error: BaseException) -> bool:
    """Whether a new object was refused because there is one of its name."""
    # Also behind another one: gcsfs then takes the upload back, which the server may refuse, too.
    there = any(isinstance(cause, FileExistsError) for cause in _chain(error))
    return there or bool(_THERE & _codes(error))


def is_ended(error: BaseException) -> bool:
    """Whether an upload in parts is over already: its end was repeated because nobody heard that it was done."""
    return "NoSuchUpload" in _codes(error)


def is_busy(error: BaseException) -> bool:
    """Whether another writer creates the same object at this moment."""
    return bool(_BUSY & _codes(error))


def is_expired(error: BaseException) -> bool:
    """Whether credentials were good once."""
    return bool(_EXPIRED & _codes(error))


def is_denied(error: BaseException) -> bool:
    """Whether there are no credentials, or they do not suffice."""
    return (
        isinstance(error, PermissionError)
        or _is_named(error, _DENIED)
        or bool({"401", "403"} & _codes(error))
    )


def explain(error: BaseException, address: str, doing: str) -> StoreError:
    """The error for people.

    Args:
        error: Of any of the libraries.
        address: The URL of the store.
        doing: What failed, such as `read actions/ab/....json`.
    """
    reason, code = _why(error)
    return StoreError(f"cannot {doing} in the store {address}: {reason}", code=code)


def _why(error: BaseException) -> tuple[str, str]:
    codes = sorted(code for code in _codes(error) if not code.isdigit())
    name = codes[0] if codes else type(error).__name__
    if is_placeless(error):
        return "there is no such bucket; create it, or correct the address", "MW702"
    if is_expired(error):
        return (
            f"the credentials have expired ({name}); renew them and run the command again",
            "MW702",
        )
    if is_denied(error):
        fix = "provide credentials that may read, write, delete and list there, as for the tools of this object store"
        return f"access was refused ({name}); {fix}", "MW702"
    if is_missing(error):
        return (
            "there is no such bucket or object; create the bucket, or correct the address",
            "MW702",
        )
    if isinstance(error, (ConnectionError, TimeoutError)) or _is_named(error, _UNREACHABLE):
        return (
            f"the server cannot be reached ({name}); check the network and the address, then run the command again",
            "MW703",
        )
    return f"the server answered with an error ({name}); run the command again later", "MW703"


def _is_named(error: BaseException, words: Sequence[str]) -> bool:
    return any(word in type(cause).__name__ for cause in _chain(error) for word in words)


def _codes(error: BaseException) -> frozenset[str]:
    """The codes that a server gave an error: names such as `NoSuchKey`, or numbers of HTTP."""
    return frozenset(code for cause in _chain(error) for code in _own_codes(cause))


def _own_codes(error: BaseException) -> Iterator[str]:
    response = getattr(error, "response", None)
    if isinstance(response, dict):  # of botocore
        yield str(response.get("Error", {}).get("Code"))
    for attribute in _CODE_ATTRIBUTES:
        value = getattr(error, attribute, None)
        if value is not None and not callable(value):
            yield str(getattr(value, "value", value))


def _chain(error: BaseException) -> Iterator[BaseException]:
    """An error and those that it was made of."""
    seen: set[int] = set()
    cause: BaseException | None = error
    while cause is not None and id(cause) not in seen:
        seen.add(id(cause))
        yield cause
        cause = cause.__cause__ or cause.__context__
