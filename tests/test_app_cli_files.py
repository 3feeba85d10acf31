"""fit, predict, annotate-table, convert and info as a user meets them."""

import csv
import json
import os
import shutil
import subprocess
import sys

import click
import numpy as np
import pytest

import bagwise
from bagwise.app.cli import main
from bagwise.core.dataset import BagDataset
from bagwise.datasets import make_gaussian_bags
from bagwise.io.data.formats import FORMATS, read_dataset, write_dataset
from bagwise.io.model import read_about
from made import read_csv, run


def ok(*arguments):
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    return result


@pytest.fixture(scope="module")
def data():
    made = make_gaussian_bags(
        n_bags=40, n_features=3, n_classes=3, labels_per_bag=(1, 2), separation=6.0, random_state=0
    )
    return BagDataset(
        bags=made.bags, Y=made.Y, class_names=["wren", "robin", "grün"], instance_labels=made.instance_labels,
        bag_names=[f"clip{i}" for i in range(40)], feature_names=["a", "b", "c"], name="made",
    )  # fmt: skip


@pytest.fixture(scope="module")
def made(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("made")
    write_dataset(data, folder / "made.csv")
    write_dataset(data, folder / "made.parquet")
    ok("fit", folder / "made.csv", "--out", folder / "m.bagwise", "--quiet")
    return folder


@pytest.fixture
def folder(tmp_path, made):
    for path in made.iterdir():
        shutil.copy(path, tmp_path)
    return tmp_path


class TestFit:
    def test_model_knows_names_settings_and_version(self, folder, data):
        result = ok("fit", folder / "made.csv", "--out", folder / "x.bagwise", "--set", "l2=0.25", "--set", "solver=em",
                    "--seed", 7)  # fmt: skip
        assert "trained ored on 40 bags" in result.output
        assert "read " in result.stderr
        assert "csv: a row per instance, separated by commas" in result.stderr
        model = bagwise.load(folder / "x.bagwise")
        assert model[-1].classes_.tolist() == ["grün", "robin", "wren"]
        assert (model[-1].l2, model[-1].solver, model[-1].random_state) == (0.25, "em", 7)
        about = read_about(folder / "x.bagwise")
        assert about["model"] == "ored"
        assert about["settings"]["l2"] == 0.25
        assert about["bagwise"] == bagwise.__version__
        assert about["feature_names"] == ["a", "b", "c"]

    def test_json_is_all_that_is_printed(self, folder):
        result = ok("fit", folder / "made.csv", "--out", folder / "x.bagwise", "--json")
        assert json.loads(result.stdout)["n_bags"] == 40
        assert result.stderr == ""

    def test_settings_of_steps_before_the_learner(self, folder):
        ok("fit", folder / "made.csv", "--out", folder / "x.bagwise", "--set",
           "perinstance__transformer__with_mean=false", "--quiet")  # fmt: skip
        assert bagwise.load(folder / "x.bagwise")[0].transformer.with_mean is False

    def test_select(self, folder):
        result = ok("fit", folder / "made.csv", "--out", folder / "x.bagwise", "--select", "l2", "--grid", "0.1,1000",
                    "--folds", 3)  # fmt: skip
        assert "ored: l2 = 0.1" in result.output
        assert bagwise.load(folder / "x.bagwise")[-1].l2 == 0.1
        assert read_about(folder / "x.bagwise")["selected"] == {"l2": 0.1}

    def test_instance_labels(self, folder):
        ok("fit", folder / "made.csv", "--out", folder / "x.bagwise", "--model", "lr-supervised", "--quiet")
        result = run("annotate-table", folder / "x.bagwise", folder / "made.csv", "--inductive", "--quiet")
        rows = list(csv.DictReader(result.stdout.splitlines()))
        assert np.mean([row["label"] == row["truth"] for row in rows]) > 0.9
        ok("fit", folder / "made.csv", "--out", folder / "y.bagwise", "--instance-labels", "--quiet")

    def test_checkpoint_folder_goes_when_the_model_is_there(self, folder):
        ok("fit", folder / "made.csv", "--out", folder / "x.bagwise", "--checkpoint", folder / "keep", "--quiet")
        assert not (folder / "keep").exists()

    @pytest.mark.parametrize("options", [(), ("--memory", "5kB")], ids=["whole", "in-pieces"])
    def test_data_whose_name_is_not_utf8(self, folder, options):
        """What the file is called must not lose the training."""
        source = folder / os.fsdecode(b"\xe4.csv")
        try:
            shutil.copy(folder / "made.csv", source)
        except OSError:
            pytest.skip("this file system takes UTF-8 names only")
        result = ok("fit", source, "--out", folder / "n.bagwise", *options, "--json")
        assert ("n_pieces" in result.stdout) == bool(options)
        bagwise.load(folder / "n.bagwise")
        assert read_about(folder / "n.bagwise")["data"] == "\\udce4"

    def test_labels_from_a_second_table(self, folder, data):
        write_dataset(BagDataset(data.bags, bag_names=data.bag_names), folder / "bare.csv")
        lines = [
            f"{name},{';'.join(sorted(labels))}" for name, labels in zip(data.bag_names, data.label_sets, strict=True)
        ]
        (folder / "labels.csv").write_text("\n".join(["file,labels", *lines]), encoding="utf-8")
        result = ok("fit", folder / "bare.csv", "--labels", folder / "labels.csv", "--out", folder / "x.bagwise")
        assert "its labels in one cell" in result.stderr
        first, second = (bagwise.load(folder / name)[-1].coef_ for name in ("m.bagwise", "x.bagwise"))
        np.testing.assert_array_equal(first, second)


class TestPredict:
    def test_table_with_what_made_it_beside(self, folder, data):
        ok("predict", folder / "m.bagwise", folder / "made.csv", "--out", folder / "p.csv", "--scores")
        rows = read_csv(folder / "p.csv")
        assert [row["bag"] for row in rows] == data.bag_names
        model = bagwise.load(folder / "m.bagwise")
        expected = model.predict_label_sets(data.bags)
        assert [set(filter(None, row["labels"].split(";"))) for row in rows] == expected
        scores = model.decision_function(data.bags)
        np.testing.assert_array_equal([float(row["score:robin"]) for row in rows], scores[:, 1])
        about = json.loads((folder / "p.csv.json").read_text(encoding="utf-8"))
        assert about["model"] == "ored"
        assert about["bagwise"] == bagwise.__version__
        assert about["settings"]["l2"] == 1.0

    def test_a_label_with_the_separator_goes_to_json_only(self, folder):
        text = (folder / "made.csv").read_text(encoding="utf-8").replace("wren", "wr;en")
        (folder / "semi.csv").write_text(text, encoding="utf-8")
        ok("fit", folder / "semi.csv", "--out", folder / "semi.bagwise", "--quiet")
        model = (folder / "semi.bagwise", folder / "made.csv", "--quiet")
        for more in ((), ("--out", folder / "p.csv")):
            result = run("predict", *model, *more)
            assert result.exit_code == 1
            assert "The label 'wr;en' holds a ';'" in result.stderr
            assert result.stdout == ""
        assert not list(folder.glob("p.csv*"))
        printed = ok("predict", *model, "--json").stdout
        assert any("wr;en" in json.loads(line)["labels"] for line in printed.splitlines())

    @pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
    def test_every_output_says_the_same(self, folder, ending):
        import pyarrow.parquet as pq

        out = folder / f"p.{ending}"
        ok("predict", folder / "m.bagwise", folder / "made.parquet", "--out", out, "--quiet")
        if ending == "csv":
            got = [row["labels"].split(";") for row in read_csv(out)]
        elif ending == "jsonl":
            got = [json.loads(line)["labels"] for line in out.read_text(encoding="utf-8").splitlines()]
        else:
            table = pq.read_table(out)
            got = table.column("labels").to_pylist()
            assert json.loads(table.schema.metadata[b"bagwise-result"])["model"] == "ored"
        printed = ok("predict", folder / "m.bagwise", folder / "made.csv", "--json", "--quiet").stdout
        assert got == [json.loads(line)["labels"] for line in printed.splitlines()]

    def test_parts_of_a_parquet_file_give_the_same_as_the_whole(self, folder, data, monkeypatch):
        whole = ok("predict", folder / "m.bagwise", folder / "made.parquet", "--quiet").stdout
        monkeypatch.setattr("bagwise.io.data.parquet.BATCH_ROWS", 7)
        monkeypatch.setattr("bagwise.io.data.parquet.BATCH_BAGS", 3)
        write_dataset(data, folder / "nested.parquet", "parquet-nested")
        for name in ("made.parquet", "nested.parquet"):
            assert ok("predict", folder / "m.bagwise", folder / name, "--quiet").stdout == whole

    def test_features_are_found_by_name(self, folder, data):
        shuffled = BagDataset(
            bagwise.Bags(data.bags.instances[:, [2, 0, 1]], data.bags.offsets), bag_names=data.bag_names,
            feature_names=["c", "a", "b"],
        )  # fmt: skip
        write_dataset(shuffled, folder / "shuffled.csv")
        outputs = [
            ok("predict", folder / "m.bagwise", folder / f"{n}.csv", "--quiet").stdout for n in ("made", "shuffled")
        ]
        assert outputs[0] == outputs[1]
        write_dataset(BagDataset(shuffled.bags, feature_names=["c", "a", "z"]), folder / "other.csv")
        result = run("predict", folder / "m.bagwise", folder / "other.csv")
        assert result.exit_code == 1
        assert "it has no feature 'b', on which the model was trained" in result.stderr

    def test_some_files_failed(self, folder):
        (folder / "broken.csv").write_text("bag,a,b,c\nx,1,2,oops\n", encoding="utf-8")
        result = run(
            "predict", folder / "m.bagwise", folder / "made.csv", folder / "broken.csv", "--out-dir", folder / "o"
        )
        assert result.exit_code == 3
        assert "broken.csv, row 2: the feature 'c' is 'oops', which is no number" in result.stderr
        assert sorted(path.name for path in (folder / "o").iterdir()) == [
            "made.csv.predicted.csv", "made.csv.predicted.csv.json",
        ]  # fmt: skip
        assert run("predict", folder / "m.bagwise", folder / "broken.csv", folder / "no.csv", "--out-dir",
                   folder / "o").exit_code == 1  # fmt: skip


class TestAnnotateTable:
    def test_labels_of_the_bag_are_used_unless_told_otherwise(self, folder, data):
        rows = list(
            csv.DictReader(
                ok("annotate-table", folder / "m.bagwise", folder / "made.csv", "--quiet").stdout.splitlines()
            )
        )
        sets = dict(zip(data.bag_names, data.label_sets, strict=True))
        assert all(row["label"] in sets[row["bag"]] for row in rows)
        assert list(rows[0]) == ["bag", "instance", "label", "probability", "truth", "runner_up", "mode"]
        model = bagwise.load(folder / "m.bagwise")
        assert [row["label"] for row in rows] == model.annotate(data.bags, data.label_sets).tolist()
        free = list(csv.DictReader(ok("annotate-table", folder / "m.bagwise", folder / "made.parquet", "--quiet",
                                      "--inductive").stdout.splitlines()))  # fmt: skip
        assert [row["label"] for row in free] == model.predict_instances(data.bags).tolist()

    def test_a_label_that_the_model_does_not_know(self, folder, data):
        text = (folder / "made.csv").read_text(encoding="utf-8").replace("wren", "owl")
        (folder / "owl.csv").write_text(text, encoding="utf-8")
        result = run("annotate-table", folder / "m.bagwise", folder / "owl.csv", "--out", folder / "x.csv")
        bag = next(name for name, labels in zip(data.bag_names, data.label_sets, strict=True) if "wren" in labels)
        assert result.exit_code == 1
        assert f"The bag {bag!r} carries the label 'owl', which the model does not know" in result.stderr
        assert not (folder / "x.csv").exists()
        ok("annotate-table", folder / "m.bagwise", folder / "owl.csv", "--out", folder / "x.csv", "--inductive")

    def test_bag_level_learner(self, folder):
        ok("fit", folder / "made.csv", "--out", folder / "x.bagwise", "--model", "mimlnn", "--quiet")
        result = run("annotate-table", folder / "x.bagwise", folder / "made.csv")
        assert result.exit_code == 1
        assert "a MIMLNN, which does not annotate instances (bagwise predict" in result.stderr


class TestConvert:
    @pytest.mark.filterwarnings("ignore:.*does not keep:UserWarning")
    @pytest.mark.parametrize("name", [name for name in FORMATS if name not in ("mil-mat", "musk")])
    def test_to_every_format_and_back(self, folder, data, name):
        target = folder / f"there{FORMATS[name].extension}"
        ok("convert", folder / "made.csv", target, "--to", name, "--quiet")
        ok("convert", target, folder / "back.npz", "--quiet")
        back = read_dataset(folder / "back.npz")
        assert back.bags == data.bags
        assert back.class_names == data.class_names
        assert back.bag_names == data.bag_names
        np.testing.assert_array_equal(back.Y, data.Y)

    @pytest.mark.parametrize("to", ["parquet", "parquet-nested", "csv"])
    def test_parquet_goes_through_in_pieces(self, folder, data, monkeypatch, to):
        monkeypatch.setattr("bagwise.io.data.parquet.BATCH_ROWS", 5)
        monkeypatch.setattr("bagwise.io.data.parquet.BATCH_BAGS", 4)
        monkeypatch.setattr("bagwise.io.data.parquet.ParquetBags.read", None)  # reading at once would fail
        for source in ("parquet", "parquet-nested"):
            write_dataset(data, folder / "source.parquet", source)
            target = folder / f"target{FORMATS[to].extension}"
            ok("convert", folder / "source.parquet", target, "--to", to, "--quiet")
            monkeypatch.undo()
            back = read_dataset(target, to)
            assert back.bags == data.bags
            assert back.class_names == data.class_names
            np.testing.assert_array_equal(back.instance_labels.instances, data.instance_labels.instances)

    @pytest.mark.parametrize("source", ["made.csv", "made.parquet"])
    def test_tsv_is_written_with_tabs(self, folder, data, source):
        ok("convert", folder / source, folder / "x.tsv")
        assert (folder / "x.tsv").read_text(encoding="utf-8").startswith("bag\t")
        assert read_dataset(folder / "x.tsv").bags == data.bags

    @pytest.mark.filterwarnings("default::UserWarning")
    def test_what_is_lost_is_said(self, folder):
        result = ok("convert", folder / "made.csv", folder / "x.arff")
        assert "Warning: " in result.stderr
        assert "'arff' does not keep instance labels" in result.stderr


class TestInfo:
    def test_data(self, folder, data):
        facts = json.loads(ok("info", folder / "made.csv", "--json").stdout)
        assert facts["bags"] == 40
        assert facts["instances"] == data.bags.n_instances
        assert facts["bags_per_class"] == dict(zip(data.class_names, data.Y.sum(axis=0).tolist(), strict=True))
        assert facts["duplicate_rows"] == 0
        assert "bags per class" in ok("info", folder / "made.parquet").stdout

    def test_what_may_be_wrong(self, tmp_path):
        X = np.array([[1.0, 5.0], [1.0, 5.0], [2.0, 5.0]])
        bags = bagwise.Bags(X, [0, 2, 3])
        data = BagDataset(bags, Y=[[0, 0], [1, 1]], class_names=["u", "v"], bag_names=["mon", "tue"])
        write_dataset(data, tmp_path / "x.csv")
        facts = json.loads(ok("info", tmp_path / "x.csv", "--json").stdout)
        assert facts["duplicate_rows"] == 1
        assert facts["constant_features"] == ["x2"]
        assert facts["bags_without_labels"] == 1
        assert facts["infeasible_bags"] == 1
        assert facts["infeasible"] == "tue: more labels than instances"

    def test_model(self, folder):
        facts = json.loads(ok("info", folder / "m.bagwise", "--json").stdout)
        assert facts["kind"] == "model"
        assert facts["classes"] == ["grün", "robin", "wren"]
        assert facts["settings"]["l2"] == 1.0
        assert "ORedLogisticRegression" in ok("info", folder / "m.bagwise").stdout

    def test_several(self, folder):
        result = run("info", folder / "made.csv", folder / "nowhere.csv")
        assert result.exit_code == 3
        assert "nowhere.csv does not exist" in result.stderr


def test_evaluate_reads_any_format_and_takes_settings(folder):
    result = ok("evaluate", folder / "made.parquet", "--folds", 2, "--set", "l2=0.5", "--json")
    row = json.loads(result.stdout)
    assert row["settings"]["l2"] == 0.5
    assert row["bagwise"] == bagwise.__version__
    assert row["class"] == "ORedLogisticRegression"


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["fit", "DATA", "--out", "OUT", "--set", "l2"], 2, "--set takes NAME=VALUE"),
        (["fit", "DATA", "--out", "OUT", "--set", "nothing=1"], 1, "ORedLogisticRegression has no setting 'nothing'"),
        (["fit", "DATA", "--out", "OUT", "--set", "l2=much"], 1, "The setting 'l2' takes a number, not 'much'"),
        (["fit", "DATA", "--out", "OUT", "--set", "l2=-1"], 1, "must be zero or more"),
        (["fit", "DATA", "--out", "OUT", "--set", "background=3"], 1, "must be True, False or 'auto'"),
        (["fit", "DATA", "--out", "OUT", "--set", "perinstance__transformer=1"], 1, "use Python for it"),
        (["fit", "DATA", "--out", "OUT", "--grid", "1"], 2, "--grid goes with --select"),
        (["fit", "DATA", "--out", "nowhere/OUT"], 1, "there is no folder"),
        (["fit", "DATA", "--out", "OUT", "--model", "x"], 1, "There is no model 'x'"),
        (["fit", "DATA", "--out", "OUT", "--format", "x"], 1, "There is no format 'x'"),
        (["fit", "DATA", "--out", "OUT", "--bag", "x"], 1, "there is no column 'x'"),
        (["fit", "DATA"], 2, "Missing option '--out'"),
        (["fit", "DATA", "--out", "OUT", "--model", "mimlnn", "--checkpoint", "keep"], 1, "keeps no checkpoints"),
        (["fit", "DATA", "--out", "OUT", "--model", "clpl", "--instance-labels"], 1, "cannot learn from"),
        (["fit", "BARE", "--out", "OUT"], 1, "carries no bag labels, so nothing can be learned from it; give"),
        (["predict", "DATA", "DATA"], 1, "give a file that bagwise wrote, or write it again"),
        (["predict", "nowhere", "DATA"], 1, "nowhere does not exist; check the path"),
        (["predict", "MODEL", "DATA", "--labels", "x"], 2, "predict does not look at labels"),
        (["predict", "MODEL", "DATA", "--out", "x.xls"], 1, "not as '.xls'"),
        (["predict", "MODEL", "DATA", "DATA"], 2, "Several files need --out-dir"),
        (["predict", "MODEL", "DATA", "DATA", "--out", "x.csv"], 2, "use --out-dir for several"),
        (["convert", "DATA", "x.xyz"], 1, "tells no format"),
        (["convert", "DATA", "OUT", "--to", "musk"], 1, "exactly one class"),
        (["info", "nowhere"], 1, "nowhere does not exist"),
    ],
    ids=str,
)  # fmt: skip
def test_failures_are_one_line_a_code_and_no_file(folder, data, monkeypatch, arguments, code, message):
    monkeypatch.chdir(folder)
    write_dataset(BagDataset(data.bags), folder / "bare.csv")
    places = {"DATA": "made.csv", "MODEL": "m.bagwise", "BARE": "bare.csv"}
    before = sorted(folder.iterdir())
    result = run(*[places.get(a, a) for a in arguments])
    assert result.exit_code == code, result.output
    assert message in result.stderr
    assert "Traceback" not in result.output
    if code == 1:
        assert len([line for line in result.stderr.splitlines() if line.startswith("Error: ")]) == 1
    assert sorted(folder.iterdir()) == before


def test_piped_output_is_plain(folder):
    done = subprocess.run(
        [sys.executable, "-m", "bagwise.app.cli", "evaluate", folder / "made.csv", "--folds", "2"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert "\x1b" not in done.stdout + done.stderr
    assert "read " in done.stderr


def test_model_of_another_version(folder):
    import zipfile

    with zipfile.ZipFile(folder / "m.bagwise") as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    document = json.loads(parts["model.json"])
    document["version"] = 99
    parts["model.json"] = json.dumps(document).encode()
    with zipfile.ZipFile(folder / "new.bagwise", "w") as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    result = run("predict", folder / "new.bagwise", folder / "made.csv")
    assert result.exit_code == 1
    assert "version 99 of the format" in result.stderr
    assert "upgrade bagwise" in result.stderr


def test_what_may_not_be_read_is_an_error_and_no_wrong_command():
    """click would end with its own text and code 2 where a file is there but may not be read."""
    types = [p.type for command in main.commands.values() for p in command.params if isinstance(p.type, click.Path)]
    assert len(types) > 20
    assert not any(kind.readable for kind in types)


@pytest.mark.parametrize("command", ["fit", "predict", "cluster"])
def test_a_folder_that_cannot_be_written_is_found_out_first(folder, monkeypatch, command):
    monkeypatch.setattr("bagwise.io.files.os.access", lambda path, mode: False)
    model = [folder / "m.bagwise"] if command == "predict" else []
    result = run(command, *model, folder / "made.csv", "--out", folder / "out.csv")
    assert result.exit_code == 1
    assert "is not writable; choose another or change its permissions." in result.stderr
    assert "read " not in result.stderr  # before the data
    assert not list(folder.glob("out*"))


def test_errors_of_the_system_name_file_and_cure(folder, monkeypatch):
    def deny(self, *_, **__):
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr("pathlib.Path.mkdir", deny)
    result = run("predict", folder / "m.bagwise", folder / "made.csv", "--out-dir", folder / "new")
    assert result.exit_code == 1
    assert f"Error: {folder / 'new'}: Permission denied; check the path and its permissions." in result.stderr
