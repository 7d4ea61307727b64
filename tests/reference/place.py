# SPDX-License-Identifier: Apache-2.0
"""The placement of tryst a second time, written from docs/placement.md and from nothing else.

Slow and plain on purpose: big integers, sorting, no shortcuts. It is what the C library is compared with.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cmp_to_key, lru_cache

import xxhash

M32 = (1 << 32) - 1
M64 = (1 << 64) - 1
ONE = 1 << 32
POINTS_MAX = 1 << 24


class PlacementError(ValueError):
    """Nodes that cannot be placed."""


@dataclass(frozen=True)
class Node:
    name: bytes
    weight: int | None = None  # 32.32
    zone: bytes | None = None
    position: int | tuple[int, ...] | None = None  # a partition; of keyspace@2 several


# Hash functions


def xxh3(data: bytes) -> int:
    return xxhash.xxh3_64_intdigest(data)


def rotate(x: int, bits: int) -> int:
    return (x << bits | x >> (32 - bits)) & M32


def murmur3(data: bytes, seed: int) -> int:
    state = seed
    whole = len(data) // 4 * 4
    for at in range(0, whole, 4):
        block = int.from_bytes(data[at : at + 4], "little")
        state ^= rotate(block * 0xCC9E2D51 & M32, 15) * 0x1B873593 & M32
        state = (rotate(state, 13) * 5 + 0xE6546B64) & M32
    if whole < len(data):
        block = int.from_bytes(data[whole:], "little")
        state ^= rotate(block * 0xCC9E2D51 & M32, 15) * 0x1B873593 & M32
    state ^= len(data)
    state = (state ^ state >> 16) * 0x85EBCA6B & M32
    state = (state ^ state >> 13) * 0xC2B2AE35 & M32
    return state ^ state >> 16


def jenkins(data: bytes) -> int:
    state = 0
    for byte in data:
        state = (state + byte) & M32
        state = (state + (state << 10)) & M32
        state ^= state >> 6
    state = (state + (state << 3)) & M32
    state ^= state >> 11
    return (state + (state << 15)) & M32


def mix(x: int) -> int:
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 & M64
    x = (x ^ x >> 27) * 0x94D049BB133111EB & M64
    return x ^ x >> 31


def score(key: int, seed: int) -> int:
    multiplier = seed >> 32 | 0x80000001
    first = ((key & M32) ^ (seed & M32)) * multiplier
    middle = (key >> 32) ^ (first >> 32)
    second = middle * 0x9E3779B1
    return ((first & M32) ^ (second >> 32)) << 32 | (second & M32)


def point(seed: int, index: int) -> int:
    return mix((seed + (index + 1) * 0x9E3779B97F4A7C15) & M64)


# The weighted order


def log2_fixed(numerator: int, denominator: int) -> int:
    """2^46 log2(numerator / denominator), to the nearest, for 1 <= numerator / denominator <= 2: digit by digit, by squaring."""
    precision = 300
    x = (numerator << precision) // denominator
    digits = 0
    for _ in range(46 + 40):
        digits <<= 1
        if x >= 2 << precision:
            raise AssertionError("out of range")
        x = x * x >> precision
        if x >= 2 << precision:
            digits |= 1
            x >>= 1
    return (digits + (1 << 39)) >> 40


@lru_cache(maxsize=1)
def tables() -> tuple[list[int], list[int]]:
    a = [log2_fixed(256 + i, 256) for i in range(256)] + [1 << 46]
    m = [log2_fixed(513 + 2 * i, 512) for i in range(256)]
    c = [(2 * m[i] - a[i] - a[i + 1]) >> 15 for i in range(256)]
    return a, c


def cost(raw: int) -> int:
    a, c = tables()
    v = max(raw, 1)
    e = v.bit_length() - 1
    f = ((v << (64 - e)) & M64) >> 32
    i, t = f >> 24, f & ((1 << 24) - 1)
    q = (t * ((1 << 24) - t)) >> 8
    log = a[i] + (((a[i + 1] - a[i]) * t + c[i] * q) >> 24)
    return ((64 - e) << 46) - log


def rank_weighted(key: int, candidates: list[tuple[int, int]]) -> list[int]:
    """Indexes of (seed, weight) candidates in order; the list's own order is what `lower` means."""
    entries = []
    for index, (seed, weight) in enumerate(candidates):
        raw = score(key, seed)
        entries.append((index, raw, cost(raw), weight))

    def compare(a: tuple, b: tuple) -> int:
        left, right = a[2] * b[3], b[2] * a[3]
        if left != right:
            return -1 if left < right else 1
        if a[1] != b[1]:
            return -1 if a[1] > b[1] else 1
        return a[0] - b[0]

    return [entry[0] for entry in sorted(entries, key=cmp_to_key(compare))]


# CARP's factors


def normalise(n: int, e: int) -> tuple[int, int]:
    shift = n.bit_length() - 64
    return (n >> shift if shift >= 0 else n << -shift), e + shift


def multiply(a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int]:
    return normalise(a[0] * b[0], a[1] + b[1])


def divide(a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int]:
    return normalise((a[0] << 64) // b[0], a[1] - 64 - b[1])


def add(a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int]:
    if (a[1], a[0]) < (b[1], b[0]):
        a, b = b, a
    return normalise(a[0] + (b[0] >> (a[1] - b[1])), a[1])


def power(a: tuple[int, int], n: int) -> tuple[int, int]:
    result = a
    for bit in bin(n)[3:]:
        result = multiply(result, result)
        if bit == "1":
            result = multiply(result, a)
    return result


def fixed(x: int) -> tuple[int, int]:
    return normalise(x, -32)


def integer(n: int) -> tuple[int, int]:
    return normalise(n, 0)


def root(a: tuple[int, int], n: int) -> int:
    low, high = 1, M64
    while low < high:
        middle = (low + high + 1) // 2
        m, e = power(fixed(middle), n)
        if (e, m) <= (a[1], a[0]):
            low = middle
        else:
            high = middle - 1
    return low


def carp_factors(weights: list[int]) -> list[int]:
    if len(set(weights)) == 1:
        return [ONE] * len(weights)
    order = sorted(range(len(weights)), key=lambda i: (weights[i], i))
    whole = integer(sum(weights))
    count = len(weights)
    factors = [0] * count
    x = root(multiply(integer(count), divide(integer(weights[order[0]]), whole)), count)
    factors[order[0]] = x
    product = fixed(x)
    for k in range(1, count):
        n = count - k
        gain = weights[order[k]] - weights[order[k - 1]]
        if gain > 0:
            step = divide(multiply(integer(n), divide(integer(gain), whole)), product)
            x = root(add(step, power(fixed(x), n)), n)
        factors[order[k]] = x
        product = multiply(product, fixed(x))
    return factors


# The strategies. Each gets the nodes in the order of the list and returns a function from a prepared key to the full order.


def by_name(nodes: list[Node]) -> list[int]:
    return sorted(range(len(nodes)), key=lambda i: nodes[i].name)


def weight_of(node: Node) -> int:
    return ONE if node.weight is None else node.weight


class Rendezvous:
    uses = {"weight"}

    def __init__(self, nodes: list[Node]):
        self.order = by_name(nodes)
        self.candidates = [(xxh3(nodes[i].name), weight_of(nodes[i])) for i in self.order]

    def rank(self, key: int) -> list[int]:
        return [self.order[i] for i in rank_weighted(key, self.candidates)]


class Carp:
    uses = {"weight"}

    def __init__(self, nodes: list[Node]):
        self.order = by_name(nodes)
        self.seeds = [xxh3(nodes[i].name) for i in self.order]
        self.factors = carp_factors([weight_of(nodes[i]) for i in self.order])

    def rank(self, key: int) -> list[int]:
        raws = [score(key, seed) for seed in self.seeds]
        places = sorted(range(len(raws)), key=lambda i: (-raws[i] * self.factors[i], -raws[i], i))
        return [self.order[i] for i in places]


def points_of(node: Node, per_unit: int) -> list[int]:
    seed = xxh3(node.name)
    count = max(1, (per_unit * weight_of(node) + (1 << 31)) >> 32)
    return [point(seed, i) for i in range(count)]


class Virtual:
    uses = {"weight"}

    def __init__(self, nodes: list[Node]):
        self.order = by_name(nodes)
        self.locations = [points_of(nodes[i], 64) for i in self.order]

    def rank(self, key: int) -> list[int]:
        best = [max(score(key, place) for place in places) for places in self.locations]
        return [self.order[i] for i in sorted(range(len(best)), key=lambda i: (-best[i], i))]


class Skeleton:
    uses = {"weight"}

    def __init__(self, nodes: list[Node]):
        self.nodes = nodes
        self.seeds = [xxh3(node.name) for node in nodes]

    def digits(self, node: int) -> list[int]:
        return [self.seeds[node] >> (60 - 4 * i) & 15 for i in range(16)]

    def order_of(self, key: int, members: list[int]) -> list[int]:
        if len({self.seeds[i] for i in members}) == 1:
            return sorted(members, key=lambda i: (-weight_of(self.nodes[i]), self.nodes[i].name))
        shared = 0
        while len({self.digits(i)[shared] for i in members}) == 1:
            shared += 1
        branches: dict[int, list[int]] = {}
        for i in sorted(members, key=lambda i: self.digits(i)[shared]):
            branches.setdefault(self.digits(i)[shared], []).append(i)
        candidates = []
        groups = list(branches.values())
        for group in groups:
            kept = 64 - 4 * (shared + 1)
            prefix = self.seeds[group[0]] >> kept << kept
            weight = sum(weight_of(self.nodes[i]) for i in group)
            candidates.append((mix(mix(shared + 1) ^ prefix), weight))
        result: list[int] = []
        for branch in rank_weighted(key, candidates):
            result += self.order_of(key, groups[branch])
        return result

    def rank(self, key: int) -> list[int]:
        return self.order_of(key, list(range(len(self.nodes))))


class Crush:
    uses = {"weight", "zone"}

    def __init__(self, nodes: list[Node], spread: int = 1):
        self.nodes = nodes
        self.paths = [node.zone.split(b"/") if node.zone is not None else [] for node in nodes]
        depths = {len(path) for path in self.paths}
        if len(depths) != 1:
            raise PlacementError("zones of unequal depth")
        self.depth = depths.pop()
        self.spread = spread
        if self.depth > 0 and spread > self.depth:
            raise PlacementError("no such level")

    def children(self, members: list[int], level: int) -> list[tuple[int, int, list[int]]]:
        """(seed, weight, nodes) of each child, lower ones first."""
        if level > self.depth:
            return [
                (xxh3(self.nodes[i].name), weight_of(self.nodes[i]), [i])
                for i in sorted(members, key=lambda i: self.nodes[i].name)
            ]
        zones: dict[tuple, list[int]] = {}
        for i in members:
            zones.setdefault(tuple(self.paths[i][:level]), []).append(i)
        result = []
        for path in sorted(zones):
            seed = mix((xxh3(b"/".join(path)) + level) & M64)
            result.append((seed, sum(weight_of(self.nodes[i]) for i in zones[path]), zones[path]))
        return result

    def order_of(self, key: int, members: list[int], level: int) -> list[int]:
        children = self.children(members, level)
        ranked = rank_weighted(key, [(seed, weight) for seed, weight, _ in children])
        if level > self.depth:
            return [children[i][2][0] for i in ranked]
        orders = [self.order_of(key, children[i][2], level + 1) for i in ranked]
        result = []
        for round_number in range(max(len(order) for order in orders)):
            result += [order[round_number] for order in orders if len(order) > round_number]
        return result

    def rank(self, key: int) -> list[int]:
        return self.order_of(key, list(range(len(self.nodes))), self.spread)


class Ring:
    uses = {"weight"}

    def __init__(self, nodes: list[Node]):
        self.tokens = sorted(
            (token, nodes[i].name, i) for i in range(len(nodes)) for token in points_of(nodes[i], 200)
        )

    def rank(self, key: int) -> list[int]:
        start = next((i for i, token in enumerate(self.tokens) if token[0] >= key), 0)
        result = []
        for _, _, node in self.tokens[start:] + self.tokens[:start]:
            if node not in result:
                result.append(node)
        return result


class Keyspace:
    uses = {"position"}

    def __init__(self, nodes: list[Node], partitions: int = 1024):
        self.partitions = partitions
        self.positions: list[int] = []
        for node in nodes:
            position = self.middle() if node.position is None else node.position
            if position >= partitions:
                raise PlacementError("outside the circle")
            if position in self.positions:
                raise PlacementError("position taken")
            self.positions.append(position)

    def middle(self) -> int:
        if not self.positions:
            return 0
        circle = sorted(self.positions)
        ends = circle[1:] + [circle[0] + self.partitions]
        width, start = max(((end - start, start) for start, end in zip(circle, ends)), key=lambda gap: (gap[0], -gap[1]))
        if width < 2:
            raise PlacementError("no position left")
        return (start + width // 2) % self.partitions

    def rank(self, key: int) -> list[int]:
        return sorted(
            range(len(self.positions)), key=lambda i: (self.positions[i] - key) % self.partitions
        )


class Keyspace2:
    """Several positions a node; those that are given first, then each from the node that has most."""

    uses = {"position"}

    def __init__(self, nodes: list[Node], partitions: int = 1024, per_node: int = 0):
        self.partitions = partitions
        self.owner: dict[int, int] = {}
        for index, node in enumerate(nodes):
            for position in [] if node.position is None else node.position if isinstance(node.position, tuple) else (node.position,):
                if position >= partitions:
                    raise PlacementError("outside the circle")
                if position in self.owner:
                    raise PlacementError("position taken")
                self.owner[position] = index
        for index, node in enumerate(nodes):
            for _ in range((per_node or (1 if partitions < 1024 else 16)) if node.position is None else 0):
                self.owner[self.middle(index)] = index

    def middle(self, index: int) -> int:
        if not self.owner:
            return 0
        circle = sorted(self.owner)
        gaps = [((end - start - 1) % self.partitions + 1, start, self.owner[end]) for start, end in zip(circle[-1:] + circle[:-1], circle)]
        shares: dict[int, int] = {}
        for width, _, node in gaps:
            shares[node] = shares.get(node, 0) + width

        def widest(node: int) -> tuple[int, int, int]:
            return min((gap for gap in gaps if gap[2] == node), key=lambda gap: (-gap[0], gap[1]))

        able = {node for width, _, node in gaps if width >= 2}
        others = able - {index}
        if not able:
            raise PlacementError("no position left")
        most = min(others, key=lambda node: (-shares[node], node)) if others else index
        taken = widest(most)[0] // 2
        if index in able and others and shares[index] + taken > shares[most] - taken:
            most = index
        width, start, _ = widest(most)
        return (start + width // 2) % self.partitions

    def rank(self, key: int) -> list[int]:
        result: list[int] = []
        for position in sorted(self.owner, key=lambda position: (position - key) % self.partitions):
            if self.owner[position] not in result:
                result.append(self.owner[position])
        return result


def settle(hashes: list[int]) -> list[int]:
    taken: set[int] = set()
    result = []
    for value in hashes:
        while value in taken:
            value = (value + 1) & M32
        taken.add(value)
        result.append(value)
    return result


class Chronos:
    uses: set[str] = set()

    def __init__(self, nodes: list[Node]):
        self.server = settle([murmur3(node.name, 0) for node in nodes])

    def rank(self, key: int) -> list[int]:
        hashes = settle([murmur3(key.to_bytes(8, "little"), seed) for seed in self.server])
        falling = sorted(range(len(hashes)), key=lambda i: -hashes[i])
        return [falling[-1]] + falling[:-1]


STRATEGIES = {
    "chronos": Chronos,
    "rendezvous": Rendezvous,
    "carp": Carp,
    "virtual": Virtual,
    "skeleton": Skeleton,
    "crush": Crush,
    "ring": Ring,
    "keyspace@1": Keyspace,
    "keyspace@2": Keyspace2,
}


class Map:
    """A map of nodes under a strategy; options are `spread` (crush) and `partitions` (keyspace)."""

    def __init__(self, strategy: str, nodes: list[Node], **options: int):
        names = [node.name for node in nodes]
        if not nodes or len(set(names)) != len(names):
            raise PlacementError("no nodes, or a name twice")
        self.name = strategy
        self.placement = STRATEGIES[strategy](nodes, **options)

    def key_of_id(self, number: int) -> int:
        if self.name == "chronos":
            return number
        if self.name.startswith("keyspace"):
            return self.key_of_text(number.to_bytes(8, "little"))
        return mix(number)

    def key_of_text(self, text: bytes) -> int:
        if self.name == "keyspace@1":
            return jenkins(text) * self.placement.partitions >> 32
        if self.name == "keyspace@2":
            return -(-jenkins(text) * self.placement.partitions >> 32) % self.placement.partitions
        return xxh3(text) if self.name == "chronos" else mix(xxh3(text))

    def order(self, key: int) -> list[int]:
        """All nodes, as indexes into the list, in the order of a prepared key."""
        return self.placement.rank(key)

    def lookup(self, key: int, want: int, excluded: frozenset[int] = frozenset()) -> list[int]:
        return [node for node in self.order(key) if node not in excluded][:want]
