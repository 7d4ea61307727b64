#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the frozen vectors with the reference implementation. Run once for each new strategy or version: lines that are
there already never change.

usage: make_vectors.py > place.tsv
"""

import random
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "reference"))
from place import ONE, Map, Node  # noqa: E402

ADDRESSES = [f"10.0.{i // 200}.{i % 200 + 1}:7253" for i in range(60)]


def field(value) -> str:
    return "-" if value is None else value.decode() if isinstance(value, bytes) else str(value)


def emit(strategy: str, settings: dict, nodes: list[Node], keys: list[str]) -> None:
    placement = Map(strategy, nodes, **settings)
    for text in keys:
        kind, _, rest = text.partition(":")
        if kind == "text":
            key = placement.key_of_text(rest.encode())
        elif kind == "id":
            key = placement.key_of_id(int(rest, 16))
        else:
            key = int(rest)
        print(
            strategy if "@" in strategy else strategy + "@1",
            " ".join(f"{name}={value}" for name, value in settings.items()) or "-",
            " ".join(";".join(field(v) for v in (n.name, n.weight, n.zone, n.position)) for n in nodes),
            text,
            " ".join(map(str, placement.order(key))),
            sep="\t",
        )


def main() -> None:
    rng = random.Random(20)
    keys = ["text:", "text:order-17", "text:grüße", "id:0", "id:64", "id:c8", "id:ffffffffffffffff"]
    print("# Frozen: see check_vectors.c for the form, make_vectors.py for how a line is made.")
    for strategy in ("chronos", "rendezvous", "carp", "virtual", "skeleton", "crush", "ring", "keyspace@1"):
        for count in (1, 2, 3, 5, 17, 40):
            names = [name.encode() for name in rng.sample(ADDRESSES, count)]
            more = keys + [f"id:{rng.getrandbits(64):x}" for _ in range(3)]
            emit(strategy, {}, [Node(name) for name in names], more)
            if strategy in ("rendezvous", "carp", "virtual", "skeleton", "crush", "ring"):
                weights = [rng.choice([ONE // 4, ONE, 2 * ONE, 5 * ONE // 2, rng.randint(ONE // 8, 3 * ONE)]) for _ in names]
                emit(strategy, {}, [Node(n, w) for n, w in zip(names, weights)], more)
        if strategy == "crush":
            names = [name.encode() for name in rng.sample(ADDRESSES, 24)]
            zones = [f"r{i % 3}/k{rng.randint(0, 3)}".encode() for i in range(24)]
            weights = [rng.randint(ONE // 2, 3 * ONE) for _ in names]
            for spread in (1, 2):
                nodes = [Node(n, w, z) for n, w, z in zip(names, weights, zones)]
                emit(strategy, {"spread": spread}, nodes, keys)
        if strategy == "keyspace@1":
            for partitions in (1, 7, 100, 1 << 20, 1 << 32):
                count = min(5, partitions)
                places = rng.sample(range(partitions), count)
                nodes = [Node(f"n{i}".encode(), position=p) for i, p in enumerate(places)]
                emit(strategy, {"partitions": partitions}, nodes, keys + [f"at:{places[0]}", f"at:{partitions - 1}"])
        if strategy == "ring":
            emit(strategy, {}, [Node(b"a"), Node(b"b")], ["at:0", "at:18446744073709551615"])
    emit("chronos", {}, [Node(b"10.1.11.242:7253"), Node(b"10.2.90.135:7253"), Node(b"10.0.0.1:7253")], keys)
    emit("rendezvous", {}, [Node(b"a", 1 << 16), Node(b"b", 1 << 48), Node(b"c")], keys)
    emit_keyspace_2(random.Random(21), keys)


def emit_keyspace_2(rng: random.Random, keys: list[str]) -> None:
    for count in (1, 2, 3, 5, 17, 40):
        names = [name.encode() for name in rng.sample(ADDRESSES, count)]
        more = keys + [f"id:{rng.getrandbits(64):x}" for _ in range(3)]
        emit("keyspace@2", {}, [Node(name) for name in names], more)
    for partitions in (1, 7, 20, 100, 1000, 1 << 20, 1 << 32):
        count = min(5, partitions)
        places = rng.sample(range(partitions), count)
        nodes = [Node(f"n{i}".encode(), position=p) for i, p in enumerate(places)]
        emit("keyspace@2", {"partitions": partitions}, nodes, keys + [f"at:{places[0]}", f"at:{partitions - 1}"])
    for partitions in (100, 1024, 1152, 1 << 32):
        nodes = [Node(b"a"), Node(b"b", position=30), Node(b"c"), Node(b"d", position=64), Node(b"e")]
        emit("keyspace@2", {"partitions": partitions}, nodes, keys)


if __name__ == "__main__":
    main()
