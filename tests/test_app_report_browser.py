"""The page of a run in a real browser, from the file system: found, sorted, played and read by keys alone.

Skipped where chromium and its driver are not installed (Debian: ``apt-get install chromium chromium-driver``).
"""

import shutil
import time

import pytest

from bagwise.app.labels.sites import in_field
from bagwise.app.report.page import write_page
from bagwise.app.report.summary import AnnotateResult
from media_examples import crowd

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser")
DRIVER = shutil.which("chromedriver")
pytestmark = pytest.mark.skipif(not (BROWSER and DRIVER), reason="chromium and chromedriver are not installed")
pytest.importorskip("selenium", reason="selenium, which drives the browser, is not installed")

from selenium import webdriver  # noqa: E402
from selenium.webdriver import Keys  # noqa: E402

FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
    "--autoplay-policy=no-user-gesture-required", "--window-size=1200,900",
)  # fmt: skip
PATIENCE = 90.0  # seconds; machines that test are slow and shared
N = 130  # files: more than are shown at once
ROWS = "return [...document.querySelectorAll('table[data-filter=files] tbody tr:not([hidden])')]"
NAMES = f"{ROWS}.map(row => row.cells[0].textContent)"


@pytest.fixture(scope="module")
def driver():
    options = webdriver.ChromeOptions()
    options.binary_location = BROWSER
    for flag in FLAGS:
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    yield driver
    driver.quit()


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    folder = tmp_path_factory.mktemp("page")
    annotations = crowd(folder, N, 3.0, 10.0, 2)
    annotations.files[7]["recorded"] = "2024-05-01T05:30:00"
    hostile = "<img src=x onerror=document.body.dataset.hacked=1>"
    annotations.classes[0] = hostile
    for row in annotations.rows:
        row["label"] = hostile if row["label"] == "label 0" else row["label"]
    write_page(AnnotateResult(in_field(annotations, []), [], [], [], hostile, 0, {}), folder / "report.html")
    return (folder / "report.html").as_uri()


@pytest.fixture
def page(driver, address):
    driver.get_log("browser")
    driver.get(address)
    wait(driver, "return document.documentElement.dataset.ready === '1'")
    yield driver
    assert driver.get_log("browser") == []
    assert driver.execute_script("return document.body.dataset.hacked ?? null") is None


def wait(driver, script):
    until = time.monotonic() + PATIENCE
    while not (found := driver.execute_script(script)):
        assert time.monotonic() < until, script
        time.sleep(0.05)
    return found


def field_of(page):
    return page.find_element("css selector", "#files ~ .find input")


def test_every_file_is_found_by_its_name_and_by_what_is_in_it(page):
    assert len(page.execute_script(NAMES)) == 100
    page.find_element("css selector", "#files ~ .more").click()
    assert len(page.execute_script(NAMES)) == N
    for words, names in (("00129.wav", ["00129.wav"]), ("2024-05-01 05:30", ["00007.wav"]), ("no such thing", [])):
        field_of(page).clear()
        field_of(page).send_keys(words)
        wait(page, f"{NAMES}.join() === {','.join(names)!r}")
    assert page.find_element("css selector", "#files ~ .find .count").text == f"0 of {N} rows"


def test_tables_are_sorted_by_keys_and_say_so(page):
    heads = page.find_elements("css selector", "table[data-filter=files] thead th")
    column = [head.text for head in heads].index("least certain")
    button = heads[column].find_element("tag name", "button")
    for direction, sign in (("ascending", 1), ("descending", -1)):
        button.send_keys(Keys.ENTER)
        assert heads[column].get_attribute("aria-sort") == direction
        shown = page.execute_script(f"{ROWS}.map(row => Number(row.cells[{column}].dataset.v))")
        assert shown == sorted(shown, key=lambda value: sign * value)
    assert page.find_element("id", "said").get_attribute("textContent") == "Sorted by least certain, descending"


def test_a_sound_plays_and_a_lost_one_is_told(page):
    button = page.find_element("css selector", "#uncertain ~ .wide .play")
    page.execute_script(
        "window.heard = 0; const play = HTMLMediaElement.prototype.play; HTMLMediaElement.prototype.play = function ()"
        "{ this.addEventListener('timeupdate', () => { if (this.currentTime > 0) window.heard = this.duration; });"
        "return play.call(this); }"
    )
    page.execute_script("arguments[0].focus()", button)
    button.send_keys(Keys.SPACE)
    assert wait(page, "return window.heard") == pytest.approx(0.9, abs=0.2)
    wait(page, "return document.querySelectorAll('.play[aria-pressed=true]').length === 0")
    page.execute_script("arguments[0].dataset.sound = 'report-sounds/lost.flac'; arguments[0].click()", button)
    wait(page, "return document.querySelector('#uncertain ~ .wide .play').classList.contains('gone')")
    assert "must be in the folder of this page" in page.find_element("id", "said").get_attribute("textContent")
    page.get_log("browser")  # the lost file is told there, too


def test_an_uncertain_row_leads_to_its_region(page):
    page.execute_script("arguments[0].click()", page.find_element("css selector", "#uncertain ~ .wide a"))
    target = wait(page, "return document.querySelector('path.region:target')?.id")
    assert page.execute_script("return location.hash") == f"#{target}"
    box = "document.querySelector(':target').getBoundingClientRect()"
    wait(page, f"return {box}.top > 0 && {box}.bottom < innerHeight")


@pytest.mark.parametrize("width", [360, 1200])
def test_nothing_is_wider_than_the_window(page, width):
    page.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride", {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": False}
    )
    try:
        assert page.execute_script("return document.documentElement.scrollWidth") <= width
    finally:
        page.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_pictures_and_buttons_have_names(page):
    nameless = page.execute_script(
        "return [...document.querySelectorAll('img, button, input, svg[role=img]')].filter(element => !(element.alt ||"
        "element.getAttribute('aria-label') || element.textContent.trim() || element.labels?.length)).length"
    )
    assert nameless == 0
