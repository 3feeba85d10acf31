"""Reliability of a run: calibration, a wanted precision, and novel instances."""

import csv
from dataclasses import replace

import numpy as np
import pytest
from click.testing import CliRunner

from bagwise import BagDataset, Bags, Run, load, write_dataset
from bagwise.app.cli import main
from bagwise.app.report.summary import expected_in_words
from bagwise.app.review.review import Review
from bagwise.app.runs.learner import learner_inside
from bagwise.calibration import CalibratedAnnotator
from bagwise.core.exceptions import InputError
from bagwise.datasets import make_gaussian_bags
from bagwise.pipeline import final_step
from made import read_csv


@pytest.fixture(scope="module")
def data():
    return make_gaussian_bags(n_bags=60, n_features=4, separation=2.5, random_state=0)


@pytest.fixture(scope="module")
def folder(data, tmp_path_factory):
    """A table of bags, and another one of bags that are far from all of them."""
    folder = tmp_path_factory.mktemp("trust")
    write_dataset(data, folder / "bags.csv")
    far = BagDataset(Bags(data.bags.instances + 30.0, data.bags.offsets))
    write_dataset(far, folder / "far.csv")
    return folder


@pytest.fixture(scope="module")
def run(folder):
    with Run.create(folder / "bags.csv", folder / "run", precision=0.9) as run:
        yield run


def test_annotate_calibrates_unless_told_otherwise(run, folder):
    model = load(folder / "run" / "model.bagwise")
    assert final_step(model).reliability()["bags"] > 0
    plain = Run.create(folder / "bags.csv", folder / "plain", learner={"calibrate": "none"}, page=False)
    assert not isinstance(final_step(load(plain.path / "model.bagwise")), CalibratedAnnotator)
    plain.close()


def test_kept_instances_are_the_largest_set_of_that_expected_precision(run):
    rows = run.annotations()
    named = [row for row in rows if row["label"] and row["noise"] <= run.manifest["options"]["max_noise"]]
    kept = [row for row in named if row["kept"]]
    assert 0 < len(kept) < len(named)
    doubt = run.predictions().precision.uniform
    assert (1 - doubt) * np.mean([row["probability"] for row in kept]) >= 0.9
    least = min(row["probability"] for row in kept)
    others = [row["probability"] for row in named if not row["kept"]]
    assert max(others) < least
    assert (1 - doubt) * np.mean([row["probability"] for row in kept] + [max(others)]) < 0.9
    assert {row["kept"] for row in rows if row not in named} == {False}


def test_the_long_table_marks_the_others_and_counts_say_what_they_are(run, folder):
    table = read_csv(folder / "run" / "annotations.csv")
    assert {row["kept"] for row in table} == {"True", "False"}
    result = run.result()
    shown = result.annotations.shown()
    assert len(shown) == sum(row["kept"] == "True" for row in table)
    page = (folder / "run" / "report.html").read_text(encoding="utf-8")
    assert "For a precision of 90 %" in page
    assert "instances below the wanted precision" in page
    assert "each predicted by a model that was not trained on it" in page


def test_what_people_said_is_kept_and_shown_beside_what_was_promised(data, tmp_path):
    write_dataset(data, tmp_path / "bags.csv")
    with Run.create(tmp_path / "bags.csv", tmp_path / "run", precision=0.95) as run:
        unsure = [row for row in run.annotations() if row["label"] and not row["kept"]][:3]
        run.correct([(row["bag"], row["instance"], row["label"]) for row in unsure])
        again = {(row["bag"], row["instance"]): row["kept"] for row in run.annotations()}
        assert all(again[row["bag"], row["instance"]] for row in unsure)
        result = run.write()
        assert result.reliability.instances is not None
        assert sum(row["count"] for row in result.reliability.instances) == 3
        assert all(row["accuracy"] == 1.0 for row in result.reliability.instances)
        run.refit()
        assert run.precision == 0.95
    assert "Instances reviewed by a person" in (tmp_path / "run" / "report.html").read_text(encoding="utf-8")


def test_strangers_are_told_apart_from_the_unsure(run, folder):
    result = CliRunner().invoke(
        main, ["annotate", str(folder / "far.csv"), "--model", str(folder / "run" / "model.bagwise"),
               "--out", str(folder / "far"), "--precision", "0.5", "--quiet"],
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    rows = read_csv(folder / "far" / "annotations.csv")
    assert {row["novel"] for row in rows} == {"True"}
    assert max(float(row["probability"]) for row in rows) > 0.9
    assert {row["kept"] for row in rows} == {"False"}  # nothing can be promised of them
    assert f"{len(rows)} of {len(rows)} instances (100 %) are novel: far from all training data" in result.output
    assert "none of" in result.output
    page = (folder / "far" / "report.html").read_text(encoding="utf-8")
    assert "are novel: far from all training data" in page
    with Run.open(folder / "far") as opened:
        assert all(row["novel"] for row in opened.annotations())
    seen = read_csv(folder / "run" / "annotations.csv")
    assert sum(row["novel"] == "True" for row in seen) == 0


def test_annotate_table_says_it_too(run, folder):
    result = CliRunner().invoke(
        main, ["annotate-table", str(folder / "run" / "model.bagwise"), str(folder / "far.csv"), "--quiet"]
    )
    assert result.exit_code == 0, result.output
    rows = list(csv.DictReader(result.output.splitlines()))
    assert {row["novel"] for row in rows} <= {"True", "true", "1"}


@pytest.mark.parametrize("given", ["0", "1", "1.5", "-0.1", "much"])
def test_a_precision_that_is_none_is_refused(folder, given, tmp_path):
    result = CliRunner().invoke(
        main, ["annotate", str(folder / "bags.csv"), "--out", str(tmp_path / "run"), f"--precision={given}"]
    )
    assert result.exit_code == 2
    assert "--precision" in result.output
    assert not (tmp_path / "run").exists()


def test_a_precision_that_cannot_be_promised_is_refused(folder, tmp_path):
    with pytest.raises(InputError, match="'clpl' gives no probabilities, so no precision can be expected"):
        Run.create(folder / "bags.csv", tmp_path / "run", model="clpl", precision=0.9)
    with pytest.raises(InputError, match="between 0 and 1"):
        Run.create(folder / "bags.csv", tmp_path / "run", precision=95)
    assert not (tmp_path / "run").exists()


def test_few_bags_are_annotated_and_the_page_says_that_nothing_was_calibrated(data, tmp_path):
    write_dataset(data[:8], tmp_path / "few.csv")
    with Run.create(tmp_path / "few.csv", tmp_path / "run") as run:
        assert run.write().reliability.calibrated is False
    assert "The probabilities are not calibrated" in (tmp_path / "run" / "report.html").read_text(encoding="utf-8")


def test_a_model_that_is_chosen_promises_it_too_or_is_refused(data, tmp_path):
    write_dataset(data[:24], tmp_path / "bags.csv")
    try:
        with Run.create(tmp_path / "bags.csv", tmp_path / "run", model="auto", precision=0.9, page=False) as run:
            assert "kept" in run.annotations()[0]
    except InputError as error:
        assert "gives no probabilities" in str(error)  # noqa: PT017  # the learner that was chosen cannot


def test_one_line_says_how_many_names_to_expect_right(run, folder, data):
    words = run.expected()
    named = [row for row in run.annotations() if row["label"] and row["noise"] <= run.manifest["options"]["max_noise"]]
    share = 100 * np.mean([row["probability"] for row in named])
    sure = sum(row["probability"] >= 0.9 for row in named)
    assert "hardly better" not in words
    assert words.startswith(f"Of 100 names about {share:.0f} are expected to be right; {sure} of {len(named)} are sure")
    assert f"about {100 * final_step(run.model()).reliability()['names']['accuracy']:.0f} of 100." in words
    share = learner_inside(run.model()).get_params()["background_share"]
    assert f"This takes {100 * share:g} % of the instances for background (--noise-share)" in words
    assert words in (run.path / "report.html").read_text()
    done = CliRunner().invoke(main, ["annotate", str(folder / "bags.csv"), "--out", str(folder / "line"), "--no-page"])
    assert (done.exit_code, words in done.output) == (0, True), done.output
    plain = Run.create(folder / "bags.csv", folder / "plain-line", learner={"calibrate": "none"}, page=False)
    assert "is not known: probabilities are not calibrated" in plain.expected()
    plain.close()


def test_names_that_are_hardly_better_than_guesses_are_not_to_be_used():
    held = {"names": {"accuracy": 0.2}}
    assert expected_in_words([0.3, 0.3, 0.95], held, "texts") == (
        "Of 100 names about 52 are expected to be right; 1 of 3 are sure (90 % or more). In texts whose labels nobody "
        "gave, about 20 of 100. Most names are less than 40 % sure: do not use them as they are."
    )
    assert "do not use" not in expected_in_words([0.3, 0.4, 0.95], held)
    assert "background" not in expected_in_words([0.3, 0.4, 0.95], held)  # the model knows none
    assert expected_in_words([], held) == "No instance has a name."


def test_names_of_features_that_tell_nothing_apart_are_called_guesses(data, tmp_path):
    """Next to the most frequent label on the same held-out bags; terminal, page and review page say so first."""
    noise = np.random.default_rng(0).standard_normal(data.bags.instances.shape)
    write_dataset(replace(data, bags=Bags(noise, data.bags.offsets)), tmp_path / "noise.csv")
    done = CliRunner().invoke(main, ["annotate", str(tmp_path / "noise.csv"), "--out", str(tmp_path / "run")])
    assert done.exit_code == 0, done.output
    with Run.open(tmp_path / "run") as run:
        words, names = run.expected(), final_step(run.model()).reliability()["names"]
    under_review = Review(Run.open(tmp_path / "run"))
    said = under_review.summary()["expected"]
    under_review.close()
    assert words.startswith("Names are hardly better than guessing: of 100 of held-out bags about ")
    assert "features that tell labels apart. Of 100 names about" in words
    assert names["accuracy"] < names["guess"] + 0.2
    assert done.output.index(words) < done.output.index("mean probability")
    assert f'<p class="expected">{words}</p>' in (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert said == words


@pytest.mark.parametrize(
    ("accuracy", "guess", "judged", "guessing"),
    [(0.5, 0.1, 1.0, False), (0.2, 0.1, 0.9, True), (0.2, 0.1, 0.1, False), (0.9, 0.85, 1.0, False)],
)
def test_names_must_be_clearly_better_than_the_most_frequent_label(accuracy, guess, judged, guessing):
    held = {"names": {"accuracy": accuracy, "guess": guess, "judged": judged}}
    words = expected_in_words([0.3, 0.3], held, "pictures", cure="give masks")
    warning = (
        f"Names are hardly better than guessing: of 100 of held-out pictures about {100 * accuracy:.0f} are right, and "
        f"{100 * guess:.0f} where all get the most frequent label. Do not use them as they are; give masks. Of 100 "
    )
    assert words.startswith(warning) == guessing
    assert words.count("as they are") == 1


def test_what_counts_as_background_follows_the_share(tmp_path):
    """Where calibrated probabilities are all alike none reaches one half; half of them where half is expected."""
    data = make_gaussian_bags(n_bags=60, n_features=4, separation=0.3, background_share=0.5, random_state=0)
    write_dataset(data, tmp_path / "bags.csv")
    shares = {}
    for share in (0.1, 0.3):
        with Run.create(tmp_path / "bags.csv", tmp_path / f"run{share}", noise_share=share, page=False) as run:
            result, limit = run.result(), run.manifest["options"]["max_noise"]
            shares[share] = 1 - sum(map(result.annotations.is_named, result.annotations.rows)) / data.bags.n_instances
            assert share <= limit <= 0.5
            noise = np.array([row["noise"] for row in result.annotations.rows])
            assert np.mean(noise > 0.5) <= shares[share] <= share + 0.01
        with Run.create(tmp_path / "bags.csv", tmp_path / f"run{share}", noise_share=share, page=False) as again:
            assert again.manifest["options"]["max_noise"] == limit
        with Run.create(
            tmp_path / "bags.csv", tmp_path / "new", model=run.path / "model.bagwise", overwrite=True, page=False
        ) as new:
            assert new.manifest["options"]["max_noise"] == limit
    assert 0 < shares[0.1] < shares[0.3]
