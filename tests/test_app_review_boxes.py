"""Boxes through the server of the review page, and what it says to bad input."""

import io
import json
import shutil
import time
import zipfile

import numpy as np
import pytest

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

from benchmarks.review_load import serving

from bagwise import Run
from bagwise.datasets import make_soundscape


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made")
    make_soundscape(5, seconds=6.0, species_per_recording=(2, 3), random_state=5).write(folder)
    options = {"labels": folder / "labels.csv", "page": False, "jobs": 1, "model": "ored-background"}
    Run.create(folder / "recordings", folder / "run", **options).close()
    return folder


@pytest.fixture(scope="module")
def server(made, tmp_path_factory):
    folder = tmp_path_factory.mktemp("served") / "run"
    shutil.copytree(made / "run", folder, copy_function=shutil.copy2)
    with serving(folder) as started:
        yield started


@pytest.fixture
def client(server):
    return server.client()


def rows(client, **query):
    text = "".join(f"&{name}={value}" for name, value in query.items())
    return client.get(f"/api/instances?order=file&limit=10000{text}")["instances"]


def keys(client):
    return [(row["bag"], row["instance"]) for row in rows(client)]


def test_every_action_is_in_force_at_once_and_undone_one_by_one(client):
    before = rows(client)
    assert client.get("/api/undo") == {"corrections": 0, "version": 0, "learned": False}
    client.get("/api/instances?order=useful")  # an order worked out before the boxes came
    sample = client.post("/api/sample", {"n": 20, "seed": 1})["id"]
    row, revision = before[0], client.get("/api/run")["revision"]
    bag, n = row["bag"], len(before)
    added = client.post(
        "/api/boxes",
        {"action": "add", "file": row["file"], "start": 0.1, "end": 0.4, "low": 1000, "high": 3000, "label": "new one"},
    )
    assert added["revision"] == revision + 1
    assert client.get("/api/run")["counts"]["instances"] == n + 1
    new = dict(zip(("bag", "instance"), added["key"], strict=True))
    shown = client.get(f"/api/show?bag={bag}&instance={new['instance']}")
    assert [b["label"] for b in shown["boxes"] if b["instance"] == new["instance"]] == ["new one"]
    cut = client.post("/api/boxes", {"action": "split", **new, "at": 0.25})["keys"]
    assert len(cut) == 2
    assert len(rows(client)) == n + 2
    merged = client.post("/api/boxes", {"action": "merge", "keys": [{"bag": b, "instance": i} for b, i in cut]})
    assert merged["key"] == added["key"]
    moved = client.post("/api/boxes", {"action": "move", **new, "start": 0.2, "high": 2500})
    assert moved["key"] == added["key"]
    (now,) = [r for r in rows(client, bag=bag) if r["instance"] == new["instance"]]
    assert [now[name] for name in ("start", "end", "low", "high", "label")] == [0.2, 0.4, 1000, 2500, "new one"]
    gone = {"bag": before[1]["bag"], "instance": before[1]["instance"]}
    client.post("/api/boxes", {"action": "remove", **gone})
    assert (gone["bag"], gone["instance"]) not in keys(client)
    assert client.send("GET", f"/api/show?bag={gone['bag']}&instance={gone['instance']}")[0] == 404
    useful = client.get("/api/instances?order=useful&limit=10000")["instances"]
    assert {(r["bag"], r["instance"]) for r in useful} == {*keys(client)}
    drawn = client.get(f"/api/instances?sample={sample}&limit=100")["instances"]
    assert {(r["bag"], r["instance"]) for r in drawn} <= {*keys(client)}
    assert client.get("/api/history")["samples"][0]["n"] == len(drawn)
    assert client.get("/api/label-issues")["failed"] is False
    files = client.get("/api/files")["files"]
    assert sum(len(b["instances"]) for file in files for b in file["bags"]) == n
    for left in (n + 1, n + 1, n + 2, n + 1, n):
        client.post("/api/undo")
        assert client.get("/api/run")["counts"]["instances"] == left
    assert rows(client) == before


WRONG = [
    ({}, '"action" is'),
    ({"action": "burn"}, "use add, split, merge, move, remove"),
    ({"action": ["add"]}, '"action" is'),
    ({"action": "add"}, '"file" must be'),
    ({"action": "add", "file": "nobody.wav", "start": 0, "end": 1}, "The run has no file 'nobody.wav'"),
    ({"action": "add", "file": "FILE"}, "start is 'None'; expected a number"),
    ({"action": "add", "file": "FILE", "start": "0", "end": 1}, "start is '0'; expected a number"),
    ({"action": "add", "file": "FILE", "start": True, "end": 1}, "expected a number"),
    ({"action": "add", "file": "FILE", "start": 10**400, "end": 1}, "expected a number"),
    ({"action": "add", "file": "FILE", "start": 1, "end": 1}, "its end must come after its start"),
    ({"action": "add", "file": "FILE", "start": 2, "end": 1}, "its end must come after its start"),
    ({"action": "add", "file": "FILE", "start": 5, "end": 7}, "lies outside of the recording"),
    ({"action": "add", "file": "FILE", "start": 1, "end": 2, "low": 9, "high": 9}, "high be above low"),
    ({"action": "add", "file": "FILE", "start": 1, "end": 2, "low": 0, "high": 1e6}, "lies outside of the recording"),
    ({"action": "add", "file": "FILE", "start": 1, "end": 2, "label": 7}, "The label is 7"),
    ({"action": "add", "file": "FILE", "start": 1, "end": 2, "label": "a\nb"}, "characters that cannot be shown"),
    ({"action": "split", "bag": "BAG", "instance": 0, "at": 99}, "name a point inside"),
    ({"action": "split", "bag": "BAG", "instance": 0}, "at is 'None'; expected a number"),
    ({"action": "split", "bag": "BAG", "instance": "0", "at": 1}, "An instance is"),
    ({"action": "split", "at": 1}, "An instance is"),
    ({"action": "merge", "keys": [["BAG", 0]]}, "two or more different instances"),
    ({"action": "merge", "keys": [["BAG", 0], ["BAG", 0]]}, "two or more different instances"),
    ({"action": "merge", "keys": [["BAG", 0], ["OTHER", 0]]}, "Instances of 2 files"),
    ({"action": "merge", "keys": "BAG"}, '"keys" must be a list'),
    ({"action": "merge", "keys": [["BAG", 0], {"bag": "BAG"}]}, "An instance is"),
    ({"action": "move", "bag": "BAG", "instance": 0}, "Say where the instance is to be"),
    ({"action": "move", "bag": "BAG", "instance": 0, "end": -1}, "its end must come after its start"),
    ({"action": "remove", "bag": "BAG", "instance": 10**30}, "has no instance"),
    ({"action": "remove", "bag": "BAG", "instance": -1}, "has no instance -1"),
    ({"action": "remove", "bag": "nobody", "instance": 0}, "The run has no bag 'nobody'"),
]


@pytest.mark.parametrize(("body", "expected"), WRONG)
def test_bad_input_is_refused_in_words_and_changes_nothing(client, made, body, expected):
    first = rows(client)[0]
    other = next(row for row in rows(client) if row["file"] != first["file"])
    names = (("FILE", first["file"]), ("BAG", first["bag"]), ("OTHER", other["bag"]))
    text = json.dumps(body)
    for word, name in names:
        text = text.replace(f'"{word}"', json.dumps(name))
    before = client.get("/api/run")["revision"]
    status, _, reply = client.send("POST", "/api/boxes", text.encode())
    assert status in (400, 404), reply
    assert expected in json.loads(reply)["error"]
    assert client.get("/api/run")["revision"] == before


@pytest.mark.parametrize("number", [b"NaN", b"Infinity", b"-Infinity", b"1e999"])
def test_numbers_that_are_none_are_refused(client, number):
    file = rows(client)[0]["file"].encode()
    body = b'{"action": "add", "file": "' + file + b'", "start": ' + number + b', "end": 2}'
    assert client.send("POST", "/api/boxes", body)[0] == 400


def test_who_drew_a_box_and_learning_from_it(made, tmp_path):
    shutil.copytree(made / "run", tmp_path / "run", copy_function=shutil.copy2)
    with serving(tmp_path / "run") as server:
        client = server.client()
        client.post("/api/by", {"by": "Ada"})
        row, labels = rows(client)[0], client.get("/api/run")["labels"]
        box = {"action": "add", "file": row["file"], "start": 0.1, "end": 0.4, "label": labels[0]["name"]}
        bag, instance = client.post("/api/boxes", box)["key"]
        client.post("/api/refit")
        until = time.monotonic() + 90
        while client.get("/api/refit")["state"] == "running":
            assert time.monotonic() < until
            time.sleep(0.05)
        assert client.get("/api/run")["version"] == 1
        assert client.get("/api/undo") == {"corrections": 2, "version": 0, "learned": True}
        (found,) = [r for r in rows(client) if (r["bag"], r["instance"]) == (bag, instance)]
        assert found["label"] == labels[0]["name"]
        assert "was" not in found
        assert server.end() == 0
    with Run.open(tmp_path / "run") as run:
        assert [said["by"] for said in run.corrections()] == ["Ada", "Ada"]
        assert (bag, instance) in {(r["bag"], r["instance"]) for r in run.annotations()}


def test_what_nobody_can_hear_does_not_come_first(client):
    for _ in range(100):  # on a busy machine the order comes late, and another until then
        found = client.get("/api/instances?order=useful&limit=10000&checked=no")["instances"]
        heard = [row["end"] - row["start"] >= 0.08 and row["low"] < 10_000 for row in found]
        if heard == sorted(heard, reverse=True):
            break
        time.sleep(0.5)
    assert heard == sorted(heard, reverse=True)
    assert any(heard)


def test_the_export_is_one_file(made, tmp_path):
    shutil.copytree(made / "run", tmp_path / "run", copy_function=shutil.copy2)
    with serving(tmp_path / "run") as server:
        client = server.client()
        assert client.send("GET", "/media/export")[0] == 404
        files = client.post("/api/export")["files"]
        status, headers, content = client.send("GET", "/media/export")
        assert (status, headers["content-type"]) == (200, "application/zip")
        with zipfile.ZipFile(io.BytesIO(content)) as packed:
            assert {f"export/{name}" for name in packed.namelist()} == {*files}
            assert packed.read("annotations.csv") == (tmp_path / "run" / "export" / "annotations.csv").read_bytes()


def test_the_gallery_shows_where_an_instance_is(client):
    from PIL import Image

    row = rows(client)[0]
    address = f"/media/thumb?bag={row['bag']}&instance={row['instance']}&size=160"
    image = np.asarray(Image.open(io.BytesIO(client.send("GET", address)[2])).convert("RGB")).astype(int)
    is_box = (image[..., 0] - image[..., 2]) > 60  # greys have no colour
    down, across = np.nonzero(is_box)
    around = max(0.15, 0.25 * (row["end"] - row["start"]))
    start, end = max(0.0, row["start"] - around), min(6.0, row["end"] + around)
    expected = [(row[key] - start) / (end - start) * 159 for key in ("start", "end")]
    assert [across.min(), across.max()] == pytest.approx(expected, abs=2)
    assert down.max() - down.min() > 3
    assert is_box.sum() < 4 * (across.max() - across.min() + down.max() - down.min() + 4)  # an outline
