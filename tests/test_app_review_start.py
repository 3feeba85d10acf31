"""`bagwise gui`: what the page before there is a run is answered, and the page itself in a browser."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

pytest.importorskip("starlette", reason="the extra review is not installed")

from bagwise.app.review._errors import ConflictError, RequestError
from bagwise.app.review.start import StartPage
from bagwise.core.exceptions import InputError
from bagwise.datasets import make_soundscape

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser")
DRIVER = shutil.which("chromedriver")
PATIENCE = 240.0  # seconds; machines that test are slow and shared


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Six recordings, their table next to them, a table of something else, and a folder without media."""
    folder = tmp_path_factory.mktemp("site")
    make_soundscape(6, species_per_recording=(2, 3), random_state=5).write(folder)
    (folder / "weather.csv").write_text("day,rain\n1,3\n", encoding="utf-8")
    (folder / "empty").mkdir()
    (folder / ".hidden").mkdir()
    return folder


@pytest.fixture
def start(site):
    opened = []
    start = StartPage(site, opened.append)
    start.opened = opened
    yield start
    start.close()


def finished(start):
    until = time.monotonic() + PATIENCE
    while (state := start.state())["stage"] == "creating":
        assert time.monotonic() < until, state
        time.sleep(0.1)
    return state


def test_folders_are_listed_with_what_lies_in_them(start, site):
    listed = start.folders({})
    assert listed["path"] == str(site)
    assert listed["parent"] == str(site.parent)
    assert listed["folders"] == ["empty", "recordings"]
    below = start.folders({"path": str(site / "recordings")})
    assert below["files"]["audio"] == 6
    assert start.folders({"path": "/"})["parent"] is None
    with pytest.raises(InputError, match="cannot be listed"):
        start.folders({"path": str(site / "nowhere")})
    with pytest.raises(RequestError, match="give the path"):
        start.folders({"path": 3})


def test_a_folder_and_the_tables_that_fit_it(start, site):
    found = start.look({"path": str(site / "recordings")})
    assert found["n_files"] == 6
    assert found["media_type"] == "audio"
    assert found["tables"][0]["path"] == str(site / "labels.csv")
    assert found["tables"][0]["n_found"] == 6
    assert not any("weather" in table["path"] for table in found["tables"])
    assert found["out"] == str(site / "run-recordings")


def test_another_table_comes_first_or_says_what_is_wrong_with_it(start, site, tmp_path):
    other = tmp_path / "mine.csv"
    other.write_text("file,labels\nrecording-000.wav,wren\nrecording-999.wav,crow\n", encoding="utf-8")
    found = start.look({"path": str(site / "recordings"), "table": str(other)})
    assert found["tables"][0]["path"] == str(other)
    assert (found["tables"][0]["n_rows"], found["tables"][0]["n_found"]) == (2, 1)
    assert found["tables"][0]["missing"] == ["recording-999.wav"]
    assert found["tables"][1]["path"] == str(site / "labels.csv")
    other.write_text("file,labels\nsong.wav,wren\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"song\.wav"):
        start.look({"path": str(site / "recordings"), "table": str(other)})
    with pytest.raises((InputError, OSError)):
        start.look({"path": str(site / "recordings"), "table": str(tmp_path / "none.csv")})


def test_a_run_is_made_and_opened_once(start, site, tmp_path):
    labels, out = str(site / "labels.csv"), str(tmp_path / "run")
    state = start.create({"path": str(site / "recordings"), "labels": labels, "out": out})
    assert state["stage"] == "creating"
    with pytest.raises(ConflictError):
        start.create({"path": str(site / "recordings"), "labels": labels, "out": out})
    state = finished(start)
    assert state["stage"] == "done", state
    assert state["found"]["files"] == 6
    assert state["found"]["named"] > 6
    assert isinstance(state["found"]["problems"], list)
    assert any(step["done"] == step["total"] > 0 for step in state["steps"])
    assert start.look({"path": out})["is_run"]
    for _ in range(2):
        assert start.open({"path": out}) == {"opened": True}
    assert start.opened == [Path(out)]


def test_what_cannot_be_done_is_said_and_another_try_is_possible(start, site, tmp_path):
    empty = str(site / "empty")
    start.create({"path": empty, "labels": str(site / "labels.csv"), "out": str(tmp_path / "run")})
    state = finished(start)
    assert state["stage"] == "failed"
    assert "no file" in state["error"]
    assert start.cancel()["stage"] == "choosing"
    assert not (tmp_path / "run").exists()


def test_cancelling_ends_the_work_and_what_is_done_stays(start, site, tmp_path):
    asked = {"path": str(site / "recordings"), "labels": str(site / "labels.csv"), "out": str(tmp_path / "run")}
    start.create(asked)
    process = start._creation._process
    assert start.cancel()["stage"] == "choosing"
    assert process.poll() is not None
    time.sleep(0.2)  # its last words change nothing
    assert start.state() == {"stage": "choosing", "steps": []}
    start.create(asked)
    assert finished(start)["stage"] == "done"


@pytest.fixture
def server(site):
    process = subprocess.Popen(
        [sys.executable, "-m", "bagwise.app.cli", "gui", str(site), "--no-browser"],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    yield process
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
    assert process.wait(PATIENCE) == 0
    process.stdout.close()


def test_nobody_is_answered_without_the_address(server):
    address = server.stdout.readline().strip()
    place = address.partition("/?")[0]
    for path in ("/", "/api/start", "/static/start.js"):
        with pytest.raises(HTTPError) as refused:
            urlopen(place + path)
        assert refused.value.code == 403
        refused.value.close()


@pytest.mark.skipif(not (BROWSER and DRIVER), reason="chromium and chromedriver are not installed")
def test_from_files_to_a_review_in_the_browser(server, site, tmp_path):
    pytest.importorskip("selenium", reason="selenium, which drives the browser, is not installed")
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = BROWSER
    for flag in ("--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=1200,1000"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    shots = os.environ.get("BAGWISE_SHOTS")

    def until(script):
        end = time.monotonic() + PATIENCE
        while not (found := driver.execute_script(f"return {script}")):
            assert time.monotonic() < end, (script, driver.execute_script("return document.body.innerText"))
            time.sleep(0.05)
        return found

    def shoot(name):
        if shots:
            driver.save_screenshot(str(Path(shots) / f"{name}.png"))

    def press(script):
        until(script)
        driver.execute_script(f"{script}.click()")

    try:
        driver.get(server.stdout.readline().strip())
        until("document.documentElement.dataset.ready")
        assert until("document.querySelector('#folder').value") == str(site)
        shoot("1")
        press("[...document.querySelectorAll('#folders button')].find((one) => one.textContent === 'recordings')")
        until("document.querySelector('#in-folder').textContent.includes('6 files of type audio')")
        press("document.querySelector('#use')")
        until("document.querySelector('.fit .note')?.textContent.startsWith('labels of 6 of 6 files')")
        out = tmp_path / "result"
        driver.execute_script("document.querySelector('#out').value = arguments[0]", str(out))
        shoot("2")
        press("document.querySelector('#out').parentElement.querySelector('button')")
        until("document.querySelector('#steps')")
        shoot("3")
        press("document.querySelector('#review')")
        shoot("4")
        until("document.querySelector('#progress')?.textContent.startsWith('0 of')")
        shoot("5")
        severe = [line for line in driver.get_log("browser") if line["level"] == "SEVERE"]
        assert severe == [], json.dumps(severe)
    finally:
        driver.quit()
