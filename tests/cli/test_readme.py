# SPDX-License-Identifier: Apache-2.0
"""What the README shows is what the commands print."""

import re
import shlex
from pathlib import Path

README = Path(__file__).resolve().parent.parent.parent / "README.md"


def sessions():
    """(arguments, expected lines) of each `$ build/tryst` in a block of the README."""
    for block in re.findall(r"^```\n(.*?)^```", README.read_text(), re.S | re.M):
        for session in re.split(r"^\$ ", block, flags=re.M)[1:]:
            command, *expected = session.splitlines()
            words = shlex.split(command)
            if words[0] == "build/tryst":
                yield words[1:], expected


def test_the_sessions_are_true(tryst, tmp_path):
    found = list(sessions())
    assert len(found) >= 2
    for arguments, expected in found:
        actual = tryst(*arguments, cwd=tmp_path).stdout.splitlines()
        if "..." in expected:
            gap = expected.index("...")
            rest = expected[gap + 1 :]
            assert actual[:gap] == expected[:gap] and actual[-len(rest) :] == rest
        else:
            assert actual == expected


def test_the_picture_is_what_the_command_draws(tryst, tmp_path):
    path = tmp_path / "plan.svg"
    tryst("plan", "--node", "a", "--node", "b", "--node", "c", "--add", "d", "--svg", str(path))
    assert path.read_text() == (README.parent / "docs" / "plan.svg").read_text()
