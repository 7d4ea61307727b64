# SPDX-License-Identifier: Apache-2.0
"""Where the original is careless and tryst must not be: one test each."""

import signal
import time

from conftest import QUICK, timer_body, wait_for


def test_a_body_that_is_an_array_does_not_kill_the_process(node):
    for _ in range(3):
        assert node.request("POST", "/timers", "[]").status == 400
    assert node.request("PUT", "/timers/0123456789abcdef-" + "9" * 30, "{}").status == 404
    assert node.process.poll() is None and node.get("/ping").status == 200


def test_a_negative_interval_does_not_pop_in_a_hot_loop(node, receiver):
    assert node.create(receiver.uri, -5).status == 400
    time.sleep(0.3)
    assert receiver.pops == []


def test_an_interval_over_24_8_days_does_not_pop_at_once(node, receiver):
    for interval in (2_500_000, 4_294_968, 10_000_000):
        assert node.create(receiver.uri, interval).status == 200
    time.sleep(2.2)
    assert receiver.pops == []


def test_201_and_204_are_success_and_repeats_go_on(node, receiver):
    node.create(receiver.uri + "/status/201", 0.1, 0.3)
    node.create(receiver.uri + "/status/204", 0.1, 0.3)
    receiver.wait(6)
    assert node.metrics()['tryst_pops_total{result="failed"}'] == 0


def test_one_failure_does_not_delete_the_timer_and_its_repeats(node, receiver):
    receiver.status = 500
    node.create(receiver.uri, 0.4, 2.0)
    receiver.wait(1)
    receiver.status = 200
    wait_for(lambda: {pop.sequence for pop in receiver.pops} == {1, 2, 3, 4, 5}, what="all five pops")


def test_a_failing_callback_does_not_delete_a_newer_update(nodes, receiver):
    node = nodes(config="[callback]\nattempts = 1\n").start()
    location = node.create(receiver.uri + "/slow/0.5", 0.05).location
    receiver.wait(1)
    receiver.status = 500
    assert node.request("PUT", location, timer_body(receiver.uri + "/new", 1)).status == 200
    time.sleep(0.7)  # the old callback has failed meanwhile
    assert node.get(location).json()["callback"]["http"]["uri"].endswith("/new")
    receiver.status = 200
    wait_for(lambda: [pop for pop in receiver.pops if pop.path == "/new"], what="the new pop")


def test_a_slow_receiver_does_not_hold_up_others(nodes, receiver):
    node = nodes(config="[callback]\ntimeout-ms = 2000\n").start()
    for _ in range(300):
        node.create(receiver.uri + "/mute", 0.5)
    other = type(receiver)()
    due = []
    for i in range(20):
        due.append(time.clock_gettime(time.CLOCK_BOOTTIME) + 0.8)
        node.create(f"{other.uri}/{i}", 0.8)
    other.wait(20, 3)
    late = [pop.at - due[int(pop.path[1:])] for pop in other.pops]
    assert max(late) < 1.0 and min(late) >= 0
    other.close()


def test_200_means_stored(nodes, receiver):
    node = nodes(config=QUICK).start()
    locations = [node.create(receiver.uri, 3600).location for _ in range(20)]
    node.kill()  # at once after the last answer
    node.start()
    for location in locations:
        assert node.get(location).status == 200


def test_factors_0_and_minus_1_and_a_bad_uri_are_refused(node, receiver):
    assert node.create(receiver.uri, 10, factor=0).status == 400
    assert node.create(receiver.uri, 10, factor=-1).status == 400
    assert node.create("foo", 10).status == 400


def test_a_bad_config_at_reload_does_not_end_the_process(node):
    node.config.write_text("[http]\nbind-port = many\n[nonsense\n")
    node.process.send_signal(signal.SIGHUP)
    wait_for(lambda: node.metrics()["tryst_config_faults"] == 2, what="the faults to be counted")
    assert "config" in node.get("/readyz").json()
    assert "tryst.conf:1: " in node.log() or "tryst.conf:2: " in node.log()
    node.config.write_text(QUICK)
    node.process.send_signal(signal.SIGHUP)
    wait_for(lambda: node.metrics()["tryst_config_faults"] == 0)
    assert "config" not in node.get("/readyz").json()


def test_a_restart_loses_no_timer(node, receiver):
    location = node.create(receiver.uri, 5).location
    assert node.stop() == 0
    node.start()
    assert node.get(location).status == 200
    receiver.wait(1)
