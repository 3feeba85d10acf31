"""What a person said about the annotations of a run: an append-only table, on disk before anybody is answered.

``corrections.csv`` has a row for each thing said and one for each undo; nothing in it is ever changed. Rows of one call
bear its number, and the last of them says "yes" in the column ``end``: a call is in force whole or not at all. Rows at
the end of the file that bear a number whose end is nowhere belong to a call that was never finished (the disk was full,
the power went), so nobody was answered; they do not count. A person may edit the file: bag, instance and label are all
that a row needs, rows without a number count each by itself, and so do all whole rows of a file without that column.
A box that a person drew or moved is a row too, with the numbers of its place: start and end, then low and high where
there are frequencies.
"""

from __future__ import annotations

import csv
import errno
import io
import math
import os
import re
import stat
import zlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from numbers import Integral
from pathlib import Path
from typing import Any

from bagwise.app.runs.layout import BOX, EDITS, MOVED, Place, RunLayout, Span
from bagwise.core.exceptions import FormatError, InputError
from bagwise.io.files import NO_ROOM, atomic_write, defuse, undefuse
from bagwise.io.tables import guess_separator, iterate_rows

FILE = "corrections.csv"
UNFINISHED = "corrections-unfinished-{}.csv"  # for what was never finished
HEADINGS = ("bag", "instance", "label", "action", "before", "by", "call", "time", "end")
PLACE = "place"  # a further column, where there are boxes
NEEDED = HEADINGS[:3]
NAMES = ("bag", "label", "before", "by")  # what people name, and a spreadsheet may take for a formula
LABEL, NOISE, CONFIRMED, PRESENT, ABSENT = "label", "noise", "confirmed", "present", "absent"
ALSO = "also"
UNDO, OUTDATED = "undo", "outdated"
LONGEST_LABEL = 200  # characters
END = "yes"  # in the column ``end``
_LINE = re.compile(rb"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")
ACTIONS = (LABEL, NOISE, CONFIRMED, ALSO, PRESENT, ABSENT, *EDITS, UNDO, OUTDATED)


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
        "label" (the instance carries another label), "noise", "confirmed" (it carries the one that was found), "also"
        (it carries this one too, and where nothing was said of it before maybe others; any other row about an instance
        replaces all that was said of it before),
        "present" and "absent" (the bag carries the label, or does not), "box" (a person drew the instance), "moved",
        "removed", "undo" (of the call in `before`), "outdated" (the file of the bag changed: what was said of it before
        does not count any more).
    before : str
        The label before, or the number of the call that is undone.
    by : str
        Who said it, where somebody asked.
    call : int
        Number of the call; what was said in one call is undone in one.
    time : str
    place : tuple of float or None
        Of a box that was drawn or moved.
    """

    bag: str
    instance: int | None
    label: str
    action: str
    before: str = ""
    by: str = ""
    call: int = 0
    time: str = ""
    place: Place | None = None


class CorrectionLog:
    """The table of corrections of a run.

    Parameters
    ----------
    path : path
    sizes : mapping or None
        Of a run: bag to the number of its instances. What does not fit them does not count. None takes what there is.
    rooms : mapping or None
        Of a run: where in a bag boxes may lie, see `RunLayout`.

    Attributes
    ----------
    entries : list of Correction
        Everything that was said, undone or not.
    last_call : int
    rows : dict
        Call to the row of the file on which it begins, for messages.
    unfinished : bytes
        What stands at the end of the file of a call that was never finished.
    """

    def __init__(
        self, path: Path, sizes: Mapping[str, int] | None = None, rooms: Mapping[str, Sequence[Span]] | None = None
    ):
        self.path = path
        self.sizes, self.rooms = sizes, rooms
        self.entries: list[Correction] = []
        self.last_call = 0
        self.rows: dict[int, int] = {}
        self.unfinished = b""
        self._unfinished_row = 0
        self._columns: list[str] = list(HEADINGS)
        self._cells: list[dict[str, Any]] = []  # of every row, what a person added in columns of their own too
        self._is_ours = False  # whether rows can be put behind those that are there; else the whole file is written
        self._fitting: tuple[int, list[Correction], list[tuple[str, str]], RunLayout] | None = (
            None  # of how many entries
        )
        raw = _read_file(path)
        if raw.strip(b"\0\r\n\t "):
            self._read(raw)

    @property
    def problems(self) -> list[tuple[str, str]]:
        """What stands in the file, or next to it where it was set aside, and does not count: name and message."""
        problems = [*self._fit()[2]]
        if self.unfinished:
            text = (
                f"{self.path}, row {self._unfinished_row} and what follows: the call was never finished (none of its "
                f"rows says {END!r} in the column 'end'), so it does not count. Say it again, or leave the call of "
                "rows that you write yourself empty."
            )
            problems.append((self.path.name, text))
        for path in [] if self.sizes is None else sorted(self.path.parent.glob(UNFINISHED.format("*"))):
            text = (
                f"{path} holds the end of {FILE} as it was found: rows of a call that was never finished, which do "
                "not count. Say again what is right in it, and remove it."
            )
            problems.append((path.name, text))
        return problems

    def in_force(self) -> list[Correction]:
        """What counts: neither undone nor outdated, and fitting; in the order in which it was said."""
        return self._fit()[1]

    @property
    def calls(self) -> list[int]:
        """Numbers of the calls in force, in order."""
        return list(dict.fromkeys(correction.call for correction in self.in_force()))

    @property
    def layout(self) -> RunLayout:
        """The instances that there are, with the boxes in force."""
        return self._fit()[3]

    def layout_at(self, calls: Collection[int]) -> RunLayout:
        """Those that there were when only these calls counted."""
        layout, known = RunLayout(self.sizes or {}, self.rooms), set(calls)
        for entry in self.in_force():
            if entry.action in EDITS and entry.call in known:
                layout.take(entry.action, (entry.bag, entry.instance), entry.place)
        return layout

    def next_number(self, bag: str, size: int) -> int:
        """Of a new box: it never had another meaning, not even one that was taken back."""
        taken = [entry.instance for entry in self.entries if entry.action == BOX and entry.bag == bag]
        return max([size - 1, *(number for number in taken if number is not None)]) + 1

    def _fit(self) -> tuple[int, list[Correction], list[tuple[str, str]], RunLayout]:
        if self._fitting is None or self._fitting[0] != len(self.entries):
            fitting, problems, layout = [], [], RunLayout(self.sizes or {}, self.rooms)
            for entry in self._not_undone():
                problem = None
                if self.sizes is not None:
                    problem = layout.take(entry.action, (entry.bag, entry.instance), entry.place)
                if problem is None:
                    fitting.append(entry)
                    continue
                row = self.rows.get(entry.call)
                where = f"{self.path}, {f'row {row}' if row else f'call {entry.call}'}"
                problems.append((entry.bag, f"{where}: {problem} It is not used; fix or remove the row."))
            self._fitting = len(self.entries), fitting, problems, layout
        return self._fitting

    def _not_undone(self) -> list[Correction]:
        undone = {entry.before for entry in self.entries if entry.action == UNDO}
        kept: list[Correction] = []
        for entry in self.entries:
            if entry.action == OUTDATED:
                kept = [other for other in kept if other.bag != entry.bag]
            elif entry.action != UNDO and str(entry.call) not in undone:
                kept.append(entry)
        return kept

    def append(self, corrections: Sequence[Correction]) -> list[Correction]:
        """Put the rows of one call on disk, all or none: when this returns they are there, whatever happens next.

        Raises
        ------
        OSError
            If the disk is full or fails; the file is then what it was before.
        """
        call, now = self.last_call + 1, datetime.now(UTC).isoformat(timespec="seconds")
        entries = [replace(correction, call=call, time=now) for correction in corrections]
        cells = [_cells(entry) for entry in entries]
        cells[-1]["end"] = END
        if PLACE not in self._columns and any(entry.place for entry in entries):
            self._columns.insert(
                self._columns.index("before"), PLACE
            )  # "end" stays behind it: it says that a row is whole
            self._is_ours = False
        self.set_aside()
        if not (self._is_ours and self._put_behind(_as_csv(self._columns, cells, heading=False).encode())):
            self._save([*self._cells, *cells])
        self._cells += cells
        self.entries += entries
        self.last_call = call
        return entries

    def undo(self) -> list[Correction]:
        """Take back the last call that counts; gives what it said, nothing where there is none."""
        entries = self._not_undone()
        last = max((entry.call for entry in entries), default=None)
        if last is not None:
            self.append([Correction("", None, "", UNDO, before=str(last))])
        return [entry for entry in entries if entry.call == last]

    def set_aside(self) -> None:
        """Move what was never finished out of the file, into one of its own next to it."""
        if not self.unfinished:
            return
        path = self.path.with_name(UNFINISHED.format(f"{zlib.crc32(self.unfinished):08x}"))  # the same for the same
        _refuse_link(path)
        with atomic_write(path) as file:
            file.write(_as_csv(self._columns, [], heading=True).encode() + self.unfinished)
        self._save(self._cells)
        self.unfinished = b""

    def _save(self, cells: Sequence[Mapping[str, Any]]) -> None:
        """Write the whole file, in our own form."""
        last = {row["call"]: i for i, row in enumerate(cells)}
        rows = [{**row, "end": END if last[row["call"]] == i else ""} for i, row in enumerate(cells)]
        _refuse_link(self.path)
        with atomic_write(self.path, "w") as file:
            file.write(_as_csv(self._columns, rows, heading=True))
        self._is_ours = True

    def _put_behind(self, data: bytes) -> bool:
        """Put rows at the end of the file; False where somebody removed it meanwhile."""
        try:
            descriptor = _open_file(self.path, os.O_RDWR)
        except FileNotFoundError:
            return False
        try:
            length = os.lseek(descriptor, 0, os.SEEK_END)
            try:
                os.lseek(descriptor, max(length - 1, 0), os.SEEK_SET)
                if os.read(descriptor, 1) not in (b"\n", b""):
                    data = b"\n" + data
                while data:
                    data = data[os.write(descriptor, data) :]
                os.fsync(descriptor)
            except BaseException as error:
                self._cut_back(descriptor, length)
                if isinstance(error, OSError) and error.errno in NO_ROOM:
                    text = (
                        f"The disk is full: nothing of this was written to {self.path}; free some space, and repeat it"
                    )
                    raise OSError(error.errno, text) from error
                raise
        finally:
            os.close(descriptor)
        return True

    def _cut_back(self, descriptor: int, length: int) -> None:
        """Take a call back that did not get through; if that fails too, the whole file is written the next time."""
        self._is_ours = False
        with suppress(OSError):
            os.ftruncate(descriptor, length)
            os.fsync(descriptor)
            self._is_ours = True

    def _read(self, raw: bytes) -> None:
        whole = self._without_torn_row(raw)
        try:
            text = whole.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            row = whole[: error.start].count(b"\n") + 1
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
        self._is_ours = separator == "," and len(self._columns) == len(heading)
        parsed = []
        for line, cells in rows[1:]:
            where = f"{self.path}, row {line}"
            if len(cells) != len(heading):
                raise FormatError(f"{where}: there are {len(cells)} cells but {len(heading)} columns; fix the row.")
            named = dict(zip(heading, cells, strict=True))
            parsed.append((line, named, _parse(named, where)))
        n_kept = _n_finished([(named, entry) for _, named, entry in parsed]) if "end" in heading else len(parsed)
        if n_kept < len(parsed):
            lines = [match.start() for match in _LINE.finditer(raw)]
            whole = raw[: lines[parsed[n_kept][0] - 1]]
        self.unfinished, self._unfinished_row = raw[len(whole) :], whole.count(b"\n") + 1
        for line, named, entry in parsed[:n_kept]:
            entry = entry if entry.call else replace(entry, call=self.last_call + 1)
            self.rows.setdefault(entry.call, line)
            self.entries.append(entry)
            self.last_call = max(self.last_call, entry.call)
            self._cells.append({**named, **_cells(entry)})

    def _without_torn_row(self, raw: bytes) -> bytes:
        """Leave out a last row that was cut off, and so never answered; one that a person wrote is whole."""
        end = len(raw.rstrip(b"\0"))  # which some file systems leave where the power went
        start = raw.rfind(b"\n", 0, end) + 1
        if start in (0, end):
            return raw[:end]
        text = raw[:start].decode("utf-8-sig", "replace")
        separator = guess_separator(text)
        try:
            heading = next(csv.reader([text.split("\n", 1)[0]], delimiter=separator), [])
            cells = next(csv.reader([raw[start:end].decode("utf-8")], delimiter=separator, strict=True), [])
        except (UnicodeDecodeError, csv.Error):
            heading, cells = [""], []
        named = dict(zip([name.strip().casefold() for name in heading], cells, strict=False))
        is_whole = len(cells) == len(heading) and named.get("end", "").strip() in ("", END)
        return raw[: end if is_whole else start]  # only the line end may be missing: it comes with the next row


def _n_finished(rows: Sequence[tuple[Mapping[str, str], Correction]]) -> int:
    """How many rows are left without those at the end that belong to a call whose end is nowhere."""
    ended = {entry.call for named, entry in rows if named["end"].strip()}
    count = len(rows)
    while count and rows[count - 1][1].call and rows[count - 1][1].call not in ended:
        count -= 1
    return count


def _open_file(path: Path, flags: int) -> int:
    """Open the table itself: nothing is followed through a link, or waited for in a pipe."""
    flags |= getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    if not hasattr(os, "O_NOFOLLOW"):
        _refuse_link(path)
    try:
        descriptor = os.open(path, flags)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EMLINK):  # the second on some BSDs
            _refuse_link(path)
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise FormatError(f"{path} is no file; remove it, or put the table of corrections in its place.")
    return descriptor


def _refuse_link(path: Path) -> None:
    if path.is_symlink():
        raise FormatError(f"{path} is a link, which is not followed; put the file itself there, or remove the link.")


def _read_file(path: Path) -> bytes:
    try:
        descriptor = _open_file(path, os.O_RDONLY)
    except FileNotFoundError:
        return b""
    with os.fdopen(descriptor, "rb") as file:
        return file.read()


def _as_csv(columns: Sequence[str], rows: Iterable[Mapping[str, Any]], heading: bool) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    if heading:
        writer.writerow(columns)
    writer.writerows([row.get(name, "") for name in columns] for row in rows)
    return text.getvalue()


def _cells(entry: Correction) -> dict[str, Any]:
    place = " ".join(repr(value).removesuffix(".0") for value in entry.place or ())
    instance = "" if entry.instance is None else entry.instance
    cells = {**vars(entry), "instance": instance, "place": place, "end": ""}
    return cells | {name: defuse(cells[name]) for name in NAMES}


def _parse(cells: Mapping[str, str], where: str) -> Correction:
    """One row; its call is 0 where it bears no number."""
    text, action = cells["instance"].strip(), cells.get("action", "").strip().casefold()
    named = {name: undefuse(cells.get(name, "")) for name in NAMES}
    label = named["label"]
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
    if action in (PRESENT, ABSENT, LABEL, ALSO) and not label:
        raise FormatError(f"{where}: there is no label; write one (for noise leave the action empty).")
    place = _parse_place(cells.get("place", ""), where) if action in (BOX, MOVED) else None
    call = cells.get("call", "").strip()
    if call and not (call.isascii() and call.isdigit()):
        raise FormatError(f"{where}: the call is {call!r}; expected a number, or nothing.")
    end = cells.get("end", "").strip()
    if end not in ("", END):
        raise FormatError(f"{where}: the end is {end!r}; expected {END!r} in the last row of a call, else nothing.")
    return Correction(
        **named,
        instance=instance,
        action=action,
        call=int(call) if call else 0,
        time=cells.get("time", ""),
        place=place,
    )


def _parse_place(cell: str, where: str) -> Place:
    """The numbers of the place of a box."""
    try:
        place = tuple(float(number) for number in cell.split())
    except ValueError:
        place = ()
    if len(place) not in (2, 4) or not all(map(math.isfinite, place)):
        raise FormatError(
            f"{where}: the place is {cell[:80]!r}; expected the numbers start and end, or start, end, low and high."
        )
    return place


def check_correction(given: Any, sizes: Mapping[str, int] | RunLayout) -> tuple[str, int | None, str]:
    """Bag, instance and label of what somebody wants to say, if that can be said of bags of these sizes."""
    try:
        bag, instance, label = given
    except (TypeError, ValueError):
        raise InputError(f"A correction is (bag, instance, label), not {given!r}.") from None
    bag = str(bag)
    if not isinstance(label, str):
        raise InputError(f"The label of {bag!r} is {label!r}; expected text, or '' for noise.")
    check_label(label)
    if instance is None and not label:
        raise InputError(f"Of the bag {bag!r} no label was given; name one, or an instance that is noise.")
    if instance is not None:
        if isinstance(instance, bool) or not isinstance(instance, Integral):
            raise InputError(f"The instance {instance!r} of {bag!r} is no whole number; count from 0 in the bag.")
        instance = int(instance)
    problem = (sizes if isinstance(sizes, RunLayout) else RunLayout(sizes)).misfit(bag, instance)
    if problem is not None:
        raise InputError(f"{problem} Nothing was written.")
    return bag, instance, label


def check_label(label: str) -> None:
    """Refuse a label that cannot be shown."""
    if label != label.strip() or len(label) > LONGEST_LABEL or not label.replace("\t", " ").isprintable():
        raise InputError(
            f"The label {label[:40]!r} (of {len(label)} characters) is too long, has blanks around it or holds "
            f"characters that cannot be shown; use at most {LONGEST_LABEL} plain ones."
        )
