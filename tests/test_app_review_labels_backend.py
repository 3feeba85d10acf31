"""The backend of Label Studio: what Label Studio 1.23.2 sent is answered, and what people did is on disk."""

import base64
import http.client
import json
import os
import shutil
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

from bagwise import Run
from bagwise.app.review._errors import MissingError, RequestError
from bagwise.app.review.labels_backend import LabelsBackend
from bagwise.app.review.review import Review
from bagwise.core.exceptions import FormatError, InputError
from bagwise.datasets import make_gaussian_bags, make_soundscape
from bagwise.io.data.formats import write_dataset

RECORDED = json.loads((Path(__file__).parent / "label_studio_requests.json").read_text(encoding="utf-8"))["requests"]
PREDICT = next(one["body"] for one in RECORDED if one["path"] == "/predict")
ANNOTATED = next(one["body"] for one in RECORDED if one["body"] and one["body"].get("action") == "ANNOTATION_CREATED")
FILE = "recording-000.wav"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The run that was served to Label Studio, not to be changed: copy it."""
    folder = tmp_path_factory.mktemp("made")
    make_soundscape(4, species_per_recording=(2, 3), random_state=5).write(folder)
    options = {"labels": folder / "labels.csv", "label_studio_root": folder, "page": False, "jobs": 1}
    Run.create(folder / "recordings", folder / "run", **options).close()
    return folder


@pytest.fixture
def run(made, tmp_path):
    shutil.copytree(made / "run", tmp_path / "run", copy_function=shutil.copy2)
    return tmp_path / "run"


@pytest.fixture
def backend(run):
    review = Review(Run.open(run))
    yield LabelsBackend(review)
    review.close()


def corrections(run):
    with Run.open(run) as opened:
        return opened.corrections()


def task_with(*labels_and_times, file="recordings/recording-000.wav", key="audio", **more):
    result = [
        {"type": "labels", "value": {"start": start, "end": end, "labels": [label]}}
        for label, start, end in labels_and_times
    ]
    annotation = {"result": result, "was_cancelled": False, "completed_by": {"email": "ann@example.org"}, **more}
    return {"task": {"data": {key: f"/data/local-files/?d={file}"}}, "annotation": annotation}


# -- over HTTP, as Label Studio does -----------------------------------------------------------------------------------


class Served:
    def __init__(self, process):
        self.address = urlsplit(process.stdout.readline().strip())

    def send(self, method, path, body=None, password=None, **headers):
        password = self.address.password if password is None else password
        if password:
            proof = base64.b64encode(f"{self.address.username}:{password}".encode()).decode()
            headers["Authorization"] = f"Basic {proof}"
        connection = http.client.HTTPConnection(self.address.hostname, self.address.port, timeout=60)
        sent = None if body is None else json.dumps(body)
        connection.request(method, path, sent, {"Content-Type": "application/json", **headers})
        answer = connection.getresponse()
        content = json.loads(answer.read())
        connection.close()
        return answer.status, content


@contextmanager
def serving(run, *options, **variables):
    command = [sys.executable, "-m", "bagwise.app.cli", "labels-backend", str(run), "--port", "0", *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ | variables)
    try:
        yield Served(process)
    finally:
        process.terminate()
        process.wait(60)
        process.stdout.close()


def test_what_label_studio_sent_is_answered(made, run):
    own = json.loads((made / "run" / "label-studio.json").read_text(encoding="utf-8"))
    with serving(run) as served:
        answers = {(one["path"], i): served.send(**one) for i, one in enumerate(RECORDED)}
        assert {status for status, _ in answers.values()} == {200}
        health, setup, predicted, annotated, training, _ = (answer for _, answer in answers.values())
        until = time.monotonic() + 90
        while (version := served.send("GET", "/health")[1]["model_version"]) == health["model_version"]:
            assert time.monotonic() < until
            time.sleep(0.05)
        _, renewed = served.send("POST", "/predict", PREDICT)
    assert health["status"] == "UP"
    assert setup["model_version"] == health["model_version"] == predicted["model_version"] == "ored-background 0"
    assert version == "ored-background 1" == renewed["results"][0]["model_version"]
    for task, result in zip(own, predicted["results"], strict=True):  # the oracle: the tasks that are imported
        (expected,) = task["predictions"]
        assert result["score"] == expected["score"]
        assert [mark | {"id": 0} for mark in result["result"]] == [mark | {"id": 0} for mark in expected["result"]]
    assert training["learning"] == "running"
    assert annotated["problems"] == []
    # all that the person left, changed or removed is known now
    before = {row["value"]["start"]: row["value"]["labels"][0] for row in own[0]["predictions"][0]["result"]}
    after = {row["value"]["start"]: row["value"]["labels"][0] for row in ANNOTATED["annotation"]["result"]}
    assert after.keys() < before.keys()
    said = {(one["label"], one["action"]) for one in corrections(run)}
    assert ("hoot owl", "label") in said
    assert ("", "noise") in said
    assert len(corrections(run)) == len(before) == annotated["corrections"]
    with Run.open(run) as opened:
        now = {round(row["start"], 3): row["label"] for row in opened.annotations() if row["checked"]}
    assert now == {start: after.get(start, "") for start in before}


def test_only_who_has_the_password_is_answered(run):
    with serving(run, BAGWISE_BACKEND_PASSWORD="a good one") as served:
        assert unquote(served.address.password) == "a good one"
        assert served.send("GET", "/health", password="a good one")[0] == 200
    with serving(run) as served:
        assert len(served.address.password) >= 16
        status, answer = served.send("GET", "/health", password="")
        assert (status, "address that bagwise labels-backend printed" in answer["error"]) == (401, True)
        assert served.send("POST", "/webhook", ANNOTATED, password="no")[0] == 403
        status, answer = served.send("POST", "/webhook", ANNOTATED, **{"Content-Type": "text/plain"})
        assert (status, "send application/json" in answer["error"]) == (400, True)
        assert served.send("GET", "/predict")[0] == 405
        assert served.send("POST", "/api/run", {})[0] == 404
        assert {served.send("GET", "/health", password=str(i))[0] for i in range(12)} == {403}
    assert corrections(run) == []


# -- what comes in -----------------------------------------------------------------------------------------------------


def test_files_that_the_run_has_not(backend):
    tasks = [{"id": 1, "data": {"audio": "/data/upload/2/0a1b2c3d-recording-001.wav"}}, {"data": {"audio": "x.wav"}}]
    found = backend.predict({"tasks": tasks})
    assert [bool(one["result"]) for one in found["results"]] == [True, False]
    assert found["missing"] == ["x.wav"]
    with pytest.raises(MissingError, match=r"no file 'x.wav'; annotate it first"):
        backend.predict({"tasks": tasks[1:]})


def test_interface_of_others(backend):
    config = '<View><Labels name="calls" toName="sound"/><Audio name="sound" value="$url"/></View>'
    tasks = [{"data": {"url": "recording-000.wav"}}]
    (prediction,) = backend.predict({"tasks": tasks, "label_config": config})["results"]
    assert {(row["from_name"], row["to_name"]) for row in prediction["result"]} == {("calls", "sound")}
    body = {"action": "ANNOTATION_UPDATED", "project": {"label_config": config}} | task_with(key="url")
    assert backend.webhook(body)["corrections"] == len(prediction["result"])  # nothing was left: all is noise


@pytest.mark.parametrize(
    "config", ["<View><Choices name='a' toName='b'/></View>", "<View", "<!DOCTYPE a [<!ENTITY b 'c'>]><a/>"]
)
def test_interface_that_does_not_fit(backend, config):
    with pytest.raises(FormatError, match="The interface of the project"):
        backend.setup({"schema": config})


@pytest.mark.parametrize(
    "body",
    [
        {}, {"tasks": []}, {"tasks": "all"}, {"tasks": [3]}, {"tasks": [{"data": {}}]}, {"tasks": [{"data": None}]},
    ],
)  # fmt: skip
def test_bad_requests_to_predict(backend, body):
    with pytest.raises(RequestError, match="task"):
        backend.predict(body)


def test_a_region_where_nothing_was_found_becomes_an_instance_once(backend, run):
    (first, *_) = ANNOTATED["annotation"]["result"]
    start, end = first["value"]["start"], first["value"]["end"]
    n = len(backend._review.run.annotations())
    body = {"action": "ANNOTATION_CREATED"} | task_with(("hoot owl", start, end), ("wren", 9.90, 9.99))
    answer = backend.webhook(body)
    assert (answer["problems"], answer["boxes"]) == ([], 1)
    again = backend.webhook(body)
    assert (again["corrections"], again["boxes"]) == (0, 0)  # once is enough
    rows = backend._review.run.annotations()
    (new,) = [row for row in rows if row["label"] == "wren"]
    assert (len(rows), new["file"], round(new["start"], 2), round(new["end"], 2)) == (n + 1, FILE, 9.90, 9.99)
    assert new["checked"]
    moved = {"action": "ANNOTATION_UPDATED"} | task_with(("hoot owl", start, end), ("wren", 9.80, 9.99))
    assert backend.webhook(moved)["boxes"] == 1
    (new,) = [row for row in backend._review.run.annotations() if row["label"] == "wren"]
    assert (round(new["start"], 2), round(new["end"], 2)) == (9.80, 9.99)
    said = {(one["instance"], one["label"], one["by"]) for one in backend._review.run.corrections()}
    assert (0, "hoot owl", "ann@example.org") in said


def test_a_region_that_cannot_be_described_is_said_and_nothing_is_lost(made, run, tmp_path, capsys):
    """The recording is gone: what is said of instances that are known counts all the same."""
    with Run.open(run, media=made / "recordings") as opened:
        known = next(row for row in opened.annotations() if row["file"] == FILE)
    review = Review(Run.open(run, media=tmp_path))
    try:
        backend = LabelsBackend(review)
        regions = ("hoot owl", known["start"], known["end"]), ("wren", 9.90, 9.99)
        answer = backend.webhook({"action": "ANNOTATION_CREATED"} | task_with(*regions))
        assert len(answer["problems"]) == 1
        assert "is not there any more" in answer["problems"][0]
        assert "is not there any more" in capsys.readouterr().err
        assert answer["corrections"] > 0
        assert all(row["label"] != "wren" for row in review.run.annotations())
    finally:
        review.close()


def test_what_is_skipped_or_deleted_says_nothing(backend):
    skipped = {"action": "ANNOTATION_CREATED"} | task_with(was_cancelled=True)
    assert backend.webhook(skipped)["corrections"] == 0
    assert backend.webhook({"action": "ANNOTATIONS_DELETED", "annotations": [{"id": 1}]})["status"] == "ignored"
    with pytest.raises(RequestError, match='"task" and "annotation"'):
        backend.webhook({"action": "ANNOTATION_CREATED"})
    with pytest.raises(FormatError, match="expected data with 'audio'"):
        backend.webhook({"action": "ANNOTATION_CREATED", "task": {"data": {}}, "annotation": {"result": []}})
    assert backend._review.run.corrections() == []


def test_older_label_studio_sends_all_tasks_to_train(backend):
    body = task_with()
    tasks = [body["task"] | {"annotations": [body["annotation"]]}]
    answer = backend.train({"annotations": tasks, "label_config": PREDICT["label_config"]})
    assert answer["learning"] == "running"
    assert answer["corrections"] == len(backend._review.run.corrections()) > 0


def test_learns_by_itself_when_asked_to(run):
    review = Review(Run.open(run))
    try:
        backend = LabelsBackend(review, learn_every=2)
        body = {"action": "ANNOTATION_CREATED"} | task_with()
        backend.webhook(body)
        assert review.refit_state()["state"] == "idle"
        backend.webhook(body)
        assert review.refit_state()["state"] == "running"
    finally:
        review.close()


def test_a_run_that_label_studio_cannot_show_is_refused(tmp_path):
    write_dataset(make_gaussian_bags(n_bags=20, random_state=0), tmp_path / "made.csv")
    review = Review(Run.create(tmp_path / "made.csv", tmp_path / "run", page=False))
    try:
        with pytest.raises(InputError, match="bagwise review"):
            LabelsBackend(review)
    finally:
        review.close()
