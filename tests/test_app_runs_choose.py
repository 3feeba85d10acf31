"""`--model auto`: its choice against an explicit loop over learners and folds, and what a run keeps of it."""

import json
from dataclasses import replace

import numpy as np
import pytest
from sklearn.model_selection import GroupKFold

import bagwise
from bagwise import BagDataset, Bags, Run, write_dataset
from bagwise.annotation import CLPL, MostFrequentAnnotator, ORedForest, ORedLogisticRegression
from bagwise.app.runs import choose
from bagwise.app.runs.learner import apply_settings
from bagwise.catalog import USUAL, make_model
from bagwise.core.bags import offsets_of
from bagwise.core.exceptions import InputError
from bagwise.datasets import make_gaussian_bags, make_soundscape
from bagwise.io.model import read_about
from bagwise.model_selection import choose_model, evaluate
from made import run


@pytest.fixture
def quick(monkeypatch):
    """A forest that is tried in no time."""
    monkeypatch.setitem(choose.TRIAL, "ored-forest-background", {"n_estimators": 5, "n_rounds": 1, "n_round_trees": 5})


@pytest.fixture(scope="module")
def data():
    made = make_gaussian_bags(n_bags=40, n_features=4, n_classes=4, separation=2.0, random_state=0)
    return BagDataset(made.bags, made.Y, list("abcd"), made.instance_labels, name="made")


# -- choose_model -----------------------------------------------------------------------------------------------------


def literal_listed(model, bags, Y, seen):
    shares = []
    for b, listed in enumerate(Y):
        labels = {c for c in range(Y.shape[1]) if listed[c] and seen[:, c].mean() <= 0.9}
        if not labels:
            continue
        scores = model.instance_decision_function(bags[b : b + 1])
        scores[:, seen.mean(axis=0) > 0.9] = -np.inf
        shares.append(np.mean([int(row.argmax()) in labels for row in scores]))
    return np.mean(shares)


def literal_explained(model, bags, Y, seen):
    shares = []
    for b, listed in enumerate(Y):
        labels = {c for c in range(Y.shape[1]) if listed[c] and seen[:, c].any()}
        if labels:
            given = set(model.annotate(bags[b : b + 1], Y[b : b + 1]).tolist())
            shares.append(len(labels & given) / len(labels))
    return np.mean(shares)


@pytest.mark.parametrize("seed", range(6))
def test_the_choice_is_that_of_a_loop(seed):
    made = make_gaussian_bags(n_bags=36, n_features=3, n_classes=4, separation=1.5, random_state=seed)
    Y = made.Y.copy()
    if seed % 2:  # a label that every bag lists
        Y[:, 0] = 1
    sizes = np.maximum(made.bags.sizes, Y.sum(axis=1)).astype(int)
    rng = np.random.default_rng(seed)
    bags = Bags(rng.normal(size=(sizes.sum(), 3)), offsets_of(sizes)) if seed % 2 else made.bags
    data = BagDataset(bags, Y)
    groups = np.arange(36) // 2
    candidates = {"guess": MostFrequentAnnotator(), "ored": ORedLogisticRegression(), "clpl": CLPL()}
    choice = choose_model(candidates, data, cv=3, groups=groups, random_state=seed)
    expected = {}
    for name, estimator in candidates.items():
        figures = []
        splitter = GroupKFold(3, shuffle=True, random_state=seed)
        for train, test in splitter.split(np.zeros(36), groups=groups):
            assert not set(groups[train]) & set(groups[test])
            estimator.fit(bags[train], Y[train])
            figures.append([
                literal_listed(estimator, bags[test], Y[test], Y[train]),
                literal_explained(estimator, bags[test], Y[test], Y[train]),
            ])  # fmt: skip
        expected[name] = np.mean(figures, axis=0)
    for row in choice.rows:
        np.testing.assert_allclose([row["listed"], row["explained"]], expected[row["model"]])
        np.testing.assert_allclose(row["score"], expected[row["model"]].mean())
    best = max(round(figures.mean(), 3) for figures in expected.values())
    assert choice.name == next(name for name, figures in expected.items() if round(figures.mean(), 3) == best)


def test_the_figures_are_those_of_evaluate(data):
    candidates = {name: make_model(name) for name in ("ored", "clpl")}
    choice = choose_model(candidates, data, cv=4, random_state=2)
    for row in choice.rows:
        records = evaluate(make_model(row["model"]), data, cv=4, random_state=2, by_labels=True)
        for measure in ("listed", "explained", "average_precision"):
            assert row[measure] == pytest.approx(np.mean([record[measure] for record in records]))
    assert "listed" not in evaluate(make_model("ored"), data, cv=4)[0]


def test_ties_go_to_the_first_and_failures_are_told(data):
    same = {name: ORedLogisticRegression() for name in ("one", "two")}
    assert choose_model(same, data, cv=3).name == "one"
    assert choose_model(dict(reversed(same.items())), data, cv=3).name == "two"
    choice = choose_model({"bad": ORedForest(n_rounds=0), "good": CLPL()}, data, cv=3)
    assert choice.name == "good"
    assert "'n_rounds' parameter" in choice.rows[0]["why"]
    with pytest.raises(InputError, match="None of bad could be tried; the first: .*n_rounds"):
        choose_model({"bad": ORedForest(n_rounds=0)}, data, cv=3)
    with pytest.raises(InputError, match="There are 3 groups and 40 labelled bags"):
        choose_model(same, data, groups=[0, 1, 2])


def test_unlabelled_bags_are_not_looked_at_and_empty_ones_train_a_background(data):
    seen = {}

    class Spy(MostFrequentAnnotator):
        def fit(self, X, Y):
            seen.setdefault(type(self).__name__, []).append(len(X))
            return super().fit(X, Y)

    class Knowing(Spy):
        def __sklearn_tags__(self):
            tags = super().__sklearn_tags__()
            tags.bag_tags.background = True
            return tags

    Y, labelled = data.Y.copy(), np.arange(40) < 30
    Y[20:] = 0  # ten without labels, ten that nobody labelled
    choose_model({"plain": Spy(), "knowing": Knowing()}, replace(data, Y=Y, labelled=labelled), cv=2)
    assert sum(seen["Spy"]) == 20
    assert sum(seen["Knowing"]) == 30


# -- choose_learner ---------------------------------------------------------------------------------------------------


def make(name, settings):
    return apply_settings(make_model(name), settings)


def test_windows_of_one_recording_are_one_group():
    files = np.repeat(["b.wav", "a.wav", "b.wav"], [2, 1, 3]).astype(object)
    data = BagDataset(Bags(np.arange(6.0)[:, None], [0, 2, 3, 6]), np.ones((3, 1)), locations={"file": files})
    assert choose.files_of(data).tolist() == [1, 0, 1]
    assert choose.files_of(replace(data, locations=None)).tolist() == [0, 1, 2]
    one = {"file": np.array(["t.csv"] * 6, dtype=object)}
    assert choose.files_of(replace(data, locations=one)).tolist() == [0, 1, 2]


def test_few_files_are_said_so(data):
    choice = choose.choose_learner(make, data[:5])
    assert choice == {
        "model": "ored-background", "rows": [], "folds": 0, "bags": 5, "instances": data[:5].bags.n_instances,
        "why": "5 labelled files are too few to compare models; ored-background is the default",
    }  # fmt: skip
    assert choose.choice_table(choice) == f"model: ored-background ({choice['why']})"


def test_many_instances_are_drawn_by_files(data, quick, monkeypatch):
    monkeypatch.setattr(choose, "MOST_INSTANCES", 60)
    files = np.repeat([f"{b // 2}.wav" for b in range(40)], data.bags.sizes).astype(object)
    tried = []
    monkeypatch.setattr(
        choose, "choose_model", lambda candidates, trial, **kw: tried.append((trial, kw)) or choose_model(
            candidates, trial, **kw),
    )  # fmt: skip
    choice = choose.choose_learner(make, replace(data, locations={"file": files}), seed=1)
    ((trial, options),) = tried
    assert trial.bags.n_instances <= 60 or len(np.unique(options["groups"])) == choose.FEWEST_FILES
    assert len(trial) == choice["bags"] < 40
    names = set(trial.locations["file"])
    assert all(len([f for f in names if f == name]) for name in names)
    kept = [b for b in range(40) if f"{b // 2}.wav" in names]
    np.testing.assert_array_equal(trial.bags.instances, data.bags[kept].instances)  # whole files, in their order


# -- what people see --------------------------------------------------------------------------------------------------


def test_a_run_keeps_how_its_model_was_chosen(quick, tmp_path):
    made = make_soundscape(8, seconds=6.0, species_per_recording=(1, 2), random_state=1)
    made.write(tmp_path)
    out = tmp_path / "run"
    command = (
        "annotate",
        tmp_path / "recordings",
        "--labels",
        tmp_path / "labels.csv",
        "--out",
        out,
        "--model",
        "auto",
    )
    result = run(*command, "--jobs", 1, "--format", "csv")
    assert result.exit_code == 0, result.output
    choice = json.loads((out / "manifest.json").read_text())["choice"]
    assert [row["model"] for row in choice["rows"]] == list(USUAL)
    assert f"chosen: {choice['model']}, the highest mean" in result.stdout
    page = (out / "report.html").read_text()
    assert f"<b>{choice['model']}</b></td>" in page
    assert "Choice of model" in page
    with Run.open(out) as opened:
        assert opened.manifest["about"]["model"] == choice["model"]
        assert opened.result().choice == choice
        before = (out / "manifest.json").read_bytes()
    assert "chosen:" in run(*command, "--jobs", 1, "--format", "csv").stdout
    assert (out / "manifest.json").read_bytes() == before
    again = run(*command[:-4], "--out", tmp_path / "again", "--model", "auto", "--set", "l2=1")
    assert again.exit_code == 1
    assert "--model auto tries several models, and --set l2 is a setting of one; name the model." in again.stderr
    wrong = run(*command[:-4], "--out", tmp_path / "again", "--model", "ored-forrest")
    assert "There is no model 'ored-forrest'; did you mean ored-forest" in wrong.stderr


def test_fit_chooses_too(quick, data, tmp_path):
    write_dataset(data, tmp_path / "made.csv")
    out = tmp_path / "m.bagwise"
    result = run("fit", tmp_path / "made.csv", "--out", out, "--model", "auto")
    assert result.exit_code == 0, result.output
    about = read_about(out)
    assert about["model"] == about["choice"]["model"] in USUAL
    assert f"trained {about['model']} on 40 bags" in result.stdout
    assert bagwise.load(out).predict(data.bags).shape == data.Y.shape
    as_json = run("fit", tmp_path / "made.csv", "--out", tmp_path / "j.bagwise", "--model", "auto", "--json")
    assert json.loads(as_json.stdout)["choice"] == about["choice"]
    refused = run("fit", tmp_path / "made.csv", "--out", out, "--model", "auto", "--select", "l2", "--grid", "1,2")
    assert "--model auto tries several models, and --select l2 is a setting of one" in refused.stderr


def test_labels_that_cannot_be_distinguished_are_remarked_on_before_the_fit(tmp_path):
    """Two species that are only ever listed together: no file is blamed, and the one that got nothing is named."""
    made = make_soundscape(8, seconds=6.0, species_per_recording=(1, 2), random_state=1)
    sounds, _, _ = made.write(tmp_path)
    rows = ["file,labels", *(f"{name},{'left;right' if i % 2 else 'left;right;third'}"
                             for i, name in enumerate(made.names))]  # fmt: skip
    (tmp_path / "both.csv").write_text("\n".join(rows))
    command = ("annotate", sounds, "--labels", tmp_path / "both.csv", "--out", tmp_path / "run", "--jobs", 1)
    result = run(*command, "--no-page", "--format", "csv")
    assert result.exit_code == 3, result.output
    assert "Note: Listed by every one of the 8 labelled recordings" in result.stderr
    assert "'left', 'right'" in result.stderr
    assert result.stderr.count("Problem: The label ") == result.stderr.count("Problem") == 1
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text())
    assert len(manifest["remarks"]) == 1
    assert f"remarks      {manifest['remarks'][0]}" in run("info", tmp_path / "run").stdout
    with Run.open(tmp_path / "run") as opened:
        row = opened.annotations()[0]
        opened.correct([(row["bag"], row["instance"], "left")])
        assert "'left'" not in opened.result().remarks[0]  # known by an instance now
