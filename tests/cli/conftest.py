# SPDX-License-Identifier: Apache-2.0
import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.fixture
def tryst():
    """Runs the command; returns what subprocess.run does."""
    command = os.environ.get("TRYST", str(ROOT / "build" / "tryst"))

    def run(*arguments, **options):
        return subprocess.run([command, *arguments], capture_output=True, text=True, timeout=120, **options)

    return run
