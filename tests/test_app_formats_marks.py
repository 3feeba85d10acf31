"""What people made of annotations: every format read back, edited by hand, damaged."""

import csv
import json
import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bagwise.app.formats import FORMATS, Annotations, compare_marks, guess_annotation_format, read_marks
from bagwise.app.formats import write_formats as write
from bagwise.app.media.media_types import MEDIA
from bagwise.core.exceptions import FormatError, InputError, MemoryLimitError
from media_examples import MAKERS, finding, pictures, sounds, table, texts

PAIRS = [(media_type, name) for media_type in MAKERS for name in MEDIA[media_type].formats]
SHOWN_ONLY = [(media_type, name) for media_type, name in PAIRS if name not in ("csv", "parquet")]


def written(annotations, folder, name):
    """Every path of a format that can be read back by itself."""
    paths = write(annotations, folder, [name])
    if name == "raven":
        return [folder / "raven", folder / "raven" / "all.selections.txt"]
    if name == "audacity":
        return [folder / "audacity"]
    return [path for path in paths if path.suffix != ".xml"]


@pytest.mark.parametrize(("media_type", "name"), PAIRS, ids=str)
def test_what_was_written_says_nothing_new(tmp_path, media_type, name):
    scene = MAKERS[media_type](tmp_path)
    paths = written(scene, tmp_path / "out", name)
    assert paths
    for path in paths:
        assert guess_annotation_format(path) == name
        marks = read_marks(path, scene)
        assert len(marks.rows) == len(scene.rows if marks.every_instance else scene.shown())
        assert compare_marks(scene, marks) == ([], [])


@pytest.mark.parametrize(("media_type", "name"), SHOWN_ONLY, ids=str)
def test_every_changed_label_and_every_deletion_is_found(tmp_path, media_type, name):
    """Written as if a person had changed one instance, then compared with the run as it was."""
    scene = MAKERS[media_type](tmp_path)
    shown = scene.shown()
    for i, row in enumerate(shown):
        other = next(label for label in scene.classes if label != row["label"])
        for label in (other, ""):
            edited = replace(scene, rows=[{**r, "label": label} if r is row else r for r in scene.rows])
            for path in written(edited, tmp_path / f"out{i}{label == ''}", name):
                corrections, problems = compare_marks(scene, read_marks(path, scene))
                assert problems == []
                assert corrections == [(row["bag"], row["instance"], label)]


def test_a_selection_table_edited_by_hand(tmp_path):
    scene = sounds()
    write(scene, tmp_path, ["raven"])
    path = tmp_path / "raven" / "a.wav.selections.txt"
    lines = path.read_text(encoding="utf-8").splitlines()
    lines = [lines[0], lines[1].replace("Zaunkönig", "'=1+1")]  # one label changed, the second row deleted
    path.write_bytes(("\ufeff" + "\r\n".join(lines) + "\r\n").encode())
    expected = [("a.wav", 0, "=1+1"), ("a.wav", 1, "")]
    assert compare_marks(scene, read_marks(path, scene)) == (expected, [])
    assert compare_marks(scene, read_marks(tmp_path / "raven", scene)) == (expected, [])


def test_selection_tables_may_have_other_columns_in_another_order(tmp_path):
    scene = sounds()
    text = (
        "Species\tNotes\tHigh Freq (Hz)\tLow Freq (Hz)\tEnd Time (s)\tBegin Time (s)\tView\tSelection\n"
        "tab here\tloud\t3500.5\t2000.0\t1.25\t0.5\tWaveform 1\t1\n"
        "tab here\tloud\t3500.5\t2000.0\t1.25\t0.5\tSpectrogram 1\t1\n"
        "Amsel\t\t3500.4\t2000.0\t2.5\t1.9\tSpectrogram 1\t2\n"
    )
    path = tmp_path / "a.Table.1.selections.txt"
    path.write_text(text, encoding="utf-8")
    marks = read_marks(path, scene)
    assert marks.covered == {"a.wav"}
    # a tab became a blank in the name, the second selection was moved by a tenth of a second
    assert compare_marks(scene, marks) == ([("a.wav", 0, "tab\there"), ("a.wav", 1, "Amsel")], [])


def test_the_table_of_all_recordings_covers_all_of_them(tmp_path):
    scene = sounds()
    write(scene, tmp_path, ["raven"])
    path = tmp_path / "raven" / "all.selections.txt"
    heading, *lines = path.read_text(encoding="utf-8").splitlines()
    path.write_text("\n".join([heading, lines[0]]) + "\n", encoding="utf-8")
    expected = [("a.wav", 1, ""), ("sub/c.wav@0", 0, "")]
    assert compare_marks(scene, read_marks(path, scene)) == (expected, [])
    # without its last columns the place in the file follows from the lengths of the recordings
    left_out = ("Begin File", "Begin Path", "File Offset (s)")
    kept = [i for i, name in enumerate(heading.split("\t")) if name not in left_out]
    plain = ["\t".join(line.split("\t")[i] for i in kept) for line in (heading, *lines)]
    path.write_text("\n".join(plain) + "\n", encoding="utf-8")
    assert compare_marks(scene, read_marks(path, scene)) == ([], [])


def test_a_label_track_edited_by_hand(tmp_path):
    scene = sounds()
    path = tmp_path / "a.wav.txt"
    path.write_text("0.500001\t1.249999\t=1+1\n\\\t-1.000000\t-1.000000\n", encoding="utf-8")
    assert compare_marks(scene, read_marks(path, scene)) == ([("a.wav", 0, "=1+1"), ("a.wav", 1, "")], [])
    path.write_text("", encoding="utf-8")
    assert compare_marks(scene, read_marks(path, scene)) == ([("a.wav", 0, ""), ("a.wav", 1, "")], [])


def exported(scene, folder, change=lambda results: results, **annotation):
    """The tasks as Label Studio exports them after somebody reviewed the first one."""
    tasks = json.loads(write(scene, folder, ["label-studio"])[0].read_text(encoding="utf-8"))
    for i, task in enumerate(tasks):
        results = [{key: value for key, value in r.items() if key != "score"} for r in task["predictions"][0]["result"]]
        made = change(results) if i == 0 else results
        task |= {"id": 100 + i, "annotations": [{"id": i, "was_cancelled": False, "result": made, **annotation}]}
        task |= {"file_upload": "x", "meta": {}, "total_annotations": 1}
    return tasks


@pytest.mark.parametrize("media_type", ["audio", "image", "text", "series"])
def test_an_export_of_label_studio(tmp_path, media_type):
    scene = MAKERS[media_type](tmp_path)
    kind = scene.media_type.label_studio.kind
    row = scene.shown()[0]
    other = next(label for label in scene.classes if label != row["label"])

    def relabel(results):
        results[0]["value"][kind] = [other]
        return [*results, {"type": "choices", "from_name": "quality", "value": {"choices": ["good"]}}]

    path = tmp_path / "export.json"
    expected = [(row["bag"], row["instance"], other)]
    path.write_text(json.dumps(exported(scene, tmp_path, relabel)), encoding="utf-8")
    assert guess_annotation_format(path) == "label-studio"
    assert compare_marks(scene, read_marks(path, scene)) == (expected, [])
    path.write_text(json.dumps(exported(scene, tmp_path, lambda results: results[1:])), encoding="utf-8")
    assert compare_marks(scene, read_marks(path, scene)) == ([(row["bag"], row["instance"], "")], [])
    path.write_text(json.dumps(exported(scene, tmp_path, lambda r: [], was_cancelled=True)), encoding="utf-8")
    assert compare_marks(scene, read_marks(path, scene)) == ([], [])
    small = [
        {
            **task["data"], "id": 1, "annotator": 1,
            "label": [result["value"] for result in task["annotations"][0]["result"] if result["type"] == kind],
        }
        for task in exported(scene, tmp_path, relabel)
    ]  # fmt: skip
    path.write_text(json.dumps(small), encoding="utf-8")
    assert guess_annotation_format(path) == "label-studio"
    assert compare_marks(scene, read_marks(path, scene)) == (expected, [])


@pytest.mark.parametrize(
    "address",
    ["sub/c.wav", "/data/local-files/?d=recordings/sub/c.wav", "/data/upload/7/0a1b2c3d-c.wav", "C:\\all\\sub\\c.wav"],
)
def test_files_are_found_by_the_addresses_that_tools_give_them(tmp_path, address):
    scene = sounds()
    tasks = exported(scene, tmp_path)
    tasks[2]["data"]["audio"] = address
    (tmp_path / "export.json").write_text(json.dumps(tasks), encoding="utf-8")
    assert compare_marks(scene, read_marks(tmp_path / "export.json", scene)) == ([], [])


def test_equal_texts_are_told_apart_by_their_order(tmp_path):
    scene = texts(tmp_path)
    (tmp_path / "b.txt").write_bytes((tmp_path / "a.txt").read_bytes())
    scene.files.append({**scene.files[0], "file": "b.txt"})
    scene.rows.append({**scene.rows[0], "file": "b.txt", "bag": "b.txt", "label": "tale"})
    path = write(scene, tmp_path, ["label-studio"])[0]
    assert compare_marks(scene, read_marks(path, scene)) == ([], [])


def test_a_coco_category_changed(tmp_path):
    scene = pictures()
    apart = {"left": 70, "polygon": [[70.0, 20.0], [90.0, 20.0], [90.0, 50.0], [70.0, 50.0]], "width": 20}
    scene.rows[1] |= apart
    path, results = write(scene, tmp_path, ["coco"])
    for target in (path, results):
        document = json.loads(target.read_text(encoding="utf-8"))
        regions = document if isinstance(document, list) else document["annotations"]
        regions[1]["category_id"] = 2
        regions[0]["bbox"] = [12, 21, 50, 30]  # moved a little
        target.write_text(json.dumps(document), encoding="utf-8")
        assert guess_annotation_format(target) == "coco"
        assert compare_marks(scene, read_marks(target, scene)) == ([("a.png", 1, "Kuh")], [])


def test_the_long_table_says_noise_by_an_empty_label_and_nothing_by_a_missing_row(tmp_path):
    scene = sounds()
    (path,) = write(scene, tmp_path, ["csv"])
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    rows[1]["label"] = ""
    rows[2]["label"] = "tab\there"  # hidden as noise: the table tells its label all the same
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, [*reversed(rows[0]), "remark"], restval="x", delimiter=";")
        writer.writeheader()
        writer.writerows(rows[1:3])
    assert compare_marks(scene, read_marks(path, scene)) == ([("a.wav", 1, ""), ("a.wav", 2, "tab\there")], [])


def test_the_long_table_without_bag_and_instance_is_compared_by_place(tmp_path):
    scene = sounds()
    path = tmp_path / "own.csv"
    path.write_text("file,start,end,low,high,label\na.wav,2,2.5,2000,3500.5,Amsel\n", encoding="utf-8")
    assert compare_marks(scene, read_marks(path, scene)) == ([("a.wav", 1, "Amsel")], [])


def test_marking_what_was_taken_for_noise_is_a_correction(tmp_path):
    scene = sounds()
    scene.rows[2] |= {"start": 7.0, "end": 8.0}
    path = tmp_path / "a.wav.txt"
    path.write_text("0.5\t1.25\tZaunkönig\n2\t2.5\t=1+1\n7\t8\tZaunkönig\n", encoding="utf-8")
    assert compare_marks(scene, read_marks(path, scene)) == ([("a.wav", 2, "Zaunkönig")], [])


def test_marks_that_fit_nothing_are_problems(tmp_path):
    scene = sounds()
    path = tmp_path / "birdnet.csv"
    path.write_text(
        "Start (s),End (s),Common name,File\n0.5,1.25,Zaunkönig,a.wav\n0.5,1.25,Amsel,a.wav\n2,2.5,=1+1,a.wav\n"
        "8,9,Amsel,a.wav\n1,2,Amsel,other.wav\n0.5,1.25,tab here,c.wav\n2.1,2.9,Amsel,b.wav\n",
        encoding="utf-8",
    )
    scene = replace(scene, rows=[row for row in scene.rows if row["instance"] != 2])
    corrections, problems = compare_marks(scene, read_marks(path, scene))
    assert corrections == []
    assert sorted(text.split(": ", 1)[1] for _, text in problems) == [
        "instance 0 of a.wav is marked as 'Zaunkönig' and as 'Amsel'; leave one of them.",
        "no instance was found there (a.wav, start 8, end 9).",
        "no instance was found there (b.wav, start 2.1, end 2.9).",
        "the run has no file 'other.wav', or several of that name.",
    ]
    assert all(str(path) in text and "row" in text for _, text in problems)
    keyed = tmp_path / "long.csv"
    keyed.write_text("bag,instance,label\na.wav,7,x\nnone,0,x\n", encoding="utf-8")
    _, problems = compare_marks(scene, read_marks(keyed, scene))
    assert [text.split(": ", 1)[1] for _, text in problems] == [
        "the run has no instance 7 of a bag 'a.wav'.",
        "the run has no instance 0 of a bag 'none'.",
    ]


BAD = [
    ("audio", "x.json", "[{", "row 1: it is not JSON"),
    ("audio", "x.json", "{}", "no list of tasks"),
    ("audio", "x.json", '[{"data": {"image": "a"}}]', "task 1: expected data with 'audio'"),
    ("audio", "x.json", '[{"data": {"audio": "a.wav"}, "predictions": [{"result": [{"type": "labels", "value": 7}]}]}]',
     "task 1: expected"),
    ("audio", "x.json", "[7]", "task 1: expected"),
    ("image", "x.json", '[{"image": "a.png", "label": [{"points": [], "polygonlabels": ["Kuh"]}]}]', "without points"),
    ("image", "x.json", '[{"image": "a.png", "label": [{"points": [[1]], "polygonlabels": ["Kuh"]}]}]', "task 1: "),
    ("image", "x.json", '{"images": []}', "no COCO data set"),
    ("image", "x.json", '{"images": [], "categories": [], "annotations": null}', "no COCO data set"),
    ("image", "x.json", '[{"image_id": 1, "category_id": 9, "bbox": [1, 2, 3, 4]}]', "annotation 1: expected a bbox"),
    ("image", "x.json", '[{"image_id": 1, "category_id": 1, "bbox": [1, 2, 3]}]', "annotation 1: expected a bbox"),
    ("image", "x.json", '[{"image_id": 1, "category_id": 1, "bbox": [1, 2, 3, "x"]}]', "annotation 1: bbox is 'x'"),
    ("text", "x.jsonl", '{"file": "a.txt", "start": 0, "end": 24, "label": "tale"}\n{"file', "row 2: expected a JSON"),
    ("text", "x.jsonl", '{"file": "a.txt", "start": "x", "end": 2, "label": "tale"}', "row 1: start is 'x'"),
    ("audio", "x.txt", "Begin Time (s)\tAnnotation\n1\tx\n", "row 1: there is no column 'End Time \\(s\\)'"),
    ("audio", "x.txt", "Begin Time (s)\tEnd Time (s)\n1\t2\n", "row 1: there is no column 'Annotation'"),
    ("audio", "x.txt", "Begin Time (s)\tEnd Time (s)\tLabel\n1\t2\n", "row 2: there are 2 cells but row 1 has 3"),
    ("audio", "x.txt", "Begin Time (s)\tEnd Time (s)\tLabel\n1\tx\ty\n", "row 2: End Time \\(s\\) is 'x'"),
    ("audio", "x.txt", "1.0 2.0 wren\n", "row 1: expected start, end and label"),
    ("audio", "x.txt", "\\\t1\t2\n", "row 1: expected start, end and label"),
    ("audio", "x.txt", "1.0\tnan\twren\n", "row 1: one of the two numbers is 'nan'"),
    ("audio", "x.csv", "Start (s),Common name,File\n1,x,a.wav\n", "row 1: there is no column 'End \\(s\\)'"),
    ("audio", "x.csv", "Start (s),End (s),Common name,File\n1,,x,a.wav\n", "row 2: End \\(s\\) is ''"),
    ("audio", "x.csv", "a,b\n1,2\n", "row 1: there is no column 'label'"),
    ("audio", "x.csv", "bag,instance,label\na.wav,one,x\n", "row 2: instance is 'one'"),
    ("audio", "x.csv", 'bag,instance,label\na.wav,1,"x\n', "row 2: "),
    ("audio", "x.parquet", "PAR1", "no parquet file"),
    ("audio", "x.wav", "x", "annotations are read from"),
]  # fmt: skip


@pytest.mark.parametrize(("media_type", "name", "content", "message"), BAD, ids=range(len(BAD)))
def test_damaged_files_are_named(tmp_path, media_type, name, content, message):
    path = tmp_path / name
    path.write_text(content, encoding="utf-8")
    with pytest.raises(FormatError, match=message) as caught:
        read_marks(path, MAKERS[media_type](tmp_path))
    assert str(path) in str(caught.value)


NO_TEXT = [
    (b"PK\x03\x04rest", "a zip file"), (b"PAR1\x15\x04\x8a", "a parquet file"), (b"\x1f\x8b\x08\x00", "a gzip file"),
    (b"%PDF-1.4\n%\xe2", "a PDF"), (b"\xd0\xcf\x11\xe0\xa1", "an old office program"), (b"\x89PNG\r\n", "a picture"),
    (b"RIFF\x24\0\0\0WAVE", "a recording"), (b"SQLite format 3\0", "a database"),
]  # fmt: skip


@pytest.mark.parametrize(("content", "what"), NO_TEXT, ids=lambda value: str(value)[:20])
@pytest.mark.parametrize("ending", ["csv", "tsv", "txt", "json", "jsonl"])
def test_a_file_that_is_no_text_is_called_what_it_is(tmp_path, ending, content, what):
    path = tmp_path / f"x.{ending}"
    path.write_bytes(content)
    with pytest.raises(FormatError, match=f"{what} and no text.*expected text in UTF-8.*Save it as that") as caught:
        read_marks(path, MAKERS["text" if ending == "jsonl" else "audio"](tmp_path))
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_every_byte_of_a_parquet_table_may_be_wrong(tmp_path):
    """One clear line, or marks: names and texts that are no UTF-8 came as Python's own errors, others in many lines."""
    scene = sounds()
    (path,) = write(scene, tmp_path, ["parquet"])
    raw, refused = path.read_bytes(), []
    for i in range(0, len(raw), 11):
        path.write_bytes(raw[:i] + bytes([raw[i] ^ 0xFF]) + raw[i + 1 :])
        try:
            read_marks(path, scene)
        except (FormatError, MemoryLimitError) as error:
            refused.append(str(error))
    assert len(refused) > 20
    assert all(str(path) in message and "\n" not in message and len(message) < 600 for message in refused)
    assert any("utf-8" in message for message in refused)


def test_refusals_are_short_however_long_what_came(tmp_path):
    for ending, text in (
        ("csv", "x" * 100_000 + ",b\n1,2\n"),
        ("csv", f"bag,instance,label\na.wav,{'x' * 100_000},x\n"),
    ):
        path = tmp_path / f"x.{ending}"
        path.write_text(text, encoding="utf-8")
        with pytest.raises(FormatError) as caught:
            read_marks(path, sounds())
        assert len(str(caught.value)) < 600


def test_formats_of_other_media_and_missing_files_are_refused(tmp_path):
    with pytest.raises(InputError, match="no format 'coco' for audio"):
        read_marks(tmp_path, sounds(), "coco")
    with pytest.raises(FormatError, match="no selection table and no label track"):
        guess_annotation_format(tmp_path)
    for name in ("raven", "audacity"):
        with pytest.raises(FormatError, match="no file in it that ends in"):
            read_marks(tmp_path, sounds(), name)
    for name, form in FORMATS.items():
        if name == "ebird":  # it can only be written
            continue
        maker = next(make for kind, make in MAKERS.items() if name in MEDIA[kind].formats or kind in form.media_types)
        with pytest.raises(FormatError, match="does not exist"):
            form.read(tmp_path / "none", maker(tmp_path))


# -- random rows ------------------------------------------------------------------------------------------------------

LABEL = st.text(
    st.characters(exclude_categories=("Cs", "Cc"), include_characters="\t\n='"), min_size=1, max_size=8
).filter(lambda text: text.strip() == text)
NAMES = ["a.wav", "=b.wav", "sub/a.wav", "sub dir/é.wav"]


@st.composite
def scenes(draw):
    """Sounds with random syllables, labels, noise; no two of them within what rounding can confuse."""
    classes = sorted(draw(st.sets(LABEL, min_size=2, max_size=4)))
    rows = []
    for name in NAMES:
        starts = draw(st.lists(st.integers(0, 90), unique=True, max_size=6))
        for i, start in enumerate(starts):
            low = draw(st.integers(0, 70_000)) / 10
            place = {"start": start / 10 + 0.0123, "end": start / 10 + 0.0123 + draw(st.integers(500, 9000)) / 1e4}
            found = finding(draw(st.sampled_from([*classes, ""])), noise=draw(st.sampled_from([0.1, 0.9])), bag=name)
            place = {key: round(value, 4) for key, value in place.items()} | {"low": low, "high": low + 800.5}
            rows.append({"file": name, **place, **found, "instance": i})
    files = [{"file": name, "seconds": 10.0123, "rate": 16000, "channels": 1} for name in NAMES]
    return Annotations(
        MEDIA["audio"], rows, files, classes, {"model": "m", "version": "1", "settings": {}}, max_noise=0.5
    )


@settings(max_examples=60, deadline=None)
@given(scene=scenes(), data=st.data())
def test_random_scenes_come_back_as_they_were_or_as_they_were_changed(tmp_path_factory, scene, data):
    folder = tmp_path_factory.mktemp("scene")
    changed = data.draw(st.sampled_from([None, *range(len(scene.rows))]))
    rows = [dict(row) for row in scene.rows]
    expected = []
    if changed is not None and scene.is_shown(rows[changed]):
        row = rows[changed]
        row["label"] = data.draw(st.sampled_from(["", *(label for label in scene.classes if label != row["label"])]))
        expected = [(row["bag"], row["instance"], row["label"])]
    plain = {" ".join(label.split()) for label in scene.classes}
    for name in scene.media_type.formats:
        if len(plain) < len(scene.classes) and name in ("raven", "audacity"):
            continue  # names that a line cannot tell apart
        for path in written(replace(scene, rows=rows), folder, name):
            assert compare_marks(scene, read_marks(path, scene)) == (expected, []), name


def test_bags_of_a_table_come_back(tmp_path):
    scene = table()
    (path,) = write(scene, tmp_path, ["csv"])
    lines = path.read_text(encoding="utf-8").splitlines()
    assert lines[0] == "page,line,label,probability,runner_up,noise,mode,bag,instance"
    path.write_text("\n".join([lines[0], lines[1].replace("spam", "ham")]) + "\n", encoding="utf-8")
    assert compare_marks(scene, read_marks(path, scene)) == ([(7, 0, "ham")], [])


@pytest.mark.parametrize(("media_type", "name"), PAIRS, ids=str)
def test_cut_and_scrambled_files_raise_nothing_but_format_errors(tmp_path, media_type, name):
    scene = MAKERS[media_type](tmp_path)
    path = written(scene, tmp_path / "out", name)[0]
    target = next(p for p in sorted(path.rglob("*.txt")) if p.stat().st_size) if path.is_dir() else path
    raw = target.read_bytes()
    rng = random.Random(0)
    refused = []
    for i in range(60):
        damaged = bytearray(raw[: rng.randrange(len(raw))] if i % 2 else raw)
        for _ in range(0 if i % 4 == 1 else rng.randrange(1, 6)):
            if damaged:
                damaged[rng.randrange(len(damaged))] = rng.choice(b'0x"[]{},:\t\n-\xff')
        target.write_bytes(bytes(damaged))
        try:
            compare_marks(scene, FORMATS[name].read(path, scene))
        except FormatError as error:
            refused.append(str(error))
    assert len(refused) > 10
    assert all(path.name in message for message in refused)
