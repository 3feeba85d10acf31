"""What a person said about the annotations of a run: an append-only table, on disk before anybody is answered.

``corrections.csv`` has a row for each thing said and one for each undo; nothing in it is ever changed. Rows of one call
bear its number. A person may edit it: bag, instance and label are all that a row needs.
"""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from numbers import Integral
from pathlib import Path
from typing import Any

from bagwise.exceptions import FormatError, InputError
from bagwise.io.files import atomic_write
from bagwise.io.text import defuse, guess_separator, iterate_rows, undefuse

FILE = "corrections.csv"
HEADINGS = ("bag", "instance", "label", "action", "before", "by", "call", "time")
NEEDED = HEADINGS[:3]
LABEL, NOISE, CONFIRMED, PRESENT, ABSENT = "label", "noise", "confirmed", "present", "absent"
UNDO, OUTDATED = "undo", "outdated"
LONGEST_LABEL = 200  # characters
ACTIONS = (LABEL, NOISE, CONFIRMED, PRESENT, ABSENT, UNDO, OUTDATED)


@dataclass(frozen=True)
class Correction:
    """One thing that a person said.

    Attributes
    ----------
    bag : str
    instance : int or None
        Number in the bag; None where the bag itself is meant.
    label : str
        "" with an instance says that it is noise.
    action : str
        "label" (the instance carries another label), "noise", "confirmed" (it carries the one that was found),
        "present" and "absent" (the bag carries the label, or does not), "undo" (of the call in `before`), "outdated"
        (the file of the bag changed: what was said of it before does not count any more).
    before : str
        The label before, or the number of the call that is undone.
    by : str
        Who said it, where somebody asked.
    call : int
        Number of the call; what was said in one call is undone in one.
    time : str
    """

    bag: str
    instance: int | None
    label: str
    action: str
    before: str = ""
    by: str = ""
    call: int = 0
    time: str = ""


class CorrectionLog:
    """The table of corrections of a run."""

    def __init__(self, path: Path):
        self.path = path
        self.entries: list[Correction] = []
        self.last_call = 0
        self.rows: dict[int, int] = {}  # call -> row of the file on which it begins, for messages
        self._torn_from: int | None = None
        self._columns: list[str] = list(HEADINGS)
        self._cells: list[dict[str, Any]] = []  # of every row, what a person added in columns of their own too
        self._foreign = False  # whether rows cannot simply be put behind those that are there
        self._ends_with_line = True
        raw = path.read_bytes() if path.exists() else b""
        self._lacks_heading = not raw.strip()
        if raw.strip():
            self._read(raw)

    def in_force(self) -> list[Correction]:
        """What counts: neither undone nor outdated, in the order in which it was said."""
        undone = {entry.before for entry in self.entries if entry.action == UNDO}
        kept: list[Correction] = []
        for entry in self.entries:
            if entry.action == OUTDATED:
                kept = [other for other in kept if other.bag != entry.bag]
            elif entry.action != UNDO and str(entry.call) not in undone:
                kept.append(entry)
        return kept

    def append(self, corrections: Sequence[Correction]) -> list[Correction]:
        """Put the rows of one call on disk; when this returns they are there, whatever happens next."""
        call, now = self.last_call + 1, datetime.now(UTC).isoformat(timespec="seconds")
        entries = [replace(correction, call=call, time=now) for correction in corrections]
        cells = [_cells(entry) for entry in entries]
        if self._foreign:  # a person left columns out or chose another separator: bring it into our own form first
            with atomic_write(self.path, "w") as file:
                file.write(_as_csv(self._columns, [*self._cells, *cells], heading=True))
            self._foreign, self._torn_from, self._ends_with_line = False, None, True
        else:
            self._write(_as_csv(self._columns, cells, heading=self._lacks_heading).encode())
        self._cells += cells
        self.entries += entries
        self.last_call = call
        return entries

    def undo(self) -> list[Correction]:
        """Take back the last call that counts; gives what it said, nothing where there is none."""
        calls = [entry.call for entry in self.in_force()]
        if not calls:
            return []
        taken = [entry for entry in self.in_force() if entry.call == max(calls)]
        self.append([Correction("", None, "", UNDO, before=str(max(calls)))])
        return taken

    def _write(self, data: bytes) -> None:
        flags = os.O_WRONLY | os.O_CREAT | getattr(os, "O_BINARY", 0)
        descriptor = os.open(self.path, flags, 0o666)
        try:
            if self._torn_from is not None:
                os.ftruncate(descriptor, self._torn_from)
            if os.lseek(descriptor, 0, os.SEEK_END) and not self._ends_with_line:
                data = b"\n" + data
            while data:
                data = data[os.write(descriptor, data) :]
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        self._torn_from, self._ends_with_line, self._lacks_heading = None, True, False

    def _read(self, raw: bytes) -> None:
        self._ends_with_line = raw.endswith(b"\n")
        if not self._ends_with_line:
            raw = self._without_torn_row(raw)
        try:
            text = raw.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            row = raw[: error.start].count(b"\n") + 1
            raise FormatError(f"{self.path}, row {row}: it is not UTF-8 text; save the file as UTF-8.") from error
        separator = guess_separator(text)
        rows = list(iterate_rows(text, separator, self.path, trim=False))
        line, heading = rows[0][0], [cell.strip().casefold() for cell in rows[0][1]]
        missing = [name for name in NEEDED if name not in heading]
        if missing:
            raise FormatError(
                f"{self.path}, row {line}: there is no column {missing[0]!r}; the first row must name "
                f"{', '.join(NEEDED)} (and may name {', '.join(HEADINGS[3:])}). Put it back, or move the file away."
            )
        self._columns = [*heading, *(name for name in HEADINGS if name not in heading)]
        self._foreign = separator != "," or len(self._columns) > len(heading)
        for line, cells in rows[1:]:
            where = f"{self.path}, row {line}"
            if len(cells) != len(heading):
                raise FormatError(f"{where}: there are {len(cells)} cells but {len(heading)} columns; mend the row.")
            named = dict(zip(heading, cells, strict=True))
            entry = _parse(named, where, self.last_call + 1)
            self.rows.setdefault(entry.call, line)
            self.entries.append(entry)
            self.last_call = max(self.last_call, entry.call)
            self._cells.append({**named, **_cells(entry)})

    def _without_torn_row(self, raw: bytes) -> bytes:
        """Leave out a last row that was never finished, and so never answered; one that a person wrote is whole."""
        start = raw.rfind(b"\n") + 1
        text = raw.decode("utf-8-sig", "replace")
        separator = guess_separator(text)
        width = len(next(csv.reader([text.split("\n", 1)[0]], delimiter=separator), []))
        try:
            cells = next(csv.reader([raw[start:].decode("utf-8")], delimiter=separator, strict=True), [])
        except (UnicodeDecodeError, csv.Error):
            cells = []
        if start == 0 or len(cells) == width:
            return raw  # only the line end is missing: it comes with the next row
        self._torn_from, self._ends_with_line = start, True
        return raw[:start]


def _as_csv(columns: Sequence[str], rows: Iterable[dict[str, Any]], heading: bool) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    if heading:
        writer.writerow(columns)
    writer.writerows([row.get(name, "") for name in columns] for row in rows)
    return text.getvalue()


def _cells(entry: Correction) -> dict[str, Any]:
    return {
        "bag": defuse(entry.bag), "instance": "" if entry.instance is None else entry.instance,
        "label": defuse(entry.label), "action": entry.action, "before": defuse(entry.before), "by": defuse(entry.by),
        "call": entry.call, "time": entry.time,
    }  # fmt: skip


def _parse(cells: dict[str, str], where: str, next_call: int) -> Correction:
    text, action = cells["instance"].strip(), cells.get("action", "").strip().casefold()
    label = undefuse(cells["label"])
    instance = None
    if text:
        number = text.removesuffix(".0")
        if not number.isascii() or not number.isdigit():
            raise FormatError(f"{where}: the instance is {text!r}; expected its number in the bag, from 0.")
        instance = int(number)
    if not action:
        action = (LABEL if label else NOISE) if instance is not None else PRESENT
    if action not in ACTIONS:
        raise FormatError(f"{where}: the action is {action!r}; expected one of {', '.join(ACTIONS)}, or nothing.")
    about_bag = action in (PRESENT, ABSENT, UNDO, OUTDATED)
    if about_bag != (instance is None):
        cure = "leave the instance empty" if about_bag else "write the number of the instance"
        raise FormatError(f"{where}: the action is {action!r} and the instance {text!r}; {cure}.")
    if action in (PRESENT, ABSENT, LABEL) and not label:
        raise FormatError(f"{where}: there is no label; write one (for noise leave the action empty).")
    call = cells.get("call", "").strip()
    if call and not (call.isascii() and call.isdigit()):
        raise FormatError(f"{where}: the call is {call!r}; expected a number, or nothing.")
    return Correction(
        bag=undefuse(cells["bag"]), instance=instance, label=label, action=action,
        before=undefuse(cells.get("before", "")), by=undefuse(cells.get("by", "")),
        call=int(call) if call else next_call, time=cells.get("time", ""),
    )  # fmt: skip


def calls_of(corrections: Iterable[Correction]) -> list[int]:
    """Numbers of the calls, in order."""
    return list(dict.fromkeys(correction.call for correction in corrections))


def check_correction(given: Any, sizes: Mapping[str, int]) -> tuple[str, int | None, str]:
    """Bag, instance and label of what somebody wants to say, if that can be said of bags of these sizes."""
    try:
        bag, instance, label = given
    except (TypeError, ValueError):
        raise InputError(f"A correction is (bag, instance, label), not {given!r}.") from None
    bag = str(bag)
    if not isinstance(label, str):
        raise InputError(f"The label of {bag!r} is {label!r}; expected text, or '' for noise.")
    if label != label.strip() or len(label) > LONGEST_LABEL or not label.replace("\t", " ").isprintable():
        raise InputError(
            f"The label {label[:40]!r} (of {len(label)} characters) is too long, has blanks around it or holds "
            f"characters that cannot be shown; use at most {LONGEST_LABEL} plain ones."
        )
    if instance is None and not label:
        raise InputError(f"Of the bag {bag!r} no label was given; name one, or an instance that is noise.")
    if instance is not None:
        if isinstance(instance, bool) or not isinstance(instance, Integral):
            raise InputError(f"The instance {instance!r} of {bag!r} is no whole number; count from 0 in the bag.")
        instance = int(instance)
    problem = misfit(bag, instance, sizes)
    if problem is not None:
        raise InputError(f"{problem} Nothing was written.")
    return bag, instance, label


def misfit(bag: str, instance: int | None, sizes: Mapping[str, int]) -> str | None:
    """Why a correction is none of these bags, if it is not."""
    size = sizes.get(bag)
    if size is None:
        return f"The run has no bag {bag!r}; its bags are {some_of(sizes)}."
    if instance is not None and not 0 <= instance < size:
        return f"The bag {bag!r} has no instance {instance}; it has {size}, from 0 to {size - 1}."
    return None


def some_of(names: Iterable[str]) -> str:
    """The first few names, for a message."""
    names = list(names)
    return ", ".join(map(repr, names[:5])) + (", ..." if len(names) > 5 else "")
