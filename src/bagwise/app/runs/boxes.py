"""Boxes that people draw, split, merge, move and remove: what is written of them, and the bags with them in force.

``corrections.csv`` says which boxes count and where they are. What describes them, their features, is worked out at
once by the reader of the media type and kept in the folder of the run, so that nothing needs the media later.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np

from bagwise.app.formats import Edits
from bagwise.app.media.embedding import NETWORK, close_network, network_of, reopen_embedding
from bagwise.app.media.files import FileBags, Problem, stack_rows
from bagwise.app.media.media_type import MediaType
from bagwise.app.runs._features import Source, read_entries, value_fingerprint, write_entries
from bagwise.app.runs._material import Material, features_of, in_windows
from bagwise.app.runs.corrections import ALSO, LABEL, NOISE, Correction, check_label
from bagwise.app.runs.folder import FEATURES, MODEL_FILE
from bagwise.app.runs.layout import BOX, MOVED, REMOVED, Key, NumberedDataset, Place, RunLayout, Span
from bagwise.core.bags import Bags, offsets_of
from bagwise.core.dataset import rows_of
from bagwise.core.exceptions import FormatError, InputError
from bagwise.io.files import inside, sync_all

FOLDER = f"{FEATURES}/boxes"
LARGEST = 1e15  # of the numbers of a place
AXES = (("start", "end"), ("low", "high"))

Run = Any
"""`bagwise.app.runs.run.Run`, which stands on this."""
Drawn = tuple[str, Place, FileBags]
"""The bag that a box belongs to, where it is, and what describes it."""


class Boxes:
    """The boxes of a run, and its bags with them.

    Parameters
    ----------
    run : folder of the run
    source : Source
    material : Material
        As it was read.

    Attributes
    ----------
    rooms : dict
        Where in each bag boxes may lie; empty where people cannot draw any.
    """

    def __init__(self, run: Path, source: Source, material: Material):
        self.run, self.source, self.found = run, source, material
        self.sizes = dict(zip(material.dataset.bag_names, material.dataset.bags.sizes.tolist(), strict=True))
        facts = {file["file"]: file for file in material.files}
        self.rooms = {bag: _room(source.media_type, facts[name]) for bag, name in material.owners.items()}
        self._known: dict[str, FileBags] = {}
        self._made: tuple[RunLayout, Material] = RunLayout(self.sizes, self.rooms), material

    def material(self, layout: RunLayout) -> Material:
        """The bags with the boxes of a layout."""
        if not self._made[0].same_as(layout):
            is_plain = not (layout.changed or layout.gone)
            self._made = layout, self.found if is_plain else self._with_boxes(layout)
        return self._made[1]

    def _with_boxes(self, layout: RunLayout) -> Material:
        rows, old = layout.rows(), self.found.dataset
        if not len(rows.bag):
            raise InputError("Every instance of the run was removed; undo that, for nothing is left to learn from.")
        boxes = [self._read(key, layout.changed[key]) for key in rows.drawn]
        instances, locations = old.bags.instances, dict(old.locations or {})
        if boxes:
            new, _ = features_of(self.source, boxes, old.feature_names)
            if new.shape[1] != old.bags.n_features:
                raise FormatError(
                    f"{self.run / FOLDER} holds boxes of {new.shape[1]} features, and the instances of the run have "
                    f"{old.bags.n_features}; run the bagwise annotate that made the run once more."
                )
            instances = stack_rows([instances, new.astype(instances.dtype, copy=False)])
            names = np.array([self.found.owners[bag] for bag, _ in rows.drawn], dtype=object)
            columns = {name: [box.locations[name] for box in boxes] for name in locations if name != "file"}
            locations = {
                name: np.concatenate([values, names if name == "file" else np.concatenate(columns[name])])
                for name, values in locations.items()
            }
        sizes = np.bincount(rows.bag)
        present, bags = np.flatnonzero(sizes), list(self.rooms)
        return replace(
            self.found,
            dataset=NumberedDataset(
                Bags(instances[rows.origin], offsets_of(sizes[present])),
                bag_names=[bags[i] for i in present],
                feature_names=old.feature_names,
                locations={name: values[rows.origin] for name, values in locations.items()},
                name=old.name,
                numbers=rows.number,
            ),
        )

    # -- what describes a box -----------------------------------------------------------------------------------------

    def _key(self, bag: str, place: Place) -> str:
        return value_fingerprint([self.found.entries[self.found.owners[bag]], bag, list(map(float, place))])

    def _read(self, key: Key, place: Place) -> FileBags:
        """What describes a box: as it was kept, else from the media once more."""
        bag, number = key
        name = self._key(bag, place)
        if name not in self._known:
            box = read_entries(inside(self.run, f"{FOLDER}/{name}.zip")).get(name)
            if box is None or not self._fits(box, place):
                try:
                    (drawn,) = self.describe(bag, [dict(zip(_columns(place), place, strict=True))])
                    self.keep([drawn])
                    box = drawn[2]
                except (InputError, OSError) as error:
                    raise FormatError(
                        f"{self.run / FOLDER}: what describes the box {number} of {bag!r} is missing or damaged, and "
                        f"it cannot be read again: {error} Say where the media are (--media), or take its row out of "
                        "corrections.csv."
                    ) from error
            self._known[name] = box
        return self._known[name]

    def _fits(self, box: FileBags, place: Place) -> bool:
        """Whether what was kept is of one box, and of this one: the folder may be somebody else's."""
        wanted = {name for name in self.found.dataset.locations or {} if name != "file"}
        return (
            box.sizes == [1]
            and {*box.locations} == wanted
            and [float(box.locations[name][0]) for name in _columns(place)] == list(map(float, place))
            and (box.feature_names is None or isinstance(box.feature_names, list))
        )

    @property
    def can_draw(self) -> bool:
        """Whether people can draw instances, as long as the media are there."""
        return self.source.media_type.describe is not None and not in_windows(self.source)

    def check_can_draw(self) -> None:
        """Refuse a media type whose instances people cannot draw."""
        media_type = self.source.media_type
        if media_type.describe is None:
            raise InputError(
                f"The {media_type.instances} of {media_type.bags} cannot be drawn or changed here; they can be removed."
                " Draw them in another program, and annotate once more with what it wrote (regions=mask or "
                "regions=coco)."
            )

    def describe(self, where: str, places: Sequence[Mapping[str, Any]]) -> list[Drawn]:
        """What is in some boxes of a file, or of the file of a bag; read from the media."""
        source, media_type = self.source, self.source.media_type
        name = self.found.owners.get(where, where)
        self.check_can_draw()
        assert media_type.describe is not None
        path = source.folder / name
        if not path.is_file():
            raise InputError(
                f"{path} is not there any more, and a new box is described from it; say where the media are now "
                "(bagwise review RUN --media FOLDER)."
            )
        if source.key(name) != self.found.entries[name]:
            raise InputError(
                f"{path} changed since it was annotated; run the bagwise annotate that made the run once more. Nothing "
                "was written."
            )
        recording = where.removeprefix(f"{name}@") if media_type.pieces_have_names and where != name else ""
        vectors = self._vectors()
        try:
            with media_type.opened(path) as file:
                asked = [{**place, "recording": recording} for place in places]
                found = media_type.describe(file, name, asked, source.settings)
                found = found if vectors is None else vectors.describe(file, name, found)
        finally:
            if vectors is not None:
                close_network()
        drawn = []
        for i, bag in enumerate(found.bag_names):
            locations = {key: values[i : i + 1] for key, values in found.locations.items()}
            own = found.vectors if found.vectors is None else found.vectors[i : i + 1]
            box = replace(
                found, bag_names=[bag], sizes=[1], features=found.features[i : i + 1], locations=locations, vectors=own
            )
            place = tuple(float(locations[key][0]) for axis in AXES for key in axis if key in media_type.places)
            drawn.append((bag if bag in self.found.owners else name, place, box))
        return drawn

    def _vectors(self) -> Any:
        """The network that describes the instances of the run, if any does."""
        about = self.source.embedded
        if about is None:
            return None
        path = network_of(about, None, self.run / MODEL_FILE) if about["kind"] == NETWORK else None
        if path is None or not path.is_file():
            what = f"Instances of this run have vectors of {about['name']}, which a new box needs too"
            cure = f"put that file into {self.run}" if about["kind"] == NETWORK else "a table has none for it"
            raise InputError(f"{what}; {cure}, or annotate without vectors to draw boxes.")
        return reopen_embedding(path, self.source.media_type, about)

    def keep(self, boxes: Sequence[Drawn]) -> None:
        """Have what describes boxes on the disk."""
        folder = inside(self.run, FOLDER)
        folder.mkdir(parents=True, exist_ok=True)
        written = []
        for bag, place, box in boxes:
            name = self._key(bag, place)
            written.append(write_entries(self.run, {name: box}, folder / f"{name}.zip"))
            self._known[name] = box
        sync_all(written)


def _columns(place: Place) -> list[str]:
    return [name for axis in AXES for name in axis][: len(place)]


def _room(media_type: MediaType, facts: Mapping[str, Any]) -> tuple[Span, ...]:
    """First and last point of a file along each axis of its boxes, where that is known."""

    def size(name: str, share: float = 1.0) -> Span:
        known = facts.get(name)
        return (0.0, known * share) if isinstance(known, (int, float)) else (-np.inf, np.inf)

    if "start" not in media_type.places:
        return ()
    if "low" in media_type.places:
        return size("seconds"), size("rate", 0.5)
    return (size("characters"),) if media_type.whole else ((-np.inf, np.inf),)


# ---------------------------------------------------------------------------------------------------------------------
# What is done with boxes: each gives the rows of one call, on the disk when it returns, and keys


def _check_can_edit(run: Run) -> None:
    if run.source.is_table:
        raise InputError(
            f"{run.media} is a file of bags, whose instances have no place that could be drawn; change the file, and "
            "annotate once more."
        )


def _place_of(run: Run, key: Any) -> tuple[Key, dict[str, Any]]:
    """The key, checked, and where the instance is."""
    try:
        bag, instance = key
        instance = int(instance) if not isinstance(instance, (bool, str)) and int(instance) == instance else None
    except (TypeError, ValueError):
        bag, instance = key, None
    if not isinstance(bag, str) or instance is None:
        raise InputError(f"A key is (bag, instance) as annotations have them, not {str(key)[:80]!r}.")
    problem = run.layout.misfit(bag, instance)
    if problem is not None:
        raise InputError(f"{problem} Nothing was written.")
    row = run.row_of(bag, instance)
    return (bag, instance), rows_of({name: values[[row]] for name, values in run.material.dataset.locations.items()})[0]


def _number(value: Any, name: str) -> float:
    is_number = isinstance(value, Real) and not isinstance(value, bool)
    if not is_number or not abs(value) < LARGEST:
        raise InputError(f"{name} is {str(value)[:40]!r}; expected a number.")
    return float(value)


def _row(key: Key, action: str, by: str, place: Place | None = None) -> Correction:
    return Correction(key[0], key[1], "", action, by=by, place=place)


Said = tuple[Any, ...]
"""All labels that a person gave to an instance; one "" for background; an ellipsis last where it may carry others."""


def _label_rows(key: Key, label: str | Said | None, by: str) -> list[Correction]:
    if label is None:
        return []
    first, *further = label if isinstance(label, tuple) else (label,)
    if not isinstance(first, str):
        raise InputError(f"The label is {first!r}; expected text, or '' for background.")
    check_label(first)
    if ... in further:
        return [Correction(key[0], key[1], name, ALSO, by=by) for name in (first, *further) if name is not ...]
    rows = [Correction(key[0], key[1], first, LABEL if first else NOISE, by=by)]
    return [*rows, *(Correction(key[0], key[1], name, ALSO, by=by) for name in further)]


def _said_of(run: Run, key: Key) -> Said | None:
    """The labels that a person gave to an instance; None where nobody did."""
    supervision, row = run.supervision(), run.row_of(*key)
    if supervision.noise[row]:
        return ("",)
    code = supervision.known[row]
    codes = [code, *supervision.also[supervision.also[:, 0] == row, 1]]
    names = tuple(str(supervision.dataset.class_names[code]) for code in codes)
    return (*names, *[...] * int(row in supervision.open)) if code >= 0 else None


def _new_keys(run: Run, bags: Sequence[str]) -> list[Key]:
    """A key for each new box, never used before."""
    keys = list[Key]()
    for bag in bags:
        first = run.next_number(bag)
        keys.append((bag, first + sum(other == bag for other, _ in keys)))
    return keys


def _put(run: Run, key: Key, drawn: Drawn, label: str | Said | None, by: str) -> tuple[Key, list[Correction]]:
    """The rows that put an instance elsewhere; in another bag, another piece of the recording, it is another one."""
    bag, place, _ = drawn
    if bag == key[0]:
        return key, [_row(key, MOVED, by, place)]
    (new,) = _new_keys(run, [bag])
    rows = [_row(key, REMOVED, by), _row(new, BOX, by, place)]
    return new, rows + _label_rows(new, label, by)


def add_instance(
    run: Run, file: str, start: Any, end: Any, low: Any = None, high: Any = None, label: str | None = None, by: str = ""
) -> Key:
    """Draw a box, see `Run.add_instance`."""
    _check_can_edit(run)
    run.boxes.check_can_draw()
    material = run.material
    if file not in material.entries and file not in material.owners:
        names = list(material.entries)
        raise InputError(f"The run has no file {str(file)[:80]!r}; its files are {', '.join(map(repr, names[:5]))}.")
    place: dict[str, float | None] = {"start": _number(start, "start"), "end": _number(end, "end")}
    if "low" in run.media_type.places:
        place |= {
            name: None if value is None else _number(value, name) for name, value in (("low", low), ("high", high))
        }
    elif low is not None or high is not None:
        raise InputError(f"{run.media_type.bags.capitalize()} have no frequencies; leave low and high out.")
    _label_rows(("", 0), label, by)  # a label that cannot be is refused before the file is read
    (drawn,) = run.boxes.describe(file, [place])
    (key,) = _new_keys(run, [drawn[0]])
    run.edit([_row(key, BOX, by, drawn[1]), *_label_rows(key, label, by)], [drawn])
    return key


def split(run: Run, key: Any, at: Any, by: str = "") -> tuple[Key, Key]:
    """Cut an instance in two, see `Run.split`."""
    _check_can_edit(run)
    key, place = _place_of(run, key)
    run.boxes.check_can_draw()
    at = _number(at, "at")
    if not place["start"] < at < place["end"]:
        raise InputError(
            f"The instance {key[1]} of {key[0]!r} reaches from {place['start']:g} to {place['end']:g} and cannot be "
            f"split at {at:g}; name a point inside."
        )
    drawn = run.boxes.describe(key[0], [place | {"end": at}, place | {"start": at}])
    label = _said_of(run, key)
    first, rows = _put(run, key, drawn[0], label, by)
    made = [correction.bag for correction in rows if correction.action == BOX]
    second = _new_keys(run, [*made, drawn[1][0]])[-1]
    rows += [_row(second, BOX, by, drawn[1][1]), *_label_rows(second, label, by)]
    run.edit(rows, drawn)
    return first, second


def merge(run: Run, keys: Sequence[Any], label: str | None = None, by: str = "") -> Key:
    """Make one instance of several, see `Run.merge`."""
    _check_can_edit(run)
    found = [_place_of(run, key) for key in keys]
    names = [key for key, _ in found]
    if len(found) < 2 or len(set(names)) < len(names):
        raise InputError(f"Merging takes two or more different instances; got {len(names)}, {len(set(names))} of them.")
    places = [place for _, place in found]
    own = {(place["file"], place.get("recording")) for place in places}
    if len(own) > 1:
        raise InputError(
            f"Instances of {len(own)} files or recordings cannot be merged: {', '.join(sorted(map(str, own))[:3])}."
        )
    said = {text for key in names if (text := _said_of(run, key)) is not None}
    if run.label_sets and len(said) > 1:
        names_said = {name for own in said for name in own}
        said = {(*sorted(names_said - {"", ...}), *names_said & {...}) or ("",)}
    if label is None and len(said) > 1:
        texts = " and ".join(repr(text) for text, *_ in sorted(said))
        raise InputError(f"People labelled these instances {texts}; say which it is (label=...).")
    found.sort(key=lambda one: (one[1].get("start", 0), one[0]))
    names = [key for key, _ in found]
    place = dict(found[0][1])
    for low, high in AXES:
        if low in place:
            place |= {low: min(p[low] for p in places), high: max(p[high] for p in places)}
    drawn = run.boxes.describe(names[0][0], [place])
    before = _said_of(run, names[0])
    wanted = (label,) if label is not None else next(iter(said), None)
    key, rows = _put(run, names[0], drawn[0], wanted, by)
    if key == names[0] and wanted is not None and wanted != before:
        rows += _label_rows(key, wanted, by)
    run.edit([*rows, *(_row(other, REMOVED, by) for other in names[1:])], drawn)
    return key


def move(
    run: Run, key: Any, start: Any = None, end: Any = None, low: Any = None, high: Any = None, by: str = ""
) -> Key:
    """Put an instance elsewhere, see `Run.move`."""
    _check_can_edit(run)
    key, place = _place_of(run, key)
    asked = {"start": start, "end": end, "low": low, "high": high}
    given = {name: _number(value, name) for name, value in asked.items() if value is not None}
    unknown = [name for name in given if name not in place]
    if unknown or not given:
        has = ", ".join(name for axis in AXES for name in axis if name in place) or "none that can be moved"
        raise InputError(f"Say where the instance is to be: {run.media_type.instances} have {has}.")
    drawn = run.boxes.describe(key[0], [place | given])
    key, rows = _put(run, key, drawn[0], _said_of(run, key), by)
    run.edit(rows, drawn)
    return key


def remove(run: Run, key: Any, by: str = "") -> None:
    """Take an instance away, see `Run.remove`."""
    _check_can_edit(run)
    key, _ = _place_of(run, key)
    if run.material.dataset.bags.n_instances == 1:
        raise InputError("It is the last instance of the run; at least one must stay.")
    run.edit([_row(key, REMOVED, by)], [])


def take_edits(run: Run, edits: Edits, by: str = "") -> list[Problem]:
    """Take over what was put right in another program, see `Run.take_edits`."""
    rows, drawn, problems = run.entries_of(edits.corrections, by=by), list[Drawn](), list[Problem]()
    new: list[tuple[Drawn, str]] = []

    def describe(where: str, place: Mapping[str, Any]) -> Drawn | None:
        try:
            return run.boxes.describe(where, [place])[0]
        except (InputError, OSError) as error:
            problems.append((where, str(error)))
            return None

    for bag, instance, place, label in edits.moved:
        key, before = _place_of(run, (bag, instance))
        box = describe(bag, before | place)
        if box is None:
            continue
        if box[0] == bag:
            rows += [_row(key, MOVED, by, box[1]), *_label_rows(key, label, by)]
            drawn.append(box)
        else:
            rows.append(_row(key, REMOVED, by))
            new.append((box, label))
    for file, place, label in edits.drawn:
        box = describe(file, place)
        if box is not None:
            new.append((box, label))
    keys = _new_keys(run, [box[0] for box, _ in new])
    for key, (box, label) in zip(keys, new, strict=True):
        rows += [_row(key, BOX, by, box[1]), *_label_rows(key, label, by)]
        drawn.append(box)
    run.edit(rows, drawn)
    return problems
