# SPDX-License-Identifier: Apache-2.0
"""Pops in the hands of the official libraries, from npm: Standard Webhooks and CloudEvents. `scripts/clients` installs them; `make check` runs this."""

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from conftest import QUICK, ROOT

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


@pytest.mark.skipif(not (ROOT / "build/npm/node_modules/standardwebhooks").exists(), reason="scripts/clients has not run")
def test_official_libraries_take_our_pops(nodes, receiver, tmp_path):
    (tmp_path / "secrets").write_text(SECRET + "\n")
    node = nodes(config=QUICK + f"[webhook]\nsecret-file = {tmp_path}/secrets\n").start()
    for name, members in (("plain", {"json": {"text": "é"}}), ("a%20b", {"json": {"a": [1, 2]}, "ce-type": "org.example.x"})):
        body = {"timing": {"interval": 0}, "callback": {"http": {"uri": receiver.uri, **members}}}
        assert node.request("PUT", f"/timers/named/{name}", json.dumps(body)).status == 200
    pops = [{"secret": SECRET, "headers": pop.headers, "body": pop.body.decode()} for pop in receiver.wait(2)]
    done = subprocess.run(
        ["node", Path(__file__).parent / "libraries.js"], input=json.dumps(pops), env={**os.environ, "NODE_PATH": str(ROOT / "build/npm/node_modules")}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    events = sorted((json.loads(line) for line in done.stdout.splitlines()), key=lambda event: event["type"])
    assert [event["type"] for event in events] == ["io.tryst.timer.pop", "org.example.x"]
    assert all(re.match(r"^urn:tryst:cluster:[0-9a-f]{16}$", event["source"]) for event in events)
    assert events[1]["subject"] in ("a b", "a%20b") and events[1]["data"] == {"a": [1, 2]}


def test_the_lines_of_python_in_the_docs(nodes, receiver, tmp_path):
    (tmp_path / "secrets").write_text(SECRET + "\n")
    node = nodes(config=QUICK + f"[webhook]\nsecret-file = {tmp_path}/secrets\n").start()
    assert node.create(receiver.uri, 0, opaque="é").status == 200
    shown = {}
    exec(re.search(r"```python\n(.*?)```", (ROOT / "docs/api.md").read_text(), re.S).group(1), shown)
    pop = receiver.wait(1)[0]
    assert shown["check"](SECRET, pop.body, pop.headers)
    assert not shown["check"](SECRET, pop.body + b" ", pop.headers)
