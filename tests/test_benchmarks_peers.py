"""The closing table of ratios, and the comparison with other libraries, with peers that are made up here."""

import io
import json
import runpy
import subprocess
import sys
import types
from pathlib import Path

import numpy as np
import pytest
from benchmarks import __main__ as bench
from benchmarks import peers
from benchmarks.common import SECONDS, SUMMARY, show, with_ratio
from benchmarks.peers import environments
from benchmarks.peers.turns import SIDES, Outcome, Side, in_turns
from click.testing import CliRunner

from bagwise.catalog import CATALOG

FAKE_PEER = """
import sys, time
sys.path.insert(0, {sides!r})
from serve import serve

def good(train):
    print("a library that chats")
    time.sleep(0.02)
    return lambda test: test.Y + 0.0

def hangs(train):
    time.sleep(60)

def crashes(train):
    raise RuntimeError("no such kernel")

serve({{"good": good, "hangs": hangs, "crashes": crashes}})
"""


@pytest.fixture
def fake_peer(tmp_path):
    script = tmp_path / "with_fake.py"
    script.write_text(FAKE_PEER.format(sides=str(SIDES)))
    return lambda method: Side(Path(sys.executable), script, method)


@pytest.fixture
def small_data(tmp_path, monkeypatch):
    """The halves of made bags, as the benchmark writes them where there is no real data."""
    monkeypatch.setenv("BAGWISE_DATA", str(tmp_path / "nowhere"))
    path = tmp_path / "data.npz"
    source = peers.Source("not_there", 40, 5, 3, (2, 4))
    title, Y = peers.write_halves("Small", source, path, None)
    assert title == "made, Small's size"
    return path, Y


# -- the closing table ------------------------------------------------------------------------------------------------


@pytest.fixture
def benchmarks(monkeypatch):
    """Two benchmarks, of which the first crashes where it is told to."""

    def install(crash):
        def first(quick):
            if crash:
                raise ValueError("no such file")
            return [with_ratio({"seconds": 1.0}, "ours", "theirs", 2.5, asked=">= 2"), {"accuracy": 0.9}]

        def second(quick):
            return [
                with_ratio({"n": 1}, "a bag", "a smaller bag", np.float64(1.1), unit=SECONDS, note=f"quick {quick}")
            ]

        modules = {"first": first, "second": second}
        for name, main in modules.items():
            monkeypatch.setitem(sys.modules, f"made_up_{name}", types.SimpleNamespace(main=main))
        monkeypatch.setattr(bench, "BENCHMARKS", {name: f"made_up_{name}" for name in modules})

    return install


def run_bench(folder, *arguments):
    result = CliRunner().invoke(bench.main, [*arguments, "--out", str(folder)])
    return result, json.loads((folder / "summary.json").read_text(encoding="utf-8"))


def test_all_ratios_are_gathered(benchmarks, tmp_path):
    benchmarks(crash=False)
    result, summary = run_bench(tmp_path, "--quick")
    assert result.exit_code == 0
    assert summary["failed"] == {}
    assert summary["quick"] is True
    assert summary["ratios"] == [
        {
            "benchmark": "first",
            "what": "ours",
            "beside": "theirs",
            "ratio": 2.5,
            "is": "times as fast",
            "asked": ">= 2",
            "note": "",
        },
        {
            "benchmark": "second",
            "what": "a bag",
            "beside": "a smaller bag",
            "ratio": 1.1,
            "is": "times the seconds",
            "asked": "",
            "note": "quick True",
        },
    ]
    table = result.output.split("All ratios of this run")[1]
    assert "theirs" in table
    assert "1.1" in table
    records = [json.loads(line) for line in (tmp_path / "first.jsonl").read_text().splitlines()]
    assert [record.get("accuracy") for record in records] == [None, 0.9]


def test_a_crash_is_told_at_the_end_and_stops_no_other(benchmarks, tmp_path):
    benchmarks(crash=True)
    result, summary = run_bench(tmp_path)
    assert result.exit_code == 1
    assert summary["failed"] == {"first": "ValueError: no such file"}
    assert [line["benchmark"] for line in summary["ratios"]] == ["second"]
    assert "first failed: ValueError: no such file" in result.output
    assert not (tmp_path / "first.jsonl").exists()


def test_a_declared_ratio_does_not_change_what_is_shown(capsys):
    record = {"figure": "x", "seconds": 0.5}
    show("Table", [record])
    plain = capsys.readouterr().out
    declared = with_ratio(record, "ours", "theirs", 2.0)
    show("Table", [declared])
    assert capsys.readouterr().out == plain
    assert SUMMARY in declared
    assert SUMMARY not in record


# -- the two sides ----------------------------------------------------------------------------------------------------


def test_sides_run_in_turns_and_the_ratio_is_of_both(fake_peer, small_data):
    path, Y = small_data
    ours, theirs = in_turns(fake_peer("good"), fake_peer("good"), path, repeats=1, limit=20)
    for side in (ours, theirs):
        assert side.problem == ""
        assert side.fit >= 0.02  # the peer sleeps that long
        np.testing.assert_array_equal(side.scores, Y)
    record = peers.compare(peers.PAIRS[0], "Small", ours, theirs, Y)
    assert record["times as fast"] == theirs.fit / ours.fit
    assert record[SUMMARY]["ratio"] == theirs.fit / ours.fit
    assert record["precision"] == record["their precision"] == 100.0


def test_a_slow_peer_is_stopped_and_a_crash_is_told(fake_peer, small_data):
    path, Y = small_data
    slow, other = in_turns(fake_peer("hangs"), fake_peer("hangs"), path, repeats=2, limit=0.25)
    assert slow.problem == other.problem == "over 0.25 s, stopped"
    crash, good = in_turns(fake_peer("crashes"), fake_peer("good"), path, repeats=1, limit=60)
    assert crash.problem == "RuntimeError: no such kernel"
    assert good.problem == ""
    record = peers.compare(peers.PAIRS[0], "Small", Outcome(0.1, 0.1, Y + 0.0), slow, Y)
    assert record["times as fast"] is None
    assert record["their precision"] is None
    assert record[SUMMARY]["ratio"] is None
    assert record[SUMMARY]["note"] == "scikit-learn: over 0.25 s, stopped"


def test_compare_divides_the_peers_seconds_by_ours():
    Y = np.eye(4, dtype=np.uint8)
    record = peers.compare(peers.PAIRS[0], "x", Outcome(0.5, 0.2, Y + 0.0), Outcome(2.0, 0.1, 1.0 - Y), Y)
    assert record["times as fast"] == 4.0
    assert record["predicts times as fast"] == 0.5
    assert record["precision"] == 100.0
    assert record["their precision"] == 25.0  # the right label comes last of four


@pytest.mark.parametrize(
    ("peer", "method"), [("bagwise", "most-frequent"), ("scikit-learn", "logistic regression, bag means")]
)
def test_scikit_learn_and_bagwise_speak_the_protocol(peer, method, small_data, monkeypatch):
    path, Y = small_data
    answers = io.StringIO()
    monkeypatch.syspath_prepend(SIDES)
    monkeypatch.setattr(sys, "argv", ["script", str(path), method])
    monkeypatch.setattr(sys, "stdin", io.StringIO("\n\n"))
    monkeypatch.setattr(sys, "stdout", answers)
    runpy.run_path(str(peers.SCRIPTS[peer]), run_name="__main__")
    first, second = (json.loads(line) for line in answers.getvalue().splitlines())
    assert np.shape(first["scores"]) == Y.shape
    assert first["scores"] == second["scores"]
    assert set(first) == {"fit", "predict", "scores"}


def test_pairs_name_what_there_is():
    for pair in peers.PAIRS:
        assert pair.model in CATALOG
        assert set(pair.data) <= set(peers.SOURCES)
        assert f'"{pair.method}"' in peers.SCRIPTS[pair.peer].read_text(encoding="utf-8")


# -- environments -----------------------------------------------------------------------------------------------------


@pytest.fixture
def no_network(monkeypatch, tmp_path):
    """An empty folder of environments; a call of pip or venv fails as it does without a network."""
    calls = []

    def fail(command, **options):
        calls.append(command)
        raise subprocess.CalledProcessError(
            1, command, stderr="WARNING: retrying\nERROR: No matching distribution found for x\nnotice\n"
        )

    monkeypatch.setattr(environments, "FOLDER", tmp_path / "peers")
    monkeypatch.setattr(environments.subprocess, "run", fail)
    return calls


def test_a_peer_that_cannot_be_installed_is_left_out_with_a_line(no_network, capsys):
    assert peers.find_interpreters(()) == {"scikit-learn": Path(sys.executable)}
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(environments.REQUIREMENTS)
    assert lines[0].strip() == (
        "mimllearning is left out, it cannot be installed: No matching distribution found for x"
    )
    # neither the large one nor the one without a release was asked for
    assert len(no_network) == 1


def test_a_large_peer_is_installed_on_request(no_network):
    with pytest.raises(environments.PeerMissingError, match="--with torchmil"):
        environments.interpreter("torchmil")
    assert no_network == []
    with pytest.raises(environments.PeerMissingError, match="cannot be installed"):
        environments.interpreter("torchmil", wanted=True)
    assert len(no_network) == 1


@pytest.mark.parametrize("error", [OSError("no space left"), subprocess.TimeoutExpired("pip", 5)])
def test_no_failure_of_installing_escapes(monkeypatch, tmp_path, error):
    def fail(command, **options):
        raise error

    monkeypatch.setattr(environments, "FOLDER", tmp_path)
    monkeypatch.setattr(environments.subprocess, "run", fail)
    with pytest.raises(environments.PeerMissingError, match="mimllearning is left out"):
        environments.interpreter("mimllearning")


def test_environments_are_made_and_filled_once_asked(monkeypatch, tmp_path):
    calls = []
    monkeypatch.setattr(environments, "FOLDER", tmp_path)
    monkeypatch.setattr(environments.subprocess, "run", lambda command, **options: calls.append(command))
    python = environments.interpreter("mimllearning")
    assert python == tmp_path / "mimllearning" / "bin" / "python"
    make, fill = calls
    assert make == [sys.executable, "-m", "venv", str(tmp_path / "mimllearning")]
    assert fill[:4] == [str(python), "-m", "pip", "install"]
    assert "mimllearning==1.0.11" in fill


def test_the_benchmark_runs_where_nothing_can_be_installed(no_network, monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("BAGWISE_DATA", str(tmp_path / "nowhere"))
    asked = []

    def answer(ours, theirs, data, repeats, limit):
        asked.append((ours.method, theirs.method))
        with np.load(data) as file:
            scores = file["test_Y"] + 0.0
        return Outcome(1.0, 1.0, scores), Outcome(3.0, 1.0, scores)

    monkeypatch.setattr(peers, "in_turns", answer)
    records = peers.main(quick=True)
    assert len(records) == len(asked) == sum(pair.peer == "scikit-learn" and "HJA" in pair.data for pair in peers.PAIRS)
    assert {record["times as fast"] for record in records} == {3.0}
    assert "Beside other libraries" in capsys.readouterr().out
