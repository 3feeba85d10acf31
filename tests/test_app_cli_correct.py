"""`bagwise correct` and `refit` as a user meets them, over recordings and over a table."""

import json
import shutil

import pytest
from click.testing import CliRunner

from bagwise import Run, write_dataset
from bagwise.app.cli import main
from bagwise.core.dataset import BagDataset
from bagwise.datasets import make_gaussian_bags, make_soundscape


def call(*arguments):
    return CliRunner().invoke(main, [str(a) for a in arguments])


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A run over recordings and one over a table, both made on the command line."""
    folder = tmp_path_factory.mktemp("runs")
    made = make_soundscape(8, seconds=6.0, species_per_recording=(1, 2), random_state=1)
    made.write(folder)
    result = call(
        "annotate", folder / "recordings", "--labels", folder / "labels.csv", "--out", folder / "media", "--jobs", 1,
        "--no-page", "--set", "l2=0.5",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    data = make_gaussian_bags(n_bags=30, n_classes=4, random_state=0)
    named = BagDataset(data.bags, data.Y, [f"kind {c}" for c in data.class_names], data.instance_labels)
    write_dataset(named, folder / "made.csv")
    result = call("annotate", folder / "made.csv", "--out", folder / "table", "--no-page")
    assert result.exit_code == 0, result.output
    assert "1 files, " in result.output
    return folder


@pytest.fixture(params=["media", "table"])
def run(request, runs, tmp_path):
    shutil.copytree(runs / request.param, tmp_path / "run", copy_function=shutil.copy2)
    return tmp_path / "run"


def rows_of(run):
    with Run.open(run) as opened:
        return opened.annotations()


def test_correct_by_a_table_and_fit_again(run, tmp_path):
    rows = rows_of(run)
    other = next(row["label"] for row in rows if row["label"] != rows[0]["label"])
    table = tmp_path / "mine.csv"
    table.write_text(f"bag,instance,label\n{rows[0]['bag']},0,{other}\n{rows[-1]['bag']},0,\n", encoding="utf-8")
    tried = call("correct", run, table, "--dry-run")
    assert tried.exit_code == 0, tried.output
    assert f"{rows[0]['bag']}, instance 0: {other}\n" in tried.output
    assert f"{rows[-1]['bag']}, instance 0: noise\n" in tried.output
    assert not (run / "corrections.csv").exists()
    done = call("correct", run, table, "--by", "Ada")
    assert done.output == f"wrote 2 corrections to {run / 'corrections.csv'}\n"
    fitted = call("refit", run, "--no-page")
    assert fitted.exit_code == 0, fitted.output
    assert "corrections: 1 label, 1 noise\nversion 1: " in fitted.output
    after = rows_of(run)
    assert after[0]["label"] == other
    back = call("correct", run, "--undo")
    assert back.output == "took back 2 corrections\n"
    assert rows_of(run) == rows
    assert call("correct", run, "--undo").output == "there is nothing to take back\n"


def test_what_was_put_right_in_raven_comes_home(runs, tmp_path):
    """One label changed, one row deleted: exactly these two corrections."""
    run = tmp_path / "run"
    shutil.copytree(runs / "media", run, copy_function=shutil.copy2)
    rows = [row for row in rows_of(run) if row["noise"] <= 0.5]
    tables = {path.name.removesuffix(".selections.txt"): path for path in (run / "raven").glob("*.wav.selections.txt")}
    shutil.copytree(run / "raven", tmp_path / "raven")
    edited = tmp_path / "raven" / tables[rows[0]["file"]].name
    lines = edited.read_text(encoding="utf-8").splitlines()
    other = next(row["label"] for row in rows if row["label"] != rows[0]["label"])
    lines[1] = lines[1].replace(rows[0]["label"], other)
    gone = lines.pop(2)
    edited.write_text("\r\n".join(lines) + "\r\n", encoding="utf-8")
    tried = call("correct", run, "--from", tmp_path / "raven", "--dry-run")
    assert tried.exit_code == 0, tried.output
    assert tried.output.count("instance") == 2
    done = call("correct", run, "--from", tmp_path / "raven")
    assert done.output == f"wrote 2 corrections to {run / 'corrections.csv'}\n"
    with Run.open(run) as opened:
        said = opened.corrections()
        deleted = next(
            row for row in opened.annotations() if f"{row['start']:.4f}" in gone and row["file"] == rows[0]["file"]
        )
    assert [(entry["action"], entry["label"]) for entry in said] == [("label", other), ("noise", "")]
    assert (said[1]["bag"], said[1]["instance"]) == (deleted["bag"], deleted["instance"])


def test_marks_outside_of_their_recording_are_named(runs, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(runs / "media", run, copy_function=shutil.copy2)
    track = next(path for path in sorted((run / "audacity").iterdir()) if path.stat().st_size)
    edited = tmp_path / "audacity" / track.name
    edited.parent.mkdir()
    edited.write_text(track.read_text(encoding="utf-8") + "95.900000\t95.950000\thoot owl\n", encoding="utf-8")
    result = call("correct", run, "--from", tmp_path / "audacity")
    assert result.exit_code == 3
    assert "Problem: " in result.output
    assert "wrote 0 corrections" in result.output


def test_what_cannot_be_done_says_why(run, tmp_path):
    bag = rows_of(run)[0]["bag"]
    table = tmp_path / "mine.csv"

    def fails(text, message, *options, code=1):
        table.write_text(text, encoding="utf-8")
        result = call("correct", run, table, *options)
        assert result.exit_code == code, result.output
        assert message in result.output
        assert "Traceback" not in result.output
        assert not (run / "corrections.csv").exists()

    fails("bag,instance,label\nno.wav,0,x\n", "The run has no bag 'no.wav'", "--new-labels")
    fails(f"bag,instance,label\n{bag},0,unicorn\n", "The run has no label 'unicorn'; its labels are")
    fails(f"bag,instance,label\n{bag},x,y\n", "row 2: the instance is 'x'")
    fails(f"bag,instance,label,action\n{bag},0,,\n{bag},,unicorn,absent\n", "does not list 'unicorn'")
    fails("", "is empty")
    result = call("correct", run, tmp_path / "nowhere.csv")
    assert (result.exit_code, "does not exist" in result.output) == (1, True)
    for arguments in ((), (table, "--undo")):
        assert call("correct", run, *arguments).exit_code == 2
    for command in ("correct", "refit"):
        options = ("--undo",) if command == "correct" else ()
        result = call(command, tmp_path, *options)
        assert (result.exit_code, "holds no run of bagwise" in result.output) == (1, True)
    with Run.open(run):
        pass
    table.write_text(f"bag,instance,label\n{bag},0,unicorn\n", encoding="utf-8")
    assert call("correct", run, table, "--new-labels").exit_code == 0
    assert rows_of(run)[0]["label"] == "unicorn"


def test_a_near_label_is_named(run, tmp_path):
    row = rows_of(run)[0]
    (tmp_path / "mine.csv").write_text(f"bag,instance,label\n{row['bag']},0,{row['label']}s\n", encoding="utf-8")
    assert f"(did you mean {row['label']!r}?)" in call("correct", run, tmp_path / "mine.csv").output


def test_labels_of_a_bag_are_taken_away_by_a_table(run, tmp_path):
    with Run.open(run) as opened:
        sets = dict(zip(opened.supervision().dataset.bag_names, opened.supervision().dataset.label_sets, strict=True))
    bag, labels = next((bag, labels) for bag, labels in sets.items() if len(labels) > 1)
    gone = sorted(labels)[0]
    (tmp_path / "mine.csv").write_text(f"bag,instance,label,action\n{bag},,{gone},absent\n", encoding="utf-8")
    assert call("correct", run, tmp_path / "mine.csv").exit_code == 0
    call("refit", run, "--no-page")
    assert all(row["label"] != gone for row in rows_of(run) if row["bag"] == bag)


def test_models_and_settings_are_refused_before_any_work(runs, tmp_path, monkeypatch):
    base = ("annotate", runs / "recordings", "--labels", runs / "labels.csv", "--out", tmp_path / "x")
    for options, message in (
        (("--model", "lr-supervised"), "learns from instances whose labels are known, and none are"),
        (("--set", "window=3"), "Settings of a media type go with --media-set."),
        (("--model", "ored", "--select", "nothing", "--grid", "1,2"), "has no parameter 'nothing'"),
        (("--bag", "bag"), "is an option of files of bags"),
    ):
        result = call(*base, *options)
        assert result.exit_code == 1, result.output
        assert message in result.output
    monkeypatch.setitem(__import__("sys").modules, "jinja2", None)
    result = call(*base)
    assert "pip install 'bagwise[report]'" in result.output
    assert not (tmp_path / "x").exists()


def test_the_manifest_says_what_the_run_is(run):
    manifest = json.loads((run / "manifest.json").read_text(encoding="utf-8"))
    assert (manifest["format"], manifest["version"], manifest["status"]) == ("bagwise-run", 3, "finished")
    assert manifest["versions"] == [{"number": 0, "calls": []}]
    if manifest["identity"]["medium"] == "audio":
        assert manifest["identity"]["learner"] == {"l2": "0.5"}
        assert manifest["about"]["parameters"]["l2"] == 0.5
