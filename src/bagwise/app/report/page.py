"""The page of a run: one file, opened from the file system; sounds, if there are any, lie in a folder next to it.

Its weight is bounded, whatever the run: so many pictures of so many points, so many instances one by one, so many bytes
of sound, rows of tables up to a number. The page is made of parts (``parts/*.html.j2``), each from its piece of the
summary.
"""

from __future__ import annotations

import base64
import hashlib
import io
import re
import zipfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from bagwise.app.formats import Annotations
from bagwise.app.media.media_type import MediaType
from bagwise.app.media.pictures import CLOSE_HEIGHT, CLOSE_WIDTH, CloseUp, Picture, as_drawing, time_in_words
from bagwise.app.report.summary import AnnotateResult, class_colours, observer_table, summarize_run
from bagwise.core.dataset import BagDataset
from bagwise.core.exceptions import InputError, in_words, one_file, warn_caller
from bagwise.io.files import atomic_write, open_folder
from bagwise.preprocessing import TermScaler

N_PICTURES = 16
N_UNCERTAIN_PICTURES = 10  # of them those that hold the least certain instances
MOST_REGIONS = 400  # of a picture, the least certain first
MOST_LINES = 200  # of lists of what is wrong
MOST = 320  # instances in all galleries together
MOST_OF_A_KIND = 6  # the most typical of a label, and the least certain
MOST_SOUND = 8_000_000  # bytes of all sounds of a page together
CANDIDATES = 400  # of a label that are compared with each other
N_MOMENTS = 20_000  # instances that mean and deviation of the features are taken from
REACH = 3.0  # deviations that a drawing shows to each side of the mean
_UNSAFE = re.compile(r"[^\w.()-]+")  # what not every system has in names of files
PAPER, FAINT, INK = 255, 170, 30  # greys

Row = dict[str, Any]
Key = tuple[Any, int]
Piece = tuple[str, float]
"""A file, and where in it the picture begins."""
Step = Callable[[int, int], None]
"""Called with the files that are done and their number."""


def check_page_can_be_made() -> None:
    """Refuse at once, before long work, where a library that pages need is missing."""
    try:
        for name in ("jinja2", "PIL.Image"):
            import_module(name)
    except ImportError as error:
        raise ImportError(
            f"The page needs pillow and jinja2, and {error}; pip install 'bagwise[report]', or pass --no-page."
        ) from error


def write_page(
    result: AnnotateResult, path: Path, progress: Callable[[str, int, int], None] = lambda what, done, total: None
) -> list[Path]:
    """Write the page of a run and its sounds; gives the paths of all of them."""
    check_page_can_be_made()
    annotations, media_type = result.annotations, result.annotations.media_type
    summary = summarize_run(result)
    features = None if result.dataset is None else _Features(result.dataset)
    gallery = _choose_gallery(annotations.shown(), annotations.classes, features)
    alone = [*summary["least_sure"], *(row for part in gallery for row in (*part["typical"], *part["uncertain"]))]
    sounds = Sounds(f"{path.stem}-sounds")
    shown, pictures = _drawn(annotations, alone, sounds, features, lambda done, total: progress("drawing", done, total))
    for number, part in enumerate(gallery, 1):
        rows = {_key_of(row): row for row in (*part["typical"], *part["uncertain"])}
        clips = {
            _plain_name(
                f"{part['label']} {row['probability'] or 0:.2f} {row.get('file')} {row.get('start')}.flac"
            ): shown[key].sound
            for key, row in rows.items()
            if key in shown
        }
        part["clips"] = sounds.pack(_plain_name(f"{number:03d} {part['label']}.zip"), clips)
    # a row leads to its region in the picture that holds it, where there is one; texts to the picture
    regions = {key for picture in pictures for key in picture["keys"]}
    by_piece = {picture["piece"]: picture["id"] for picture in pictures}
    numbers = {_key_of(row): f"i{i}" for i, row in enumerate(alone) if _key_of(row) in regions}
    length = _length(annotations)
    places = {} if media_type.draw is None else {_key_of(row): _piece_of(row, length) for row in alone}
    links = {key: numbers.get(key) or by_piece[piece] for key, piece in places.items() if piece in by_piece}
    first_of = {picture["piece"][0]: picture["id"] for picture in reversed(pictures)}
    colours = class_colours(annotations.classes)
    script = _read("page.js")
    page = render(
        "page.html.j2",
        {"place": media_type.place_in_words, "key": _key_of, "duration": time_in_words},
        title=media_type.title,
        summary=summary,
        folder=annotations.folder.name,
        gallery=gallery,
        shown=shown,
        is_typical=features is not None,
        drawn_features=media_type.close_ups is None,
        pictures=pictures,
        links=links,
        numbers=numbers,
        picture_of=first_of,
        sounds=sounds,
        most_lines=MOST_LINES,
        observers=observer_table(result.observers, media_type.bags),
        bags=media_type.bags,
        colours=colours,
        dated=any("recorded" in file for file in annotations.files),
        instances=annotations.about["settings"].get("segment", media_type.instances),
        drawings=media_type.drawings,
        drawn_patterns=any(look.pattern for look in colours.values()),
        script=script,
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    )
    return write_with_sounds(page, path, sounds)


def _read(name: str) -> str:
    return files("bagwise.app.report").joinpath(name).read_text(encoding="utf-8")


def render(template: str, filters: Mapping[str, Callable[..., Any]] | None = None, **values: Any) -> str:
    """The text of a template of this room with values, all escaped but our own style and script."""
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(_read),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters |= {
        "percent": lambda value: "" if value is None else f"{100 * value:.0f} %",
        "clock": lambda text: text.replace("T", " ")[:19],
        **(filters or {}),
    }
    return environment.get_template(template).render(style=_read("page.css"), **values)


# ---------------------------------------------------------------------------------------------------------------------
# Pictures of pieces of files


def _length(annotations: Annotations) -> float:
    """How much of a file one picture shows."""
    media_type = annotations.media_type
    return media_type.picture_length(media_type.make_settings(annotations.about["settings"]))


def _piece_of(row: Row, length: float) -> Piece:
    """The piece of a picture in which a row is drawn."""
    return row["file"], float(row["start"] // length * length) if np.isfinite(length) else 0.0


def _choose_pieces(annotations: Annotations, n: int = N_PICTURES) -> list[Piece]:
    """File and start of the pieces to show: most with the least certain instances, the others spread over all."""
    if annotations.media_type.draw is None:
        return []
    length, rows = _length(annotations), annotations.shown() or annotations.rows
    unsure = sorted(rows, key=lambda row: 1.0 if row["probability"] is None else row["probability"])
    chosen = list(dict.fromkeys(_piece_of(row, length) for row in unsure))[: n * N_UNCERTAIN_PICTURES // N_PICTURES]
    others = [p for p in dict.fromkeys(_piece_of(row, length) for row in rows) if p not in set(chosen)]
    picks = np.linspace(0, len(others) - 1, min(n - len(chosen), len(others))).round().astype(int)
    return [*chosen, *(others[i] for i in picks)]


def _rows_of_piece(annotations: Annotations, name: str, start: float) -> list[Row]:
    """Instances drawn in the picture of a piece of a file: those that are shown, of very many the least certain."""
    length, rows = _length(annotations), [row for row in annotations.rows if row["file"] == name]
    if annotations.media_type.joined:
        return [row if annotations.is_shown(row) else {**row, "label": ""} for row in rows]
    rows = [row for row in rows if annotations.is_shown(row)]
    if np.isfinite(length):  # what begins before and reaches into it is drawn too
        rows = [row for row in rows if row["end"] > start and row["start"] < start + length]
    if len(rows) > MOST_REGIONS:
        rows.sort(key=lambda row: (_piece_of(row, length) != (name, start), row["probability"] or 0.0))
        rows = sorted(rows[:MOST_REGIONS], key=lambda row: (str(row["bag"]), row["instance"]))
    return rows


def _drawn(
    annotations: Annotations, alone: Sequence[Row], sounds: Sounds, features: _Features | None, step: Step
) -> tuple[dict[Key, _Shown], list[dict[str, Any]]]:
    """What is seen and heard of single rows, and the pictures of pieces of files with address, sound and time."""
    media, media_type, pieces = MediaFiles.of(annotations), annotations.media_type, _choose_pieces(annotations)
    drawn: dict[Piece, tuple[Picture, bytes | None]] = {}

    def draw(name: str, file: Any) -> None:
        for start in (start for own, start in pieces if own == name):
            assert media_type.draw is not None
            picture = media_type.draw(file, name, _rows_of_piece(annotations, name, start), media.settings, start)
            end = start + media_type.picture_length(media.settings)
            sound = None if media_type.cut_sound is None else media_type.cut_sound(file, start, end, media.settings)
            drawn[name, start] = picture, sound

    shown = show_rows(media, alone, sounds, step, [name for name, _ in pieces], draw)
    if media_type.close_ups is None and features is not None:
        shown = _profiles(annotations, alone, features)
    about = {file["file"]: file for file in annotations.files}
    made = [(*piece, *drawn[piece]) for piece in pieces if piece in drawn]
    pictures = [
        {
            "piece": (name, start),
            "id": f"p{i}",
            "picture": picture,
            "sound": "" if sound is None else sounds.add(sound),
            "when": _when(about[name], start if media_type.timed else 0.0),
            "keys": [region["key"] for region in picture.regions if "key" in region],
        }
        for i, (name, start, picture, sound) in enumerate(made)
    ]
    return shown, pictures


def _when(file: dict[str, Any], seconds: float) -> str:
    """Clock time of a moment of a file, "" where it is not known."""
    if "recorded" not in file:
        return ""
    return (datetime.fromisoformat(file["recorded"]) + timedelta(seconds=seconds)).isoformat(timespec="seconds")


# ---------------------------------------------------------------------------------------------------------------------
# Instances shown one by one


def _plain_name(text: str) -> str:
    """A text as the name of a file on any system."""
    return _UNSAFE.sub("_", text)


def _key_of(row: Row) -> Key:
    """Bag and instance, which name a row of annotations."""
    return row["bag"], row["instance"]


@dataclass
class Sounds:
    """The sounds of a page, which lie in a folder next to it and are loaded when they are played.

    Attributes
    ----------
    folder : str
        Name of the folder.
    files : dict
        Name in the folder to content.
    left : int
        Bytes that may still be added.
    """

    folder: str
    files: dict[str, bytes] = field(default_factory=dict)
    left: int = MOST_SOUND

    def add(self, content: bytes) -> str:
        """Take a sound if there is room; gives its address, "" if there is none."""
        if len(content) > self.left:
            return ""
        name = f"{len(self.files) + 1:03d}.flac"
        self.files[name] = content
        self.left -= len(content)
        return f"{self.folder}/{name}"

    def pack(self, name: str, addresses: Mapping[str, str]) -> str:
        """Put sounds into an archive, each under a name of its own; gives its address, "" where there are none."""
        names = {own: address.rpartition("/")[2] for own, address in addresses.items() if address}
        if not names:
            return ""
        stream = io.BytesIO()
        with zipfile.ZipFile(stream, "w") as archive:
            for own, there in names.items():
                archive.writestr(zipfile.ZipInfo(own), self.files[there])  # of 1980, so that the same run is the same
        self.files[name] = stream.getvalue()
        return f"{self.folder}/{name}"


@dataclass(frozen=True)
class _Shown:
    """One instance by itself: what is seen of it, and the address of what is heard, "" where there is none."""

    close_up: CloseUp
    sound: str = ""


@dataclass(frozen=True)
class MediaFiles:
    """Media files in a folder, how they were read, and how long each is where files have a length in time."""

    media_type: MediaType
    settings: Any
    folder: Path
    seconds: Mapping[str, float]

    @classmethod
    def of(cls, annotations: Annotations) -> MediaFiles:
        """The files that were annotated."""
        seconds = {file["file"]: file.get("seconds", 0.0) for file in annotations.files}
        media_type = annotations.media_type
        return cls(media_type, media_type.make_settings(annotations.about["settings"]), annotations.folder, seconds)

    def visit(
        self, names: Iterable[str], looks: Sequence[Callable[[str, Any], None]], step: Callable[[int, int], None]
    ) -> None:
        """Open each file once for all `looks`, which get its name and the open file.

        A warning names the first of the files that changed or were cut off by now.
        """
        names = list(dict.fromkeys(names))
        errors: dict[str, str] = {}

        def net(name: str) -> AbstractContextManager[None]:
            return self._noting(errors, name)

        for i, name in enumerate(names):
            step(i, len(names))
            with net(name), self.media_type.open(self.folder / name) as file:
                for look in looks:
                    with net(name):
                        look(name, file)
        step(len(names), len(names))
        if errors:
            first = next(iter(errors.values()))
            warn_caller(f"{len(errors)} file(s) could not be drawn; the first: {first}", UserWarning)

    @contextmanager
    def _noting(self, errors: dict[str, str], name: str) -> Iterator[None]:
        try:
            with one_file(self.folder / name):
                yield
        except FileNotFoundError:  # media that were moved: the run says so
            pass
        except (OSError, InputError) as error:
            errors.setdefault(name, in_words(error))


def show_rows(
    media: MediaFiles,
    rows: Sequence[Row],
    sounds: Sounds,
    step: Step,
    names: Iterable[str] = (),
    draw: Callable[[str, Any], None] = lambda name, file: None,
) -> dict[Key, _Shown]:
    """What is seen and heard of rows of annotations (bag, instance, file and the places of the media type).

    Rows of files that could not be looked into are left out. Each file is opened once, those of `names` too, and given
    to `draw`.
    """
    media_type = media.media_type
    by_file: dict[str, dict[Key, Row]] = defaultdict(dict)
    for row in rows if media_type.close_ups is not None else ():
        by_file[row["file"]][_key_of(row)] = row
    pictures: dict[Key, CloseUp] = {}
    clips: dict[Key, bytes] = {}

    def look(name: str, file: Any) -> None:
        own = by_file.get(name)
        if not own or media_type.close_ups is None:
            return
        pictures.update(zip(own, media_type.close_ups(file, list(own.values()), media.settings), strict=True))
        if media_type.cut_sound is not None and media_type.close_up_span is not None:
            for key, row in own.items():
                span = media_type.close_up_span(row, media.seconds[name])
                clips[key] = media_type.cut_sound(file, *span, media.settings)

    media.visit([*by_file, *names], [look, draw], step)
    return {
        key: _Shown(pictures[key], sounds.add(clips[key]) if key in clips else "")
        for key in dict.fromkeys(map(_key_of, rows))
        if key in pictures
    }


def _profiles(annotations: Annotations, rows: Sequence[Row], features: _Features) -> dict[Key, _Shown]:
    """The features of each row and those of its label, where a media type has nothing to see."""
    by_label: dict[str, list[Row]] = defaultdict(list)
    for row in annotations.shown():
        by_label[row["label"]].append(row)
    wanted = {row["label"] for row in rows}
    mean = {label: features.of(by_label[label][:CANDIDATES]).mean(axis=0) for label in wanted}
    return {_key_of(row): _Shown(_draw_features(features.of([row])[0], mean[row["label"]])) for row in rows}


def write_with_sounds(text: str, page: Path, sounds: Sounds) -> list[Path]:
    """Write a page and its sounds; gives their paths."""
    paths = [page]
    for name, content in sounds.files.items():
        paths.append(open_folder(page.parent, f"{sounds.folder}/{name}"))
        with atomic_write(paths[-1]) as file:
            file.write(content)
    with atomic_write(page, "w") as file:
        file.write(text)
    return paths


# ---------------------------------------------------------------------------------------------------------------------
# Which instances are shown


def _choose_gallery(
    rows: Sequence[Row], classes: Sequence[str], features: _Features | None = None
) -> list[dict[str, Any]]:
    """For each label that any row carries its name, number, most typical rows and least certain rows.

    Typical is what `_choose_typical` says; the most probable ones, where the features are not known. Of equally
    probable ones those of different files come first. Where the labels are too many, each shows fewer, and the last
    ones none.
    """
    by_label: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        by_label[row["label"]].append(row)
    names = [name for name in classes if by_label[name]]
    n = min(MOST_OF_A_KIND, max(1, MOST // (2 * max(len(names), 1))))
    left, found = MOST, []
    for name in names:
        ranked = _ranked(by_label[name])
        sure = [row for row in ranked if row["probability"] is not None]
        most = min(n, left)
        typical = ranked[:most] if features is None or not most else _choose_typical(ranked, features, most)
        shown = {_key_of(row) for row in typical}
        uncertain = [row for row in reversed(sure) if _key_of(row) not in shown][: min(n, left - len(typical))]
        left -= len(typical) + len(uncertain)
        found.append({"label": name, "instances": len(ranked), "typical": typical, "uncertain": uncertain})
    return found


def _ranked(rows: Iterable[Row]) -> list[Row]:
    """The surest first; of those that are as sure to the hundredth, the first of each file."""
    ordered = sorted(rows, key=lambda row: (-(row["probability"] or 0.0), str(row.get("file")), str(row["bag"])))
    seen: Counter[str] = Counter()
    keyed = []
    for i, row in enumerate(ordered):
        name = str(row.get("file"))
        keyed.append(((-round(row["probability"] or 0.0, 2), seen[name], i), row))
        seen[name] += 1
    return [row for _, row in sorted(keyed, key=lambda pair: pair[0])]


class _Features:
    """_Features of instances by bag and number, each less its mean and divided by its deviation.

    Sparse ones, such as counts of words, are weighted by their rarity instead, which does not fill them.
    """

    def __init__(self, dataset: BagDataset):
        X, self._centre, self._scale = dataset.bags.instances, np.zeros(1), np.ones(1)
        self._first = dict(zip(map(str, dataset.bag_names), dataset.bags.offsets[:-1].tolist(), strict=True))
        self._instances = TermScaler().fit_transform(X) if sp.issparse(X) else X
        if not sp.issparse(X):
            n = len(X)
            some = X[np.unique(np.linspace(0, n - 1, min(n, N_MOMENTS)).astype(int))].astype(np.float64)
            self._centre, deviation = some.mean(axis=0), some.std(axis=0)
            self._scale = np.where(deviation > 1e-9 * np.maximum(np.abs(self._centre), 1e-300), deviation, 1.0)

    def of(self, rows: Sequence[Row], compact: bool = False) -> np.ndarray:
        """(n, d) features of some rows; compact without those that none has, which change no distance between them."""
        found = self._instances[[self._first[str(row["bag"])] + row["instance"] for row in rows]]
        if not sp.issparse(found):
            return (found.astype(np.float64) - self._centre) / self._scale
        return (found[:, np.unique(found.indices)] if compact else found).toarray()


def _choose_typical(rows: Sequence[Row], features: _Features, n: int) -> list[Row]:
    """The rows of one label that stand for all of them, the most typical first.

    The first is the one that is nearest to all others; each further one lowers the distances of all to the nearest
    that is shown the most, so that a label with two songs shows both. Of the half that is surest of its label: the
    others may be of another.
    """
    sureness = np.array([1.0 if row["probability"] is None else row["probability"] for row in rows])
    sure = np.flatnonzero(sureness >= np.median(sureness))
    sure = sure[np.unique(np.linspace(0, len(sure) - 1, min(len(sure), CANDIDATES)).astype(int))]
    return [rows[i] for i in sure[_choose_medoids(features.of([rows[i] for i in sure], compact=True), n)]]


def _choose_medoids(points: np.ndarray, n: int) -> np.ndarray:
    """Up to `n` points one after the other, each that which lowers the sum of distances to the nearest chosen most."""
    squares = np.einsum("ij,ij->i", points, points)
    distance = np.sqrt(np.maximum(squares[:, None] + squares - 2.0 * (points @ points.T), 0.0))
    np.fill_diagonal(distance, 0.0)
    chosen = [int(distance.sum(axis=0).argmin())]
    nearest = distance[:, chosen[0]]
    while len(chosen) < min(n, len(points)):
        gain = np.maximum(nearest[:, None] - distance, 0.0).sum(axis=0)
        gain[chosen] = -1.0
        chosen.append(int(gain.argmax()))
        nearest = np.minimum(nearest, distance[:, chosen[-1]])
    return np.array(chosen)


def _draw_features(features: np.ndarray, of_label: np.ndarray) -> CloseUp:
    """The features of an instance that nothing else can be shown of, as a line; below it that of its label's mean."""
    from PIL import Image, ImageDraw

    image = Image.new("L", (CLOSE_WIDTH, CLOSE_HEIGHT), PAPER)
    draw = ImageDraw.Draw(image)
    draw.line([(0, CLOSE_HEIGHT // 2), (CLOSE_WIDTH, CLOSE_HEIGHT // 2)], fill=FAINT, width=1)
    for values, grey, width in ((of_label, FAINT, 3), (features, INK, 1)):
        if len(values) > CLOSE_WIDTH:  # means of neighbours
            values = np.array([part.mean() for part in np.array_split(values, CLOSE_WIDTH)])
        x = np.linspace(2, CLOSE_WIDTH - 3, len(values)) if len(values) > 1 else np.array([CLOSE_WIDTH / 2])
        y = (1 - np.clip(values, -REACH, REACH) / REACH) / 2 * (CLOSE_HEIGHT - 5) + 2
        points = list(zip(x.tolist(), y.tolist(), strict=True))
        draw.line(points if len(points) > 1 else [(x[0] - 8, y[0]), (x[0] + 8, y[0])], fill=grey, width=width)
    return CloseUp(as_drawing(image), CLOSE_WIDTH, CLOSE_HEIGHT)
