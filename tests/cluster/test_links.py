# SPDX-License-Identifier: Apache-2.0
"""Who may be a node of the cluster: secrets, replays, versions, addresses, garbage. What is refused is counted, and has no effect."""

import hashlib
import hmac
import json
import os
import socket
import struct
import subprocess
import time

import pytest

from cluster import SLOW, TRYST, Cluster, wait_for

SECRET = "a secret of some length"
UPGRADE = b"GET /peer HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: tryst-peer\r\n\r\n"


def varint(number):
    out = b""
    while number >= 128:
        out += bytes([number & 127 | 128])
        number >>= 7
    return out + bytes([number])


def span(text):
    return varint(len(text)) + text


def message(body):
    return struct.pack("<I", len(body)) + body


class Stranger:
    """Speaks the protocol of links by hand, from an address of its own choice."""

    def __init__(self, node, source=None):
        self.node = node
        self.socket = socket.create_connection((node.host, node.cluster.port), timeout=5 * SLOW, source_address=(source, 0) if source else None)
        self.buffer = b""
        self.socket.sendall(UPGRADE)
        while b"\r\n\r\n" not in self.buffer:
            self.fill()
        head, self.buffer = self.buffer.split(b"\r\n\r\n", 1)
        assert head.startswith(b"HTTP/1.1 101"), head

    def fill(self):
        piece = self.socket.recv(65536)
        if not piece:
            raise EOFError
        self.buffer += piece

    def send(self, body):
        self.socket.sendall(message(body))

    def read(self):
        while len(self.buffer) < 4 or len(self.buffer) < 4 + struct.unpack("<I", self.buffer[:4])[0]:
            self.fill()
        size = struct.unpack("<I", self.buffer[:4])[0]
        body, self.buffer = self.buffer[4 : 4 + size], self.buffer[4 + size :]
        return body

    def call(self, own, version=4, nonce=b"n" * 32, to=None):
        self.own, self.nonce, self.version = own.encode(), nonce, version
        self.send(b"\x01" + varint(version) + span(self.own) + span((to or self.node.address).encode()) + nonce)
        return self.read()

    def proof(self, reply, secret, role=1):
        other = reply[2:34]
        oath = span(b"tryst-peer") + bytes([role]) + varint(self.version) + span(self.own) + span(self.node.address.encode()) + self.nonce + other
        return hmac.new(secret.encode(), oath, hashlib.sha256).digest()

    def is_closed(self):
        """Nothing more comes but the end."""
        try:
            while self.socket.recv(65536):
                pass
        except (ConnectionResetError, BrokenPipeError):
            pass
        except TimeoutError:
            return False
        return True


def refusal(body):
    assert body[0] == 4, body
    return body[2:].decode()


@pytest.fixture
def pair(tmp_path):
    """Two nodes that are there, and a third of the view that is not, which a stranger may play."""

    def make(secret=SECRET):
        made = Cluster(tmp_path)
        nodes = made.add(3)
        for node in nodes:
            node.configure(nodes)
            if secret:
                node.environment["TRYST_CLUSTER_SECRET"] = secret
        for node in nodes[:2]:
            node.start(wait=False)
        for node in nodes[:2]:
            wait_for(node.is_ready, 30, "ready")
        pair.made = made
        return nodes

    yield make
    pair.made.close()


def counts(node):
    metrics = node.metrics()
    return metrics["tryst_links_refused_total"], metrics["tryst_timers{state=\"pending\"}"], metrics["tryst_peers_up"]


def test_the_right_secret_is_let_in(pair):
    nodes = pair()
    stranger = Stranger(nodes[0], nodes[2].host)
    reply = stranger.call(nodes[2].address)
    assert reply[0] == 2 and reply[34:] == stranger.proof(reply, SECRET, role=2)
    stranger.send(b"\x03" + stranger.proof(reply, SECRET))
    assert stranger.read()[0] == 1  # its HELLO


def test_a_wrong_secret_is_refused(pair):
    nodes = pair()
    before = counts(nodes[0])
    stranger = Stranger(nodes[0], nodes[2].host)
    reply = stranger.call(nodes[2].address)
    stranger.send(b"\x03" + stranger.proof(reply, "another secret"))
    assert stranger.is_closed()
    after = counts(nodes[0])
    assert after[0] == before[0] + 1 and after[1:] == before[1:]
    assert "does not have the same secret" in nodes[0].log()


def test_a_replayed_proof_is_refused(pair):
    nodes = pair()
    first = Stranger(nodes[0], nodes[2].host)
    proof = first.proof(first.call(nodes[2].address), SECRET)
    first.send(b"\x03" + proof)
    assert first.read()[0] == 1
    before = counts(nodes[0])
    second = Stranger(nodes[0], nodes[2].host)
    second.call(nodes[2].address)  # the same nonce; the node's own is another one
    second.send(b"\x03" + proof)
    assert second.is_closed() and counts(nodes[0])[0] == before[0] + 1


def test_a_dialler_checks_the_node_it_has_called(pair):
    """A node that has another secret is not believed by the one that dials it."""
    nodes = pair()
    nodes[2].environment["TRYST_CLUSTER_SECRET"] = "another secret"
    nodes[2].start(wait=False)
    wait_for(lambda: "does not have the same secret" in nodes[0].log() + nodes[1].log(), 20, "they tell each other apart")
    assert counts(nodes[0])[2] == 1 and nodes[2].metrics()["tryst_peers_up"] == 0
    heard = {node.address: nodes[0].metrics()[f'tryst_peer_up{{peer="{node.address}"}}'] for node in nodes[1:]}
    assert heard == {nodes[1].address: 1, nodes[2].address: 0}


@pytest.mark.parametrize("version", [0, 99])
def test_an_unknown_version_is_spoken_down_or_refused(pair, version):
    nodes = pair()
    stranger = Stranger(nodes[0], nodes[2].host)
    answer = stranger.call(nodes[2].address, version=version)
    if version == 99:
        assert answer[0] == 2 and answer[1] < 99  # the highest that both speak
    else:
        assert "version" in refusal(answer)


def test_an_address_of_no_view_is_refused(pair):
    nodes = pair()
    before = counts(nodes[0])
    assert "of no view" in refusal(Stranger(nodes[0]).call("10.9.8.7:7253"))
    assert "of no view" in refusal(Stranger(nodes[0]).call(nodes[0].address))
    assert "another address" in refusal(Stranger(nodes[0]).call(nodes[2].address, to="10.9.8.7:7253"))
    assert counts(nodes[0]) == (before[0] + 3, *before[1:])


def test_without_a_secret_the_source_address_counts(pair):
    nodes = pair(secret=None)
    assert "another address than the node it says it is" in refusal(Stranger(nodes[0], "127.0.0.1").call(nodes[2].address))
    reply = Stranger(nodes[0], nodes[2].host).call(nodes[2].address)
    assert reply[0] == 2


def test_garbage_is_refused(pair):
    nodes = pair()
    before = counts(nodes[0])
    for body in (b"\xff" * 40, b"\x01", b"\x02" * 70, b"\x03" + b"p" * 32, os.urandom(300)):
        stranger = Stranger(nodes[0], nodes[2].host)
        stranger.send(body)
        assert stranger.is_closed()
    for raw in (struct.pack("<I", 0), struct.pack("<I", 0xFFFFFFFF), struct.pack("<I", 641) + b"x" * 641):
        stranger = Stranger(nodes[0], nodes[2].host)
        stranger.socket.sendall(raw)
        assert stranger.is_closed()
    assert counts(nodes[0]) == (before[0] + 8, *before[1:])


def test_garbage_frames_reset_the_link(pair):
    """One who knows the secret and sends nonsense is cut off; what the others hold is untouched."""
    nodes = pair()
    body = '{"timing":{"interval":60},"callback":{"http":{"uri":"http://127.0.0.1:1/","opaque":"x"}}}'
    location = nodes[0].request("POST", "/timers", body)[1]["location"]
    resets = nodes[0].metrics()["tryst_links_reset_total"]
    for frame in (b"\xee" * 100, b"\x05\x00" + os.urandom(200), bytes(10), b"\x01\x01"):
        stranger = Stranger(nodes[0], nodes[2].host)
        reply = stranger.call(nodes[2].address)
        stranger.send(b"\x03" + stranger.proof(reply, SECRET))
        stranger.read()
        stranger.send(frame)
        assert stranger.is_closed()
    assert nodes[0].metrics()["tryst_links_reset_total"] == resets + 4
    assert json.loads(nodes[1].request("GET", location)[2])["state"] == "pending"


def test_a_silent_caller_does_not_stay(pair):
    nodes = pair()
    stranger = Stranger(nodes[0], nodes[2].host)
    assert stranger.is_closed()


def test_peer_without_an_upgrade(pair):
    nodes = pair()
    status, headers, body = nodes[0].request("GET", "/peer")
    assert status == 426 and headers["upgrade"] == "tryst-peer" and b"after an upgrade" in body


def test_a_client_may_not_name_replicas(pair):
    nodes = pair()
    body = '{"timing":{"interval":60},"callback":{"http":{"uri":"http://127.0.0.1:1/","opaque":"x"}},"reliability":{"replicas":["10.0.0.1:7253"]}}'
    assert nodes[0].request("POST", "/timers", body)[0] == 403
    assert counts(nodes[0])[1] == 0


def test_the_nodes_are_set_by_who_knows_the_secret(pair, tmp_path):
    nodes = pair()
    text = "[cluster]\n" + "".join(f"node = {node.address}\n" for node in nodes[:2])
    assert nodes[0].request("PUT", "/cluster", text)[0] == 403
    assert nodes[0].request("PUT", "/cluster", text, {"Tryst-Proof": "0" * 64})[0] == 403
    challenge = bytes.fromhex(nodes[0].json("/cluster")["challenge"])[::-1]
    oath = span(b"tryst-apply") + span(nodes[0].address.encode()) + challenge + span(text.encode())
    proof = hmac.new(SECRET.encode(), oath, hashlib.sha256).hexdigest()
    assert nodes[0].request("PUT", "/cluster", text + " ", {"Tryst-Proof": proof})[0] == 403
    status, _, body = nodes[0].request("PUT", "/cluster", text, {"Tryst-Proof": proof})
    assert status == 200 and json.loads(body)["changing"] is False  # it is so already
    assert nodes[0].request("PUT", "/cluster", text, {"Tryst-Proof": proof})[0] == 403  # good once

    (tmp_path / "two.conf").write_text(text)
    run = lambda **environment: subprocess.run([TRYST, "cluster", "apply", tmp_path / "two.conf", "--force", "--yes"], capture_output=True, text=True, env={**os.environ, **environment}, timeout=60 * SLOW)
    assert "wants the cluster's secret" in run().stderr
    done = run(TRYST_CLUSTER_SECRET=SECRET)
    assert done.returncode == 0 and "done: 2 nodes" in done.stdout, done


@pytest.mark.parametrize(
    "text, why",
    [
        ("", "names no node"),
        ("[cluster]\nnode = 1.2.3.4\n", "HOST:PORT"),
        ("[cluster]\nnode = 1.2.3.4:5\njoining = 1.2.3.4:5\n", "twice"),
        ("[storage]\ndata-dir = /\n", "only node, joining, leaving and lost"),
        ("[cluster\n", ""),
        ("[cluster]\n" + "".join(f"node = 10.0.{i // 200}.{i % 200}:1\n" for i in range(257)), "more nodes than"),
    ],
)
def test_a_bad_list_of_nodes_changes_nothing(pair, text, why):
    nodes = pair(secret=None)
    view = nodes[0].json("/cluster")["view"]
    status, _, body = nodes[0].request("PUT", "/cluster", text)
    assert status == 400 and why in json.loads(body)["detail"]
    assert nodes[0].json("/cluster")["view"] == view


def test_strangers_who_only_knock_keep_nobody_out(pair):
    nodes = pair()
    knockers = [Stranger(nodes[0]) for _ in range(100)]  # more than may wait
    reply = Stranger(nodes[0]).call(nodes[2].address)
    assert reply[0] == 2
    assert knockers[0].is_closed()  # the oldest make room


@pytest.mark.parametrize("which", [0, 1])
def test_two_processes_with_one_address(tmp_path, which):
    """They take each other's links only for a while; then it is said, and one of them keeps its own."""
    cluster = Cluster(tmp_path, shared=f"[cluster]\nsecret = {SECRET}\n")
    try:
        nodes = cluster.start(2)
        double = cluster.add(1)[0]
        double.configure(nodes)
        config = double.folder / "chronos_cluster.conf"
        config.write_text(config.read_text().replace(f"localhost = {double.address}", f"localhost = {nodes[which].address}"))
        double.start(wait=False)
        wait_for(lambda: f"do two processes say that they are {nodes[which].address}?" in nodes[1 - which].log(), 40, nodes[1 - which].log())
        before = nodes[1 - which].metrics()["tryst_links_made_total"]
        time.sleep(3)
        assert nodes[1 - which].metrics()["tryst_links_made_total"] - before <= 6
    finally:
        cluster.close()
