# SPDX-License-Identifier: Apache-2.0
"""Libraries that applications use, against three nodes while one is killed, one joins and one leaves. They are installed by
scripts/clients into build/npm: without that these tests are left out."""

import json
import os
import subprocess
import time
from pathlib import Path

import pytest

from cluster import ROOT, SLOW, Cluster, wait_for
from keys import DOCUMENTED, connect, keyspace, settled

MODULES = Path(os.environ.get("TRYST_NPM", str(ROOT / "build" / "npm")))


@pytest.mark.skipif(not (MODULES / "node_modules" / "ioredis").exists(), reason="scripts/clients installs ioredis")
def test_ioredis_while_nodes_die_join_and_leave(tmp_path):
    cluster = Cluster(tmp_path / "nodes")
    try:
        nodes = keyspace(cluster, 3, 1024, 2)
        script = Path(__file__).parent / "clients" / "ioredis.js"
        clients = subprocess.Popen(["node", str(script), str(MODULES), *(node.address for node in nodes)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        time.sleep(3 * SLOW)
        nodes[1].kill()
        time.sleep(2 * SLOW)
        nodes[1].start()
        new = cluster.add(1)[0].start()
        with connect(nodes[0]) as client:
            wait_for(lambda: client.execute_command("JOIN", new.address) == "OK", 20 * SLOW, "it may join")
        wait_for(lambda: settled([*nodes, new], 4), 60 * SLOW, "four nodes")
        with connect(nodes[0]) as client:
            assert client.execute_command("LEAVE", new.address) == "OK"
        wait_for(lambda: settled(nodes, 3), 60 * SLOW, "three nodes")
        time.sleep(2 * SLOW)
        told = json.loads(clients.communicate(timeout=60 * SLOW)[0])
        print({name: told[name] for name in ("operations", "errors", "wrong", "scans")})
        assert not told["wrong"] and told["operations"] > 0 and told["scans"] > 0
        assert all(text == "connection" or text.startswith(DOCUMENTED) for text in told["errors"]), told["errors"]
        for node in nodes:
            with connect(node) as client:
                for key, number in told["acknowledged"].items():
                    assert number <= int(client.get(key) or 0) <= told["tried"][key], key
    finally:
        cluster.close()
