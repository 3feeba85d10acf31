"""Instances that carry any number of labels, from the model to every format and back."""

import csv
from dataclasses import replace

import numpy as np
import pytest

from bagwise import BagDataset, Bags, Run, write_dataset
from bagwise.app.formats import Annotations, compare_marks, read_marks, write_formats
from bagwise.app.media.media_types import MEDIA
from bagwise.app.media.windows import join_windows
from bagwise.app.runs.corrections import Correction
from bagwise.app.runs.label_sets import BETWEEN, joined_labels, split_sets
from bagwise.app.runs.supervision import put_together
from bagwise.calibration import CalibratedLabelSets
from bagwise.core.exceptions import InputError
from bagwise.datasets import make_gaussian_bags, make_soundscape
from bagwise.pipeline import final_step

NAMES = ["crow", "robin", "tit", "wren"]
N_BAGS, SIZE = 40, 6


def windows(seed=0, noise=0.4, share=0.25):
    """Windows whose sounds add up, and which are in them."""
    rng = np.random.default_rng(seed)
    sings = rng.random((N_BAGS * SIZE, len(NAMES))) < share
    X = sings @ (2 * np.random.default_rng(1).normal(size=(len(NAMES), 12))) + noise * rng.normal(size=(len(sings), 12))
    offsets = np.arange(0, len(sings) + 1, SIZE)
    Y = np.logical_or.reduceat(sings, offsets[:-1]).astype(int)
    return BagDataset(Bags(X, offsets), Y, NAMES, bag_names=[f"b{i:02}" for i in range(N_BAGS)]), sings


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A run of a learner of label sets over a table, and which sounds are in its windows."""
    folder = tmp_path_factory.mktemp("sets")
    data, sings = windows()
    write_dataset(data, folder / "made.csv")
    with Run.create(folder / "made.csv", folder / "run", model="noisy-or", page=False, seed=0) as run:
        yield run, sings


@pytest.fixture
def run(made):
    """The same, as it was made."""
    run, _ = made
    yield run
    while run.corrections():
        run.undo(write=False)


def carried(rows):
    found = np.zeros((len(rows), len(NAMES)), dtype=bool)
    for i, row in enumerate(rows):
        for one in row["labels"]:
            found[i, NAMES.index(one["label"])] = True
    return found


def test_an_instance_has_all_its_labels(made):
    run, sings = made
    rows = run.annotations()
    assert len(rows) == len(sings)
    assert np.mean(carried(rows) == sings) > 0.99
    for row in rows:
        labels = row["labels"]
        assert row["label"] == (labels[0]["label"] if labels else "")
        assert [one["probability"] for one in labels] == sorted((one["probability"] for one in labels), reverse=True)
        assert all(one["probability"] > 0.5 for one in labels)
        assert row["runner_up"] not in {one["label"] for one in labels}
        assert row["noise"] > 0.5 if not labels else row["noise"] < 0.5


def test_the_long_table_has_a_row_per_label(made):
    run, _ = made
    with (run.path / "annotations.csv").open(newline="") as file:
        table = list(csv.DictReader(file))
    said = {}
    for row in table:
        said.setdefault((row["bag"], int(row["instance"])), []).append((row["label"], float(row["probability"])))
    for row in run.annotations():
        expected = [(one["label"], one["probability"]) for one in row["labels"]] or [("", 0.0)]
        assert said[row["bag"], row["instance"]] == expected
    assert run.manifest["instances"] == N_BAGS * SIZE < len(table)


def test_labels_of_an_instance_are_said_and_undone(run):
    rows = run.annotations()
    several, bare = (next(i for i, row in enumerate(rows) if test(row["labels"])) for test in (
        lambda labels: len(labels) > 1, lambda labels: not labels))  # fmt: skip
    key = rows[several]["bag"], rows[several]["instance"]
    before = [one["label"] for one in rows[several]["labels"]]
    other = next(name for name in NAMES if name not in before)
    run.correct([(*key, [before[0], other])])
    now = run.annotations()[several]
    assert {one["label"] for one in now["labels"]} == {before[0], other}
    assert all(one["probability"] == 1.0 for one in now["labels"])
    assert now["checked"]
    assert now["noise"] == 0.0
    first, second = run.corrections()
    assert (first["action"], first["before"], second["action"], second["label"]) == (
        "label", BETWEEN.join(before), "also", other
    )  # fmt: skip
    assert run.n_corrections == 1
    run.correct([(*key, set(before))])
    assert run.corrections()[2]["action"] == "label"
    run.correct([(*key, before)])
    assert run.corrections()[-len(before)]["action"] == "confirmed"
    run.correct([(*key, [])])
    assert run.annotations()[several]["labels"] == []
    run.correct([(rows[bare]["bag"], rows[bare]["instance"], "")])
    assert run.corrections()[-1]["action"] == "confirmed"
    for _ in range(5):
        run.undo(write=False)
    assert run.corrections() == []
    assert run.annotations() == rows


def test_what_a_person_said_is_learned_and_stands(run):
    rows = run.annotations()
    i = next(i for i, row in enumerate(rows) if len(row["labels"]) > 1)
    key = rows[i]["bag"], rows[i]["instance"]
    run.correct([(*key, ["crow", "tit", "wren"]), (rows[i + 1]["bag"], rows[i + 1]["instance"], [])])
    supervision = run.supervision()
    training = supervision.training_set(takes_empty=True, takes_known=True, label_sets=True)
    known = supervision.known_sets(training.class_names)
    assert np.nansum(known) == 3
    assert np.sum(~np.isnan(known)) == len(NAMES)
    assert training.instance_labels is None
    assert len(known) == training.bags.n_instances
    assert training.bag_names[-1] == ""  # the window without any label
    assert not training.Y[-1].any()
    run.refit(write=False)
    now = run.annotations()
    assert {one["label"] for one in now[i]["labels"]} == {"crow", "tit", "wren"}
    assert now[i + 1]["labels"] == []
    run.undo(write=False)
    assert run.annotations() == rows


def test_a_bag_without_labels_takes_the_set_as_a_bag_of_its_own():
    data, _ = windows()
    said = [Correction("b00", 0, "wren", "label"), Correction("b00", 0, "crow", "also")]
    supervision = put_together(data, {"b01": ["tit"]}, corrections=said)
    training = supervision.training_set(takes_empty=True, takes_known=True, label_sets=True)
    assert training.label_sets == [{"tit"}, {"crow", "wren"}]
    assert training.bags.sizes.tolist() == [SIZE, 1]
    known = supervision.known_sets(training.class_names)
    assert np.isnan(known[:SIZE]).all()
    assert known[SIZE].tolist() == [1.0, 0.0, 1.0]


def test_a_label_that_no_instance_can_carry_is_named_and_does_not_stop_the_fit(run):
    rows = run.annotations()
    bag = next(row["bag"] for row in rows if len(row["labels"]) > 1)
    listed = run.supervision().dataset.label_sets[run.supervision().dataset.bag_names.index(bag)]
    kept = min(listed)
    run.correct([(bag, i, kept) for i in range(SIZE)])
    problems = run.refit(write=False).problems
    assert [name for name, _ in problems] == [bag]
    assert all(label in problems[0][1] for label in listed - {kept})
    assert all(row["labels"] == [{"label": kept, "probability": 1.0}] for row in run.annotations() if row["bag"] == bag)


@pytest.mark.parametrize(("rows", "also", "left"), [
    ([("a", "label"), ("b", "also"), ("a", "absent")], [], ["b"]),
    ([("a", "label"), ("b", "also"), ("b", "absent")], [], ["a"]),
    ([("a", "label"), ("b", "also"), ("c", "label")], [], ["c"]),
    ([("a", "label"), ("a", "also"), ("b", "also")], ["b"], ["a", "b"]),
    ([("a", "label"), ("b", "also"), ("", "noise")], [], []),
    ([("a", "also")], [], ["a"]),  # at least
    ([("a", "also"), ("b", "also")], ["b"], ["a", "b"]),
    ([("a", "also"), ("b", "label"), ("a", "also")], ["a"], ["a", "b"]),
])  # fmt: skip
def test_later_rows_replace_earlier_ones(rows, also, left):
    data = BagDataset(Bags(np.zeros((2, 1)), np.array([0, 2])), np.array([[1, 1]]), ["a", "b"], bag_names=["x"])
    said = [Correction("x", None if action == "absent" else 1, label, action) for label, action in rows]
    found = put_together(data, {"x": ["a", "b"]}, corrections=said)
    names = found.dataset.class_names
    assert [names[c] for c in found.also[:, 1]] == also
    assert sorted([names[c] for c in found.known if c >= 0] + [names[c] for c in found.also[:, 1]]) == left
    at_least = {action for _, action in rows} == {"also"}
    assert found.open.tolist() == [1] * at_least
    assert found.checked[1] == ((bool(left) or bool(found.noise[1])) and not at_least)


@pytest.mark.parametrize(("given", "message"), [
    (("b00", 0, ["crow", ""]), "leave '' out"),
    (("b00", None, ["crow", "tit"]), "say each for itself"),
    (("b00", 99, ["crow"]), "no instance 99"),
    (("b00", 0, ["crow", " tit"]), "blanks around"),
    (("b00", 0, ["crow", 3]), "expected text"),
    (("b00", 0), "A correction is"),
])  # fmt: skip
def test_what_cannot_be_said_of_an_instance_is_refused_whole(run, given, message):
    with pytest.raises(InputError, match=message):
        run.correct([("b00", 1, "crow"), given])
    assert run.corrections() == []


def test_a_run_of_one_label_each_refuses_several(tmp_path):
    data, _ = windows()
    write_dataset(data, tmp_path / "made.csv")
    with Run.create(
        tmp_path / "made.csv", tmp_path / "run", model="ored", page=False, learner={"calibrate": "none"}
    ) as run:
        assert "labels" not in run.annotations()[0]
        with pytest.raises(InputError, match="one label; give one, or make the run with --model noisy-or"):
            run.correct([("b00", 0, ["crow", "tit"])])


def test_splitting_takes_what_is_more_probable_than_not():
    proba = np.array([[0.9, 0.6, 0.1], [0.5, 0.2, 0.4], [0.6, 0.7, 0.8]])
    first, second, (row, label, probability) = split_sets(proba, np.array([4, 5, 9]))
    assert first.tolist() == [0, -1, 2]
    assert second.tolist() == [2, 0, -1]
    assert list(zip(row.tolist(), label.tolist(), probability.tolist(), strict=True)) == [
        (4, 1, 0.6),
        (9, 0, 0.6),
        (9, 1, 0.7),
    ]


def test_a_selection_counts_labels_one_by_one(run):
    found = run.predictions()
    row, label, probability = found.entries()
    precision = (probability[label >= 0].mean() + probability.max()) / 2
    kept = found.kept(precision, 1.0)
    assert len(kept) == len(row) > len(found.label)
    assert probability[kept].mean() >= precision - 1e-9
    rest = np.sort(probability[(label >= 0) & ~kept & ~found.novel[row]])[::-1]
    assert np.append(probability[kept], rest[rest == rest[0]]).mean() < precision  # the largest such set


def test_probabilities_are_calibrated_by_held_out_bags(made):
    run, _ = made
    assert isinstance(final_step(run.model()), CalibratedLabelSets)
    assert run.manifest["about"]["parameters"]["calibrate"] == "bag"
    reliability = run._reliability()
    assert reliability.calibrated
    assert reliability.bags["bags"] == N_BAGS


def test_rows_of_one_instance_in_a_table_are_one_set():
    rows = [Correction("b", 0, "a", "label"), Correction("b", 1, "a", "label"), Correction("b", 0, "c", "label")]
    assert joined_labels(rows, True) == [("b", 1, "a"), ("b", 0, ["a", "c"])]
    assert joined_labels(rows, False) == [("b", 1, "a"), ("b", 0, "c")]
    assert joined_labels([rows[0], Correction("b", 0, "d", "also"), Correction("b", None, "x", "present")], False) == [
        ("b", 0, ["a", "d"]), ("b", None, "x")
    ]  # fmt: skip
    assert joined_labels([Correction("b", 0, "", "noise"), rows[0]], True) == [("b", 0, "a")]


# ---------------------------------------------------------------------------------------------------------------------
# Formats


def annotations_of(media, folder, n_files=3):
    """Windows of made files with 0 to 3 labels each."""
    rng = np.random.default_rng(2)
    rows, files = [], []
    for f in range(n_files):
        name = f"f{f}.{'wav' if media == 'audio' else 'png'}"
        files.append({"file": name, "seconds": 30.0} if media == "audio" else {"file": name, "width": 90, "height": 40})
        for i in range(5):
            place = {"start": 3.0 * i, "end": 3.0 * i + 3.0, "low": 0.0, "high": 8000.0}
            if media == "image":
                ring = [(15 * i, 5), (15 * i + 10, 5), (15 * i + 10, 30), (15 * i, 30)]
                place = {"left": 15 * i, "top": 5, "width": 10, "height": 25, "polygon": [list(p) for p in ring], "rings": [ring], "area": 250}  # noqa: E501  # fmt: skip
            labels = [name for name in NAMES if rng.random() < 0.4] or [""]
            rows += [
                {"file": name, **place, "label": label, "probability": 0.9 if label else 0.0, "runner_up": "",
                 "noise": 0.1 if label else 1.0, "mode": "transductive", "bag": name, "instance": i}
                for label in labels
            ]  # fmt: skip
    return Annotations(MEDIA[media], rows, files, NAMES, {"model": "noisy-or"}, folder, label_sets=True)


def sets_of(annotations):
    found = {}
    for row in annotations.rows:
        found.setdefault((row["bag"], row["instance"]), set()).update({row["label"]} - {""})
    return found


FORMATS = [("audio", name) for name in ("csv", "raven", "audacity", "birdnet", "label-studio")] + [
    ("image", "coco"),
    ("image", "csv"),
]


@pytest.mark.parametrize(("media", "name"), FORMATS)
def test_a_row_per_label_in_every_format_and_back(media, name, tmp_path):
    annotations = annotations_of(media, tmp_path)
    if name not in annotations.media_type.formats:
        pytest.skip("no format of it")
    paths = write_formats(annotations, tmp_path / "out", [name])
    path = paths[0] if len(paths) == 1 or name in ("coco", "label-studio") else tmp_path / "out" / name
    corrections, problems = compare_marks(annotations, read_marks(path, annotations, name))
    assert corrections == []
    assert problems == []
    # the same file read against a run that says something else: the sets of the file come out
    other = replace(annotations, rows=[{**own[0], "label": "", "noise": 1.0} for own in annotations.by_instance()])
    corrections, problems = compare_marks(other, read_marks(path, other, name))
    assert problems == []
    said = {(bag, i): {label} if isinstance(label, str) else {*label} for bag, i, label in corrections}
    assert said == {key: labels for key, labels in sets_of(annotations).items() if labels}


def test_a_deleted_selection_takes_one_label_away(tmp_path):
    annotations = annotations_of("audio", tmp_path)
    key, labels = next((key, labels) for key, labels in sets_of(annotations).items() if len(labels) > 1)
    gone = min(labels)
    write_formats(annotations, tmp_path, ["audacity"])
    track = tmp_path / "audacity" / f"{key[0]}.txt"
    lines = track.read_text().splitlines()
    at = lines.index(f"{3.0 * key[1]:.6f}\t{3.0 * key[1] + 3.0:.6f}\t{gone}")
    track.write_text("\n".join(lines[:at] + lines[at + 2 :]) + "\n")
    ((bag, i, left),), problems = compare_marks(annotations, read_marks(tmp_path / "audacity", annotations, "audacity"))
    assert problems == []
    assert (bag, i) == key
    assert ({left} if isinstance(left, str) else {*left}) == labels - {gone}


def test_a_row_left_out_of_the_long_table_says_nothing_and_an_empty_one_does(tmp_path):
    annotations = annotations_of("audio", tmp_path)
    key, labels = next((key, labels) for key, labels in sets_of(annotations).items() if len(labels) > 1)
    write_formats(annotations, tmp_path, ["csv"])
    table = tmp_path / "annotations.csv"
    lines = table.read_text().splitlines()
    column = lines[0].split(",").index("label")
    (at, *_) = [i for i, line in enumerate(lines) if line.split(",")[0] == key[0] and f",{key[1]}" in line[-3:]
                and line.split(",")[column]]  # fmt: skip
    table.write_text("\n".join(lines[:at] + lines[at + 1 :]) + "\n")
    assert compare_marks(annotations, read_marks(table, annotations, "csv")) == ([], [])
    cells = lines[at].split(",")
    gone, cells[column] = cells[column], ""
    table.write_text("\n".join([*lines[:at], ",".join(cells), *lines[at + 1 :]]) + "\n")
    ((bag, i, left),), _ = compare_marks(annotations, read_marks(table, annotations, "csv"))
    assert (bag, i) == key
    assert ({left} if isinstance(left, str) else {*left}) == labels - {gone}


def test_windows_are_joined_label_by_label():
    def row(start, label):
        return {"file": "f", "bag": "f", "start": start, "end": start + 2.0, "label": label, "probability": 0.5}

    rows = [row(0, "a"), row(0, "b"), row(2, "b"), row(4, "a"), row(4, "b"), row(6, "")]
    found = [
        (one["label"], one["start"], one["end"], one["windows"])
        for one in join_windows(rows, lambda r: r["label"] != "")
    ]
    assert found == [("a", 0, 2.0, 1), ("b", 0, 6.0, 3), ("a", 4, 6.0, 1)]


# ---------------------------------------------------------------------------------------------------------------------
# Boxes


def test_labels_stay_with_instances_when_others_come_and_go(tmp_path):
    made = make_soundscape(8, seconds=6.0, species_per_recording=(2, 3), random_state=1)
    made.write(tmp_path)
    options = {"labels": tmp_path / "labels.csv", "model": "noisy-or", "page": False, "jobs": 1}
    with Run.create(tmp_path / "recordings", tmp_path / "run", **options) as run:
        labels = run.labels
        rows = run.annotations()
        keys = [(row["bag"], row["instance"]) for row in rows]
        own = [i for i, key in enumerate(keys) if key[0] == keys[3][0]]
        key, gone = keys[own[1]], keys[own[0]]
        run.correct([(*key, labels[:2])])
        before = {key: row["labels"] for key, row in zip(keys, run.annotations(), strict=True)}
        run.remove(gone)
        now = {(row["bag"], row["instance"]): row["labels"] for row in run.annotations()}
        assert now == {other: said for other, said in before.items() if other != gone}
        middle = (rows[own[1]]["start"] + rows[own[1]]["end"]) / 2
        parts = run.split(key, at=middle)
        now = {(row["bag"], row["instance"]): {one["label"] for one in row["labels"]} for row in run.annotations()}
        assert [now[part] for part in parts] == [set(labels[:2])] * 2
        run.correct([(*parts[1], [labels[2]])])
        whole = run.merge(list(parts))
        now = {(row["bag"], row["instance"]): {one["label"] for one in row["labels"]} for row in run.annotations()}
        assert now[whole] == set(labels[:3])
        run.refit(write=False)
        now = {(row["bag"], row["instance"]): {one["label"] for one in row["labels"]} for row in run.annotations()}
        assert now[whole] == set(labels[:3])
        run.correct([(*whole, [labels[0], ...])])
        run.correct([(*whole, "")])
        run.correct([(*whole, [labels[0], ...])])  # in place of what was said before
        whole_row = next(row for row in run.annotations() if (row["bag"], row["instance"]) == whole)
        parts = run.split(whole, at=(whole_row["start"] + whole_row["end"]) / 2)
        assert sorted(run.row_of(*part) for part in parts) == sorted(run.supervision().open.tolist())
        run.merge(list(parts))
        assert len(run.supervision().open) == 1
        while run.corrections():
            run.undo(write=False)
        assert run.annotations() == rows


# ---------------------------------------------------------------------------------------------------------------------
# These at least


def labels_of(run, key):
    row = next(row for row in run.annotations() if (row["bag"], row["instance"]) == key)
    return {one["label"]: one["probability"] for one in row["labels"]}, row


def test_an_instance_may_be_said_to_carry_labels_at_least(tmp_path):
    data = make_gaussian_bags(n_bags=40, n_classes=4, random_state=0)
    write_dataset(data, tmp_path / "made.csv")
    with Run.create(tmp_path / "made.csv", tmp_path / "run", model="noisy-or", page=False) as run:
        rows = [row for row in run.annotations() if row["labels"] and row["mode"] == "transductive"]
        row = rows[0]
        key, before = (row["bag"], row["instance"]), {one["label"]: one["probability"] for one in row["labels"]}
        new = next(name for name in run.labels if name not in before)
        run.correct([(*key, [new, ...])])
        assert run.n_corrections == 1
        found, now = labels_of(run, key)
        assert found == {new: 1.0} | before  # the model's stay, which one label alone would have taken
        assert now["checked"] is False  # it is still asked for
        supervision = run.supervision()
        place = run.row_of(*key)
        sets = supervision.known_sets(supervision.dataset.class_names, np.arange(data.bags.n_instances))
        column = supervision.dataset.class_names.index(new)
        assert sets[place, column] == 1.0
        assert np.isnan(np.delete(sets[place], column)).all()
        assert new in run.result().label_sets[key[0]]
        run.refit(write=False)
        assert labels_of(run, key)[0][new] == 1.0
        run.close()
        with Run.open(tmp_path / "run") as again:
            assert labels_of(again, key)[0][new] == 1.0
            again.correct([(*key, [new])])  # and no others
            found, now = labels_of(again, key)
            assert found == {new: 1.0}
            assert now["checked"] is True
            again.undo(write=False)
            again.undo(write=False)
            assert labels_of(again, key)[0] == before


def test_at_least_of_nothing_or_of_a_model_of_one_label_is_refused(tmp_path):
    data = make_gaussian_bags(n_bags=20, random_state=0)
    write_dataset(data, tmp_path / "made.csv")
    with Run.create(tmp_path / "made.csv", tmp_path / "run", page=False) as run:
        row = run.annotations()[0]
        with pytest.raises(InputError, match="gives each instance one label"):
            run.correct([(row["bag"], row["instance"], [row["label"], ...])])
        for alone in ([...], ["", ...]):
            with pytest.raises(InputError, match=r"is said to carry '...' alone; name a label before it"):
                run.correct([(row["bag"], row["instance"], alone)])
        assert run.corrections() == []


# ---------------------------------------------------------------------------------------------------------------------
# Known by several labels


@pytest.mark.parametrize("model", ["noisy-or", "ored-background"])
def test_instances_may_be_known_by_several_labels(tmp_path, model):
    data = make_gaussian_bags(n_bags=40, n_classes=4, random_state=0)
    names = ["a", "b", "c", "d"]
    write_dataset(BagDataset(data.bags, data.Y, names, bag_names=list(map(str, range(40)))), tmp_path / "made.csv")
    two = next(i for i, labels in enumerate(data.label_sets) if len(labels) > 1)
    first, second = (names[c] for c in sorted(data.label_sets[two])[:2])
    (tmp_path / "known.csv").write_text(
        f"bag,instance,label\n{two},0,{first}\n{two},0,{second}\n{two},1,{first}\n", encoding="utf-8"
    )
    options = {"known": tmp_path / "known.csv", "model": model, "page": False}
    with Run.create(tmp_path / "made.csv", tmp_path / "run", **options) as run:
        supervision, place = run.supervision(), run.row_of(str(two), 0)
        if model == "noisy-or":
            assert run.material.known == [(str(two), 0, first), (str(two), 0, second), (str(two), 1, first)]
            sets = supervision.known_sets(names, np.array([place, place + 1]))
            assert sets[0].tolist() == [float(name in (first, second)) for name in names]
            assert sets[1].tolist() == [float(name == first) for name in names]
            assert set(labels_of(run, (str(two), 0))[0]) == {first, second}
            assert run.problems == []
        else:
            assert run.material.known == [(str(two), 1, first)]
            assert len(run.problems) == 1


def test_a_learner_of_one_label_leaves_instances_of_several_unknown():
    data = BagDataset(Bags(np.zeros((3, 1)), np.array([0, 3])), bag_names=["x"])
    found = put_together(data, {"x": ["a", "b"]}, [("x", 0, "a"), ("x", 0, "b"), ("x", 1, "b")])
    assert found.known.tolist() == [0, 1, -1]
    assert found.also.tolist() == [[0, 1]]
    assert found.of_one_label().known.tolist() == [-1, 1, -1]
    assert found.part(np.array([1, 2])).of_one_label().known.tolist() == [1, -1]
