"""Tables that say more than lists: possible, absent, one of several, how sure; from the cell to the learner."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from bagwise import Absent, BagDataset, Bags, OneOf, Possible, Run, write_dataset
from bagwise.annotation import NoisyOrLogisticRegression, ORedLogisticRegression
from bagwise.app.runs.corrections import Correction
from bagwise.app.runs.supervision import put_together
from bagwise.calibration import CalibratedAnnotator
from bagwise.core.exceptions import CalibrationWarning, FormatError, InputError
from bagwise.core.validation import Evidence
from bagwise.datasets import make_gaussian_bags
from bagwise.io.labels import Confident, marks_in_words, parse_mark, read_labels, split_marks

NAMES = ["crow", "robin", "tit", "wren"]


@pytest.mark.parametrize(("text", "mark"), [
    ("wren", "wren"),
    ("robin?", Possible("robin")),
    ("robin ?", Possible("robin")),
    ("!crow", Absent("crow")),
    ("! crow", Absent("crow")),
    ("a|b", OneOf("a", "b")),
    (" a | b|c", OneOf("a", "b", "c")),
    ("tit?0.7", Confident("tit", 0.7)),
    ("tit? 70 %", Confident("tit", 0.7)),
    ("tit?1", "tit"),
    ("tit?0", Absent("tit")),
    ("what\\?", "what?"),
    ("\\!Kung", "!Kung"),
    ("a\\|b", "a|b"),
    ("?", "?"),
    ("!", "!"),
])  # fmt: skip
def test_what_an_entry_says(text, mark):
    assert parse_mark(text) == mark


@pytest.mark.parametrize(("entries", "message"), [
    (["wren", "!wren"], "'wren' and '!wren' say two things of 'wren'; keep one"),
    (["wren?", "wren"], "say two things of 'wren'"),
    (["a|a"], "a group of 1 label"),
    (["a|"], "a group of 1 label"),
    (["a|b", "!a", "!b"], "all labels of 'a|b' are absent; take one of these back"),
    (["tit?1.5"], "the confidence is '1.5'; expected a number from 0 to 1, such as 0.7 or 70%"),
    (["tit?-1"], "the confidence is '-1'"),
    (["tit?170%"], "the confidence is '170%'"),
])  # fmt: skip
def test_what_cannot_be_is_an_error_with_its_row(tmp_path, entries, message):
    with pytest.raises(FormatError, match="t.csv, row 3: ") as error:
        split_marks(entries, "t.csv, row 3")
    assert message in str(error.value)
    data = make_gaussian_bags(n_bags=3, random_state=0)
    write_dataset(data, tmp_path / "made.csv")
    (tmp_path / "t.csv").write_text("bag,labels\n0,x;y\n1," + ";".join(entries) + ";z\n")
    with pytest.raises(FormatError, match="t.csv, row 3: "):
        Run.create(tmp_path / "made.csv", tmp_path / "run", labels=tmp_path / "t.csv", page=False)


def read(tmp_path, text, **options):
    (tmp_path / "t.csv").write_text(text)
    return read_labels(tmp_path / "t.csv", repeats="join", marks=True, **options)


def test_columns_say_it_too(tmp_path):
    table = read(tmp_path, "file,labels,possible,absent\na.wav,wren;tit,robin,crow;jay\nb.wav,,what?,\n")
    assert table.label_sets == [["wren", "tit", "robin?", "!crow", "!jay"], ["what\\??"]]
    assert [split_marks(own, "x")[0] for own in table.label_sets] == [["wren", "tit"], []]
    assert parse_mark("what\\??") == Possible("what?")
    table = read(tmp_path, 'file,species,also\na.wav,wren,"robin, tit"\nb.wav,tit,\n')
    assert table.label_sets == [["wren", "robin?", "tit?"], ["tit"]]
    table = read(tmp_path, "file,label,confidence\na.wav,wren,0.7\na.wav,tit,\na.wav,jay,100%\n")
    assert table.label_sets == [["wren?0.7", "tit", "jay?100%"]]
    assert split_marks(table.label_sets[0], "x") == (["tit", "jay"], ["wren?0.7"])
    with pytest.raises(FormatError, match=r"t.csv, row 3: the confidence is '7'; expected a number from 0 to 1"):
        read(tmp_path, "file,label,confidence\na.wav,wren,0.7\na.wav,tit,7\n")


def test_without_marks_a_table_is_read_as_ever(tmp_path):
    (tmp_path / "t.csv").write_text("file,labels\na.wav,wren;robin?\n")
    assert read_labels(tmp_path / "t.csv").label_sets == [["wren", "robin?"]]
    assert marks_in_words([]) == ""
    said = marks_in_words(["robin?", "tit?", "a|b"])
    assert "2 possible (robin?), 1 one of several (a|b)" in said
    assert "\\?" in said


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A file of bags without labels, and the label sets by name."""
    folder = tmp_path_factory.mktemp("marks")
    data = make_gaussian_bags(n_bags=60, n_classes=4, random_state=0)
    bare = BagDataset(data.bags, bag_names=data.bag_names)
    write_dataset(bare, folder / "made.csv")
    sets = [[NAMES[int(c)] for c in sorted(labels)] for labels in data.label_sets]
    return folder, sets, [NAMES[c] for c in data.instance_labels.instances]


def write_table(folder, sets, name="labels.csv"):
    rows = [f"{i},{'; '.join(labels)}" for i, labels in enumerate(sets)]
    (folder / name).write_text("\n".join(["bag,labels", *rows]) + "\n")
    return folder / name


@pytest.mark.parametrize("model", ["ored-background", "noisy-or"])
def test_a_run_learns_from_marks_as_its_learner_does(made, tmp_path, model):
    folder, sets, _ = made
    sets = [[f"{own[0]}?", *own[1:]] if i % 3 == 0 else own for i, own in enumerate(sets)]
    sets[1] = [*sets[1], "!crow"] if "crow" not in sets[1] else sets[1]
    sets[2] = ["crow|robin", *(name for name in sets[2] if name not in ("crow", "robin"))]
    table = write_table(tmp_path, sets)
    options = {"labels": table, "model": model, "page": False, "learner": {"calibrate": "none"}}
    with Run.create(folder / "made.csv", tmp_path / "run", **options) as run:
        assert "possible" in run.material.form
        found = run.predictions()
        bags, fitted = run.material.dataset.bags, run.model()
        again = Run.open(tmp_path / "run")
        assert again.material.marked == run.material.marked
        again.close()
    Y = [
        {entry if isinstance(entry := parse_mark(text), (str, Possible, OneOf)) else Absent("crow") for text in own}
        for own in sets
    ]
    learner = {"ored-background": ORedLogisticRegression(background=True, background_share=0.1)}.get(
        model, NoisyOrLogisticRegression()
    )
    scaled = Bags(fitted[0].transform(bags).instances, bags.offsets)
    own = learner.fit(scaled, Y)
    proba = own.annotate_proba(scaled, Y)
    best = np.where(found.label >= 0, found.label, proba.argmax(axis=1))
    shown = found.label >= 0
    np.testing.assert_allclose(found.probability[shown], proba[np.arange(len(best)), best][shown], atol=6e-5)
    possible = NAMES.index(parse_mark(sets[0][0]).label)
    assert (proba[bags.bag_index == 0][:, possible] > 0).any()


def test_not_here_on_the_page_is_a_known_absence(made, tmp_path):
    """With a rate of missed labels an unlisted label may be there, one that a person took out is not."""
    folder, sets, _ = made
    table = write_table(tmp_path, sets)
    options = {"labels": table, "page": False, "learner": {"missed": "0.2", "calibrate": "none"}}
    with Run.create(folder / "made.csv", tmp_path / "run", **options) as run:
        presence = run.model().label_posterior(run.material.dataset.bags, run.supervision().dataset.Y)
        unlisted = np.where(run.supervision().dataset.Y == 1, -1, presence)
        bag, c = np.unravel_index(unlisted.argmax(), unlisted.shape)
        assert unlisted[bag, c] > 0.2
        label, name = str(run.model().classes_[c]), run.material.dataset.bag_names[bag]
        rows = run.material.dataset.bags.bag_index == bag
        run.reject(name, label)
        assert run.supervision().marks[bag].values == {label: -np.inf}
        run.refit(write=False)
        after = run.predictions()
        named = [label_ for row in np.flatnonzero(rows) for label_ in after.labels_of(row)]
        assert label not in named
        given = run.supervision()
        assert given.has_labels[bag] == bool(sets[bag])
        run.correct([(name, None, label)])
        assert bag not in run.supervision().marks


def test_absent_labels_alone_leave_a_learner_of_lists_as_it_was():
    data = make_gaussian_bags(n_bags=4, n_classes=3, random_state=0)
    sets = {name: [str(c) for c in labels] for name, labels in zip(data.bag_names, data.label_sets, strict=True)}
    label = sets[0][0]
    supervision = put_together(data, sets, corrections=[Correction(0, None, label, "absent")])
    training = supervision.training_set(takes_empty=True, takes_known=True)
    assert_array_equal(supervision.training_labels(training, True, True, has_rates=False), training.Y)
    said = supervision.training_labels(training, True, True, has_rates=True)
    assert isinstance(said, Evidence) == (label in training.class_names)


def test_what_is_said_later_takes_the_place_of_a_mark():
    data = make_gaussian_bags(n_bags=2, n_classes=2, random_state=0)
    marked = {0: ["a?", "b?0.3"], 1: ["a|b", "!c"]}
    supervision = put_together(data, {0: [], 1: []}, marked=marked)
    assert supervision.dataset.class_names == ["a", "b"]
    assert supervision.has_labels.all()
    said = [Correction(0, 0, "a", "label"), Correction(0, None, "b", "absent"), Correction(1, None, "c", "present")]
    now = put_together(data, {0: [], 1: []}, corrections=said, marked=marked)
    assert now.marks[0].values == {"b": -np.inf}
    assert now.marks[1].values == {}
    assert now.dataset.label_sets == [{"a"}, {"c"}]


def test_a_learner_of_lists_refuses_with_a_cure(made, tmp_path):
    folder, sets, _ = made
    table = write_table(tmp_path, [[f"{sets[0][0]}?"], *sets[1:]])
    with pytest.raises(InputError, match="CLPL takes plain lists .* such as '0' .* use ored-background or noisy-or"):
        Run.create(folder / "made.csv", tmp_path / "run", labels=table, model="clpl", page=False)


def test_calibration_holds_lists_alone_against_probabilities():
    data = make_gaussian_bags(n_bags=60, n_classes=4, random_state=0)
    sets = [set(labels) for labels in data.label_sets]
    for i in range(0, 60, 4):
        first = min(sets[i])
        sets[i] = {Possible(first), *(sets[i] - {first})}
    model = CalibratedAnnotator(ORedLogisticRegression(background=True)).fit(data.bags, sets)
    assert model.reliability_["bags"] == 45
    assert len(model.seen_bags_) == 60
    with pytest.warns(CalibrationWarning, match="and 0 of 4 have one"):
        few = CalibratedAnnotator(ORedLogisticRegression()).fit(
            data.bags[[0, 4, 8, 12]], [sets[i] for i in (0, 4, 8, 12)]
        )
    assert few.reliability_ is None


def test_an_instance_of_a_label_that_its_bag_does_not_hold_is_an_error(tmp_path):
    data = make_gaussian_bags(n_bags=30, n_classes=3, random_state=0)
    write_dataset(data, tmp_path / "made.csv")
    label = str(data.class_names[data.instance_labels.instances[0]])
    rows = [f"{i},{';'.join(sorted(map(str, labels)))}" for i, labels in enumerate(data.label_sets)]
    rows[0] = f"0,!{label}"
    (tmp_path / "t.csv").write_text("\n".join(["bag,labels", *rows]) + "\n")
    options = {"labels": tmp_path / "t.csv", "page": False}
    with pytest.raises(InputError, match=rf"Instance 0 of '0' is known to be '{label}'.*'!{label}'\); correct one"):
        Run.create(tmp_path / "made.csv", tmp_path / "run", use_known=True, **options)
    with Run.create(tmp_path / "made.csv", tmp_path / "other", **options) as run:  # what is said later counts
        run.correct([("0", 0, label)])
        assert label in run.result().label_sets["0"]
