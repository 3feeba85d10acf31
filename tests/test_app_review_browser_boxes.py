"""Boxes on the review page in a real browser: drawn by the mouse and by numbers, split, moved, merged, deleted, undone,
learned from."""

import os

import pytest

pytest.importorskip("selenium", reason="selenium, which drives the browser, is not installed")
pytest.importorskip("starlette", reason="the extra review is not installed")

from selenium.webdriver import ActionChains, Keys
from selenium.webdriver.common.actions.action_builder import ActionBuilder

from test_app_review_browser import driver, page_of, pytestmark, series, settled, sounds  # noqa: F401 - fixtures

SHOTS = os.environ.get("BAGWISE_SHOTS")  # a folder for pictures of the page, for people


def instances(page):
    return page.api("/api/instances?order=file&limit=10000")["instances"]


def at(page, time, hertz):
    """Where a moment and a frequency are on the screen."""
    return page.js(
        "const [time, hertz] = arguments;"
        "const stage = document.querySelector('.sound');"
        "const { left, top, width, height } = stage.getBoundingClientRect();"
        "const [from, to] = document.querySelector('.overlay').getAttribute('aria-label').match(/[\\d.]+(?= to|"
        " seconds)/g).slice(-2).map(Number);"
        "const [low, high] = window.band;"
        "return [left + 44 + ((time - from) / (to - from)) * (width - 44),"
        " top + (height - 24) * (1 - (hertz - low) / (high - low))]",
        time, hertz,
    )  # fmt: skip


def drag(page, begin, end, steps=6):
    actions = ActionBuilder(page.driver)
    pointer = actions.pointer_action
    pointer.move_to_location(*map(round, begin)).pointer_down()
    for i in range(1, steps + 1):
        spot = [a + (b - a) * i / steps for a, b in zip(begin, end, strict=True)]
        pointer.move_to_location(*map(round, spot))
    pointer.pointer_up()
    actions.perform()


def shoot(page, name):
    if SHOTS:
        page.driver.save_screenshot(f"{SHOTS}/{name}.png")


def ready(page):
    page.wait("return document.querySelector('.sound img')?.naturalWidth > 100")
    settled(page, "return document.querySelector('.row.here').id")
    page.press(Keys.HOME)
    page.wait("return document.querySelector('#row-0.here')")
    first = instances(page)[0]
    page.wait(
        "return document.querySelector('.overlay').getAttribute('aria-label').includes(arguments[0])", first["file"]
    )
    page.wait("return document.querySelectorAll('.handle').length")
    shown = page.api(f"/api/show?bag={first['bag']}&instance={first['instance']}")
    page.js("window.band = arguments[0]", [shown["low"], shown["high"]])
    page.wait("return Math.abs(document.querySelector('.box.mine .edge').getBoundingClientRect().width) > 3")
    return first, shown


def wait_count(page, n):
    page.wait("return document.querySelector('#progress').textContent.includes(` of ${arguments[0]} checked`)", n)


def mine(page):
    """The instance that one stands on, as the server has it."""
    bag, instance = page.js("return document.querySelector('.box.mine').dataset.key.split('~')")
    return next(row for row in instances(page) if (row["bag"], str(row["instance"])) == (bag, instance))


def test_a_box_is_drawn_split_moved_undone_and_learned(page_of, sounds):  # noqa: F811
    page = page_of(sounds)
    first, shown = ready(page)
    n = len(instances(page))
    shoot(page, "1-before")

    # drawn with the mouse where nothing is
    start, end = shown["from"] + 0.02, shown["from"] + 0.12
    low, high = 0.55 * shown["high"], 0.8 * shown["high"]
    assert not any(
        b["start"] < end and b["end"] > start and b["low"] < high and b["high"] > low for b in shown["boxes"]
    )
    drag(page, at(page, start, low), at(page, end, high))
    wait_count(page, n + 1)
    page.wait("return document.querySelectorAll('.box.mine').length === 1")
    made = next(row for row in instances(page) if row["instance"] >= len([r for r in instances(page)
                if r["bag"] == first["bag"]]) - 1 and row["bag"] == first["bag"])  # fmt: skip
    pixel = (shown["to"] - shown["from"]) / page.js("return document.querySelector('.sound').clientWidth - 44")
    assert made["start"] == pytest.approx(start, abs=2 * pixel)
    assert made["end"] == pytest.approx(end, abs=2 * pixel)
    assert made["low"] == pytest.approx(low, rel=0.05)
    assert made["high"] == pytest.approx(high, rel=0.05)
    assert mine(page)["instance"] == made["instance"]
    shoot(page, "2-drawn")
    page.press("1")  # and named
    page.wait_progress(1)

    # split in the middle, by keys, and made one again
    goes_to(page, made)
    page.press("s")
    wait_count(page, n + 2)
    shoot(page, "3-split")
    own = sorted((r for r in instances(page) if r["bag"] == made["bag"] and r["instance"] >= made["instance"]),
                 key=lambda r: r["start"])  # fmt: skip
    assert own[0]["end"] == own[1]["start"] == pytest.approx((made["start"] + made["end"]) / 2, abs=1e-3)
    assert own[0]["label"] == own[1]["label"]
    page.press("u")
    wait_count(page, n + 1)

    # the right edge is dragged
    goes_to(page, made)
    handle = page.js(
        "const r = document.querySelector('.handle[data-side=e]').getBoundingClientRect();"
        "return [r.x + r.width / 2, r.y + r.height / 2]"
    )
    pixel = pixel_of(page)
    drag(page, handle, [handle[0] + 60, handle[1]])
    page.wait(
        "return document.querySelector('#say').textContent.includes('Moved')", supervision="that the box was moved"
    )
    moved = next(r for r in instances(page) if (r["bag"], r["instance"]) == (made["bag"], made["instance"]))
    assert moved["end"] == pytest.approx(made["end"] + 60 * pixel, abs=2 * pixel)
    assert [moved[k] for k in ("start", "low", "high")] == [made[k] for k in ("start", "low", "high")]
    shoot(page, "4-moved")

    # deleted, and taken back
    page.press(Keys.DELETE)
    wait_count(page, n)
    page.press("u")
    wait_count(page, n + 1)

    # learned from
    page.js("document.querySelector('#learn').click()")
    page.wait("return document.querySelector('.toast.good')", supervision="the end of learning")
    after = instances(page)
    assert len(after) == n + 1
    kept = next(r for r in after if (r["bag"], r["instance"]) == (made["bag"], made["instance"]))
    assert kept["checked"]
    assert kept["end"] == moved["end"]
    shoot(page, "5-learned")
    page.wait("return document.querySelector('.row.here').id === 'row-0'", supervision="the new first one")

    # what was learned is taken back only where somebody says so
    page.press("u")
    page.wait(
        "return document.querySelector('dialog[open] #sure')?.textContent.includes('from version 1 back to version 0')"
    )
    assert page.js("return document.activeElement.id") == "sure-no"
    shoot(page, "8-sure")
    page.press(Keys.ENTER)
    page.wait("return !document.querySelector('dialog')")
    assert page.api("/api/run")["version"] == 1
    page.press("u")
    page.wait("return document.querySelector('dialog[open] #sure-yes')")
    page.js("document.querySelector('#sure-yes').click()")
    page.wait("return [...document.querySelectorAll('.toast')].some((toast) => toast.textContent.includes('Undone'))")
    assert page.api("/api/run")["version"] == 0
    assert page.errors() == []


def test_the_export_is_downloaded_as_a_zip(page_of, sounds):  # noqa: F811
    page = page_of(sounds)
    page.wait("return document.querySelector('#export')")
    assert page.text("#export").strip() == "Export"
    page.js("document.querySelector('#export').click()")
    page.wait("return document.querySelector('#export-all')")
    page.js("document.querySelector('#export-all').click()")
    address = page.wait("return document.querySelector('#export-zip')?.href")
    size = page.driver.execute_async_script(
        "const [address, done] = arguments; fetch(address).then((r) => r.arrayBuffer())"
        ".then((b) => done([b.byteLength, String.fromCharCode(...new Uint8Array(b).slice(0, 2))]))",
        address,
    )
    assert size[0] > 1000
    assert size[1] == "PK"
    shoot(page, "9-export")
    assert page.errors() == []


def pixel_of(page):
    """Seconds of a point of the screen."""
    return page.js(
        "const words = document.querySelector('.overlay').getAttribute('aria-label');"
        "const [from, to] = words.match(/[\\d.]+(?= to| seconds)/g).slice(-2).map(Number);"
        "return (to - from) / (document.querySelector('.sound').clientWidth - 44)"
    )


def goes_to(page, row):
    """Click its box."""
    key = f"{row['bag']}~{row['instance']}"
    box = "document.querySelector(`[data-key='${arguments[0]}']`)"
    page.js(f"{box}.dispatchEvent(new MouseEvent('click', {{bubbles: true}}))", key)
    page.wait(f"return {box}.classList.contains('mine')", key)


def test_everything_goes_without_a_mouse(page_of, sounds):  # noqa: F811
    page = page_of(sounds)
    first, _ = ready(page)
    n = len(instances(page))
    page.press("d")
    page.wait("return document.querySelector('dialog[open] #place-start')")
    assert page.js("return document.activeElement.id") == "place-start"
    for name, value in (("start", "0.1"), ("end", "0.3"), ("low", "1500"), ("high", "2500")):
        page.js("document.querySelector('#place-' + arguments[0]).select()", name)
        page.press(value)
    shoot(page, "6-numbers")
    page.press(Keys.ENTER)
    wait_count(page, n + 1)
    script = "return document.querySelector('.box.mine')?.dataset.key !== arguments[0]"
    page.wait(script, f"{first['bag']}~{first['instance']}")
    made = mine(page)
    assert [made[k] for k in ("start", "end", "low", "high")] == [0.1, 0.3, 1500.0, 2500.0]
    page.press("e")
    page.wait("return document.querySelector('dialog[open] #place-end')?.value === '0.3'")
    page.js("document.querySelector('#place-end').value = '99'")
    page.press(Keys.ENTER)
    page.wait("return document.querySelector('.toast.bad')?.textContent.includes('lies outside of the recording')")
    page.press("m")  # with the next
    page.wait("return document.querySelector('#say').textContent.includes('Merged')")
    wait_count(page, n)
    assert mine(page)["start"] == 0.1
    page.press("u")
    wait_count(page, n + 1)
    page.press("?")
    page.wait("return document.querySelector('dialog[open] .keys')?.textContent.includes('merge with the next one')")
    page.press(Keys.ESCAPE)
    page.js("document.querySelector('#box-remove').click()")
    wait_count(page, n)
    assert page.js(
        "return [...document.querySelectorAll('.bar-of-tools button')].every((b) => b.textContent || b.title)"
    )
    assert all("/api/boxes" in error and "400" in error for error in page.errors())  # the box that was refused


def test_a_drag_is_called_off_and_shift_pans(page_of, sounds):  # noqa: F811
    page = page_of(sounds)
    _, shown = ready(page)
    n = len(instances(page))
    begin = at(page, shown["from"] + 0.02, 0.6 * shown["high"])
    actions = ActionBuilder(page.driver)
    actions.pointer_action.move_to_location(*map(round, begin)).pointer_down()
    actions.pointer_action.move_to_location(round(begin[0] + 50), round(begin[1] - 40))
    actions.perform()
    page.wait("return document.querySelector('.ghost')")
    page.press(Keys.ESCAPE)
    page.wait("return !document.querySelector('.ghost')")
    ActionBuilder(page.driver).clear_actions()
    ActionChains(page.driver).release().perform()
    stretch = "return document.querySelector('.overlay').getAttribute('aria-label')"
    before = page.js(stretch)
    page.press("+")
    zoomed = page.js(stretch)
    assert zoomed != before
    ActionChains(page.driver).key_down(Keys.SHIFT).perform()
    drag(page, begin, [begin[0] + 80, begin[1]])
    ActionChains(page.driver).key_up(Keys.SHIFT).perform()
    assert len(instances(page)) == n
    assert page.errors() == []


def test_a_span_of_a_series_is_drawn_and_deleted(page_of, series):  # noqa: F811
    page = page_of(series)
    page.wait("return document.querySelector('.series .curve')")
    settled(page, "return document.querySelector('.row.here').id")
    n = len(instances(page))
    spot = page.js("const r = document.querySelector('.series').getBoundingClientRect(); return [r.x + 80, r.y + 60]")
    drag(page, spot, [spot[0] + 200, spot[1]])
    wait_count(page, n + 1)
    shoot(page, "7-series")
    page.press(Keys.DELETE)
    wait_count(page, n)
    page.press("u", "u")
    wait_count(page, n)
    assert page.errors() == []


def test_frequencies_brightness_and_colors_of_the_picture(page_of, sounds):  # noqa: F811
    page = page_of(sounds)
    first, _ = ready(page)
    drawn = "return document.querySelectorAll('.sound .box').length"
    before = page.js(drawn)
    page.js("document.querySelector('#look-open').click()")
    page.wait("return document.querySelector('dialog[open] #look-low')")
    page.js(
        "const low = document.querySelector('#look-low'); low.value = 0.5 + arguments[0] / 1000;"
        "low.dispatchEvent(new Event('change'));"
        "const colors = document.querySelector('#look-colors'); colors.value = 'viridis';"
        "colors.dispatchEvent(new Event('change'));"
        "const gain = document.querySelector('#look-gain'); gain.value = 1; gain.dispatchEvent(new Event('input'))",
        first["high"],
    )
    page.wait("return document.querySelector('.sound img').src.includes('low=' + (500 + arguments[0]))", first["high"])
    page.press(Keys.ESCAPE)
    assert page.js("return document.querySelector('.sound img').style.filter") == 'url("#look")'
    assert page.js("return document.querySelector('filter feFuncR').getAttribute('exponent')") == "2"
    assert page.js(drawn) < before  # what lies below is not seen
    shoot(page, "10-look")
    page.js("document.querySelector('#look-open').click()")
    page.wait("return document.querySelector('#look-reset')")
    page.js("document.querySelector('#look-reset').click()")
    page.wait("return !document.querySelector('.sound img').style.filter")
    assert page.js(drawn) == before
    assert page.errors() == []
