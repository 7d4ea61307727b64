# SPDX-License-Identifier: Apache-2.0
"""A crowd of clients that set timers on a cluster, the receiver of their pops, and the account of both: what was set, what popped
once or more often, what was lost. It runs in a thread of its own, so that whoever has it may kill nodes meanwhile."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter, deque
from collections.abc import Callable


def boot() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Timer:
    __slots__ = ("serial", "asked", "interval", "at", "location", "state", "cancelled", "pops", "done", "tries", "was_unknown", "answered")

    def __init__(self, serial: int, interval: float) -> None:
        self.serial, self.interval = serial, interval
        self.asked = 0.0
        self.at = 0.0  # when it is to be due, whenever it is set; 0: after its interval
        self.location = ""
        self.state = "asked"  # then acked, refused (it has not happened), or unknown
        self.cancelled = 0.0  # when its DELETE was acknowledged
        self.pops: list[tuple[float, str, str]] = []  # when, the sequence, the version
        self.done: Callable[[Timer], None] | None = None
        self.tries = 0
        self.was_unknown = False  # it was put again, and may have popped before that
        self.answered = 0.0  # when its last request was

    @property
    def due(self) -> float:
        return self.asked + self.interval

    @property
    def is_strange(self) -> bool:
        """It popped under two names."""
        return self.is_twice and len({pop[1:] for pop in self.pops}) > 1

    @property
    def is_twice(self) -> bool:
        return len(self.pops) > 1 and not self.was_unknown


class Pops(asyncio.Protocol):
    """One connection of the receiver."""

    def __init__(self, crowd: Crowd) -> None:
        self.crowd, self.buffer = crowd, b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        while (end := self.buffer.find(b"\r\n\r\n")) >= 0:
            head = {}
            for line in self.buffer[:end].split(b"\r\n")[1:]:
                name, _, value = line.partition(b":")
                head[name.lower()] = value.strip()
            size = int(head.get(b"content-length", b"0"))
            if len(self.buffer) < end + 4 + size:
                return
            body = self.buffer[end + 4 : end + 4 + size]
            self.buffer = self.buffer[end + 4 + size :]
            status = self.crowd.popped(int(body), head[b"x-sequence-number"].decode(), head[b"x-timer-version"].decode())
            answer = b"HTTP/1.1 %d X\r\nContent-Length: 0\r\n\r\n" % status
            if self.crowd.delay:
                self.crowd.loop.call_later(self.crowd.delay, self.transport.write, answer)
            else:
                self.transport.write(answer)


class Client(asyncio.Protocol):
    """One connection to a node: a request at a time."""

    def __init__(self, crowd: Crowd, node: str) -> None:
        self.crowd, self.node = crowd, node
        self.buffer = b""
        self.waits: Callable[[int, str], None] | None = None
        self.is_open = False
        self.detail = ""  # of the last answer

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        self.is_open = True

    def connection_lost(self, error: Exception | None) -> None:
        self.is_open = False
        self.answer(0, "")
        self.crowd.lost_client(self)

    def answer(self, status: int, location: str) -> None:
        waits, self.waits = self.waits, None
        if waits is not None:
            waits(status, location)

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        end = self.buffer.find(b"\r\n\r\n")
        if end < 0:
            return
        head = self.buffer[:end].decode()
        size = 0
        location = ""
        for line in head.split("\r\n")[1:]:
            name, _, value = line.partition(":")
            if name.lower() == "content-length":
                size = int(value)
            elif name.lower() == "location":
                location = value.strip()
        if len(self.buffer) < end + 4 + size:
            return
        self.detail = self.buffer[end + 4 :].decode()[-120:]
        self.buffer = b""
        self.answer(int(head[9:12]), location)
        if "connection: close" in head.lower():
            self.transport.close()
        elif self.is_open and self.waits is None:
            self.crowd.is_free(self)

    def ask(self, method: str, path: str, body: str, waits: Callable[[int, str], None]) -> None:
        self.waits = waits
        self.transport.write(f"{method} {path} HTTP/1.1\r\nHost: {self.node}\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())


class Crowd:
    def __init__(self, nodes: list[str], connections: int = 8, factor: int = 2, host: str = "127.0.0.1") -> None:
        self.nodes, self.connections, self.factor, self.host = list(nodes), connections, factor, host
        self.timers: dict[int, Timer] = {}
        self.serial = 0
        self.rate = 0.0
        self.interval = (1.0, 3.0)
        self.queue: deque[tuple[str, Timer]] = deque()
        self.free: dict[str, list[Client]] = {}
        self.clients: set[Client] = set()
        self.opened: Counter[str] = Counter()  # of these, by node
        self.held_back = 0  # timers that were not set, since others waited for a connection
        self.is_closed = False
        self.strangers = 0
        self.refusals: Counter[str] = Counter()  # who refused, and why
        self.forgotten: Counter[str] = Counter()
        self.next_node = 0
        self.on_pop: Callable[[Timer], None] | None = None
        self.on_forget: Callable[[Timer], None] | None = None  # for those that popped twice
        self.judge: Callable[[Timer], int] | None = None
        self.delay = 0.0  # what the receiver takes

        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.run, daemon=True)
        started = threading.Event()
        self.loop.call_soon(started.set)
        self.thread.start()
        started.wait(10)
        self.server = self.do(self.listen())
        self.port = self.server.sockets[0].getsockname()[1]
        self.loop.call_soon_threadsafe(self.pace, boot(), 0.0)

    # ---- from outside ----

    def do(self, coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(60)

    def call(self, function, *arguments):
        async def inside():
            return function(*arguments)

        return self.do(inside())

    def load(self, rate: float, interval: tuple[float, float] = (1.0, 3.0)) -> None:
        """Sets timers at this rate from now on; 0 stops."""
        self.rate, self.interval = rate, interval

    def set_many(self, count: int, interval: tuple[float, float], seconds: float = 120) -> list[Timer]:
        made = self.call(lambda: [self.new_timer(interval, i / max(count, 1)) for i in range(count)])
        self.wait(lambda: all(timer.state != "asked" for timer in made), seconds, f"{count} timers are set")
        return made

    def set_at(self, count: int, at: float, span: float, seconds: float = 300) -> list[Timer]:
        """Timers that are due within a span of time, however long it takes to set them."""
        made = self.call(lambda: [self.new_timer((0, 0), 0, at + span * i / count) for i in range(count)])
        self.wait(lambda: all(timer.state != "asked" for timer in made), seconds, f"{count} timers are set")
        return made

    def cancel(self, timers: list[Timer], seconds: float = 60) -> None:
        self.call(lambda: (self.queue.extend(("DELETE", timer) for timer in timers), self.work()))
        self.wait(lambda: all(timer.cancelled > 0 for timer in timers), seconds, "all are cancelled")

    def use(self, nodes: list[str]) -> None:
        """The nodes that clients go to from now on."""
        self.nodes = list(nodes)

    def wait(self, condition: Callable[[], bool], seconds: float, what: str) -> None:
        end = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > end:
                raise AssertionError(f"not within {seconds} s: {what}; {self.account()}")
            time.sleep(0.02)

    def overdue(self, grace: float = 0.0) -> list[Timer]:
        """Acknowledged, not cancelled, and not popped."""
        now = boot() - grace
        return [timer for timer in list(self.timers.values()) if timer.state == "acked" and not timer.pops and timer.cancelled == 0 and timer.due < now]

    def drain(self, seconds: float) -> None:
        """Waits until all that is set has popped."""
        self.rate = 0
        try:
            self.wait(lambda: not self.queue and not any(timer.state == "asked" for timer in list(self.timers.values())), 60, "all requests are answered")
        except AssertionError as error:
            raise AssertionError(f"{error}; {self.unanswered()}") from None
        self.wait(lambda: not any(timer.state == "acked" and not timer.pops and timer.cancelled == 0 for timer in list(self.timers.values())), seconds, "all timers pop")

    def unanswered(self) -> str:
        """What is still to be answered, in words: for when that takes too long."""
        asked = [timer for timer in list(self.timers.values()) if timer.state == "asked"]
        some = [f"{timer.serial}: {timer.tries} tries, asked {boot() - timer.asked:.1f} s ago, {timer.location or 'nowhere yet'}" for timer in asked[:5]]
        busy = Counter(client.node for client in list(self.clients) if client.waits is not None)
        return f"{len(self.queue)} are queued, {len(asked)} are asked ({'; '.join(some)}), connections that wait: {dict(busy)}"

    def account(self) -> dict[str, int]:
        timers = list(self.timers.values())
        popped = [timer for timer in timers if timer.pops]
        return {
            "set": sum(timer.state == "acked" for timer in timers),
            "unknown": sum(timer.state == "unknown" for timer in timers),
            "refused": sum(timer.state == "refused" for timer in timers),
            "once": sum(not timer.is_twice for timer in popped),
            "twice": sum(timer.is_twice for timer in popped),
            "lost": len(self.overdue(10.0)),
            "early": sum(timer.pops[0][0] < timer.due for timer in popped),
            "strange": sum(timer.is_strange for timer in popped) + self.strangers,
            "after cancel": sum(timer.cancelled > 0 and timer.pops[-1][0] > timer.cancelled for timer in popped),
        }

    def lateness(self, since: float = 0.0, until: float = 1e18) -> list[float]:
        """How late first pops were, in seconds, of timers due in a span of time; sorted."""
        return sorted(timer.pops[0][0] - timer.due for timer in list(self.timers.values()) if timer.pops and since <= timer.due < until)

    def forget(self, everything: bool = False) -> None:
        """Timers that are over are counted, and forgotten: for runs of hours."""

        def forget() -> None:
            until = boot() - (0 if everything else 20)
            over = [timer for timer in self.timers.values() if timer.pops and timer.pops[-1][0] < until and self.is_over(timer, until)]
            for timer in over:
                self.forgotten["set"] += timer.state == "acked"
                self.forgotten["once"] += not timer.is_twice
                self.forgotten["twice"] += timer.is_twice
                self.forgotten["early"] += timer.pops[0][0] < timer.due
                self.forgotten["strange"] += timer.is_strange
                self.forgotten["after cancel"] += timer.cancelled > 0 and timer.pops[-1][0] > timer.cancelled
                if timer.is_twice and self.on_forget is not None:
                    self.on_forget(timer)
                del self.timers[timer.serial]

        self.call(forget)

    def is_over(self, timer: Timer, until: float) -> bool:
        """One whose outcome was unknown is put again, and may pop then, long after it did for the first time."""
        return timer.state != "asked" and timer.answered + timer.interval < until

    def close(self) -> None:
        self.is_closed = True

        def end():
            self.server.close()
            for client in self.clients:
                client.transport.close()
            self.loop.call_later(0.05, self.loop.stop)

        self.loop.call_soon_threadsafe(end)
        self.thread.join(5)

    # ---- inside ----

    def run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()

    async def listen(self):
        return await self.loop.create_server(lambda: Pops(self), self.host, 0, backlog=1024)

    def popped(self, serial: int, sequence: str, version: str) -> int:
        """Returns the status to answer with; only what is answered with 200 counts as a pop."""
        timer = self.timers.get(serial)
        if timer is None:
            self.strangers += 1
            return 200
        status = 200 if self.judge is None else self.judge(timer)
        if status == 200:
            timer.pops.append((boot(), sequence, version))
            if self.on_pop is not None:
                self.on_pop(timer)
        return status

    def new_timer(self, interval: tuple[float, float], where: float, at: float = 0.0) -> Timer:
        self.serial += 1
        timer = Timer(self.serial, round(interval[0] + (interval[1] - interval[0]) * where, 3))
        timer.at = at
        self.timers[timer.serial] = timer
        self.queue.append(("POST", timer))
        if len(self.queue) == 1:
            self.work()
        return timer

    def pace(self, since: float, owed: float) -> None:
        now = boot()
        owed = owed + (now - since) * self.rate
        while owed >= 1:
            owed -= 1
            if len(self.queue) < self.rate:  # else it would grow and grow, and no timer be set when it should
                self.new_timer(self.interval, (self.serial * 0.61803398875) % 1)
            else:
                self.held_back += 1
        self.work()
        if not self.is_closed:
            self.loop.call_later(0.002, self.pace, now, owed)

    def take_client(self) -> Client | None:
        """A free connection, to each node in turn."""
        for _ in range(len(self.nodes)):
            self.next_node = (self.next_node + 1) % len(self.nodes)
            node = self.nodes[self.next_node]
            free = self.free.setdefault(node, [])
            while free:
                client = free.pop()
                if client.is_open:
                    return client
            if self.opened[node] < self.connections:
                self.open_client(node)
        return None

    def open_client(self, node: str) -> None:
        client = Client(self, node)
        self.clients.add(client)
        self.opened[node] += 1

        async def connect() -> None:
            host, _, port = node.rpartition(":")
            try:
                await self.loop.create_connection(lambda: client, host, int(port))
                self.is_free(client)
            except OSError:
                await asyncio.sleep(0.05)
                self.lost_client(client)

        self.loop.create_task(connect())

    def lost_client(self, client: Client) -> None:
        if client in self.clients:
            self.clients.remove(client)
            self.opened[client.node] -= 1

    def is_free(self, client: Client) -> None:
        self.free.setdefault(client.node, []).append(client)
        self.work()

    def work(self) -> None:
        while self.queue:
            client = self.take_client()
            if client is None:
                return
            method, timer = self.queue.popleft()
            if method == "DELETE":
                self.delete(client, timer)
            else:
                self.set(client, method, timer)

    def set(self, client: Client, method: str, timer: Timer) -> None:
        def answered(status: int, location: str) -> None:
            timer.tries += 1
            if status == 503 and timer.tries < 20 and (location or "too slow" in client.detail):
                timer.location = location  # if there is one, it may be there: then it is put, and there once
                timer.was_unknown |= bool(location)
                self.loop.call_later(0.2, self.again, "PUT" if location else "POST", timer)
                return
            timer.location = location
            timer.answered = boot()
            if status == 200:
                timer.state = "acked"
            elif status == 0 or location:
                timer.state = "unknown"
            else:
                timer.state = "refused"
                self.refusals[f"{client.node} {status} {client.detail}"] += 1
            if timer.done is not None:
                timer.done(timer)

        if timer.tries == 0:
            timer.asked = boot()
        if timer.at:
            timer.interval = round(max(timer.at - timer.asked, 0), 3)
        body = (
            f'{{"timing":{{"interval":{timer.interval}}},"callback":{{"http":{{"uri":"http://{self.host}:{self.port}/","opaque":"{timer.serial}"}}}},'
            f'"reliability":{{"replication-factor":{self.factor}}}}}'
        )
        client.ask(method, "/timers" if method == "POST" else timer.location, body, answered)

    def again(self, method: str, timer: Timer) -> None:
        self.queue.append((method, timer))
        self.work()

    def delete(self, client: Client, timer: Timer) -> None:
        def answered(status: int, location: str) -> None:
            if status == 200:
                timer.cancelled = boot()
            else:
                self.queue.append(("DELETE", timer))

        client.ask("DELETE", timer.location, "", answered)
