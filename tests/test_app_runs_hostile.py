"""Folders of runs that somebody prepared: whatever they hold, nothing outside of them changes."""

import json
import os
import shutil
import stat

import numpy as np
import pytest

from bagwise import Run
from bagwise.app.review.review import Review
from bagwise.core.exceptions import BagwiseError, InputError
from bagwise.datasets import make_soundscape
from bagwise.io.archive import read_archive, write_archive

pytestmark = pytest.mark.skipif(os.name == "nt", reason="links need a right there that few have")
LEADS_OUT, IS_LINK, DAMAGED = "relative|leads out", "is a link", "damaged|cannot be read|expected|missing"
TORN = ".0123456789abcdef.tmp"  # as atomic_write calls what is not finished
KINDS = {}
WRITTEN_FIRST = {"report.html is a link to bashrc, status writing"}  # the page is known to be wanted when it is written


def kind(expected):
    """A kind of hostile folder: the error of opening it, or None where it is a run like any other."""
    return lambda prepare: KINDS.setdefault(prepare.__name__, (prepare, expected)) and prepare


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A run over three recordings, not to be changed: copy it."""
    folder = tmp_path_factory.mktemp("made")
    make_soundscape(3, species_per_recording=(2, 3), random_state=5).write(folder)
    with Run.create(folder / "recordings", folder / "run", labels=folder / "labels.csv", jobs=1, page=False):
        pass
    return folder


@pytest.fixture
def place(made, tmp_path):
    """A copy of the run, and beside it what is somebody's own."""
    shutil.copytree(made / "run", tmp_path / "run", copy_function=shutil.copy2)
    own = tmp_path / "own"
    (own / "folder").mkdir(parents=True)
    for name in ("bashrc", "document.txt", "folder/letter.txt", f"folder/{TORN}", "folder/x.zip"):
        (own / name).write_text(f"what {name} holds\n")
    shutil.copytree(made / "run", own / "run", copy_function=shutil.copy2)  # another run of the same person
    edit(own / "run" / "manifest.json", lambda manifest: manifest.update(status="writing"))
    return tmp_path


def edit(path, change):
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))


def edit_told(run, change):
    edit(run / ".run" / "supervision.json", change)


def edit_manifest(run, change):
    edit(run / "manifest.json", change)


def link(path, target):
    """A link in place of whatever is there."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)
    path.parent.mkdir(exist_ok=True)
    path.symlink_to(target)


def outside(place):
    """All but the run itself: names, kinds, times of change and contents."""
    found = {}
    for root, folders, files in os.walk(place):
        if root == str(place):
            folders.remove("run")
        for name in (*folders, *files):
            path = os.path.join(root, name)
            info = os.lstat(path)
            held = os.readlink(path) if stat.S_ISLNK(info.st_mode) else None
            if stat.S_ISREG(info.st_mode):
                with open(path, "rb") as file:
                    held = file.read()
            found[os.path.relpath(path, place)] = info.st_mode, info.st_mtime_ns, held
    return found


# -- names in supervision.json ---------------------------------------------------------------------------------------


def rename_file(run, name):
    """Give the first recording another name, everywhere in supervision.json."""

    def change(supervision):
        old = supervision["files"][0]["file"]
        supervision["files"][0]["file"] = name
        supervision["entries"] = {name if key == old else key: value for key, value in supervision["entries"].items()}

    edit_told(run, change)


@kind(LEADS_OUT)
def recording_beside_the_run(run, own):
    rename_file(run, "../../own/bashrc")


@kind(LEADS_OUT)
def recording_with_absolute_name(run, own):
    rename_file(run, str(own / "bashrc"))


@kind(LEADS_OUT)
def recording_beside_the_run_of_one_that_is_half_written(run, own):
    rename_file(run, "../../own/bashrc")
    edit_manifest(run, lambda manifest: manifest.update(status="writing"))


@kind(LEADS_OUT)
def recording_behind_a_folder_of_its_own(run, own):
    rename_file(run, "a/../../../own/bashrc")


@kind(LEADS_OUT)
def recording_without_a_name(run, own):
    rename_file(run, "")


@kind(LEADS_OUT)
def recording_with_nothing_in_its_name(run, own):
    rename_file(run, "a\0b.wav")


@kind(LEADS_OUT)
def unread_file_beside_the_run(run, own):
    edit_told(run, lambda supervision: supervision.update(unread=[{"file": "../x", "seconds": 1.0}]))


@kind(DAMAGED)
def file_whose_name_is_a_number(run, own):
    edit_told(run, lambda supervision: supervision["files"][0].update(file=3))


@kind(DAMAGED)
def files_of_which_nothing_is_kept(run, own):
    edit_told(run, lambda supervision: supervision["files"].append({**supervision["files"][0], "file": "other.wav"}))


@kind(DAMAGED)
def label_of_an_instance_that_is_none(run, own):
    edit_told(run, lambda supervision: supervision.update(known=[["no bag", 0, "a"]]))


@kind(DAMAGED)
def told_is_a_list(run, own):
    (run / ".run" / "supervision.json").write_text("[]")


@kind(DAMAGED)
def told_is_nested_deeply(run, own):
    (run / ".run" / "supervision.json").write_text("[" * 100_000)


@kind(DAMAGED)
def told_holds_no_number(run, own):
    edit_told(run, lambda supervision: supervision["files"][0].update(seconds=float("nan")))


@kind(DAMAGED)
def told_holds_half_a_character(run, own):
    edit_told(run, lambda supervision: supervision.update(form="\ud800"))


@kind(IS_LINK)
def told_is_elsewhere(run, own):
    shutil.copy(run / ".run" / "supervision.json", own / "supervision.json")
    link(run / ".run" / "supervision.json", own / "supervision.json")


@kind("neither a file nor a folder")
def told_is_a_pipe(run, own):
    (run / ".run" / "supervision.json").unlink()
    os.mkfifo(run / ".run" / "supervision.json")


# -- what the manifest says -------------------------------------------------------------------------------------------


@kind(LEADS_OUT)
def output_with_absolute_name(run, own):
    edit_manifest(run, lambda manifest: manifest["outputs"].append(str(own / "document.txt")))


@kind(LEADS_OUT)
def output_beside_the_run(run, own):
    edit_manifest(run, lambda manifest: manifest["outputs"].append("../own/document.txt"))


@kind(LEADS_OUT)
def output_that_is_the_run(run, own):
    edit_manifest(run, lambda manifest: manifest["outputs"].append("."))


@kind(IS_LINK)
def output_behind_a_link(run, own):
    link(run / "audacity", own)
    edit_manifest(run, lambda manifest: manifest["outputs"].append("audacity/document.txt"))


@kind(None)
def output_that_somebody_else_wrote(run, own):
    (run / "thesis.txt").write_text("mine\n")
    edit_manifest(run, lambda manifest: manifest["outputs"].append("thesis.txt"))


@kind(DAMAGED)
def version_beside_the_run(run, own):
    shutil.copytree(run / ".run" / "0", own / "version")
    edit_manifest(run, lambda manifest: manifest["versions"][0].update(number="../../own/version"))


@kind(DAMAGED)
def version_below_zero(run, own):
    edit_manifest(run, lambda manifest: manifest["versions"][0].update(number=-1))


@kind(DAMAGED)
def version_that_is_no_whole_number(run, own):
    edit_manifest(run, lambda manifest: manifest["versions"][0].update(number=0.0))


@kind(DAMAGED)
def version_of_many_digits(run, own):
    edit_manifest(run, lambda manifest: manifest["versions"][0].update(number=10**400))


@kind(DAMAGED)
def no_version(run, own):
    edit_manifest(run, lambda manifest: manifest.update(versions=[]))


@kind(DAMAGED)
def options_of_another_kind(run, own):
    edit_manifest(run, lambda manifest: manifest["options"].update(page="yes", max_noise=[]))


@kind("no format '../../own/x'")
def format_that_is_a_path(run, own):
    edit_manifest(run, lambda manifest: manifest["options"].update(formats=["../../own/x"]))


@kind(DAMAGED)
def identity_of_another_kind(run, own):
    edit_manifest(run, lambda manifest: manifest["identity"].update(folder=["x"], settings=3))


@kind(IS_LINK)
def manifest_is_elsewhere(run, own):
    shutil.copy(run / "manifest.json", own / "manifest.json")
    link(run / "manifest.json", own / "manifest.json")


@kind(DAMAGED)
def manifest_is_a_folder(run, own):
    (run / "manifest.json").unlink()
    (run / "manifest.json").mkdir()


@kind("neither a file nor a folder")
def manifest_is_a_pipe(run, own):
    (run / "manifest.json").unlink()
    os.mkfifo(run / "manifest.json")


@kind(None)
def media_elsewhere(run, own):
    edit_manifest(run, lambda manifest: manifest.update(media=str(own)))


@kind(None)
def trained_by_another_run_that_is_half_written(run, own):
    def change(manifest):
        manifest["options"]["trained"] = True
        manifest["identity"]["model"] = str(own / "run" / "model.bagwise")

    edit_manifest(run, change)


@kind(None)
def trained_by_itself(run, own):
    def change(manifest):
        manifest["options"]["trained"] = True
        manifest["identity"]["model"] = str(run / "model.bagwise")

    edit_manifest(run, change)


# -- links and other things in place of files -------------------------------------------------------------------------


def link_in_place(name, target, expected, dangling=False, **changes):
    """A link where the run keeps or writes something."""

    def prepare(run, own):
        link(run / name, own / target)
        edit_manifest(run, lambda manifest: manifest.update(changes))
        if name == "report.html":
            edit_manifest(run, lambda manifest: manifest["options"].update(page=True))

    prepare.__name__ = f"{name} is a link to {target}" + ("".join(f", {key} {changes[key]}" for key in changes))
    kind(expected)(prepare)


HALF = {"status": "writing"}
link_in_place("annotations.csv", "bashrc", IS_LINK)
link_in_place("annotations.csv", "bashrc", IS_LINK, **HALF)
link_in_place("annotations.csv", "new", IS_LINK)
link_in_place("report.html", "bashrc", None)  # not of those that the run has written: refused when it would be
link_in_place("report.html", "bashrc", IS_LINK, **HALF)
link_in_place("report-sounds", "folder", None)
link_in_place("labels-by-file.csv", "bashrc", IS_LINK, **HALF)
link_in_place("model.bagwise", "bashrc", IS_LINK)
link_in_place("audacity", "folder", IS_LINK)
link_in_place("audacity", "folder", IS_LINK, outputs=[], **HALF)
link_in_place("raven/recording-000.wav.selections.txt", "new", IS_LINK, outputs=[], **HALF)
link_in_place("corrections.csv", "bashrc", IS_LINK)
link_in_place("corrections.csv", "authorized_keys", IS_LINK)
link_in_place("export", "folder", None)
link_in_place("export/annotations.csv", "bashrc", None)
link_in_place("export/confirmed.csv", "new", None)
link_in_place(".run", "run/.run", IS_LINK)
link_in_place(".run/0", "run/.run/0", IS_LINK)
link_in_place(".run/0/model.bagwise", "run/model.bagwise", IS_LINK)
link_in_place(".run/1", "folder", IS_LINK)
link_in_place(".run/1", "new", IS_LINK)
link_in_place(".run/7", "folder", IS_LINK)
link_in_place(".run/fit", "folder", IS_LINK)
link_in_place(".run/fit/state.bagwise", "bashrc", IS_LINK)
link_in_place(".run/fit/checkpoint.json", "new", IS_LINK)
link_in_place(".run/samples.json", "bashrc", IS_LINK)
link_in_place(".run/survey.bagwise", "bashrc", IS_LINK)
link_in_place(".run/survey.bagwise", "new", IS_LINK)
link_in_place(".run/reviewer.json", "new", IS_LINK)
link_in_place(".features", "folder", IS_LINK)
link_in_place(".features/x.zip", "folder/x.zip", IS_LINK)
link_in_place("notes", "folder", None)  # somebody's own, of a name that bagwise does not use


@kind(DAMAGED)
def run_without_a_folder_of_its_own(run, own):
    shutil.rmtree(run / ".run")
    (run / ".run").write_text("x")


@kind(DAMAGED)
def nothing_kept(run, own):
    shutil.rmtree(run / ".run")


@kind(None)
def torn_files_elsewhere_and_of_other_names(run, own):
    link(run / TORN, own / "folder" / TORN)
    link(run / "torn", own / "folder")
    (run / ".notes.tmp").write_text("mine\n")
    (run / ".0123456789abcdee.tmp").mkdir()


@kind(None)
def folder_that_is_called_a_digit_but_is_no_number(run, own):
    (run / ".run" / "²").mkdir()


@kind(None)
def checkpoint_that_is_no_text(run, own):
    (run / ".run" / "fit").mkdir()
    (run / ".run" / "fit" / "checkpoint.json").write_bytes(b"\xff\xfe\xff")


def survey_of(run, change):
    """A sample was drawn, and somebody changed the file of it."""
    path = run / ".run" / "survey.bagwise"
    with Run.open(run) as opened:
        opened.draw_sample(3, seed=0)
        opened.write()
    with path.open("rb") as file:
        document, arrays = read_archive(file)
    arrays = [arrays[i] for i in range(3)]
    change(document, arrays)
    with path.open("wb") as file:
        write_archive(file, document, arrays)


@kind(None)
def survey_with_one_bag_that_holds_all(run, own):
    def change(document, arrays):
        for bag in document["bags"]:
            bag[2] = 0
        document["bags"][-1][2] = len(arrays[1])

    survey_of(run, change)


@kind(None)
def survey_of_nothing_with_many_labels(run, own):
    def change(document, arrays):
        document |= {"labels": [str(i) for i in range(10_000)], "bags": []}
        arrays[:] = np.zeros((0, 10_000), np.float32), np.zeros(0, np.int64), np.zeros(0, np.int64)

    survey_of(run, change)


@kind(None)
def survey_whose_strata_are_beyond_all_numbers(run, own):
    survey_of(run, lambda document, arrays: arrays[1].__setitem__(arrays[1] >= 0, 2**63 - 1))


@kind(None)
def survey_in_numbers_of_another_kind(run, own):
    survey_of(run, lambda document, arrays: arrays.__setitem__(0, arrays[0].astype(np.longdouble)))


@kind(None)
def survey_that_is_sure_of_everything(run, own):
    survey_of(run, lambda document, arrays: arrays[0].fill(1.0))


@kind(None)
def sample_of_no_number(run, own):
    (run / ".run" / "samples.json").write_text('{"samples": [{"instances": [["a", Infinity, "x"]]}]}')


@kind(None)
def sample_that_is_nested_deeply(run, own):
    (run / ".run" / "samples.json").write_text("[" * 100_000)


@kind(None)
def sample_whose_names_are_lists(run, own):
    sample = {"id": [1], "label": [], "seed": "", "version": None, "time": {}, "instances": [["a", 0, "x"]]}
    (run / ".run" / "samples.json").write_text(json.dumps({"samples": [sample]}))


@kind(None)
def sample_of_what_the_run_has_not(run, own):
    sample = {"id": "s1", "label": None, "seed": 0, "version": 0, "time": "", "instances": [["a", 2**40, "x"]]}
    (run / ".run" / "samples.json").write_text(json.dumps({"samples": [sample]}))


@kind(None)
def outputs_that_have_another_name_elsewhere(run, own):
    for name in ("annotations.csv", "model.bagwise"):
        (run / name).unlink()
        os.link(own / "bashrc", run / name)


@kind("another name")
def corrections_that_have_another_name_elsewhere(run, own):
    (own / "empty").touch()
    os.link(own / "empty", run / "corrections.csv")


# -- what is done with each -------------------------------------------------------------------------------------------


def use(path, media):
    """Do all that one does with a run; gives the errors of bagwise and of the system, and lets any other through."""
    errors = []

    def attempt(step, *args, **options):
        try:
            return step(*args, **options)
        except (BagwiseError, OSError) as error:
            errors.append(error)

    run = attempt(Run.open, path)
    if run is not None:
        with run:
            rows = attempt(run.annotations) or []
            given = [(row["bag"], row["instance"], row["label"]) for row in rows[:3]]
            attempt(run.correct, given)
            attempt(run.refit)
            attempt(run.write, page=True)
            attempt(run.write, [])
            attempt(run.estimate)
            attempt(run.draw_sample, 2, 0)
            attempt(run.estimate)
            attempt(run.correct, given)
            attempt(run.undo)
            attempt(run.undo)
    run = attempt(Run.open, path)
    if run is not None:
        review = Review(run)
        said = [{"bag": bag, "instance": instance, "label": label} for bag, instance, label in given]
        attempt(review.summary)
        attempt(review.correct, said)
        attempt(review.draw_sample, None, 3, 0)
        attempt(review.history)
        attempt(review.name_reviewer, "Ada")
        attempt(review.export)
        attempt(review.undo)
        review.close()
    again = attempt(Run.create, media / "recordings", path, labels=media / "labels.csv", jobs=1, page=False)
    if again is not None:
        again.close()
    return errors


@pytest.mark.filterwarnings("ignore:.* could not be drawn:UserWarning")
@pytest.mark.parametrize("name", KINDS)
def test_nothing_outside_of_the_folder_changes(name, place, made, monkeypatch):
    monkeypatch.setattr(
        "bagwise.app.review._refit.RefitProcess.start", lambda self: None
    )  # a process: it opens the run likewise
    monkeypatch.setattr("bagwise.app.review._refit.RefitProcess.ask", lambda self, what: None)
    prepare, expected = KINDS[name]
    prepare(place / "run", place / "own")
    before, mine = outside(place), {path: path.read_bytes() for path in (place / "run").glob("*.txt")}
    mine |= {path: path.read_bytes() for path in (place / "run").glob(".notes.tmp")}
    if expected is not None:
        inside = {path: os.lstat(path).st_mtime_ns for path in (place / "run").rglob("*")}
        with pytest.raises(InputError, match=expected):
            Run.open(place / "run")
        if "outputs []" not in name and name not in WRITTEN_FIRST:
            assert {path: os.lstat(path).st_mtime_ns for path in (place / "run").rglob("*")} == inside
    errors = use(place / "run", made)
    assert outside(place) == before
    assert {path: path.read_bytes() for path in mine} == mine
    if expected is not None:
        assert errors
    else:
        Run.open(place / "run").close()


def test_there_are_enough_kinds():
    assert len(KINDS) >= 30


def test_a_run_without_anything_hostile_is_used_without_an_error(place, made, monkeypatch):
    """What the others try works where nothing is in the way."""
    monkeypatch.setattr("bagwise.app.review._refit.RefitProcess.start", lambda self: None)
    monkeypatch.setattr("bagwise.app.review._refit.RefitProcess.ask", lambda self, what: None)
    assert use(place / "run", made) == []
    assert (place / "run" / "export" / "confirmed.csv").is_file()


def test_a_link_to_the_folder_of_a_run_is_followed(place):
    """What leads there was given by whoever opens it."""
    link(place / "way", place / "run")
    with Run.open(place / "way") as run:
        row = run.annotations()[0]
        run.correct([(row["bag"], row["instance"], row["label"])])
        run.write()
    assert (place / "run" / "corrections.csv").is_file()
    assert (place / "way").is_symlink()


def test_a_link_that_somebody_made_himself_is_told_with_the_cure_and_nothing_is_lost(place):
    """The page kept elsewhere: the error names it, and once the link is gone all is as it was."""
    with Run.open(place / "run") as run:
        row = run.annotations()[0]
        run.correct([(row["bag"], row["instance"], "somebody's")])
    link(place / "run" / "annotations.csv", place / "own" / "bashrc")
    with pytest.raises(InputError) as caught:
        Run.open(place / "run")
    for part in ("annotations.csv", "is a link", str(place / "own" / "bashrc"), "remove the link"):
        assert part in str(caught.value)
    (place / "run" / "annotations.csv").unlink()
    with Run.open(place / "run") as run:
        assert [said["label"] for said in run.corrections()] == ["somebody's"]
        run.refit()
    assert (place / "run" / "annotations.csv").is_file()


def test_what_a_person_changed_is_not_removed_with_a_format(place):
    """Of two label tracks that are not written any more the one as bagwise wrote it goes, the edited one stays."""
    tracks = sorted((place / "run" / "audacity").iterdir())
    tracks[0].write_text("0.5\t1.0\tmine\n")
    with Run.open(place / "run") as run:
        problems = run.write(["csv"]).problems
    assert [track.exists() for track in tracks] == [True, False, False]
    assert tracks[0].read_text() == "0.5\t1.0\tmine\n"
    assert [name for name, message in problems if "stays" in message] == [f"audacity/{tracks[0].name}"]


def test_the_other_run_that_trained_the_model_is_read_and_not_finished(place):
    """It is half written; learning again reads its bags and leaves the rest to whoever opens it."""
    trained_by_another_run_that_is_half_written(place / "run", place / "own")
    with Run.open(place / "run") as run:
        row = run.annotations()[0]
        run.correct([(row["bag"], row["instance"], row["label"])])
        assert run.refit(write=False).version == 1
    assert json.loads((place / "own" / "run" / "manifest.json").read_text())["status"] == "writing"
    with Run.open(place / "own" / "run") as other:
        assert other.manifest["status"] == "finished"  # opening it does finish it
