# SPDX-License-Identifier: Apache-2.0
"""One node of a cluster in trouble: its disk is full, its memory used up, its clock wrong. The others go on, and nothing is lost."""

import json
import os
import re
import signal
import subprocess
import time

import pytest

from cluster import SLOW, Cluster, wait_for
from crowd import Crowd


@pytest.fixture
def cluster(tmp_path):
    made = Cluster(tmp_path)
    yield made
    made.close()


def start(cluster, count=3):
    nodes = cluster.add(count)
    for node in nodes:
        node.configure(nodes)
    return nodes


def is_alive(node):
    try:
        return node.request("GET", "/livez")[0] == 200
    except OSError:
        return False


def begin(nodes):
    for node in nodes:
        node.start(wait=False)
    for node in nodes:
        wait_for(lambda node=node: is_alive(node), 30, node.log())


def timer(crowd, opaque, interval=4):
    return json.dumps({"timing": {"interval": interval}, "callback": {"http": {"uri": f"http://127.0.0.1:{crowd.port}/", "opaque": opaque}}})


def post_until(node, body, status, most):
    """Sets timers until one is refused; returns those that were set, and the answer."""
    made = []
    for _ in range(most):
        answer = node.request("POST", "/timers", body)
        if answer[0] == status:
            return made, answer
        assert answer[0] == 200, answer
        made.append(answer[1]["location"])
    raise AssertionError(f"none of {most} was refused")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to mount a small disk")
def test_a_full_disk_of_one_replica(cluster):
    nodes = start(cluster)
    local = nodes[1].folder / "chronos.conf"
    local.write_text(local.read_text().replace("segment-size = 4M", "segment-size = 1M"))
    (nodes[1].folder / "data").mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=6M", "tmpfs", str(nodes[1].folder / "data")], check=True)
    try:
        begin(nodes)
        for node in nodes:
            wait_for(node.is_ready, 30, "ready")
        crowd = Crowd([nodes[0].address])
        made, refused = post_until(nodes[0], timer(crowd, "x" * 20000, 3600), 503, 3000)
        assert b"full" in refused[2] and refused[1].get("retry-after") == "1", refused
        wait_for(lambda: nodes[1].metrics()["tryst_disk_full"] == 1, 10, "it says so")
        assert len({node.request("GET", made[-1])[0] for node in nodes} | {200}) == 1
        small = [crowd.call(lambda: crowd.new_timer((1, 2), i / 60)) for i in range(60)]
        crowd.wait(lambda: all(one.state != "asked" for one in small), 30 * SLOW, "all are answered")
        states = {one.state for one in small}
        assert "acked" in states and states <= {"acked", "refused"}, states  # where the full one has no part
        crowd.drain(20 * SLOW)
        for location in made:
            answer = nodes[2].request("DELETE", location)  # it goes on, also where the disk is full
            assert answer[0] == 200, answer
        wait_for(lambda: nodes[1].metrics()["tryst_disk_full"] == 0, 60, "there is room again, and it heals")
        wait_for(lambda: nodes[0].request("POST", "/timers", timer(crowd, "1"))[0] == 200, 10, "the others hear of it")
        crowd.close()
    finally:
        cluster.close()
        subprocess.run(["umount", str(nodes[1].folder / "data")], check=True)


def test_a_replica_at_its_memory_budget(cluster):
    nodes = start(cluster)
    local = nodes[1].folder / "chronos.conf"
    local.write_text(local.read_text().replace("memory-budget = 256M", "memory-budget = 32M"))
    begin(nodes)
    for node in nodes:
        wait_for(node.is_ready, 30, "ready")
    crowd = Crowd([nodes[0].address])
    made, refused = post_until(nodes[0], timer(crowd, "x" * 30000, 3600), 503, 3000)
    assert b"a replica is full" in refused[2], refused
    assert all(nodes[2].request("GET", location)[0] == 200 for location in made[:: max(1, len(made) // 50)])
    for location in made:
        assert nodes[2].request("DELETE", location)[0] == 200
    wait_for(lambda: nodes[0].request("POST", "/timers", timer(crowd, "1"))[0] == 200, 60, "there is room again")
    crowd.close()


def test_a_clock_ten_seconds_ahead(cluster, tmp_path):
    """Of a node that has a timer by it already."""
    nodes = start(cluster)
    (tmp_path / "offset").write_text("10000\n")
    nodes[2].environment["TRYST_WALL_OFFSET_FILE"] = str(tmp_path / "offset")
    nodes[2].configure([nodes[2]])
    nodes[2].start()
    assert nodes[2].request("POST", "/timers", json.dumps({"timing": {"interval": 86400}, "callback": {"http": {"uri": "http://127.0.0.1:1/", "opaque": ""}}}))[0] == 200
    assert nodes[2].stop() == 0
    nodes[2].configure(nodes)
    begin(nodes)
    for node in nodes[:2]:
        wait_for(node.is_ready, 30, "ready")
    wait_for(lambda: nodes[2].metrics()["tryst_peers_up"] == 2, 20, "it hears the others")
    crowd = Crowd([node.address for node in nodes[:2]])
    body = timer(crowd, "1")
    status, _, answer = wait_for(lambda: (found := nodes[2].request("POST", "/timers", body))[0] == 503 and b"ahead" in found[2] and found, 20, "it refuses writes")
    status, _, answer = nodes[2].request("GET", "/readyz")
    assert status == 503 and b"ahead of the others" in answer
    crowd.set_many(200, (2, 3))
    crowd.drain(20 * SLOW)
    account = crowd.account()
    assert account["set"] == account["once"] == 200 and account["early"] == 0, account
    crowd.close()


def test_a_new_node_whose_clock_is_ahead(cluster, tmp_path):
    """It goes by the clocks of those that are there, which may all be behind the time of day."""
    nodes = start(cluster)
    (tmp_path / "offset").write_text("60000\n")
    nodes[2].environment["TRYST_WALL_OFFSET_FILE"] = str(tmp_path / "offset")
    begin(nodes[:2])
    for node in nodes[:2]:
        wait_for(node.is_ready, 30, "ready")
    nodes[2].start()
    crowd = Crowd([nodes[2].address])
    for again in range(2):
        crowd.set_many(100, (1, 2))
        crowd.drain(20 * SLOW)
        if again == 0:
            nodes[2].kill()
            nodes[2].start()
    account = crowd.account()
    assert account["set"] == 200 and account["lost"] == account["early"] == 0, account
    crowd.close()


def steps_said(node) -> list[int]:
    """How far from where it was the node has said its wall clock to be, in milliseconds."""
    return [int(ms) for ms in re.findall(r"the wall clock is (-?\d+) ms from where it was", node.log())]


def test_a_clock_that_is_set_while_it_runs(cluster, tmp_path):
    """An hour ahead, then an hour back: timers are not moved by it."""
    nodes = start(cluster)
    (tmp_path / "offset").write_text("0\n")
    nodes[0].environment["TRYST_WALL_OFFSET_FILE"] = str(tmp_path / "offset")
    begin(nodes)
    for node in nodes:
        wait_for(node.is_ready, 30, "ready")
    crowd = Crowd([node.address for node in nodes])
    crowd.set_many(200, (2 * SLOW, 6 * SLOW))
    for offset in (3600000, -3600000):
        (tmp_path / "offset").write_text(f"{offset}\n")
        nodes[0].signal(signal.SIGHUP)
        wait_for(lambda: steps_said(nodes[0])[-1:] and abs(steps_said(nodes[0])[-1] - offset) < 100, 10, "the step is said")
        crowd.set_many(50, (1, 2))
        time.sleep(1)
    crowd.drain(30 * SLOW)
    account = crowd.account()
    assert account["set"] == account["once"] == 300 and account["early"] == 0, account
    late = crowd.lateness()
    assert late[-1] < 1.9, late[-5:]
    crowd.close()
