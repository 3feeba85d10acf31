"""Predictions for Label Studio, and the labelling interface that shows them."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote
from xml.sax.saxutils import quoteattr

from defusedxml import DefusedXmlException, ElementTree

from bagwise.app.formats._annotations import Annotations
from bagwise.app.formats._marks import Mark, MarkReader, Marks, read_json, read_number
from bagwise.app.formats._tables import intervals_by_file, spread_marks
from bagwise.app.media.documents import document_text
from bagwise.app.media.media_type import LabelStudio, MediaType, Row
from bagwise.core.exceptions import FormatError, InputError
from bagwise.io.files import atomic_write, open_folder

SERVED = "/data/local-files/?d="  # with the path below LABEL_STUDIO_LOCAL_FILES_DOCUMENT_ROOT
LABEL = "label"  # name of the control in the interface, and so of the results


def write_label_studio(annotations: Annotations, folder: Path) -> list[Path]:
    """``label-studio.json``, tasks with predictions to import, and ``label-studio.xml``, the interface of the project.

    Files are named relative to the folder that was annotated, or by the address under which Label Studio serves them
    from a folder of the machine; texts are in the tasks themselves.
    """
    paths = [open_folder(folder, "label-studio.json"), open_folder(folder, "label-studio.xml")]
    facts = _facts(annotations.media_type)
    rows = rows_by_file(annotations)
    tasks = (
        _task(annotations, facts, file, rows[file["file"]], number)
        for number, file in enumerate(annotations.files, 1)
        if facts.shows(file)
    )
    _write_json_list(tasks, paths[0])
    with atomic_write(paths[1], "w") as file:
        file.write(_interface(annotations, facts))
    return paths


class Interface(NamedTuple):
    """Names in the interface of a project: of the control that labels, of the object, and of its key in the data."""

    control: str
    shown: str
    key: str

    @classmethod
    def read(cls, config: str, media_type: MediaType) -> Interface:
        """Those of an interface that somebody wrote: the first control of the kind that the media type needs."""
        facts = _facts(media_type)
        try:
            elements = list(ElementTree.fromstring(config).iter())
        except (ElementTree.ParseError, DefusedXmlException) as error:
            raise FormatError(f"The interface of the project is no XML ({error}).") from error
        values = {element.get("name"): element.get("value", "") for element in elements}
        for element in elements:
            shown = element.get("toName", "")
            if element.tag == facts.labels and values.get(shown, "").startswith("$"):
                return cls(element.get("name", LABEL), shown, values[shown][1:])
        raise FormatError(
            f"The interface of the project has no <{facts.labels}> whose toName is an object with a value; take "
            "label-studio.xml of the run."
        )


def plain_interface(media_type: MediaType) -> Interface:
    """That of ``label-studio.xml``."""
    key = _facts(media_type).key
    return Interface(LABEL, key, key)


def _facts(media_type: MediaType) -> LabelStudio:
    if media_type.label_studio is None:
        raise InputError(f"Label Studio shows no {media_type.title.lower()}; use bagwise review.")
    return media_type.label_studio


def rows_by_file(annotations: Annotations) -> dict[str, list[dict[str, Any]]]:
    """What is shown of each file."""
    return intervals_by_file(annotations) if annotations.media_type.joined else annotations.shown_by_file()


def _task(
    annotations: Annotations, facts: LabelStudio, file: dict[str, Any], rows: list[dict[str, Any]], number: int
) -> dict[str, Any]:
    text = document_text(annotations.folder / file["file"]) if facts.holds_text else ""
    shown = text if facts.holds_text else _address(annotations, file["file"])
    names = plain_interface(annotations.media_type)
    return {"data": {facts.key: shown}, "predictions": [prediction_of(annotations, file, rows, text, number, names)]}


def prediction_of(
    annotations: Annotations, file: Row, rows: list[dict[str, Any]], text: str, number: int, names: Interface
) -> dict[str, Any]:
    """The prediction of a task, which has a number: what is shown of a file (with its text, where it is one)."""
    facts = _facts(annotations.media_type)
    results = [
        {
            "id": f"{number}-{i}",
            "from_name": names.control,
            "to_name": names.shown,
            "type": facts.kind,
            "value": {**facts.value(row, file, text), facts.kind: [row["label"]]},
            **({} if row["probability"] is None else {"score": row["probability"]}),
            **facts.details(row, file),
        }
        for i, row in enumerate(rows, 1)
    ]
    about = annotations.about
    return {
        "model_version": f"{about.get('model', '')} bagwise {about.get('version', '')}".strip(),
        # tasks sorted by score then begin with the least sure
        "score": min((row["probability"] for row in rows if row["probability"] is not None), default=0.0),
        "result": results,
    }


def _address(annotations: Annotations, name: str) -> str:
    """What a task names a file by."""
    if annotations.served_from is None:
        return name
    path, root = (annotations.folder / name).resolve(), annotations.served_from.resolve()
    if not path.is_relative_to(root):
        raise InputError(f"{path} does not lie in {root}, from which Label Studio serves files (--label-studio-root).")
    return SERVED + quote(path.relative_to(root).as_posix())


def _interface(annotations: Annotations, facts: LabelStudio) -> str:
    lines = ["<View>", f'  <{facts.labels} name="{LABEL}" toName="{facts.key}">']
    lines += [f"    <Label value={quoteattr(name)}/>" for name in annotations.classes]
    lines.append(f"  </{facts.labels}>")
    plain = [f'  <{facts.tag} name="{facts.key}" value="${facts.key}"/>']
    lines += plain if facts.show is None else facts.show(facts.key, annotations.files[0])
    return "\n".join([*lines, "</View>"]) + "\n"


def read_label_studio(path: Path, annotations: Annotations) -> Marks:
    """An export of Label Studio, as JSON or as JSON-MIN.

    Of a task the last annotation that was not skipped counts; the predictions where nobody annotated it. A task whose
    annotations were all skipped says nothing.
    """
    tasks = read_json(path)
    if not isinstance(tasks, list):
        raise FormatError(f"{path}: it holds no list of tasks; export the project as JSON or JSON-MIN.")
    return marks_of_tasks(tasks, annotations, str(path), plain_interface(annotations.media_type))


def marks_of_tasks(tasks: Iterable[Any], annotations: Annotations, path: str, names: Interface) -> Marks:
    """What people marked in tasks of Label Studio; `path` says where they come from."""
    facts, reader = _facts(annotations.media_type), MarkReader(annotations)
    files = {file["file"]: file for file in annotations.files}
    find = file_finder(annotations)
    rows: list[Mark] = []
    covered = set()
    for i, task in enumerate(tasks):
        source = f"{path}, task {i + 1}"
        try:
            data = task.get("data", task)
            name = find(str(data[names.key]))
            values = list(_values(task, facts.kind, "data" in task))
            if None not in values:
                covered.add(name)
            for value in values:
                if value is not None:
                    place = facts.place(value, files[name]) if name in files else {}
                    plain = {k: v if k == "polygon" else read_number(v, k, source) for k, v in place.items()}
                    given = [*value.get(facts.kind, ())] or [""]
                    rows += [{"source": source, "file": name, **plain, "label": reader.label(str(g))} for g in given]
        except FormatError:
            raise
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise FormatError(
                f"{source}: expected data with {names.key!r} and results with {facts.kind!r} ({error!r})."
            ) from error
    marks = Marks(rows, frozenset(covered))
    return spread_marks(marks, annotations) if annotations.media_type.joined else marks


def _values(task: Row, kind: str, full: bool) -> Iterator[Row | None]:
    """The values of the marks of a task; one None where somebody skipped it."""
    if not full:
        yield from task.get(LABEL, [])
        return
    made = task.get("annotations") or []
    kept = [annotation for annotation in made if not annotation.get("was_cancelled")]
    if made and not kept:
        yield None
        return
    chosen = kept or (task.get("predictions") or [])
    for result in chosen[-1]["result"] if chosen else []:
        if result["type"] == kind:
            yield result["value"]


def file_finder(annotations: Annotations) -> Callable[[str], str]:
    """What gives the file of the run that a task names; what the task says, where there is none."""
    return _TextsByContent(annotations) if _facts(annotations.media_type).holds_text else MarkReader(annotations).file


class _TextsByContent:
    """The file of a text; of several equal texts the next one each time."""

    def __init__(self, annotations: Annotations):
        self._names: dict[str, list[str]] = defaultdict(list)
        for file in annotations.files:
            self._names[document_text(annotations.folder / file["file"])].append(file["file"])

    def __call__(self, text: str) -> str:
        names = self._names.get(text)
        if not names:
            return f"a text that begins with {text[:40]!r}"
        return names.pop(0) if len(names) > 1 else names[0]


def _write_json_list(values: Iterable[Any], path: Path) -> None:
    """A list as JSON in UTF-8, value by value, so that all of them need not be in memory at once; each value is a line,
    since Python takes ten times as long to indent one."""
    with atomic_write(path, "w") as file:
        file.write("[")
        between = "\n "
        for value in values:
            file.write(between + json.dumps(value, ensure_ascii=False, allow_nan=False))
            between = ",\n "
        file.write("]\n" if between == "\n " else "\n]\n")
