"""Counts from a random sample of a run: drawn, answered in part or whole, corrections beside it."""

import shutil

import pytest

import bagwise
from bagwise import Run, write_dataset
from bagwise.app.media.matching import match_events
from bagwise.app.runs.folder import STATE
from bagwise.app.runs.survey import FILE
from bagwise.core.exceptions import FormatError, InputError
from bagwise.datasets import make_gaussian_bags
from made import read_csv, write_scene
from made import run as command


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    folder = tmp_path_factory.mktemp("table")
    data = make_gaussian_bags(n_bags=150, n_classes=3, separation=2.0, random_state=1)
    write_dataset(data, folder / "made.csv")
    with Run.create(folder / "made.csv", folder / "run", page=False):
        pass
    return folder


@pytest.fixture
def run(table, tmp_path):
    shutil.copytree(table / "run", tmp_path / "run", copy_function=shutil.copy2)
    with Run.open(tmp_path / "run") as opened:
        yield opened


@pytest.fixture
def truth(run):
    """Bag and instance to the true label, as text."""
    data = bagwise.read_dataset(run.media)
    names = [str(data.class_names[code]) for code in data.instance_labels.instances]
    return {(row["bag"], row["instance"]): name for row, name in zip(run.annotations(), names, strict=True)}


def answer(run, truth, asked):
    run.correct([(bag, i, truth[bag, i]) for bag, i in asked])


def counts(truth):
    labels = list(truth.values())
    return {label: labels.count(label) for label in set(labels)}


def test_without_a_sample_figures_are_the_models_and_say_so(run):
    rows = run.estimate()
    assert [row["label"] for row in rows] == run.labels
    assert {row["basis"] for row in rows} == {"model"}
    assert {row["n_reviewed"] for row in rows} == {0}
    assert {row["more"] for row in rows} == {None}
    assert sum(row["count"] for row in rows) <= len(run.annotations())


def test_an_answered_sample_gives_intervals_that_hold_and_more_answers_narrower_ones(run, truth):
    answer(run, truth, run.draw_sample(80, seed=0))
    rows, true = run.estimate(), counts(truth)
    assert {row["basis"] for row in rows} == {"sample"}
    assert {row["n_reviewed"] for row in rows} == {80}
    assert all(row["low"] <= true[row["label"]] <= row["high"] for row in rows)
    asked = run.draw_sample(100, seed=1)
    assert len(asked) == 100
    assert len({*asked}) == 100
    answer(run, truth, asked)
    more = run.estimate()
    assert {row["n_reviewed"] for row in more} == {180}
    assert all(b["high"] - b["low"] < a["high"] - a["low"] for a, b in zip(rows, more, strict=True))
    run.refit(page=False)  # a model that has learned the answers is no witness of them
    assert [row["count"] for row in run.estimate()] == [row["count"] for row in more]


def test_a_bag_of_which_only_a_label_is_left_that_the_model_does_not_know(table, tmp_path):
    """Its own labels are rejected, and a new one is given: to the model its set is empty."""
    with Run.create(table / "made.csv", tmp_path / "run", model="ored", page=False) as run:
        bag, sets = run.material.dataset.bag_names[0], run.supervision().dataset.label_sets
        run.correct([(bag, 0, "new")], absent=[(bag, label) for label in sets[0]])
        assert (bag, 0) not in run.draw_sample(20, seed=0)
        assert {row["label"]: row["n_reviewed"] for row in run.estimate()}["new"] == 0


def test_corrections_that_were_not_drawn_do_not_enter(run, truth):
    """All instances that the model got wrong are corrected: the estimate from the sample does not move."""
    asked = run.draw_sample(80, seed=2)
    answer(run, truth, asked)
    before = run.estimate()
    wrong = [(r["bag"], r["instance"]) for r in run.annotations() if r["label"] != truth[r["bag"], r["instance"]]]
    answer(run, truth, set(wrong) - {*asked})
    assert run.estimate() == before


def test_instances_known_before_the_draw_are_counted_and_not_drawn(run, truth):
    keys = sorted(truth)[:40]
    answer(run, truth, keys)
    asked = run.draw_sample(60, seed=3)
    assert not {*asked} & {*keys}
    answer(run, truth, asked)
    true = counts(truth)
    for row in run.estimate():
        assert sum(truth[key] == row["label"] for key in keys) <= row["low"] <= true[row["label"]] <= row["high"]


def test_everything_answered_is_the_truth(run, truth):
    answer(run, truth, run.draw_sample(len(truth)))
    assert {row["label"]: (row["low"], row["count"], row["high"]) for row in run.estimate()} == {
        label: (n, n, n) for label, n in counts(truth).items()
    }
    with pytest.raises(InputError, match="nothing left to draw"):
        run.draw_sample(1)


def test_a_sample_answered_in_part(run, truth):
    """The first answers make no interval, half of them do; those that are skipped widen it by all that they may be."""
    asked = run.draw_sample(100, seed=4)
    answer(run, truth, asked[:3])
    assert {(row["basis"], row["n_reviewed"]) for row in run.estimate()} == {("model", 3)}
    answer(run, truth, asked[3:60])
    half = run.estimate()
    assert {(row["basis"], row["n_reviewed"]) for row in half} == {("sample", 60)}
    answer(run, truth, asked[60:70])
    without = run.estimate()
    run.undo()
    answer(run, truth, asked[65:70])
    skipped = run.estimate()
    assert {row["n_reviewed"] for row in skipped} == {65}
    for row, plain in zip(skipped, without, strict=True):
        assert row["low"] <= plain["low"]
        assert row["high"] >= plain["high"]
    assert sum(row["high"] - row["low"] for row in skipped) > 1.1 * sum(row["high"] - row["low"] for row in without)


def test_a_label_that_only_people_know_is_counted(run, truth):
    asked = run.draw_sample(60, seed=5)
    answer(run, {key: "new" if label == "0" else label for key, label in truth.items()}, asked)
    rows = {row["label"]: row for row in run.estimate()}
    assert rows["new"]["low"] <= counts(truth)["0"] <= rows["new"]["high"]


def test_nonsense_is_refused(run):
    with pytest.raises(InputError, match="by is 'week'"):
        run.estimate("week")
    with pytest.raises(InputError, match="bags of a table"):
        run.estimate("hour")
    with pytest.raises(InputError, match="at least one"):
        run.draw_sample(0)
    run.draw_sample(10)
    (run.path / STATE / FILE).write_bytes(b"nonsense")
    with pytest.raises(FormatError, match="draw a new sample"):
        run.estimate()


@pytest.fixture(scope="module")
def field(tmp_path_factory):
    """Recordings of two sites at three hours."""
    folder = tmp_path_factory.mktemp("field")
    scene, _ = write_scene(folder, 12, random_state=2)
    renamed = {}
    for i, path in enumerate(sorted((folder / "recordings").glob("*.wav"))):
        renamed[path.name] = f"{'AB'[i % 2]}_202405{1 + i // 6:02d}_{5 + i % 3:02d}0000.wav"
        path.rename(path.with_name(renamed[path.name]))
    table = (folder / "labels.csv").read_text()
    for old, new in renamed.items():
        table = table.replace(old, new).replace(old.removesuffix(".wav") + ",", new.removesuffix(".wav") + ",")
    (folder / "labels.csv").write_text(table)
    with Run.create(folder / "recordings", folder / "run", labels=folder / "labels.csv", jobs=1, page=False) as made:
        rows = made.annotations()
    events = [{**event, "file": renamed[event["file"]]} for event in scene.events]
    found = match_events(rows, events)
    labels = [events[j]["label"] if j >= 0 else "" for j in found]
    return folder, {(row["bag"], row["instance"]): label for row, label in zip(rows, labels, strict=True)}


@pytest.mark.parametrize("by", ["file", "site", "hour", "date"])
def test_counts_by_group(field, tmp_path, by):
    folder, truth = field
    shutil.copytree(folder / "run", tmp_path / "run", copy_function=shutil.copy2)
    with Run.open(tmp_path / "run") as run:
        answer(run, truth, run.draw_sample(10_000))
        rows = run.annotations()
        site = {row["file"]: row["file"][0] for row in rows}
        keys = {
            "file": lambda row: row["file"],
            "site": lambda row: site[row["file"]],
            "hour": lambda row: int(row["file"][11:13]),
            "date": lambda row: f"{row['file'][2:6]}-{row['file'][6:8]}-{row['file'][8:10]}",
        }
        found = {(row["label"], row[by]): row for row in run.estimate(by)}
        assert {group for _, group in found} == {keys[by](row) for row in rows}
        for (label, group), row in found.items():
            true = sum(keys[by](one) == group and truth[one["bag"], one["instance"]] == label for one in rows)
            assert (row["low"], row["count"], row["high"]) == (true, true, true)


def test_the_page_draws_activity_once_a_sample_is_answered(field, tmp_path):
    folder, truth = field
    shutil.copytree(folder / "run", tmp_path / "run", copy_function=shutil.copy2)
    page = tmp_path / "run" / "report.html"
    with Run.open(tmp_path / "run") as run:
        asked = run.draw_sample(len(truth) // 2, seed=0)
        run.write(page=True)
        assert 'id="activity"' not in page.read_text(encoding="utf-8")  # nobody answered: no interval
        answer(run, truth, asked)
        run.write(page=True)
        text, rows = page.read_text(encoding="utf-8"), run.estimate("hour")
    assert {row["hour"] for row in rows} == {5, 6, 7}
    assert text.count('class="activity"') == len({row["label"] for row in rows if row["high"] > 0})
    for row in rows:
        said = f"{row['hour']} h: {row['count']:.0f} ({row['low']:.0f} to {row['high']:.0f})"
        assert said in text or row["high"] == 0


def test_an_edit_takes_only_its_own_instance_out_of_the_sample(field, tmp_path):
    folder, truth = field
    shutil.copytree(folder / "run", tmp_path / "run", copy_function=shutil.copy2)
    with Run.open(tmp_path / "run") as run:
        keys = [(row["bag"], row["instance"]) for row in run.annotations()]
        run.move(keys[0], end=run.annotations()[0]["end"] + 0.05)  # before anything was drawn
        asked = run.draw_sample(len(truth) // 2, seed=0)
        answer(run, truth, asked)
        before = run.estimate()
        assert {row["n_reviewed"] for row in before} == {len(asked)}
        first, second = [key for key in asked if key != keys[0]][:2]
        row = next(row for row in run.annotations() if (row["bag"], row["instance"]) == first)
        run.move(first, end=row["end"] + 0.05)
        assert {one["n_reviewed"] for one in run.estimate()} == {len(asked) - 1}
        run.undo()
        assert run.estimate() == before
        run.remove(second)
        assert {one["n_reviewed"] for one in run.estimate()} == {len(asked) - 1}
        run.undo()
        other = next(key for key in keys if key not in asked)
        left = next(one for one in run.annotations() if (one["bag"], one["instance"]) == other)
        run.split(other, at=(left["start"] + left["end"]) / 2)  # nobody named it: its parts may be anything
        split = run.estimate()
        assert {one["n_reviewed"] for one in split} == {len(asked)}
        assert all(one["high"] >= old["low"] for one, old in zip(split, before, strict=True))


def test_the_command_writes_a_table(field, tmp_path):
    folder, _ = field
    shutil.copytree(folder / "run", tmp_path / "run", copy_function=shutil.copy2)
    result = command("estimate", tmp_path / "run", "--by", "hour", "--out", tmp_path / "table.csv")
    assert result.exit_code == 0, result.output
    assert "nobody has looked" in result.output
    rows = read_csv(tmp_path / "table.csv")
    assert list(rows[0]) == ["label", "hour", "count", "low", "high", "n_reviewed", "basis", "more"]
    assert {row["hour"] for row in rows} == {"5", "6", "7"}
    result = command("estimate", tmp_path / "run", "--draw", 30)
    assert "30 instances are drawn" in result.output
