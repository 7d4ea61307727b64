# SPDX-License-Identifier: Apache-2.0
"""Clients that mean harm, or do not know better: nobody else is disturbed, and memory has its bound."""

import os
import random
import re
import socket
import threading
import time

import pytest

from conftest import SLOW, wait_for
from resp import Client, encode

IDLE = int(os.environ.get("TRYST_IDLE", "1000"))
PIPELINE = int(os.environ.get("TRYST_PIPELINE", "100000"))


def resident_mib(node):
    return int(re.search(r"VmRSS:\s+(\d+)", open(f"/proc/{node.process.pid}/status").read())[1]) / 1024


def is_served(node):
    """Somebody else is answered at once."""
    client = Client(node.port)
    begun = time.monotonic()
    assert client("SET", "other", "1") == b"OK" and client("GET", "other") == b"1"
    client.close()
    return time.monotonic() - begun < 2 * SLOW


def open_stream(node):
    return socket.create_connection(("127.0.0.1", node.port), timeout=20 * SLOW)


def test_half_commands_and_idle_connections(node):
    halves = [b"*", b"*2\r\n$3\r\nGE", b"*1\r\n$2000000\r\nabc", b"PIN", b"*1000000\r\n", b"*1\r\n$", b"GET / HT", b""]
    before = resident_mib(node)
    streams = []
    for i in range(IDLE):
        stream = open_stream(node)
        stream.sendall(halves[i % len(halves)])
        streams.append(stream)
    assert is_served(node)
    # A sanitized build keeps what is freed.
    assert resident_mib(node) - before < 20 * SLOW**2 + IDLE * 8 / 1024 * SLOW
    assert node.metrics()["tryst_connections"] >= IDLE
    for stream in streams:
        stream.close()
    wait_for(lambda: node.metrics()["tryst_connections"] < 10, 20, "they are gone")


def test_a_client_that_never_reads(node):
    client = Client(node.port)
    client("SET", "large", "v" * 1000000)
    before = resident_mib(node)
    deaf = open_stream(node)
    deaf.settimeout(0.2)
    sent = 0
    try:
        for _ in range(20000):
            sent += deaf.send(encode("GET", "large") * 100)
    except TimeoutError:
        pass
    assert is_served(node)
    assert resident_mib(node) - before < 200 * SLOW
    deaf.close()
    assert is_served(node)


def test_a_long_pipeline(node):
    """All in one go, answered in order, while others are served."""
    stream = open_stream(node)
    data = b"".join(encode("SET", f"k{i % 1000}", i) + encode("INCR", "n") for i in range(PIPELINE // 2))
    sender = threading.Thread(target=stream.sendall, args=(data,))
    sender.start()
    assert is_served(node)
    file = stream.makefile("rb", 1 << 20)
    for i in range(PIPELINE // 2):
        assert file.readline() == b"+OK\r\n" and file.readline() == b":%d\r\n" % (i + 1)
    sender.join()
    assert Client(node.port)("DBSIZE") == min(1000, PIPELINE // 2) + 2


def test_a_pipeline_that_is_sent_before_anything_is_read(node):
    """As many client libraries do it. Its replies are 40 MB."""
    client = Client(node.port)
    client("SET", "k", "v" * 200)
    stream = open_stream(node)
    stream.sendall(encode("GET", "k") * 200000)
    size = 200000 * len(b"$200\r\n" + b"v" * 200 + b"\r\n")
    while size > 0:
        size -= len(stream.recv(1 << 20))
    assert size == 0 and is_served(node)


def test_who_waited_for_those_that_do_not_read_goes_on(node):
    """Each has little while all of them have much; and more again when they are gone."""
    client = Client(node.port)
    client("SET", "large", "v" * 1000000)
    client("SET", "k", "v" * 200)
    before = resident_mib(node)
    deaf = [open_stream(node) for _ in range(8)]
    for stream in deaf:
        stream.sendall(encode("GET", "large") * 100)
    wait_for(lambda: resident_mib(node) - before > 256, 20 * SLOW, "they have much")
    stream = open_stream(node)
    sender = threading.Thread(target=stream.sendall, args=(encode("GET", "k") * 200000,))
    sender.start()
    sender.join(1)
    assert sender.is_alive() and is_served(node)
    assert resident_mib(node) - before < 1000 * SLOW
    for other in deaf:
        other.close()
    sender.join(20 * SLOW)
    assert not sender.is_alive() and is_served(node)
    stream.close()


def test_who_goes_on_after_an_error_is_cut_off(node):
    stream = open_stream(node)
    stream.sendall(b"*x\r\n")
    begun = time.monotonic()
    with pytest.raises(OSError):
        while time.monotonic() - begun < 20 * SLOW:
            stream.sendall(b"payload")
    assert stream.recv(4096).startswith(b"-ERR Protocol error")


def test_commands_in_the_body_of_a_request_are_not_carried_out(node):
    for lines in (b"POST /x HTTP/1.1\r\nHost: a\r\n", b"GET / HTTP/1.1\r\nHost: a\r\n"):
        answer = node.raw(b"*1\r\n$4\r\nPING\r\n" + lines + b"Content-Length: 13\r\n\r\nSET smuggled 1\r\n")
        assert answer.startswith(b"+PONG\r\n") and b"+OK" not in answer
    assert Client(node.port)("GET", "smuggled") is None


def test_lengths_beyond_reason(node):
    for data in (b"*9223372036854775808\r\n", b"*2\r\n$3\r\nGET\r\n$9223372036854775808\r\n", b"*1\r\n$18446744073709551616\r\n", b"*-9223372036854775809\r\n", b"*1\r\n$-2\r\n"):
        answer = node.raw(data)
        assert answer.startswith(b"-ERR Protocol error: invalid"), (data, answer)
    assert is_served(node)


def test_noise(node):
    """Bytes that were commands once."""
    draw = random.Random(7)
    good = encode("SET", "a", "b") + encode("GET", "a") + b"PING\r\n" + encode("MGET", "a", "b", "c") + encode("SCAN", "0")
    for _ in range(300):
        data = bytearray(good)
        for _ in range(draw.randrange(1, 6)):
            data[draw.randrange(len(data))] = draw.choice([draw.randrange(256), 0, 13, 10, ord("*"), ord("$")])
        with open_stream(node) as stream:
            stream.sendall(data[: draw.randrange(1, len(data))])
            if draw.random() < 0.5:
                stream.shutdown(socket.SHUT_WR)
                while stream.recv(65536):
                    pass
    assert is_served(node)


def test_too_many_unfinished_bytes(node):
    """Large commands that never end: who sends more than all clients may have there is closed."""
    before = resident_mib(node)
    streams, closed = [], 0
    piece = b"v" * (1 << 20)
    for _ in range(8):
        stream = open_stream(node)
        stream.settimeout(5 * SLOW)
        streams.append(stream)
        try:
            stream.sendall(b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$67108864\r\n")
            for _ in range(60):
                stream.sendall(piece)
        except OSError:
            closed += 1
    assert is_served(node)
    assert closed > 0 and resident_mib(node) - before < 400 * SLOW
    for stream in streams:
        stream.close()


def test_replies_that_are_too_large(node):
    client = Client(node.port)
    client("SET", "large", "v" * 1000000)
    before = resident_mib(node)
    client.send("MGET", *["large"] * 20000)
    assert client.line() == b"-ERR the reply is too large"
    assert client("PING") == b"PONG" and resident_mib(node) - before < 700


def test_who_pauses_finds_keys_that_live_as_long_as_they_should(node):
    """Commands that waited for their client to read are carried out by the clock of then."""
    client = Client(node.port)
    client("SET", "large", "v" * 1000000)
    client.stream.sendall(encode("GET", "large") * 90 + encode("SET", "short", "1", "EX", 2))
    time.sleep(3)
    for _ in range(90):
        client.reply()
    assert client.reply() == b"+OK" and client("GET", "short") == b"1"


def test_arguments_that_drip(node):
    """What was read of a command is not read again for each byte."""
    with open_stream(node) as stream:
        stream.sendall(b"*300000\r\n" + b"$1\r\na\r\n" * 200000)
        for _ in range(300):
            for piece in (b"$", b"1", b"\r\n", b"a\r\n"):
                stream.sendall(piece)
                time.sleep(0)
        begun = time.monotonic()
        assert is_served(node) and time.monotonic() - begun < 1 * SLOW


def test_names_with_zero_bytes(node):
    client = Client(node.port)
    client.send(b"get\x0055")
    assert client.reply().startswith(b"-ERR unknown command")
    client.send(b"flushall\x00")
    assert client.reply().startswith(b"-ERR unknown command")


def test_skipped_replies(node):
    client = Client(node.port)
    client.stream.sendall(encode("CLIENT", "REPLY", "SKIP") + encode("NOSUCH") + encode("PING"))
    assert client.reply() == b"+PONG"
    client.stream.sendall(encode("CLIENT", "REPLY", "OFF") + encode("PING") + encode("CLIENT", "REPLY", "ON"))
    assert client.reply() == b"+OK"
    client.stream.sendall(encode("CLIENT", "REPLY", "OFF") + encode("QUIT"))
    assert client.file.read() == b""  # it closes, without a word
