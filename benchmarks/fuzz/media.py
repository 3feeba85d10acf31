"""Media files as `bagwise annotate` reads them: sounds, pictures and masks, texts, series of measurements."""

from __future__ import annotations

import io
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from bagwise.app.media.image_file import read_mask
from bagwise.app.media.media_types import MEDIA
from benchmarks.fuzz.kinds import Kind, Ready
from benchmarks.fuzz.mutate import TOKENS, reparquet, rezip

RATE = 8000
SOUNDS = {"wav": "PCM_16", "flac": "PCM_16", "ogg": "VORBIS", "mp3": None, "aiff": None, "au": None, "caf": None,
          "w64": None, "rf64": None}  # fmt: skip
PICTURES = {
    "png": "RGBA", "jpeg": "RGB", "gif": "P", "tiff": "I;16", "bmp": "RGB", "webp": "RGB", "avif": "RGB",
}  # fmt: skip
PAGE = b"""<!DOCTYPE html><html><head><meta charset="utf-8"><title>T&amp;itle</title><style>p {color: red}</style>
</head><body><h1>Head<b>ing</b></h1>
<p>The cow&nbsp;<em>jumped</em> &lt;over&gt;<br>the moon<p>again<script>no()</script>
<ul><li>six<li>seven</ul><table><tr><td>one<td>two</table><!-- no --><![CDATA[x]]></body></html>"""
RST = b"""=====\nTitle\n=====\n\n.. _target: x\n\n.. note::\n   :class: x\n\n   The ``cow`` jumped :term:`over <x>` the
`moon <https://example.org>`__ again.\n\n+---+---+\n| a | b |\n+---+---+\n"""
CSV = [
    b"time,x,y\n0.0,1,2\n0.1,2,3\n0.2,3,4\n0.3,4,5\n0.4,5,6\n0.5,6,7\n0.6,7,8\n0.7,8,9\n",
    b"timestamp;a\n2024-03-01T10:00:00+01:00;1,5\n2024-03-01T10:00:01+01:00;2,5\n2024-03-01T10:00:02+01:00;\n"
    b"2024-03-01T10:00:03+01:00;3,5\n2024-03-01T10:00:04+01:00;3,5\n",
    b"Date\tTime\tv\n2024-03-01\t10:00\t1\n2024-03-01\t10:01\t2\n2024-03-01\t10:02\t3\n2024-03-01\t10:03\t4\n",
    b"epoch_ms,v\n1700000000000,1\n1700000000100,2\n1700000000200,3\n1700000000300,4\n",
]


def of_medium(media_type: str, seeds: list[bytes], settings: dict[str, Any]) -> Ready:
    """Files of a medium: instances, features, and when it was recorded."""
    kind = MEDIA[media_type]
    values = kind.make_settings(settings)

    def read(path: Path) -> None:
        assert kind.read is not None
        found = kind.read_file(path, path.name, values)
        kind.features([found], kind.feature_names([found], values) if sum(found.sizes) and media_type != "text" else [])

    return Ready(seeds, read)


def sounds(ending: str, folder: Path) -> Ready:
    """A quarter of a second of a tone in noise."""
    import soundfile

    t = np.arange(RATE // 4) / RATE
    samples = 0.3 * np.sin(2 * np.pi * 1500 * t) * (t > 0.1) + 0.01 * np.random.default_rng(0).normal(size=len(t))
    buffer = io.BytesIO()
    soundfile.write(buffer, samples, RATE, format=ending.upper(), subtype=SOUNDS[ending])
    seeds = [buffer.getvalue()]
    if ending == "wav":
        wide = io.BytesIO()
        soundfile.write(wide, np.stack([samples, samples], axis=1), 16000, format="WAVEX", subtype="FLOAT")
        seeds.append(wide.getvalue())
    return of_medium("audio", seeds, {})


def pictures(ending: str, folder: Path) -> Ready:
    """Small pictures of two regions."""
    from PIL import Image

    colours = np.zeros((24, 32, 3), dtype=np.uint8)
    colours[:, 12:], colours[4:18, 4:10, 1] = (20, 180, 40), 200
    image = Image.fromarray(colours)
    if PICTURES[ending] == "I;16":
        image = Image.fromarray(colours[..., 1].astype(np.uint16) * 16)
    else:
        image = image.convert(PICTURES[ending])
    options: dict[str, Any] = {"compression": "tiff_lzw"} if ending == "tiff" else {}
    seeds = []
    for more in ({}, options):
        buffer = io.BytesIO()
        exif = Image.Exif()
        exif[0x0112] = 6  # turned by a quarter
        image.save(buffer, ending, **more, **({"exif": exif} if ending in ("jpeg", "png", "webp") else {}))
        seeds.append(buffer.getvalue())
    return of_medium("image", seeds, {"min_area": 4})


def masks(folder: Path) -> Ready:
    """Masks of pictures, with a palette and in grey."""
    from PIL import Image

    regions = np.zeros((12, 16), dtype=np.uint8)
    regions[2:9, 3:9] = 2
    seeds = []
    for mode in ("L", "P", "1", "RGB"):
        buffer = io.BytesIO()
        Image.fromarray(regions).convert(mode).save(buffer, "png")
        seeds.append(buffer.getvalue())
    return Ready(seeds, read_mask)


def texts(ending: str, folder: Path) -> Ready:
    """Documents of a few words in one of the forms."""
    plain = "Ärger im Dorf. The cow jumped over the moon, again and again.\n"
    seeds = {
        "txt": [plain.encode(), plain.encode("utf-16"), plain.encode("latin-1")], "html": [PAGE], "rst": [RST],
    }  # fmt: skip
    made = {"pdf": _pdf, "docx": _docx}
    return of_medium("text", seeds[ending] if ending in seeds else made[ending](), {"min_documents": 1})


def _pdf() -> list[bytes]:
    """A PDF made by hand: the least that a reader takes."""
    content = "BT /F1 12 Tf 72 720 Td (The cow jumped over the moon) Tj ET"
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>", "<< /Type /Pages /Kids [4 0 R] /Count 1 >>",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
        "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 5 0 R "
        "/Resources << /Font << /F1 3 0 R >> >> >>",
        f"<< /Length {len(content)} >>\nstream\n{content}\nendstream",
    ]  # fmt: skip
    text, places = "%PDF-1.4\n", []
    for i, body in enumerate(objects, 1):
        places.append(len(text))
        text += f"{i} 0 obj\n{body}\nendobj\n"
    table = "".join(f"{place:010d} 00000 n \n" for place in places)
    end = f"trailer << /Size {len(objects) + 1} /Root 1 0 R >>\nstartxref\n{len(text)}\n%%EOF\n"
    return [f"{text}xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{table}{end}".encode("latin-1")]


def _docx() -> list[bytes]:
    import docx

    document = docx.Document()
    document.add_paragraph("The cow jumped over the moon, again and again.")
    table = document.add_table(2, 2)
    table.cell(0, 0).merge(table.cell(0, 1)).text = "merged"
    table.cell(1, 1).text = "cell"
    buffer = io.BytesIO()
    document.save(buffer)
    return [buffer.getvalue()]


def series_tables(folder: Path) -> Ready:
    """Series as CSV, with times of several kinds."""
    return of_medium("series", CSV, {"window": 4, "step": 2, "fill": "linear"})


def series_parquet(folder: Path) -> Ready:
    """Series as parquet, with numbers and with moments."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    seeds = []
    times = np.datetime64("2024-03-01T10:00:00", "ms") + 100 * np.arange(8)
    for clock in (pa.array(times), pa.array(times, pa.timestamp("ms", "Europe/Berlin")), pa.array(np.arange(8) / 10)):
        buffer = io.BytesIO()
        pq.write_table(pa.table({"time": clock, "x": np.arange(8.0), "y": np.arange(8)}), buffer)
        seeds.append(buffer.getvalue())
    return of_medium("series", seeds, {"window": 4, "step": 2})


SOUND_TOKENS = [*TOKENS["binary"], b"RIFF", b"fmt ", b"data", b"OggS", b"fLaC", b"FORM", b"\x7f\xff\xff\xff", b"RF64"]
PICTURE_TOKENS = [*TOKENS["binary"], b"IHDR", b"IDAT", b"\xff\xd8", b"\xff\xda", b"Exif\0\0", b"II*\0", b"GIF89a"]
TEXT_TOKENS = {
    "txt": TOKENS["text"],
    "html": [*TOKENS["xml"], b"<p>", b"</p>", b"<script>", b"<![", b"<!--", b"-->", b"<table>", b"charset=", b"&#x"],
    "rst": [*TOKENS["text"], b"=" * 60, b"`" * 20, b".. ", b"::", b":a:`", b"<", b"|", b"_", b"\n\n", b"    "],
    "pdf": [*TOKENS["binary"], b" 0 R", b"<<", b">>", b"/Kids [2 0 R]", b"/Filter /FlateDecode", b"stream\n", b"-1"],
    "docx": TOKENS["binary"],
}
ENDS = [*TOKENS["text"], b"time", b"Date", b"2024-03-01T10:00:00Z", b"9" * 30, b"1e308", b"-1e308", b"timestamp_ns"]
KINDS = [
    *(
        Kind(f"sound-{ending}", partial(sounds, ending), (f".{ending}",), SOUND_TOKENS, names_file=False)
        for ending in SOUNDS
    ),
    *(Kind(f"picture-{ending}", partial(pictures, ending), (f".{ending}",), PICTURE_TOKENS) for ending in PICTURES),
    Kind("mask", masks, (".png",), PICTURE_TOKENS),
    *(
        Kind(f"text-{e}", partial(texts, e), (f".{e}",), tokens, rezip if e == "docx" else None)
        for e, tokens in TEXT_TOKENS.items()
    ),
    Kind("series-csv", series_tables, (".csv",), ENDS),
    Kind("series-parquet", series_parquet, (".parquet",), TOKENS["binary"], reparquet),
]
