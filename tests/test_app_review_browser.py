"""The review page in a real browser: looked at, listened to, put right by keys, learned from again.

Skipped where chromium and its driver are not installed (Debian: ``apt-get install chromium chromium-driver``).
"""

import csv
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import parse_qs

import numpy as np
import pytest
import soundfile

from bagwise import BagDataset, Bags, Run, write_dataset
from bagwise.datasets import make_gaussian_bags, make_soundscape

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser")
DRIVER = shutil.which("chromedriver")
pytestmark = pytest.mark.skipif(not (BROWSER and DRIVER), reason="chromium and chromedriver are not installed")
pytest.importorskip("selenium", reason="selenium, which drives the browser, is not installed")
pytest.importorskip("starlette", reason="the extra review is not installed")

from selenium import webdriver  # noqa: E402
from selenium.webdriver import ActionChains, Keys  # noqa: E402

FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--autoplay-policy=no-user-gesture-required", "--window-size=1400,900",
)  # fmt: skip
PATIENCE = 90.0  # seconds; machines that test are slow and shared
HOSTILE = "<img src=x onerror=document.body.dataset.hacked=1>"


class Page:
    """A server for a run, and the browser on its page."""

    def __init__(self, driver, run):
        self.driver = driver
        self.run = run
        self.server = subprocess.Popen(
            [sys.executable, "-m", "bagwise.app.cli", "review", str(run), "--no-browser"],
            stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )  # fmt: skip
        self.address = self.server.stdout.readline().strip()
        assert self.address.startswith("http://127.0.0.1:"), self.address
        driver.get_log("browser")  # what an earlier page said
        self.open(self.address)

    def open(self, address):
        self.driver.get(address)
        self.wait("return document.documentElement.dataset.ready")

    def close(self):
        self.driver.switch_to.window(self.driver.window_handles[0])
        for handle in self.driver.window_handles[1:]:
            self.driver.switch_to.window(handle)
            self.driver.close()
        self.driver.switch_to.window(self.driver.window_handles[0])
        self.driver.get("about:blank")
        code = self.stop()
        assert code == 0

    def stop(self):
        if self.server.poll() is None:
            self.server.send_signal(signal.SIGINT)
        code = self.server.wait(PATIENCE)
        self.server.stdout.close()
        return code

    def js(self, script, *arguments):
        return self.driver.execute_script(script, *arguments)

    def wait(self, script, *arguments, supervision=None):
        """Wait until a script gives something true, and give it."""
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            found = self.js(script, *arguments)
            if found:
                return found
            time.sleep(0.03)
        sound = self.js("const a = document.querySelector('audio'); return a && [a.paused, a.currentTime, a.src]")
        said = self.text("body")[:800]
        raise AssertionError(
            f"Waited in vain for {supervision or script}; the sound is {sound}; the page says {said!r}."
        )

    def text(self, name):
        return self.js("return document.querySelector(arguments[0])?.innerText", name)

    def wait_progress(self, n):
        """Wait until the server counts n checked instances."""
        self.wait("return document.querySelector('#progress').textContent.startsWith(arguments[0] + ' of')", str(n))

    def wait_label(self, place, label, supervision=None):
        """Wait until a row of the list bears a label."""
        script = "return document.querySelector('#row-' + arguments[0] + ' .name')?.textContent === arguments[1]"
        self.wait(script, place, label, supervision=supervision)

    def choose(self, name, value):
        """Choose in a field as a person does."""
        self.js(
            "const box = document.querySelector(arguments[0]); box.value = arguments[1];"
            "box.dispatchEvent(new Event('change'))", name, value,
        )  # fmt: skip

    def press(self, *keys):
        ActionChains(self.driver).send_keys(*keys).perform()

    def api(self, path, body=None):
        """What the server says to the page."""
        options = {} if body is None else {
            "method": "POST", "body": json.dumps(body),
            "headers": {"Content-Type": "application/json", "X-Bagwise": "1"},
        }  # fmt: skip
        return self.driver.execute_async_script(
            "const [path, options, done] = arguments;"
            "options.headers = {...options.headers, 'X-Bagwise-Key': localStorage.getItem('bagwise-key')};"
            "fetch(path, options).then((r) => r.json()).then(done)",
            path,
            options,
        )

    def here(self):
        """Label and place of the row one stands on, and of the one that is shown large."""
        return self.js(
            "return ['.row.here .chip .name', '.row.here .where', '.facts .chip .name']"
            ".map((name) => document.querySelector(name)?.textContent)"
        )

    def goes_to(self, view):
        self.js("[...document.querySelectorAll('nav a')].find((a) => a.textContent === arguments[0]).click()", view)

    def corrections(self):
        """What is on disk: label and action, in the order it was said."""
        path = self.run / "corrections.csv"
        if not path.exists():  # the page shows an answer before it is on disk
            return []
        with path.open(encoding="utf-8", newline="") as file:
            return [(row["label"], row["action"]) for row in csv.DictReader(file)]

    def errors(self):
        return [entry["message"] for entry in self.driver.get_log("browser") if entry["level"] == "SEVERE"]


@pytest.fixture(scope="module")
def driver(tmp_path_factory):
    options = webdriver.ChromeOptions()
    options.binary_location = BROWSER
    for flag in FLAGS:
        options.add_argument(flag)
    options.add_argument(f"--user-data-dir={tmp_path_factory.mktemp('browser')}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    browser = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    yield browser
    browser.quit()


@pytest.fixture(scope="module")
def sounds(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sounds")
    made = make_soundscape(8, seconds=6.0, species_per_recording=(2, 3), random_state=1)
    made.write(folder)
    Run.create(folder / "recordings", folder / "run", labels=folder / "labels.csv", page=False, jobs=1).close()
    return folder / "run"


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    folder = tmp_path_factory.mktemp("table")
    write_dataset(make_gaussian_bags(n_bags=60, separation=2.0, random_state=0), folder / "made.csv")
    Run.create(folder / "made.csv", folder / "run", page=False).close()
    return folder / "run"


@pytest.fixture(scope="module")
def windows(tmp_path_factory):
    """A run whose instances carry any number of labels."""
    folder, rng = tmp_path_factory.mktemp("windows"), np.random.default_rng(0)
    sings = rng.random((120, 3)) < 0.35
    data = BagDataset(
        Bags(np.hstack([2.0 * sings, 1.0 - sings]) + 0.3 * rng.normal(size=(120, 6)), np.arange(0, 121, 6)),
        np.logical_or.reduceat(sings, np.arange(0, 120, 6)).astype(int), ["crow", "tit", "wren"],
    )  # fmt: skip
    write_dataset(data, folder / "made.csv")
    Run.create(folder / "made.csv", folder / "run", model="noisy-or", page=False, seed=0).close()
    return folder / "run"


@pytest.fixture(scope="module")
def series(tmp_path_factory):
    folder, rng = tmp_path_factory.mktemp("series"), np.random.default_rng(0)
    (folder / "media").mkdir()
    for i in range(6):
        time = np.arange(600) / 50
        wave = np.where(time < 6, np.sin(20 * time), 0.1) + 0.01 * rng.standard_normal(600)
        lines = [f"{a:.2f},{b:.4f}" for a, b in zip(time, wave, strict=True)]
        (folder / "media" / f"{i}.csv").write_text("\n".join(["time,x", *lines]) + "\n")
    rows = [f"{i}.csv,{label}" for i in range(6) for label in ("move", "rest")]
    (folder / "labels.csv").write_text("\n".join(["file,label", *rows]) + "\n")
    options = {"labels": folder / "labels.csv", "media_type": "series", "page": False, "jobs": 1}
    Run.create(folder / "media", folder / "run", **options).close()
    return folder / "run"


@pytest.fixture
def page_of(driver, tmp_path):
    opened = []

    def start(run):
        copy = tmp_path / "run"
        shutil.copytree(run, copy)
        opened.append(Page(driver, copy))
        return opened[-1]

    yield start
    for page in opened:
        page.close()


def test_opens_without_the_token_in_the_address(page_of, sounds):
    page = page_of(sounds)
    assert "token" in page.address
    assert "token" not in page.driver.current_url
    assert "key" not in page.driver.current_url
    run = page.api("/api/run")
    assert page.driver.title.startswith(run["name"])
    page.wait("return document.querySelectorAll('.row').length > 5")
    page.wait("return document.querySelector('.sound img')?.naturalWidth > 100", supervision="the spectrogram")
    here = page.js("return document.querySelectorAll('.box.mine').length")
    assert here == 1
    assert page.errors() == []


def test_space_plays_and_the_time_passes(page_of, sounds):
    page = page_of(sounds)
    page.wait("return document.querySelector('.box.mine')")
    time_passes = "const audio = document.querySelector('audio'); return !audio.paused && audio.currentTime > 0.1"
    settled(page, "return document.querySelector('.overlay')?.getAttribute('aria-label')")
    page.press("r", Keys.SPACE)  # over and over, so that it still plays when it is looked at
    page.wait(time_passes, supervision="time to pass")
    page.press(Keys.SPACE)
    page.wait("return document.querySelector('audio').paused")
    page.press("b", "t", Keys.SPACE)
    page.wait(time_passes, supervision="slowed, banded, looped")
    source = page.js("return document.querySelector('audio').src")
    assert "slow=2" in source
    assert "low=" in source
    assert page.js("return document.querySelector('audio').loop") is True
    page.press("t")  # changed while it plays: what was cut off does not stop what plays now
    page.wait("return document.querySelector('audio').src.includes('slow=5')")
    page.wait(time_passes, supervision="slower still")
    page.press(Keys.SPACE, "r", "b", "t", "t")
    assert page.errors() == []


def settled(page, what):
    """A value once it stays, in an order that does not come late to put another instance first."""
    page.choose("#order", "file")
    seen = [page.js(what)]
    while len(seen) < 2 or (seen[-1] != seen[-2] and len(seen) < 20):
        time.sleep(0.7)
        seen.append(page.js(what))
    return seen[-1]


def test_zoom_and_pan_show_another_stretch(page_of, sounds):
    page = page_of(sounds)
    page.wait("return document.querySelector('.sound img')?.naturalWidth")
    stretch = "return document.querySelector('.overlay').getAttribute('aria-label')"
    before = settled(page, stretch)
    page.press("+")
    zoomed = page.js(stretch)
    assert zoomed != before
    ActionChains(page.driver).key_down(Keys.SHIFT).send_keys(Keys.ARROW_RIGHT).key_up(Keys.SHIFT).perform()
    assert page.js(stretch) != zoomed
    page.press("=")
    assert page.js(stretch) == before


def test_curves_are_zoomed_and_panned_by_the_same_keys(page_of, series):
    page = page_of(series)
    page.wait("return document.querySelector('.series .curve')")
    ticks = "[...document.querySelectorAll('.series text[text-anchor]')]"
    stretch = f"return {ticks}.map((each) => each.textContent).join(' ')"
    before = settled(page, stretch)
    page.press("+")
    zoomed = page.js(stretch)
    assert zoomed != before
    ActionChains(page.driver).key_down(Keys.SHIFT).send_keys(Keys.ARROW_RIGHT).key_up(Keys.SHIFT).perform()
    assert page.js(stretch) != zoomed
    page.press("=")
    assert page.js(stretch) == before
    assert page.errors() == []


def test_answers_by_keys_are_on_disk_and_undone(page_of, sounds):
    page = page_of(sounds)
    labels = [label["name"] for label in page.api("/api/run")["labels"]]
    first = page.here()
    page.press(Keys.ENTER)  # confirmed, and on to the next
    page.wait("return document.querySelector('#row-0').classList.contains('done')")
    page.wait("return document.querySelector('#row-1').classList.contains('here')")
    second = page.here()
    wanted = next(i for i, name in enumerate(labels) if name != second[0])
    page.press(str(wanted + 1))
    page.press("x")
    page.press("/", labels[2][:4], Keys.ENTER)
    page.press("n", "Neuling", Keys.ENTER)
    page.wait_label(4, "Neuling")
    until = time.monotonic() + PATIENCE
    while len(page.corrections()) < 5 and time.monotonic() < until:
        time.sleep(0.05)
    said = page.corrections()
    assert said[0] == (first[0], "confirmed")
    assert said[1] == (labels[wanted], "label")
    assert said[2] == ("", "noise")
    assert said[3][0] == labels[2]
    assert said[4] == ("Neuling", "label")
    page.wait("return [...document.querySelectorAll('.choice .name')].some((e) => e.textContent === 'Neuling')")

    page.press("u")
    page.wait("return document.querySelector('#row-4 .name').textContent !== 'Neuling'")
    ActionChains(page.driver).key_down(Keys.CONTROL).send_keys("z").key_up(Keys.CONTROL).perform()
    page.press("u", "u")
    page.wait(
        "return document.querySelector('#row-1').classList.contains('here')", supervision="the row that was taken back"
    )
    page.wait("return !document.querySelector('#row-1').classList.contains('done')")
    assert page.here()[0] == second[0]
    assert page.js("return document.querySelector('#row-0').classList.contains('done')")
    page.wait_progress(1)
    assert page.errors() == []


def test_typed_letters_find_labels_and_arrows_move(page_of, sounds):
    page = page_of(sounds)
    page.press(Keys.ARROW_DOWN, Keys.ARROW_DOWN, Keys.ARROW_UP)
    assert page.js("return document.querySelector('.row.here').id") == "row-1"
    assert page.js("return document.querySelector('#list').getAttribute('aria-activedescendant')") == "row-1"
    page.press("w")  # begins typing: no key of its own
    assert page.js("return document.activeElement.id") == "finder"
    assert page.js("return document.activeElement.value") == "w"
    page.press(Keys.ESCAPE)
    page.press("?")
    page.wait("return document.querySelector('dialog[open] kbd')")
    page.press(Keys.ESCAPE)
    page.wait("return !document.querySelector('dialog[open]')")


def labels_of(page, number):
    row = page.api("/api/instances?order=file&limit=1000")["instances"][number]
    return {one["label"] for one in row["labels"]}


def test_labels_of_an_instance_are_switched_by_keys_and_confirmed_together(page_of, windows):
    page = page_of(windows)
    page.choose("#order", "file")
    first = page.api("/api/instances?order=file&limit=1")["instances"][0]["bag"]
    page.wait(
        "const text = document.querySelector('#row-0 .where')?.textContent ?? '';"
        "document.querySelector('#list').scrollTop = 0; document.querySelector('#row-0')?.click();"
        "return text.includes(arguments[0]) && text.endsWith('instance 0')"
        "&& document.querySelector('.row.here')?.id === 'row-0'", first,
    )  # fmt: skip
    before = labels_of(page, 0)
    names = ["crow", "tit", "wren"]
    wanted = {*names} - before or {"crow"}
    for i, name in enumerate(names):
        if (name in before) != (name in wanted):
            page.press(str(i + 1))
    page.wait("return document.querySelector('.facts .draft')")
    shown = page.js("return [...document.querySelectorAll('.facts .chip .name')].map((each) => each.textContent)")
    assert {*shown} == wanted
    assert labels_of(page, 0) == before  # nothing is said before it is confirmed
    page.press(Keys.ENTER)
    page.wait_progress(1)
    assert labels_of(page, 0) == wanted
    page.wait("return document.querySelector('.row.here').id === 'row-1'")
    page.press("x")
    page.wait_progress(2)
    assert labels_of(page, 1) == set()
    page.press("u", "u")
    page.wait_progress(0)
    assert labels_of(page, 0) == before
    assert not page.errors()


def test_gallery_takes_one_of_several_labels_away(page_of, windows):
    page = page_of(windows)
    page.js("location.hash = '#gallery?gallery=tit'")
    page.wait("return document.querySelector('#tile-0')")
    rows = page.api("/api/instances?label=tit&order=least-sure&checked=no&limit=60")["instances"]
    page.js("document.querySelector('#tile-0').click()")
    page.press("x")
    page.wait_progress(1)
    page.js("document.querySelector('#gallery-confirm').click()")
    page.wait_progress(len(rows))
    now = {(row["bag"], row["instance"]): row for row in page.api("/api/instances?limit=1000")["instances"]}
    for i, row in enumerate(rows):
        expected = {one["label"] for one in row["labels"]} - ({"tit"} if i == 0 else set())
        assert {one["label"] for one in now[row["bag"], row["instance"]]["labels"]} == expected
    assert not page.errors()


def test_gallery_confirms_all_but_the_marked(page_of, sounds):
    page = page_of(sounds)
    page.goes_to("Gallery")
    page.wait(
        "return document.querySelector('.tile img')?.naturalWidth > 20", supervision="the first picture of the gallery"
    )
    n = page.js("return document.querySelectorAll('.tile').length")
    label = page.js("return document.querySelector('#gallery-label').value")
    assert 2 < n <= 60
    page.press(Keys.ARROW_RIGHT, Keys.SPACE)
    assert page.js("return document.querySelector('#tile-1').getAttribute('aria-selected')") == "true"
    page.js("document.querySelector('#tile-2').click()")
    assert page.js("return document.querySelectorAll('.tile.bad').length") == 2
    page.js("document.querySelector('#gallery').focus()")
    page.press(Keys.ENTER)
    page.wait_progress(n - 2)
    assert page.corrections() == [(label, "confirmed")] * (n - 2)
    page.wait("return document.querySelectorAll('.tile.bad').length === 2", supervision="the marked ones to stay")
    page.press("x")  # these two are noise
    page.wait_progress(n)
    assert page.corrections()[-2:] == [("", "noise")] * 2
    page.press("u")  # both at once
    page.wait_progress(n - 2)
    assert page.errors() == []


def test_learns_again_and_labels_change(page_of, table):
    page = page_of(table)
    rows = page.api("/api/instances?order=file&limit=10000")["instances"]
    names = [label["name"] for label in page.api("/api/run")["labels"]]
    swapped = [
        {"bag": row["bag"], "instance": row["instance"], "label": names[1]} for row in rows if row["label"] == names[0]
    ]
    page.api("/api/corrections", {"corrections": swapped[: len(swapped) // 2]})
    page.js("document.querySelector('#learn').click()")
    page.wait("return [...document.querySelectorAll('.toast')].some((e) => e.textContent.startsWith('Retrained'))")
    assert page.api("/api/run")["version"] == 1
    after = page.api("/api/instances?order=file&limit=10000")["instances"]
    changed = [(row, old) for row, old in zip(after, rows, strict=True) if row["label"] != old["label"]]
    assert changed
    page.js("document.querySelector('.toast .link').click()")
    page.wait("return document.querySelectorAll('.changed li').length", supervision="the changes")
    shown = page.js("return document.querySelector('.flow .figure').textContent")
    assert int(shown) >= 1
    assert page.js("return document.querySelectorAll('.chart .curve').length") == 1
    page.goes_to("Queue")
    page.choose("#order", "file")
    place = next(i for i, row in enumerate(after) if "was" in row and not row["checked"])
    shown = page.wait(
        "document.querySelector('#list').scrollTop = 46 * arguments[0];"
        "const row = document.querySelector('#row-' + arguments[0]);"
        "if (row?.querySelector('.where').title !== arguments[1]) return null;"
        "return ['.was', '.name'].map((name) => row.querySelector(name)?.textContent)",
        place, f"bag {after[place]['bag']}, instance {after[place]['instance']}",
    )  # fmt: skip
    assert shown == [f"was {after[place]['was']}", after[place]["label"]]
    assert page.errors() == []


def test_learning_can_be_cancelled(page_of, table):
    page = page_of(table)
    page.press(Keys.ENTER)
    page.wait_progress(1)
    page.js("document.querySelector('#learn').click()")
    page.wait("return document.querySelector('#cancel') || document.querySelector('.toast')")
    page.js("document.querySelector('#cancel')?.click()")
    page.wait("return document.querySelector('#learn')", supervision="the button to come back")
    page.press(Keys.ENTER)
    page.wait_progress(2)


def test_reload_finds_all_as_it_was(page_of, sounds):
    page = page_of(sounds)
    label = page.api("/api/run")["labels"][1]["name"]
    for name, value in (("order", "least-sure"), ("label", label)):
        page.choose(f"#{name}", value)
        page.wait("return location.hash.includes(arguments[0])", name)
    page.wait("return [...document.querySelectorAll('.row .name')].every((e) => e.textContent === arguments[0])", label)
    page.js("document.querySelector('#list').focus()")
    page.press(Keys.ARROW_DOWN, Keys.ARROW_DOWN, Keys.ENTER)
    page.wait_progress(1)
    before = page.here()
    page.goes_to("One instance")
    page.driver.refresh()
    page.wait("return document.documentElement.dataset.ready")
    assert page.js("return document.querySelector('nav [aria-current]').textContent") == "One instance"
    assert page.js("return document.querySelector('#order').value") == "least-sure"
    assert page.js("return document.querySelector('#label').value") == label
    assert page.here() == before
    assert page.js("return document.querySelector('#progress').textContent").startswith("1 of")


def test_two_tabs_stay_in_step(page_of, sounds):
    page = page_of(sounds)
    first = page.driver.current_window_handle
    page.choose("#order", "file")  # the same in both, which the order that helps most need not be
    page.wait("return location.hash.includes('order=file')")
    page.press(Keys.HOME)
    page.wait("return document.querySelector('#row-0.here')")
    address = page.driver.current_url.split("#")[0] + "#queue?order=file"
    page.driver.switch_to.new_window("tab")
    page.open(address)
    second = page.driver.current_window_handle
    page.driver.switch_to.window(first)
    before = page.here()[0]
    page.press("n", "Seen by both", Keys.ENTER)
    page.wait_label(0, "Seen by both")
    page.driver.switch_to.window(second)
    page.wait_label(0, "Seen by both", supervision="the other tab's answer")
    page.press("u")
    page.wait_label(0, before)
    page.driver.switch_to.window(first)
    page.wait_label(0, before, supervision="what the other tab took back")


def test_labels_of_files_are_added_and_taken_away(page_of, sounds):
    page = page_of(sounds)
    page.goes_to("Files")
    page.wait("return document.querySelectorAll('.strip').length === 8")
    labels = (
        "return [...document.querySelectorAll('.strip .labels')[0].querySelectorAll('.name')].map((e) => e.textContent)"
    )
    before = page.js(labels)
    page.choose(".strip .add", page.js("return document.querySelector('.strip .add').options[1].value"))
    page.wait("return [...document.querySelectorAll('.toast')].length")
    after = page.js(labels)
    assert len(after) == len(before) + 1
    page.js("document.querySelector('.strip .removable button').click()")
    page.wait("return document.querySelectorAll('.toast').length >= 2")
    assert page.js(labels) == after[1:]
    assert [action for _, action in page.corrections()] == ["present", "absent"]
    page.js("document.activeElement.blur()")
    page.press("u", "u")
    page.wait(
        "return [...document.querySelectorAll('.strip .labels')[0].querySelectorAll('.name')].length === arguments[0]",
        len(before),
    )
    page.js("document.querySelector('.instances rect').dispatchEvent(new MouseEvent('click', {bubbles: true}))")
    page.wait("return document.querySelector('#list')?.isConnected && location.hash.startsWith('#queue')")
    assert page.errors() == []


@pytest.fixture(scope="module")
def faulty(tmp_path_factory):
    """Recordings of which a quarter of the labels was forgotten, by a model that reckons with it."""
    folder, rng = tmp_path_factory.mktemp("faulty"), np.random.default_rng(0)
    make_soundscape(20, seconds=6.0, species_per_recording=(2, 3), random_state=1).write(folder)
    heading, *rows = csv.reader((folder / "labels.csv").read_text(encoding="utf-8").splitlines())
    kept = [(name, ";".join([one for one in labels.split(";") if rng.random() > 0.25])) for name, labels in rows]
    with (folder / "labels.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([heading, *kept])
    rates = {"missed": 0.5, "spurious": 0.01}
    table = folder / "labels.csv"
    Run.create(folder / "recordings", folder / "run", labels=table, learner=rates, page=False, jobs=1).close()
    return folder / "run"


def test_label_issues_are_settled(page_of, faulty):
    page = page_of(faulty)
    page.goes_to("Label issues")
    page.wait("return document.querySelectorAll('.issue').length > 2")
    expected = [row["label"] for row in page.api("/api/label-issues")["labels"]]
    assert page.js("return [...document.querySelectorAll('.issue .name')].map((e) => e.textContent)") == expected
    page.wait("return document.querySelector('.issue img').naturalWidth > 0")
    page.js("document.activeElement.blur()")
    page.press(Keys.ENTER, "x")
    page.wait("return document.querySelectorAll('.issue.done').length === 2")
    page.js("document.querySelectorAll('#issue-2 [aria-pressed]')[1].click()")
    page.wait("return document.querySelectorAll('.issue.done').length === 3")
    deadline = time.monotonic() + PATIENCE
    while len(page.corrections()) < 3 and time.monotonic() < deadline:
        time.sleep(0.03)
    assert page.corrections() == list(zip(expected[:3], ["present", "absent", "absent"], strict=True))
    page.js("document.activeElement.blur()")
    page.press("u")
    page.wait("return document.querySelectorAll('.issue.done').length === 2")
    page.open(page.address)  # all is as it was said
    page.goes_to("Label issues")
    page.wait("return document.querySelectorAll('.issue.done').length === 2")
    page.press("o")
    page.wait("return location.hash.startsWith('#queue') && document.querySelector('.row.here')")
    assert page.errors() == []


def test_disputed_labels_of_observers_come_first(page_of, tmp_path):
    data, rng = make_gaussian_bags(n_bags=40, n_classes=4, random_state=0), np.random.default_rng(0)
    write_dataset(BagDataset(data.bags, bag_names=[f"b{i}" for i in range(40)]), tmp_path / "made.csv")
    rows = ["bag,observer,labels"]
    for who, missed in (("Ada", 0.05), (HOSTILE, 0.4)):
        kept = [[str(label) for label in labels if rng.random() > missed] for labels in data.label_sets]
        rows += [f"b{i},{who},{';'.join(labels)}" for i, labels in enumerate(kept)]
    (tmp_path / "labels.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    Run.create(tmp_path / "made.csv", tmp_path / "made", labels=tmp_path / "labels.csv", page=False).close()
    page = page_of(tmp_path / "made")
    page.goes_to("Label issues")
    page.wait("return document.querySelectorAll('.issue').length > 2")
    assert page.js("return [...document.querySelectorAll('.observers tbody th')].map((e) => e.textContent)") == [
        "Ada", HOSTILE,
    ]  # fmt: skip
    assert "%" in page.js("return document.querySelector('.observers tbody td:last-child').textContent")
    assert "; not by " in page.js("return document.querySelector('.issue').innerText")
    page.js("document.querySelectorAll('#issue-0 [aria-pressed]')[0].click()")
    page.wait("return document.querySelectorAll('.issue.done').length === 1")
    assert page.js("return document.body.dataset.hacked ?? ''") == ""
    assert page.errors() == []


def test_a_model_without_rates_says_how_to_get_label_issues(page_of, table):
    page = page_of(table)
    page.goes_to("Label issues")
    page.wait("return document.querySelector('.issues-view').innerText.includes('--set missed=learn')")
    assert page.errors() == []


@pytest.fixture(scope="module")
def unlisted(tmp_path_factory):
    """A run whose lists lack a fifth class."""
    folder = tmp_path_factory.mktemp("unlisted")
    data = make_gaussian_bags(n_bags=150, separation=6.0, random_state=0)
    write_dataset(BagDataset(data.bags, data.Y[:, :4], list("abcd")), folder / "made.csv")
    Run.create(folder / "made.csv", folder / "run", page=False).close()
    return folder / "run"


def test_a_novel_group_is_named_and_learned(page_of, unlisted):
    page = page_of(unlisted)
    page.goes_to("Novel groups")
    page.wait("return document.querySelectorAll('.novel-group').length")
    page.wait("return document.querySelector('.novel-group .look').children.length")
    group = page.api("/api/novel-groups")["groups"][0]
    members = {(row["bag"], row["instance"]) for row in group["members"]}
    assert len(members) == group["instances"] > 20

    def bear(label):
        rows = page.api("/api/instances?order=file&limit=10000")["instances"]
        return {(row["bag"], row["instance"]) for row in rows if row["label"] == label}

    page.press("n")
    page.wait("return document.activeElement.id === 'group-name'")
    page.press("wren", Keys.ENTER)
    page.wait("return !document.querySelectorAll('.novel-group').length", supervision="the group to be named")
    page.wait_progress(len(members))
    assert bear("wren") == members
    page.press("u")  # all of the group at once
    page.wait("return document.querySelectorAll('.novel-group').length === 1")
    assert bear("wren") == set()
    page.press("x")
    page.wait("return !document.querySelectorAll('.novel-group').length")
    page.wait_progress(len(members))
    page.press("u")
    page.wait("return document.querySelectorAll('.novel-group').length === 1")
    page.press("n")
    page.wait("return document.activeElement.id === 'group-name'")
    page.press("wren", Keys.ENTER)
    page.wait_progress(len(members))
    page.js("document.querySelector('#learn').click()")
    page.wait("return [...document.querySelectorAll('.toast')].some((e) => e.textContent.startsWith('Retrained'))")
    learned = bear("wren")
    assert learned > members
    assert page.errors() == []


def test_novel_groups_are_merged(page_of, unlisted):
    """Two groups, of which the server tells in the place of its own."""
    page = page_of(unlisted)
    page.js(
        "const real = window.fetch;"
        "window.fetch = async (path, options) => {"
        "  const reply = await real(path, options);"
        "  if (!String(path).startsWith('/api/novel-groups')) return reply;"
        "  const said = await reply.json(), [one] = said.groups;"
        "  if (one) said.groups = [{...one, members: one.members.slice(0, 20)},"
        "    {...one, group: 2, members: one.members.slice(20)}].filter((group) => group.members.length);"
        "  return new Response(JSON.stringify(said), {status: 200});"
        "}"
    )
    page.goes_to("Novel groups")
    page.wait("return document.querySelectorAll('.novel-group').length === 2")
    n = page.api("/api/novel-groups")["groups"]
    page.press(Keys.ARROW_DOWN, "m")
    page.wait("return document.querySelectorAll('.novel-group').length === 1")
    page.press("n")
    page.wait("return document.activeElement.id === 'group-name'")
    page.press("wren", Keys.ENTER)
    page.wait_progress(sum(len(group["members"]) for group in n))
    assert page.errors() == []


def test_a_sample_gives_a_figure_to_quote(page_of, table):
    page = page_of(table)
    page.goes_to("History")
    page.wait("return document.querySelector('#draw')")
    page.js("document.querySelector('#sample-size').value = 5; document.querySelector('#draw').click()")
    page.wait("return document.querySelectorAll('.row').length === 5", supervision="the five of the sample")
    for i in range(1, 6):
        page.press(Keys.ENTER)
        page.wait_progress(i)
    page.goes_to("History")
    quote = page.wait("return document.querySelector('.quote')?.textContent")
    assert quote == "All labels: 100 % right (95 % interval 57 to 100 %), from a random sample of 5."  # Wilson, 5 of 5


def test_counts_come_from_a_sample_that_is_drawn_on_the_page(page_of, table):
    page = page_of(table)
    page.goes_to("History")
    page.wait("return document.querySelectorAll('#counts .counts li').length > 1")
    assert "model's own" in page.js("return document.querySelector('#counts .note').textContent")
    page.js("document.querySelector('#survey-size').value = 12; document.querySelector('#draw-survey').click()")
    page.wait("return document.querySelectorAll('.row').length === 12", supervision="the twelve that were drawn")
    page.press(Keys.ENTER)
    page.wait_progress(1)
    page.goes_to("History")
    page.wait("return document.querySelector('#counts').innerText.includes('1 of 12 answered')")
    page.js("const by = document.querySelector('#count-by'); by.value = 'site'; by.dispatchEvent(new Event('change'))")
    said = page.wait("return document.querySelector('#counts [role=alert]')?.textContent")
    assert "leave it out" in said  # a table has no files


def test_names_never_become_markup(page_of, tmp_path):
    rng = np.random.default_rng(0)
    folder = tmp_path / "media"
    folder.mkdir()
    name = "<b onclick=x>&amp;.wav"
    for file in (name, "b.wav"):
        tone = np.sin(2 * np.pi * 2000 * np.arange(32000) / 16000) * (np.arange(32000) % 8000 < 2500)
        soundfile.write(folder / file, 0.5 * tone + 0.001 * rng.normal(size=32000), 16000)
    (tmp_path / "labels.csv").write_text(
        f"file,label\n{name},{HOSTILE}\nb.wav,{HOSTILE}\nb.wav,plain\n", encoding="utf-8"
    )
    Run.create(folder, tmp_path / "made", labels=tmp_path / "labels.csv", page=False, jobs=1).close()
    page = page_of(tmp_path / "made")
    for view in ("Queue", "Gallery", "Files", "Label issues", "History", "One instance"):
        page.goes_to(view)
        time.sleep(0.4)
        assert page.js("return document.querySelectorAll('img[src=x], b, [onclick], [onerror]').length") == 0, view
        assert page.js("return document.body.dataset.hacked") is None, view
    page.press("n", "<script>document.body.dataset.hacked=2</script>", Keys.ENTER)
    page.press(Keys.ENTER)
    page.wait("return document.body.innerText.includes('<script>')")
    assert HOSTILE in page.js("return document.body.innerText")
    assert page.js("return document.body.dataset.hacked") is None


def test_a_server_that_is_gone_is_told_and_the_answer_put_back(page_of, sounds):
    page = page_of(sounds)
    before = page.here()
    page.stop()
    page.press("x")
    page.wait("return document.querySelector('.toast.bad')?.textContent.includes('Not saved')")
    assert page.js("return document.querySelector('#row-0 .name').textContent") == before[0]
    page.wait("return document.querySelector('.notice.bad')", supervision="the notice that nobody answers")


def test_dark_and_light(page_of, table):
    page = page_of(table)
    ground = "return getComputedStyle(document.body).backgroundColor"
    seen = set()
    for scheme in ("light", "dark"):
        feature = {"name": "prefers-color-scheme", "value": scheme}
        page.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
        seen.add(page.js(ground))
    assert len(seen) == 2
    page.js("document.querySelector('#theme').click()")
    page.choose("#theme-choice", "light")
    assert page.js(ground) in seen
    page.driver.refresh()
    page.wait("return document.documentElement.dataset.ready")
    assert page.js("return document.documentElement.dataset.theme") == "light"
    page.js("localStorage.clear()")


# From a key to the frame in which its answer can be seen: the row bears its mark and the next one is shown.
MEASURE = """
window.times = [];
document.addEventListener('keydown', () => {
  const pressed = performance.now();
  const place = Number(document.querySelector('.row.here').id.slice(4));
  const look = () => {
    const row = document.getElementById('row-' + place);
    const here = Number(document.querySelector('.row.here').id.slice(4));
    if (row?.classList.contains('done') && here > place) {
      requestAnimationFrame(() => setTimeout(() => window.times.push(performance.now() - pressed)));
    } else requestAnimationFrame(look);
  };
  requestAnimationFrame(look);
}, true);
"""


def test_ten_thousand_instances(page_of, tmp_path, record_property, capsys):
    made = make_gaussian_bags(n_bags=1000, instances_per_bag=(10, 10), random_state=0)
    write_dataset(made, tmp_path / "made.csv")
    Run.create(tmp_path / "made.csv", tmp_path / "made", page=False, formats=["csv"]).close()
    page = page_of(tmp_path / "made")
    page.wait("return document.querySelector('.foot').textContent.startsWith('10,000')")
    paint = page.js("return performance.getEntriesByName('first-contentful-paint')[0]?.startTime")
    rows_after = page.js("return performance.getEntriesByName('rows')[0].startTime")
    rows = page.wait("return document.querySelectorAll('.row').length")
    assert rows < 60  # only what can be seen is made
    page.js("document.querySelector('#list').scrollTop = 9000 * 46")
    page.wait("return document.querySelector('#row-9000')")
    page.js("document.querySelector('#list').scrollTop = 0")
    page.wait("return document.querySelector('#row-0')")
    page.js(MEASURE)
    keys = "01234"  # labels that are digits have themselves as keys
    for i in range(200):
        page.press(keys[i % len(keys)])
    page.wait("return window.times.length === 200")
    times = page.js("return window.times")
    page.wait_progress(200)
    assert len(page.corrections()) == 200
    figures = {"first paint, ms": round(paint), "all rows at hand, ms": round(rows_after)}
    figures["key to answer, median ms"] = round(float(np.median(times)), 1)
    figures["key to answer, 95 % ms"] = round(float(np.quantile(times, 0.95)), 1)
    for name, value in figures.items():
        record_property(name, value)
    with capsys.disabled():
        print(f"\nreview page, 10,000 instances: {figures}")
    assert page.errors() == []
    assert Path(page.run, "corrections.csv").exists()


def test_files_show_their_spectrogram_and_play(page_of, sounds):
    page = page_of(sounds)
    page.goes_to("Files")
    page.wait("return document.querySelectorAll('.strip-pane').length === 8")
    page.wait("return document.querySelector('.strip-pane img').naturalWidth > 100", supervision="the spectrogram")
    ticks = page.js("return [...document.querySelectorAll('.strip-axis')[0].children].map((e) => e.textContent)")
    assert ticks[0] == "0 s"
    assert ticks[-1] == "6 s"
    fetched = "return [...document.querySelectorAll('.strip-pane img')].map((image) => image.hasAttribute('src'))"
    assert not page.js(fetched)[-1]  # it is below what is seen
    page.js("document.querySelectorAll('.strip')[7].scrollIntoView()")
    page.wait("return [...document.querySelectorAll('.strip-pane img')].at(-1).naturalWidth > 100")
    page.js("document.querySelector('.strip').scrollIntoView()")
    heard = "const a = document.querySelector('.files-view audio'); return !a.paused && a.currentTime > 0.05 && a.src"
    page.js("document.querySelector('.strip-play').click()")
    assert "from=0.000&to=6.000" in page.wait(heard, supervision="the whole file to play")
    page.wait("return parseFloat(document.querySelector('.strip .playhead').style.left) > 0")
    page.js("document.activeElement.blur()")
    page.press(Keys.SPACE)
    page.wait("return document.querySelector('.files-view audio').paused && document.querySelector('.playhead').hidden")
    page.js(
        "const pane = document.querySelectorAll('.strip-pane')[1], at = pane.getBoundingClientRect();"
        "pane.dispatchEvent(new MouseEvent('click', {bubbles: true, clientX: at.left + at.width / 2}))"
    )
    source = page.wait(heard, supervision="the half behind the click to play")
    assert float(parse_qs(source)["from"][0]) == pytest.approx(3.0, abs=0.02)
    here = "return parseFloat(document.querySelectorAll('.strip .playhead')[1].style.left)"
    assert page.js(here) > 50
    page.goes_to("Queue")
    page.wait("return document.querySelector('.row')")
    assert page.errors() == []
