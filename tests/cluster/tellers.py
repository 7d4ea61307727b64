# SPDX-License-Identifier: Apache-2.0
"""Clients of keys at a rate, in a process of their own: each writes numbers that rise under keys that nobody else writes, reads them,
and remembers what was acknowledged. Beside them one client goes through all keys again and again.

As a program it is told on its standard input which nodes to ask, and says at the end, and on the way, what it has seen."""

from __future__ import annotations

import asyncio
import json
import random
import subprocess
import sys
import time
from collections import Counter

DOCUMENTED = ("UNAVAILABLE", "UNKNOWN", "LOADING", "BUSY")
STEADY = 500  # keys that are there throughout
PATIENCE = 20.0  # seconds for an answer


class Tellers:
    """What runs them, for a test or the demonstration."""

    def __init__(self, nodes: list[str], rate: float) -> None:
        self.process = subprocess.Popen([sys.executable, __file__, str(rate)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.tell({"nodes": nodes})

    def tell(self, word: dict) -> dict:
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write(json.dumps(word) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def use(self, nodes: list[str]) -> None:
        self.tell({"nodes": nodes})

    def count(self) -> dict:
        return self.tell({"count": True})

    def finish(self, nodes: list[str]) -> dict:
        """No more is written; what each of these nodes answers is held against what was acknowledged."""
        told = self.tell({"finish": nodes})
        self.close()
        return told

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()


class Connection:
    """Commands that are sent at once, and their replies."""

    @classmethod
    async def open(cls, node: str) -> Connection:
        made = cls()
        host, _, port = node.rpartition(":")
        made.reader, made.writer = await asyncio.wait_for(asyncio.open_connection(host, int(port), limit=1 << 24), PATIENCE)
        return made

    async def ask(self, commands: list[tuple]) -> list:
        text = b"".join(b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in (str(word).encode() for word in words)) for words in commands)
        self.writer.write(text)
        return [await asyncio.wait_for(self.reply(), PATIENCE) for _ in commands]

    async def reply(self):
        line = await self.reader.readline()
        if not line.endswith(b"\r\n"):
            raise ConnectionError("it ended")
        kind, rest = line[:1], line[1:-2]
        if kind == b"$":
            return None if rest == b"-1" else (await self.reader.readexactly(int(rest) + 2))[:-2].decode()
        if kind == b"*":
            return [await self.reply() for _ in range(int(rest))]
        return RuntimeError(rest.decode()) if kind == b"-" else rest.decode()

    def close(self) -> None:
        self.writer.close()


class Teller:
    """One client. What it was writing when a connection broke may have been written, or not."""

    def __init__(self, crowd: Worker, number: int, rate: float) -> None:
        self.crowd, self.rate, self.draw = crowd, rate, random.Random(number)
        self.keys = [f"teller-{number}-{i}" for i in range(200)]
        self.tried: dict[str, int] = {}
        self.acknowledged: dict[str, int] = {}

    async def run(self) -> None:
        connection, node = None, ""
        owed, last = 0.0, time.monotonic()
        while not self.crowd.is_over:
            await asyncio.sleep(0.02)
            now = time.monotonic()
            owed, last = min(owed + (now - last) * self.rate, self.rate), now
            batch = [self.draw.choice(self.keys) for _ in range(int(owed))]
            batch = list(dict.fromkeys(batch))
            owed -= len(batch)
            if not batch:
                continue
            try:
                if connection is None or node not in self.crowd.nodes or self.draw.random() < 0.002:
                    if connection is not None:
                        connection.close()
                    node = self.draw.choice(self.crowd.nodes)
                    connection = await Connection.open(node)
                await self.work(connection, batch)
            except (OSError, asyncio.IncompleteReadError, asyncio.TimeoutError) as error:
                self.crowd.errors["timeout" if isinstance(error, asyncio.TimeoutError) else "connection"] += 1
                connection = None
        if connection is not None:
            connection.close()

    async def work(self, connection: Connection, batch: list[str]) -> None:
        commands = []
        for key in batch:
            if self.draw.random() < 0.5:
                self.tried[key] = self.tried.get(key, 0) + 1
                commands.append(("SET", key, self.tried[key]))
            else:
                commands.append(("GET", key))
        for words, reply in zip(commands, await connection.ask(commands)):
            self.crowd.operations += 1
            if isinstance(reply, RuntimeError):
                self.crowd.errors[str(reply)[:60]] += 1
            elif words[0] == "SET":
                self.acknowledged[words[1]] = words[2]
            elif reply is not None and int(reply) > self.tried.get(words[1], 0):
                self.crowd.wrong.append(f"{words[1]} is {reply}, which was never written")
            elif int(reply or 0) < self.acknowledged.get(words[1], 0):
                self.crowd.stale += 1


class Worker:
    def __init__(self, rate: float) -> None:
        self.nodes: list[str] = []
        self.errors: Counter[str] = Counter()
        self.wrong: list[str] = []
        self.stale = 0  # reads of something older than what was acknowledged, which a fault may cause
        self.operations = 0
        self.scans = 0
        self.is_over = False
        count = max(1, min(32, int(rate / 100)))
        self.tellers = [Teller(self, i, rate / count) for i in range(count)]

    async def scan(self) -> None:
        """Keys that are there throughout are told, whatever becomes of the nodes."""
        steady = {f"steady-{i}" for i in range(STEADY)}
        while not self.is_over:
            try:
                connection = await Connection.open(random.choice(self.nodes))
                if self.scans == 0:
                    replies = await connection.ask([("SET", key, 1) for key in sorted(steady)])
                    if any(isinstance(reply, RuntimeError) for reply in replies):
                        raise ConnectionError("not all are there")
                cursor, found = "0", set()
                while True:
                    (reply,) = await connection.ask([("SCAN", cursor, "COUNT", 500)])
                    if isinstance(reply, RuntimeError):
                        self.errors[str(reply)[:60]] += 1
                        await asyncio.sleep(0.1)
                        continue
                    cursor = reply[0]
                    found.update(reply[1])
                    if cursor == "0":
                        break
                self.scans += 1
                missing = steady - found
                if missing:
                    self.wrong.append(f"a scan missed {len(missing)} keys: {sorted(missing)[:3]}")
                connection.close()
                await asyncio.sleep(0.5)
            except (OSError, asyncio.IncompleteReadError, asyncio.TimeoutError):
                await asyncio.sleep(0.1)

    def told(self) -> dict:
        undocumented = {text: count for text, count in self.errors.items() if text not in ("connection", "timeout") and not text.startswith(DOCUMENTED)}
        return {"operations": self.operations, "keys": sum(len(teller.acknowledged) for teller in self.tellers), "scans": self.scans, "stale": self.stale, "errors": dict(self.errors), "undocumented": undocumented, "wrong": self.wrong[:20]}

    async def check(self, node: str) -> None:
        connection = await Connection.open(node)
        for teller in self.tellers:
            keys = sorted(teller.acknowledged)
            for _ in range(100):
                replies = await connection.ask([("GET", key) for key in keys])
                if not any(isinstance(reply, RuntimeError) for reply in replies):
                    break
                await asyncio.sleep(0.1)
            for key, reply in zip(keys, replies):
                least, most = teller.acknowledged[key], teller.tried[key]
                if isinstance(reply, RuntimeError) or not least <= int(reply or 0) <= most:
                    self.wrong.append(f"{node}: {key} is {reply}; {least} was acknowledged, {most} tried")
        connection.close()

    async def main(self) -> None:
        loop = asyncio.get_running_loop()
        tasks: list[asyncio.Task] = []
        while True:
            line = await loop.run_in_executor(None, sys.stdin.readline)
            if not line:
                return
            word = json.loads(line)
            if "nodes" in word:
                self.nodes = word["nodes"]
                if not tasks:
                    tasks = [asyncio.create_task(teller.run()) for teller in self.tellers] + [asyncio.create_task(self.scan())]
            if "finish" in word:
                self.is_over = True
                await asyncio.gather(*tasks)
                for node in word["finish"]:
                    await self.check(node)
            print(json.dumps(self.told()), flush=True)


if __name__ == "__main__":
    asyncio.run(Worker(float(sys.argv[1])).main())
