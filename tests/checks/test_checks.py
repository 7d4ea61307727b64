# SPDX-License-Identifier: Apache-2.0
"""The checks of the source tree find what is planted for them, and nothing where there is nothing."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent


def plant(folder: Path, calls: dict[str, list[str]]) -> Path:
    """A tree with one function a file, `room/file`, that calls those of other files; and its objects, as meson has them."""
    (folder / "scripts").mkdir()
    for script in ("check-circles", "check-layers"):
        shutil.copy(ROOT / "scripts" / script, folder / "scripts" / script)
    objects = folder / "build/src/libtr-node.a.p"
    objects.mkdir(parents=True)
    for name, called in calls.items():
        function = name.replace("/", "_")
        source = folder / f"src/{name}.c"
        source.parent.mkdir(parents=True, exist_ok=True)
        others = [other.replace("/", "_") for other in called]
        source.write_text("".join(f"void {other}(void);\n" for other in others) + f"void {function}(void);\nvoid {function}(void)\n{{\n" + "".join(f"    {other}();\n" for other in others) + "}\n")
        subprocess.run(["cc", "-c", "-O0", str(source), "-o", str(objects / f"{function}.c.o")], check=True)
    return folder


def circles(folder: Path) -> subprocess.CompletedProcess:
    return subprocess.run([folder / "scripts/check-circles", folder / "build"], capture_output=True, text=True, timeout=60)


def ring(room: str, count: int) -> dict[str, list[str]]:
    return {f"{room}/file{i}": [f"{room}/file{(i + 1) % count}"] for i in range(count)}


def test_a_circle_of_five_files_is_found(tmp_path):
    done = circles(plant(tmp_path, ring("replication", 5)))
    assert done.returncode == 1
    assert "a circle of 5 files: replication/file0" in done.stdout


def test_four_files_of_one_room_may_call_each_other(tmp_path):
    done = circles(plant(tmp_path, ring("replication", 4)))
    assert done.returncode == 0, done.stdout
    assert "largest circle 4" in done.stdout


def test_a_circle_across_rooms_of_the_core_is_found(tmp_path):
    done = circles(plant(tmp_path, {"log/batch": ["cluster/peer"], "cluster/peer": ["log/batch"]}))
    assert done.returncode == 1
    assert "a circle across rooms: cluster/peer, log/batch" in done.stdout


def test_an_include_that_points_up_is_found(tmp_path):
    folder = plant(tmp_path, {"replication/set": []})
    (folder / "src/replication/set.c").write_text('#include "timers/book.h"\n')
    done = subprocess.run([folder / "scripts/check-layers", folder / "build"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert "src/replication/set.c:1: replication may not include timers/book.h" in done.stdout
