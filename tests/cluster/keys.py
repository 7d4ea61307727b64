# SPDX-License-Identifier: Apache-2.0
"""Keys in a cluster of real processes, through redis-py: clients that remember what they were told, and hold the nodes to it."""

from __future__ import annotations

import http.server
import random
import threading
import time
from collections import Counter

import redis

from cluster import SLOW, Cluster, Member, wait_for

# What a client may be told while nodes die, stop and come back; it tries again, or does not know.
DOCUMENTED = ("UNAVAILABLE", "UNKNOWN", "LOADING", "BUSY")


def jenkins(text: str) -> int:
    h = 0
    for byte in text.encode():
        h = (h + byte) & 0xFFFFFFFF
        h = (h + (h << 10)) & 0xFFFFFFFF
        h ^= h >> 6
    h = (h + (h << 3)) & 0xFFFFFFFF
    h ^= h >> 11
    return (h + (h << 15)) & 0xFFFFFFFF


def connect(member: Member, **options) -> redis.Redis:
    return redis.Redis(member.host, member.cluster.port, decode_responses=True, socket_timeout=20 * SLOW, **options)


def roles(member: Member) -> list[str]:
    with connect(member) as client:
        return [node[1] for node in client.execute_command("NODES")]


def settled(members: list[Member], count: int) -> bool:
    """All of them know of so many nodes, which stay."""
    return all(roles(member) == ["staying"] * count for member in members)


def keyspace(cluster: Cluster, count: int, *words: object) -> list[Member]:
    """A new cluster with a keyspace."""
    nodes = cluster.start(count)
    with connect(nodes[0]) as client:
        wait_for(lambda: all(node[4] == "up" for node in client.execute_command("NODES")), 20, "all are up")
        assert client.execute_command("CREATE KEYSPACE", *words) == "OK"
    wait_for(lambda: all(connect(node).execute_command("KEYSPACE INFO") for node in nodes), 20, "all have heard")
    wait_for(lambda: len({tuple(connect(node).execute_command("KEYSPACE INFO")) for node in nodes}) == 1, 20, "all have heard")
    return nodes


def put(client: redis.Redis, values: dict[str, object]) -> None:
    """Some at a time, since what takes a busy disk longer than five seconds is answered UNKNOWN; and again, if it is."""
    names = list(values)
    for at in range(0, len(names), 50):
        some = {name: values[name] for name in names[at : at + 50]}

        def is_put() -> bool:
            try:
                return bool(client.mset(some))
            except redis.ResponseError as error:
                if not str(error).startswith(DOCUMENTED):
                    raise
                return False

        wait_for(is_put, 60, "keys are set")


def held(member: Member) -> list[str]:
    """The keys that a node holds, hints and strays too."""
    with connect(member) as client:
        return sorted(client.execute_command("KEYSPACE KEYS", member.address))


def count_misplaced(members: list[Member]) -> int:
    """Keys that a node holds and should not, or the other way round."""
    lists: dict[str, list[str]] = {}
    found: Counter[str] = Counter()
    with connect(members[0]) as client:
        for member in members:
            for key in client.execute_command("KEYSPACE KEYS", member.address):
                if key not in lists:
                    lists[key] = client.execute_command("KEYSPACE WHERE", key)
                found[key] += 1 if member.address in lists[key] else -1000
    return sum(found[key] != len(nodes) for key, nodes in lists.items())


class Receiver:
    """Counts what is called, by its path."""

    def __init__(self) -> None:
        self.called: Counter[str] = Counter()
        self.bodies: dict[str, bytes] = {}
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                receiver.bodies[self.path] = self.rfile.read(int(self.headers.get("Content-Length", "0")))
                receiver.called[self.path] += 1
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_words: object) -> None:
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def uri(self, path: str) -> str:
        return f"http://127.0.0.1:{self.server.server_port}/{path}"

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


class Clerk(threading.Thread):
    """Writes numbers that rise under keys of its own, through any node, and remembers the last that was acknowledged. What it reads
    meanwhile is compared with that when nothing has failed."""

    def __init__(self, nodes: list[Member], name: str, keys: int, rate: float) -> None:
        super().__init__(daemon=True)
        self.nodes, self.keys, self.rate = nodes, [f"{name}-{i}" for i in range(keys)], rate
        self.acknowledged: dict[str, int] = {}
        self.tried: dict[str, int] = {}
        self.errors: Counter[str] = Counter()
        self.operations = 0
        self.is_over = False
        self.strange: list[str] = []
        self.draw = random.Random(name)
        self.start()

    def run(self) -> None:
        clients: dict[str, redis.Redis] = {}
        while not self.is_over:
            nodes = self.nodes
            node = self.draw.choice(nodes)
            client = clients.setdefault(node.address, connect(node))
            key = self.draw.choice(self.keys)
            number = self.tried.get(key, 0) + 1
            try:
                if self.draw.random() < 0.5:
                    self.tried[key] = number
                    client.set(key, number)
                    self.acknowledged[key] = number
                else:
                    value = client.get(key)
                    if value is not None and int(value) > self.tried.get(key, 0):
                        self.strange.append(f"{key} is {value}, which was never written")
            except redis.exceptions.ConnectionError:
                clients.pop(node.address, None)  # a node that was killed
                self.errors["connection"] += 1
            except redis.exceptions.TimeoutError:
                clients.pop(node.address, None)
                self.errors["timeout"] += 1
            except redis.exceptions.RedisError as error:
                self.errors[str(error)[:60]] += 1
            self.operations += 1
            time.sleep(self.draw.random() * 2 / self.rate)

    def stop(self) -> None:
        self.is_over = True
        self.join(60 * SLOW)

    def check(self, node: Member) -> None:
        """What is read through a node now is what was acknowledged, or was tried later."""
        with connect(node) as client:
            for key, number in self.acknowledged.items():
                value = client.get(key)
                assert value is not None, f"{key} is lost: {number} was acknowledged"
                assert number <= int(value) <= self.tried[key], f"{key} is {value}: {number} was acknowledged, {self.tried[key]} tried"

    def undocumented(self) -> dict[str, int]:
        return {text: count for text, count in self.errors.items() if text not in ("connection", "timeout") and not text.startswith(DOCUMENTED)}
