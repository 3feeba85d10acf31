"""Boxes over what is not recordings: stretches of series, passages of texts, regions of pictures; vectors; the disk."""

import shutil

import numpy as np
import pytest

from bagwise import Run
from bagwise.core.exceptions import InputError
from bagwise.datasets import make_soundscape
from failing_disk import BROKEN, FULL, FailingDisk, needs_descriptors


def keys_of(run):
    return [(row["bag"], row["instance"]) for row in run.annotations()]


def row_at(run, key):
    (row,) = [row for row in run.annotations() if (row["bag"], row["instance"]) == key]
    return row


@pytest.fixture(scope="module")
def series(tmp_path_factory):
    folder, rng = tmp_path_factory.mktemp("series"), np.random.default_rng(0)
    (folder / "media").mkdir()
    for i in range(6):
        time = np.arange(600) / 50
        time[400:] += 5.0  # a gap
        wave = np.where(time < 6, np.sin(20 * time), 0.1) + 0.01 * rng.standard_normal(600)
        lines = [f"{a:.2f},{b:.4f}" for a, b in zip(time, wave, strict=True)]
        (folder / "media" / f"{i}.csv").write_text("\n".join(["time,x", *lines]) + "\n")
    rows = [f"{i}.csv,{label}" for i in range(6) for label in ("move", "rest")]
    (folder / "labels.csv").write_text("\n".join(["file,label", *rows]) + "\n")
    options = {"labels": folder / "labels.csv", "media_type": "series", "page": False, "jobs": 1}
    Run.create(folder / "media", folder / "run", **options).close()
    return folder / "run"


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    folder, rng = tmp_path_factory.mktemp("texts"), np.random.default_rng(0)
    (folder / "media").mkdir()
    words = {"sea": ["wave", "ship", "salt", "fish"], "hill": ["stone", "goat", "cliff", "path"]}
    rows = []
    for i in range(8):
        labels = ["sea", "hill"] if i % 2 else [["sea", "hill"][i // 2 % 2]]
        text = " ".join(rng.choice(words[labels[j // 30 % len(labels)]]) for j in range(90))
        (folder / "media" / f"{i}.txt").write_text(text + ".")
        rows += [f"{i}.txt,{label}" for label in labels]
    (folder / "labels.csv").write_text("\n".join(["file,label", *rows]) + "\n")
    settings = {"window": 20, "step": 10}
    options = {"labels": folder / "labels.csv", "settings": settings, "page": False, "jobs": 1, "model": "ored"}
    Run.create(folder / "media", folder / "run", **options).close()
    return folder / "run"


@pytest.mark.parametrize("kind", ["series", "texts"])
def test_an_instance_drawn_where_one_is_has_its_features(kind, request, tmp_path):
    shutil.copytree(request.getfixturevalue(kind), tmp_path / "run", copy_function=shutil.copy2)
    with Run.open(tmp_path / "run") as run:
        before = run.annotations()
        row = before[1]
        new = run.add_instance(row["file"], row["start"], row["end"])
        features = run.material.dataset.bags.instances
        if kind == "texts":
            features = features.toarray()
        old = features[run.row_of(row["bag"], row["instance"])]
        np.testing.assert_array_equal(features[run.row_of(*new)], old)
        assert [row_at(run, new)[name] for name in ("start", "end")] == [row["start"], row["end"]]
        left, right = run.split(new, at=(row["start"] + row["end"]) // 2)
        assert run.merge([left, right]) == new
        run.move(new, start=(row["start"] + row["end"]) // 2)
        run.refit()
        said = run.annotations()
        with Run.open(run.path) as again:
            assert again.annotations() == said
        for _ in range(4):
            run.undo()
        assert run.annotations() == before


def test_a_stretch_reaches_across_no_gap(series, tmp_path):
    shutil.copytree(series, tmp_path / "run", copy_function=shutil.copy2)
    with Run.open(tmp_path / "run") as run:
        with pytest.raises(InputError, match="and a gap"):
            run.add_instance("0.csv", 7.0, 14.0)
        with pytest.raises(InputError, match="holds 2 rows"):
            run.add_instance("0.csv", 1.0, 1.04)
        with pytest.raises(InputError, match="have no frequencies"):
            run.add_instance("0.csv", 1.0, 2.0, 10, 20)
        assert run.corrections() == []


def test_a_passage_holds_words(texts, tmp_path):
    shutil.copytree(texts, tmp_path / "run", copy_function=shutil.copy2)
    with Run.open(tmp_path / "run") as run:
        with pytest.raises(InputError, match="lies outside of 0.txt"):
            run.add_instance("0.txt", 10, 10_000)
        with pytest.raises(InputError, match="its end does not come after its start"):
            run.add_instance("0.txt", 10, 10)
        assert run.corrections() == []


def test_regions_of_pictures_are_removed_and_not_drawn(tmp_path):
    from PIL import Image

    (tmp_path / "media").mkdir()
    for i in range(4):
        points = np.zeros((60, 80, 3), dtype=np.uint8)
        points[:, :40] = [200, 30 * i, 0]
        points[:, 40:] = [0, 90, 200]
        Image.fromarray(points).save(tmp_path / "media" / f"{i}.png")
    (tmp_path / "labels.csv").write_text("file,label\n" + "".join(f"{i}.png,red\n{i}.png,blue\n" for i in range(4)))
    options = {"labels": tmp_path / "labels.csv", "page": False, "jobs": 1, "model": "ored"}
    with Run.create(tmp_path / "media", tmp_path / "run", **options) as run:
        key = keys_of(run)[0]
        with pytest.raises(InputError, match="cannot be drawn or changed here; they can be removed"):
            run.add_instance("0.png", 0, 10, 0, 10)
        with pytest.raises(InputError, match="cannot be drawn or changed here"):
            run.split(key, at=3)
        run.remove(key)
        assert key not in keys_of(run)
        run.refit()
        assert key not in keys_of(run)


@pytest.fixture(scope="module")
def sounds(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sounds")
    make_soundscape(4, seconds=5.0, species_per_recording=(2, 2), random_state=1).write(folder)
    options = {"labels": folder / "labels.csv", "page": False, "jobs": 1, "model": "ored"}
    Run.create(folder / "recordings", folder / "run", **options).close()
    return folder / "run"


def draw(run):
    file = run.material.files[0]["file"]
    run.add_instance(file, 0.2, 0.6, 1000, 3000, label=run.labels[0])


def cut(run):
    row = run.annotations()[2]
    run.split((row["bag"], row["instance"]), at=(row["start"] + row["end"]) / 2)


@needs_descriptors
@pytest.mark.parametrize("kind", [FULL, BROKEN])
@pytest.mark.parametrize("work", [draw, cut, lambda run: run.remove(keys_of(run)[0])], ids=["draw", "cut", "remove"])
def test_a_disk_that_fails_loses_and_keeps_nothing(sounds, tmp_path, work, kind):
    """At every call: what was answered is there, what was refused is not, and it goes through the next time."""
    shutil.copytree(sounds, tmp_path / "counted", copy_function=shutil.copy2)
    with Run.open(tmp_path / "counted") as run:
        before = run.annotations()
        with FailingDisk(run.path) as disk:
            work(run)
        after = run.annotations()
    assert disk.count >= 2
    assert before != after
    for nth in range(1, disk.count + 1):
        folder = tmp_path / f"run{nth}"
        shutil.copytree(sounds, folder, copy_function=shutil.copy2)
        with Run.open(folder) as run:
            with FailingDisk(folder, nth, kind) as disk:
                try:
                    work(run)
                    is_done = True
                except (OSError, InputError):
                    is_done = False
            assert disk.failed or is_done
            assert run.annotations() == (after if is_done else before)
        with Run.open(folder) as run:
            assert run.annotations() == (after if is_done else before)
            if not is_done:
                work(run)
            assert run.annotations() == after
            assert run.problems == []
        shutil.rmtree(folder)
