# SPDX-License-Identifier: Apache-2.0
"""When cron expressions are due, held against an oracle that takes no shortcuts: it looks at every minute of some days by Python's own
reading of the time zones. TRYST_EXPRESSIONS says how many are drawn."""

import os
import random
import subprocess
from datetime import datetime, timedelta, timezone
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
TRYST = os.environ.get("TRYST", str(ROOT / "build" / "tryst"))
DRAWN = int(os.environ.get("TRYST_EXPRESSIONS", "1500"))
MINUTE = timedelta(minutes=1)
MONTHS = "jan feb mar apr may jun jul aug sep oct nov dec".split()
WEEKDAYS = "sun mon tue wed thu fri sat".split()

# Days on which clocks change, and some on which they do not.
DAYS = [
    ("Europe/Berlin", "2026-03-28T00:00:00Z"),
    ("Europe/Berlin", "2026-10-24T00:00:00Z"),
    ("America/New_York", "2026-03-07T00:00:00Z"),
    ("America/New_York", "2026-10-31T00:00:00Z"),
    ("Australia/Lord_Howe", "2026-04-03T18:00:00Z"),
    ("Australia/Lord_Howe", "2026-10-02T18:00:00Z"),
    ("Pacific/Apia", "2011-12-29T00:00:00Z"),
    ("America/Sao_Paulo", "2018-11-03T00:00:00Z"),
    ("America/Sao_Paulo", "2018-02-17T00:00:00Z"),
    ("Europe/Dublin", "2026-03-28T00:00:00Z"),
    ("Europe/Dublin", "2026-10-24T00:00:00Z"),
    ("Africa/Casablanca", "2026-02-14T00:00:00Z"),
    ("Africa/Casablanca", "2026-03-21T00:00:00Z"),
    ("Antarctica/Troll", "2026-03-28T00:00:00Z"),
    ("Asia/Kathmandu", "2028-02-28T00:00:00Z"),
    ("America/St_Johns", "2045-03-11T00:00:00Z"),
    ("UTC", "2027-12-30T00:00:00Z"),
]


def run(*words, text=None):
    return subprocess.run([TRYST, "cron", *words], input=text, capture_output=True, text=True, check=False)


def next_of(expression, *words):
    done = run(*words, expression)
    assert done.returncode == 0, done.stderr
    return [line.split("\t")[0] for line in done.stdout.splitlines()]


# ---- the oracle ----


class Field:
    def __init__(self, text, least, most, names=()):
        self.is_open = text.startswith("*")
        self.values = set()
        for item in text.split(","):
            body, _, step = item.partition("/")
            if body == "*":
                low, high = least, most
            else:
                low, _, high = body.partition("-")
                low = names.index(low.lower()) + least if low.lower() in names else int(low)
                high = low if not high else names.index(high.lower()) + least if high.lower() in names else int(high)
            self.values |= set(range(low, high + 1, int(step or 1)))


class Expression:
    def __init__(self, text):
        minute, hour, day, month, weekday = text.split()
        self.names_times = "*" not in minute + hour
        self.minute, self.hour = Field(minute, 0, 59), Field(hour, 0, 23)
        self.day, self.month, self.weekday = Field(day, 1, 31), Field(month, 1, 12, MONTHS), Field(weekday, 0, 7, WEEKDAYS)
        self.weekday.values = {value % 7 for value in self.weekday.values}

    def matches(self, local):
        is_day, is_weekday = local.day in self.day.values, local.isoweekday() % 7 in self.weekday.values
        is_due = (is_day and is_weekday) if self.day.is_open or self.weekday.is_open else (is_day or is_weekday)
        return is_due and local.minute in self.minute.values and local.hour in self.hour.values and local.month in self.month.values


class Days:
    """Every minute of some days, and what the clocks of a zone show then."""

    def __init__(self, zone, start, count=3):
        self.start = datetime.fromisoformat(start.replace("Z", "+00:00"))
        self.end = self.start + timedelta(days=count)
        place = ZoneInfo(zone)
        self.minutes = []  # instant, local time, those that were left out before it, whether it comes a second time, and whether it will
        seen = set()
        at, before = self.start - timedelta(days=1), None
        while at < self.end + timedelta(days=1):
            local = at.astimezone(place).replace(tzinfo=None)
            gap = []
            if before is not None:
                missing = before + MINUTE
                while missing < local:
                    gap.append(missing)
                    missing += MINUTE
            self.minutes.append([at, local, gap, local in seen, False])
            seen.add(local)
            before = local
            at += MINUTE
        later = set()
        for minute in reversed(self.minutes):
            minute[4] = minute[1] in later
            later.add(minute[1])

    def due(self, text, gap, overlap):
        expression = Expression(text)
        found = []
        for at, local, missing, is_second, has_second in self.minutes:
            if not self.start < at < self.end:
                continue
            is_due = expression.matches(local)
            if expression.names_times:
                is_due = is_due and not (overlap == "first" and is_second) and not (overlap == "last" and has_second)
                is_due = is_due or (gap == "after" and any(expression.matches(one) for one in missing))
            if is_due:
                found.append(at.strftime("%Y-%m-%dT%H:%M:%S.000Z"))
        return found


# ---- drawing ----


def draw_field(draw, least, most, names=()):
    def value():
        number = draw.randint(least, most)
        return draw.choice((str.upper, str.lower, str.title))(names[number - least]) if names and number - least < len(names) and draw.random() < 0.3 else str(number)

    def item():
        kind = draw.random()
        if kind < 0.5:
            return value()
        low = draw.randint(least, most)
        high = draw.randint(low, most)
        step = f"/{draw.randint(1, most)}" if draw.random() < 0.4 else ""
        return f"{low}-{high}{step}" if kind < 0.9 else f"*/{draw.randint(1, most)}"

    return "*" if draw.random() < 0.35 else ",".join(item() for _ in range(draw.choice((1, 1, 2, 3))))


def draw_expression(draw):
    minute = draw_field(draw, 0, 59)
    hour = draw.choice((draw_field(draw, 0, 23), draw_field(draw, 0, 3), "1-3", "2"))
    day = draw.choice(("*", "*", draw_field(draw, 1, 31)))
    month = draw.choice(("*", "*", draw_field(draw, 1, 12, MONTHS)))
    weekday = draw.choice(("*", "*", draw_field(draw, 0, 7, WEEKDAYS)))
    return f"{minute} {hour} {day} {month} {weekday}"


@pytest.mark.parametrize("number", range(len(DAYS)))
def test_drawn_expressions(number):
    zone, start = DAYS[number]
    draw = random.Random(number)
    days = Days(zone, start)
    for gap, overlap in (("after", "first"), ("skip", "last"), ("after", "both")):
        drawn = [draw_expression(draw) for _ in range(max(1, DRAWN // len(DAYS) // 3))]
        done = run("--zone", zone, "--from", start, "--gap", gap, "--overlap", overlap, "--count", "8", "-", text="\n".join(drawn) + "\n")
        answers = [[]]  # an empty line ends each
        for line in done.stdout.splitlines():
            if line:
                answers[-1].append(line.split("\t")[0])
            else:
                answers.append([])
        assert len(answers) == len(drawn) + 1
        for expression, got in zip(drawn, answers):
            want = days.due(expression, gap, overlap)[:8]
            end = days.end.strftime("%Y-%m-%dT%H:%M:%S.000Z")
            assert [one for one in got if one < end] == want, (zone, start, expression, gap, overlap)


# ---- what is said of certain days ----


def test_a_time_that_a_day_does_not_have():
    words = ("--zone", "Europe/Berlin", "--from", "2026-03-28T12:00:00Z", "--count", "2")
    assert next_of("30 2 * * *", *words) == ["2026-03-29T01:00:00.000Z", "2026-03-30T00:30:00.000Z"]
    assert next_of("30 2 * * *", *words, "--gap", "skip")[0] == "2026-03-30T00:30:00.000Z"
    assert next_of("0,15,30 2,3 29 3 *", *words) == ["2026-03-29T01:00:00.000Z", "2026-03-29T01:15:00.000Z"]
    assert next_of("30 * * * *", *words, "--from", "2026-03-29T00:00:00Z") == ["2026-03-29T00:30:00.000Z", "2026-03-29T01:30:00.000Z"]


def test_a_time_that_a_day_has_twice():
    words = ("--zone", "Europe/Berlin", "--from", "2026-10-24T12:00:00Z", "--count", "2")
    assert next_of("30 2 * * *", *words) == ["2026-10-25T00:30:00.000Z", "2026-10-26T01:30:00.000Z"]
    assert next_of("30 2 * * *", *words, "--overlap", "last")[0] == "2026-10-25T01:30:00.000Z"
    assert next_of("30 2 * * *", *words, "--overlap", "both") == ["2026-10-25T00:30:00.000Z", "2026-10-25T01:30:00.000Z"]
    assert next_of("30 * * * *", *words, "--from", "2026-10-25T00:00:00Z") == ["2026-10-25T00:30:00.000Z", "2026-10-25T01:30:00.000Z"]


def test_midnights_and_days_that_are_not_there():
    assert next_of("@daily", "--zone", "America/Sao_Paulo", "--from", "2018-11-03T12:00:00Z", "--count", "1") == ["2018-11-04T03:00:00.000Z"]
    assert next_of("0 9 30 12 *", "--zone", "Pacific/Apia", "--from", "2011-12-01T00:00:00Z", "--count", "1") == ["2011-12-30T10:00:00.000Z"]
    assert next_of("0 0 29 2 *", "--from", "2096-03-01T00:00:00Z", "--count", "1") == ["2104-02-29T00:00:00.000Z"]


def test_dialect():
    january = ("--from", "2027-01-01T00:00:00Z", "--count", "2")
    assert next_of("0 0 13 * 5", *january) == ["2027-01-08T00:00:00.000Z", "2027-01-13T00:00:00.000Z"]  # either
    assert next_of("0 0 */7 * sun", *january)[0] == "2027-08-01T00:00:00.000Z"  # both, since one begins with *
    assert next_of("*/35 0 1 2 *", *january) == ["2027-02-01T00:00:00.000Z", "2027-02-01T00:35:00.000Z"]
    assert next_of("*/30 0 0 1 2 *", *january) == ["2027-02-01T00:00:00.000Z", "2027-02-01T00:00:30.000Z"]  # seconds first
    assert next_of("0 0 * * FRI-SUN", *january) == ["2027-01-02T00:00:00.000Z", "2027-01-03T00:00:00.000Z"]
    assert next_of(" 0\t0 1 JAN  * ", *january)[0] == "2028-01-01T00:00:00.000Z"
    for name in ("@yearly", "@annually"):
        assert next_of(name, *january)[0] == "2028-01-01T00:00:00.000Z"
    assert next_of("@weekly", *january)[0] == "2027-01-03T00:00:00.000Z"
    assert next_of("@hourly", *january)[0] == "2027-01-01T01:00:00.000Z"


@pytest.mark.parametrize(
    ("expression", "why"),
    [
        ("0 9 * *", "five fields"),
        ("0 0 0 9 * * 2027", "five fields"),
        ("60 * * * *", "0 to 59"),
        ("* 24 * * *", "0 to 23"),
        ("* * 0 * *", "1 to 31"),
        ("* * * 13 *", "jan to dec"),
        ("* * * * 8", "sun to sat"),
        ("* * * * mun", "sun to sat"),
        ("5-1 * * * *", "ends before it begins"),
        ("*/0 * * * *", "step"),
        ("7/6 * * * *", "single value"),
        ("1,,2 * * * *", "0 to 59"),
        ("0 0 ? * *", "?"),
        ("0 0 L * *", "has L"),
        ("0 0 15W * *", "has W"),
        ("0 0 * * 6#3", "has #"),
        ("@reboot", "@daily"),
        ("@every 5m", "timing.interval"),
        ("0 0 30 2 *", "never due"),
        ("", "five fields"),
        ("*" * 300, "256"),
    ],
)
def test_what_is_refused(expression, why):
    done = run("--", expression)
    assert done.returncode == 2 and why in done.stderr and done.stderr.count("\n") == 1, done.stderr


def test_a_line_that_is_too_long_is_one():
    done = run("-", text="@daily\n" + "1" * 1000 + "\n@daily\n")
    assert done.stderr.count("256 characters") == 1 and [len(block.splitlines()) for block in done.stdout.split("\n\n")] == [5, 6, 0]


def test_zones_that_are_none(tmp_path):
    for name in ("Europe/Nowhere", "../../etc/passwd", "/etc/passwd", "europe/../UTC", "", "Europe"):
        done = run("--zone", name, "@daily")
        assert done.returncode == 2 and "zone" in done.stderr, (name, done.stderr)
    (tmp_path / "Broken").write_bytes(b"TZif2" + bytes(60))
    (tmp_path / "Short").write_bytes(Path("/usr/share/zoneinfo/Europe/Berlin").read_bytes()[:200])
    for name in ("Broken", "Short"):
        done = subprocess.run([TRYST, "cron", "--zone", name, "@daily"], capture_output=True, text=True, env={**os.environ, "TZDIR": str(tmp_path)}, check=False)
        assert done.returncode == 2 and "cannot be read" in done.stderr
    done = subprocess.run([TRYST, "cron", "--zone", "Europe/Berlin", "@daily"], capture_output=True, text=True, env={**os.environ, "TZDIR": str(tmp_path / "none")}, check=False)
    assert done.returncode == 2 and "tzdata" in done.stderr


def test_every_zone_there_is():
    """Each file can be read, and says of some instants of a hundred years what Python says."""
    root = Path("/usr/share/zoneinfo")
    names = sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file() and path.read_bytes()[:4] == b"TZif" and path.parts[4] not in ("posix", "right"))
    names = [name for name in names if name not in ("localtime", "posixrules") and not name.startswith("Etc/GMT")]
    assert len(names) > 300
    draw = random.Random(1)
    for name in names:
        at = datetime(draw.randint(1975, 2070), draw.randint(1, 12), draw.randint(1, 28), draw.randint(0, 23), 30, tzinfo=timezone.utc)
        done = run("--zone", name, "--from", at.strftime("%Y-%m-%dT%H:%M:%SZ"), "--count", "1", "* * * * * *")
        assert done.returncode == 0, (name, done.stderr)
        local = (at + timedelta(seconds=1)).astimezone(ZoneInfo(name))
        assert local.strftime("%a %Y-%m-%d %H:%M:%S") in done.stdout, (name, at, done.stdout)
