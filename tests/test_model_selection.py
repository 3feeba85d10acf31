"""The two protocols, done again by hand; records, summaries and tables."""

import json

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.model_selection import GroupKFold, KFold
from sklearn.preprocessing import StandardScaler

from bagwise import BagDataset, Bags, ORedLogisticRegression, make_pipeline, metrics
from bagwise.annotation import MostFrequentAnnotator, SupervisedAnnotator
from bagwise.app.report.tables import format_summary, format_table
from bagwise.app.runs.predictions import annotate_piece
from bagwise.catalog import CATALOG, make_model
from bagwise.core.exceptions import InputError
from bagwise.datasets import make_gaussian_bags
from bagwise.io.tables import json_lines, write_csv, write_json_lines
from bagwise.model_selection import evaluate, rank_loss_scorer, search_by_rank_loss, selection_curve, summarize
from bagwise.preprocessing import PerInstance


@pytest.fixture(scope="module")
def data():
    made = make_gaussian_bags(n_bags=50, n_features=4, n_classes=3, separation=4.0, random_state=0)
    labels = made.instance_labels.instances.copy()
    labels[::5] = -1  # some unknown
    return BagDataset(made.bags, made.Y, list("abc"), Bags(labels, made.bags.offsets), name="made")


def test_inductive_is_cross_validation_by_hand(data):
    records = evaluate(ORedLogisticRegression(), data, cv=4, random_state=3)
    assert [record["fold"] for record in records] == [0, 1, 2, 3]
    for record, (train, test) in zip(records, KFold(4, shuffle=True, random_state=3).split(np.zeros(50)), strict=True):
        model = ORedLogisticRegression().fit(data.bags[train], data.Y[train])
        truth = data.instance_labels[test].instances
        right = model.predict_instances(data.bags[test]) == truth
        assert record["accuracy"] == pytest.approx(right[truth >= 0].mean())
        assert record["hamming_loss"] == pytest.approx(np.mean(model.predict(data.bags[test]) != data.Y[test]))
        scores = model.decision_function(data.bags[test])
        assert record["average_precision"] == pytest.approx(metrics.average_precision(data.Y[test], scores))
        assert (record["n_train"], record["n_test"]) == (len(train), len(test))
        assert record["model"] == "ORedLogisticRegression"


def test_transductive_trains_and_annotates_the_same_bags(data):
    (record,) = evaluate(ORedLogisticRegression(), data, mode="transductive")
    model = ORedLogisticRegression().fit(data.bags, data.Y)
    truth = data.instance_labels.instances
    assert record["accuracy"] == pytest.approx((model.annotate(data.bags, data.Y) == truth)[truth >= 0].mean())
    assert "hamming_loss" not in record


def test_groups_are_never_split(data):
    groups = np.arange(50) // 5

    seen = []

    class Spy(MostFrequentAnnotator):
        def fit(self, X, Y):
            seen.append(len(X))
            return super().fit(X, Y)

    records = evaluate(Spy(), data, cv=5, groups=groups)
    expected = [len(test) for _, test in GroupKFold(5, shuffle=True, random_state=0).split(np.zeros(50), groups=groups)]
    assert [record["n_test"] for record in records] == expected == [10] * 5
    assert seen == [40] * 5


def test_parallel_folds_pipelines_and_progress(data):
    pipe = make_pipeline(PerInstance(StandardScaler()), SupervisedAnnotator())
    calls = []
    alone = evaluate(pipe, data, cv=3, progress=lambda done, total: calls.append((done, total)))
    together = evaluate(pipe, data, cv=3, n_jobs=2)
    assert calls == [(1, 3), (2, 3), (3, 3)]
    for one, other in zip(alone, together, strict=True):
        assert one["accuracy"] == other["accuracy"]
    splitter = KFold(2)
    assert len(evaluate(pipe, data, cv=splitter)) == 2


def test_data_without_instance_labels_gives_bag_measures_only(data):
    bare = BagDataset(data.bags, data.Y)
    records = evaluate(MostFrequentAnnotator(), bare, cv=2)
    assert "accuracy" not in records[0]
    assert "one_error" in records[0]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"mode": "deductive"}, "mode='deductive' is not known"),
        ({"cv": 1}, "use at least 2 folds"),
        ({"dataset": "unlabelled"}, "carries no bag labels"),
        ({"dataset": "bare", "estimator": SupervisedAnnotator()}, "SupervisedAnnotator needs instance labels"),
        ({"estimator": StandardScaler(), "mode": "transductive"}, "does not annotate instances"),
    ],
    ids=str,
)
def test_bad_requests(data, change, message):
    sets = {None: data, "unlabelled": BagDataset(data.bags), "bare": BagDataset(data.bags, data.Y)}
    dataset = sets[change.pop("dataset", None)]
    with pytest.raises(InputError, match=message):
        evaluate(change.pop("estimator", MostFrequentAnnotator()), dataset, **change)


def test_summary_and_tables(data, tmp_path):
    records = evaluate(MostFrequentAnnotator(), data, cv=4, name="dummy")
    records += evaluate(MostFrequentAnnotator(), data, mode="transductive", name="dummy")
    inductive, transductive = summarize(records)
    values = [record["accuracy"] for record in records[:4]]
    assert_allclose(inductive["accuracy"], np.mean(values))
    assert_allclose(inductive["accuracy_std"], np.std(values, ddof=1))
    assert transductive["accuracy_std"] is None
    text = format_summary([inductive, transductive])
    assert "made, inductive, 4 folds: mean ± standard deviation" in text
    assert f"{100 * np.mean(values):.1f} ± {100 * np.std(values, ddof=1):.1f}" in text
    assert max(map(len, text.splitlines())) <= 80
    write_json_lines(records, tmp_path / "r.jsonl")
    lines = (tmp_path / "r.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == json.loads(json.dumps(records))
    assert json_lines([{"a": np.float64(0.5), "b": np.arange(2)}]) == '{"a": 0.5, "b": [0, 1]}\n'
    with pytest.raises(TypeError, match="cannot be written as JSON"):
        json_lines([{"a": object()}])
    assert format_table(["x", "y"], [["a", "1"], ["bb", "22"]], right=[1]) == "x    y\n------\na    1\nbb  22"


def test_pieces_of_annotations(data, tmp_path):
    """Labels, probabilities and truth by name, beside where each instance is, for tables that are annotated."""
    named = BagDataset(
        data.bags, data.Y, list("abc"), data.instance_labels, [f"w{i}" for i in range(50)],
        locations={"second": np.arange(data.bags.n_instances) / 10},
    )  # fmt: skip
    model = ORedLogisticRegression().fit(named.bags, named.label_sets)
    piece = annotate_piece(model, named, use_labels=True)
    labels, proba = model.annotate(named.bags, named.label_sets), model.annotate_proba(named.bags, named.label_sets)
    assert list(piece)[:5] == ["bag", "instance", "label", "probability", "truth"]
    assert piece["label"] == labels.tolist()
    np.testing.assert_allclose(piece["probability"], proba.max(axis=1), atol=5e-5)
    assert piece["truth"][:2] == ["", "abc"[data.instance_labels.instances[1]]]
    start = data.bags.offsets[1]
    assert (piece["bag"][start], piece["instance"][start], piece["second"][start]) == ("w1", 0, start / 10)
    assert set(piece["mode"]) == {"transductive"}
    alone = annotate_piece(model, named, use_labels=False)
    assert alone["label"] == model.predict_instances(named.bags).tolist()
    write_csv([], tmp_path / "empty.csv")
    assert (tmp_path / "empty.csv").read_text() == "\n"


def test_catalogue_makes_fresh_models(data):
    for name in CATALOG:
        one, other = make_model(name), make_model(name)
        assert one is not other
    with pytest.raises(InputError, match="no model 'x'; did you mean ored-background, "):
        make_model("x")


def test_rank_loss_selects_without_instance_labels(data):
    bare = BagDataset(data.bags, data.Y)
    values = [0.01, 1.0, 1000.0]
    pipe = make_pipeline(PerInstance(StandardScaler()), ORedLogisticRegression())
    rows = selection_curve(pipe, data, "l2", values, cv=3)
    by_hand = []
    for value in values:
        losses = []
        for train, test in KFold(3, shuffle=True, random_state=0).split(np.zeros(50)):
            model = clone(pipe).set_params(oredlogisticregression__l2=value).fit(data.bags[train], data.Y[train])
            losses.append(metrics.rank_hinge_loss(data.Y[test], model.decision_function(data.bags[test])))
        by_hand.append(np.mean(losses))
    assert_allclose([row["rank_loss"] for row in rows], by_hand)
    assert [row["selected"] for row in rows] == [i == int(np.argmin(by_hand)) for i in range(3)]
    assert (
        rows[0]["accuracy"]
        == evaluate(clone(pipe).set_params(oredlogisticregression__l2=0.01), data, "transductive")[0]["accuracy"]
    )
    assert "accuracy" not in selection_curve(pipe, bare, "l2", values, cv=3)[0]
    search = search_by_rank_loss(pipe, "l2", values, cv=3)
    (record,) = evaluate(search, data, "transductive")
    assert record["selected"] == {"l2": values[int(np.argmin(by_hand))]}
    assert len(evaluate(search, data, cv=2)) == 2
    with pytest.raises(InputError, match="has no parameter 'alpha' to select; it has background"):
        search_by_rank_loss(pipe, "alpha", values)
    with pytest.raises(InputError, match="no values of 'l2'"):
        search_by_rank_loss(pipe, "l2", [])
    with pytest.raises(InputError, match="'l2' parameter"):
        search_by_rank_loss(pipe, "l2", [1.0, -1.0], cv=3).fit(data.bags, data.Y)


def test_curve_without_accuracy_where_there_is_none(data):
    """No instance label is known, or the model names no instances."""
    unknown = BagDataset(
        data.bags, data.Y, data.class_names, Bags(np.full(data.bags.n_instances, -1), data.bags.offsets)
    )
    for model, known, parameter in ((ORedLogisticRegression(), unknown, "l2"), (make_model("mimlsvm"), data, "C")):
        rows = selection_curve(model, known, parameter, [1.0, 10.0], cv=2)
        assert all(np.isfinite(row["rank_loss"]) and "accuracy" not in row for row in rows)


def test_rank_loss_of_a_fold_whose_class_was_not_in_training(data):
    """A class of one bag: in the fold that holds it, the others' labels count."""
    sets = [{"abc"[c] for c in np.flatnonzero(row)} for row in data.Y]
    rare = [labels | {"rare"} if i == 7 else labels for i, labels in enumerate(sets)]
    train = np.setdiff1d(np.arange(50), [7, 8, 9])
    model = ORedLogisticRegression().fit(data.bags[train], [rare[i] for i in train])
    held_out = data.bags[[7, 8, 9]]
    assert rank_loss_scorer(model, held_out, rare[7:10]) == rank_loss_scorer(model, held_out, sets[7:10])


def test_em_reaches_the_papers_accuracy(real_data):
    """Letter-Carroll as rebuilt, the paper's setting: at least 69 % inductive and 89 % transductive."""
    from bagwise.datasets import load_npz

    letters = load_npz(real_data / "letter_carroll_rebuilt.npz")
    model = make_model("ored-em")
    assert summarize(evaluate(model, letters))[0]["accuracy"] >= 0.69
    assert summarize(evaluate(model, letters, mode="transductive"))[0]["accuracy"] >= 0.89
