"""Take the screenshots of the documentation in a real browser: `make screenshots`.

The material of the tutorials and the demo's soundscape are made and annotated in a temporary folder, then the reports
and the review page are opened in chromium. Nothing is drawn by hand, so that pictures of the pages stay true.
"""

from __future__ import annotations

import os
import runpy
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from selenium import webdriver

import bagwise
from bagwise.datasets import make_soundscape

ROOT = Path(__file__).parents[1]
OUT = ROOT / "docs" / "_static"
OPTIONS: dict[str, dict[str, Any]] = {
    "pictures": {},
    "texts": {"settings": {"window": 16, "step": 16}},
    "series": {"media_type": "series"},
}
SIZE = (1280, 860)
PATIENCE = 60.0


def open_browser() -> webdriver.Chrome:
    browser, driver = shutil.which("chromium") or shutil.which("chromium-browser"), shutil.which("chromedriver")
    if not (browser and driver):
        sys.exit("chromium and chromedriver are not installed (Debian: apt-get install chromium chromium-driver).")
    options = webdriver.ChromeOptions()
    options.binary_location = browser
    for flag in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars"):
        options.add_argument(flag)
    options.add_argument("--window-size={},{}".format(*SIZE))
    return webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))


def shoot(driver: webdriver.Chrome, name: str) -> None:
    path = OUT / f"{name}.png"
    driver.save_screenshot(str(path))
    print(path.relative_to(ROOT))


def shoot_report(driver: webdriver.Chrome, page: Path, name: str, anchor: str) -> None:
    driver.get(page.as_uri())
    place = f"document.querySelector('#{anchor}') || document.body"
    driver.execute_script(f"({place}).scrollIntoView()")
    time.sleep(1.0)
    shoot(driver, name)


def shoot_review(driver: webdriver.Chrome, run: Path) -> None:
    command = [sys.executable, "-m", "bagwise.app.cli", "review", str(run), "--no-browser"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONUNBUFFERED": "1"})
    try:
        assert server.stdout is not None
        address = next(line.strip() for line in server.stdout if line.startswith("http://"))
        driver.get(address)
        until = time.monotonic() + PATIENCE
        while not driver.execute_script("return document.documentElement.dataset.ready") and time.monotonic() < until:
            time.sleep(0.2)
        driver.execute_script("[...document.querySelectorAll('button')].find((b) => b.textContent === 'Skip')?.click()")
        time.sleep(3.0)  # pictures come after the page
        shoot(driver, "review")
    finally:
        server.send_signal(signal.SIGINT)
        server.wait(PATIENCE)


def main() -> None:
    make_material = runpy.run_path(str(ROOT / "docs" / "tutorials" / "make_material.py"))["make_material"]
    driver = open_browser()
    try:
        with tempfile.TemporaryDirectory() as folder:
            place = Path(folder)
            scene = make_soundscape(30, seconds=10, random_state=0)
            recordings, labels, _ = scene.write(place / "sound")
            run = place / "run"
            bagwise.Run.create(recordings, run, labels=labels).close()
            shoot_report(driver, run / "report.html", "report", "pictures")
            shoot_review(driver, run)
            for kind, options in OPTIONS.items():
                make_material(kind, place / kind)
                out = place / f"run-{kind}"
                bagwise.Run.create(place / kind, out, labels=place / f"{kind}.csv", **options).close()
                shoot_report(driver, out / "report.html", f"report-{kind}", "pictures")
    finally:
        driver.quit()


if __name__ == "__main__":
    main()
