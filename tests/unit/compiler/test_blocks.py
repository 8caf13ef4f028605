"""Places of blocks of memory: what is in use at one time has no bytes in common."""

from __future__ import annotations

from itertools import combinations
from random import Random

import pytest

from modelwheel.compiler.ir.assignment.blocks import Block, Path, Place, Use, plan

_SHARED = 1


def _blocks(random: Random, count: int) -> list[Block]:
    return [_block(random) for _ in range(count)]


def _block(random: Random) -> Block:
    uses = []
    for _ in range(random.choice([0, 1, 1, 2])):
        first = random.randrange(100)
        path: Path = ()
        if random.random() < 0.3:
            node = random.randrange(2)
            path = ((node, random.randrange(2), node == 1),)
        size, last = random.randrange(300), first + random.randrange(30)
        uses.append(Use(random.randrange(200), size, first, last, path))
    home = Place(random.choice([_SHARED, 2]), 64 * random.randrange(40))
    return Block(uses, random.choice([home, None]))


@pytest.mark.parametrize("seed", range(5))
def test_what_is_in_use_at_one_time_is_apart(seed: int) -> None:
    blocks = _blocks(Random(seed), 60)
    places, size = plan(blocks, _SHARED, frozenset({_SHARED, 2}), trusted=False)
    for (one, at), (other, there) in combinations(zip(blocks, places, strict=True), 2):
        assert at.allocation == there.allocation == _SHARED
        for use in one.uses:
            moved = Use(use.start + at.offset, use.size, use.first, use.last, use.path)
            for used in other.uses:
                beside = Use(used.start + there.offset, used.size, used.first, used.last, used.path)
                assert not (
                    use.size and used.size and moved.overlaps(beside) and moved.meets(beside)
                )
    assert size == max(at.offset + block.stop for block, at in zip(blocks, places, strict=True))


def test_blocks_of_different_times_share_their_bytes() -> None:
    blocks = [Block([Use(0, 64, time, time)]) for time in range(50)]
    places, size = plan(blocks, _SHARED, frozenset({_SHARED}), trusted=False)
    assert set(places) == {Place(_SHARED, 0)}
    assert size == 64


def test_branches_that_run_at_the_same_time_are_apart() -> None:
    blocks = [Block([Use(0, 64, number, number, ((0, number, False),))]) for number in range(20)]
    places, size = plan(blocks, _SHARED, frozenset({_SHARED}), trusted=False)
    assert len(set(places)) == len(blocks)
    assert size == 64 * len(blocks)
