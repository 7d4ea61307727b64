# SPDX-License-Identifier: Apache-2.0
"""The page in a real Chromium, on a real cluster of three: every view with real data, every action, at three widths and in both
colours. What it looked like is in build/test-logs/page/."""

import json
import os
import random
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from selenium import webdriver
from selenium.common.exceptions import NoSuchElementException, StaleElementReferenceException
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests" / "cluster"))
sys.path.insert(0, str(ROOT / "tests" / "integration"))
from cluster import TRYST, Cluster, wait_for  # noqa: E402
from conftest import Receiver, free_port  # noqa: E402

SHOTS = ROOT / "build" / "test-logs" / "page"
TIMERS = int(os.environ.get("TRYST_PAGE_TIMERS", "5000"))
VIEWS = {"overview": "", "timers": "timers", "retrying": "timers?state=retrying", "pops": "pops", "dead": "dead", "destinations": "destinations", "cluster": "cluster", "keys": "keys", "key": "keys/user%3A17"}


def set_lines(node, bodies):
    for at in range(0, len(bodies), 1000):
        status, _, answer = node.request("POST", "/timers", "\n".join(map(json.dumps, bodies[at : at + 1000])) + "\n", {"Content-Type": "application/x-ndjson"})
        assert status == 200 and b'"status"' not in answer, answer[:500]


def timer(uri, seconds, tag, attempts=1):
    return {
        "timing": {"interval": seconds}, "statistics": {"tag-info": [{"type": tag, "count": 1}]},
        "callback": {"http": {"uri": uri, "opaque": "<b>not bold</b>", "headers": {"Authorization": "Basic c2VjcmV0"}, "retry": {"attempts": attempts}}},
    }


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    made = Cluster(tmp_path_factory.mktemp("page"))
    made.receiver = Receiver()
    made.start(3)
    nobody = f"http://127.0.0.1:{free_port()}"
    node = made.members[0]
    random.seed(3)
    set_lines(node, [timer(f"{nobody}/later", random.choice([random.uniform(600, 3500), random.uniform(4000, 80000), random.uniform(90000, 3e6)]), "later") for _ in range(TIMERS)])
    assert node.request("PUT", "/timers/named/order-50", json.dumps(timer(f"{nobody}/later", 9000, "later")))[0] == 200
    set_lines(node, [timer(made.receiver.uri, 0.2, "popped") for _ in range(50)])
    set_lines(node, [timer(f"{nobody}/dead", 0.1, "dead") for _ in range(30)])
    set_lines(node, [timer(f"{nobody}/again", 0.1, "again", attempts=8) for _ in range(5)])
    made.dead = f"{nobody}/dead"
    import redis
    client = redis.Redis(node.host, node.cluster.port)
    client.execute_command("CREATE", "KEYSPACE", "1024", "2")
    with client.pipeline(transaction=False) as pipe:
        for i in range(TIMERS):
            pipe.set(f"user:{i}", f"value {i}", ex=3600 if i % 3 == 0 else None)
        pipe.execute()
    made.redis = client
    wait_for(lambda: node.json("/timers/ahead?scope=cluster")["dead"] == 30, 30, "30 dead pops")
    yield made
    made.receiver.close()
    made.close()


@pytest.fixture(scope="module")
def browser():
    options = webdriver.ChromeOptions()
    for word in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking"):
        options.add_argument(word)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    made = webdriver.Chrome(options=options, service=Service("/usr/bin/chromedriver"))
    yield made
    made.quit()


def look(browser, width=1280, dark=False):
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500})
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]})


def go(browser, cluster, view):
    browser.get("about:blank")
    browser.get(f"http://{cluster.members[0].address}/ui/#/{view}")
    # A view is there when it shows what it was told: a table, facts, or bars, and no trouble.
    wait_for(lambda: browser.find_elements(By.CSS_SELECTOR, "main table, main dl, main .chart"), 20, f"{view} shows something", lambda: browser.page_source[-3000:])
    assert not browser.find_element(By.ID, "trouble").is_displayed(), words(browser, "#trouble")


def words(browser, where):
    """What it shows: nothing while it is not there, as a dialog between two, or is being drawn anew."""
    try:
        return browser.find_element(By.CSS_SELECTOR, where).text
    except (NoSuchElementException, StaleElementReferenceException):
        return ""


def text(browser):
    return words(browser, "#main")


def click(browser, words, where="main", what="button"):
    """What follows by itself may be drawn anew while it is looked for: then it is looked for again."""

    def try_it():
        try:
            for button in browser.find_elements(By.CSS_SELECTOR, f"{where} {what}"):
                if (words in button.text or words in (button.get_attribute("aria-label") or "")) and button.is_enabled():
                    browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", button)
                    button.click()
                    return True
        except StaleElementReferenceException:
            pass
        return False

    wait_for(try_it, 10, f"a {what} {words}", lambda: words(browser, "body"))


def no_complaints(browser):
    lines = [line for line in browser.get_log("browser") if line["level"] != "INFO"]
    # A look at what is not there any more is an answer, which Chromium notes as well.
    assert [line for line in lines if "status of 404" not in line["message"]] == []


@pytest.mark.parametrize("width,dark", [(1280, False), (390, True)])
def test_every_view_shows_and_fits(cluster, browser, width, dark):
    SHOTS.mkdir(parents=True, exist_ok=True)
    look(browser, width, dark)
    one = cluster.members[1].json("/timers?tag=later&limit=1&scope=cluster")["timers"][0]["id"]
    for name, view in {**VIEWS, "timer": f"timer/{one}"}.items():
        go(browser, cluster, view)
        if name == "overview":
            wait_for(lambda: len(browser.find_elements(By.CSS_SELECTOR, "main .chart")) == 4, 20, "four charts")
            wait_for(lambda: (shown := words(browser, ".cards")) and "…" not in shown, 20, "cards")
        browser.save_screenshot(str(SHOTS / f"{name}-{width}-{'dark' if dark else 'light'}.png"))
        wide, there = browser.execute_script("return [document.documentElement.scrollWidth, document.documentElement.clientWidth]")
        assert wide <= there, (name, width, wide, there)
        assert "null" not in text(browser) and "undefined" not in text(browser) and "[object" not in text(browser) and "NaN" not in text(browser), (name, text(browser))
    no_complaints(browser)


def test_views_tell_what_is_there(cluster, browser):
    look(browser)
    go(browser, cluster, "")
    wait_for(lambda: f"{TIMERS:,}"[:-1] in words(browser, ".cards"), 20, "pending timers", lambda: text(browser))
    go(browser, cluster, "pops?state=delivered")
    assert "delivered: 200" in text(browser)
    go(browser, cluster, "destinations")
    assert cluster.receiver.uri in text(browser) and "refused" in text(browser)
    go(browser, cluster, "cluster")
    wait_for(lambda: "The ring of keys" in text(browser) and browser.find_elements(By.CSS_SELECTOR, "svg.ring path"), 10, "the ring")
    assert all(member.address in text(browser) for member in cluster.members) and "MiB" in text(browser)
    go(browser, cluster, "keys?pattern=user:1*")
    assert "user:17" in text(browser) and "user:2\n" not in text(browser)
    go(browser, cluster, "keys/user%3A18")
    assert "value 18" in text(browser) and "in 5" in text(browser)
    go(browser, cluster, "timers?tag=dead&state=dead")
    assert "all, 0 selected" in text(browser) and "30 shown" in text(browser)
    one = cluster.members[0].json("/timers/named/order-50?now=1")
    go(browser, cluster, "timer/order-50")
    shown = text(browser)
    assert one["replicas"][0] in shown and "makes the pop" in shown and "<b>not bold</b>" in shown and "c2VjcmV0" not in shown and "curl -X PUT" in shown
    no_complaints(browser)


def test_a_bar_leads_to_its_timers_and_back(cluster, browser):
    look(browser)
    go(browser, cluster, "")
    # Looked for and clicked at once: what follows by itself may be drawn anew in between.
    click_last = "const bar = [...document.querySelectorAll('.chart a')].at(-1); bar?.dispatchEvent(new MouseEvent('click', {bubbles: true, cancelable: true, view: window})); return bar?.getAttribute('aria-label')"
    bar = wait_for(lambda: browser.execute_script(click_last), 20, "a bar that can be clicked")
    number = int(bar.split(": ")[1].replace(",", ""))
    shown = wait_for(lambda: " shown, " in text(browser) and text(browser), 10, "its timers")
    assert f"{min(number, 100)} shown" in shown, shown[:400]
    browser.back()
    wait_for(lambda: browser.find_elements(By.CSS_SELECTOR, ".chart a"), 20, "the overview again")
    no_complaints(browser)


def test_by_keyboard_alone(cluster, browser):
    look(browser)
    go(browser, cluster, "")
    body = browser.find_element(By.TAG_NAME, "body")
    for _ in range(30):
        browser.switch_to.active_element.send_keys(Keys.TAB) if browser.switch_to.active_element != body else body.send_keys(Keys.TAB)
        if browser.switch_to.active_element.text == "Keys":
            break
    browser.switch_to.active_element.send_keys(Keys.ENTER)
    wait_for(lambda: browser.current_url.endswith("#/keys") and "user:" in text(browser), 10, "keys, by the keyboard")
    no_complaints(browser)


def test_timers_are_fired_cancelled_and_redriven(cluster, browser):
    look(browser)
    node = cluster.members[2]
    assert node.request("PUT", "/timers/named/to-fire", json.dumps(timer(cluster.receiver.uri, 5000, "to-fire")))[0] == 200
    set_lines(node, [timer(cluster.receiver.uri, 5000, "to-cancel") for _ in range(20)])
    before = len(cluster.receiver.pops)
    go(browser, cluster, "timer/to-fire")
    click(browser, "Fire now")
    click(browser, "Fire", "dialog")
    wait_for(lambda: len(cluster.receiver.pops) == before + 1, 10, "a pop")

    go(browser, cluster, "timers?tag=to-cancel")
    for i in range(3):
        browser.execute_script("document.querySelectorAll('tbody input[type=checkbox]')[arguments[0]].click()", i)
    click(browser, "Cancel selected")
    click(browser, "Cancel 3", "dialog")
    wait_for(lambda: len(node.json("/timers?tag=to-cancel&scope=cluster&sort=due")["timers"]) == 17, 10, "three are cancelled", lambda: words(browser, "body")[:600])
    wait_for(lambda: "17 shown" in text(browser), 10, "a list without them")
    click(browser, "Cancel all that match")
    wait_for(lambda: "17" in words(browser, "dialog"), 10, "a question")
    click(browser, "Back", "dialog")
    assert len(node.json("/timers?tag=to-cancel&scope=cluster&sort=due")["timers"]) == 17
    click(browser, "Cancel all that match")
    click(browser, "Cancel 17", "dialog")
    wait_for(lambda: len(node.json("/timers?tag=to-cancel&scope=cluster&sort=due")["timers"]) == 0, 10, "all are cancelled")

    go(browser, cluster, "dead")
    assert "30" in text(browser) and "refused" in text(browser)
    browser.execute_script("document.querySelector('tbody input[type=checkbox]').click()")
    click(browser, "Redrive selected (1)")
    wait_for(lambda: "1 redriven" in words(browser, "#toast"), 10, "one is redriven")
    click(browser, "Redrive all to it")
    click(browser, "Redrive", "dialog")
    wait_for(lambda: "redriven." in words(browser, "#toast").replace("1 redriven.", ""), 20, "those of a destination")
    no_complaints(browser)


def test_a_key_is_deleted(cluster, browser):
    look(browser)
    cluster.redis.set("to-delete", "x")
    go(browser, cluster, "keys/to-delete")
    click(browser, "Delete")
    click(browser, "Delete", "dialog")
    wait_for(lambda: cluster.redis.get("to-delete") is None, 10, "it is gone")
    wait_for(lambda: browser.current_url.endswith("#/keys"), 10, "all keys again")
    no_complaints(browser)


def test_a_page_that_stays_open_does_not_grow(cluster, browser):
    """The overview, which follows by itself, while timers are set and pop. TRYST_PAGE_SECONDS=3600 leaves it open for an hour."""
    look(browser)
    rounds = int(os.environ.get("TRYST_PAGE_SECONDS", "8"))

    def heap():
        browser.execute_cdp_cmd("HeapProfiler.collectGarbage", {})
        return browser.execute_script("return performance.memory.usedJSHeapSize")

    stop = threading.Event()

    def load():
        while not stop.wait(0.5):
            set_lines(cluster.members[1], [timer(cluster.receiver.uri, 1, f"load-{i}") for i in range(25)])

    thread = threading.Thread(target=load)
    thread.start()
    try:
        go(browser, cluster, "")
        time.sleep(6)
        before = heap()
        time.sleep(rounds)
        after = heap()
    finally:
        stop.set()
        thread.join()
    nodes = browser.execute_script("return document.querySelectorAll('*').length")
    print(f"heap {before} then {after} bytes after {rounds} s, {nodes} elements")
    assert after - before < 10_000_000 and nodes < 3000
    no_complaints(browser)


def test_a_token_is_asked_for_and_kept_in_the_tab(browser, tmp_path):
    made = Cluster(tmp_path)
    tokens = tmp_path / "tokens"
    shown = {name: subprocess.run([TRYST, "token", "new", name, "--scope", scope, "--tokens-file", str(tokens)], capture_output=True, text=True, check=True).stdout.split()[-1] for name, scope in (("reader", "read"), ("other", "read,tag:x"))}
    made.shared = f"[auth]\ntokens-file = {tokens}\n"
    node = made.start(1)[0]
    try:
        look(browser)
        browser.get(f"http://{node.address}/ui/#/timers")
        wait_for(lambda: browser.find_elements(By.CSS_SELECTOR, "dialog input"), 10, "a login")

        def log_in(token):
            field = wait_for(lambda: browser.find_elements(By.CSS_SELECTOR, "dialog input[type=password]"), 10, "a field")[0]
            field.send_keys(token)
            field.send_keys(Keys.ENTER)

        log_in("wrong")
        wait_for(lambda: "not accepted" in words(browser, "dialog"), 10, "a word on the wrong one")
        log_in(shown["reader"])
        wait_for(lambda: "No timer matches" in text(browser), 10, "the list")
        browser.refresh()
        wait_for(lambda: "No timer matches" in text(browser), 10, "the list, without another login")
        # What the token may not do is said.
        browser.execute_script("location.hash = '#/timers?tag=a'")
        wait_for(lambda: "0 shown" in text(browser), 10, "another list")
        click(browser, "Cancel all that match")
        wait_for(lambda: "may not write" in words(browser, "#toast"), 10, "a refusal")
        assert browser.execute_script("return Object.keys(localStorage).length + document.cookie.length") == 0
        click(browser, "Log out", "header")
        wait_for(lambda: browser.find_elements(By.CSS_SELECTOR, "dialog input"), 10, "a login again")
        browser.get("about:blank")
        assert [line for line in browser.get_log("browser") if "Content Security" in line["message"] or "Uncaught" in line["message"]] == []
    finally:
        made.close()
