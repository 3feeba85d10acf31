"""The page of a run: self-contained, escaped, with what matters on it; its summary is plain data."""

import base64
import io
import json
import re
import sys
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest
import soundfile
from PIL import Image

from bagwise.dataset import rows_of
from bagwise.featurize import AudioSettings
from bagwise.featurize.audio import read_audio
from bagwise.report.page import check_page_can_be_made, choose_pieces, draw_piece, write_page
from bagwise.report.result import AnnotateResult
from bagwise.report.summary import class_colours, summarize_run
from media_examples import MAKERS, pictures, sounds, table


@pytest.fixture
def result(tmp_path):
    (tmp_path / "sub").mkdir()
    rng = np.random.default_rng(0)
    for name, seconds in (("a.wav", 10.0), ("b.wav", 7.5), ("sub/c.wav", 10.0)):
        soundfile.write(tmp_path / name, 0.1 * rng.normal(size=round(16_000 * seconds)), 16_000)
    annotations = sounds(tmp_path)
    return AnnotateResult(
        annotations=annotations,
        problems=[("bad.wav", "bad.wav: <script>alert(1)</script>")],
        unexplained=[("a.wav", ["Zaunkönig"])],
        outputs=[],
        form="rows of bag and label",
        n_reused=0,
        label_sets={"a.wav": {"Zaunkönig", "=1+1"}, "sub/c.wav@0": None},
    )


class Checker(HTMLParser):
    """Counts tags that are open, and gathers all addresses."""

    VOID = ("meta", "image", "rect", "polygon", "polyline", "line")

    def __init__(self):
        super().__init__()
        self.stack, self.addresses, self.tags = [], [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.addresses += [value for name, value in attrs if name in ("href", "src")]
        if tag not in self.VOID or tag == "polygon":
            self.stack.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)
        self.addresses += [value for name, value in attrs if name in ("href", "src")]

    def handle_endtag(self, tag):
        assert self.stack.pop() == tag


def test_the_page_is_one_file_without_scripts(result, tmp_path):
    write_page(result, tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    checker = Checker()
    checker.feed(text)
    assert checker.stack == []
    assert "script" not in checker.tags
    assert checker.addresses
    assert all(address.startswith("data:image/png;base64,") for address in checker.addresses)
    assert not re.search(r"url\(|@import|https?://", text)
    for expected in (
        "&lt;script&gt;alert(1)", "Zaunkönig", "=1+1", "tab\there", "rows of bag and label", "least sure".title()[:5],
        "a.wav: Zaunkönig", "ored-background", "window=10.0",
    ):  # fmt: skip
        assert expected in text
    again = tmp_path / "again.html"
    write_page(result, again)
    assert again.read_bytes() == (tmp_path / "report.html").read_bytes()


def test_remarks_and_the_choice_of_the_model_stand_on_the_page(result, tmp_path):
    write_page(result, tmp_path / "plain.html")
    plain = (tmp_path / "plain.html").read_text(encoding="utf-8")
    assert "Which model" not in plain
    assert "hard to tell" not in plain
    rows = [
        {"model": "one", "listed": 0.876, "explained": 1.0, "score": 0.938},
        {"model": "two", "why": "cannot"},
    ]
    choice = {"model": "one", "folds": 5, "rows": rows}
    more = replace(result, remarks=["Always listed together: <b>"], choice=choice)
    write_page(more, tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    checker = Checker()
    checker.feed(text)
    assert checker.stack == []
    for expected in ("<li>Always listed together: &lt;b&gt;</li>", "<b>one</b>", ">88 %<", ">94 %<", "<td>two</td>"):
        assert expected in text


def test_summary_is_plain_and_right(result):
    summary = summarize_run(result)
    json.dumps(summary)
    assert summary["counts"]["instances"] == 5
    assert summary["counts"]["instances named"] == 3
    assert summary["counts"]["minutes"] == 0.5
    assert [row["probability"] for row in summary["least_sure"]] == [0.75, 0.8, 0.9]
    by_name = {row["name"]: row for row in summary["classes"]}
    assert (by_name["Zaunkönig"]["bags"], by_name["Zaunkönig"]["instances"]) == (1, 1)
    assert by_name["Zaunkönig"]["histogram"] == [0] * 9 + [1]
    assert sum(by_name["=1+1"]["histogram"]) == 1


def test_pictures_show_the_least_sure_first_and_in_place(result):
    annotations = result.annotations
    pieces = choose_pieces(annotations)
    assert pieces[0] == ("sub/c.wav", 0.0)
    assert set(pieces) == {("a.wav", 0.0), ("sub/c.wav", 0.0)}
    picture = draw_piece(annotations, "a.wav", 0.0)
    left, right = (float(picture.regions[0]["points"].split()[i].split(",")[0]) for i in (0, 1))
    assert (left, right) == pytest.approx((50.0, 125.0), abs=1.5)  # 0.5 and 1.25 of 10 seconds on 1000 units
    assert len(picture.ticks) == 10
    assert len(class_colours([str(i) for i in range(12)]).values()) == len(
        set(class_colours([str(i) for i in range(12)]).values())
    )


def test_regions_lie_over_what_they_name_in_short_sounds(tmp_path):
    rate = 16_000
    time = np.arange(round(0.4 * rate)) / rate
    sound = 0.001 * np.random.default_rng(0).standard_normal(len(time))
    sound[(time >= 0.3)] += 0.2 * np.sin(2 * np.pi * 4000 * time[time >= 0.3])
    soundfile.write(tmp_path / "a.wav", sound, rate)
    found = read_audio(tmp_path / "a.wav", "a.wav", AudioSettings())
    place = max(rows_of(found.locations), key=lambda p: p["end"] - p["start"])
    annotations = sounds(tmp_path)
    annotations.rows[:] = [{**annotations.rows[0], **place}]
    annotations.about["settings"] = AudioSettings().to_dict()
    picture = draw_piece(annotations, "a.wav", 0.0)
    raw = base64.b64decode(picture.background.split(",", 1)[1])
    values = np.asarray(Image.open(io.BytesIO(raw)).convert("L"))
    dark = np.flatnonzero(values.min(axis=0) < 64)
    left, right = (float(picture.regions[0]["points"].split()[i].split(",")[0]) for i in (0, 1))
    point = picture.width / values.shape[1]
    assert left == pytest.approx(dark[0] * point, abs=2.5 * point)
    assert right == pytest.approx((dark[-1] + 1) * point, abs=0.5 * point)


@pytest.mark.parametrize("size", [(60, 80), (1500, 2000)])
def test_small_and_large_pictures_are_drawn_alike(tmp_path, size):
    """In units of the page, so that names and edges are as large beside a thumbnail as beside a photograph."""
    height, width = size
    Image.fromarray(np.zeros((height, width, 3), np.uint8)).save(tmp_path / "a.png")
    annotations = pictures(tmp_path)
    half = [[0, 0], [width / 2, 0], [width / 2, height], [0, height]]
    for row in annotations.rows:
        row["polygon"] = half
    annotations.about["settings"] = {}
    drawn = draw_piece(annotations, "a.png", 0.0)
    assert (drawn.width, drawn.height) == (640, 480)
    assert drawn.regions[0]["points"] == "0.0,0.0 320.0,0.0 320.0,480.0 0.0,480.0"


def test_the_page_of_a_table_has_no_pictures(tmp_path):
    scene = table(tmp_path)
    write_page(AnnotateResult(scene, [], [], [], "", 0, {"7": {"spam"}, "8": None}), tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    checker = Checker()
    checker.feed(text)
    assert checker.stack == []
    assert "Pictures" not in text
    assert "<td>7</td><td>instance 1 of 7</td>" in text
    assert choose_pieces(scene) == []


@pytest.mark.parametrize("name", ["jinja2", "matplotlib", "matplotlib.image"])
def test_a_missing_library_is_told_before_any_work(monkeypatch, tmp_path, name):
    monkeypatch.setitem(sys.modules, name, None)  # import then raises ImportError
    with pytest.raises(ImportError, match=rf"page needs matplotlib and jinja2, and .*{name}.*bagwise\[report\]"):
        check_page_can_be_made()
    monkeypatch.delitem(sys.modules, name)
    check_page_can_be_made()


@pytest.mark.parametrize("medium", ["text", "series"])
def test_pages_of_texts_and_series(tmp_path, medium):
    scene = MAKERS[medium](tmp_path)
    scene.about["settings"] = {}
    (tmp_path / "a.csv").write_text('x,"a ""b"""\n' + "1,2\n3,4\n" * 5, encoding="utf-8")
    write_page(AnnotateResult(scene, [], [], [], "", 0, {}), tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    expected = {"text": "0 to 24 characters", "series": "0.0 to 2.56 s"}[medium]
    assert expected in text
    assert ("<mark" in text) == (medium == "text")
    assert ("<polyline" in text) == (medium == "series")
