"""The review page's server as the page uses it, and what it says to bad input."""

import io
import json
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import wave
from urllib.parse import quote, urlencode

import numpy as np
import pytest
from click.testing import CliRunner

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

from benchmarks.review_load import lost_answers, serving

from bagwise import Run
from bagwise.app.cli import main
from bagwise.app.runs.folder import BusyError, open_manifest
from bagwise.datasets import make_soundscape


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A run over eight recordings, not to be changed: copy it."""
    folder = tmp_path_factory.mktemp("made")
    make_soundscape(8, species_per_recording=(2, 3), random_state=5).write(folder)
    with Run.create(folder / "recordings", folder / "run", labels=folder / "labels.csv", page=False, jobs=1):
        pass
    return folder


@pytest.fixture
def run(made, tmp_path):
    shutil.copytree(made / "run", tmp_path / "run", copy_function=shutil.copy2)
    return tmp_path / "run"


@pytest.fixture(scope="module")
def looked_at(made, tmp_path_factory):
    """A server for those who only look."""
    folder = tmp_path_factory.mktemp("looked") / "run"
    shutil.copytree(made / "run", folder, copy_function=shutil.copy2)
    with serving(folder) as server:
        yield server


@pytest.fixture
def client(looked_at):
    return looked_at.client()


def where(row, **more):
    return urlencode({"bag": row["bag"], "instance": row["instance"], **more})


def said(row, label):
    return {"bag": row["bag"], "instance": row["instance"], "label": label}


def settle(client, key="state", busy=("running",), seconds=90):
    until = time.monotonic() + seconds
    while (state := client.get("/api/refit"))[key] in busy:
        assert time.monotonic() < until, state
        time.sleep(0.03)
    return state


def test_one_line_is_printed_and_the_end_is_quiet(run):
    with serving(run) as server:
        assert server.address == f"http://127.0.0.1:{server.port}/?token={server.token}"
        assert len(server.token) >= 32
        assert server.client().send("GET", "/")[0] == 200
        server.process.send_signal(signal.SIGINT)
        rest = server.process.stdout.read()
        assert server.end() == 0
        assert rest == ""
        assert server.errors == []


def test_what_the_run_is(client, made):
    about = client.get("/api/run")
    with Run.open(made / "run") as run:
        rows, labels = run.annotations(), run.labels
    assert about["medium"] == "audio"
    assert about["instances"] == "syllables"
    assert about["counts"] == {"instances": len(rows), "checked": 0, "bags": 8, "files": 8}
    assert {label["name"]: label["instances"] for label in about["labels"]} == {
        name: sum(row["label"] == name for row in rows) for name in labels
    }
    assert about["kinds"] == {"play": True, "picture": True}
    assert about["refit"]["state"] == "idle"
    assert about["has_media"] is True


def test_instances_are_the_annotations_of_the_run(client, made):
    with Run.open(made / "run") as run:
        rows = run.annotations()
    listed = client.get("/api/instances?order=file&limit=10000")
    assert listed["total"] == len(rows)
    for row, theirs in zip(rows, listed["instances"], strict=True):
        assert row == {key: theirs[key] for key in row}
        assert theirs["place"].endswith("kHz")


def test_orders_and_filters(client, made):
    everything = client.get("/api/instances?order=file&limit=10000")["instances"]
    key = {(row["bag"], row["instance"]) for row in everything}
    for order in ("useful", "least-sure", "file", "label", "time"):
        rows = client.get(f"/api/instances?order={order}&limit=10000")["instances"]
        assert {(row["bag"], row["instance"]) for row in rows} == key
    sure = [max(r["probability"], r["noise"]) for r in client.get("/api/instances?order=least-sure")["instances"]]
    assert sure == sorted(sure)
    with Run.open(made / "run") as run:
        most = run.manifest["options"]["max_noise"]
    for word, noise in (("yes", True), ("no", False)):
        rows = client.get(f"/api/instances?order=file&limit=10000&background={word}")["instances"]
        assert rows == [row for row in everything if (not row["label"] or row["noise"] > most) is noise]
    starts = [row["start"] for row in client.get("/api/instances?order=time&limit=10000")["instances"]]
    assert starts == sorted(starts)
    label = everything[0]["label"]
    expected = [r for r in everything if r["label"] == label and 0.3 <= r["probability"] <= 0.95]
    found = client.get(f"/api/instances?order=file&label={quote(label)}&least=0.3&most=0.95&checked=no")
    assert found["instances"] == expected
    assert found["total"] == len(expected)
    page = client.get("/api/instances?order=file&limit=3&offset=5")["instances"]
    assert page == everything[5:8]
    bag = everything[-1]["bag"]
    assert all(row["bag"] == bag for row in client.get(f"/api/instances?bag={quote(bag)}")["instances"])


def test_an_instance_is_shown_and_heard(client, made):
    row = client.get("/api/instances?limit=1")["instances"][0]
    shown = client.get(f"/api/show?{where(row)}")
    assert shown["kind"] == "sound"
    assert shown["from"] <= row["start"] < row["end"] <= shown["to"] <= shown["seconds"]
    own = [box for box in shown["boxes"] if (box["bag"], box["instance"]) == (row["bag"], row["instance"])]
    assert [(box["start"], box["low"], box["label"]) for box in own] == [(row["start"], row["low"], row["label"])]
    assert shown["candidates"][0]["label"] == row["label"]
    status, headers, picture = client.send("GET", shown["picture"])
    assert (status, headers["content-type"], picture[:8]) == (200, "image/png", b"\x89PNG\r\n\x1a\n")
    from PIL import Image

    image = np.asarray(Image.open(io.BytesIO(picture)))
    box = own[0]
    across = [int(image.shape[1] * (box[k] - shown["from"]) / (shown["to"] - shown["from"])) for k in ("start", "end")]
    down = [int(image.shape[0] * (shown["high"] - box[k]) / (shown["high"] - shown["low"])) for k in ("high", "low")]
    inside = image[down[0] : down[1] + 1, across[0] : across[1] + 1]
    assert inside.mean() < image.mean() - 10  # dark is loud: the box lies where the sound is
    status, headers, clip = client.send("GET", shown["clip"])
    assert (status, headers["content-type"]) == (200, "audio/wav")
    with wave.open(io.BytesIO(clip)) as sound:
        assert sound.getnframes() / sound.getframerate() == pytest.approx(shown["to"] - shown["from"], abs=0.01)
    status, _, thumb = client.send("GET", f"/media/thumb?{where(row, size=96)}")
    assert Image.open(io.BytesIO(thumb)).size == (96, 96)
    closer = client.get(f"/api/show?{where(row)}&from={row['start']}&to={row['end']}")
    assert closer["to"] - closer["from"] == pytest.approx(max(row["end"] - row["start"], 0.05), abs=1e-3)


def test_a_clip_is_slowed_down_filtered_and_sent_in_parts(client, made):
    name = client.get("/api/instances?limit=1")["instances"][0]["file"]
    address = f"/media/clip?{urlencode({'file': name, 'from': 1, 'to': 2})}"
    lengths = {}
    for slow in (1, 2, 5, 10):
        with wave.open(io.BytesIO(client.send("GET", f"{address}&slow={slow}")[2])) as sound:
            lengths[slow] = sound.getnframes() / sound.getframerate()
    assert [lengths[slow] for slow in (1, 2, 5, 10)] == pytest.approx([1, 2, 5, 10], rel=0.01)
    with wave.open(io.BytesIO(client.send("GET", f"{address}&low=2000&high=3000")[2])) as sound:
        samples, rate = np.frombuffer(sound.readframes(10**6), "<i2").astype(float), sound.getframerate()
    power = np.abs(np.fft.rfft(samples)) ** 2
    hertz = np.fft.rfftfreq(len(samples), 1 / rate)
    assert power[(hertz > 1800) & (hertz < 3300)].sum() > 0.98 * power.sum()
    whole = client.send("GET", address)[2]
    status, headers, part = client.send("GET", address, headers={"Range": "bytes=10-19"})
    assert (status, part) == (206, whole[10:20])
    assert headers["content-range"] == f"bytes 10-19/{len(whole)}"
    assert client.send("GET", address, headers={"Range": "bytes=-5"})[2] == whole[-5:]
    assert client.send("GET", address, headers={"Range": f"bytes={len(whole)}-"})[0] == 416


def test_files_are_strips_of_their_instances(client):
    listed = client.get("/api/files?limit=3&offset=2")
    assert listed["total"] == 8
    assert [file["seconds"] for file in listed["files"]] == [10.0] * 3
    for file in listed["files"]:
        rows = client.get(f"/api/instances?order=file&file={quote(file['file'])}&limit=1000")["instances"]
        cells = [cell for bag in file["bags"] for cell in bag["instances"]]
        assert [cell[:5] for cell in cells] == [
            [row["instance"], row["start"], row["end"], row["low"], row["high"]] for row in rows
        ]
        assert [listed["labels"][cell[5]] for cell in cells] == [row["label"] for row in rows]
        assert {row["label"] for row in rows} <= {*file["bags"][0]["labels"]}
    assert client.get("/api/files?search=003")["total"] == 1


def test_a_review_from_the_first_correction_to_the_end(run):
    """Correct, in two windows; learn; see what changed; undo; sample; export; everything is there afterwards."""
    with serving(run) as server:
        one, two = server.client(), server.client()
        rows = one.get("/api/instances?order=least-sure&limit=40")["instances"]
        begin = two.get("/api/run")["revision"]
        answer = one.post("/api/corrections", {"corrections": [said(rows[0], rows[0]["label"])], "by": "Ada"})
        assert answer == {"revision": begin + 1, "corrections": 1, "agreed": 1}
        assert two.get("/api/run")["revision"] == begin + 1
        assert two.get("/api/instances?checked=yes")["total"] == 1
        other = [said(row, row["runner_up"] or "new kind") for row in rows[1:12]] + [said(rows[12], "")]
        two.post("/api/by", {"by": "Grace"})
        assert two.post("/api/corrections", {"corrections": other})["agreed"] == 0
        bag = rows[13]["bag"]
        two.post("/api/corrections", {"corrections": [
            {"bag": bag, "instance": None, "label": "yet another", "action": "present"},
        ]})  # fmt: skip
        listed = two.get(f"/api/files?search={quote(rows[13]['file'])}")["files"][0]["bags"][0]["labels"]
        assert "yet another" in listed
        two.post("/api/corrections", {"corrections": [{"bag": bag, "instance": None, "label": label,
                                                       "action": "absent"} for label in ["yet another"]]})  # fmt: skip
        assert one.post("/api/refit")["state"] == "running"
        one.post("/api/corrections", {"corrections": [said(rows[20], rows[20]["label"])]})  # meanwhile
        done = settle(one)
        assert (done["state"], done["version"], done["error"]) == ("idle", 1, None)
        assert done["changed"] >= 11
        happened = two.get("/api/history")
        assert happened["total"] == done["changed"]
        assert {(c["bag"], c["instance"]) for c in happened["changes"]} >= {
            (r["bag"], r["instance"]) for r in rows[1:12]
        }
        assert happened["agreement"][0] == [1, 1.0]
        assert sum(label["answered"] for label in happened["labels"]) == 14
        changed = two.get(f"/api/instances?bag={quote(rows[1]['bag'])}&limit=1000")["instances"]
        assert {r["was"] for r in changed if r["instance"] == rows[1]["instance"]} == {rows[1]["label"]}
        settle(one, "writing", (True,))
        assert open_manifest(run)["status"] == "finished"
        assert one.post("/api/undo")["taken"][0]["instance"] == rows[20]["instance"]
        assert one.post("/api/undo")["taken"][0]["action"] == "absent"
        assert one.get("/api/run")["version"] == 0  # the refit knew it
        sample = one.post("/api/sample", {"label": rows[0]["label"], "n": 5, "seed": 1})["id"]
        drawn = one.get(f"/api/instances?sample={sample}")["instances"]
        assert len(drawn) == 5
        assert {row["label"] for row in drawn} == {rows[0]["label"]}
        files = one.post("/api/export")["files"]
        assert {"export/annotations.csv", "export/confirmed.csv", "export/birdnet.csv"} <= {*files}
        table = (run / "export" / "confirmed.csv").read_text(encoding="utf-8").splitlines()
        assert table[0].endswith(",checked,by")
        assert len(table) == 1 + 13
        assert sum(line.endswith(",True,Ada") for line in table) == 1
        assert sum(line.endswith(",True,Grace") for line in table) == 12
        assert server.end() == 0
    with serving(run) as server:
        client = server.client()
        about = client.get("/api/run")
        assert (about["by"], about["corrections"], about["version"]) == ("Grace", 14, 0)
        assert client.get("/api/history")["samples"][0]["n"] == 5
        assert client.get("/api/instances?checked=yes&limit=100")["total"] == 13


def test_counts_by_a_sample_that_is_answered_on_the_page(run):
    """Drawn, shown in its order, answered, counted: the model's figures first, then those of the sample."""
    with serving(run) as server:
        client = server.client()
        assert {row["basis"] for row in client.get("/api/estimate")["counts"]} == {"model"}
        drawn = client.post("/api/survey", {"n": 80, "seed": 0})
        assert drawn == {"id": "survey", "n": 80}
        rows = client.get("/api/instances?sample=survey&order=drawn&limit=100")["instances"]
        assert len({(row["bag"], row["instance"]) for row in rows}) == 80
        client.post("/api/corrections", {"corrections": [said(row, row["label"]) for row in rows]})
        found = client.get("/api/estimate")
        assert (found["n"], found["answered"]) == (80, 80)
        assert {(row["basis"], row["n_reviewed"]) for row in found["counts"]} == {("sample", 80)}
        assert all(row["low"] <= row["count"] <= row["high"] for row in found["counts"])
        total = client.get("/api/run")["counts"]["instances"]
        assert sum(row["count"] for row in found["counts"]) <= total + 1e-6
        status, _, content = client.send("GET", "/api/estimate?by=moon")
        assert status == 400
        assert "'hour'" in json.loads(content)["error"]
        assert client.send("POST", "/api/survey", b'{"n": 0}')[0] == 400
    with Run.open(run) as again:
        assert again.draw_sample(1, seed=1)  # what was drawn is in the run, and can be drawn on
        assert again.estimate()[0]["basis"] == "sample"


def test_a_refit_is_cancelled_and_undo_waits_for_it(run):
    with serving(run) as server:
        client = server.client()
        rows = client.get("/api/instances?order=least-sure")["instances"]
        client.post(
            "/api/corrections", {"corrections": [said(row, row["runner_up"]) for row in rows[:10] if row["runner_up"]]}
        )
        client.post("/api/refit")
        states = [client.send("POST", path, b"{}")[0] for path in ("/api/undo", "/api/refit")]
        assert set(states) <= {409, 200, 202}  # it may have been done by then
        client.post("/api/refit/cancel")
        assert client.get("/api/refit")["state"] == "idle"
        client.post("/api/refit")
        assert settle(client)["state"] == "idle"
        assert client.get("/api/run")["version"] >= 1


def test_two_servers_of_one_run(run):
    with serving(run):
        done = review(run, "--no-browser")
    assert done.returncode == 1
    assert "open in another process" in done.stderr


# ---------------------------------------------------------------------------------------------------------------------
# Bad input


def review(*arguments):
    command = [sys.executable, "-m", "bagwise.app.cli", "review", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, encoding="utf-8", timeout=120)


@pytest.mark.parametrize(
    ("name", "message"),
    [("nothing", "does not exist"), ("folder", "holds no run of bagwise"), ("file.txt", "holds no run of bagwise")],
)
def test_what_is_no_run_is_refused_in_words(tmp_path, name, message):
    (tmp_path / "folder").mkdir()
    (tmp_path / "file.txt").write_text("x", encoding="utf-8")
    done = CliRunner().invoke(main, ["review", str(tmp_path / name), "--no-browser"], catch_exceptions=False)
    assert (done.exit_code, done.stdout) == (1, "")
    assert message in done.stderr


def test_a_run_that_is_being_written_is_refused_in_words(run):
    manifest = json.loads((run / "manifest.json").read_text(encoding="utf-8"))
    (run / "manifest.json").write_text(json.dumps(manifest | {"status": "unfinished"}), encoding="utf-8")
    done = CliRunner().invoke(main, ["review", str(run), "--no-browser"], catch_exceptions=False)
    assert done.exit_code == 1
    assert "not finished" in done.stderr


def test_a_port_in_use_is_refused_in_words(run):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        done = review(run, "--no-browser", "--port", taken.getsockname()[1])
    assert (done.returncode, done.stdout) == (1, "")
    assert "--port" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_browser_that_cannot_be_opened_is_told(run, monkeypatch):
    monkeypatch.setenv("BROWSER", "no-such-browser-anywhere")
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("DISPLAY", raising=False)
    command = [sys.executable, "-m", "bagwise.app.cli", "review", str(run)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, encoding="utf-8")
    try:
        assert process.stdout.readline().startswith("http://127.0.0.1:")
        assert "open the address" in process.stderr.readline()
    finally:
        process.terminate()
        process.communicate(timeout=90)
    assert process.returncode == 0


def test_media_that_moved_are_told_of_and_found_again(made, run, tmp_path):
    moved = tmp_path / "elsewhere"
    manifest = json.loads((run / "manifest.json").read_text(encoding="utf-8"))
    identity = manifest["identity"] | {"folder": str(tmp_path / "gone")}
    (run / "manifest.json").write_text(json.dumps(manifest | {"identity": identity}), encoding="utf-8")
    with serving(run) as server:
        client = server.client()
        about = client.get("/api/run")
        assert about["has_media"] is False
        assert "not there any more" in about["problems"][0]
        row = client.get("/api/instances?limit=1")["instances"][0]
        shown = client.get(f"/api/show?{where(row)}")
        assert shown["kind"] == "none"
        assert "--media" in shown["why"]
        assert len(shown["features"]) == 38
        client.post("/api/corrections", {"corrections": [said(row, row["label"])]})
    shutil.copytree(made / "recordings", moved, copy_function=shutil.copy2)
    with serving(run, "--media", str(moved)) as server:
        assert server.client().get(f"/api/show?{where(row)}")["kind"] == "sound"


def test_a_recording_that_cannot_be_played_is_told_of(made, run, tmp_path):
    moved = tmp_path / "recordings"
    shutil.copytree(made / "recordings", moved, copy_function=shutil.copy2)
    with serving(run, "--media", str(moved)) as server:
        client = server.client()
        row = client.get("/api/instances?limit=1")["instances"][0]
        (moved / row["file"]).write_bytes(b"no sound at all")
        shown = client.get(f"/api/show?{where(row)}")
        assert shown["kind"] == "none"
        assert "not a sound file" in shown["why"]
        status, _, content = client.send("GET", f"/media/clip?{urlencode({'file': row['file'], 'from': 0, 'to': 1})}")
        assert status == 404
        assert "cannot be" in json.loads(content)["error"]
        status, _, content = client.send(
            "POST", "/api/corrections", json.dumps({"corrections": [said(row, "x")]}).encode()
        )
        assert status == 400
        assert "changed since" in json.loads(content)["error"]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/api/corrections", b""), ("/api/corrections", b"no json"), ("/api/corrections", b"[]"),
        ("/api/corrections", b'{"corrections": NaN}'), ("/api/corrections", b"\xff\xfe"),
        ("/api/corrections", b'{"corrections": {}}'), ("/api/corrections", b'{"corrections": []}'),
        ("/api/corrections", b'{"corrections": [1]}'), ("/api/corrections", b"[" * 100_000),
        ("/api/corrections", b'{"corrections": [{"bag": "x", "instance": 0, "label": "y"}]}'),
        ("/api/corrections", b'{"corrections": [{"bag": "BAG", "instance": 99999, "label": "y"}]}'),
        ("/api/corrections", b'{"corrections": [{"bag": "BAG", "instance": "0", "label": "y"}]}'),
        ("/api/corrections", b'{"corrections": [{"bag": "BAG", "instance": true, "label": "y"}]}'),
        ("/api/corrections", b'{"corrections": [{"bag": "BAG", "instance": 0, "label": 3}]}'),
        ("/api/corrections", b'{"corrections": [{"bag": "BAG", "instance": 0}]}'),
        ("/api/corrections", b'{"corrections": [{"bag": "BAG", "instance": 0, "label": "' + b"x" * 10_000 + b'"}]}'),
        ("/api/corrections", b'{"corrections": [{"bag": "BAG", "instance": 0, "label": "a\\nb"}]}'),
        ("/api/corrections", b'{"corrections": [{"bag": "BAG", "instance": null, "label": "y", "action": "eat"}]}'),
        ("/api/corrections", b'{"corrections": [{"bag": "BAG", "instance": null, "label": "y", "action": "absent"}]}'),
        ("/api/corrections", b'{"corrections": [{"bag": "BAG", "instance": 0, "label": "y"}], "by": 7}'),
        ("/api/sample", b'{"label": "nobody"}'), ("/api/sample", b'{"n": 0}'), ("/api/sample", b'{"n": "many"}'),
        ("/api/sample", b'{"seed": -1}'), ("/api/export", b'{"confirmed_only": "yes"}'), ("/api/by", b'{"by": null}'),
    ],
)  # fmt: skip
def test_what_cannot_be_said_is_refused_in_words_and_changes_nothing(client, looked_at, path, body):
    bag = client.get("/api/instances?limit=1")["instances"][0]["bag"]
    before = client.get("/api/history")
    status, _, content = client.send("POST", path, body.replace(b"BAG", bag.encode()))
    assert status == 400
    assert len(json.loads(content)["error"]) in range(10, 500)
    assert b"Traceback" not in content
    after = client.get("/api/history")
    assert after | {"revision": 0} == before | {"revision": 0}  # a revision also tells of an order that is worked out
    assert not (looked_at.run / "corrections.csv").exists()


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/api/instances?limit=-1", 400), ("/api/instances?limit=x", 400), ("/api/instances?limit=10001", 400),
        ("/api/instances?order=best", 400), ("/api/instances?checked=maybe", 400), ("/api/instances?least=x", 400),
        ("/api/instances?least=nan", 400), ("/api/instances?label=nobody", 404), ("/api/instances?bag=x", 404),
        ("/api/instances?file=x", 404), ("/api/instances?sample=s9", 404), ("/api/show", 400), ("/api/show?bag=x", 400),
        ("/api/show?bag=x&instance=0", 404), ("/api/show?bag=BAG&instance=0&from=1", 400),
        ("/api/show?bag=BAG&instance=0&from=2&to=1", 400), ("/api/show?bag=BAG&instance=99999", 404),
        ("/media/clip?file=BAG&from=0&to=99999", 400), ("/media/clip?file=BAG&from=-1&to=1", 400),
        ("/media/clip?file=BAG&from=0&to=1&slow=3", 400), ("/media/clip?file=BAG&from=0&to=1&low=3000&high=100", 400),
        ("/media/spectrogram?file=BAG&from=0&to=1&width=100000", 400), ("/media/picture?file=BAG", 404),
        ("/media/thumb?bag=BAG&instance=0&size=9999", 400), ("/api", 404), ("/api/runs", 404),
    ],
)  # fmt: skip
def test_what_cannot_be_asked_is_refused_in_words(client, path, status):
    bag = client.get("/api/instances?limit=1")["instances"][0]["bag"]
    answer, headers, content = client.send("GET", path.replace("BAG", quote(bag)))
    assert answer == status, content
    assert headers["content-type"] == "application/json"
    assert len(json.loads(content)["error"]) in range(10, 500)


ODD = (
    "", "x", "nan", "inf", "-1", "-0.0", "0", "0.5", "1e308", "-1e308", "1e-308", "1" * 400, "\u0663", "\u2028",
    "\U0001f600", "\0", "a" * 5000, "../x", "%", "true", "null", "[]",
)  # fmt: skip
FIELDS = {
    "/api/instances": {"order": "file", "label": "", "bag": "BAG", "file": "BAG", "least": "0", "most": "1",
                       "checked": "no", "sample": "s1", "limit": "2", "offset": "0"},
    "/api/show": {"bag": "BAG", "instance": "0", "from": "0", "to": "1"},
    "/api/files": {"search": "0", "limit": "2", "offset": "0"},
    "/media/spectrogram": {"file": "BAG", "from": "0", "to": "1", "width": "20", "height": "20", "low": "1000",
                           "high": "2000"},
    "/media/clip": {"file": "BAG", "from": "0", "to": "1", "low": "1000", "high": "2000", "slow": "1"},
    "/media/thumb": {"bag": "BAG", "instance": "0", "size": "20"},
    "/media/picture": {"file": "BAG"},
}  # fmt: skip


@pytest.mark.parametrize("path", FIELDS)
def test_odd_parameters_are_no_mistake_of_the_server(client, path):
    bag = client.get("/api/instances?limit=1")["instances"][0]["bag"]
    usual = {name: bag if value == "BAG" else value for name, value in FIELDS[path].items()}
    for name in usual:
        without = {other: value for other, value in usual.items() if other != name}
        for query in (without, *(usual | {name: odd} for odd in ODD)):
            status, _, content = client.send("GET", f"{path}?{urlencode(query)}")
            if status == 429:  # a fast machine: 200 requests per second are answered
                time.sleep(1.0)
                status, _, content = client.send("GET", f"{path}?{urlencode(query)}")
            assert status in (200, 400, 404), (query, content[:300])


@pytest.mark.parametrize(
    "band", ["low=1000.01&high=1000.02", "low=1000&high=1000.0000001", "low=0&high=0.01", "low=3999.98&high=3999.99",
             "low=7980&high=7983.9", "low=1e-9"],
)  # fmt: skip
def test_a_narrow_band_is_heard_a_little_wider(client, band):
    name = client.get("/api/instances?limit=1")["instances"][0]["file"]
    status, _, content = client.send("GET", f"/media/clip?{urlencode({'file': name, 'from': 0, 'to': 1})}&{band}")
    assert status == 200, content
    assert content.startswith(b"RIFF")
    status, _, content = client.send(
        "GET", f"/media/spectrogram?{urlencode({'file': name, 'from': 0, 'to': 1})}&{band}"
    )
    assert status in (200, 400), content


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the process notices when compiled code lets it")
@pytest.mark.parametrize("stuck", ["import time; time.sleep(300)", "import ctypes; ctypes.PyDLL(None).sleep(300)"])
def test_the_process_that_learns_ends_with_a_killed_server(run, tmp_path, monkeypatch, stuck):
    """Whatever it is at: here it hangs as it imports, letting others run or not, as long compiled code does not."""
    (tmp_path / "sitecustomize.py").write_text(
        "import sys\n"
        "class Stuck:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        f"        if name == 'numpy': {stuck}\n"
        "if 'bagwise.app.review._refit' in sys.orig_argv:\n"
        "    sys.meta_path.insert(0, Stuck())\n",
        encoding="utf-8",
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=":")
    with serving(run) as server:
        server.kill()
    until = time.monotonic() + 60
    while True:
        try:
            Run.open(run).close()
        except BusyError:
            assert time.monotonic() < until, "the process that learns holds the run"
            time.sleep(0.1)
        else:
            break


def test_clients_that_leave_do_no_harm(looked_at, client):
    for _ in range(20):
        with socket.create_connection((looked_at.host, looked_at.port)) as raw:
            raw.sendall(
                f"POST /api/corrections HTTP/1.1\r\nHost: 127.0.0.1:{looked_at.port}\r\nCookie: {client.cookie}\r\n"
                "X-Bagwise: 1\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{".encode()
            )
    assert client.get("/api/run")["corrections"] == 0


def test_two_windows_at_once_lose_nothing(run):
    answered = []
    with serving(run) as server:
        rows = server.client().get("/api/instances?limit=30")["instances"]

        def work(name):
            client = server.client()
            for i, row in enumerate(rows):
                client.post("/api/corrections", {"corrections": [said(row, f"kind {name}")], "by": f"{name} {i}"})
                answered.append(f"{name} {i}")

        threads = [threading.Thread(target=work, args=(name,)) for name in "ab"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert server.client().get("/api/run")["corrections"] == 60
    assert len(answered) == 60
    assert lost_answers(run, answered) == []
