"""Annotations that somebody edited in another tool: every format that `bagwise correct --from` reads."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

from bagwise.app.formats import Annotations, compare_marks, read_marks, write_formats
from bagwise.app.media._image_regions import find_shapes
from bagwise.app.media.media_types import MEDIA
from bagwise.app.media.rle import compress_counts
from bagwise.core.exceptions import FormatError
from benchmarks.fuzz.kinds import Kind, Ready
from benchmarks.fuzz.mutate import TOKENS, change_json, reparquet

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))
from media_examples import MAKERS

Change = Callable[[bytes, random.Random], bytes]
TABLE_TOKENS = [
    *TOKENS["text"], b"Begin Time (s)", b"End Time (s)", b"Low Freq (Hz)", b"High Freq (Hz)", b"Annotation",
    b"Begin File", b"File Offset (s)", b"\\\t", b"Confidence", b"common_name", b"a.wav", b"-1", b"1e300", b"1e-300",
]  # fmt: skip
JSON_TOKENS = [
    *TOKENS["json"], b'"image_id"', b'"bbox"', b'"annotations"', b'"counts"', b'"size"', b'"value"', b'"result"',
    b'"was_cancelled"', b'"predictions"', b'"spans"', b'"windows"',
]  # fmt: skip
ENDINGS: dict[str, tuple[str, list[bytes], Change | None]] = {
    "csv": (".csv", TABLE_TOKENS, None),
    "parquet": (".parquet", TOKENS["binary"], reparquet),
    "raven": (".selections.txt", TABLE_TOKENS, None),
    "audacity": (".txt", TABLE_TOKENS, None),
    "birdnet": (".csv", TABLE_TOKENS, None),
    "intervals": (".csv", TABLE_TOKENS, None),
    "coco": (".json", JSON_TOKENS, change_json),
    "label-studio": (".json", JSON_TOKENS, change_json),
    "spans": (".jsonl", JSON_TOKENS, change_json),
}


def edited(media_type: str, name: str, folder: Path) -> Ready:
    """Annotations of a medium as they were written; read back, compared and turned into corrections."""
    scene: Annotations = MAKERS[media_type](folder)
    paths = write_formats(scene, folder / "out", [name])

    def read(path: Path) -> None:
        compare_marks(scene, read_marks(path, scene, name))

    return Ready([path.read_bytes() for path in paths if path.suffix != ".xml"], read)


def of_any_format(folder: Path) -> Ready:
    """Annotations of recordings whose format is to be found out."""
    scene: Annotations = MAKERS["audio"](folder)
    paths = write_formats(scene, folder / "out", MEDIA["audio"].formats)

    def read(path: Path) -> None:
        compare_marks(scene, read_marks(path, scene))

    return Ready([path.read_bytes() for path in paths if path.suffix != ".xml"], read)


def shapes(folder: Path) -> Ready:
    """Regions of a picture in a COCO file, by polygons and by run lengths, plain and compressed."""
    one = b'{"images":[{"id":1,"file_name":"a.png","width":6,"height":4}],"annotations":[%s]}'
    polygon = b'{"image_id":1,"segmentation":[[1,1,4,1,4,3,1,3]]}'
    plain = b'{"image_id":1,"segmentation":{"size":[4,6],"counts":[5,2,2,2,13]}}'
    counts = compress_counts([5, 2, 2, 2, 13]).encode()
    short = b'{"image_id":1,"segmentation":{"size":[4,6],"counts":"%s"}}' % counts

    def read(path: Path) -> None:
        for shape in find_shapes("a.png", "a.png", str(path)):
            try:
                shape.mask((4, 6), 4, 6)
            except ValueError as error:  # as `bagwise.app.media.image` does
                raise FormatError(f"{path}: {error}") from error

    return Ready([one % polygon, one % plain, one % b",".join([polygon, plain, short])], read)


def _kind(media_type: str, name: str) -> Kind:
    ending, tokens, deep = ENDINGS[name]
    return Kind(f"marks-{media_type}-{name}", partial(edited, media_type, name), (ending,), tokens, deep)


OWN = [
    (media_type, name) for media_type in MAKERS for name in MEDIA[media_type].formats if name not in ("csv", "parquet")
]
KINDS = [
    *(_kind(media_type, name) for media_type, name in [("audio", "csv"), ("audio", "parquet"), *OWN]),
    *(_kind("table", name) for name in MEDIA["table"].formats),
    Kind("marks-any", of_any_format, (".csv", ".txt", ".json", ".parquet"), TABLE_TOKENS + JSON_TOKENS),
    Kind("shapes", shapes, (".json",), JSON_TOKENS, change_json),
]
