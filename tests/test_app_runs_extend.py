"""More recordings for a run: annotated by the model in force, nothing of what was there is lost."""

import shutil

import numpy as np
import pytest
from click.testing import CliRunner

from bagwise import Run
from bagwise.app.cli import main
from bagwise.app.runs.extend import extend_run
from bagwise.app.runs.folder import RunFolder
from bagwise.core.exceptions import InputError
from bagwise.datasets import make_gaussian_bags, make_soundscape
from bagwise.io.data.formats import write_dataset

NEW = ("recording-006.wav", "recording-007.wav")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A run of six recordings with a correction, and two more below its folder; not to be changed: copy it."""
    folder = tmp_path_factory.mktemp("made")
    make_soundscape(8, species_per_recording=(2, 3), random_state=5).write(folder)
    (folder / "later").mkdir()
    for name in NEW:
        (folder / "recordings" / name).rename(folder / "later" / name)
    rows = (folder / "labels.csv").read_text(encoding="utf-8").splitlines(keepends=True)
    (folder / "first.csv").write_text("".join(row for row in rows if not row.startswith(NEW)), encoding="utf-8")
    with Run.create(folder / "recordings", folder / "run", labels=folder / "first.csv", page=False, jobs=1) as run:
        row = run.annotations()[3]
        run.correct([(row["bag"], row["instance"], "")])
    (folder / "later").rename(folder / "recordings" / "2027")
    return folder


@pytest.fixture
def run(made, tmp_path):
    shutil.copytree(made / "run", tmp_path / "run", copy_function=shutil.copy2)
    return tmp_path / "run"


def rows_of(path):
    with Run.open(path) as opened:
        return opened.annotations()


def is_new(row):
    return row["file"].startswith("2027/")


def test_new_files_are_annotated_and_all_else_stays(made, run):
    before = rows_of(run)
    print_before = (run / "corrections.csv").read_bytes()
    with extend_run(run, made / "recordings" / "2027", jobs=1) as extended:
        model, bags = extended.model(), extended.material.dataset.bags
    after = rows_of(run)
    assert [row for row in after if not is_new(row)] == before
    assert {row["file"] for row in after if is_new(row)} == {f"2027/{name}" for name in NEW}
    assert {row["mode"] for row in after if is_new(row)} == {"inductive"}
    # the oracle: the model itself, asked for the features of the new files
    labels = model.predict_instances(bags)
    rows = [i for i, row in enumerate(after) if is_new(row)]
    assert [after[i]["label"] for i in rows] == [labels[i] for i in rows]
    assert (run / "corrections.csv").read_bytes() == print_before
    table = (run / "annotations.csv").read_text(encoding="utf-8")
    assert all(f"2027/{name}" in table for name in NEW)
    with Run.open(run) as opened:
        was = opened.corrections()[0]["before"]
        opened.undo()
        assert opened.annotations()[3]["label"] == was
        assert not opened.annotations()[3]["checked"]


def test_refit_learns_from_labels_of_the_new_files(made, run):
    table = made / "labels.csv"  # it names the files that were there, too: their labels stay as they were given
    with extend_run(run, made / "recordings" / "2027", labels=table, jobs=1) as extended:
        assert extended.version == 1
        assert {row["mode"] for row in extended.annotations() if is_new(row)} == {"transductive"}
        assert extended.material.sets.keys() >= {f"2027/{name}" for name in NEW}
        assert extended.problems == []
        learned = extended.refit()
        assert learned.version == 2
        assert extended.refit().version == 2  # nothing is new any more
        everything = {label for labels in extended.material.sets.values() for label in labels}
    with Run.create(made / "recordings", run.parent / "whole", labels=table, page=False, jobs=1) as whole:
        assert set(whole.labels) == everything


def test_interrupted_it_is_as_it_was_and_goes_on(made, run, monkeypatch):
    before = rows_of(run)
    commit = RunFolder.commit

    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(RunFolder, "commit", stop)
    with pytest.raises(KeyboardInterrupt):
        extend_run(run, made / "recordings" / "2027", jobs=1)
    monkeypatch.setattr(RunFolder, "commit", commit)
    assert rows_of(run) == before
    extend_run(run, made / "recordings" / "2027", jobs=1).close()
    assert sum(map(is_new, rows_of(run))) > 0
    with pytest.raises(InputError, match="has all files of .* already"):
        extend_run(run, made / "recordings", jobs=1)
    # the command that made the run knows the new files as well, and the corrections
    with Run.create(made / "recordings", run, labels=made / "first.csv", page=False, jobs=1) as again:
        assert len(again.corrections()) == 1
        assert sum(map(is_new, again.annotations())) > 0


def test_command(made, run):
    more = str(made / "recordings" / "2027")
    refused = CliRunner().invoke(main, ["annotate", more, "--into", str(run), "--model", "clpl"])
    assert refused.exit_code == 2
    assert "--model is a matter of the run" in refused.output
    for arguments in ([], ["--out", str(run), "--into", str(run)], ["--out", "x", "--refit"]):
        assert CliRunner().invoke(main, ["annotate", more, *arguments]).exit_code == 2
    done = CliRunner().invoke(main, ["annotate", more, "--into", str(run), "--refit", "--jobs", "1", "--quiet"])
    assert done.exit_code in (0, 3), done.output
    assert done.output.startswith("8 files, ")
    with Run.open(run) as opened:
        assert opened.version == 2


def test_what_cannot_be_added_is_refused(made, run, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    shutil.copy(made / "recordings" / "2027" / NEW[0], tmp_path / "elsewhere")
    before = rows_of(run)
    with pytest.raises(InputError, match="does not lie in .* move it there"):
        extend_run(run, tmp_path / "elsewhere", jobs=1)
    assert rows_of(run) == before
    write_dataset(make_gaussian_bags(n_bags=20, random_state=0), tmp_path / "made.csv")
    Run.create(tmp_path / "made.csv", tmp_path / "table", page=False).close()
    with pytest.raises(InputError, match="a run of one file"):
        extend_run(tmp_path / "table", tmp_path)


def test_texts_keep_the_terms_that_were_learned(tmp_path):
    folder = tmp_path / "texts"
    (folder / "more").mkdir(parents=True)
    words = {"a": "river water fish boat ", "b": "tower stone brick wall "}
    rng = np.random.default_rng(0)
    rows = ["file,label"]
    for i in range(16):
        label = "ab"[i % 2]
        text = words[label] * int(rng.integers(20, 40))
        name = f"{'more/' if i > 13 else ''}{i}.txt"
        (folder / name).write_text(text + ("zebra " * 20 if i > 13 else ""), encoding="utf-8")
        rows.append(f"{name},{label}")
    (tmp_path / "labels.csv").write_text("\n".join(rows[:15]) + "\n", encoding="utf-8")
    (folder / "more").rename(tmp_path / "more")
    with Run.create(folder, tmp_path / "run", labels=tmp_path / "labels.csv", page=False, jobs=1) as run:
        names = run.material.dataset.feature_names
    (tmp_path / "more").rename(folder / "more")
    with extend_run(tmp_path / "run", folder / "more", jobs=1) as run:
        assert run.material.dataset.feature_names == names
        found = [row for row in run.annotations() if row["file"].startswith("more/")]
        assert {row["label"] for row in found if row["file"] == "more/14.txt"} == {"a"}
        assert {row["label"] for row in found if row["file"] == "more/15.txt"} == {"b"}


def create_again(made, run):
    return Run.create(made / "recordings", run, labels=made / "first.csv", page=False, jobs=1)


def test_the_command_that_made_the_run_goes_on_where_it_was_stopped(made, run, monkeypatch):
    """What was given to the run with its later files is kept until a new fit replaces it, corrections in any case."""
    extend_run(run, made / "recordings" / "2027", jobs=1).close()
    with monkeypatch.context() as stopped:
        stopped.setattr("bagwise.app.runs.run.learn", lambda *a, **k: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            create_again(made, run)
    with create_again(made, run) as again:
        assert again.n_corrections == 1
        assert {row["file"] for row in again.annotations()} >= {f"2027/{name}" for name in NEW}
    assert [path.name for path in (run / ".run").glob("*supervision*")] == ["supervision.json"]


def test_the_command_that_made_the_run_goes_on_without_the_files_that_came(made, run, tmp_path):
    before = rows_of(run)
    extend_run(run, made / "recordings" / "2027", jobs=1).close()
    (made / "recordings" / "2027").rename(tmp_path / "away")
    try:
        with create_again(made, run) as again:
            assert again.n_corrections == 1
            places = [(row["bag"], row["instance"]) for row in again.annotations()]
    finally:
        (tmp_path / "away").rename(made / "recordings" / "2027")
    assert places == [(row["bag"], row["instance"]) for row in before]


def test_answers_that_the_model_learned_do_not_show_how_far_it_can_be_believed(made, run):
    with Run.open(run) as opened:
        named = [row for row in opened.annotations() if row["label"]][:9]
        opened.correct([(row["bag"], row["instance"], row["runner_up"]) for row in named])
        opened.refit()
    with extend_run(run, made / "recordings" / "2027", jobs=1) as extended:
        assert extended._reliability().instances is None
        row = next(row for row in extended.annotations() if row["label"] and is_new(row))
        extended.correct([(row["bag"], row["instance"], row["label"])])
        assert sum(bin["count"] for bin in extended._reliability().instances) == 1


def test_a_fit_that_was_taken_back_annotates_no_new_files(made, run, monkeypatch):
    """Also where the disk was full when it was taken back, so that the manifest still names it."""
    with Run.open(run) as opened:
        named = [row for row in opened.annotations() if row["label"]][:9]
        opened.correct([(row["bag"], row["instance"], row["runner_up"]) for row in named])
        opened.refit()
        with monkeypatch.context() as full:
            full.setattr(RunFolder, "commit", lambda *a: (_ for _ in ()).throw(OSError(28, "full")))
            with pytest.raises(InputError, match="taken back"):
                opened.undo()
        before = opened.annotations()
    with extend_run(run, made / "recordings" / "2027", jobs=1) as extended:
        assert [row for row in extended.annotations() if not is_new(row)] == before


def test_files_with_vectors_of_a_table_of_their_own_can_be_corrected(made, tmp_path):
    rng = np.random.default_rng(0)

    def table(name, files):
        starts, m = np.tile(np.arange(6.0), len(files)), 6 * len(files)
        columns = {"filename": np.repeat(files, 6), "start": starts, "end": starts + 1}
        np.savez(tmp_path / name, **columns, vectors=rng.normal(size=(m, 8)).astype(np.float32))
        return tmp_path / name

    files = [f"recording-{i:03d}.wav" for i in range(6)]
    options = {"labels": made / "first.csv", "embeddings": table("first.npz", files), "page": False, "jobs": 1}
    Run.create(made / "recordings", tmp_path / "run", **options).close()
    new = [f"2027/{name}" for name in NEW]
    later = made / "recordings" / "2027"
    extend_run(tmp_path / "run", later, embeddings=table("later.npz", new), jobs=1).close()
    with Run.open(tmp_path / "run") as run:
        for name in (files[0], new[0]):
            run.correct([(name, 0, "")])
        assert run.n_corrections == 2


def test_lists_of_observers_of_new_files_join_those_of_the_others(made, tmp_path):
    shutil.copytree(made / "recordings", tmp_path / "recordings")
    rows = [row.split(",") for row in (made / "labels.csv").read_text(encoding="utf-8").splitlines()[1:]]
    lists = {who: ["file,observer,labels"] for who in ("first", "later")}
    for name, labels in rows:
        kept = lists["later" if name in NEW else "first"]
        kept += [f"{name},Ada,{labels}", f"{name},Ben,{labels.split(';')[0]}"]
    for when, lines in lists.items():
        (tmp_path / f"{when}.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (tmp_path / "recordings" / "2027").rename(tmp_path / "2027")
    options = {"labels": tmp_path / "first.csv", "page": False, "jobs": 1, "model": "ored-background"}
    with Run.create(tmp_path / "recordings", tmp_path / "run", **options) as run:
        before = run.observers()
        assert [row["bags"] for row in before] == [6, 6]
    (tmp_path / "2027").rename(tmp_path / "recordings" / "2027")
    with extend_run(tmp_path / "run", tmp_path / "recordings" / "2027", labels=tmp_path / "later.csv", jobs=1) as run:
        now = run.observers()
        assert [row["bags"] for row in now] == [8, 8]
        assert [row["missed"] for row in now] == [row["missed"] for row in before]  # nothing is learned yet
        run.refit(page=False)
        assert [row["missed"] for row in run.observers()] != [row["missed"] for row in before]
