"""What goes wrong around a command: disks, folders, pipes, interrupts, memory, home and locale. One line and a code."""

import errno
import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

import bagwise
from bagwise.app.cli import main
from bagwise.core.dataset import BagDataset
from bagwise.datasets import make_gaussian_bags
from bagwise.io.data.formats import write_dataset
from made import run

fcntl = pytest.importorskip("fcntl", reason="locks, limits and signals of Unix")
NAMES = ["wren", "robin", "grün"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A table of bags and a model of it."""
    made = make_gaussian_bags(n_bags=30, n_features=3, n_classes=3, labels_per_bag=(1, 2), random_state=0)
    folder = tmp_path_factory.mktemp("data")
    write_dataset(BagDataset(bags=made.bags, Y=made.Y, class_names=NAMES), folder / "data.csv")
    assert run("fit", folder / "data.csv", "--out", folder / "m.bagwise", "--model", "most-frequent").exit_code == 0
    return folder


def start(*arguments, environment=None, without=(), **options):
    """The command in a process of its own; its standard error is text."""
    source = str(Path(bagwise.__file__).parents[1])
    env = {key: value for key, value in os.environ.items() if key not in without}
    env |= {"PYTHONPATH": source, **(environment or {})}
    command = [sys.executable, "-m", "bagwise.app.cli", *map(str, arguments)]
    return subprocess.run(command, env=env, stderr=subprocess.PIPE, check=False, timeout=120, **options)


def one_line(result):
    """What a command said when it gave up."""
    assert result.exception is None or isinstance(result.exception, SystemExit), repr(result.exception)
    lines = [line for line in result.stderr.splitlines() if line.startswith("Error: ")]
    assert len(lines) == 1, result.stderr
    assert "Traceback" not in result.stderr
    return lines[0]


def leftovers(folder):
    return sorted(path.name for path in folder.rglob("*") if path.name.endswith(".tmp"))


# ---------------------------------------------------------------------------------------------------------------------
# The disk


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="a device that is always full")
def test_a_full_disk_behind_the_output(folder):
    with open("/dev/full", "wb") as full:
        done = start("info", folder / "data.csv", stdout=full)
    assert done.returncode == 1
    assert done.stderr.decode().splitlines() == [
        f"Error: {os.strerror(errno.ENOSPC)}; free some, or write to another place."
    ]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="a device that is always full")
@pytest.mark.parametrize("option", ["--help", "--version"])
def test_a_full_disk_behind_the_help(option):
    with open("/dev/full", "wb") as full:
        done = start(option, stdout=full)
    assert done.returncode == 1
    assert done.stderr.decode().splitlines() == [
        f"Error: {os.strerror(errno.ENOSPC)}; free some, or write to another place."
    ]


def test_a_file_that_may_not_grow(folder, tmp_path):
    """A limit of the system on the size of files, which the process meets while it writes."""
    old = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, old[1]))
    try:
        result = run("fit", folder / "data.csv", "--out", tmp_path / "x.bagwise", "--model", "most-frequent")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, old)
    assert result.exit_code == 1
    assert one_line(result) == (
        f"Error: The disk is full: {tmp_path / 'x.bagwise'} was not written, and what was there before is untouched"
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("ending", [".csv", ".jsonl", ".parquet"])
def test_a_disk_that_is_full_while_results_are_written(ending, folder, tmp_path, monkeypatch):
    (tmp_path / f"out{ending}").write_text("old")

    def full(descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("bagwise.io.files.os.fsync", full)
    result = run("predict", folder / "m.bagwise", folder / "data.csv", "--out", tmp_path / f"out{ending}")
    assert result.exit_code == 1
    assert "The disk is full" in one_line(result)
    assert (tmp_path / f"out{ending}").read_text() == "old"
    assert leftovers(tmp_path) == []


def test_a_disk_that_is_full_during_a_run(folder, tmp_path, monkeypatch):
    """The run is unfinished, says so, and the same command finishes it."""
    arguments = ("annotate", folder / "data.csv", "--out", tmp_path / "run", "--no-page", "--model", "most-frequent")
    real, calls = os.fsync, []

    def full(descriptor):
        calls.append(descriptor)
        if len(calls) > 4:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(descriptor)

    monkeypatch.setattr("bagwise.io.files.os.fsync", full)
    result = run(*arguments)
    assert result.exit_code == 1
    assert "The disk is full" in one_line(result)
    assert leftovers(tmp_path) == []
    monkeypatch.undo()
    assert run(*arguments).exit_code == 0
    assert (tmp_path / "run" / "annotations.csv").exists()


@pytest.mark.parametrize("command", ["fit", "predict", "annotate", "convert"])
def test_a_folder_that_may_not_be_written_to(command, folder, tmp_path, monkeypatch):
    """Whoever runs the tests may be allowed everything, so it is the system's answer that is changed."""
    closed = tmp_path / "closed"
    closed.mkdir()
    real_access, real_mkdir = os.access, Path.mkdir

    def mkdir(self, *arguments, **options):
        if closed in self.parents:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(self))
        return real_mkdir(self, *arguments, **options)

    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != closed and real_access(path, mode))
    monkeypatch.setattr(Path, "mkdir", mkdir)
    data, model = folder / "data.csv", folder / "m.bagwise"
    arguments = {
        "fit": (data, "--out", closed / "x.bagwise", "--model", "most-frequent"),
        "predict": (model, data, "--out", closed / "x.csv"),
        "annotate": (data, "--out", closed / "run", "--no-page", "--model", "most-frequent"),
        "convert": (data, closed / "x.parquet"),
    }
    result = run(command, *arguments[command])
    assert result.exit_code == 1
    assert "closed" in one_line(result)
    assert list(closed.iterdir()) == []


# ---------------------------------------------------------------------------------------------------------------------
# Who reads, who interrupts, who else writes


def test_a_pipe_that_nobody_reads(folder):
    """As behind `| head`: no line, no traceback."""
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as closed:
        done = start("info", folder / "data.csv", stdout=closed)
    assert done.stderr == b""
    assert done.returncode == 1


def close_streams(*descriptors):
    """What the shell does for `>&-` and `2>&-`, in the child."""
    return lambda: [os.close(descriptor) for descriptor in descriptors]


def test_results_are_not_printed_to_an_output_that_is_closed(folder, tmp_path):
    data, model = folder / "data.csv", folder / "m.bagwise"
    commands = [("predict", model, data), ("info", data)]
    for command in commands:
        done = start(*command, preexec_fn=close_streams(1))
        assert done.returncode == 1
        assert done.stderr.decode().splitlines() == [
            "Error: Standard output is closed, and the result is printed there; open it, or send it to a file."
        ]
    done = start("predict", model, data, "--out", tmp_path / "x.csv", preexec_fn=close_streams(1))
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "x.csv").read_text().startswith("bag,")


def test_remarks_go_nowhere_where_standard_error_is_closed(folder, tmp_path):
    data, model = folder / "data.csv", folder / "m.bagwise"
    done = start("predict", model, data, preexec_fn=close_streams(2), stdout=subprocess.PIPE)
    assert done.returncode == 0
    assert len(done.stdout.splitlines()) == 31
    fit = ("fit", data, "--out", tmp_path / "x.bagwise", "--model", "most-frequent")
    assert start(*fit, preexec_fn=close_streams(0, 1, 2)).returncode == 0
    assert (tmp_path / "x.bagwise").read_bytes() == model.read_bytes()
    assert start("info", tmp_path / "none.csv", preexec_fn=close_streams(2)).returncode == 1


@pytest.mark.parametrize("command", ["fit", "predict"])
def test_an_interrupt_leaves_nothing_half_written(command, folder, tmp_path, monkeypatch):
    def interrupted(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr("bagwise.annotation._dummy.MostFrequentAnnotator.fit", interrupted)
    monkeypatch.setattr("bagwise.annotation._dummy.MostFrequentAnnotator._bag_scores", interrupted)
    monkeypatch.setattr("bagwise.annotation._dummy.MostFrequentAnnotator._bag_label_sets", interrupted)
    data, model = folder / "data.csv", folder / "m.bagwise"
    arguments = {"fit": (data, "--model", "most-frequent"), "predict": (model, data)}
    result = run(command, *arguments[command], "--out", tmp_path / "x.csv")
    assert result.exit_code == 130
    assert result.stderr.strip().splitlines()[-1] == "interrupted"
    assert list(tmp_path.iterdir()) == []


def test_two_runs_in_one_folder(folder, tmp_path):
    arguments = ("annotate", folder / "data.csv", "--out", tmp_path / "run", "--no-page", "--model", "most-frequent")
    (tmp_path / "run" / ".run").mkdir(parents=True)
    other = os.open(tmp_path / "run" / ".run", os.O_RDONLY)  # what another process holds
    fcntl.flock(other, fcntl.LOCK_EX)
    try:
        result = run(*arguments)
        assert result.exit_code == 1
        assert "is open in another process (a review, a refit, another Python); close it there first" in one_line(
            result
        )
        assert [path.name for path in (tmp_path / "run").iterdir()] == [".run"]
    finally:
        os.close(other)
    assert run(*arguments).exit_code == 0


# ---------------------------------------------------------------------------------------------------------------------
# Memory, home, locale


def test_memory_that_a_limit_forbids(folder, monkeypatch):
    monkeypatch.setenv("BAGWISE_MEMORY_LIMIT", "1000")
    result = run("info", folder / "data.csv")
    assert result.exit_code == 1
    assert "data.csv read as text needs" in one_line(result)
    assert "BAGWISE_MEMORY_LIMIT" in one_line(result)


@pytest.mark.parametrize(("setting", "code"), [("500MB", 0), ("1e9", 0), ("much", 1), ("0", 1)])
def test_a_limit_is_written_as_people_write_it(setting, code, folder, tmp_path, monkeypatch):
    """And where it is none, the variable is named, not the file that happens to be read."""
    assert run("convert", folder / "data.csv", tmp_path / "data.parquet").exit_code == 0
    monkeypatch.setenv("BAGWISE_MEMORY_LIMIT", setting)
    result = run("fit", tmp_path / "data.parquet", "--out", tmp_path / "x.bagwise", "--model", "most-frequent")
    assert result.exit_code == code, result.stderr
    if code:
        assert f"The variable BAGWISE_MEMORY_LIMIT: {setting!r} is no amount of memory; write" in one_line(result)
        assert "damaged" not in one_line(result)


def test_memory_that_the_system_refuses(folder, tmp_path, monkeypatch):
    def refused(*arguments, **options):
        raise MemoryError("Unable to allocate 3.00 TiB for an array with shape (641, 641, 10, 10)")

    monkeypatch.setattr("bagwise.annotation._dummy.MostFrequentAnnotator._bag_label_sets", refused)
    result = run("predict", folder / "m.bagwise", folder / "data.csv", "--out", tmp_path / "x.csv")
    assert result.exit_code == 1
    assert one_line(result).startswith("Error: There is not enough memory; give fewer bags at a time, close other")
    assert "Unable to allocate 3.00 TiB" in one_line(result)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("environment", "without"),
    [
        ({"HOME": "/nowhere/at/all"}, ()),
        ({"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}, ("HOME",)),
    ],
    ids=["a home that is not there", "no home, and a locale of C"],
)
def test_without_home_and_locale(environment, without, folder):
    done = start("info", folder / "m.bagwise", environment=environment, without=without, stdout=subprocess.PIPE)
    assert done.returncode == 0, done.stderr
    assert done.stderr == b""
    assert "grün" in done.stdout.decode("utf-8")


@pytest.mark.parametrize("ending", [None, ".csv", ".parquet"])
def test_a_file_whose_name_is_no_utf8(ending, folder, tmp_path):
    name = os.path.join(os.fsencode(tmp_path), b"d\xff.csv")
    try:
        Path(os.fsdecode(name)).write_bytes((folder / "data.csv").read_bytes())
    except OSError:
        pytest.skip("names of files must be UTF-8 here")
    out = () if ending is None else ("--out", tmp_path / f"x{ending}")
    environment = {"LC_ALL": "POSIX", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    arguments = ("predict", folder / "m.bagwise", os.fsdecode(name), *out)
    done = start(*arguments, environment=environment, stdout=subprocess.PIPE)
    assert done.returncode == 0, done.stderr
    assert rb"d\udcff.csv as csv" in done.stderr
    if ending == ".csv":
        assert json.loads((tmp_path / "x.csv.json").read_text())["data"] == os.fsdecode(name)
    missing = start("info", os.fsdecode(b"none\xff.csv"), environment=environment)
    assert missing.stderr.decode().startswith(r"Error: none\udcff.csv does not exist")


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf_8"])
def test_labels_are_printed_in_utf8_whatever_the_terminal_is_said_to_be(encoding, folder):
    result = CliRunner(charset=encoding).invoke(main, ["info", str(folder / "m.bagwise")])
    assert result.exit_code == 0, result.exception
    assert "grün".encode() in result.stdout_bytes
