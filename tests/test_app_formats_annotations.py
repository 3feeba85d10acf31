"""Every format against a golden file, and read back by readers that are not ours."""

import csv
import io
import json
from contextlib import redirect_stdout
from pathlib import Path
from xml.etree import ElementTree

import crowsetta
import numpy as np
import pandas as pd
import pytest
from pycocotools.coco import COCO
from scipy.ndimage import gaussian_filter, label

from bagwise.app.formats import check_formats, formats_of, write_formats
from bagwise.app.formats._label_studio import _write_json_list
from bagwise.app.media._image_regions import outlines
from bagwise.app.media.media_types import MEDIA
from bagwise.core.exceptions import InputError
from media_examples import MAKERS, TEXT, finding, pictures, sounds, texts

GOLDEN = Path(__file__).parent / "golden"
TEXT_FORMATS = [(media_type, name) for media_type in MAKERS for name in MEDIA[media_type].formats if name != "parquet"]


@pytest.mark.parametrize(("media_type", "name"), TEXT_FORMATS, ids=str)
def test_files_are_the_golden_ones(tmp_path, media_type, name):
    """To renew after a change on purpose: write_formats into tests/golden/<medium>, and look at the difference."""
    written = write_formats(MAKERS[media_type](tmp_path), tmp_path / "out", [name])
    assert written
    for path in written:
        golden = GOLDEN / media_type / path.relative_to(tmp_path / "out")
        assert path.read_text(encoding="utf-8") == golden.read_text(encoding="utf-8"), golden


def test_golden_files_are_all_written(tmp_path):
    written = set()
    for media_type, make in MAKERS.items():
        folder = tmp_path / media_type
        folder.mkdir()
        names = [name for name in formats_of(MEDIA[media_type]) if name != "parquet"]
        written |= {path.relative_to(tmp_path) for path in write_formats(make(folder), folder, names)}
    assert written == {path.relative_to(GOLDEN) for path in GOLDEN.rglob("*") if path.is_file()}


@pytest.mark.filterwarnings("ignore:The inplace keyword")  # inside crowsetta
def test_crowsetta_reads_raven_and_audacity(tmp_path):
    scene = sounds()
    write_formats(scene, tmp_path, ["raven", "audacity"])
    raven = crowsetta.formats.bbox.Raven.from_file(tmp_path / "raven" / "a.wav.selections.txt").to_bbox()
    track = crowsetta.formats.bbox.AudBBox.from_file(tmp_path / "audacity" / "a.wav.txt").to_bbox()
    rows = [row for row in scene.shown() if row["file"] == "a.wav"]
    for boxes in (raven, track):
        assert [(b.onset, b.offset, b.low_freq, b.high_freq) for b in boxes] == [
            (row["start"], row["end"], row["low"], row["high"]) for row in rows
        ]
    assert [b.label for b in track] == ["Zaunkönig", "=1+1"]
    assert [b.label for b in raven] == ["Zaunkönig", "'=1+1"]  # a spreadsheet opens these tables too
    combined = crowsetta.formats.bbox.Raven.from_file(tmp_path / "raven" / "all.selections.txt").to_bbox()
    assert [b.onset for b in combined] == [0.5, 2.0, 10.0 + 7.5 + 0.5]  # the silent recording counts


@pytest.mark.filterwarnings("ignore:__array__ implementation")  # inside pycocotools
def test_pycocotools_sees_holes_and_the_same_area(tmp_path):
    """Regions with holes and parts, whose area and points are those that pycocotools finds; of polygons nearly so."""
    scene = pictures()
    scene.files[0] |= {"width": 400, "height": 300}
    rng = np.random.default_rng(0)
    scene.rows[:] = []
    regions = []
    for i in range(12):
        region = gaussian_filter(rng.random((300, 400)), rng.uniform(4, 20))
        region = label(region > np.quantile(region, 0.6))[0] == 1 if i % 2 else region > np.quantile(region, 0.7)
        if region.sum() > 200:
            regions.append(region)
    for i, region in enumerate(regions):
        rings = outlines(region)
        place = {"left": 0, "top": 0, "width": 400, "height": 300, "polygon": rings[0], "area": 0}
        place["rings"] = rings if len(rings) > 1 else []
        scene.rows.append({"file": "a.png", **place, **finding("Kuh", 0.6, bag="a.png", instance=i)})
    write_formats(scene, tmp_path, ["coco"])
    with redirect_stdout(io.StringIO()):
        coco = COCO(str(tmp_path / "coco.json"))
    kinds = set()
    for region, annotation in zip(regions, coco.anns.values(), strict=True):
        drawn = coco.annToMask(annotation).astype(bool)
        kinds.add(type(annotation["segmentation"]))
        edges = sum(np.abs(np.diff(region.astype(int), axis=axis)).sum() for axis in (0, 1))
        assert (drawn != region).sum() <= 0.5 * edges  # of the simplified outline
        if isinstance(annotation["segmentation"], dict):
            assert annotation["area"] == drawn.sum()
        else:
            assert annotation["area"] == pytest.approx(drawn.sum(), rel=0.01, abs=0.1 * edges)
    assert kinds == {dict, list}


@pytest.mark.filterwarnings("ignore:__array__ implementation")  # inside pycocotools
def test_pycocotools_reads_annotations_and_results(tmp_path):
    scene = pictures()
    paths = write_formats(scene, tmp_path, ["coco"])
    with redirect_stdout(io.StringIO()):
        truth = COCO(paths[0])
        results = truth.loadRes(str(paths[1]))
    assert [truth.cats[i]["name"] for i in sorted(truth.cats)] == scene.classes
    assert len(truth.imgs) == 2
    for coco in (truth, results):
        named = [(coco.cats[a["category_id"]]["name"], a["bbox"]) for a in coco.anns.values()]
        assert named == [("Kuh", [10, 20, 50, 30]), ("Gras", [10, 20, 50, 30])]
        assert [int(coco.annToMask(a).sum()) for a in coco.anns.values()] == [1500, 1500]
    assert [a["score"] for a in results.anns.values()] == [0.6, 1.0]
    assert truth.dataset["info"]["model"] == "ored-background"


@pytest.mark.parametrize("media_type", [name for name in MAKERS if MEDIA[name].label_studio])
def test_label_studio_refers_to_its_interface(tmp_path, media_type):
    """Names, kinds and labels of the results are those that the interface declares."""
    scene = MAKERS[media_type](tmp_path)
    tasks, interface = write_formats(scene, tmp_path / "out", ["label-studio"])
    view = ElementTree.fromstring(interface.read_text(encoding="utf-8"))
    control, target = view[0], view[1]
    assert [label.get("value") for label in control] == scene.classes
    for task, file in zip(json.loads(tasks.read_text(encoding="utf-8")), scene.files, strict=True):
        assert target.get("value") == f"${next(iter(task['data']))}"
        (prediction,) = task["predictions"]
        assert prediction["model_version"] == "ored-background bagwise 1.2.3"
        shown = [row for row in scene.shown() if row["file"] == file["file"]]
        assert len(prediction["result"]) == len(shown)
        for result, row in zip(prediction["result"], shown, strict=True):
            assert (result["from_name"], result["to_name"]) == (control.get("name"), target.get("name"))
            assert result["type"] == control.tag.lower()
            assert result["value"][result["type"]] == [row["label"]]


def test_spans_hold_the_passage(tmp_path):
    (path,) = write_formats(texts(tmp_path), tmp_path, ["spans"])
    spans = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert [span["text"] for span in spans] == [TEXT[:24], TEXT[25:54]]


@pytest.mark.parametrize("media_type", MAKERS)
def test_parquet_and_csv_agree(tmp_path, media_type):
    scene = MAKERS[media_type](tmp_path)
    (table,) = write_formats(scene, tmp_path, ["parquet"])
    (text,) = write_formats(scene, tmp_path, ["csv"])
    frame = pd.read_parquet(table)
    with text.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(frame.columns) == list(rows[0])
    assert frame["label"].tolist() == [row["label"] for row in scene.rows]
    for i, row in enumerate(rows):
        for key, cell in row.items():
            value = frame[key][i]
            if isinstance(value, str):
                assert cell in (value, f"'{value}")
            elif pd.isna(value):
                assert cell == ""
            else:
                assert float(cell) == value
    again = write_formats(scene, tmp_path / "again", ["parquet"])[0]
    assert again.read_bytes() == table.read_bytes()


def test_formulas_are_defused_where_a_spreadsheet_reads(tmp_path):
    write_formats(sounds(), tmp_path, ["csv", "birdnet", "raven"])
    for name in ("annotations.csv", "birdnet.csv", "raven/all.selections.txt"):
        text = (tmp_path / name).read_text(encoding="utf-8")
        assert "'=1+1" in text
        assert "\t=1+1" not in text
        assert ",=1+1" not in text


def test_unknown_formats_are_named():
    with pytest.raises(InputError, match="no format 'coco' for audio; use csv, parquet, raven"):
        check_formats(["csv", "coco"], MEDIA["audio"])
    assert check_formats(["csv"], MEDIA["text"]) == ["csv"]


@pytest.mark.parametrize("values", [[], [{"a": [1, "x\ny"]}], [1, [], {"b": {}}]], ids=str)
def test_lists_are_written_a_value_a_line(tmp_path, values):
    _write_json_list(iter(values), tmp_path / "list.json")
    text = (tmp_path / "list.json").read_text(encoding="utf-8")
    assert json.loads(text) == values
    assert [json.loads(line.rstrip(",")) for line in text.splitlines()[1:-1]] == values
