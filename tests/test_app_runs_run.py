"""A run: opened again, corrected, fitted again, taken back; over media and over a table alike."""

import json
import os
import random
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from sklearn.preprocessing import StandardScaler

import bagwise
from bagwise import Run, write_dataset
from bagwise.app.media.matching import match_events
from bagwise.app.runs.folder import RunFolder
from bagwise.app.runs.learner import fit_supervised
from bagwise.app.runs.predictions import predict_labels
from bagwise.app.runs.supervision import put_together
from bagwise.core.bags import Bags
from bagwise.core.dataset import BagDataset
from bagwise.core.exceptions import FormatError, InputError
from bagwise.datasets import make_gaussian_bags, make_letter_bags
from bagwise.pipeline import final_step, make_pipeline, transform_for_final
from bagwise.preprocessing import PerInstance
from bagwise.union import union_posterior
from made import write_scene

KILLS = int(os.environ.get("BAGWISE_KILLS", "4"))


def contents(folder):
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()
    }


@pytest.fixture(scope="session")
def scene(tmp_path_factory):
    """Twenty-four noisy recordings with what was really in them."""
    return write_scene(tmp_path_factory.mktemp("scene"), 24, species_per_recording=(2, 4), random_state=3)


@pytest.fixture(scope="session")
def whole(scene, tmp_path_factory):
    """Runs over the recordings and over a table, not to be changed: copy them."""
    _, folder = scene
    out = tmp_path_factory.mktemp("runs")
    with Run.create(folder / "recordings", out / "media", labels=folder / "labels.csv", jobs=1, page=False):
        pass
    table = make_gaussian_bags(n_bags=80, n_classes=6, separation=1.2, random_state=4)
    named = BagDataset(table.bags, table.Y, [f"class {c}" for c in table.class_names], table.instance_labels)
    write_dataset(named, out / "made.csv")
    with Run.create(out / "made.csv", out / "table", page=False):
        pass
    write_dataset(make_letter_bags(random_state=0), out / "letters.csv")
    with Run.create(out / "letters.csv", out / "letters", model="ored", page=False):
        pass
    return out


@pytest.fixture(params=["media", "table"])
def run(request, whole, tmp_path):
    shutil.copytree(whole / request.param, tmp_path / "run", copy_function=shutil.copy2)
    with Run.open(tmp_path / "run") as opened:
        yield opened


def true_labels(run, scene):
    """What each instance really is, "" for noise."""
    rows = run.annotations()
    if run.media_type.name == "table":
        data = bagwise.read_dataset(run.media)
        return [data.class_names[code] for code in data.instance_labels.instances]
    made, _ = scene
    return [made.events[j]["label"] if j >= 0 else "" for j in match_events(rows, made.events)]


def test_what_is_opened_is_what_was_made(run, whole):
    folder = whole / ("media" if run.media_type.name == "audio" else "table")
    with Run.open(folder) as first:
        rows = first.annotations()
    assert run.annotations() == rows
    assert {"bag", "instance", "file", "label", "probability", "noise"} <= rows[0].keys()
    assert len({(row["bag"], row["instance"]) for row in rows}) == len(rows)
    assert run.version == 0
    assert run.corrections() == []
    assert run.problems == []


@pytest.mark.parametrize("run", ["media", "letters"], indirect=True)
def test_corrections_teach_and_are_taken_back_to_the_byte(run, scene):
    """Wrong labels put right: the others get better; what was said stands; undo gives the first bytes back."""
    rows, truth = run.annotations(), np.array(true_labels(run, scene), dtype=object)
    labels = np.array([row["label"] for row in rows], dtype=object)
    wrong = np.flatnonzero(labels != truth)
    assert len(wrong) >= 15, "the example must hold mistakes"
    said = np.random.default_rng(0).choice(wrong, min(40, len(wrong) * 2 // 3), replace=False)
    before = contents(run.path)
    run.correct([(rows[i]["bag"], rows[i]["instance"], truth[i]) for i in said[::2]])
    run.correct([(rows[i]["bag"], rows[i]["instance"], truth[i]) for i in said[1::2]])
    now = run.annotations()
    assert all(now[i]["label"] == truth[i] for i in said)  # at once, before any fit
    done = run.refit()
    after = run.annotations()
    assert done.version == run.version == 1
    assert done.changed >= len(said)
    assert all(after[i]["label"] == truth[i] and after[i]["checked"] for i in said)
    assert all(after[i]["probability"] == (1.0 if truth[i] else 0.0) for i in said)
    rest = np.setdiff1d(np.flatnonzero(truth != ""), said)
    learned = np.array([row["label"] for row in after], dtype=object)
    assert np.mean(learned[rest] == truth[rest]) > np.mean(labels[rest] == truth[rest])
    assert [(row["bag"], row["instance"]) for row in after] == [(row["bag"], row["instance"]) for row in rows]
    with Run.open(run.path) as again:
        assert again.annotations() == after
    run.undo()
    assert run.version == 0
    run.undo()
    assert run.annotations() == rows
    left = contents(run.path)
    assert left.pop("corrections.csv").count(b"\n") == 1 + len(said) + 2
    assert left == before


def test_refit_is_the_fit_that_a_person_would_make_by_hand(whole, tmp_path):
    """Against the estimator called directly, with known instances and corrected label sets from the same start."""
    shutil.copytree(whole / "table", tmp_path / "run")
    with Run.open(tmp_path / "run") as run:
        rows = run.annotations()
        listed = {bag: set(labels) for bag, labels in run.material.sets.items()}
        bags = list(listed)
        new = next(name for name in run.labels if name not in listed[bags[0]])
        run.correct([(bags[0], 0, new), (bags[1], 1, rows[0]["label"])])
        dataset = run.material.dataset
        model = bagwise.load(tmp_path / "run" / "model.bagwise")
        run.refit()
    listed[bags[0]].add(new)
    listed[bags[1]].add(rows[0]["label"])
    classes = sorted(set().union(*listed.values()))
    codes = np.full(dataset.bags.n_instances, -1)
    codes[dataset.bags.offsets[0]] = classes.index(new)
    codes[dataset.bags.offsets[1] + 1] = classes.index(rows[0]["label"])
    known = Bags(codes, dataset.bags.offsets)
    final = final_step(model).set_params(estimator__warm_start=True)
    X = transform_for_final(model, dataset.bags)
    final.fit(X, [listed[bag] for bag in dataset.bag_names], instance_labels=known)
    again = final_step(bagwise.load(tmp_path / "run" / "model.bagwise"))
    np.testing.assert_allclose(again.estimator_.coef_, final.estimator_.coef_, rtol=1e-8, atol=1e-8)
    assert again.get_params()["estimator__warm_start"] is False


def test_every_kind_of_correction(run):
    dataset = run.material.dataset
    sets = {bag: set(labels) for bag, labels in run.material.sets.items()}
    bags = [bag for bag in dataset.bag_names if len(sets[bag]) > 1][:4]
    rows = {(row["bag"], row["instance"]): row for row in run.annotations()}
    other = next(label for label in sorted(sets[bags[0]]) if label != rows[bags[0], 0]["label"])
    unlisted = next(label for label in run.labels if label not in sets[bags[1]])
    run.correct([(bags[0], 0, other)])  # another label of the bag
    run.correct([(bags[0], 1, "")])  # noise
    run.correct([(bags[1], 0, unlisted)])  # a label that the bag does not list
    run.correct([(bags[1], 1, "new to all")])  # a label that is new to the run
    gone = sorted(sets[bags[2]])[0]
    run.reject(bags[2], gone)  # this label is not in this bag
    run.correct([(bags[3], 0, rows[bags[3], 0]["label"])], by="Ada")  # confirmed
    run.correct([(bags[3], None, unlisted)])  # the bag carries it, somewhere
    actions = [entry["action"] for entry in run.corrections()]
    assert actions == ["label", "noise", "label", "label", "absent", "confirmed", "present"]
    assert run.corrections()[0]["before"] == rows[bags[0], 0]["label"]
    assert run.corrections()[5]["by"] == "Ada"
    run.refit()
    after = {(row["bag"], row["instance"]): row for row in run.annotations()}
    supervision = dict(zip(dataset.bag_names, run.supervision().dataset.label_sets, strict=True))
    assert after[bags[0], 0]["label"] == other
    assert (after[bags[0], 1]["label"], after[bags[0], 1]["noise"]) == ("", 1.0)
    assert after[bags[1], 0]["label"] == unlisted
    assert {unlisted, "new to all"} <= supervision[bags[1]]
    assert after[bags[1], 1]["label"] == "new to all"
    assert "new to all" in run.labels
    assert gone not in supervision[bags[2]]
    assert all(row["label"] != gone for (bag, _), row in after.items() if bag == bags[2])
    assert unlisted in supervision[bags[3]]
    assert "new to all" in json.loads((run.path / "manifest.json").read_text())["classes"]
    with pytest.raises(InputError, match="does not list 'never heard of'"):
        run.reject(bags[2], "never heard of")
    run.reject(bags[2], gone)  # not listed any more, and not forgotten either
    assert (bags[2], gone) in run.supervision().settled
    assert run.corrections()[-1]["before"] == ""
    run.undo()
    assert len([one for one in run.corrections() if (one["bag"], one["label"]) == (bags[2], gone)]) == 1


def test_known_and_noise_are_what_the_mathematics_says():
    """A bag without a noise, and the noise as a bag of its own: the likelihood of a known background instance."""
    rng = np.random.default_rng(5)
    proba = rng.dirichlet(np.ones(4), 5)  # three classes and the background
    Y = np.array([[1, 1, 0, 0]])
    known = np.array([-1, 3, -1, 0, -1])
    whole, _ = union_posterior(proba, [0, 5], Y, background=3, known=known)
    keep = [0, 2, 3, 4]
    parts, _ = union_posterior(proba[keep], [0, 4], Y, background=3, known=known[keep])
    single, _ = union_posterior(proba[[1]], [0, 1], np.zeros((1, 4)), background=3)
    np.testing.assert_allclose(whole[0], parts[0] + single[0], rtol=1e-12)


def test_the_training_set_holds_what_was_said():
    bags = Bags(np.arange(14.0).reshape(7, 2), [0, 3, 5, 7])
    dataset = BagDataset(bags, bag_names=["a", "b", "c"])
    supervision = put_together(dataset, {"a": {"x", "y"}, "b": set()}, [("a", 0, "x"), ("a", 1, ""), ("c", 1, "z")])
    assert supervision.dataset.label_sets == [{"x", "y"}, set(), None]
    assert supervision.noise.tolist() == [False, True, False, False, False, False, False]
    full = supervision.training_set(takes_empty=True, takes_known=True)
    assert full.bags.instances[:, 0].tolist() == [0, 4, 6, 8, 2, 12]
    assert full.bags.sizes.tolist() == [2, 2, 1, 1]
    assert full.label_sets == [{"x", "y"}, set(), set(), {"z"}]
    assert full.instance_labels.instances.tolist() == [0, -1, -1, -1, -1, 2]
    assert full.bag_names == ["a", "b", "", ""]
    plain = supervision.training_set(takes_empty=False, takes_known=False)
    assert plain.label_sets == [{"x", "y"}, {"x"}, {"z"}]
    assert plain.instance_labels is None
    assert plain.bags.instances[:, 0].tolist() == [0, 4, 0, 12]


@pytest.mark.parametrize("name", ["ored", "ored-background", "ored-forest", "sim-softmax", "clpl", "most-frequent"])
def test_every_annotator_can_be_fitted_again(whole, tmp_path, name):
    small = {"n_estimators": 30, "n_rounds": 2, "n_round_trees": 30} if name == "ored-forest" else {}
    options = {"model": name, "learner": small, "page": False, "formats": ["csv"]}
    with Run.create(whole / "made.csv", tmp_path / "run", **options) as run:
        rows = run.annotations()
        run.correct([(rows[0]["bag"], 0, rows[5]["label"]), (rows[-1]["bag"], 0, "")])
        run.refit()
        after = run.annotations()
        assert after[0]["label"] == rows[5]["label"]
        last = next(i for i, row in enumerate(rows) if row["bag"] == rows[-1]["bag"])
        assert after[last]["label"] == ""
        run.undo()
        assert run.annotations() == rows


def test_one_inference_for_all_that_is_found(whole, tmp_path, monkeypatch):
    from bagwise.union import UnionProblem

    shutil.copytree(whole / "table", tmp_path / "run")
    with Run.open(tmp_path / "run") as run:
        model = bagwise.load(tmp_path / "run" / "model.bagwise")
        calls = []
        infer = UnionProblem.infer_in_place
        monkeypatch.setattr(
            UnionProblem, "infer_in_place", lambda self, *a, **k: calls.append(1) or infer(self, *a, **k)
        )
        predict_labels(model, run.supervision())
    assert len(calls) == 1


def test_nothing_is_fitted_twice(run, monkeypatch):
    monkeypatch.setattr(
        "bagwise.app.runs.run.fit_supervised", lambda *a, **k: pytest.fail("there is nothing new to learn")
    )
    assert run.refit().changed == 0


def test_the_same_annotate_again_keeps_corrections(scene, whole, tmp_path):
    _, folder = scene
    shutil.copytree(whole / "media", tmp_path / "run", copy_function=shutil.copy2)
    sounds, labels = tmp_path / "sounds", folder / "labels.csv"
    shutil.copytree(folder / "recordings", sounds, copy_function=shutil.copy2)
    options = {"labels": labels, "jobs": 1, "page": False, "formats": ["csv"]}
    with Run.create(sounds, tmp_path / "run2", **options) as run:
        rows = run.annotations()
        first, second = rows[0], next(row for row in rows if row["file"] != rows[0]["file"])
        run.correct([(first["bag"], first["instance"], ""), (second["bag"], second["instance"], "hm")])
    with Run.create(sounds, tmp_path / "run2", **options) as run:  # nothing changed but what was said
        assert run.version == 1
        assert run.annotations()[0]["label"] == ""
    shutil.copy(sounds / second["file"], sounds / first["file"])  # other sounds under the old name
    with pytest.raises(InputError, match=r"changed since it was annotated.*Nothing was written"), \
            Run.open(tmp_path / "run2") as run:  # fmt: skip
        run.correct([(first["bag"], 0, "hm")])
    with Run.create(sounds, tmp_path / "run2", **options) as run:
        assert [(entry["bag"], entry["label"]) for entry in run.corrections()] == [(second["bag"], "hm")]
        assert "outdated" in (run.path / "corrections.csv").read_text()
    with pytest.raises(InputError, match="corrections that a person made; move"):
        Run.create(sounds, tmp_path / "run2", overwrite=True, settings={"window": 5}, **options)


def test_unlabelled_bags_learn_from_what_was_named_in_them(whole, tmp_path):
    """Their label sets stay unknown: what was not named may be anything."""
    data = bagwise.read_dataset(whole / "made.csv")
    some = BagDataset(
        data.bags, np.where(np.arange(len(data))[:, None] < 60, data.Y, 0), data.class_names,
        labelled=np.arange(len(data)) < 60,
    )  # fmt: skip
    write_dataset(some, tmp_path / "some.csv")
    with Run.create(tmp_path / "some.csv", tmp_path / "run", page=False) as run:
        rows = run.annotations()
        assert next(row["mode"] for row in rows if row["bag"] == "70") == "inductive"
        run.correct([("70", 0, "class 1"), ("70", 1, "class 2")])
        run.refit()
        supervision = dict(zip(run.material.dataset.bag_names, run.supervision().dataset.label_sets, strict=True))
        assert supervision["70"] is None
        after = {(row["bag"], row["instance"]): row for row in run.annotations()}
        assert after["70", 0]["label"] == "class 1"
        run.correct([("71", None, "class 3")])  # somebody labels the bag
        assert run.supervision().dataset.label_sets[71] == {"class 3"}


def test_a_run_of_new_media_learns_beside_the_run_that_trained_its_model(whole, tmp_path):
    shutil.copytree(whole / "table", tmp_path / "old")
    data = make_gaussian_bags(n_bags=20, n_classes=6, separation=1.2, random_state=4)
    write_dataset(BagDataset(data.bags), tmp_path / "new.csv")
    with Run.create(
        tmp_path / "new.csv", tmp_path / "new", model=tmp_path / "old" / "model.bagwise", page=False
    ) as run:
        rows = run.annotations()
        assert {row["mode"] for row in rows} == {"inductive"}
        run.correct([(rows[0]["bag"], 0, "class 0"), (rows[1]["bag"], 1, "class 5")])
        run.refit()
        model = final_step(bagwise.load(tmp_path / "new" / "model.bagwise"))
        assert len(model.classes_) == 6  # nothing was forgotten
        assert run.annotations()[0]["label"] == "class 0"
        shutil.rmtree(tmp_path / "old")
        run.correct([(rows[2]["bag"], 2, "class 0")])
        with pytest.raises(InputError, match="trained by another one, whose bags are needed"):
            run.refit()
    assert len(Run.open(tmp_path / "new").corrections()) == 3


def test_learner_settings_selection_and_known_instances(whole, tmp_path):
    table = whole / "made.csv"
    with Run.create(table, tmp_path / "a", learner={"l2": "0.5"}, page=False, formats=["csv"]) as run:
        assert final_step(bagwise.load(run.path / "model.bagwise")).estimator_.l2 == 0.5
    with Run.create(
        table, tmp_path / "b", model="ored", select="l2", grid=[0.01, 1000.0], folds=3, page=False, formats=["csv"]
    ) as run:
        assert run.manifest["selected"] == {"l2": 0.01}
        assert final_step(bagwise.load(run.path / "model.bagwise")).estimator_.l2 == 0.01
    with Run.create(table, tmp_path / "c", use_known=True, page=False, formats=["csv"]) as run:
        truth = bagwise.read_dataset(table)
        names = [truth.class_names[code] for code in truth.instance_labels.instances]
        assert [row["label"] for row in run.annotations()] == names
    with pytest.raises(InputError, match="has no setting 'window'"):
        Run.create(table, tmp_path / "d", learner={"window": "5"}, page=False)
    assert not (tmp_path / "d").exists()


def test_known_marks_of_another_tool(scene, whole, tmp_path):
    """Half of a Raven table that somebody made before: its selections are known instances."""
    _, folder = scene
    marks = tmp_path / "raven"
    shutil.copytree(whole / "media" / "raven", marks)
    (marks / "all.selections.txt").unlink()
    one = sorted(marks.glob("*.selections.txt"))[0]
    for path in sorted(marks.glob("*.selections.txt"))[1:]:
        path.unlink()
    heading, *lines = one.read_text(encoding="utf-8").splitlines()
    column = heading.split("\t").index("Annotation")
    cells = lines[0].split("\t")
    cells[column] = "mystery bird"
    one.write_text("\n".join([heading, "\t".join(cells)]) + "\n", encoding="utf-8")
    with Run.create(
        folder / "recordings", tmp_path / "run", labels=folder / "labels.csv", known=marks, jobs=1, page=False,
        formats=["csv"],
    ) as run:  # fmt: skip
        named = [row for row in run.annotations() if row["label"] == "mystery bird"]
        assert [row["file"] for row in named if row["checked"]] == [one.name.removesuffix(".selections.txt")]


# ---------------------------------------------------------------------------------------------------------------------
# What can go wrong


def test_what_cannot_be_corrected(run):
    before = contents(run.path)
    bag = run.material.dataset.bag_names[0]
    for given, message in (
        ([("nowhere.wav", 0, "wren")], "The run has no bag 'nowhere.wav'; its bags are"),
        ([(bag, 0, "fine"), (bag, 10_000, "wren")], "has no instance 10000; it has"),
        ([(bag, "0", "wren")], "is no whole number"),
    ):
        with pytest.raises(InputError, match=message):
            run.correct(given)
    assert contents(run.path) == before
    assert run.undo() == []


def test_rows_that_fit_no_instance_are_named_and_not_used(run):
    bag = run.material.dataset.bag_names[0]
    (run.path / "corrections.csv").write_text(f"bag,instance,label\n{bag},0,odd one\n{bag},999,x\nnobody,0,x\n")
    with Run.open(run.path) as again:
        assert [entry["label"] for entry in again.corrections()] == ["odd one"]
        supervision = [message for _, message in again.problems]
        assert "row 3: The bag" in supervision[0]
        assert "has no instance 999" in supervision[0]
        assert "row 4: The run has no bag 'nobody'" in supervision[1]
        again.refit()
        assert again.annotations()[0]["label"] == "odd one"


def test_only_one_process_at_a_time(run):
    code = """
import sys
from bagwise import Run
from bagwise.core.exceptions import InputError
for line in sys.stdin:
    try:
        Run.open(sys.argv[1]).close()
        print("opened", flush=True)
    except InputError as error:
        print(error, flush=True)
"""
    command = [sys.executable, "-c", code, str(run.path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:

        def other():
            print("try", file=process.stdin, flush=True)
            return process.stdout.readline()

        assert "is open in another process" in other()
        with Run.open(run.path):  # in one process it may be opened again
            pass
        assert "is open in another process" in other()
        run.close()
        assert other() == "opened\n"
    with pytest.raises(InputError, match="was closed; open it again"):
        run.correct([])


def test_runs_that_are_none(tmp_path, whole):
    with pytest.raises(InputError, match=r"holds no run of bagwise: there is no manifest.json"):
        Run.open(tmp_path)
    with pytest.raises(InputError, match=r"holds no run of bagwise"):
        Run.open(tmp_path / "nowhere")
    folder = tmp_path / "run"
    for change, message in (
        ({"version": 1}, "written by another bagwise.*run the bagwise annotate that made it once more"),
        ({"version": 99}, "written by another bagwise.*upgrade"),
        ({"status": "unfinished"}, "is not finished"),
    ):
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(whole / "table", folder)
        manifest = json.loads((folder / "manifest.json").read_text())
        (folder / "manifest.json").write_text(json.dumps({**manifest, **change}))
        with pytest.raises(InputError, match=message):
            Run.open(folder)
    (folder / "manifest.json").write_text("{")
    with pytest.raises(InputError, match="cannot be read"):
        Run.open(folder)
    shutil.rmtree(folder)
    for name in (".run/supervision.json", ".run/0/predictions.bagwise"):
        shutil.copytree(whole / "table", folder)
        (folder / name).write_bytes(b"torn")
        with pytest.raises((InputError, FormatError), match="missing or damaged.*once more"), Run.open(folder) as run:
            run.annotations()
        shutil.rmtree(folder)


def test_media_that_have_moved(scene, whole, tmp_path):
    """Everything but pictures and playing goes on, and it is said."""
    _, folder = scene
    sounds = tmp_path / "sounds"
    shutil.copytree(folder / "recordings", sounds, copy_function=shutil.copy2)
    with Run.create(sounds, tmp_path / "run", labels=folder / "labels.csv", jobs=1, formats=["csv", "raven"]) as run:
        row = run.annotations()[0]
    sounds.rename(tmp_path / "elsewhere")
    with Run.open(tmp_path / "run") as run:
        assert "is not there any more" in run.problems[0][1]
        run.correct([(row["bag"], row["instance"], "")])
        run.refit()
        assert run.annotations()[0]["label"] == ""
        assert (run.path / "report.html").exists()
    with Run.open(tmp_path / "run", media=tmp_path / "elsewhere") as run:
        assert run.problems == []
        run.write()
        assert b"<image" in (run.path / "report.html").read_bytes()
    with Run.open(tmp_path / "run") as run:  # it was kept
        assert run.problems == []


def test_texts_that_have_moved_keep_what_cannot_be_written_again(tmp_path):
    texts = tmp_path / "texts"
    texts.mkdir()
    for i in range(6):
        (texts / f"{i}.txt").write_text("cow grass milk horse " * 20 if i % 2 else "stock bank money fund " * 20)
    labels = "".join(f"{i}.txt,{'farm' if i % 2 else 'trade'}\n" for i in range(6))
    (tmp_path / "labels.csv").write_text("file,label\n" + labels)
    settings = {"keep": 1.0}
    with Run.create(
        texts, tmp_path / "run", labels=tmp_path / "labels.csv", settings=settings, page=False, jobs=1
    ) as run:
        row = run.annotations()[0]
    spans = (tmp_path / "run" / "spans.jsonl").read_bytes()
    texts.rename(tmp_path / "elsewhere")
    with Run.open(tmp_path / "run") as run:
        run.correct([(row["bag"], row["instance"], "farm")])
        result = run.write()
        assert any("spans was not written again" in message for _, message in result.problems)
    assert (tmp_path / "run" / "spans.jsonl").read_bytes() == spans


def write_texts(folder, n=8):
    folder.mkdir()
    for i in range(n):
        (folder / f"{i}.txt").write_text("cow grass milk horse " * 20 if i % 2 else "stock bank money fund " * 20)
    labels = "".join(f"{i}.txt,{'farm' if i % 2 else 'trade'}\n" for i in range(n))
    folder.with_suffix(".csv").write_text("file,label\n" + labels)


def test_runs_over_texts_are_refitted_with_the_run_that_trained_the_model(tmp_path):
    write_texts(tmp_path / "old")
    with Run.create(tmp_path / "old", tmp_path / "one", labels=tmp_path / "old.csv", page=False, jobs=1):
        pass
    write_texts(tmp_path / "new", 2)
    model = tmp_path / "one" / "model.bagwise"
    with Run.create(tmp_path / "new", tmp_path / "two", model=model, page=False, jobs=1) as run:
        row = run.annotations()[0]
        assert row["label"] == "trade"
        run.correct([(row["bag"], row["instance"], "bonds")])
        run.refit()
        assert run.annotations()[0]["label"] == "bonds"
        assert run.annotations()[-1]["label"] == "farm"


def test_models_that_were_trained_on_filled_counts_serve_sparse_ones(tmp_path):
    write_texts(tmp_path / "texts")
    with Run.create(tmp_path / "texts", tmp_path / "one", labels=tmp_path / "texts.csv", page=False, jobs=1) as run:
        dataset = run.supervision().dataset
    made = bagwise.load(tmp_path / "one" / "model.bagwise")
    filled = Bags(dataset.bags.instances.toarray(), dataset.bags.offsets)  # as runs of earlier versions were
    model = make_pipeline(PerInstance(StandardScaler()), final_step(made).estimator).fit(filled, dataset.label_sets)
    settings = {"window": 50, "step": 25, "keep": 0.02, "stop_words": "english", "stems": True}
    model.featurizer_ = {**made.featurizer_, "settings": settings}
    bagwise.save(model, tmp_path / "former.bagwise")
    with Run.create(tmp_path / "texts", tmp_path / "two", model=tmp_path / "former.bagwise", page=False) as run:
        assert {row["label"] for row in run.annotations() if row["file"] == "0.txt"} == {"trade"}


def test_an_interrupted_writing_is_finished_when_the_run_is_opened(run, monkeypatch):
    row = run.annotations()[0]
    run.correct([(row["bag"], row["instance"], "odd one")])
    monkeypatch.setattr("bagwise.app.runs.run.write_formats", lambda *a: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        run.refit()
    monkeypatch.undo()
    with Run.open(run.path) as again:
        assert again.version == 1
        assert json.loads((run.path / "manifest.json").read_text())["status"] == "finished"
        assert "odd one" in (run.path / "annotations.csv").read_text()


KILLED = """
import sys, random
from bagwise import Run
run, chance = Run.open(sys.argv[1]), random.Random(int(sys.argv[2]))
keys = [(row["bag"], row["instance"]) for row in run.annotations()]
print("open", flush=True)
while True:
    what = chance.random()
    if what < 0.75:
        said = [(*chance.choice(keys), chance.choice(run.labels)) for _ in range(chance.randint(1, 5))]
        run.correct(said)
        print("said", len(said), flush=True)
    elif what < 0.85:
        print("undone", len(run.undo()), flush=True)
    else:
        run.refit()
        print("fitted", flush=True)
"""


def test_killed_at_random_nothing_that_was_answered_is_lost(whole, tmp_path):
    """SIGKILL among corrections, undos and refits, KILLS times in one run: it opens and holds what was answered."""
    folder = tmp_path / "run"
    shutil.copytree(whole / "table", folder)
    chance, total = random.Random(1), 0
    for i in range(KILLS):
        process = subprocess.Popen(
            [sys.executable, "-c", KILLED, str(folder), str(i)], stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        assert process.stdout.readline() == "open\n"
        time.sleep(chance.uniform(0.0, 1.5))
        process.kill()
        answers = process.stdout.read().splitlines()
        process.stdout.close()
        process.wait()
        answers = [line for line in answers if not line.endswith((" ", "said", "undone"))]
        for line in answers:
            word, *count = line.split()
            total += {"said": 1, "undone": -1, "fitted": 0}[word] * int(count[0] if count else 0)
        with Run.open(folder) as run:
            n_said = len(run.corrections())
            # the one call that was under way when the process ended may have reached the disk unanswered
            assert total - 5 <= n_said <= total + 5
            said_now = {(entry["bag"], entry["instance"]): entry["label"] for entry in run.corrections()}
            rows = {(row["bag"], row["instance"]): row["label"] for row in run.annotations()}
            assert all(rows[key] == label for key, label in said_now.items())
            assert (folder / "annotations.csv").read_text().count("\n") == len(rows) + 1
            assert [problem for problem in run.problems if "corrections.csv" in problem[1]] == []
            total = n_said
        assert not [
            path for path in folder.rglob("*") if path.name == "predictions.bagwise" and not path.stat().st_size
        ]


def test_a_long_fit_that_was_interrupted_goes_on(whole, tmp_path):
    """The state of the fit is kept in the folder of the run, and another fit's is forgotten."""
    data = bagwise.read_dataset(whole / "made.csv")
    supervision = put_together(data, dict(zip(data.bag_names, data.label_sets, strict=True)))
    from bagwise.catalog import make_model

    calls = []

    def stop(i, objective):
        calls.append(i)
        if i == 3:
            raise KeyboardInterrupt

    folder = tmp_path / "fit"
    with pytest.raises(KeyboardInterrupt):
        fit_supervised(make_model("ored"), supervision, checkpoint=folder, callback=stop)
    assert folder.is_dir()
    model = make_model("ored")
    final_step(model).set_params(l2=2.0)
    fit_supervised(model, supervision, checkpoint=folder)  # another fit: what was kept is not taken
    assert not folder.exists()
    fresh = make_model("ored")
    final_step(fresh).set_params(l2=2.0)
    fit_supervised(fresh, supervision)
    np.testing.assert_array_equal(final_step(model).coef_, final_step(fresh).coef_)


def test_example_of_the_contract(whole, tmp_path):
    shutil.copytree(whole / "table", tmp_path / "run")
    run = bagwise.Run.open(str(tmp_path / "run"))
    row = run.annotations()[0]
    run.correct([(row["bag"], row["instance"], "")])
    heard = []
    run.refit(callback=lambda i, objective: heard.append((i, objective)))
    assert [i for i, _ in heard] == list(range(1, len(heard) + 1))
    assert len(heard) > 0
    run.undo()
    assert run.corrections() == []
    assert Path(run.path, "corrections.csv").exists()
    run.close()


def test_a_run_that_was_killed_before_anything_was_written_can_be_opened(tmp_path, monkeypatch):
    """The limit of background is part of it as soon as the fit counts."""
    write_dataset(make_gaussian_bags(n_bags=30, random_state=0), tmp_path / "made.csv")
    real = RunFolder.add

    def add_and_die(*given):
        real(*given)
        raise KeyboardInterrupt

    with monkeypatch.context() as killed:
        killed.setattr(RunFolder, "add", add_and_die)
        with pytest.raises(KeyboardInterrupt):
            Run.create(tmp_path / "made.csv", tmp_path / "run", page=False)
    with Run.open(tmp_path / "run") as opened:
        assert opened.manifest["status"] == "finished"
        assert 0 < opened.manifest["options"]["max_noise"] <= 0.5
        assert (tmp_path / "run" / "annotations.csv").exists()
