# SPDX-License-Identifier: Apache-2.0
"""A client that speaks RESP and takes replies as they are, and a real redis-server to compare with."""

import shutil
import socket
import subprocess

from conftest import SLOW, free_port, wait_for


def encode(*words):
    words = [word if isinstance(word, bytes) else str(word).encode("latin1") for word in words]
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)


class Client:
    """Replies are their first line, and what follows it: `b"+OK"`, `(b"$1", b"x")`, `(b"*2", [...])`."""

    def __init__(self, port):
        self.stream = socket.create_connection(("127.0.0.1", port), timeout=20 * SLOW)
        self.file = self.stream.makefile("rb", 1 << 16)

    def send(self, *words):
        self.stream.sendall(encode(*words))

    def line(self):
        line = self.file.readline()
        if not line.endswith(b"\r\n"):
            raise EOFError(line)
        return line[:-2]

    def reply(self):
        line = self.line()
        kind, rest = line[:1], line[1:]
        if kind in b"$=" and rest != b"-1":
            return line, self.file.read(int(rest) + 2)[:-2]
        if kind in b"*~>" and rest != b"-1":
            return line, [self.reply() for _ in range(int(rest))]
        if kind == b"%":
            return line, [self.reply() for _ in range(2 * int(rest))]
        return line

    def __call__(self, *words):
        """Asks, and gives the value: bytes, a number, a list, or None. An error is raised."""
        self.send(*words)
        return value(self.reply())

    def pipeline(self, commands):
        self.stream.sendall(b"".join(encode(*words) for words in commands))
        return [self.reply() for _ in commands]

    def close(self):
        self.file.close()
        self.stream.close()


class Refused(Exception):
    pass


def value(reply):
    if isinstance(reply, tuple):
        return reply[1] if isinstance(reply[1], bytes) else [value(part) for part in reply[1]]
    kind, rest = reply[:1], reply[1:]
    if kind == b"-":
        raise Refused(rest.decode("latin1"))
    return int(rest) if kind == b":" else None if reply in (b"$-1", b"*-1", b"_") else rest


class Redis:
    """A redis-server of one database that keeps nothing."""

    def __init__(self, directory):
        self.port = free_port()
        words = ["--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--databases", "1", "--dir", str(directory), "--enable-debug-command", "yes"]
        self.process = subprocess.Popen([shutil.which("redis-server"), *words], stdout=subprocess.DEVNULL)
        wait_for(self.is_up, 20, "redis-server")

    def is_up(self):
        try:
            return Client(self.port)("PING") == b"PONG"
        except OSError:
            return False

    def close(self):
        self.process.kill()
        self.process.wait()
