"""A run as the machine learning backend of a Label Studio project: predictions out, annotations in, learning between.

Label Studio asks ``GET /health``, ``POST /setup`` and ``POST /predict``, sends what people annotate to ``POST
/webhook``, and asks to learn by ``POST /webhook`` or, where it is older, ``POST /train``.
"""

from __future__ import annotations

import hmac
import secrets
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from bagwise.app.formats import (
    Annotations,
    Edits,
    Interface,
    file_finder,
    find_edits,
    marks_of_tasks,
    plain_interface,
    prediction_of,
    rows_by_file,
)
from bagwise.app.media.documents import document_text
from bagwise.app.review._errors import ConflictError, ForbiddenError, MissingError, RequestError
from bagwise.app.review.guard import PasswordNeededError, Rates, RequestHead, password_of
from bagwise.app.review.review import LONGEST_NAME, Review

USER = "bagwise"
GUESSES = 10  # wrong passwords a minute
LARGEST = 2**26  # bytes of a request: Label Studio sends all annotated tasks of a project at once
ANNOTATED = ("ANNOTATION_CREATED", "ANNOTATION_UPDATED")
TRAIN = "START_TRAINING"
Answer = Callable[[Mapping[str, Any]], dict[str, Any]]


class LabelsBackend:
    """What is answered to Label Studio, in plain Python.

    Parameters
    ----------
    review : Review
    learn_every : int or None
        Learn again after so many annotated tasks; None: only when Label Studio asks.
    """

    def __init__(self, review: Review, learn_every: int | None = None):
        plain_interface(review.run.media_type)  # refuses media that Label Studio does not show
        self._review, self._learn_every = review, learn_every
        self._lock = threading.RLock()
        self._state: _State | None = None
        self._since = 0  # annotated tasks since learning began last

    def _now(self) -> _State:
        with self._lock:
            revision = self._review.revision
            if self._state is None or self._state.revision != revision:
                self._state = _State(revision, self._review.annotations())
            return self._state

    @property
    def addresses(self) -> dict[str, dict[str, Answer]]:
        """What answers each address, by method: functions of the object that comes."""
        gets: dict[str, Answer] = {"/": self.health, "/health": self.health, "/versions": self.versions}
        posts: dict[str, Answer] = {
            "/setup": self.setup,
            "/predict": self.predict,
            "/webhook": self.webhook,
            "/train": self.train,
        }
        return {"GET": gets, "POST": posts}

    def health(self, body: Mapping[str, Any]) -> dict[str, Any]:
        return {"status": "UP", "model_class": "bagwise", "model_version": self._version}

    def versions(self, body: Mapping[str, Any]) -> dict[str, Any]:
        return {"versions": [self._version]}

    @property
    def _version(self) -> str:
        run = self._review.run
        return f"{run.manifest['about'].get('model', 'model')} {run.version}"

    def setup(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Look at the interface of a project. The key of Label Studio that comes with it is neither kept nor used."""
        self._interface(body.get("schema"))
        return {"model_version": self._version}

    def _interface(self, config: Any) -> Interface:
        media_type = self._review.run.media_type
        return Interface.read(config, media_type) if isinstance(config, str) and config else plain_interface(media_type)

    def predict(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """A prediction per task, an empty one for a file that the run has not; where it has none of them, an error."""
        tasks, names, now = body.get("tasks"), self._interface(body.get("label_config")), self._now()
        if not isinstance(tasks, list) or not tasks:
            raise RequestError('"tasks" must be a list with at least one task.')
        results, missing = [], []
        for task in tasks:
            data = task.get("data") if isinstance(task, dict) else None
            if not isinstance(data, dict) or names.key not in data:
                raise RequestError(f"A task must have data with {names.key!r}; got {str(data)[:80]}.")
            file = now.file(str(data[names.key]))
            if file is None:
                missing.append(str(data[names.key])[:200])
            results.append(now.prediction(file, names, task.get("id")) | {"model_version": self._version})
        if len(missing) == len(tasks):
            raise MissingError(
                f"The run has no file {missing[0]!r}; annotate it first (bagwise annotate), or import the tasks of its "
                "label-studio.json."
            )
        return {"results": results, "missing": missing, "model_version": self._version}

    def webhook(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """What people did: their annotations become corrections; a request to learn begins to."""
        action = body.get("action")
        if action == TRAIN:
            return self.train({})
        if action not in ANNOTATED:
            return {"status": "ignored", "action": str(action)[:80]}
        task, annotation, project = body.get("task"), body.get("annotation"), body.get("project")
        if not isinstance(task, dict) or not isinstance(annotation, dict):
            raise RequestError(f'{action} comes with "task" and "annotation"; send the whole payload.')
        config = project.get("label_config") if isinstance(project, dict) else None
        return self._absorb([task | {"annotations": [annotation]}], self._interface(config))

    def train(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Take over annotated tasks that come with the request, then begin to learn; it goes on by itself."""
        tasks, answer = body.get("annotations"), {"status": "ok"}
        if isinstance(tasks, list) and tasks:
            answer = self._absorb(tasks, self._interface(body.get("label_config")))
        self._learn()
        return answer | {"learning": self._review.refit_state()["state"]}

    def _learn(self) -> None:
        with self._lock:
            self._since = 0
        with suppress(ConflictError):  # it learns already; what came since is for the next time
            self._review.start_refit()

    def _absorb(self, tasks: list[Any], names: Interface) -> dict[str, Any]:
        """Annotations as corrections: what is otherwise is corrected, what was left as it is is confirmed."""
        with self._lock:
            run = self._review.run
            edits = self._now().compare(tasks, names, run.boxes.can_draw and not run.media_type.joined)
            problems = edits.problems + self._review.take_edits(edits, _annotator(tasks[-1]))
            self._since += len(tasks)
            is_due = self._learn_every is not None and self._since >= self._learn_every
        for _, text in problems:
            print(text, file=sys.stderr, flush=True)
        if is_due:
            self._learn()
        return {
            "status": "ok",
            "corrections": len(edits.corrections),
            "boxes": len(edits.moved) + len(edits.drawn),
            "problems": [text for _, text in problems],
        }


@dataclass(frozen=True)
class _State:
    """The annotations of a revision, and what is looked up in them."""

    revision: int
    annotations: Annotations

    @cached_property
    def _files(self) -> dict[str, dict[str, Any]]:
        return {file["file"]: file for file in self.annotations.files}

    @cached_property
    def _shown(self) -> dict[str, list[dict[str, Any]]]:
        return rows_by_file(self.annotations)

    @cached_property
    def _find(self) -> Callable[[str], str]:
        return file_finder(self.annotations)

    def file(self, given: str) -> str | None:
        """The file of the run that a task names, None where it has none."""
        name = self._find(given)
        return name if name in self._files else None

    def prediction(self, name: str | None, names: Interface, number: Any) -> dict[str, Any]:
        if name is None:
            return {"result": [], "score": 0.0}
        facts = self.annotations.media_type.label_studio
        text = document_text(self.annotations.folder / name) if facts is not None and facts.holds_text else ""
        number = number if isinstance(number, int) else 0
        return prediction_of(self.annotations, self._files[name], self._shown[name], text, number, names)

    def compare(self, tasks: Iterable[Any], names: Interface, boxes: bool) -> Edits:
        """What annotated tasks say: corrections, confirmations, boxes where people draw any; and what fits nowhere."""
        marks = marks_of_tasks(tasks, self.annotations, "Label Studio", names)
        concerned = {str(mark.get("file")) for mark in marks.rows} | marks.covered
        own = replace(self.annotations, rows=[row for row in self.annotations.rows if row["file"] in concerned])
        edits = find_edits(own, marks, boxes)
        said = {(bag, i) for bag, i, *_ in [*edits.corrections, *edits.moved]}
        confirmed = [
            (row["bag"], row["instance"], row["label"])
            for row in own.rows
            if row["file"] in marks.covered
            and own.is_shown(row)
            and not row["checked"]
            and (row["bag"], row["instance"]) not in said
        ]
        return replace(edits, corrections=[*edits.corrections, *confirmed])


def _annotator(task: Any) -> str:
    """Who annotated a task last, as far as Label Studio says."""
    by = task["annotations"][-1].get("completed_by")
    name = by.get("email", "") if isinstance(by, dict) else f"Label Studio user {by}" if isinstance(by, int) else ""
    return name if isinstance(name, str) and name.isprintable() and len(name) <= LONGEST_NAME else ""


# ---------------------------------------------------------------------------------------------------------------------
# Who is let in


class PasswordGuard:
    """Lets in who brings the password with every request (HTTP's basic authentication), as Label Studio can.

    Another page in the browser of this machine does not know it, and other users of the machine do not either.
    """

    def __init__(self, password: str | None = None):
        self.password = password or secrets.token_urlsafe(16)
        self._guesses = Rates(GUESSES, GUESSES / 60)

    def admit(self, head: RequestHead) -> None:
        """Let a request in, or raise why not."""
        given = password_of(head.headers.get("authorization", ""))
        if given is None:
            raise PasswordNeededError("Give the address that bagwise labels-backend printed, with user and password.")
        if not hmac.compare_digest(given.encode(), self.password.encode()):
            if not self._guesses.allows(head.client):
                raise ForbiddenError("Too many wrong passwords; wait a minute.")
            raise ForbiddenError("The password is not the one that bagwise labels-backend printed.")
        kind = head.headers.get("content-type", "").partition(";")[0].strip().lower()
        if head.method == "POST" and kind != "application/json":
            raise RequestError(f"The content is {kind[:40]!r}; send application/json.")
