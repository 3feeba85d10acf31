"""The page of a run: self-contained, escaped, with what matters on it; its summary is plain data."""

import base64
import hashlib
import io
import json
import re
import sys
import zipfile
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest
import soundfile
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from scipy.ndimage import gaussian_filter
from skimage.color import deltaE_ciede2000, rgb2lab

from bagwise.app.labels.sites import in_field
from bagwise.app.media import AudioSettings
from bagwise.app.media._image_regions import outlines
from bagwise.app.media.audio import AUDIO
from bagwise.app.media.pictures import (
    filled_region,
    name_once,
    outline_region,
    span_in_words,
    tick_words,
    time_in_words,
)
from bagwise.app.media.rle import ring_counts, sample_counts
from bagwise.app.report.field import BY_FILE
from bagwise.app.report.page import (
    MOST,
    MOST_OF_A_KIND,
    MOST_SOUND,
    _choose_gallery,
    _choose_pieces,
    _rows_of_piece,
    check_page_can_be_made,
    write_page,
)
from bagwise.app.report.summary import AnnotateResult, class_colours, summarize_run
from bagwise.core.dataset import rows_of
from media_examples import MAKERS, crowd, finding, pictures, sounds, table, texts


@pytest.fixture
def result(tmp_path):
    (tmp_path / "sub").mkdir()
    rng = np.random.default_rng(0)
    for name, seconds in (("a.wav", 10.0), ("b.wav", 7.5), ("sub/c.wav", 10.0)):
        soundfile.write(tmp_path / name, 0.1 * rng.normal(size=round(16_000 * seconds)), 16_000)
    annotations = replace(sounds(), folder=tmp_path)
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

    VOID = ("meta", "img", "input")

    def __init__(self):
        super().__init__()
        self.stack, self.addresses, self.tags, self.ids, self.scripts = [], [], [], [], []

    def handle_data(self, data):
        if self.stack and self.stack[-1] == "script":
            self.scripts.append(data)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.addresses += [value for name, value in attrs if name in ("href", "src", "data-sound")]
        self.ids += [value for name, value in attrs if name == "id"]
        if tag not in self.VOID:
            self.stack.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in self.VOID:
            self.stack.pop()

    def handle_endtag(self, tag):
        assert self.stack.pop() == tag


def check(path):
    """The page taken apart: every tag closed, every link leads somewhere, every sound is there."""
    checker = Checker()
    checker.feed(path.read_text(encoding="utf-8"))
    assert checker.stack == []
    assert len({*checker.ids}) == len(checker.ids)
    for address in checker.addresses:
        if address.startswith("#"):
            assert address[1:] in checker.ids, address
        elif not address.startswith(("data:image/png;base64,", "data:image/jpeg;base64,")):
            assert (path.parent / address).is_file(), address
    return checker


def test_the_page_loads_nothing_but_its_sounds_and_runs_only_its_own_script(result, tmp_path):
    outputs = write_page(result, tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    checker = check(tmp_path / "report.html")
    sounds = {address for address in checker.addresses if address.startswith("report-sounds/")}
    assert {path.relative_to(tmp_path).as_posix() for path in outputs} == {"report.html", *sounds}
    assert sounds
    (script,) = checker.scripts
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = "default-src 'none'; img-src data:; media-src 'self' file:; style-src 'unsafe-inline'; script-src "
    assert policy + f"'sha256-{digest}'" in text.replace("&#39;", "'")
    assert not re.search(r"url\(|@import|https?://", text)
    for expected in (
        "&lt;script&gt;alert(1)", "Zaunkönig", "=1+1", "tab\there", "rows of bag and label", "Least certain",
        "a.wav: Zaunkönig", "ored-background", "window=10.0",
    ):  # fmt: skip
        assert expected in text
    before = {path: path.read_bytes() for path in outputs}
    assert write_page(result, tmp_path / "report.html") == outputs
    assert {path: path.read_bytes() for path in outputs} == before


def test_every_file_has_a_row_also_without_a_picture(result, tmp_path):
    write_page(result, tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    rows = re.findall(r'<tr><td class="name">(?:<a href="#(p\d+)">)?([^<]*)', text[text.index('id="files"') :])
    assert {name for _, name in rows} == {"a.wav", "b.wav", "sub/c.wav"}
    assert {name: bool(link) for link, name in rows}["b.wav"] is False
    by_file = {row["file"]: row for row in summarize_run(result)["files"]}
    assert (by_file["a.wav"]["named"], by_file["a.wav"]["background"], by_file["b.wav"]["named"]) == (2, 1, 0)
    assert by_file["a.wav"]["strip"] == {"Zaunkönig": [(6, 10)], "=1+1": [(24, 7)]}  # of 120 columns for ten seconds


def test_the_least_sure_lead_to_their_regions(result, tmp_path):
    write_page(result, tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    table = text[text.index('id="uncertain"') : text.index('id="inputs"')]
    links = re.findall(r'<a href="#(i\d+)">', table)
    assert len(links) == 3
    for link in links:
        assert re.search(rf'<path class="region" id="{link}" ', text)


def test_times_are_of_the_clock_where_they_are_known(result, tmp_path):
    write_page(result, tmp_path / "plain.html")
    assert "hour of the day" not in (tmp_path / "plain.html").read_text(encoding="utf-8")
    annotations = result.annotations
    annotations.files[0]["recorded"] = "2024-05-01T05:30:00"
    dated = replace(result, annotations=in_field(annotations, []))
    write_page(dated, tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "2024-05-01 05:30:02" in text
    assert "Syllables by hour of the day" in text
    assert "2 of 3 files have no date and time" in text


@pytest.mark.parametrize(
    ("seconds", "digits", "words"),
    [
        (0.5, 2, "0.50 s"), (59.994, 2, "59.99 s"), (59.996, 2, "1:00.00"), (62.346, 2, "1:02.35"),
        (5562.13, 2, "1:32:42.13"), (5562.13, 0, "1:32:42"), (3600, 0, "1:00:00"), (359_999.4, 0, "99:59:59"),
    ],
)  # fmt: skip
def test_seconds_in_words(seconds, digits, words):
    assert time_in_words(seconds, digits) == words


def test_spans_and_ticks_in_words():
    assert span_in_words(0.5, 1.25) == "0.50 to 1.25 s"
    assert span_in_words(59.5, 60.25) == "59.50 s to 1:00.25"
    assert span_in_words(5562.13, 5563.0) == "1:32:42.13 to 1:32:43.00"
    assert [tick_words(t, 65.0) for t in (0.0, 9.5, 60.0, 62.5)] == ["0:00", "0:09.5", "1:00", "1:02.5"]
    assert tick_words(2.5, 10.0) == "2.5 s"
    assert tick_words(1.7e9, 1.7e9 + 60) == "1.7e+09 s"  # not a time within the file
    assert time_in_words(1.7e9, 1) == "1700000000.0 s"


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
    assert summary["counts"]["instances with a label"] == 3
    assert summary["counts"]["minutes"] == 0.5
    assert [row["probability"] for row in summary["least_sure"]] == [0.75, 0.8, 0.9]
    by_name = {row["name"]: row for row in summary["classes"]}
    assert (by_name["Zaunkönig"]["bags"], by_name["Zaunkönig"]["instances"]) == (1, 1)
    assert by_name["Zaunkönig"]["histogram"] == [0] * 9 + [1]
    assert sum(by_name["=1+1"]["histogram"]) == 1


def draw_piece(annotations, name, start):
    media_type = annotations.media_type
    with media_type.open(annotations.folder / name) as file:
        rows = _rows_of_piece(annotations, name, start)
        return media_type.draw(file, name, rows, media_type.make_settings(annotations.about["settings"]), start)


def test_pictures_show_the_least_sure_first_and_in_place(result):
    annotations = result.annotations
    pieces = _choose_pieces(annotations)
    assert pieces[0] == ("sub/c.wav", 0.0)
    assert set(pieces) == {("a.wav", 0.0), ("sub/c.wav", 0.0)}
    picture = draw_piece(annotations, "a.wav", 0.0)
    left, right = (float(corner.split(",")[0]) for corner in picture.regions[0]["path"][1:].split("L")[:2])
    assert (left, right) == pytest.approx((50.0, 125.0), abs=1.5)  # 0.5 and 1.25 of 10 seconds on 1000 units
    assert len(picture.ticks) == 10


def test_no_colour_comes_twice_before_all_are_used():
    looks = list(class_colours([str(i) for i in range(100)]).values())
    assert len({look.colour for look in looks[:24]}) == 24
    assert not any(look.pattern for look in looks[:24])
    assert all(look.pattern for look in looks[24:96])
    assert len({(look.colour, look.pattern) for look in looks[:96]}) == 96
    lab = rgb2lab(np.array([[int(look.colour[i : i + 2], 16) for i in (1, 3, 5)] for look in looks[:24]]) / 255)
    apart = [deltaE_ciede2000(a, b) for i, a in enumerate(lab) for b in lab[:i]]
    assert min(apart) > 13


def test_labels_beyond_the_colours_bear_a_pattern(tmp_path):
    Image.fromarray(np.zeros((80, 100, 3), np.uint8)).save(tmp_path / "a.png")
    scene = pictures(tmp_path)
    scene.about["settings"] = {}
    crowd = [f"class {i}" for i in range(30)]
    for row, label in zip(scene.rows, (crowd[0], crowd[25]), strict=True):
        row["label"] = label
    for classes, n_patterns in ((crowd, 1), (crowd[:2], 0)):
        shown = replace(scene, classes=classes, rows=[row for row in scene.rows if row["label"] in classes])
        write_page(AnnotateResult(shown, [], [], [], "", 0, {"a.png": {crowd[0]}}), tmp_path / "report.html")
        text = (tmp_path / "report.html").read_text(encoding="utf-8")
        assert check(tmp_path / "report.html").ids.count("stripes") == n_patterns
        assert text.count('fill="url(#stripes)"') == n_patterns
        assert ('class="chip stripes"' in text) == bool(n_patterns)


@pytest.mark.parametrize("seed", range(20))
def test_names_stand_inside_of_their_region(seed):
    """However odd it is, the middle of the name lies in it, and the name as a whole if it is not left out."""
    rng = np.random.default_rng(seed)
    region = gaussian_filter(rng.random((60, 80)), 4) > 0.5
    rings = [[(8 * x, 8 * y) for x, y in ring] for ring in outlines(region)]
    drawn = filled_region({"label": "grass", "probability": 1.0, "bag": "a", "instance": 0}, rings)
    inside = sample_counts(ring_counts(rings, 480, 640), (480, 640), (480, 640))
    x, y = drawn["name_at"], drawn["name_down"] - drawn["size"] / 3
    assert inside[int(y), int(x)]
    if drawn["named"]:
        half = 0.5 * 0.6 * 5 * drawn["size"]
        assert inside[int(y), max(0, int(x - half) + 1) : int(x + half)].all()
    small = [[(0.0, 0.0), (20.0, 0.0), (20.0, 20.0), (0.0, 20.0)]]
    assert not filled_region({"label": "a long name", "probability": 1, "bag": "a", "instance": 0}, small)["named"]


def test_drawings_of_texts_are_passages(tmp_path):
    scene = texts(tmp_path)
    scene.about["settings"] = {}
    write_page(AnnotateResult(scene, [], [], [], "", 0, {"a.txt": {"tale"}}), tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert '<h2 id="pictures">Passages</h2>' in text
    assert ">Pictures<" not in text


def test_regions_lie_over_what_they_name_in_short_sounds(tmp_path):
    rate = 16_000
    time = np.arange(round(0.4 * rate)) / rate
    sound = 0.001 * np.random.default_rng(0).standard_normal(len(time))
    sound[(time >= 0.3)] += 0.2 * np.sin(2 * np.pi * 4000 * time[time >= 0.3])
    soundfile.write(tmp_path / "a.wav", sound, rate)
    found = AUDIO.read_file(tmp_path / "a.wav", "a.wav", AudioSettings())
    place = max(rows_of(found.locations), key=lambda p: p["end"] - p["start"])
    annotations = replace(sounds(), folder=tmp_path)
    annotations.rows[:] = [{**annotations.rows[0], **place}]
    annotations.about["settings"] = AudioSettings().to_dict()
    picture = draw_piece(annotations, "a.wav", 0.0)
    raw = base64.b64decode(picture.background.split(",", 1)[1])
    values = np.asarray(Image.open(io.BytesIO(raw)).convert("L"))
    dark = np.flatnonzero(values.min(axis=0) < 64)
    left, right = (float(corner.split(",")[0]) for corner in picture.regions[0]["path"][1:].split("L")[:2])
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
    assert drawn.regions[0]["path"] == "M0.0,0.0L320.0,0.0L320.0,480.0L0.0,480.0Z"
    assert drawn.regions[0]["size"] == 14.0


def test_the_page_of_a_table_has_no_pictures(tmp_path):
    scene = table(tmp_path)
    write_page(AnnotateResult(scene, [], [], [], "", 0, {"7": {"spam"}, "8": None}), tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    checker = Checker()
    checker.feed(text)
    assert checker.stack == []
    assert "Pictures" not in text
    assert re.search(r'<td class="name">7</td><td data-v="1">instance 1 of 7</td>', text)
    assert "report-sounds" not in text
    assert _choose_pieces(scene) == []


@pytest.mark.parametrize("name", ["jinja2", "PIL"])
def test_a_missing_library_is_told_before_any_work(monkeypatch, tmp_path, name):
    monkeypatch.setitem(sys.modules, name, None)  # import then raises ImportError
    monkeypatch.delitem(sys.modules, f"{name}.Image", raising=False)
    with pytest.raises(ImportError, match=rf"page needs pillow and jinja2, and .*{name}.*bagwise\[report\]"):
        check_page_can_be_made()
    monkeypatch.undo()
    check_page_can_be_made()


@pytest.mark.parametrize("media_type", ["text", "series"])
def test_pages_of_texts_and_series(tmp_path, media_type):
    scene = MAKERS[media_type](tmp_path)
    scene.about["settings"] = {}
    (tmp_path / "a.csv").write_text('x,"a ""b"""\n' + "1,2\n3,4\n" * 5, encoding="utf-8")
    write_page(AnnotateResult(scene, [], [], [], "", 0, {}), tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    expected = {"text": "0 to 24 characters", "series": "0.0 to 2.56 s"}[media_type]
    assert expected in text
    assert ("<mark" in text) == (media_type == "text")
    assert ("<polyline" in text) == (media_type == "series")


# ---------------------------------------------------------------------------------------------------------------------
# What one by one is shown, and how much a page may weigh


@given(st.lists(st.tuples(st.sampled_from("abcde"), st.none() | st.floats(0, 1), st.sampled_from("xyz")), max_size=60))
@settings(deadline=None)
def test_galleries_hold_the_surest_where_features_are_unknown_and_the_least_certain(found):
    rows = [
        {"file": file, **finding(label, probability, bag=file, instance=i)}
        for i, (label, probability, file) in enumerate(found)
    ]
    gallery = _choose_gallery(rows, list("abcde"))
    assert [part["label"] for part in gallery] == sorted({label for label, *_ in found})
    for part in gallery:
        own = [row for row in rows if row["label"] == part["label"]]
        assert part["instances"] == len(own)
        shown = [(row["bag"], row["instance"]) for row in (*part["typical"], *part["uncertain"])]
        assert len({*shown}) == len(shown)
        assert len(part["typical"]) == min(len(own), MOST_OF_A_KIND)
        rest = [row for row in own if (row["bag"], row["instance"]) not in shown]
        for row in rest:  # none of the others is surer, up to the hundredth, or less certain
            probability = row["probability"] or 0.0
            assert all(probability <= (other["probability"] or 0.0) + 0.01 for other in part["typical"])
            assert row["probability"] is None or all(
                other["probability"] <= probability + 0.01 for other in part["uncertain"]
            )


@pytest.mark.parametrize("n_labels", [1, 10, 100, 170, 500])
def test_galleries_are_bounded_whatever_the_number_of_labels(n_labels):
    names = [f"label {i:03d}" for i in range(n_labels)]
    rows = [
        {"file": "a", **finding(name, 0.5 + 0.01 * j, bag="a", instance=20 * i + j)}
        for i, name in enumerate(names)
        for j in range(20)
    ]
    gallery = _choose_gallery(rows, names)
    assert len(gallery) == n_labels
    assert sum(len(part["typical"]) + len(part["uncertain"]) for part in gallery) <= MOST
    if 2 * n_labels <= MOST:
        assert all(part["typical"] and part["uncertain"] for part in gallery)


def weight(folder, *case):
    folder.mkdir()
    wrong = [("a", "wrong")] * 5000
    result = AnnotateResult(crowd(folder, *case), wrong, [("a.wav", ["b"])] * 5000, [], "", 0, {})
    page, *sounds = write_page(result, folder / "report.html")
    text = page.read_text(encoding="utf-8")
    check(page)
    pictures = re.findall(r'<image href="data:image/png;base64,([^"]*)"', text)
    for picture in pictures:
        size = Image.open(io.BytesIO(base64.b64decode(picture))).size
        assert size[0] <= 1200
        assert size[1] <= 300
    return page.stat().st_size, sum(path.stat().st_size for path in sounds), text


def test_the_weight_is_bounded_whatever_the_window_and_the_number_of_files(tmp_path):
    """Pictures of pure noise compress worst of all; what grows with the files is a line of a table."""
    few = weight(tmp_path / "few", 4, 40.0, 10.0, 40)
    long = weight(tmp_path / "long", 4, 40.0, 40.0, 40)
    many = weight(tmp_path / "many", 400, 12.0, 10.0, 25)
    for page, heard, _ in (few, long, many):
        assert heard <= MOST_SOUND
        assert page + heard < 15e6
    assert long[0] < 1.2 * few[0]
    assert many[0] - few[0] < 400 * 1000
    assert many[2].count('<tr><td class="name">') == 400  # every file
    assert "4800 more: manifest.json names all" in few[2]


def test_beyond_ten_thousand_files_the_page_ends_and_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr("bagwise.app.report.summary.MOST_FILES", 3)
    result = AnnotateResult(crowd(tmp_path, 5, 2.0, 10.0, 2), [], [], [], "", 0, {})
    write_page(result, tmp_path / "report.html")
    assert f"The first 3 of 5 files; all are in {BY_FILE}." in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_a_file_that_is_gone_is_left_out_of_the_pictures_only(result, tmp_path):
    (tmp_path / "a.wav").unlink()
    (tmp_path / "sub" / "c.wav").write_bytes(b"no sound")
    with pytest.warns(UserWarning, match=r"^1 file\(s\) could not be drawn; the first: .*c\.wav"):
        assert write_page(result, tmp_path / "report.html") == [tmp_path / "report.html"]
    assert "image" not in check(tmp_path / "report.html").tags
    soundfile.write(tmp_path / "a.wav", np.zeros(1600), 16_000)  # shorter than it was: what is there is drawn
    with pytest.warns(UserWarning, match="could not be drawn"):
        write_page(result, tmp_path / "report.html")
    assert check(tmp_path / "report.html").tags.count("image") == 1
    assert "img" not in check(tmp_path / "report.html").tags
    assert "a.wav" in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_long_texts_are_shown_in_parts(tmp_path):
    scene = MAKERS["text"](tmp_path)
    (tmp_path / "a.txt").write_text("word " * 20_000, encoding="utf-8")
    scene.rows.append(
        {"file": "a.txt", "start": 90_000, "end": 90_040, **finding("tale", 0.2, bag="a.txt", instance=2)}
    )
    scene.about["settings"] = {}
    write_page(AnnotateResult(scene, [], [], [], "", 0, {}), tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert len(text) < 100_000
    assert "a.txt, characters 80000 to 100000 of 100000" in text
    assert "<q>word word word" in text


def test_sounds_of_the_page_play_what_is_shown(result, tmp_path):
    rate = 96_000
    time = np.arange(10 * rate) / rate
    tone = np.where((time > 0.5) & (time < 1.25), 0.05 * np.sin(2 * np.pi * 3000 * time), 0.0)
    soundfile.write(tmp_path / "a.wav", tone, rate, subtype="FLOAT")
    write_page(result, tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    card = re.search(r'data-sound="([^"]*)" aria-label="Play Zaunkönig, 0.50 to 1.25 s', text)[1]
    samples, got = soundfile.read(tmp_path / card)
    assert got == 24_000
    assert len(samples) == pytest.approx(1.25 * got, abs=2)  # a quarter of a second on each side
    assert np.abs(samples).max() == pytest.approx(0.9, abs=0.01)
    spectrum = np.abs(np.fft.rfft(samples))
    assert np.argmax(spectrum) * got / len(samples) == pytest.approx(3000, abs=2)


def test_names_lie_over_no_others_and_each_label_is_read_somewhere():
    rng = np.random.default_rng(0)
    for n in (1, 5, 60):
        rows = [{"label": f"label {i % 4}", "probability": 0.5, "bag": "a", "instance": i} for i in range(n)]
        corners = rng.uniform(0, 1, (n, 2)) * (900, 250)
        regions = [
            outline_region(row, x, y, x + 30, y + 20, 1000) for row, (x, y) in zip(rows, corners.tolist(), strict=True)
        ]
        named = [region for region in name_once(regions) if region["named"]]
        spans = []
        for region in named:
            width = 8 * len(region["label"])  # of letters of 11 px, in bold
            begin = region["name_at"] - width if region["anchor"] == "end" else region["name_at"]
            spans.append((begin, begin + width, region["name_down"]))
        assert not any(
            a[0] < b[1] and b[0] < a[1] and abs(a[2] - b[2]) < 11 for i, a in enumerate(spans) for b in spans[:i]
        )
        if n < 60:
            assert {region["label"] for region in named} == {row["label"] for row in rows}


def test_the_page_opens_with_what_was_found_and_ends_with_settings(result, tmp_path):
    write_page(result, tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    headings = re.findall(r'<h2 id="([^"]*)"', text)
    assert (headings[0], headings[-1]) == ("labels", "inputs")
    assert headings.index("gallery") < headings.index("pictures") < headings.index("uncertain")
    for address in re.findall(r'href="(report-sounds/[^"]*[.]zip)"', text):
        with zipfile.ZipFile(tmp_path / address) as archive:
            clips = {archive.read(name) for name in archive.namelist()}
        assert clips <= {path.read_bytes() for path in (tmp_path / "report-sounds").glob("*.flac")}
    assert len(list((tmp_path / "report-sounds").glob("*.zip"))) == len(
        {row["label"] for row in result.annotations.shown()}
    )
