"""The page of a run: how much it weighs, how long a browser takes to open it, and whether every file is found on it.

Asked for: 300 files and 10,000 syllables below 15 MB, all told, and open in under two seconds. Beside it stand
recordings of five minutes with a window as long, and the same number of syllables in a tenth of the files: the weight
must not follow.
"""

from __future__ import annotations

import csv
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from bagwise import Run
from bagwise.datasets import make_soundscape
from benchmarks.common import Record, show

MOST_BYTES, MOST_SECONDS = 15_000_000, 2.0
SITES = ("meadow", "pond", "ridge")
OPENED = 5  # times that the page is opened
FLAGS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--window-size=1400,900")
SEARCHED = 20  # files that are looked for by typing their names


def make_media(folder: Path, n: int, seconds: float, calls: tuple[int, int]) -> tuple[Path, Path]:
    """Recordings of a made soundscape under names as recorders write them, and their table of labels."""
    sounds, labels, _ = make_soundscape(
        n, seconds=seconds, species_per_recording=(2, 4), calls_per_species=calls, random_state=0
    ).write(folder)
    names = {}
    for i, path in enumerate(sorted(sounds.iterdir())):
        recorded = datetime(2024, 5, 1) + timedelta(days=i % 30, hours=(4 + i) % 24, seconds=i)
        name = f"{SITES[i % 3]}/{recorded:%Y%m%d_%H%M%S}.wav"
        (sounds / name).parent.mkdir(exist_ok=True)
        shutil.move(path, sounds / name)
        names[path.name] = name
    with open(labels, encoding="utf-8", newline="") as file:
        rows = [[names.get(row[0], row[0]), *row[1:]] for row in csv.reader(file)]
    with open(labels, "w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows(rows)
    return sounds, labels


def measure(what: str, n: int, seconds: float, calls: tuple[int, int], window: float, browser: Any) -> Record:
    """Make the recordings and the run, and look at its page."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        sounds, labels = make_media(folder / "made", n, seconds, calls)
        with Run.create(
            sounds, folder / "run", labels=labels, settings={"window": window}, formats=["csv"], page=False
        ) as run:
            n_instances = len(run.annotations())
            started = time.perf_counter()
            run.write(page=True)
            drawing = time.perf_counter() - started
            files = [file["file"] for file in run.material.files]
        page, beside = folder / "run" / "report.html", folder / "run" / "report-sounds"
        heard = [path.stat().st_size for path in beside.glob("*")]
        weight = page.stat().st_size
        record: Record = {
            "run": what, "files": len(files), "window, s": window, "instances": n_instances, "page, MB": weight / 1e6,
            "sounds": len(heard), "sounds, MB": sum(heard) / 1e6, "below 15 MB": weight + sum(heard) < MOST_BYTES,
            "made in, s": drawing,
        }  # fmt: skip
        if browser is not None:
            record |= look(browser, page, files)
        return record


def look(browser: Any, page: Path, files: list[str]) -> Record:
    """Seconds from the call to the page being ready, and how many files are found on it."""
    taken = []
    for _ in range(OPENED):
        browser.get("about:blank")
        started = time.perf_counter()
        browser.get(page.as_uri())  # returns when all is loaded
        ready = browser.execute_script("return document.documentElement.dataset.ready")
        taken.append(time.perf_counter() - started)
        assert ready == "1", "the script of the page did not end"
    listed = browser.execute_script(
        "return [...document.querySelectorAll('table[data-filter=files] td.name')].map(cell => cell.textContent)"
    )
    found = sum(_search(browser, name) for name in files[:: max(1, len(files) // SEARCHED)])
    return {
        "opened in, s": statistics.median(taken),
        "slowest, s": max(taken),
        "under 2 s": statistics.median(taken) < MOST_SECONDS,
        "files found": len({*files} & {*listed}),
        "by typing": f"{found} of {len(files[:: max(1, len(files) // SEARCHED)])}",
    }


def _search(browser: Any, name: str) -> bool:
    """Whether the row of a file, and no other file's, is left when its name is typed."""
    browser.execute_script(
        "const field = document.querySelector('#files ~ .find input'); field.value = arguments[0];"
        "field.dispatchEvent(new Event('input'))", name,
    )  # fmt: skip
    time.sleep(0.25)
    left = browser.execute_script(
        "return [...document.querySelectorAll('table[data-filter=files] tbody tr:not([hidden]) td.name')]"
        ".map(cell => cell.textContent)"
    )
    return left == [name]


@contextmanager
def open_browser() -> Iterator[Any]:
    """Chromium without a window, or None with a line that says what is missing."""
    program, driver = shutil.which("chromium") or shutil.which("chromium-browser"), shutil.which("chromedriver")
    try:
        from selenium import webdriver
    except ImportError:
        program = None
    if not program or not driver:
        print("  chromium, chromedriver or selenium is not there: the page is weighed, not opened")
        yield None
        return
    options = webdriver.ChromeOptions()
    options.binary_location = program
    for flag in FLAGS:
        options.add_argument(flag)
    browser = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    try:
        yield browser
    finally:
        browser.quit()


def main(quick: bool = False) -> list[Record]:
    """Print the table and return its records."""
    cases: list[tuple[str, int, float, tuple[int, int], float]] = [
        ("many files", 300, 15.0, (7, 9), 10.0),
        ("a tenth of the files", 30, 150.0, (60, 90), 10.0),
        ("five minutes, window as long", 20, 300.0, (90, 135), 300.0),
    ]
    with open_browser() as browser:
        records = [measure(*case, browser) for case in (cases[:1] if quick else cases)]
    show("Pages of runs", records)
    return records


if __name__ == "__main__":
    main("--quick" in sys.argv)
