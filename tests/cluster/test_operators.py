# SPDX-License-Identifier: Apache-2.0
"""The slips of operators: files with a typing error, nodes of another cluster, secrets that differ, changes that were interrupted. Each is
said, and changes nothing."""

import http.server
import json
import os
import re
import signal
import subprocess
import threading
import time

import pytest

from cluster import ROOT, SLOW, TRYST, TRYSTD, Cluster, wait_for
from crowd import Crowd

SECRET = "a secret of some length"


@pytest.fixture
def cluster(tmp_path):
    made = Cluster(tmp_path)
    yield made
    made.close()


def write(path, nodes, *lines):
    path.write_text("[cluster]\n" + "".join(f"node = {node.address}\n" for node in nodes) + "".join(f"{line}\n" for line in lines))
    return str(path)


def tryst(*words, secret=None):
    environment = {**os.environ, **({"TRYST_CLUSTER_SECRET": secret} if secret else {})}
    done = subprocess.run([TRYST, *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60 * SLOW, env=environment)
    return done.returncode, done.stdout


def view_of(node):
    return node.json("/cluster")["view"]


def test_what_is_not_a_list_changes_nothing(cluster, tmp_path):
    nodes = cluster.start(2)
    new = cluster.add(1)[0].start()
    before = view_of(nodes[0])
    for lines, word in (
        (["nde = 127.0.0.1:7253"], "there is no key 'nde'"),
        (["node = 127.0.0.1:77777"], "port of a node must be 1 to 65535"),
        (["node = 127.0.0.1:abc"], "port of a node must be 1 to 65535"),
        (["node = foo bar:7253"], "must be HOST:PORT"),
        (["leaving = 127.0.0.1:7253"], "node lines alone"),
        ([f"node = {nodes[0].address}"], "named twice"),
    ):
        status, said = tryst("cluster", "apply", write(tmp_path / "bad.conf", nodes, *lines), "--yes")
        assert status == 2 and word in said, said
    status, said = tryst("cluster", "apply", write(tmp_path / "three.conf", [*nodes, new]))
    assert status == 1 and "no terminal to ask on" in said, said
    assert view_of(nodes[0]) == view_of(nodes[1]) == before and view_of(new) != before


def test_a_node_of_another_cluster_is_not_taken(cluster, tmp_path):
    nodes = cluster.start(2)
    other = Cluster(tmp_path / "other")
    try:
        theirs = other.start(2)
        before = [view_of(node) for node in [*nodes, *theirs]]
        status, said = tryst("cluster", "apply", write(tmp_path / "steal.conf", [*nodes, theirs[0]]), "--yes", "--node", nodes[0].address)
        assert status == 1 and "belongs to another cluster" in said, said
        assert [view_of(node) for node in [*nodes, *theirs]] == before
    finally:
        other.close()


def test_a_node_that_has_left_may_join_again(cluster, tmp_path):
    nodes = cluster.start(3)
    two, three = write(tmp_path / "two.conf", nodes[1:]), write(tmp_path / "three.conf", nodes)
    assert tryst("cluster", "apply", two, "--yes")[0] == 0
    status, said = tryst("cluster", "apply", two, "--yes")
    assert status == 0 and "nothing to do" in said, said  # though the one that left still runs
    status, said = tryst("cluster", "apply", three, "--yes")
    assert status == 0 and "done: 3 nodes" in said, said
    assert tryst("cluster", "status", "--node", nodes[0].address)[0] == 0


def secretive(tmp_path, secret, members):
    for member in members:
        member.environment["TRYST_CLUSTER_SECRET"] = secret
    return members


def test_another_secret_is_noticed_before_anything_is_told(cluster, tmp_path):
    nodes = secretive(tmp_path, SECRET, cluster.add(2))
    for node in nodes:
        node.configure(nodes)
        node.start(wait=False)
    for node in nodes:
        wait_for(node.is_ready, 30, "ready")
    new = secretive(tmp_path, "quite another secret", cluster.add(1))[0].start()
    before = [view_of(node) for node in [*nodes, new]]
    three = write(tmp_path / "three.conf", [*nodes, new])
    for secret, word in ((None, "wants the cluster's secret"), ("no such secret at all", "has another secret"), (SECRET, f"{new.address} has another secret")):
        status, said = tryst("cluster", "apply", three, "--yes", secret=secret)
        assert status == 1 and word in said and "nothing was done" in said, said
    assert [view_of(node) for node in [*nodes, new]] == before


def test_status_tells_of_nodes_that_do_not_hear_each_other(cluster):
    nodes = secretive(None, SECRET, cluster.add(3))
    nodes[2].environment["TRYST_CLUSTER_SECRET"] = "quite another secret"
    for node in nodes:
        node.configure(nodes)
        node.start(wait=False)
    for node in nodes:
        wait_for(node.is_ready, 30, "ready")
    status, said = tryst("cluster", "status", "--node", nodes[0].address)
    assert status == 1 and f"{nodes[0].address} does not hear {nodes[2].address}" in said and "all nodes are up" not in said, said
    told = json.loads(tryst("cluster", "status", "--json", "--node", nodes[0].address)[1])
    assert told["well"] is False, told


def test_a_change_goes_on_without_whoever_asked_for_it(cluster, tmp_path):
    """One request is enough: the command that made it may die, and so may the node that was asked, when another one has heard of it."""
    nodes = cluster.start(2)
    new = cluster.add(1)[0]
    text = f"[cluster]\njoining = {new.address}\n"
    assert nodes[0].request("PUT", "/cluster", text)[0] == 200
    status, said = tryst("cluster", "status", "--node", nodes[0].address)
    assert status == 1 and "a change is under way" in said and new.address in said, said
    assert nodes[1].request("PUT", "/cluster", f"[cluster]\nleaving = {nodes[0].address}\n")[0] == 409
    wait_for(lambda: nodes[1].json("/cluster")["epoch"] == 2, 10, "heard")
    nodes[0].kill()
    assert nodes[1].json("/cluster")["waits-for"] == new.address
    new.start(wait=False)
    three = [*nodes, new]
    wait_for(lambda: nodes[1].json("/cluster")["epoch"] == 3, 30, "through")  # the one that is down had nothing to move
    nodes[0].start()
    wait_for(lambda: [node.json("/cluster")["epoch"] for node in three] == [3] * 3, 30, "heard by all")
    assert {node.json("/cluster")["role"] for node in three} == {"staying"} and len({view_of(node) for node in three}) == 1
    status, said = tryst("cluster", "apply", write(tmp_path / "three.conf", three), "--yes")
    assert status == 0 and "nothing to do" in said, said


def test_a_change_is_taken_back(cluster):
    nodes = cluster.start(2)
    new = cluster.add(1)[0]
    assert nodes[0].request("PUT", "/cluster", f"[cluster]\njoining = {new.address}\n")[0] == 200
    wait_for(lambda: nodes[1].json("/cluster")["epoch"] == 2, 10, "heard")
    assert nodes[1].request("PUT", "/cluster", f"[cluster]\nlost = {new.address}\n")[0] == 200
    wait_for(lambda: [node.json("/cluster")["changing"] for node in nodes] == [False, False], 30, "taken back")
    assert all(peer["role"] == "gone" for peer in nodes[0].json("/cluster")["nodes"] if peer["address"] == new.address)


def test_a_check_changes_nothing(cluster):
    nodes = cluster.start(2)
    before = nodes[0].json("/cluster")["roster"]
    status, _, _ = nodes[0].request("PUT", "/cluster", f"[cluster]\ncheck = yes\nleaving = {nodes[1].address}\n")
    assert status == 200 and nodes[0].json("/cluster")["roster"] == before


def test_what_was_applied_holds(tmp_path):
    """Over a reload and, where there is a disk, over a restart, whatever the files say that were not changed since."""
    for has_disk in (True, False):
        cluster = Cluster(tmp_path / str(has_disk))
        try:
            nodes = cluster.add(2)
            for node in nodes:
                local = node.folder / "chronos.conf"
                if not has_disk:
                    local.write_text(local.read_text().replace(f"data-dir = {node.folder}/data", "data-dir = none"))
                node.start()
            assert tryst("cluster", "apply", write(tmp_path / "two.conf", nodes), "--yes")[0] == 0
            rosters = lambda: {node.json("/cluster")["roster"] for node in nodes}
            assert len(rosters()) == 1
            before = rosters()
            nodes[0].signal(signal.SIGHUP)
            wait_for(lambda: "the new configuration is in force" in nodes[0].log(), 10, "reloaded")
            assert rosters() == before
            if has_disk:
                nodes[0].kill()
                nodes[0].start()
                assert rosters() == before
        finally:
            cluster.close()


def test_more_nodes_than_a_cluster_can_have(cluster):
    node = cluster.start(2)[0]
    before = node.json("/cluster")["roster"]
    lines = [f"joining = 10.0.{i // 250}.{i % 250}:7253" for i in range(255)]
    status, _, body = node.request("PUT", "/cluster", "[cluster]\n" + "\n".join(lines) + "\n")
    assert status == 507 and "no room" in json.loads(body)["detail"], body
    assert node.json("/cluster")["roster"] == before


def test_somebody_who_asks_for_a_resync_all_the_time(cluster):
    node = cluster.start(2)[0]
    for _ in range(50):
        assert node.request("POST", "/cluster/resync", "")[0] == 202
    assert node.log().count("resync: every timer") <= 3


def test_a_node_that_is_away_does_not_fill_the_memory_of_the_others(tmp_path):
    """What is remembered for it of timers that have ended makes room for timers."""
    cluster = Cluster(tmp_path, storage="memory-budget = 40M\nsegment-size = 1M\n")
    try:
        nodes = cluster.start(3)
        crowd = Crowd([node.address for node in nodes[:2]])
        nodes[2].kill()
        count = 24 if SLOW == 1 else 4
        for _ in range(count):
            crowd.set_many(2500, (0.2, 0.4))
        time.sleep(16)
        crowd.set_many(500, (0.2, 0.4))
        crowd.drain(30 * SLOW)
        metrics = nodes[0].metrics()
        assert metrics["tryst_tombstones"] > 0
        if SLOW == 1:
            assert metrics["tryst_tombstones_forgotten_early_total"] > 0, metrics["tryst_tombstones"]
        nodes[2].start()
        time.sleep(2)
        account = crowd.account()
        assert account["set"] == 500 + 2500 * count and account["lost"] == 0 and account["refused"] == 0, account
        crowd.close()
    finally:
        cluster.close()


class Reluctant(http.server.BaseHTTPRequestHandler):
    """Fails the first attempt at each path."""

    protocol_version = "HTTP/1.1"
    seen: set[str] = set()

    def do_POST(self):
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.send_response(200 if self.path in self.seen else 500)
        self.seen.add(self.path)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


def test_tags_are_counted_down_where_another_node_made_the_pop(cluster):
    nodes = cluster.start(2)
    receiver = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Reluctant)
    threading.Thread(target=receiver.serve_forever, daemon=True).start()
    for i in range(20):
        uri = f"http://127.0.0.1:{receiver.server_port}/{os.getpid()}/{i}"
        body = {"timing": {"interval": 1}, "callback": {"http": {"uri": uri, "opaque": ""}}, "statistics": {"tag-info": [{"type": "T", "count": 1}]}}
        assert nodes[i % 2].request("POST", "/timers", json.dumps(body))[0] == 200
    tags = lambda: sum(node.metrics().get('tryst_timers_tagged{tag="T"}', 0) for node in nodes)
    assert tags() == 20
    wait_for(lambda: sum(node.held() for node in nodes) == 0, 30, "all have popped")
    assert tags() == 0
    receiver.shutdown()


def test_the_alarms_are_of_metrics_that_there_are(cluster):
    """A rule with a misspelt metric never fires."""
    nodes = cluster.add(2)
    shared = nodes[0].folder / "chronos_shared.conf"
    shared.write_text(cluster.shared + nodes[0].tls("accept"))
    for node in nodes:
        node.configure(nodes)
        node.start(wait=False)
    wait_for(lambda: all(node.is_ready() for node in nodes), 20, "readiness")
    text = nodes[0].request("GET", "/metrics")[2].decode()
    rules = (ROOT / "packaging" / "tryst.rules.yml").read_text()
    named = {name for line in re.findall(r"expr: (.*)", rules) for name in re.findall(r"tryst_[a-z_]+", line)}
    assert len(named) > 10
    assert [name for name in sorted(named) if f"\n{name}" not in text] == []


def test_a_node_without_the_secret_is_not_taken_in(cluster, tmp_path):
    """It would never be spoken with, and the change would stand still."""
    secret = tmp_path / "secret"
    secret.write_text("a secret of the cluster\n")
    cluster.shared += f"[cluster]\nsecret-file = {secret}\n"
    nodes = cluster.start(2)
    shared, cluster.shared = cluster.shared, ""
    new = cluster.add(1)[0]
    new.configure([new])
    new.start()
    words = [TRYST, "cluster", "join", new.address, "--node", nodes[0].address, "--secret-file", str(secret), "--yes"]
    refused = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert refused.returncode == 1 and "has no [cluster] secret-file and the cluster has one" in refused.stderr, refused
    assert nodes[0].json("/cluster")["changing"] is False
    new.stop()
    gone = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert gone.returncode == 1 and "Connection refused" in gone.stderr and "shall join, and has to answer first" in gone.stderr, gone
    (new.folder / "chronos_shared.conf").write_text(shared)
    new.start()
    joined = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert joined.returncode == 0, joined


def test_a_node_that_cannot_be_asked_is_not_called_down(cluster):
    nodes = cluster.start(3)
    (nodes[1].folder / "chronos_shared.conf").write_text(cluster.shared + nodes[1].tls("accept") + "clients = require\n")
    nodes[1].signal(signal.SIGHUP)
    wait_for(lambda: "is in force" in nodes[1].log(), 10, "it is read")
    status, said = tryst("cluster", "status", "--node", nodes[0].address)
    assert status == 1 and f"{nodes[1].address} is up for the others, and cannot be asked from here" in said and "speaks TLS" in said, said
    assert "down" not in said
    status, said = tryst("cluster", "status", "--node", nodes[0].address, "--json")
    assert status == 1 and [node["state"] for node in json.loads(said)["nodes"]] == ["up", "unreachable", "up"], said
