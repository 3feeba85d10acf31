"""Files of bags, tables of labels and sites, and what recorders note."""

from __future__ import annotations

import io
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from bagwise.app.formats.names import read_names
from bagwise.app.labels.sites import read_sites
from bagwise.app.media.audio_file import _content, _riff_chunks
from bagwise.app.media.files import NOTES, noted_time
from bagwise.core.bags import Bags
from bagwise.core.dataset import BagDataset
from bagwise.core.exceptions import BagwiseError
from bagwise.io.data._arff import read_label_names
from bagwise.io.data.formats import FORMATS, read_dataset
from bagwise.io.data.vectors import read_vector_file
from bagwise.io.labels import read_labels
from benchmarks.fuzz.kinds import Kind, Ready
from benchmarks.fuzz.mutate import TOKENS, remat, reparquet, rezip


def _noted(path: Path) -> None:
    with path.open("rb") as file:
        chunks = _riff_chunks(file, path.stat().st_size)
        noted_time({name: _content(file, chunks[name]) for name in NOTES if name in chunks})


def make_datasets() -> list[BagDataset]:
    """Small data sets of all kinds."""
    rng = np.random.default_rng(0)
    out = []
    for precision, c, named in ((np.float64, 2, True), (np.float32, 1, False), (np.float64, 1, True)):
        offsets, labelled = np.array([0, 2, 3, 6, 7]), np.array([True, True, not named, True])
        bags = Bags(rng.normal(size=(7, 3)).astype(precision), offsets)
        out.append(
            BagDataset(
                bags=bags, Y=rng.integers(0, 2, (4, c)) * labelled[:, None], class_names=["wren", "grün"][:c],
                labelled=labelled,
                instance_labels=Bags(rng.integers(-1, c, 7), offsets) if named else None,
                bag_names=["a", "b", "ü", "d"] if named else None, feature_names=["x", "y", "größe"] if named else None,
                locations={"file": ["a.wav"] * 7, "start": np.arange(7) / 2} if named else None,
            )
        )  # fmt: skip
    return out


def of_format(name: str, folder: Path) -> Ready:
    """Data sets in a format of files of bags."""
    seeds = []
    for i, dataset in enumerate(make_datasets()):
        path = folder / f"seed{i}{FORMATS[name].extension}"
        try:
            FORMATS[name].write(dataset, path)
        except BagwiseError:  # not every format keeps everything
            continue
        seeds.append(path.read_bytes())
    return Ready(seeds, FORMATS[name].read)


def parquet_parts(folder: Path) -> Ready:
    """Parquet files as prediction reads them."""
    return Ready(of_format("parquet", folder).seeds + of_format("parquet-nested", folder).seeds, read_parts)


def of_any_format(folder: Path) -> Ready:
    """Files whose format is to be found out."""
    return Ready([seed for name in FORMATS for seed in of_format(name, folder).seeds] + LABELS, read_dataset)


def given(read: Callable[[Path], Any], make_seeds: Callable[[], list[bytes]]) -> Callable[[Path], Ready]:
    """Examples that need no folder."""
    return lambda folder: Ready(make_seeds(), read)


def label_tables() -> list[bytes]:
    """Tables of labels as parquet, in all forms."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    out = []
    for columns in (
        {"file": ["a", "a", "b"], "label": ["x", "y", None]},
        {"file": ["a", "b"], "labels": [["x", "grün"], []]},
        {"file": ["a", "b"], "x": [1, 0], "y": [True, False]},
    ):
        buffer = io.BytesIO()
        pq.write_table(pa.table(columns), buffer)
        out.append(buffer.getvalue())
    return out


def label_sheets() -> list[bytes]:
    """Tables of labels as spreadsheets, in all forms; one with merged cells and a formula."""
    import openpyxl

    out = []
    for rows in (
        [["file", "label"], ["a", "x"], [None, "grün"], ["b", "=1+1"]],
        [["file", "labels"], ["a", "x;y"], ["b", None]],
        [["file", "x", "y"], ["a", 1, 0], ["b", True, False]],
    ):
        book = openpyxl.Workbook()
        for row in rows:
            book.active.append(row)
        if rows[2][0] is None:
            book.active.merge_cells("A2:A3")
        buffer = io.BytesIO()
        book.save(buffer)
        out.append(buffer.getvalue())
    return out


def wav_notes() -> list[bytes]:
    """WAV files of no sound with what recorders note in them."""
    guano = b"GUANO|Version: 1.0\nTimestamp: 2024-05-01T05:30:00.25+02:00\n"
    comment = b"INFOICMT\x40\0\0\0Recorded at 05:30:00 01/05/2024 (UTC+2) by AudioMoth at medium gain\0"
    notes = {b"guan": guano, b"LIST": comment, b"bext": bytes(320) + b"2024-05-0105:30:00" + bytes(264)}
    chunks = [
        name + len(content).to_bytes(4, "little") + content + bytes(len(content) % 2) for name, content in notes.items()
    ]
    return [b"RIFF\0\0\0\0WAVEdata\2\0\0\0\0\0" + chunk for chunk in [*chunks, b"".join(chunks)]]


def read_parts(path: Path) -> list[BagDataset]:
    """A parquet file as prediction reads it."""
    from bagwise.io.data.parquet import ParquetBags

    return list(ParquetBags(path).iter_bags())


def species_lists() -> list[bytes]:
    """Tables of names of species, with a heading and as lists of BirdNET."""
    return [
        b"scientific name,common name,label\nTurdus merula,Blackbird,tm\n",
        "Latin;Code\nTroglodytes troglodytes;Zaunkönig\n".encode(),
        b"Turdus merula_Eurasian Blackbird\nParus major_Great Tit\n",
    ]


def vector_tables(ending: str) -> list[bytes]:
    """Vectors of windows of recordings."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns = {"file": ["a.wav", "a.wav", "b.wav"], "start": [0.0, 3.0, 0.0], "end": [3.0, 6.0, 3.0]}
    vectors = np.arange(12.0).reshape(3, 4)
    buffer = io.BytesIO()
    if ending == ".npz":
        np.savez(buffer, path=columns["file"], start=columns["start"], end=columns["end"], vector=vectors)
        return [buffer.getvalue()]
    wide = io.BytesIO()
    pq.write_table(pa.table({**columns, "vector": vectors.tolist()}), buffer)
    pq.write_table(pa.table({**columns, **{str(j): vectors[:, j] for j in range(4)}}), wide)
    return [buffer.getvalue(), wide.getvalue()]


LABELS = [b"file,label\na,x\na,y\nb,x\n", b'file;labels\na;"x;y"\nb;x\n', b"file\tx\ty\na\t1\t0\nb\t0\t1\n"]
LABEL_NAMES = [
    b'<?xml version="1.0" encoding="utf-8"?>\n<labels xmlns="u">\n<label name="a"/>\n<label name="b"/></labels>'
]
SITES = [
    b"site,latitude,longitude,time_zone\npond,52.1,11.5,Europe/Berlin\nhill,-33,151,\n",
    b"latitude;site;longitude\n1;a;2\n",
]
DEEP = {"npz": rezip, "lamda-mat": remat, "mil-mat": remat, "parquet": reparquet, "parquet-nested": reparquet}
TEXT = {"csv": "text", "miml-csv": "text", "musk": "text", "arff": "arff"}
ANY = (".csv", ".npz", ".mat", ".parquet", ".arff", ".data", "")
KINDS = [
    *(
        Kind(name, partial(of_format, name), (it.extension,), TOKENS[TEXT.get(name, "binary")], DEEP.get(name))
        for name, it in FORMATS.items()
    ),
    Kind("parquet-parts", parquet_parts, (".parquet",), TOKENS["binary"], reparquet),
    Kind("any", of_any_format, ANY, TOKENS["text"] + TOKENS["binary"]),
    Kind("labels", given(read_labels, lambda: LABELS), (".csv",), TOKENS["text"]),
    Kind("labels-parquet", given(read_labels, label_tables), (".parquet",), TOKENS["binary"], reparquet),
    Kind("labels-xlsx", given(read_labels, label_sheets), (".xlsx",), TOKENS["xml"], rezip),
    Kind("xml", given(read_label_names, lambda: LABEL_NAMES), (".xml",), TOKENS["xml"]),
    Kind(
        "sites", given(read_sites, lambda: SITES), (".csv",),
        [*TOKENS["text"], b"latitude", b"91", b"../..", b"UTC"],
    ),
    Kind("species", given(read_names, species_lists), (".csv",), [*TOKENS["text"], b"_", b"common name"]),
    Kind(
        "vectors-parquet", given(read_vector_file, partial(vector_tables, ".parquet")), (".parquet",),
        TOKENS["binary"], reparquet,
    ),
    Kind("vectors-npz", given(read_vector_file, partial(vector_tables, ".npz")), (".npz",), TOKENS["binary"], rezip),
    Kind(
        "wav-notes", given(_noted, wav_notes), (".wav",),
        [*TOKENS["binary"], b"guan", b"LIST", b"bext", b"data"],
    ),
]  # fmt: skip
