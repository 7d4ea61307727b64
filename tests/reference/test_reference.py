# SPDX-License-Identifier: Apache-2.0
"""The C library against the implementation in place.py, on random cases. TRYST_CASES says how many for each strategy (200)."""

import os
import random
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
sys.path.insert(0, str(HERE.parent.parent / "examples"))

import place as reference  # noqa: E402
import place_ctypes as library  # noqa: E402

CASES = int(os.environ.get("TRYST_CASES", "200"))
ONE = reference.ONE
WEIGHTED = ("rendezvous", "carp", "virtual", "skeleton", "crush", "ring")


def draw_weight(rng: random.Random, strategy: str) -> int:
    if strategy in ("virtual", "ring"):
        return rng.randint(1 << 16, 3 * ONE // 2)
    return rng.choice([ONE, rng.randint(1, 9) * ONE, rng.randint(1 << 16, 1 << 48), 1 << rng.randint(16, 48)])


def draw(rng: random.Random, strategy: str):
    most = {"virtual": 8, "ring": 8, "carp": 30}.get(strategy, 70)
    count = rng.choice([1, 2, 3, rng.randint(1, most)])
    options = {}
    names = [rng.randbytes(rng.randint(1, 20)).replace(b"\0", b"x") + b"-%d" % i for i in range(count)]
    weighted = strategy in WEIGHTED and rng.random() < 0.7
    weights = [draw_weight(rng, strategy) if weighted and rng.random() < 0.9 else None for _ in names]
    zones = [None] * count
    positions = [None] * count
    if strategy == "crush" and rng.random() < 0.8:
        depth = rng.randint(1, 3)
        zones = [b"/".join(rng.choice([b"a", b"a-b", b"b", b"c.d"]) for _ in range(depth)) for _ in names]
        if rng.random() < 0.7:
            options["spread"] = rng.randint(1, depth)
    if strategy.startswith("keyspace"):
        options["partitions"] = rng.choice([rng.randint(4 * count, 2000 + 4 * count), 1 << 32, rng.randint(1 << 20, 1 << 32)])
        taken = iter(rng.sample(range(options["partitions"]), count))
        positions = [next(taken) if rng.random() < 0.5 else None for _ in names]
    nodes = [reference.Node(*each) for each in zip(names, weights, zones, positions)]
    return nodes, options


@pytest.mark.parametrize("strategy", reference.STRATEGIES)
def test_the_library_agrees_with_the_reference(strategy):
    rng = random.Random(f"{strategy} {CASES}")
    compared = 0
    for _ in range(CASES):
        nodes, options = draw(rng, strategy)
        theirs = [
            library.Node(n.name, n.zone, n.weight or 0, n.position or 0, n.position is not None) for n in nodes
        ]
        try:
            expected = reference.Map(strategy, nodes, **options)
        except reference.PlacementError:
            with pytest.raises(ValueError):
                library.Map(strategy, theirs, **options)
            continue
        actual = library.Map(strategy, theirs, **options)
        for _ in range(5):
            number = rng.getrandbits(64)
            text = rng.randbytes(rng.randint(0, 300))
            excluded = tuple(rng.sample(range(len(nodes)), rng.randint(0, len(nodes))))
            want = rng.randint(1, len(nodes) + 2)
            assert actual.lookup(number, len(nodes)) == expected.order(expected.key_of_id(number))
            assert actual.lookup(text, want) == expected.lookup(expected.key_of_text(text), want)
            assert actual.lookup(number, want, excluded) == expected.lookup(
                expected.key_of_id(number), want, frozenset(excluded)
            )
            compared += 3
    assert compared >= 10 * CASES
