"""Each measure against its formula written out literally, hand-computed values, and the papers' examples."""

import itertools
import os
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
import sklearn.metrics
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.stats import binomtest
from sklearn.calibration import calibration_curve

from bagwise import metrics
from bagwise.core.bags import Bags
from bagwise.core.exceptions import InputError
from bagwise.metrics import wilson_interval

DATA = Path(os.environ.get("BAGWISE_DATA", Path(__file__).parents[2] / "shared" / "data"))
SCORE_MEASURES = [
    metrics.ranking_loss,
    metrics.one_error,
    metrics.coverage,
    metrics.average_precision,
    metrics.rank_hinge_loss,
]

# ------------------------------------------------------------------------------------------------------------
# Literal truths: loops over pairs, straight from the papers


def label_sets(row):
    return np.flatnonzero(row), np.flatnonzero(1 - row)


def ranking_loss_literal(Y, F):
    total = 0.0
    for row, f in zip(Y, F, strict=True):
        labels, others = label_sets(row)
        if len(labels) and len(others):
            wrong = sum(f[j] <= f[k] for j in labels for k in others)
            total += wrong / (len(labels) * len(others))
    return total / len(Y)


def one_error_literal(Y, F):
    errors = []
    for row, f in zip(Y, F, strict=True):
        labels, _ = label_sets(row)
        if len(labels):
            top = [j for j in range(len(f)) if all(f[j] >= f[k] for k in range(len(f)))]
            errors.append(any(j not in labels for j in top))
    return sum(errors) / len(errors)


def coverage_literal(Y, F):
    steps = 0
    for row, f in zip(Y, F, strict=True):
        labels, _ = label_sets(row)
        if len(labels):
            steps += max(sum(value >= f[j] for value in f) for j in labels) - 1
    return steps / len(Y)


def average_precision_literal(Y, F):
    total = 0.0
    for row, f in zip(Y, F, strict=True):
        labels, _ = label_sets(row)
        if not len(labels):
            total += 1
            continue
        shares = [sum(f[k] >= f[j] for k in labels) / sum(value >= f[j] for value in f) for j in labels]
        total += sum(shares) / len(labels)
    return total / len(Y)


def rank_hinge_literal(Y, F):
    losses = []
    for row, f in zip(Y, F, strict=True):
        labels, others = label_sets(row)
        if len(labels) and len(others):
            hinge = sum(max(0.0, 1 - (f[j] - f[k])) for j in labels for k in others)
            losses.append(hinge / (len(labels) * len(others)))
    return sum(losses) / len(losses)


def clustering_accuracy_literal(y, labels):
    """Every one-to-one map, by permutations of the classes padded with classes that nobody has."""
    classes, clusters = sorted(set(y)), sorted(set(labels))
    padded = classes + [object() for _ in clusters]
    best = 0
    for chosen in itertools.permutations(padded, len(clusters)):
        match = dict(zip(clusters, chosen, strict=True))
        best = max(best, sum(match[label] is value for label, value in zip(labels, y, strict=True)))
    return best / len(y)


def nmi_literal(y, labels):
    n = len(y)
    n_p = {p: sum(a == p for a in labels) for p in set(labels)}
    n_q = {q: sum(a == q for a in y) for q in set(y)}
    mutual = 0.0
    for p, q in itertools.product(n_p, n_q):
        n_pq = sum(a == p and b == q for a, b in zip(labels, y, strict=True))
        if n_pq:
            mutual += n_pq * np.log(n * n_pq / (n_p[p] * n_q[q]))
    entropies = [sum(k * np.log(k / n) for k in counts.values()) for counts in (n_p, n_q)]
    return mutual / np.sqrt(entropies[0] * entropies[1])


@st.composite
def truth_and_scores(draw, tied=True, max_classes=6):
    n, c = draw(st.integers(1, 8)), draw(st.integers(1, max_classes))
    Y = np.array(draw(st.lists(st.lists(st.integers(0, 1), min_size=c, max_size=c), min_size=n, max_size=n)))
    # few distinct values, so that ties are the rule and not the exception
    value = st.integers(-3, 3).map(lambda v: v / 2) if tied else st.floats(-1e3, 1e3)
    F = np.array(draw(st.lists(st.lists(value, min_size=c, max_size=c), min_size=n, max_size=n)))
    return Y, F


codes = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=20)

# ------------------------------------------------------------------------------------------------------------
# Bags


class TestAgainstTheFormulas:
    @given(truth_and_scores())
    @settings(max_examples=80, deadline=None)
    def test_ranking_loss(self, case):
        assert_allclose(metrics.ranking_loss(*case), ranking_loss_literal(*case), rtol=1e-12, atol=1e-15)

    @given(truth_and_scores())
    @settings(max_examples=80, deadline=None)
    def test_one_error(self, case):
        assume(case[0].any())
        assert_allclose(metrics.one_error(*case), one_error_literal(*case), rtol=1e-12)

    @given(truth_and_scores())
    @settings(max_examples=80, deadline=None)
    def test_coverage(self, case):
        expected = coverage_literal(*case)
        assert_allclose(metrics.coverage(*case), expected, rtol=1e-12, atol=1e-15)
        normalized = metrics.coverage(*case, normalized=True)
        assert_allclose(normalized, expected / case[0].shape[1], rtol=1e-12, atol=1e-15)

    @given(truth_and_scores())
    @settings(max_examples=80, deadline=None)
    def test_average_precision(self, case):
        assert_allclose(metrics.average_precision(*case), average_precision_literal(*case), rtol=1e-12)

    @pytest.mark.parametrize("tied", [True, False])
    def test_rank_hinge_loss(self, tied):
        @given(truth_and_scores(tied=tied, max_classes=9))
        @settings(max_examples=80, deadline=None)
        def check(case):
            Y, F = case
            assume(np.any((Y.sum(axis=1) > 0) & (Y.sum(axis=1) < Y.shape[1])))
            assert_allclose(metrics.rank_hinge_loss(Y, F), rank_hinge_literal(Y, F), rtol=1e-10, atol=1e-12)

        check()

    def test_rank_hinge_loss_keeps_its_precision_far_from_zero(self):
        rng = np.random.default_rng(0)
        Y = (rng.random((50, 30)) < 0.3).astype(int)
        F = np.round(rng.normal(size=(50, 30)) * 64) / 64  # exact in binary, also after the shift
        assert_allclose(metrics.rank_hinge_loss(Y, F + 2.0**40), metrics.rank_hinge_loss(Y, F), rtol=1e-12)

    def test_rank_hinge_loss_bounds_the_ranking_loss(self):
        for seed in range(30):
            rng = np.random.default_rng(seed)
            Y = (rng.random((20, 6)) < 0.4).astype(int)
            Y[:, 0], Y[:, 1] = 0, 1  # no empty and no full set
            F = rng.normal(size=Y.shape)
            assert metrics.rank_hinge_loss(Y, F) >= metrics.ranking_loss(Y, F)

    @given(truth_and_scores())
    @settings(max_examples=60, deadline=None)
    def test_neither_the_order_of_bags_nor_of_classes_matters(self, case):
        Y, F = case
        assume(np.any((Y.sum(axis=1) > 0) & (Y.sum(axis=1) < Y.shape[1])))
        rng = np.random.default_rng(0)
        rows, columns = rng.permutation(Y.shape[0]), rng.permutation(Y.shape[1])
        for measure in SCORE_MEASURES:
            shuffled = measure(Y[rows][:, columns], F[rows][:, columns])
            assert_allclose(shuffled, measure(Y, F), rtol=1e-12, atol=1e-15)

    def test_scikit_learns_where_it_has_them(self):
        rng = np.random.default_rng(1)
        Y = (rng.random((200, 7)) < 0.3).astype(int)
        Y[:, 3] |= ~Y.any(axis=1)  # scikit-learn's coverage of an empty set is another
        F = rng.integers(0, 5, size=Y.shape) / 4
        P = (F > 0.5).astype(int)
        assert_allclose(metrics.hamming_loss(Y, P), sklearn.metrics.hamming_loss(Y, P), rtol=1e-12)
        assert_allclose(metrics.ranking_loss(Y, F), sklearn.metrics.label_ranking_loss(Y, F), rtol=1e-12)
        assert_allclose(metrics.coverage(Y, F), sklearn.metrics.coverage_error(Y, F) - 1, rtol=1e-12)
        precision = sklearn.metrics.label_ranking_average_precision_score(Y, F)
        assert_allclose(metrics.average_precision(Y, F), precision, rtol=1e-12)


class TestByHand:
    # bag 0 carries {0, 2} and ranks 1, 0, 2, 3; bag 1 carries {3} and ranks it first
    Y = np.array([[1, 0, 1, 0], [0, 0, 0, 1]])
    F = np.array([[0.6, 0.9, 0.4, 0.1], [0.0, 0.2, 0.1, 2.0]])

    def test_hamming_loss(self):
        assert metrics.hamming_loss(self.Y, [[1, 1, 0, 0], [0, 0, 0, 1]]) == 2 / 8
        assert metrics.hamming_loss(self.Y, self.Y) == 0
        assert metrics.hamming_loss(self.Y, 1 - self.Y) == 1

    def test_ranking_loss(self):
        assert metrics.ranking_loss(self.Y, self.F) == (2 / 4 + 0) / 2

    def test_one_error(self):
        assert metrics.one_error(self.Y, self.F) == 1 / 2

    def test_coverage(self):
        assert metrics.coverage(self.Y, self.F) == (2 + 0) / 2
        assert metrics.coverage(self.Y, self.F, normalized=True) == (2 + 0) / 2 / 4

    def test_average_precision(self):
        assert_allclose(metrics.average_precision(self.Y, self.F), ((1 / 2 + 2 / 3) / 2 + 1) / 2, rtol=1e-15)

    def test_rank_hinge_loss(self):
        # bag 0: 1-(0.6-0.9), 1-(0.6-0.1), 1-(0.4-0.9), 1-(0.4-0.1); bag 1: margins 2.0, 1.8, 1.9, no loss
        assert_allclose(metrics.rank_hinge_loss(self.Y, self.F), (1.3 + 0.5 + 1.5 + 0.7) / 4 / 2, rtol=1e-14)

    def test_constant_scores_gain_nothing(self):
        constant = np.zeros_like(self.F)
        assert metrics.ranking_loss(self.Y, constant) == 1
        assert metrics.one_error(self.Y, constant) == 1
        assert metrics.coverage(self.Y, constant) == 3
        assert metrics.average_precision(self.Y, constant) == (2 / 4 + 1 / 4) / 2
        assert metrics.rank_hinge_loss(self.Y, constant) == 1

    def test_perfect_ranking(self):
        scores = 2.0 * self.Y
        assert metrics.ranking_loss(self.Y, scores) == 0
        assert metrics.one_error(self.Y, scores) == 0
        assert metrics.coverage(self.Y, scores) == (1 + 0) / 2  # two labels need one step
        assert metrics.average_precision(self.Y, scores) == 1
        assert metrics.rank_hinge_loss(self.Y, scores) == 0

    def test_bags_with_an_empty_or_a_full_set(self):
        Y = np.array([[1, 0, 0], [0, 0, 0], [1, 1, 1]])
        F = np.array([[0.0, 1.0, -1.0], [0.0, 1.0, 2.0], [0.3, 0.2, 0.1]])
        assert_allclose(metrics.ranking_loss(Y, F), (1 / 2 + 0 + 0) / 3, rtol=1e-15)
        assert metrics.one_error(Y, F) == 1 / 2  # the empty one is left out
        assert_allclose(metrics.coverage(Y, F), (1 + 0 + 2) / 3, rtol=1e-15)
        assert_allclose(metrics.average_precision(Y, F), (1 / 2 + 1 + 1) / 3, rtol=1e-15)
        assert metrics.rank_hinge_loss(Y, F) == (2 + 0) / 2  # the other two are left out

    def test_one_class(self):
        Y, F = [[1], [0]], [[0.3], [0.4]]
        assert metrics.ranking_loss(Y, F) == 0
        assert metrics.one_error(Y, F) == 0
        assert metrics.coverage(Y, F) == 0
        assert metrics.average_precision(Y, F) == 1
        assert metrics.hamming_loss(Y, [[1], [1]]) == 0.5

    def test_sparse_and_boolean_truth(self):
        expected = metrics.ranking_loss(self.Y, self.F)
        assert metrics.ranking_loss(sp.csr_matrix(self.Y), self.F) == expected
        assert metrics.ranking_loss(self.Y.astype(bool), self.F.astype(np.float32)) == expected

    def test_plain_floats_come_back(self):
        for measure in SCORE_MEASURES:
            assert type(measure(self.Y, self.F)) is float


class TestCoverageOfTheDummy:
    """Table 7 of Pham et al.: the class frequencies as scores; c, not c - 1, meets the published figures."""

    @pytest.mark.parametrize(
        ("file", "published"),
        [
            ("hja_birdsong_filtered", 45.1),
            ("msrc_v2", 53.0),
            ("letter_carroll_rebuilt", 48.4),
            ("letter_frost_rebuilt", 49.0),
        ],
    )
    def test_normalisation(self, file, published):
        path = DATA / f"{file}.npz"
        if not path.exists():
            pytest.skip(f"{path.name} is not there; set BAGWISE_DATA to the folder of the real data sets")
        with np.load(path, allow_pickle=False) as data:
            Y = data["Y"][:, data["Y"].any(axis=0)]
        figures = []
        for seed in range(3):
            for fold in np.array_split(np.random.default_rng(seed).permutation(len(Y)), 10):
                frequency = np.delete(Y, fold, axis=0).mean(axis=0)
                scores = np.tile(frequency, (len(fold), 1))
                figures.append(100 * metrics.coverage(Y[fold], scores, normalized=True))
        c = Y.shape[1]
        ours = np.mean(figures)
        assert abs(ours - published) < 1.3
        assert abs(ours - published) < abs(ours * c / (c - 1) - published)


class TestBadBagInput:
    Y = ((1, 0), (0, 1))
    F = ((0.5, 0.1), (0.2, 0.3))

    @pytest.mark.parametrize("measure", SCORE_MEASURES)
    @pytest.mark.parametrize(
        ("Y", "scores", "message"),
        [
            (Y, [[0.5, 0.1]], r"Y has shape \(2, 2\) but scores has shape \(1, 2\)"),
            (Y, [0.5, 0.1], r"scores has shape \(2,\)"),
            (Y, [[0.5, np.nan], [0, 1]], "scores hold nan at bag 0, class 1; scores must be finite"),
            (Y, [[0.5, 1], [-np.inf, 1]], "scores hold -inf at bag 1, class 0"),
            (Y, [["a", "b"], ["c", "d"]], "scores must be an .* array of real numbers"),
            (Y, [[1j, 0], [0, 1]], "They are complex"),
            (Y, [[0.5], [0.1, 0.2]], "scores must be an .* array of real numbers"),
            ([[2, 0], [0, 1]], F, "Y must be .* The label matrix holds 2 at bag 0, class 0"),
            ([[np.nan, 0], [0, 1]], F, "Y must be .* holds nan"),
            ([1, 0], F, r"Y must be .* shape \(2,\)"),
            ([[1], [0, 1]], F, "Y must be an"),
            ([{1}, {0}], F, "Y must be an"),
            (np.empty((0, 2)), np.empty((0, 2)), r"Y has shape \(0, 2\); pass at least one bag"),
        ],
    )
    def test_scores(self, measure, Y, scores, message):
        with pytest.raises(InputError, match=message):
            measure(Y, scores)

    def test_hamming_loss(self):
        with pytest.raises(InputError, match=r"Y_pred must be .* holds 0.5 at bag 0, class 0"):
            metrics.hamming_loss(self.Y, self.F)
        with pytest.raises(InputError, match=r"but Y_pred has shape \(1, 2\)"):
            metrics.hamming_loss(self.Y, [[1, 0]])

    def test_nothing_to_measure(self):
        with pytest.raises(InputError, match="No bag carries any label"):
            metrics.one_error([[0, 0]], [[1, 2]])
        with pytest.raises(InputError, match="no pair to rank"):
            metrics.rank_hinge_loss([[0, 0], [1, 1]], [[1, 2], [3, 4]])


# ------------------------------------------------------------------------------------------------------------
# Instances


class TestInstanceAccuracy:
    def test_unknown_ones_are_left_out(self):
        assert metrics.instance_accuracy([0, 1, -1, 1], [0, 0, -1, 1]) == 2 / 3
        assert metrics.instance_accuracy(np.array([0.0, -1.0]), [0, 1]) == 1
        assert metrics.instance_accuracy(["owl", None, "wren"], ["owl", "owl", "owl"]) == 1 / 2
        assert metrics.instance_accuracy([(1, 2), None, "x", 3], [(1, 2), 0, "y", 3]) == 2 / 3

    def test_strings_in_their_different_arrays(self):
        truth = np.array(["owl", "wren", "owl"])
        assert metrics.instance_accuracy(truth, truth.astype(object)) == 1
        assert metrics.instance_accuracy(truth, ["owl", "owl", "owl"]) == 2 / 3

    def test_tuples_are_values_and_no_second_dimension(self):
        assert metrics.instance_accuracy([(0, 1), (2, 3)], [(0, 1), (3, 2)]) == 1 / 2

    def test_minus_one_is_an_ordinary_name_among_objects(self):
        assert metrics.instance_accuracy([-1, "owl"], [-1, "wren"]) == 1 / 2

    def test_mixed_kinds_are_not_turned_into_strings(self):
        assert metrics.instance_accuracy([1, "a"], ["1", "a"]) == 1 / 2
        assert metrics.instance_accuracy(np.array([None, 1], dtype=object), [5, 1]) == 1

    def test_bags_of_labels(self):
        truth = Bags(np.array([0, 1, -1]), [0, 2, 3])
        assert metrics.instance_accuracy(truth, np.array([0, 0, 0])) == 1 / 2

    @given(st.lists(st.tuples(st.integers(-1, 3), st.integers(0, 3)), min_size=1, max_size=30))
    @settings(max_examples=60, deadline=None)
    def test_against_the_loop(self, pairs):
        known = [(a, b) for a, b in pairs if a != -1]
        assume(known)
        expected = sum(a == b for a, b in known) / len(known)
        truth, predicted = zip(*pairs, strict=True)
        assert_allclose(metrics.instance_accuracy(truth, predicted), expected, rtol=1e-12)

    def test_bad_input(self):
        with pytest.raises(InputError, match="class of no instance is known"):
            metrics.instance_accuracy([-1, -1], [0, 1])
        with pytest.raises(InputError, match="class of no instance is known"):
            metrics.instance_accuracy([None], ["a"])
        with pytest.raises(InputError, match="y has 2 values but y_pred has 1"):
            metrics.instance_accuracy([0, 1], [0])
        with pytest.raises(InputError, match=r"y has shape \(1, 2\)"):
            metrics.instance_accuracy(np.array([[0, 1]]), [0])
        with pytest.raises(InputError, match=r"y has shape \(0,\)"):
            metrics.instance_accuracy([], [])
        with pytest.raises(InputError, match="y_pred holds NaN or infinity at position 1"):
            metrics.instance_accuracy([0, 1], [0, np.nan])
        with pytest.raises(InputError, match="such as 0 but y_pred such as 'owl'; give both as class indices"):
            metrics.instance_accuracy([0, 1], ["owl", "wren"])


# ------------------------------------------------------------------------------------------------------------
# Clusters


class TestClustering:
    def test_examples_of_section_4_3_2(self):
        truth = [1, 1, 2, 2, 3, 3]
        assert_allclose(metrics.normalized_mutual_information(truth, [2, 2, 3, 3, 1, 1]), 1, rtol=1e-12)
        assert metrics.normalized_mutual_information(truth, [3, 3, 3, 3, 3, 3]) == 0
        assert metrics.clustering_accuracy(truth, [2, 2, 3, 3, 1, 1]) == 1
        assert metrics.clustering_accuracy(truth, [3, 3, 3, 3, 3, 3]) == 1 / 3

    def test_by_hand(self):
        # the greedy match (cluster 0 with a) gives 3 + 0, the best one (0 with b, 1 with a) gives 2 + 2
        assert metrics.clustering_accuracy(list("aaaaabb"), [0, 0, 0, 1, 1, 0, 0]) == 4 / 7
        # the joint table is [[2, 0], [1, 1]]
        mutual = 0.5 * np.log(4 / 3) + 0.25 * np.log(2 / 3) + 0.25 * np.log(2)
        entropies = np.log(2), -0.75 * np.log(0.75) - 0.25 * np.log(0.25)
        expected = mutual / np.sqrt(entropies[0] * entropies[1])
        assert_allclose(metrics.normalized_mutual_information(list("aabb"), [0, 0, 0, 1]), expected)

    def test_more_or_fewer_clusters_than_classes(self):
        assert metrics.clustering_accuracy([0, 0, 1, 1], [0, 1, 2, 3]) == 2 / 4
        assert metrics.clustering_accuracy([0, 1, 2, 3], [7, 7, 7, 7]) == 1 / 4

    def test_names_of_any_kind(self):
        assert metrics.clustering_accuracy([("a", 1), None, "b", None], [5, -1, 9, -1]) == 1
        value = metrics.normalized_mutual_information([("a", 1), None, "b", None], [5, -1, 9, -1])
        assert_allclose(value, 1, rtol=1e-12)

    @given(codes)
    @settings(max_examples=60, deadline=None)
    def test_accuracy_against_all_matches(self, pairs):
        y, labels = zip(*pairs, strict=True)
        assert_allclose(metrics.clustering_accuracy(y, labels), clustering_accuracy_literal(y, labels))

    @given(codes)
    @settings(max_examples=60, deadline=None)
    def test_nmi_against_the_formula(self, pairs):
        y, labels = zip(*pairs, strict=True)
        assume(len(set(y)) > 1 and len(set(labels)) > 1)
        value = metrics.normalized_mutual_information(y, labels)
        assert_allclose(value, nmi_literal(y, labels), rtol=1e-9, atol=1e-12)
        assert_allclose(metrics.normalized_mutual_information(labels, y), value, rtol=1e-9, atol=1e-12)

    @given(codes, st.permutations(range(4)))
    @settings(max_examples=50, deadline=None)
    def test_cluster_names_do_not_matter(self, pairs, names):
        y, labels = zip(*pairs, strict=True)
        renamed = [names[label] for label in labels]
        assert metrics.clustering_accuracy(y, renamed) == metrics.clustering_accuracy(y, labels)
        assert_allclose(
            metrics.normalized_mutual_information(y, renamed),
            metrics.normalized_mutual_information(y, labels),
            rtol=1e-9,
            atol=1e-12,
        )

    @pytest.mark.parametrize("measure", [metrics.clustering_accuracy, metrics.normalized_mutual_information])
    def test_bad_input(self, measure):
        with pytest.raises(InputError, match="y has 2 values but labels has 3"):
            measure([0, 1], [0, 1, 2])
        with pytest.raises(InputError, match=r"labels has shape \(2, 1\)"):
            measure([0, 1], np.zeros((2, 1), dtype=int))
        with pytest.raises(InputError, match="y holds a value that cannot be hashed"):
            measure([{1}, {2}], [0, 1])


# ------------------------------------------------------------------------------------------------------------
# Probabilities


@pytest.mark.parametrize("seed", range(8))
def test_reliability_is_that_of_a_plain_loop_and_of_scikit_learn(seed):
    rng = np.random.default_rng(seed)
    probability = rng.random((50, 3)) ** 2
    outcome = (rng.random((50, 3)) < probability).astype(int)
    table = metrics.reliability_table(outcome, probability, n_bins=7)
    error = 0.0
    for row in table:
        inside = (probability >= row["low"]) & (probability < row["high"])
        assert row["count"] == inside.sum()
        assert row["confidence"] == pytest.approx(probability[inside].mean())
        assert row["accuracy"] == pytest.approx(outcome[inside].mean())
        error += inside.mean() * abs(probability[inside].mean() - outcome[inside].mean())
    assert metrics.calibration_error(outcome, probability, n_bins=7) == pytest.approx(error)
    came, promised = calibration_curve(outcome.ravel(), probability.ravel(), n_bins=7)
    assert_allclose([row["accuracy"] for row in table], came)
    assert_allclose([row["confidence"] for row in table], promised)
    assert sum(row["count"] for row in table) == probability.size


def test_certain_probabilities_stand_in_the_last_bin():
    assert metrics.reliability_table([1, 1], [1.0, 1.0])[-1]["high"] == 1.0
    even = np.linspace(0.0, 1.0, 999)
    assert len(metrics.reliability_table(even > 0.5, even)) == 10
    assert metrics.calibration_error(even > 0.5, even) == metrics.calibration_error(even > 0.5, even, n_bins=10)
    assert metrics.calibration_error([1, 1, 0], [1.0, 1.0, 0.0]) == 0.0
    assert metrics.calibration_error([1, 0], [0.9, 0.5], n_bins=1) == pytest.approx(0.2)


def test_outcomes_of_instances_leave_out_what_is_not_known():
    right, promised = metrics.instance_outcomes(np.array([0, -1, 1]), np.array([[0.6, 0.4], [0.1, 0.9], [0.7, 0.3]]))
    assert right.tolist() == [1.0, 0.0]
    assert promised.tolist() == [0.6, 0.7]
    for table in (np.array([0.6, 0.4]), np.full((3, 2), 0.5)):  # one row too few dimensions, one row too many
        with pytest.raises(InputError, match="pass a row of probabilities for each"):
            metrics.instance_outcomes(np.array([0, 1]), table)


@pytest.mark.parametrize(
    ("outcome", "probability", "message"),
    [
        ([1, 0], [0.5], "shape"),
        ([], [], "nothing to compare"),
        ([0.5], [0.5], "0 and 1 only"),
        ([1], [1.2], "1.2 at position 0"),
        ([1], [np.nan], "nan at position 0"),
    ],
)
def test_impossible_probabilities_are_named(outcome, probability, message):
    with pytest.raises(InputError, match=message):
        metrics.calibration_error(outcome, probability)


# ------------------------------------------------------------------------------------------------------------
# Instances, judged by the labels of their bags


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_listed_and_explained_against_loops(data):
    sizes = data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=5))
    c = data.draw(st.integers(1, 4))
    Y = np.array([[data.draw(st.integers(0, 1)) for _ in range(c)] for _ in sizes])
    given = [[data.draw(st.integers(-1, c - 1)) for _ in range(size)] for size in sizes]
    listed, explained = [], []
    for row, labels in zip(Y, given, strict=True):
        carried = {k for k in range(c) if row[k]}
        if carried:
            listed.append(sum(label in carried for label in labels) / len(labels))
            explained.append(len(carried & set(labels)) / len(carried))
    bags = Bags.from_list(given)
    for measure, shares in ((metrics.listed_share, listed), (metrics.explained_share, explained)):
        found = measure(Y, bags)
        assert np.isnan(found) if not shares else found == pytest.approx(np.mean(shares))
    with pytest.raises(InputError, match="pass as many of each"):
        metrics.listed_share(np.vstack([Y, Y]), bags)


@pytest.mark.parametrize("n", [1, 2, 5, 20, 100, 3000])
def test_intervals_are_wilsons(n):
    """Against scipy's."""
    for k in {0, 1, n // 3, n // 2, n - 1, n}:
        expected = binomtest(k, n).proportion_ci(0.95, method="wilson")
        assert wilson_interval(k / max(n, 1), n) == pytest.approx((expected.low, expected.high), abs=1e-12)


def test_the_interval_of_the_issue():
    """Right in 93 % of 100: from 86 to 97 %; nothing answered says nothing."""
    assert [round(100 * edge) for edge in wilson_interval(0.93, 100)] == [86, 97]
    assert wilson_interval(0.0, 0) == (0.0, 1.0)


def test_intervals_hold_the_truth_in_95_percent_of_samples():
    rng = np.random.default_rng(0)
    for share in (0.5, 0.9, 0.97):
        counts = rng.binomial(100, share, 4000)
        held = np.mean([low <= share <= high for low, high in (wilson_interval(k / 100, 100) for k in counts)])
        assert 0.93 < held < 0.975
