"""Traces a wheel or source distribution back to the commit of its model, link by link.

Every link is computed again from its source and compared by hashes; no claim in the file is trusted.

    files <- manifest <- machine code, weights, C++ <- graphs <- SavedModel <- commit

A link is ok, broken, or cannot be checked on this machine. Each has a sentence that says why.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from pydantic import ValidationError

from .. import __version__
from ..assembly.manifest import File, Manifest
from ..engine.build import BuildOptions, BuildResult, build
from ..engine.planning.plan import plan
from ..engine.reporting import Reporter
from ..errors import EnvironmentProblemError, ModelwheelError, ReplayError, SpecError
from ..limits import Limits
from ..model.frozen_signature import GRAPH
from ..request import Request, make_request
from ..sandbox.choose import Sandbox
from ..source import fetch as source
from ..spec import Spec, find_specs, load_spec
from ..spec.sources import AnySource, DownloadSource, is_local, source_of
from ..store.records import Record
from ..store.store import Store
from ..util.trees import digest_tree
from ..util.unfinished import temporary_directory
from ..util.watching import step
from ..util.words import count, first_few
from ..versions import TENSORFLOW_VERSION
from ..wheelfile.contents import Contents
from .consistency import BrokenLinkError, UncheckedLinkError, check_files, check_manifests
from .rebuild import compare_rebuilt

State: TypeAlias = Literal["ok", "broken", "unchecked"]

SPECS = "model_specs"
"""Where the spec of a wheel is searched for."""


@dataclass(frozen=True)
class Link:
    """One link of the chain."""

    name: str
    state: State
    found: str
    """What was compared, what differs, or why nothing could be compared."""


@contextmanager
def choose_store(usual: Store, *, recompile: bool) -> Iterator[Store]:
    """The user's store, or an empty one that is removed afterwards."""
    if not recompile:
        yield usual
        return
    with temporary_directory("replay") as directory:
        store = Store(directory)
        try:
            yield store
        finally:
            store.close()


def trace(
    contents: Contents,
    store: Store,
    sandbox: Sandbox,
    reporter: Reporter,
    spec: Path | None = None,
    limits: Limits | None = None,
) -> list[Link]:
    """Checks every link, as far as the file and this machine allow.

    Args:
        contents: The wheel or source distribution.
        store: Results in it are used; with an empty store, everything is built again.
        sandbox: Where models run.
        reporter: Receives the progress of the steps that run.
        spec: The spec; by default the one in `model_specs/` with the digest that the manifest has.
        limits: How large the model may be; by default as large as `Limits` says.
    """
    chain = _Chain(contents, store, sandbox, reporter, limits or Limits())
    chain.check("files <- list of hashes", lambda: check_files(contents))
    # All other links start from the manifest.
    if chain.check("files <- manifest", lambda: check_manifests(contents)):
        chain.check("manifest <- spec", lambda: chain.check_spec(spec))
        chain.check("SavedModel <- source", chain.check_model)
        chain.check("graphs <- SavedModel", chain.check_graphs)
        chain.check("machine code <- graphs", chain.check_project)
        chain.check(f"{contents.kind} <- machine code", chain.check_build)
    return chain.links


def require_whole(results: Iterable[tuple[Path, Sequence[Link]]]) -> None:
    """Raises ReplayError, naming every file and link, if any links are broken."""
    sentences = []
    for path, links in results:
        broken = [f"{link.name}: {link.found}" for link in links if link.state == "broken"]
        if broken:
            problems = "; ".join(broken)
            sentences.append(f"{path.name} does not follow from its sources: {problems}")
    if sentences:
        raise ReplayError("\n".join(sentences))


def require_rebuilt(results: Iterable[tuple[Path, Sequence[Link]]]) -> None:
    """Raises ReplayError, naming every file, if any could not be built again or differs.

    Unlike `require_whole`, what could not be checked is an error: nothing was shown about that file.
    """
    sentences = []
    for path, links in results:
        # The first link that is not ok is the reason for those behind it.
        stopped = next((link for link in links if link.state != "ok"), None)
        if stopped is not None:
            verb = "differs" if stopped.state == "broken" else "cannot be built again here"
            sentences.append(f"{path.name} {verb}: {stopped.name}: {stopped.found}")
    if sentences:
        raise ReplayError("\n".join(sentences))


class _Chain:
    """The links so far, and the results that later links need."""

    def __init__(
        self,
        contents: Contents,
        store: Store,
        sandbox: Sandbox,
        reporter: Reporter,
        limits: Limits,
    ) -> None:
        self.links: list[Link] = []
        self._sandbox, self._limits = sandbox, limits
        self._contents, self._store, self._reporter = contents, store, reporter
        self._spec: Spec | None = None
        self._model: source.FetchedModel | None = None
        self._built: BuildResult | None = None
        self._kinds: dict[str, str] = {}

    def check(self, name: str, make: Callable[[], str]) -> bool:
        """Checks one link; whether it is ok."""
        state: State = "ok"
        try:
            found = make()
        # Before the next clause, as EnvironmentProblemError is a ModelwheelError: a tool that is
        # missing here does not break a link.
        except (UncheckedLinkError, EnvironmentProblemError) as error:
            state, found = "unchecked", str(error)
        except (BrokenLinkError, ModelwheelError) as error:
            state, found = "broken", str(error)
        self.links.append(Link(name, state, found))
        return state == "ok"

    def check_spec(self, path: Path | None) -> str:
        """The spec has the digest that the manifest records."""
        digest = self._contents.manifests[0].provenance.spec_sha256
        spec = _search(digest) if path is None else load_spec(path)
        if spec is None:
            raise UncheckedLinkError(
                f"no spec in {SPECS}/ has the digest {digest}; pass the spec with --spec"
            )
        if spec.spec_digest() != digest:
            raise BrokenLinkError(
                f"{spec.path} has the digest {spec.spec_digest()}, but the manifest records {digest}; "
                "pass the spec as it was when this was built"
            )
        self._spec = spec
        return f"{spec.path} has the digest that the manifest records"

    def check_model(self) -> str:
        """The source, at the pinned commit or hash, is the model that was compiled."""
        origin = self._contents.manifests[0].provenance
        where = _recorded(origin.source) if self._spec is None else self._spec.origin
        if not isinstance(where, DownloadSource):
            # Without the spec's own pin of the tree: what differs is named here, file by file.
            where = where.model_copy(update={"sha256": None})
        model = source.fetch(where, self._store)
        _require_tree(model.directory, origin.files)
        if dict(model.provenance) != origin.source:
            raise BrokenLinkError(
                f"the spec's model is {_show(model.provenance)}, "
                f"the manifest's is {_show(origin.source)}"
            )
        self._model = model
        return (
            f"{_show(origin.source)}: {len(origin.files)} files, tree SHA-256 {model.tree_sha256}"
        )

    def check_graphs(self) -> str:
        """Freezing the model again returns the same graphs."""
        self._run_steps(self._make_request())
        graphs = self._contents.manifests[0].provenance.graphs
        for size, digest in graphs.items():
            record = self._record(f"freeze/b{size}")
            if record is None or record.files[GRAPH].sha256 != digest:
                raise BrokenLinkError(f"the graph of batch size {size} differs")
        return f"{count(len(graphs), 'graph')} identical, {self._how('freeze')}"

    def check_project(self) -> str:
        """Compiling again returns the same files and the same manifest."""
        record = self._require_project()
        number = 0
        for name, text in self._contents.manifest_texts.items():
            manifest = Manifest.parse(text, name)
            for file in manifest.files:
                again = record.files.get(file.path)
                if again is None or again.sha256 != file.sha256:
                    raise BrokenLinkError(f"{file.path} differs from the file in the manifest")
            path = f"platforms/{manifest.platform}/manifest.json"
            _require_same(text, self._store.read_bytes(record, path))
            number += len(manifest.files)
        files = count(number, "file")
        return f"{files} and the manifest identical, {self._how('compile', 'project')}"

    def check_build(self) -> str:
        """Building again returns the same bytes, if this machine has the same tools."""
        # Other sources make other bytes: what differs has been reported already.
        if any(link.state == "broken" for link in self.links):
            raise UncheckedLinkError("another link is broken")
        project = self._require_project()
        with step(f"{self._make_request().name}/{self._contents.kind}", self._reporter):
            return compare_rebuilt(self._contents, project, self._store)

    def _make_request(self) -> Request:
        if self._spec is None or self._model is None:
            raise UncheckedLinkError("requires the spec and its model")
        manifests = self._contents.manifests
        first = manifests[0]
        _require_versions(first)
        levels = dict.fromkeys(level for manifest in manifests for level in manifest.levels)
        # Without a batch axis, the batch size of a spec is the extent of a fixed axis.
        sizes = first.batching.sizes if first.signature.batched else ()
        return make_request(
            self._spec, tuple(levels), sizes, [manifest.platform for manifest in manifests]
        )

    def _run_steps(self, request: Request) -> None:
        assert self._model is not None
        store = self._store
        with store.scratch() as scratch:
            options = BuildOptions(scratch, self._sandbox, "project", limits=self._limits)
            (result,) = build([request], store, options, self._reporter)
        for _, error in result.errors:
            raise error
        self._kinds = {step.name: step.kind for step in plan(request, store, "project")}
        self._built = result

    def _record(self, step: str) -> Record | None:
        assert self._built is not None
        return self._built.outcome.records.get(f"{self._built.request.name}/{step}")

    def _require_project(self) -> Record:
        record = None if self._built is None else self._record("project")
        if record is None:
            raise UncheckedLinkError("requires the graphs, which could not be built again")
        return record

    def _how(self, *kinds: str) -> str:
        """Whether the steps of some kinds ran, or some results were cached."""
        assert self._built is not None
        if any(self._kinds[name] in kinds for name in self._built.cached):
            return "from the cache (--recompile ignores it)"
        return "built again"


def _search(digest: str) -> Spec | None:
    try:
        paths = find_specs([SPECS])
    except SpecError:
        return None
    for path in paths:
        try:
            spec = load_spec(path)
        except SpecError:  # of another model, perhaps for a newer modelwheel
            continue
        if spec.spec_digest() == digest:
            return spec
    return None


def _recorded(origin: Mapping[str, str]) -> AnySource:
    """The source that a manifest records, with the same checks as a spec's."""
    # A manifest is not trusted: through the spec's model its address and path are checked before
    # git sees them (transport helpers, options, paths that lead out).
    is_relative = origin.get("kind") == "git" and is_local(origin.get("url", ""))
    try:
        described = None if is_relative else source_of(origin)
    except ValidationError as error:
        first = error.errors()[0]
        raise BrokenLinkError(f"the manifest's source cannot be used: {first['msg']}") from None
    if described is not None:
        return described
    raise UncheckedLinkError(
        "the model's source is relative to the spec; pass the spec with --spec"
    )


def _show(origin: Mapping[str, str]) -> str:
    """`https://example.org/data, model at 0123...`"""
    if origin.get("kind") == "directory":
        return "a local directory without a commit"
    pin = origin.get("commit") or f"SHA-256 {origin.get('sha256')}"
    return f"{origin.get('url')}, {origin.get('path') or 'root'} at {pin}"


def _require_tree(directory: Path, expected: Sequence[File]) -> None:
    digests = {name: file.sha256 for name, file in digest_tree(directory).items()}
    named = {file.path: file.sha256 for file in expected}
    different = {name for name in {*digests, *named} if digests.get(name) != named.get(name)}
    if different:
        raise BrokenLinkError(f"the SavedModel differs in {first_few(sorted(different))}")


def _require_versions(manifest: Manifest) -> None:
    compiler = manifest.compiler
    for name, theirs, ours in (
        ("modelwheel", compiler.modelwheel, __version__),
        ("TensorFlow", compiler.tensorflow, TENSORFLOW_VERSION),
    ):
        if theirs != ours:
            raise UncheckedLinkError(
                f"built with {name} {theirs}, but this is {name} {ours}; install {name} {theirs} to compare"
            )


def _require_same(text: bytes, again: bytes) -> None:
    """Raises BrokenLinkError, naming fields, if two manifests differ."""
    if text == again:
        return
    theirs, ours = json.loads(text), json.loads(again)
    fields = [name for name in ours if theirs.get(name) != ours[name]] or ["its formatting"]
    raise BrokenLinkError(f"the manifest, built again, differs in {first_few(fields)}")
