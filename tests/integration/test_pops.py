# SPDX-License-Identifier: Apache-2.0
"""What receivers see, and what happens when they fail."""

import json
import socket
import ssl
import subprocess
import threading
import time

import pytest

from conftest import Receiver, free_port, timer_body, wait_for


def boot():
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def test_the_headers_of_a_pop(node, receiver):
    location = node.create(receiver.uri + "/a/b?c=d", 0.05, opaque="héllo").location
    pop = receiver.wait(1)[0]
    timer_id = location.split("/")[2]
    version = pop.headers["x-timer-version"]
    assert pop.path == "/a/b?c=d" and pop.body == "héllo".encode()
    assert pop.headers["x-sequence-number"] == "1" and pop.headers["x-timer-id"] == timer_id
    assert pop.headers["content-type"] == "text/plain; charset=utf-8"
    assert pop.headers["ce-id"] == f"{timer_id[:16]}/{version}/1"
    assert pop.headers["ce-specversion"] == "1.0" and pop.headers["ce-type"] and pop.headers["ce-source"] and pop.headers["ce-time"]
    node.create(receiver.uri, 0.05, **{"content-type": "application/json"})
    assert receiver.wait(2)[1].headers["content-type"] == "application/json"


def test_so_many_pops_or_without_end(node, receiver):
    def body(**timing):
        return json.dumps({"timing": timing, "callback": {"http": {"uri": receiver.uri, "opaque": ""}}})

    counted = node.request("POST", "/timers", body(interval=0.05, count=3)).location
    receiver.wait(3)
    wait_for(lambda: node.get(counted).status == 404, what="the end of the timer")
    endless = node.request("POST", "/timers", body(interval=0.05, **{"repeat-for": "forever"})).location
    receiver.wait(15)
    shown = node.get(endless).json()
    assert shown["timing"] == {"interval": 0.05, "repeat-for": "forever"}
    assert node.request("PUT", endless, json.dumps({"timing": shown["timing"], "callback": shown["callback"]})).status == 200  # as it was shown
    assert node.request("DELETE", endless).status == 200
    assert [pop.sequence for pop in receiver.pops][:3] == [1, 2, 3]


def test_a_failed_attempt_says_why(nodes, receiver):
    node = nodes(config="[callback]\nattempts = 2\nbackoff-ms = 10\ntimeout-ms = 300\ndeny = 127.0.0.3/32\n[logging]\nlevel = 4\n").start()
    with socket.socket() as mute, socket.socket() as rude, socket.socket() as odd:
        for one in (mute, rude, odd):
            one.bind(("127.0.0.1", 0))
            one.listen(16)

        def answer(listener, text):
            while True:
                try:
                    client, _ = listener.accept()
                except OSError:
                    return
                client.recv(4096)
                client.sendall(text)
                client.close()

        for listener, text in ((rude, b""), (odd, b"hello\r\n\r\n")):
            threading.Thread(target=answer, args=(listener, text), daemon=True).start()
        cases = {
            f"http://127.0.0.1:{free_port()}/": "the connection was refused",
            "http://no.such.host.invalid/": "its host has no address (dns)",
            "http://127.0.0.3:1/": "its address is in a network of [callback] deny",
            f"http://127.0.0.1:{mute.getsockname()[1]}/": "it timed out",
            f"http://127.0.0.1:{rude.getsockname()[1]}/": "the connection broke (reset)",
            f"http://127.0.0.1:{odd.getsockname()[1]}/": "its answer is no HTTP",
            f"https://127.0.0.1:{odd.getsockname()[1]}/": "TLS failed",
            receiver.uri + "/status/503": "HTTP status 503",
        }
        for uri, why in cases.items():
            location = node.create(uri, 0.05).location
            mark = f"timer {location.split('/')[2][:16]}: attempt 2 of pop 1, to {uri.split('/')[0]}//{uri.split('/')[2]}, failed: {why}"
            wait_for(lambda mark=mark: mark in node.log(), 20, mark)


def test_pops_are_never_early(node, receiver):
    due = []
    for i in range(300):
        interval = 0.05 + i * 0.002
        due.append(boot() + interval)
        node.create(f"{receiver.uri}/{i}", interval)
    receiver.wait(300)
    for pop in receiver.pops:
        assert pop.at >= due[int(pop.path[1:])]


@pytest.mark.parametrize("status", [200, 201, 202, 204, 206])
def test_any_2xx_is_success(node, receiver, status):
    node.create(f"{receiver.uri}/status/{status}", 0.05, 0.15)
    receiver.wait(3)
    time.sleep(0.3)
    assert [pop.sequence for pop in receiver.pops] == [1, 2, 3]


@pytest.mark.parametrize("status", [302, 404, 500, 503])
def test_failures_are_tried_again_then_dead(node, receiver, status):
    location = node.create(f"{receiver.uri}/status/{status}", 0.05).location
    receiver.wait(3)
    dead = wait_for(lambda: node.get("/timers?state=dead").json()["timers"], what="a dead pop")
    assert "/timers/" + dead[0]["id"] == location and dead[0]["state"] == "dead" and dead[0]["attempts"] == 3
    time.sleep(0.3)
    assert len(receiver.pops) == 3 and {pop.path for pop in receiver.pops} == {f"/status/{status}"}
    assert {pop.sequence for pop in receiver.pops} == {1}
    assert node.metrics()['tryst_pops_total{result="dead"}'] == 1
    assert "is dead" in node.log()


def test_backoff_grows(node, receiver):
    node.create(f"{receiver.uri}/status/500", 0.05)
    pops = receiver.wait(3)
    first, second = pops[1].at - pops[0].at, pops[2].at - pops[1].at
    assert 0.04 <= first and 0.08 <= second and second > first * 1.2


def test_retry_after_is_honoured(node, receiver):
    receiver.retry_after = 1
    node.create(f"{receiver.uri}/status/503", 0.05)
    pops = receiver.wait(2)
    assert pops[1].at - pops[0].at >= 1


def test_redrive_tries_a_dead_pop_again(node, receiver):
    receiver.status = 500
    location = node.create(receiver.uri, 0.05).location
    receiver.wait(3)
    wait_for(lambda: node.get("/timers?state=dead").json()["timers"])
    receiver.status = 200
    answer = node.request("POST", location + "/redrive")
    assert answer.status == 200 and answer.location == location
    receiver.wait(4)
    wait_for(lambda: node.get(location).status == 404, what="the end of the dead pop")
    assert node.request("POST", location + "/redrive").status == 404
    assert receiver.pops[3].sequence == 1


def test_dead_pops_outlive_a_restart_and_delete_removes_them(node, receiver):
    receiver.status = 500
    location = node.create(receiver.uri, 0.05).location
    wait_for(lambda: node.get("/timers?state=dead").json()["timers"])
    node.settle()
    node.kill()
    node.start()
    assert len(node.get("/timers?state=dead").json()["timers"]) == 1
    assert node.request("DELETE", location).status == 200
    assert node.get("/timers?state=dead").json()["timers"] == []


def test_a_repeating_timer_goes_on_while_a_pop_is_owed(nodes, receiver):
    node = nodes(config="[callback]\nbackoff-ms = 300\nattempts = 3\n").start()
    location = node.create(f"{receiver.uri}/status/500", 0.2, 1.0).location
    wait_for(lambda: {pop.sequence for pop in receiver.pops} >= {1, 2, 3, 4, 5}, what="all five pops")
    wait_for(lambda: len(node.get("/timers?state=dead").json()["timers"]) == 5, what="five dead pops")
    assert sorted(timer["sequence-number"] for timer in node.get("/timers?state=dead").json()["timers"]) == [1, 2, 3, 4, 5]
    first = [min(pop.at for pop in receiver.pops if pop.sequence == n) for n in range(1, 6)]
    for n in range(4):  # each on its own time, whatever the ones before did
        assert first[n + 1] - first[n] > 0.1  # a delay of the machine's own is none of its business
    assert node.request("POST", location + "/redrive?sequence=3").status == 200
    wait_for(lambda: len([pop for pop in receiver.pops if pop.sequence == 3]) >= 4, what="pop 3 again")


def test_retrying_pops_are_counted_and_listed(nodes, receiver):
    node = nodes(config="[callback]\nbackoff-ms = 2000\nattempts = 3\n").start()
    location = node.create(f"{receiver.uri}/status/500", 0.1, 0.3).location
    node.create(receiver.uri, 3600)
    wait_for(lambda: node.metrics()['tryst_timers{state="retrying"}'] == 3, what="three retrying pops")
    assert node.metrics()['tryst_timers{state="pending"}'] == 1
    timers = node.get("/timers?state=retrying").json()["timers"]
    assert sorted(timer["sequence-number"] for timer in timers) == [1, 2, 3]
    assert {"/timers/" + timer["id"] for timer in timers} == {location} and {timer["state"] for timer in timers} == {"retrying"}
    node.settle()
    node.kill()
    node.start()
    assert node.metrics()['tryst_timers{state="retrying"}'] == 3


def test_a_dead_pop_says_why(nodes, receiver):
    node = nodes(config="[callback]\nattempts = 1\n[logging]\nlevel = 4\n").start()
    location = node.create(f"{receiver.uri}/status/418", 0).location
    wait_for(lambda: "is dead" in node.log())
    assert "HTTP status 418" in node.log() and location + "/redrive" in node.log() and receiver.uri in node.log()


def test_put_cancels_what_older_versions_owe(nodes, receiver):
    node = nodes(config="[callback]\nbackoff-ms = 400\nattempts = 3\n").start()
    receiver.status = 500
    location = node.create(receiver.uri + "/old", 0.1, 0.5).location
    wait_for(lambda: len({pop.sequence for pop in receiver.pops}) >= 3)
    node.request("PUT", location, timer_body(receiver.uri + "/new", 3600))
    mark = boot() + 0.05
    time.sleep(1.2)
    assert [pop for pop in receiver.pops if pop.path == "/old" and pop.at > mark] == []


def test_a_mute_receiver_times_out(node, receiver):
    node.create(receiver.uri + "/mute", 0.05)
    receiver.wait(2)
    # A callback has half a second, counted by the node; the receiver counts from when the first one reached it, which may be late.
    assert 0.3 <= receiver.pops[1].at - receiver.pops[0].at


def test_an_unreachable_receiver_is_tried_until_it_is_there(nodes):
    node = nodes(config="[callback]\nbackoff-ms = 100\nattempts = 8\n").start()
    port = free_port()
    node.create(f"http://127.0.0.1:{port}/", 0.05)
    wait_for(lambda: node.metrics()['tryst_pops_total{result="failed"}'] >= 2)
    listener = socket.create_server(("127.0.0.1", port))
    listener.settimeout(5)
    stream, _ = listener.accept()
    assert stream.recv(1000).startswith(b"POST / HTTP/1.1\r\n")
    stream.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
    wait_for(lambda: node.metrics()['tryst_timers{state="pending"}'] == 0)
    stream.close()
    listener.close()


@pytest.mark.parametrize(
    "reply",
    [b"", b"garbage\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Le", b"HTTP/1.1 abc\r\n\r\n", b"HTTP/1.1 200 OK\r\nX: " + b"y" * 100000],
    ids=["nothing", "garbage", "half a head", "no status", "endless head"],
)
def test_a_broken_answer_is_a_failure(node, reply):
    listener = socket.create_server(("127.0.0.1", 0))
    listener.settimeout(5)
    node.create(f"http://127.0.0.1:{listener.getsockname()[1]}/", 0.05)
    stream, _ = listener.accept()
    stream.recv(1000)
    stream.sendall(reply)
    stream.close()
    wait_for(lambda: node.metrics()['tryst_pops_total{result="failed"}'] >= 1)
    listener.close()


@pytest.mark.parametrize("reply", [b"HTTP/1.0 200 OK\r\n\r\nuntil the end", b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n"])
def test_old_and_chatty_receivers_succeed(node, reply):
    listener = socket.create_server(("127.0.0.1", 0))
    listener.settimeout(5)
    node.create(f"http://127.0.0.1:{listener.getsockname()[1]}/", 0.05)
    stream, _ = listener.accept()
    stream.recv(1000)
    stream.sendall(reply)
    stream.close()
    wait_for(lambda: node.metrics()['tryst_pops_total{result="delivered"}'] == 1)
    listener.close()


def test_connections_are_used_again(node, receiver):
    for _ in range(5):
        node.create(receiver.uri, 0.02)
        time.sleep(0.1)
    receiver.wait(5)
    established = subprocess.run(["ss", "-tnH", "state", "established", f"( dport = :{receiver.port} )"], capture_output=True, text=True, check=True)
    assert len(established.stdout.splitlines()) == 1


def test_names_are_looked_up(node, receiver):
    node.create(f"http://localhost:{receiver.port}/named", 0.05)
    assert receiver.wait(1)[0].headers["host"] == f"localhost:{receiver.port}"
    node.create("http://no-such-host.invalid/", 0.05)
    wait_for(lambda: node.metrics()['tryst_pops_total{result="dead"}'] == 1, 20)


def test_denied_networks_are_not_called(nodes, receiver):
    node = nodes(config="[callback]\nattempts = 1\ndeny = 127.0.0.0/8\n").start()
    node.create(receiver.uri, 0.05)
    wait_for(lambda: node.metrics()['tryst_pops_total{result="dead"}'] == 1)
    assert receiver.pops == [] and node.metrics()["tryst_callbacks_denied_total"] == 1


def test_link_local_is_denied_by_default(nodes):
    node = nodes(config="[callback]\nattempts = 1\n").start()
    node.create("http://169.254.169.254/latest/meta-data", 0.05)
    wait_for(lambda: node.metrics()["tryst_callbacks_denied_total"] == 1)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tls")
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-keyout", folder / "key.pem", "-out", folder / "cert.pem",
         "-subj", "/CN=receiver", "-addext", "subjectAltName=IP:127.0.0.1"],
        check=True, capture_output=True,
    )
    return folder


def test_https_is_verified(nodes, certificate):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate / "cert.pem", certificate / "key.pem")
    receiver = Receiver(context)
    trusting = nodes(config=f"[callback]\nca-file = {certificate / 'cert.pem'}\n").start()
    trusting.create(receiver.uri, 0.05, 0.15, opaque="o" * 50000)
    receiver.wait(3)
    assert receiver.pops[0].body == b"o" * 50000
    doubting = nodes(config="[callback]\nattempts = 1\n").start()
    doubting.create(receiver.uri, 0.05)
    wait_for(lambda: doubting.metrics()['tryst_pops_total{result="dead"}'] == 1)
    trusting.create(f"https://localhost:{receiver.port}/", 0.05)  # a name the certificate does not bear
    wait_for(lambda: trusting.metrics()['tryst_pops_total{result="failed"}'] >= 1)
    assert len(receiver.pops) == 3
    receiver.close()


def test_a_large_opaque_goes_there_and_back(node, receiver):
    opaque = "ü" * 30000
    node.create(receiver.uri, 0.05, opaque=opaque)
    assert receiver.wait(1)[0].body.decode() == opaque
