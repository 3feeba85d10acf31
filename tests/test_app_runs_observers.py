"""Several observers through a run: their tables, what is learned of them, refit, undo, page, review; and bad tables."""

import json
import shutil

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from bagwise import BagDataset, Bags, Run, write_dataset
from bagwise.annotation import observer_log_odds
from bagwise.app.review.review import Review
from bagwise.app.runs._observed import Observed, ObserverRates
from bagwise.core.exceptions import FormatError, InputError
from bagwise.datasets import make_gaussian_bags
from bagwise.io.labels import read_labels

NAMES = ["crow", "robin", "tit", "wren"]
RATES = {"anna": (0.05, 0.02), "ben": (0.2, 0.05), "cleo": (0.4, 0.1)}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Bags without labels in a file, their labels, and a table of what three observers list."""
    folder = tmp_path_factory.mktemp("observers")
    data = make_gaussian_bags(n_bags=200, n_classes=4, separation=4.0, random_state=0)
    write_dataset(BagDataset(data.bags, bag_names=[f"b{i}" for i in range(len(data))]), folder / "made.csv")
    rng = np.random.default_rng(0)
    lists = {
        who: np.where(data.Y == 1, rng.random(data.Y.shape) >= m, rng.random(data.Y.shape) < v)
        for who, (m, v) in RATES.items()
    }
    rows = [
        f"b{i},{who},{';'.join(NAMES[c] for c in np.flatnonzero(own[i]))}"
        for who, own in lists.items()
        for i in range(len(data))
    ]
    (folder / "labels.csv").write_text("\n".join(["bag,observer,labels", *rows]) + "\n")
    return folder, data, lists


@pytest.fixture(scope="module")
def done(made):
    folder, _, _ = made
    Run.create(folder / "made.csv", folder / "run", labels=folder / "labels.csv").close()
    return folder / "run"


@pytest.fixture
def run(done, tmp_path):
    shutil.copytree(done, tmp_path / "run")
    with Run.open(tmp_path / "run") as opened:
        yield opened


def wrong(labels, data):
    return float(np.mean(labels != data.Y))


def test_rates_and_labels_are_learned_through_a_run(run, made):
    _, data, lists = made
    rows = {row["observer"]: row for row in run.observers()}
    for who, own in lists.items():
        assert rows[who]["bags"] == len(data)
        assert rows[who]["listed"] == own.sum()
        assert_allclose(rows[who]["missed"], np.mean(~own[data.Y == 1]), atol=0.05)
        assert_allclose(rows[who]["invented"], np.mean(own[data.Y == 0]), atol=0.05)
        assert_allclose(rows[who]["right"], np.mean(data.Y[own]), atol=0.05)
    found = run.supervision().dataset.Y
    assert wrong(found, data) < min(wrong(own, data) for own in lists.values())
    assert wrong(found, data) < wrong(sum(own.astype(int) for own in lists.values()) >= 2, data)
    names, truth = run.predictions().names(), np.array(NAMES)[data.instance_labels.instances]
    assert np.mean(names == truth) > 0.93
    assert "expected to be right" in run.expected()  # half of the bags are plain lists, by which it is calibrated
    assert run.problems == []
    assert "3 observers: anna, ben, cleo" in run.material.form


def test_disputed_labels_say_who_lists_them(run, made):
    _, data, lists = made
    rows = run.disputed_labels()
    both = np.logical_or.reduce([*lists.values()]) & ~np.logical_and.reduce([*lists.values()])
    assert len(rows) == both.sum()
    distance = [abs(row["probability"] - 0.5) for row in rows]
    assert distance == sorted(distance)
    for row in rows[:20]:
        place = int(row["bag"][1:]), NAMES.index(row["label"])
        assert row["listed_by"] == [who for who, own in lists.items() if own[place]]
        assert row["not_listed_by"] == [who for who, own in lists.items() if not own[place]]
    right = [(row["probability"] > 0.5) == data.Y[int(row["bag"][1:]), NAMES.index(row["label"])] for row in rows]
    assert np.mean(right) > 0.95


def test_what_a_person_settles_counts_and_a_refit_learns_from_it(run, made):
    _, data, _ = made
    before, rows = run.observers(), run.disputed_labels()
    there, gone = rows[0], rows[1]
    run.correct([(there["bag"], None, there["label"])])
    run.reject(gone["bag"], gone["label"])
    assert len(run.disputed_labels()) == len(rows) - 2
    assert there["label"] in run.result().label_sets[there["bag"]]
    assert gone["label"] not in run.result().label_sets[gone["bag"]]
    for row in rows[2:40]:  # somebody who knows settles many
        if data.Y[int(row["bag"][1:]), NAMES.index(row["label"])]:
            run.correct([(row["bag"], None, row["label"])])
        else:
            run.reject(row["bag"], row["label"])
    run.refit(page=False)
    assert len(run.disputed_labels()) == len(rows) - 40
    assert there["label"] in run.result().label_sets[there["bag"]]
    assert run.observers() != before
    again = Run.open(run.path)
    assert again.observers() == run.observers()
    again.close()
    for _ in range(40):
        run.undo(write=False)
    assert run.version == 0
    assert run.observers() == before
    assert run.disputed_labels() == rows


def test_page_and_review_show_them(run, done):
    page = (done / "report.html").read_text(encoding="utf-8")
    assert '<h2 id="observers">Observers</h2>' in page
    assert "Labels on which they disagree" in page
    assert "anna" in page
    review = Review(run)
    try:
        while not (reply := review.label_issues())["is_done"]:
            pass
        assert [row["observer"] for row in reply["observers"]] == [*RATES]
        rows = [row for row in reply["labels"] if row["kind"] == "disputed"]
        disputed = run.disputed_labels()[:100]
        assert [(row["bag"], row["label"]) for row in rows] == [(row["bag"], row["label"]) for row in disputed]
        others = {(row["bag"], row["label"]) for row in reply["labels"] if row["kind"] != "disputed"}
        assert not others & {(row["bag"], row["label"]) for row in rows}
        assert all(row["said"] is None for row in rows)
        review.correct([{"bag": rows[0]["bag"], "label": rows[0]["label"], "action": "present"}])
        now = [row for row in review.label_issues()["labels"] if row["kind"] == "disputed"]
        assert [row["said"] for row in now[:2]] == ["present", None]
    finally:
        review.close()


def test_a_folder_of_tables_is_one_table(run, made, tmp_path):
    folder, _, lists = made
    (tmp_path / "by").mkdir()
    for who, own in lists.items():
        rows = [f"b{i},{';'.join(NAMES[c] for c in np.flatnonzero(labels))}" for i, labels in enumerate(own)]
        (tmp_path / "by" / f"{who}.csv").write_text("\n".join(["bag,labels", *rows]) + "\n")
    with Run.create(folder / "made.csv", tmp_path / "again", labels=tmp_path / "by", page=False) as other:
        assert other.observers() == run.observers()
        assert other.disputed_labels() == run.disputed_labels()
        assert other.material.observed.lists == run.material.observed.lists


@pytest.mark.parametrize("model", ["noisy-or", "ored"])
def test_other_learners(made, tmp_path, model):
    folder, data, lists = made
    with Run.create(
        folder / "made.csv", tmp_path / "run", labels=folder / "labels.csv", model=model, page=False
    ) as run:
        assert_allclose([row["missed"] for row in run.observers()], [m for m, _ in RATES.values()], atol=0.08)
        assert wrong(run.supervision().dataset.Y, data) < min(wrong(own, data) for own in lists.values())


def test_a_learner_of_plain_lists_is_refused(made, tmp_path):
    folder, _, _ = made
    with pytest.raises(InputError, match="CLPL takes plain lists .* several observers .* use ored-background"):
        Run.create(folder / "made.csv", tmp_path / "run", labels=folder / "labels.csv", model="clpl", page=False)


def test_what_is_learned_is_checked_when_it_is_read():
    good = {"missed": {"a": 0.1}, "invented": {"a": 0.2}, "presence": {"b": {"wren": 0.7}}}
    assert vars(ObserverRates.of(good)) == good
    for key, value in (("missed", {"a": 1.5}), ("invented", {}), ("presence", {"b": {"wren": -0.1}})):
        with pytest.raises(InputError, match="no numbers from 0 to 1"):
            ObserverRates.of(good | {key: value})


def odds(*values):
    return float(1 / (1 + np.exp(-np.sum(values))))


def test_all_together_by_hand():
    no, yes = observer_log_odds([0.0, 1.0])
    observed = Observed({
        "anna": {"x": ["wren", "tit?"], "y": []},
        "ben": {"x": ["wren", "!crow", "jay?0.7"], "y": ["crow|jay"], "z": ["tit?"]},
    })  # fmt: skip
    assert observed.open == {"x": ["jay", "tit", "wren"], "y": ["crow", "jay"], "z": ["tit"]}
    before = observed.weighed(None)
    assert before.listed == {"x": ["wren"], "y": [], "z": []}
    assert np.isnan(before.marks["z"].values["tit"])
    assert before.marks["y"].groups == [("crow", "jay")]
    assert before.marks["y"].values == pytest.approx({"crow": odds(no), "jay": odds(no)})  # of anna
    expected = {"jay": odds(no, np.log(0.7 / 0.3)), "tit": odds(no), "wren": odds(yes, yes)}
    assert before.marks["x"].values == pytest.approx(expected)
    rates = ObserverRates({"anna": 0.5}, {"anna": 0.4}, {"x": {"wren": 0.995, "tit": 0.001}})
    after = observed.weighed(rates)  # ben came later
    assert after.marks["x"].values["wren"] == 1.0
    assert after.marks["x"].values["tit"] == 0.0
    jay = odds(float(observer_log_odds(0.0, 0.5, 0.4)), np.log(0.7 / 0.3))
    assert after.marks["x"].values["jay"] == pytest.approx(jay)
    assert after.listed["x"] == [*["jay"] * (jay > 0.5), "wren"]


# -- tables -----------------------------------------------------------------------------------------------------------


def read(tmp_path, text, **options):
    (tmp_path / "t.csv").write_text(text)
    return read_labels(tmp_path / "t.csv", repeats="join", marks=True, **options)


def test_a_column_says_who_listed_what(tmp_path):
    table = read(
        tmp_path, "file,label,observer\na.wav,wren,Ada\na.wav,tit,Ada\na.wav,wren,Ben\nb.wav,,Ben\nb.wav,x,Ada\n"
    )
    assert table.names == ["a.wav", "b.wav"]
    assert table.label_sets == [["wren", "tit"], ["x"]]
    assert {who: dict(zip(own.names, own.label_sets, strict=True)) for who, own in table.observers.items()} == {
        "Ada": {"a.wav": ["wren", "tit"], "b.wav": ["x"]}, "Ben": {"a.wav": ["wren"], "b.wav": []},
    }  # fmt: skip
    assert table.observers["Ben"].place(1) == f"{tmp_path / 't.csv'}, row 5"
    assert "2 observers: Ada, Ben" in table.form
    assert table.problems == []  # two rows of a file are those of two observers
    part = table.part([1])
    assert {who: own.names for who, own in part.observers.items()} == {"Ada": ["b.wav"], "Ben": ["b.wav"]}
    lists = read(tmp_path, "file,observer,labels\na.wav,Ada,wren;tit\na.wav,Ben,wren\n")
    assert lists.observers["Ada"].label_sets == [["wren", "tit"]]
    columns = read(tmp_path, "file,observer,wren,tit\na.wav,Ada,1,0\na.wav,Ben,1,1\n")
    assert columns.observers["Ben"].label_sets == [["wren", "tit"]]
    marks = read(tmp_path, "file,observer,labels,possible\na.wav,Ada,wren,tit\na.wav,Ben,wren,\n")
    assert marks.observers["Ada"].label_sets == [["wren", "tit?"]]
    folded = read(tmp_path, "file,observer,labels\na.wav,Ada,Wren\na.wav,Ben,wren\nb.wav,Ben,wren\n", fold_case=True)
    assert {label for own in folded.observers.values() for labels in own.label_sets for label in labels} == {"wren"}


def test_an_observer_of_each_file_is_a_remark_on_it(tmp_path):
    table = read(tmp_path, "file,observer,label\na.wav,Ada,wren\nb.wav,Ben,tit\nc.wav,,tit\n")
    assert table.observers == {}
    assert "not used: observer" in table.form


def test_observers_without_names(tmp_path):
    text = "file,observer,label\na.wav,Ada,wren\na.wav,Ben,tit\nb.wav, ,tit\n"
    with pytest.raises(FormatError, match=r"t.csv, row 4: the observer is missing; write who .*--columns FILE LABEL"):
        read(tmp_path, text)
    table = read(tmp_path, text, name="file", label="label")  # the cure
    assert table.label_sets == [["wren", "tit"], ["tit"]]
    assert table.observers == {}


def test_what_one_observer_says_twice_is_an_error_and_disagreeing_is_none(tmp_path):
    data = make_gaussian_bags(n_bags=12, random_state=0)
    write_dataset(BagDataset(data.bags), tmp_path / "made.csv")
    rows = [f"{i},{who},{sorted(labels)[0]}" for i, labels in enumerate(data.label_sets) for who in ("Ada", "Ben")]
    text = "\n".join(["bag,observer,labels", *rows]) + "\n"
    (tmp_path / "t.csv").write_text(text.replace("1,Ben,", "1,Ben,9;!9;"))
    with pytest.raises(FormatError, match="t.csv, row .*'9' and '!9' say two things of '9'"):
        Run.create(tmp_path / "made.csv", tmp_path / "run", labels=tmp_path / "t.csv", page=False)
    (tmp_path / "t.csv").write_text(text.replace("1,Ben,", "1,Ben,!9;").replace("1,Ada,", "1,Ada,9;"))
    with Run.create(tmp_path / "made.csv", tmp_path / "other", labels=tmp_path / "t.csv", page=False) as run:
        row = next(row for row in run.disputed_labels() if row["label"] == "9")
        assert (row["listed_by"], row["not_listed_by"]) == (["Ada"], ["Ben"])


def test_observers_of_different_files_are_taken_as_they_are(made, tmp_path):
    folder, _, lists = made
    (tmp_path / "by").mkdir()
    for (who, own), half in zip([*lists.items()][:2], (range(100), range(100, 200)), strict=True):
        rows = [f"b{i},{';'.join(NAMES[c] for c in np.flatnonzero(own[i]))}" for i in half]
        (tmp_path / "by" / f"{who}.csv").write_text("\n".join(["bag,labels", *rows]) + "\n")
    with Run.create(folder / "made.csv", tmp_path / "run", labels=tmp_path / "by", page=False) as run:
        assert run.observers() == run.disputed_labels() == []
        assert "no two of them looked at the same" in run.material.form
        assert_array_equal(run.supervision().dataset.Y[:100], lists["anna"][:100])


def test_a_run_whose_kept_rates_are_damaged_is_refused(run):
    path = run.path / ".run" / "supervision.json"
    kept = json.loads(path.read_text())
    assert set(kept["observed"]) == set(RATES)
    kept["observed"]["anna"] = ["b0"]
    path.write_text(json.dumps(kept))
    run.close()
    with pytest.raises(FormatError, match="is damaged"):
        Run.open(run.path)


def test_later_files_and_a_trained_model(made, done, tmp_path):
    """A model from elsewhere annotates with what all say together; what it does not know is left out and named."""
    _, data, _ = made
    write_dataset(
        BagDataset(Bags.from_list([data.bags[i] for i in range(4)]), bag_names=list("wxyz")), tmp_path / "m.csv"
    )
    (tmp_path / "l.csv").write_text(
        "bag,observer,labels\nw,Ada,wren;tit\nw,Ben,wren\nx,Ada,heron\nx,Ben,wren\ny,Ada,wren\nz,Ben,tit\n"
    )
    options = {"labels": tmp_path / "l.csv", "model": done / "model.bagwise", "page": False}
    with Run.create(tmp_path / "m.csv", tmp_path / "run", **options) as run:
        assert run.observers()[0] == {"observer": "Ada", "bags": 2, "listed": 3}  # nothing is learned of them
        assert run.disputed_labels() == []
        assert any("does not know heron" in message for _, message in run.problems)
        assert {row["mode"] for row in run.annotations() if row["bag"] == "x"} == {"inductive"}
        assert {row["mode"] for row in run.annotations() if row["bag"] == "w"} == {"transductive"}
