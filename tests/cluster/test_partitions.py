# SPDX-License-Identifier: Apache-2.0
"""The network between nodes is cut, or slow, in namespaces that the test makes itself."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from cluster import ROOT, SLOW

HERE = Path(__file__).resolve().parent
SLOW_LINK = Path(os.environ.get("TRYST_SLOW_LINK", str(ROOT / "build" / "tests" / "slow-link")))


def can_unshare():
    if os.geteuid() != 0 or not shutil.which("nft") or not shutil.which("ip"):
        return False
    made = subprocess.run(["unshare", "--net", "sh", "-c", "ip link add probe type bridge && nft add table ip probe"], capture_output=True)
    return made.returncode == 0


def play(worker, *words):
    done = subprocess.run(["unshare", "--net", sys.executable, str(HERE / worker), *words], capture_output=True, text=True, timeout=240 * SLOW)
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.skipif(not can_unshare(), reason="needs root, network namespaces, bridges and nftables")
@pytest.mark.parametrize("kind", ["full", "one-way"])
def test_both_sides_of_a_cut_serve_and_pop(tmp_path, kind):
    play("partition.py", kind, str(tmp_path / "nodes"))


@pytest.mark.skipif(not can_unshare() or not SLOW_LINK.exists(), reason="needs root, network namespaces, nftables and a build with tests")
@pytest.mark.parametrize("count", ["2", "3"])
def test_nodes_behind_slow_links(tmp_path, count):
    play("latency.py", count, "150", str(tmp_path / "nodes"))
