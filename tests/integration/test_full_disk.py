# SPDX-License-Identifier: Apache-2.0
"""Disks that are full: of garbage, which is reclaimed, and of live records, which are kept."""

import subprocess
import time

import pytest

from conftest import TRYST, wait_for

CONFIG = "[storage]\nsegment-size = 1M\nmemory-budget = 128M\n[limits]\nopaque = 65536\n"


@pytest.fixture
def disk(mount):
    return mount("12m")


def delivered(node):
    return node.metrics()['tryst_pops_total{result="delivered"}']


def goes_on(node, pops):
    """So many more pops are made."""
    goal = delivered(node) + pops
    wait_for(lambda: delivered(node) >= goal, 60, f"{pops} more pops")


def test_pops_go_on_where_the_log_is_mostly_garbage(nodes, receiver, disk):
    node = nodes(config=CONFIG, data_dir=str(disk / "data")).start()
    locations = []
    for _ in range(3000):  # each pop of which is garbage: 4.5 MB are live
        answer = node.create(receiver.uri, 2, 86400, opaque="o" * 1500)
        if answer.status != 200:
            break
        locations.append(answer.location)
    assert len(locations) > 2000
    for _ in range(6):  # ten times what the disk has room for, were nothing reclaimed
        goes_on(node, 3000)
    assert node.request("DELETE", locations[0]).status == 200
    node.kill()  # as after a restart
    node.start()
    goes_on(node, 3000)
    assert all(node.get(location).status == 200 for location in locations[1::50])
    assert node.get(locations[0]).status == 404


def test_a_disk_full_of_live_records_refuses_new_ones_alone(nodes, receiver, disk):
    node = nodes(config=CONFIG, data_dir=str(disk / "data")).start()
    repeating = [node.create(receiver.uri, 1, 86400).location for _ in range(50)]
    kept = []
    for _ in range(1000):
        answer = node.create(receiver.uri, 3600, opaque="o" * 30000)
        if answer.status != 200:
            break
        kept.append(answer.location)
    assert answer.status == 507 and "the disk is full" in answer.detail
    ready = node.get("/readyz")
    assert ready.status == 503 and "the disk is full" in ready.json()["reason"]
    status = subprocess.run([TRYST, "status", "--node", f"127.0.0.1:{node.port}"], capture_output=True, text=True)
    assert status.returncode == 1 and "NOT READY: the disk is full" in status.stdout
    goes_on(node, 500)  # pops go on
    assert node.create(receiver.uri, 3600, opaque="o" * 30000).status == 507
    for location in kept[: len(kept) // 2]:  # and so do cancellations
        assert node.request("DELETE", location).status == 200
    wait_for(lambda: node.get("/readyz").status == 200, 60, "it heals by itself: what was cancelled is garbage")
    assert node.create(receiver.uri, 3600, opaque="o" * 30000).status == 200
    node.kill()
    node.start()
    assert all(node.get(location).status == 200 for location in repeating + kept[len(kept) // 2 :])
    assert all(node.get(location).status == 404 for location in kept[: len(kept) // 2])
    goes_on(node, 100)


def test_a_disk_that_somebody_else_fills_heals_when_there_is_room(nodes, receiver, disk):
    node = nodes(config=CONFIG, data_dir=str(disk / "data")).start()
    locations = [node.create(receiver.uri, 1, 86400, opaque="o" * 1500).location for _ in range(200)]
    with open(disk / "ballast", "wb") as ballast:
        try:
            while True:
                ballast.write(b"x" * 65536)
                ballast.flush()
        except OSError:
            pass
    wait_for(lambda: node.get("/readyz").status == 503, 60, "it says that the disk is full")
    goes_on(node, 400)
    (disk / "ballast").unlink()
    wait_for(lambda: node.get("/readyz").status == 200, 60, "it heals")
    time.sleep(0.1)
    assert all(node.get(location).status == 200 for location in locations)
