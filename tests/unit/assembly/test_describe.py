"""From what compiling gave to the manifest: signatures, batching, costs, and what cannot be used."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from modelwheel.assembly import manifest
from modelwheel.assembly.describe import Compiled, describe
from modelwheel.codegen import estimate_cost
from modelwheel.errors import UnsupportedModelError
from modelwheel.model.frozen_signature import FrozenSignature, FrozenTensor
from modelwheel.model.reference_result import Reference
from modelwheel.platforms import PLATFORMS
from modelwheel.request import Extent, make_request
from modelwheel.spec import load_spec
from modelwheel.spec.tune_lock import TuneLock, write_lock
from tests.support.programs import matmul_program

SPEC = """\
model: {name: tiny, version: "1.0.0"}
targets: [x86-64, x86-64-v3]
compilation: {batch_sizes: SIZES}
"""


def tensor(name: str, *shape: int) -> FrozenTensor:
    return FrozenTensor(name=name, c_name=name, dtype="float32", shape=shape)


def reference(*, independent: bool = True, per_row: int = 1, batched: bool = True) -> Reference:
    return Reference(
        independent=independent,
        reason=None if independent else "rows are sorted",
        leading_per_row={"y": per_row},
        batched_inputs=("x",) if batched else (),
        rows=(1, 4),
    )


def description(
    directory: Path,
    sizes: tuple[int, ...] = (1, 4),
    more: str = "",
    found: Reference | None = None,
    outputs: Mapping[int, FrozenTensor] | None = None,
) -> manifest.Manifest:
    """The manifest of a model with one input and one output; `outputs` may differ by batch size."""
    path = directory / "tiny.yaml"
    path.write_text(SPEC.replace("SIZES", str(list(sizes))) + more)
    found = found or reference()
    batched = bool(found.batched_inputs)
    per_row = found.leading_per_row["y"] or 1
    regular = {size: tensor("y", size * per_row, 3) for size in sizes}
    frozen = {
        Extent(size): FrozenSignature(
            key="serving_default",
            batch=size if batched else None,
            inputs=(tensor("x", size, 4),),
            outputs=(output,),
            batched_inputs=found.batched_inputs,
            pruned_inputs=(),
            order=("x",),
            ordered_by="model",
        )
        for size, output in {**regular, **(outputs or {})}.items()
    }
    programs = {
        (level, Extent(size if batched else 1)): matmul_program(size)
        for level in ("x86-64", "x86-64-v3")
        for size in sizes
    }
    return describe(
        make_request(load_spec(path), platforms=["linux-x86_64"]),
        PLATFORMS["linux-x86_64"],
        Compiled(frozen, programs, found, "ab" * 32),
        manifest.Provenance(
            spec_sha256="", source={}, tree_sha256="", files=(), graphs={}, signature_key=""
        ),
        manifest.Sizes(weights=0, machine_code=0, saved_model=0),
    )


def test_the_batch_axis_has_no_extent(tmp_path: Path) -> None:
    described = description(tmp_path, found=reference(per_row=3))
    (x,), (y,) = described.signature.inputs, described.signature.outputs
    assert (x.shape, x.leading_per_row) == ((None, 4), 1)
    assert (y.shape, y.leading_per_row) == ((None, 3), 3)
    assert described.batching.sizes == (1, 4)
    assert described.batching.no_emulation_reason is None


def test_a_fixed_extent_is_not_taken_for_a_batch(tmp_path: Path) -> None:
    """CMS configurations name the extent as batch size where the model has it fixed."""
    found = reference(independent=False, per_row=0, batched=False)
    described = description(tmp_path, (2,), found=found)
    assert described.batching.sizes == (1,)
    assert {variant.batch_size for variant in described.variants} == {1}
    assert described.signature.inputs[0].shape == (2, 4)
    assert described.batching.no_emulation_reason is None


def test_shapes_that_do_not_follow_the_batch_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedModelError, match=r"'y' has shape \(5, 3\) at batch size 4"):
        description(tmp_path, outputs={4: tensor("y", 5, 3)})


# --- batching -------------------------------------------------------------------------------------

RULES = 'batching: {rules: ["7:4,4"], emulate: EMULATE}\n'


def test_why_rows_are_not_composed(tmp_path: Path) -> None:
    dependent = description(tmp_path, found=reference(independent=False))
    assert dependent.batching.no_emulation_reason == "rows are sorted"
    unwanted = description(tmp_path, more="batching: {emulate: false}\n")
    assert unwanted.batching.no_emulation_reason == "its spec sets batching.emulate to false"
    # Other numbers of rows cannot be compared.
    assert set(unwanted.verification.rows) <= set(unwanted.batching.sizes)


def test_rules_are_kept_or_refused(tmp_path: Path) -> None:
    rules = RULES.replace("EMULATE", "true")
    assert description(tmp_path, more=rules).batching.rules == ("7:4,4",)
    for found, reason in (
        (reference(independent=False), "rows are sorted"),
        (reference(independent=False, per_row=0, batched=False), "has no batch axis"),
    ):
        with pytest.raises(UnsupportedModelError, match=f"'7:4,4' cannot be used: .*{reason}"):
            description(tmp_path, (4,), more=rules, found=found)
    with pytest.raises(UnsupportedModelError, match=r"emulate to false; remove batching\.rules"):
        description(tmp_path, more=RULES.replace("EMULATE", "false"))


# --- costs ----------------------------------------------------------------------------------------


def costs(described: manifest.Manifest) -> dict[tuple[str, int], float]:
    return {(v.level, v.batch_size): v.cost for v in described.variants}


def test_costs_are_measured_for_a_whole_level_or_estimated(tmp_path: Path) -> None:
    estimates = {size: estimate_cost(matmul_program(size)) for size in (1, 4)}
    measured = {"x86-64": {1: 10.0, 4: 30.0}, "x86-64-v3": {4: 20.0}}
    write_lock(tmp_path / "tiny.yaml", TuneLock(nanoseconds=measured))
    assert costs(description(tmp_path)) == {
        ("x86-64", 1): 10.0,
        ("x86-64", 4): 30.0,
        ("x86-64-v3", 1): estimates[1],
        ("x86-64-v3", 4): estimates[4],
    }
