# SPDX-License-Identifier: Apache-2.0
"""The network between nodes is cut, in namespaces that the test makes itself."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from cluster import SLOW

WORKER = Path(__file__).resolve().parent / "partition.py"


def can_unshare():
    if os.geteuid() != 0 or not shutil.which("nft") or not shutil.which("ip"):
        return False
    made = subprocess.run(["unshare", "--net", "sh", "-c", "ip link add probe type bridge && nft add table ip probe"], capture_output=True)
    return made.returncode == 0


@pytest.mark.skipif(not can_unshare(), reason="needs root, network namespaces, bridges and nftables")
@pytest.mark.parametrize("kind", ["full", "one-way"])
def test_both_sides_of_a_cut_serve_and_pop(tmp_path, kind):
    done = subprocess.run(["unshare", "--net", sys.executable, str(WORKER), kind, str(tmp_path / "nodes")], capture_output=True, text=True, timeout=240 * SLOW)
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr
