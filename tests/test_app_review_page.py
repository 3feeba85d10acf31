"""A run under review without a server: statistics, samples, what is shown of each medium, what is kept in memory."""

import io
import shutil
import threading
import time

import numpy as np
import pytest

from bagwise import BagDataset, Run, load, write_dataset
from bagwise.annotation import query_order
from bagwise.app.review._errors import MissingError, RequestError
from bagwise.app.review._media import Cache
from bagwise.app.review._samples import agreement_curve, first_answers, label_shares, read_samples
from bagwise.app.review.review import Review
from bagwise.app.runs.folder import MODEL_FILE, version_folder
from bagwise.core.exceptions import InputError
from bagwise.datasets import make_gaussian_bags
from bagwise.metrics import wilson_interval


def answer(bag, instance, action, before="a", label="a"):
    return {"bag": bag, "instance": instance, "action": action, "before": before, "label": label}


def test_only_the_first_answer_to_an_instance_is_one_to_the_model():
    said = [
        answer("x", 0, "label", label="b"), answer("x", 0, "confirmed"), answer("x", None, "present"),
        answer("y", 0, "noise", label=""),
    ]  # fmt: skip
    assert [one["action"] for one in first_answers(said)] == ["label", "noise"]
    (row,) = label_shares(first_answers(said), ["a"])
    assert (row["confirmed"], row["answered"], row["share"]) == (0, 2, 0.0)


def test_the_label_of_a_box_that_a_person_drew_is_no_answer_to_the_model():
    keys = ("bag", "instance", "label", "action", "before", "call")
    rows = [
        ("x", 5, "", "box", "", 1),
        ("x", 5, "a", "label", "", 1),
        ("x", 5, "b", "label", "a", 2),  # the person corrects the person
        ("x", 6, "", "box", "", 3),
        ("x", 6, "b", "confirmed", "b", 4),  # this the model said
        ("x", 0, "", "moved", "", 5),
        ("x", 0, "b", "label", "", 5),
    ]
    answers = first_answers(dict(zip(keys, row, strict=True)) for row in rows)
    assert [(answer["instance"], answer["call"]) for answer in answers] == [(6, 4)]


def test_the_curve_of_agreement_looks_at_the_last_fifty():
    said = [answer("x", i, "label") for i in range(60)] + [answer("y", i, "confirmed") for i in range(50)]
    curve = dict(agreement_curve(said))
    assert curve[60] == 0.0
    assert curve[85] == 0.5
    assert curve[110] == 1.0
    assert agreement_curve([]) == []
    assert len(agreement_curve(said * 50)) <= 201


def test_the_cache_is_bounded_and_forgets_the_oldest():
    cache, made = Cache(100), []

    def make(name):
        return cache.get(name, lambda: made.append(name) or b"x" * 40)

    for name in "aabcbda":
        make(name)
        assert cache.size <= 100
    assert made == ["a", "b", "c", "d", "a"]
    assert len(cache.get("large", lambda: b"x" * 1000)) == 1000
    assert cache.size <= 100


@pytest.fixture
def review(tmp_path):
    data = make_gaussian_bags(n_bags=60, n_classes=4, random_state=1)
    write_dataset(data, tmp_path / "made.csv")
    with Run.create(tmp_path / "made.csv", tmp_path / "run", page=False):
        pass
    under_review = Review(Run.open(tmp_path / "run"))
    yield under_review
    under_review.close()


def confirm(row, label=None):
    return {"bag": row["bag"], "instance": row["instance"], "label": row["label"] if label is None else label}


def test_a_sample_gives_the_share_of_its_own_answers(review):
    """Answers outside of it, and other orders, do not count."""
    number = review.draw_sample(None, 20, seed=3)["id"]
    drawn = review.instances(100, order="drawn", rows=review.sample_rows(number))["instances"]
    assert len(drawn) == 20
    outside = [row for row in review.instances(1000, order="file")["instances"] if row not in drawn]
    review.correct([confirm(row, "other") for row in outside[:30]])
    for i, row in enumerate(drawn[:10]):
        review.correct([confirm(row, "other" if i < 2 else None)])
    (share,) = review.history()["samples"]
    assert (share["n"], share["answered"], share["confirmed"], share["share"]) == (20, 10, 8, 0.8)
    assert (share["low"], share["high"]) == wilson_interval(0.8, 10)
    assert [sample.id for sample in read_samples(review.run.path)] == [number]


def test_samples_of_a_seed_are_the_same_and_every_instance_is_as_likely(review):
    rows = [review.sample_rows(review.draw_sample(None, 10, seed=7)["id"]).tolist() for _ in range(2)]
    assert rows[0] == rows[1]
    counts = np.zeros(review.snapshot().codes.size)
    for seed in range(90):
        counts[np.asarray(review.sample_rows(review.draw_sample(None, 100, seed=seed)["id"]))] += 1
    expected = 90 * 100 / len(counts)
    assert np.abs(counts - expected).max() < 6 * np.sqrt(expected)


def test_an_order_stays_while_one_works_and_what_was_answered_goes_last(review, monkeypatch):
    monkeypatch.setattr("bagwise.app.review._tasks.WAIT", 90.0)  # however busy the machine is
    first = review.instances(1000, order="useful")["instances"]
    review.correct([confirm(first[0]), confirm(first[3])])
    then = review.instances(1000, order="useful")["instances"]
    key = [(row["bag"], row["instance"]) for row in first]
    expected = [key[i] for i in range(len(key)) if i not in (0, 3)] + [key[0], key[3]]
    assert [(row["bag"], row["instance"]) for row in then] == expected


def test_the_order_that_helps_most_is_that_of_query_order(review, monkeypatch):
    monkeypatch.setattr("bagwise.app.review._tasks.WAIT", 90.0)
    run = review.run
    model = load(version_folder(run.path, 0) / MODEL_FILE)
    data = run.supervision().dataset
    expected = query_order(model, data.bags, data.label_sets, None, 30)
    rows = review.instances(30, order="useful")["instances"]
    assert [review.places.row(row["bag"], row["instance"]) for row in rows] == expected.tolist()


def test_an_order_that_takes_long_is_told_of_when_it_is_there(review, monkeypatch):
    go = threading.Event()
    monkeypatch.setattr("bagwise.app.review._tasks.WAIT", 0.01)
    monkeypatch.setattr(
        "bagwise.app.review._tasks.acquisition_order", lambda *a, **k: go.wait(90) and np.arange(5)[::-1]
    )
    first = review.instances(5, order="useful")
    assert first["instances"] == review.instances(5, order="least-sure")["instances"]
    go.set()
    until = time.monotonic() + 90
    while review.summary()["revision"] == first["revision"] and time.monotonic() < until:
        time.sleep(0.01)
    rows = review.instances(5, order="useful")["instances"]
    assert [review.places.row(row["bag"], row["instance"]) for row in rows] == [4, 3, 2, 1, 0]


@pytest.fixture(scope="module")
def faulty(tmp_path_factory):
    """A run of bags of which a quarter of the labels is missing, and some are false, by a model that knows it."""
    folder, rng = tmp_path_factory.mktemp("faulty"), np.random.default_rng(0)
    data = make_gaussian_bags(n_bags=80, n_classes=5, separation=4.0, random_state=2)
    spoiled = np.where(rng.random(data.Y.shape) < 0.25, 0, data.Y)
    spoiled[rng.random(data.Y.shape) < 0.04] = 1
    write_dataset(BagDataset(data.bags, spoiled, list("abcde")), folder / "made.csv")
    rates = {"missed": 0.25, "spurious": 0.04}
    Run.create(folder / "made.csv", folder / "run", model="ored", learner=rates, page=False).close()
    return folder / "run"


@pytest.fixture
def doubting(faulty, tmp_path):
    shutil.copytree(faulty, tmp_path / "run")
    under_review = Review(Run.open(tmp_path / "run"))
    yield under_review
    under_review.close()


def of_bag(row, action):
    return {"bag": row["bag"], "instance": None, "label": row["label"], "action": action}


def test_doubts_stay_while_they_are_settled_and_are_not_asked_again(doubting):
    supervision = doubting.label_issues()
    rows = supervision["labels"]
    assert supervision["is_done"]
    assert supervision["has_rates"]
    kept = ("kind", "bag", "label", "probability", "instance", "instance_probability")
    assert [{key: row[key] for key in kept} for row in rows] == doubting.run.label_issues(100)
    assert all(row["said"] is None for row in rows)
    forgotten = [i for i, row in enumerate(rows) if row["kind"] == "missing"]
    doubtful = [i for i, row in enumerate(rows) if row["kind"] == "spurious"]
    said = {forgotten[0]: "present", forgotten[1]: "absent", doubtful[0]: "absent", doubtful[1]: "present"}
    doubting.correct([of_bag(rows[i], action) for i, action in said.items()])
    named = next(i for i in forgotten[2:] if rows[i]["bag"] not in {rows[j]["bag"] for j in said})
    doubting.correct([{key: rows[named][key] for key in ("bag", "instance", "label")}])  # puts it into the bag
    said[named] = "present"
    after = doubting.label_issues()["labels"]
    assert [row["said"] for row in after] == [said.get(i) for i in range(len(rows))]
    assert [row | {"said": None} for row in after] == rows
    listed = dict(zip(doubting.places.bag_names, doubting.run.supervision().dataset.label_sets, strict=True))
    for i, action in said.items():
        assert (rows[i]["label"] in listed[rows[i]["bag"]]) == (action == "present")
    doubting.undo()
    assert doubting.label_issues()["labels"][named]["said"] is None
    doubting.correct([{key: rows[named][key] for key in ("bag", "instance", "label")}])
    learn(doubting)
    fresh = doubting.label_issues()
    assert fresh["version"] == supervision["version"] + 1
    pairs = {(row["bag"], row["label"]) for row in fresh["labels"]}
    assert pairs
    assert pairs.isdisjoint((rows[i]["bag"], rows[i]["label"]) for i in said)


def learn(review):
    review.start_refit()
    until = time.monotonic() + 90
    while review.refit_state()["state"] == "running" and time.monotonic() < until:
        time.sleep(0.02)
    assert review.refit_state()["state"] == "idle"


def test_what_was_said_last_of_a_label_is_shown(doubting):
    row = next(row for row in doubting.label_issues()["labels"] if row["kind"] == "missing")
    doubting.correct([of_bag(row, "absent")])
    assert doubting.label_issues()["labels"][0]["said"] == "absent"
    doubting.correct([{key: row[key] for key in ("bag", "instance", "label")}])  # named, it is in the bag after all
    assert doubting.label_issues()["labels"][0]["said"] == "present"
    doubting.undo()
    assert doubting.label_issues()["labels"][0]["said"] == "absent"


def test_a_fit_with_the_number_of_one_that_was_taken_back_has_doubts_of_its_own(doubting):
    rows = doubting.label_issues()["labels"]
    doubting.correct([of_bag(rows[0], "present")])
    learn(doubting)
    first = doubting.label_issues()
    doubting.undo()
    doubting.correct([of_bag(rows[1], "present")])
    learn(doubting)
    second = doubting.label_issues()
    assert first["version"] == second["version"]
    pairs = [{(row["bag"], row["label"]) for row in supervision["labels"]} for supervision in (first, second)]
    settled = [(rows[i]["bag"], rows[i]["label"]) for i in range(2)]
    assert settled[0] not in pairs[0]
    assert settled[0] in pairs[1]
    assert settled[1] not in pairs[1]


def test_doubts_that_cannot_be_worked_out_are_told(doubting, monkeypatch, capsys):
    def fail(*args):
        raise RuntimeError("on purpose")

    monkeypatch.setattr("bagwise.app.review._tasks.label_issues", fail)
    supervision = doubting.label_issues()
    assert (supervision["is_done"], supervision["failed"], supervision["labels"]) == (True, True, [])
    assert "on purpose" in capsys.readouterr().err


def test_a_model_that_takes_labels_for_right_doubts_none(review):
    supervision = review.label_issues()
    assert (supervision["is_done"], supervision["has_rates"], supervision["labels"]) == (True, False, [])


def test_doubts_that_take_long_are_told_of_when_they_are_there(doubting, monkeypatch):
    go = threading.Event()
    found = doubting.run.label_issues(3)
    monkeypatch.setattr("bagwise.app.review._tasks.WAIT", 0.01)
    monkeypatch.setattr("bagwise.app.review._tasks.label_issues", lambda *args: go.wait(90) and found)
    first = doubting.label_issues()
    assert (first["is_done"], first["labels"]) == (False, [])
    go.set()
    until = time.monotonic() + 90
    while doubting.summary()["revision"] == first["revision"] and time.monotonic() < until:
        time.sleep(0.01)
    assert len(doubting.label_issues()["labels"]) == len(found)


def test_tables_have_nothing_to_see_but_features(review):
    row = review.instances(1)["instances"][0]
    shown = review.show(row["bag"], row["instance"])
    assert shown["kind"] == "none"
    assert len(shown["features"]) == review.run.material.dataset.bags.n_features
    with pytest.raises(MissingError):
        review.media.path("made.csv")


def test_threads_see_whole_states_only(review):
    """Every answer is that of one revision: as many checked as corrections were in force."""
    rows = review.instances(1000, order="file")["instances"]
    wrong, stop = [], threading.Event()

    def look():
        while not stop.is_set():
            about = review.summary()
            if about["counts"]["checked"] != about["corrections"]:
                wrong.append(about)

    threads = [threading.Thread(target=look) for _ in range(4)]
    for thread in threads:
        thread.start()
    for row in rows[:60]:
        review.correct([confirm(row)])
    stop.set()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_the_process_that_learns_may_die(review):
    """A process that the system killed is told of, and the next refit works."""
    rows = review.instances(10, order="file")["instances"]
    review.correct([confirm(rows[0], "other")])
    review.start_refit()
    review._learner._process.kill()
    states = wait(review, "running")
    assert states["state"] == "failed"
    assert "no correction is lost" in states["error"]
    review.start_refit()
    assert wait(review, "running")["state"] == "idle"
    assert review.run.version == 1


def wait(review, state):
    until = time.monotonic() + 90
    while review.refit_state()["state"] == state and time.monotonic() < until:
        time.sleep(0.02)
    return review.refit_state()


def test_nobody_is_asked_twice(review):
    assert review.name_reviewer(" Ada ") == {"by": "Ada"}
    row = review.instances(1)["instances"][0]
    review.correct([confirm(row)])
    assert review.run.corrections()[0]["by"] == "Ada"
    with pytest.raises(RequestError):
        review.name_reviewer("x" * 201)
    with pytest.raises(InputError):
        review.correct([confirm(row, "x" * 10_000)])
    assert len(review.run.corrections()) == 1


# ---------------------------------------------------------------------------------------------------------------------
# The other media


def open_review(folder, out, **options):
    with Run.create(folder, out, page=False, jobs=1, **options):
        pass
    return Review(Run.open(out))


def write_labels(path, sets):
    lines = [f"{name},{label}" for name, labels in sets.items() for label in labels]
    path.write_text("file,label\n" + "\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_pictures_are_shown_with_their_regions(tmp_path):
    from PIL import Image

    folder = tmp_path / "pictures"
    folder.mkdir()
    rng = np.random.default_rng(0)
    sets = {}
    for i in range(6):
        image = np.zeros((60, 2000, 3), dtype=np.uint8) + rng.integers(0, 20, (60, 2000, 3), dtype=np.uint8)
        image[:, :1000, i % 3] += 200
        Image.fromarray(image).save(folder / f"p {i}.png")
        sets[f"p {i}.png"] = [("red", "green", "blue")[i % 3], "dark"]
    labels = write_labels(tmp_path / "labels.csv", sets)
    review = open_review(folder, tmp_path / "run", labels=labels, settings={"regions": "slic", "n_segments": 4})
    try:
        row = review.instances(1, order="file")["instances"][0]
        assert "polygon" not in row
        shown = review.show(row["bag"], row["instance"])
        assert (shown["kind"], shown["width"], shown["height"]) == ("image", 2000, 60)
        assert shown["picture"] == "/media/picture?file=p+0.png"
        assert all(len(ring) >= 3 for region in shown["regions"] for ring in region["rings"])
        assert Image.open(io.BytesIO(review.media.picture("p 0.png"))).size == (1600, 48)
        i = review.places.row(row["bag"], row["instance"])
        assert max(Image.open(io.BytesIO(review.media.thumb("p 0.png", review.places.place(i), 80))).size) == 80
    finally:
        review.close()


def test_texts_are_shown_as_passages_that_do_not_overlap(tmp_path):
    folder = tmp_path / "texts"
    folder.mkdir()
    sets = {}
    for i in range(6):
        words = " ".join(["cow grass milk", "star moon night"][(i + k // 4) % 2] for k in range(12))
        (folder / f"{i}.txt").write_text(f"<b>Ä</b> {words}.", encoding="utf-8")
        sets[f"{i}.txt"] = ["farm", "sky"]
    labels = write_labels(tmp_path / "labels.csv", sets)
    review = open_review(folder, tmp_path / "run", labels=labels, settings={"window": 8, "step": 4, "keep": 1.0})
    try:
        row = review.instances(3, order="file")["instances"][2]
        shown = review.show(row["bag"], row["instance"])
        text = (folder / row["file"]).read_text(encoding="utf-8")
        assert shown["kind"] == "text"
        assert "".join(piece["text"] for piece in shown["passages"]) == shown["text"] == text
        own = "".join(piece["text"] for piece in shown["passages"] if piece["instance"] == row["instance"])
        assert own == text[row["start"] : row["end"]]
        assert len(shown["spans"]) == review.instances(0, file=row["file"])["total"]
        with pytest.raises(MissingError):
            review.media.thumb(row["file"], {}, 80)
    finally:
        review.close()


def test_series_are_shown_as_curves(tmp_path):
    folder = tmp_path / "series"
    folder.mkdir()
    rng, sets = np.random.default_rng(0), {}
    for i in range(6):
        t = np.arange(600) / 50
        wave = np.where(t < 6, np.sin(2 * np.pi * 3 * t), 0.1) + 0.01 * rng.standard_normal(600)
        rows = "\n".join(f"{a:.2f},{b:.4f},{-b:.4f}" for a, b in zip(t, wave, strict=True))
        (folder / f"{i}.csv").write_text(f"time,x,y\n{rows}\n", encoding="utf-8")
        sets[f"{i}.csv"] = ["move", "rest"]
    labels = write_labels(tmp_path / "labels.csv", sets)
    review = open_review(folder, tmp_path / "run", labels=labels, media_type="series")
    try:
        row = review.instances(1, order="file")["instances"][0]
        shown = review.show(row["bag"], row["instance"])
        assert (shown["kind"], shown["channels"]) == ("series", ["x", "y"])
        assert len(shown["lines"]) == 2
        assert len(shown["lines"][0]) == len(shown["times"])
        assert shown["from"] <= row["start"] < row["end"] <= shown["to"] + 1e-9
        i = review.places.row(row["bag"], row["instance"])
        assert review.media.thumb(row["file"], review.places.place(i), 64)[:4] == b"\x89PNG"
    finally:
        review.close()
