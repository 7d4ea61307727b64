# SPDX-License-Identifier: Apache-2.0
"""The dashboard and the alarms in a real Prometheus that scrapes a real cluster: every expression answers, and an alarm fires when its
fault is made and not before."""

import contextlib
import json
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.parse
import urllib.request
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests" / "cluster"))
from cluster import Cluster, wait_for  # noqa: E402
from conftest import Receiver, free_port  # noqa: E402

DASHBOARD = json.loads((ROOT / "packaging" / "grafana.json").read_text())
RULES = ROOT / "packaging" / "tryst.rules.yml"
EXPRESSIONS = sorted({target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]})


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """Three nodes. The third has a clock that a test can set, and a small disk, where one can be mounted."""
    made = Cluster(tmp_path_factory.mktemp("cluster"))
    made.receiver = Receiver()
    made.offset = made.folder / "offset"
    made.disk = None
    members = made.add(3)
    members[2].environment["TRYST_WALL_OFFSET_FILE"] = str(made.offset)
    data = members[2].folder / "data"
    data.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", str(data)], capture_output=True).returncode == 0:
        made.disk = data
    for member in members:
        member.configure(members)
        member.start(wait=False)
    wait_for(lambda: all(member.is_ready() for member in members), 30, "readiness")
    yield made
    made.receiver.close()
    made.close()
    if made.disk:
        subprocess.run(["umount", "-l", str(data)], check=False)


@pytest.fixture(scope="module")
def prometheus(cluster, tmp_path_factory):
    """Its port. The alarms' patience is shortened, and how far they look back; what they look at is as it is."""
    folder = tmp_path_factory.mktemp("prometheus")
    rules = re.sub(r"\[\d+m\]", "[8s]", re.sub(r"for: \d+m", "for: 2s", RULES.read_text()))
    (folder / "rules.yml").write_text(rules)
    targets = ", ".join(f"'{member.address}'" for member in cluster.members)
    (folder / "prometheus.yml").write_text(f"global: {{scrape_interval: 1s, evaluation_interval: 1s}}\nrule_files: [rules.yml]\nscrape_configs:\n  - job_name: tryst\n    static_configs:\n      - targets: [{targets}]\n")
    port = free_port()
    with open(folder / "log", "wb") as log:
        process = subprocess.Popen(["prometheus", f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data", f"--web.listen-address=127.0.0.1:{port}"], stdout=log, stderr=log)

    def has_all():
        try:
            return len(ask(port, "query", query='up{job="tryst"} == 1')["result"]) == 3
        except OSError:
            return False

    wait_for(has_all, 30, "three nodes are scraped")
    yield port
    process.terminate()
    process.wait(20)


def ask(port, path, **parameters):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/{path}?{urllib.parse.urlencode(parameters)}", timeout=10) as answer:
        told = json.loads(answer.read())
    assert told["status"] == "success", told
    return told["data"]


def load(cluster, count):
    body = {"timing": {"interval": 0.2}, "callback": {"http": {"uri": cluster.receiver.uri, "opaque": "x"}}}
    for i in range(count):
        assert cluster.members[i % 3].request("POST", "/timers", json.dumps(body))[0] == 200
    for member in cluster.members:
        member.request("GET", "/timers")
        member.request("GET", "/timers/0123456789abcdef-2")


def firing(port):
    return {alert["labels"]["alertname"] for alert in ask(port, "alerts")["alerts"] if alert["state"] == "firing"}


def test_the_files_are_good():
    assert subprocess.run(["promtool", "check", "rules", str(RULES)], capture_output=True).returncode == 0
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(ids) == len(set(ids)) > 10 and all(panel["targets"] and panel["title"] for panel in DASHBOARD["panels"])


def test_every_expression_answers(cluster, prometheus):
    with socket.create_connection((cluster.members[0].host, cluster.port)) as stream:
        stream.sendall(b"SET a b\r\nGET a\r\n")
        stream.recv(100)
    end = time.monotonic() + 60
    silent = set(EXPRESSIONS)
    while silent and time.monotonic() < end:
        load(cluster, 30)
        time.sleep(1)
        silent = {at for at in silent if not any(result["value"][1] != "NaN" for result in ask(prometheus, "query", query=at)["result"])}
    assert not silent, silent


def say(member, more):
    """What its shared file says beside the others', and SIGHUP."""
    (member.folder / "chronos_shared.conf").write_text(member.cluster.shared + more)
    member.signal(signal.SIGHUP)


def set_timers(cluster, count, uri, attempts=1, member=0):
    body = json.dumps({"timing": {"interval": 0.2}, "callback": {"http": {"uri": uri, "opaque": "x", "retry": {"attempts": attempts}}}})
    lines = "\n".join([body] * count) + "\n"
    return cluster.members[member].request("POST", "/timers", lines, {"Content-Type": "application/x-ndjson"})


@contextlib.contextmanager
def a_bad_file(cluster):
    path = cluster.members[2].folder / "chronos_cluster.conf"
    good = path.read_text()
    path.write_text(good + "node = 1.2.3.4:99999\n")
    cluster.members[2].signal(signal.SIGHUP)
    try:
        yield
    finally:
        path.write_text(good)
        cluster.members[2].signal(signal.SIGHUP)


@contextlib.contextmanager
def a_dead_node(cluster):
    cluster.members[1].kill()
    try:
        yield
    finally:
        cluster.members[1].start()


@contextlib.contextmanager
def each_second(work):
    stop = threading.Event()

    def go_on():
        while not stop.wait(1):
            work()

    thread = threading.Thread(target=go_on)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def nobody_there(cluster):
    return each_second(lambda: set_timers(cluster, 3, f"http://127.0.0.1:{free_port()}/"))


@contextlib.contextmanager
def a_slow_receiver(cluster):
    """Pops wait until those before them are through."""
    set_timers(cluster, 1500, cluster.receiver.uri.rstrip("/") + "/slow/1.5")
    yield


def a_stranger_who_dials(cluster):
    def dial():
        with socket.create_connection((cluster.members[0].host, cluster.port)) as stream:
            stream.sendall(b"GET /peer HTTP/1.1\r\nHost: n\r\nConnection: Upgrade\r\nUpgrade: tryst-peer\r\n\r\n")
            stream.recv(1000)
            stream.sendall(b"nonsense" * 100)
            stream.recv(1000)

    return each_second(dial)


@contextlib.contextmanager
def a_certificate_that_ends(cluster):
    member = cluster.members[0]
    cert, key = cluster.authority().sign("short", member.host, days=3)
    lines = f"[tls]\nclient-ca = {cluster.authority().cert}\ncert = {{}}\nkey = {{}}\n"
    say(member, lines.format(cert, key))
    try:
        yield
    finally:
        say(member, lines.format(*cluster.authority().sign("long", member.host)))


@contextlib.contextmanager
def a_node_with_another_clock(cluster):
    """That started with it, and corrected what its timers go by, of which others hold some; and is set right while it runs."""
    member = cluster.members[2]
    body = json.dumps({"timing": {"interval": 3600}, "callback": {"http": {"uri": cluster.receiver.uri, "opaque": "x"}}})
    assert cluster.members[0].request("POST", "/timers", "\n".join([body] * 40) + "\n", {"Content-Type": "application/x-ndjson"})[0] == 200
    assert member.stop() == 0
    cluster.offset.write_text("2500")
    member.start()
    try:
        yield
    finally:
        cluster.offset.write_text("0")
        member.signal(signal.SIGHUP)


@contextlib.contextmanager
def a_full_disk(cluster):
    filler = cluster.disk / "filler"
    with contextlib.suppress(OSError), filler.open("wb", buffering=0) as file:
        while True:
            file.write(b"x" * 4096)
    body = json.dumps({"timing": {"interval": 3600}, "callback": {"http": {"uri": cluster.receiver.uri, "opaque": "x" * 20000}}})
    for _ in range(600):
        if cluster.members[2].request("POST", "/timers", body)[0] == 507:
            break
    try:
        yield
    finally:
        filler.unlink()


@contextlib.contextmanager
def a_node_that_never_comes(cluster):
    """It is asked for, and the change stands still; that is told after a minute."""
    there = cluster.members[0]
    gone = f"{cluster.network}.77:{cluster.port}"
    assert there.request("PUT", "/cluster", f"[cluster]\njoining = {gone}\n")[0] == 200
    try:
        yield
    finally:
        assert there.request("PUT", "/cluster", f"[cluster]\nlost = {gone}\n")[0] == 200


FAULTS = [
    (a_bad_file, {"TrystConfigFaults"}, set()),
    (nobody_there, {"TrystDeadPops"}, set()),
    (a_slow_receiver, {"TrystLate"}, set()),
    (a_stranger_who_dials, {"TrystLinksRefused"}, set()),
    (a_certificate_that_ends, {"TrystCertificateExpires"}, set()),
    (a_node_with_another_clock, {"TrystClockSkew"}, {"TrystNodeDown", "TrystPeerDown", "TrystRebalancing"}),
    (a_full_disk, {"TrystDiskFull"}, {"TrystNodeDown", "TrystRebalancing"}),
    (a_dead_node, {"TrystNodeDown", "TrystPeerDown"}, {"TrystRebalancing", "TrystLinksRefused"}),
    (a_node_that_never_comes, {"TrystChangeStill"}, {"TrystPeerDown", "TrystRebalancing"}),
]


@pytest.mark.parametrize("fault,alarms,beside", FAULTS, ids=[fault.__name__ for fault, _, _ in FAULTS])
def test_alarms_fire_for_their_faults_alone(cluster, prometheus, fault, alarms, beside):
    """And end with them. `beside`: what may fire, too, since the alarms wait for so little here."""
    if fault is a_full_disk and not cluster.disk:
        pytest.skip("a small disk cannot be mounted here")
    now = lambda: str(firing(prometheus))
    wait_for(lambda: len(ask(prometheus, "query", query="tryst_ready == 1")["result"]) == 3, 30, "three nodes that are ready", now)
    wait_for(lambda: firing(prometheus) == set(), 40, "no alarm", now)
    with fault(cluster):
        wait_for(lambda: alarms <= firing(prometheus), 100, f"{alarms}", now)
        assert firing(prometheus) <= alarms | beside
    wait_for(lambda: firing(prometheus) == set(), 60, "no alarm any more", now)
