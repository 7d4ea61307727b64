# SPDX-License-Identifier: Apache-2.0
"""What docs/testing.md shows is run as it stands there; and time that a test moves."""

import datetime
import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from conftest import ROOT, SLOW, TRYSTD, timer_body

BLOCKS = re.findall(r"```(python|javascript)\n(.*?)```", (ROOT / "docs" / "testing.md").read_text(), re.S)


def surroundings():
    """`trystd` is found as an installed one would be."""
    return {**os.environ, "PATH": f"{Path(TRYSTD).parent}:{os.environ['PATH']}"}


def test_the_pytest_fixture(tmp_path):
    (tmp_path / "test_it.py").write_text(dict(BLOCKS)["python"])
    done = subprocess.run(["/usr/bin/python3", "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_it.py"], cwd=tmp_path, env=surroundings(), capture_output=True, text=True, timeout=120 * SLOW)
    assert done.returncode == 0 and "2 passed" in done.stdout, done.stdout + done.stderr


@pytest.mark.skipif(shutil.which("node") is None, reason="Node is not installed")
def test_the_node_test(tmp_path):
    (tmp_path / "it.test.mjs").write_text(dict(BLOCKS)["javascript"])
    done = subprocess.run(["node", "--test", "it.test.mjs"], cwd=tmp_path, env=surroundings(), capture_output=True, text=True, timeout=120 * SLOW)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture
def still(nodes):
    return nodes(args=["--test-clock"], config="[callback]\nbackoff-ms = 5000\nattempts = 3\n").start()


def advance(node, **how):
    answer = node.request("POST", "/clock/advance", json.dumps(how), timeout=60)
    assert answer.status == 200, answer.body
    return answer.json()


def test_retries_are_made_on_the_way(still, receiver):
    receiver.status = 500
    still.create(receiver.uri, 60)
    assert advance(still, by=59)["pops"] == 0
    assert advance(still, by=60)["pops"] == 3
    assert [pop.sequence for pop in receiver.pops] == [1, 1, 1]
    assert len(still.get("/timers?state=dead").json()["timers"]) == 1


def test_what_was_due_before_it_was_set_is_given_up_from_then_on(nodes, receiver):
    """It is an hour late when it is set: its age alone would be its end at the first failure."""
    still = nodes(args=["--test-clock"], config="[callback]\nattempts = 50\n").start()
    receiver.status = 500
    now = datetime.datetime.fromisoformat(still.get("/clock").json()["now"].replace("Z", "+00:00"))
    retry = {"attempts": 50, "backoff": 1, "backoff-max": 1, "give-up-after": 10}
    body = {"timing": {"at": (now - datetime.timedelta(hours=1)).isoformat()}, "callback": {"http": {"uri": receiver.uri, "opaque": "", "retry": retry}}}
    assert still.request("POST", "/timers", json.dumps(body)).status == 200
    assert advance(still, by=8)["pops"] >= 6
    assert still.get("/timers?state=dead").json()["timers"] == []
    advance(still, by=5)
    assert len(still.get("/timers?state=dead").json()["timers"]) == 1 and len(receiver.pops) <= 14
    assert advance(still, by=3600)["pops"] == 0


def test_pops_come_in_the_order_of_their_times(still, receiver):
    still.create(receiver.uri + "/late", 300)
    still.create(receiver.uri + "/often", 100, 400)
    advance(still, by=400)
    paths = [pop.path for pop in receiver.pops]
    assert paths[:2] == ["/often", "/often"] and sorted(paths[2:4]) == ["/late", "/often"] and paths[4:] == ["/often"]


def test_what_cannot_be_is_refused(still, node, receiver):
    for body in ("", "{}", '{"by": -1}', '{"by": "1"}', '{"to": "tomorrow"}', '{"by": 1, "to": "2030-01-01T00:00:00Z"}', "[1]"):
        assert still.request("POST", "/clock/advance", body).status == 400, body
    assert still.request("POST", "/clock/advance", '{"to": "2001-01-01T00:00:00Z"}').status == 400
    assert still.request("PUT", "/clock", '{"mode": "fast"}').status == 400
    assert node.request("POST", "/clock/advance", '{"by": 1}').status == 409
    assert node.get("/clock").json()["mode"] == "real"


def test_it_does_not_run_in_a_cluster(nodes):
    node = nodes(args=["--test-clock"], config="[cluster]\nnode = 127.0.0.1:1\nnode = 127.0.0.1:2\n").start(wait=False)
    assert node.process.wait(10 * SLOW) == 2
    assert "--test-clock" in node.log()


def test_readyz_says_so(still):
    assert "test" in still.get("/readyz").json()["clock"]


def test_time_goes_on_by_itself_again(still, receiver):
    still.create(receiver.uri, 0.2)
    assert still.request("PUT", "/clock", '{"mode": "real"}').status == 200
    receiver.wait(1)
    assert still.request("POST", "/clock/advance", '{"by": 1}').status == 409
    assert timer_body(receiver.uri)
