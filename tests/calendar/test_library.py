# SPDX-License-Identifier: Apache-2.0
"""Cron expressions in UTC beside a public library, cron-parser, which `scripts/clients` installs."""

import json
import os
import random
import subprocess
from pathlib import Path

from test_cron import draw_field, run

ROOT = Path(__file__).resolve().parent.parent.parent
NPM = ROOT / "build" / "npm"
DRAWN = int(os.environ.get("TRYST_EXPRESSIONS", "2000"))
FROM = "2027-01-01T00:00:00Z"


def draw_expression(draw):
    """Days of the month and of the week are not both given with * and a step, which the library reads in another way, and there is
    one of each kind of day in every year."""
    day = draw.choice(("*", str(draw.randint(1, 28)), f"{draw.randint(1, 14)}-{draw.randint(15, 28)}"))
    weekday = draw.choice(("*", str(draw.randint(0, 6)), "1-5", "0,3", "2-6/2"))
    month = draw.choice(("*", draw_field(draw, 1, 12)))
    return f"{draw_field(draw, 0, 59)} {draw_field(draw, 0, 23)} {day} {month} {weekday}"


def test_drawn_expressions():
    draw = random.Random(7)
    drawn = [draw_expression(draw) for _ in range(DRAWN)]
    text = "\n".join(drawn) + "\n"
    done = subprocess.run(["node", str(ROOT / "tests/calendar/library.js"), str(NPM), FROM], input=text, capture_output=True, text=True, check=True)
    theirs = [json.loads(line) for line in done.stdout.splitlines()]
    ours = [[line.split("\t")[0] for line in answer.splitlines()] for answer in run("--from", FROM, "-", text=text).stdout.split("\n\n")]
    assert len(theirs) == len(drawn) and theirs.count(None) < len(drawn) / 4  # it takes no list with a value twice, say
    for expression, their, our in zip(drawn, theirs, ours):
        assert their is None or our == their, expression
