# SPDX-License-Identifier: Apache-2.0
"""What was answered survives: kill -9, torn tails, damage, full disks."""

import os
import random
import re
import shutil
import signal
import subprocess
import threading
import time

import pytest

from conftest import ROOT, SLOW, TRYST, Receiver, timer_body, wait_for
from resp import Client as RespClient

ROUNDS = int(os.environ.get("TRYST_ROUNDS", "4"))
SMALL = "[storage]\nsegment-size = 1M\n[limits]\nopaque = 64K\n"


def segments(node):
    return sorted(os.path.join(node.data_dir, name) for name in os.listdir(node.data_dir) if name.endswith(".segment"))


def used_segments(node):
    return [path for path in segments(node) if open(path, "rb").read(8) == b"trystlog"]


class Client(threading.Thread):
    """Sets and cancels timers until the node goes; knows what was answered."""

    def __init__(self, node, receiver, number, round_number):
        super().__init__()
        self.node, self.receiver, self.name_ = node, receiver, f"{round_number}-{number}"
        self.random = random.Random(self.name_)
        self.acked = {}  # path -> (due, repeats)
        self.cancelled = set()
        self.maybe = set()
        self.locations = {}

    def run(self):
        for i in range(100000):
            path = f"/{self.name_}-{i}"
            interval = self.random.choice([0.3, 1, 2, 3, 4])
            due = time.clock_gettime(time.CLOCK_BOOTTIME) + interval
            try:
                answer = self.node.create(self.receiver.uri + path, interval)
                if answer.status == 200:
                    self.acked[path] = due
                    self.locations[path] = answer.location
                if self.locations and self.random.random() < 0.2:
                    victim = self.random.choice(list(self.locations))
                    location = self.locations.pop(victim)
                    self.maybe.add(victim)
                    if self.node.request("DELETE", location).status == 200:
                        self.cancelled.add((victim, time.clock_gettime(time.CLOCK_BOOTTIME)))
            except (OSError, Exception):
                return


def test_kill_9_under_load(nodes):
    """Every acknowledged timer pops, no acknowledged cancel does, nothing is early."""
    receiver = Receiver()
    node = nodes(config="[callback]\nbackoff-ms = 100\n").start()
    acked, cancelled, maybe = {}, {}, set()
    for number in range(ROUNDS):
        clients = [Client(node, receiver, i, number) for i in range(4)]
        for client in clients:
            client.start()
        time.sleep(random.uniform(0.2, 0.8))
        node.kill()
        for client in clients:
            client.join()
            acked.update(client.acked)
            cancelled.update(dict(client.cancelled))
            maybe |= client.maybe
        node.start()
    assert len(acked) > 20 * ROUNDS and len(cancelled) > ROUNDS
    wanted = {path for path in acked if path not in maybe}
    wait_for(lambda: wanted <= {pop.path for pop in list(receiver.pops)}, 30, "every acknowledged timer")
    for pop in list(receiver.pops):
        if pop.path in acked:
            assert pop.at >= acked[pop.path], "early"
        if pop.path in cancelled:
            assert pop.at <= cancelled[pop.path] + 0.05, "popped after an acknowledged cancel"
    receiver.close()


def test_a_torn_tail_is_cut(node, receiver):
    kept = node.create(receiver.uri, 3600).location
    node.kill()
    path = used_segments(node)[-1]
    data = open(path, "rb").read()
    end = len(data.rstrip(b"\0")) + 8 & ~7
    with open(path, "r+b") as file:
        file.seek(end)
        file.write(b"TRB1" + b"\x40\0\0\0" + b"garbage" * 9)
    assert subprocess.run([TRYST, "log", "check", node.data_dir], capture_output=True, text=True).returncode == 0
    node.start()
    assert "torn tail" in node.log()
    assert node.get(kept).status == 200
    node.kill()
    node.start()
    assert node.get(kept).status == 200


def flip(path, offset):
    with open(path, "r+b") as file:
        file.seek(offset)
        byte = file.read(1)[0]
        file.seek(offset)
        file.write(bytes([byte ^ 0x10]))


def test_damage_is_refused_and_repaired(node, receiver):
    locations = [node.create(receiver.uri, 3600, opaque=f"opaque-{i}-").location for i in range(20)]
    node.kill()
    path = used_segments(node)[0]
    flip(path, open(path, "rb").read().index(b"opaque-5-"))
    node.start(wait=False)
    assert node.process.wait(10 * SLOW) == 1
    found = re.search(r"(\S+\.segment) is damaged at offset (\d+)", node.log())
    assert found and found.group(1) == path
    check = subprocess.run([TRYST, "log", "check", node.data_dir], capture_output=True, text=True)
    assert check.returncode == 1 and path in check.stdout
    repair = subprocess.run([TRYST, "log", "repair", node.data_dir], capture_output=True, text=True)
    assert repair.returncode == 0 and "kept" in repair.stdout
    assert os.path.exists(path + ".damaged")
    node.start()
    alive = [location for location in locations if node.get(location).status == 200]
    assert 15 <= len(alive) < 20 and locations[5] not in alive


def test_a_newer_format_is_refused(node):
    node.stop()
    path = used_segments(node)[0]
    with open(path, "r+b") as file:
        file.seek(8)
        file.write(b"\x63")
    node.start(wait=False)
    assert node.process.wait(10 * SLOW) == 1
    assert "newer version" in node.log() and path in node.log()


def test_a_missing_segment_is_refused(nodes, receiver):
    node = nodes(config=SMALL).start()
    while len(used_segments(node)) < 3:
        node.create(receiver.uri, 3600, opaque="o" * 60000)
    node.kill()
    os.unlink(used_segments(node)[1])
    node.start(wait=False)
    assert node.process.wait(10 * SLOW) == 1
    assert "missing" in node.log()


def test_the_oldest_segment_is_missed_too(nodes, receiver):
    node = nodes(config=SMALL).start()
    locations = []
    while len(used_segments(node)) < 3:
        locations.append(node.create(receiver.uri, 3600, opaque="o" * 60000).location)
    node.kill()
    os.unlink(used_segments(node)[0])
    node.start(wait=False)
    assert node.process.wait(10 * SLOW) == 1
    assert "a segment is missing" in node.log() and "tryst log repair" in node.log()
    repair = subprocess.run([TRYST, "log", "repair", node.data_dir], capture_output=True, text=True)
    assert repair.returncode == 0, repair.stdout + repair.stderr
    node.start()
    alive = sum(node.get(location).status == 200 for location in locations)
    assert 0 < alive < len(locations)


def test_segments_that_were_reclaimed_are_not_missed(nodes, receiver):
    node = nodes(config=SMALL).start()
    kept = node.create(receiver.uri, 3600).location
    first = used_segments(node)[0]
    while os.path.exists(first):  # what is cancelled is garbage, and its segments go
        location = node.create(receiver.uri, 3600, opaque="o" * 60000).location
        assert node.request("DELETE", location).status == 200
    node.kill()
    node.start()
    assert node.get(kept).status == 200


def test_a_flipped_bit_in_the_last_batch_is_damage(node, receiver):
    """A second after the last write a batch without entries says that it was synced: no torn tail looks like that."""
    node.create(receiver.uri, 3600, opaque="opaque-last-")
    path = used_segments(node)[-1]
    size = lambda: len(open(path, "rb").read().rstrip(b"\0"))
    before = size()
    wait_for(lambda: size() > before, 10, "the log is sealed")
    node.kill()
    flip(path, open(path, "rb").read().index(b"opaque-last-"))
    node.start(wait=False)
    assert node.process.wait(10 * SLOW) == 1
    assert "is damaged at offset" in node.log()


def test_damage_within_the_last_second_is_told_aloud(node, receiver):
    kept = node.create(receiver.uri, 3600).location
    node.create(receiver.uri, 3600, opaque="opaque-last-")
    node.kill()  # before the log is sealed, or the one before says all the same
    path = used_segments(node)[-1]
    flip(path, open(path, "rb").read().index(b"opaque-last-"))
    node.start(wait=False)
    said = wait_for(lambda: re.search("is all there, but its checksum is wrong|is damaged at offset", node.log()), 10, "it tells")
    if "damaged" not in said[0]:
        wait_for(node.is_ready, 20)
        assert node.get(kept).status == 200


@pytest.mark.parametrize("form", [1, 2, 3])
def test_a_log_of_an_older_format_is_read(nodes, receiver, form):
    """tests/data/format-1 to format-3 were written by builds that had these formats."""
    node = nodes()
    os.makedirs(node.data_dir)
    folder = ROOT / "tests" / "data" / f"format-{form}"
    for segment in folder.glob("*.segment"):
        shutil.copy(segment, node.data_dir)
    node.start()
    for location in (folder / "timers.txt").read_text().split():
        assert node.get(location).status == 200
    if form == 3:
        client = RespClient(node.port)
        assert [client("GET", f"key-{n}") for n in (1, 2, 3)] == [b"value-1", b"value-2", b"value-3"]
        assert client("GET", "gone") is None and client("TTL", "later") > 0
    kept = node.create(receiver.uri, 86400).location
    node.kill()
    node.start()
    assert node.get(kept).status == 200


def test_two_processes_do_not_share_a_directory(node, nodes):
    second = nodes(data_dir=node.data_dir)
    second.start(wait=False)
    assert second.process.wait(10 * SLOW) == 1
    assert "another process uses the data directory" in second.log()


@pytest.mark.parametrize("sync", ["always", "interval", "never"])
def test_every_kind_of_sync_survives_kill_9(nodes, receiver, sync):
    node = nodes(config=f"[storage]\nsync = {sync}\nsync-interval-ms = 50\n").start()
    locations = [node.create(receiver.uri, 3600).location for _ in range(30)]
    node.kill()
    node.start()
    assert all(node.get(location).status == 200 for location in locations)


def test_without_a_data_directory_all_is_in_memory(nodes, receiver):
    node = nodes(data_dir="none").start()
    location = node.create(receiver.uri, 3600).location
    node.create(receiver.uri, 0.05)
    receiver.wait(1)
    node.stop()
    node.start()
    assert node.get(location).status == 404


def test_what_fell_due_meanwhile_pops_at_once(node, receiver):
    node.create(receiver.uri, 0.3, 0.9)
    node.kill()
    time.sleep(1.2)
    node.start()
    pops = receiver.wait(3, 3)
    assert [pop.sequence for pop in pops] == [1, 2, 3]


def test_a_clean_stop_finishes_callbacks(nodes, receiver):
    node = nodes().start()
    node.create(receiver.uri + "/slow/0.5", 0.05)
    receiver.wait(1)
    assert node.stop() == 0
    node.start()
    time.sleep(0.3)
    assert len(receiver.pops) == 1  # it was booked as delivered
    assert node.metrics()['tryst_timers{state="pending"}'] == 0


def test_old_segments_are_reclaimed(nodes, receiver):
    node = nodes(config=SMALL).start()
    keep = node.create(receiver.uri, 3600, opaque="kept" * 1000).location
    location = node.create(receiver.uri, 3600, opaque="first").location
    for _ in range(400):
        assert node.request("PUT", location, timer_body(receiver.uri, 3600, opaque="o" * 60000)).status == 200
    wait_for(lambda: node.metrics()["tryst_log_segments"] < 9, what="reclaiming")
    assert node.metrics()["tryst_log_reclaimed_total"] > 0
    assert "0000000000000001" not in segments(node)[0]
    node.kill()
    node.start()
    assert node.get(keep).json()["callback"]["http"]["opaque"] == "kept" * 1000
    assert node.get(location).status == 200


def test_a_full_disk_refuses_and_heals(nodes, receiver, mount):
    small_disk = mount("8m")
    node = nodes(config=SMALL, data_dir=str(small_disk / "data")).start()
    answers = [node.create(f"{receiver.uri}/{i}", 4) for i in range(50)]
    assert [answer.body for answer in answers if answer.status != 200] == []
    short = [answer.location for answer in answers]
    (small_disk / "ballast").write_bytes(b"x" * (3 << 20))
    kept, answer = [], None
    for _ in range(300):
        answer = node.create(receiver.uri, 3600, opaque="o" * 60000)
        if answer.status != 200:
            break
        kept.append(answer.location)
    assert answer.status == 507 and answer.headers["retry-after"]
    assert "the disk is full" in answer.detail and "the disk is full" in node.log()
    assert node.get("/readyz").status == 503 and "the disk is full" in node.get("/readyz").json()["reason"]
    receiver.wait(50, 20)  # pops go on
    wait_for(lambda: node.metrics()['tryst_pops_total{result="delivered"}'] == 50)
    for location in kept:
        assert node.get(location).status == 200
    node.kill()  # also through a crash
    node.start()
    assert all(node.get(location).status == 200 for location in kept)
    assert all(node.get(location).status == 404 for location in short)
    (small_disk / "ballast").unlink()
    wait_for(lambda: node.create(receiver.uri, 3600, opaque="o" * 60000).status == 200, what="healing")
    time.sleep(0.2)
    assert len(receiver.pops) == 50


def test_stopping_twice_is_at_once(nodes, receiver):
    node = nodes(config="[callback]\ntimeout-ms = 20000\n").start()
    node.create(receiver.uri + "/mute", 0.05)
    receiver.wait(1)
    node.process.send_signal(signal.SIGTERM)
    wait_for(lambda: "stopping" in node.log())
    node.process.send_signal(signal.SIGINT)
    assert node.process.wait(5) == 0
    node.start()
    receiver.wait(2)  # it was not booked, so it is made again
    receiver.release.set()
