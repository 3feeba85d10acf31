"""Changes of bytes, of what lies inside of containers, and of values of JSON."""

from __future__ import annotations

import copy
import io
import json
import random
import warnings
import zipfile
from typing import Any

import numpy as np

INTERESTING = [
    0, 1, 2, 3, 4, 7, 8, 14, 15, 16, 63, 64, 127, 128, 255, 1 << 15, 1 << 16, (1 << 31) - 1, 1 << 31, (1 << 32) - 1,
]  # fmt: skip
TOKENS = {
    "text": [
        b",", b";", b"\t", b"\n", b"\r\n", b'"', b"'", b"\\", b"\0", b"nan", b"inf", b"-", b"1e999", b"1,5", b"1_0",
        b"\xef\xbb\xbf", b"\xff\xfe", b"=1+1", b"bag", b"labels", b"label:x", b"\xc3\xa4", b"\xe2\x80\xa8", b" ",
        b"0", b"1", b"9" * 400, b"bag_name", b"instance_label", b"labelled", b"location", b"{}", b"file,label\n",
    ],
    "arff": [
        b"@data\n", b"@attribute a relational\n", b"@end a\n", b"@attribute x numeric\n", b"{0,1}", b"%", b"\\n",
        b"'", b'"', b",", b"@relation r\n", b"?", b"\n",
    ],
    "xml": [
        b"<label name='x'/>", b"<!DOCTYPE a [<!ENTITY b 'c'>]>", b"&b;", b"&#0;", b"<![CDATA[", b"]]>",
        b"<?xml version='1.1'?>", b"encoding='utf-7'", b"</labels>", b"<labels>", b"name=''",
    ],
    "json": [
        b"{", b"}", b"[", b"]", b":", b",", b'"', b"null", b"true", b"-1", b"1e999", b"NaN", b"9" * 400, b'"\\ud800"',
        b'"\\u0000"', b"[" * 2000, b'{"a":' * 500, b'""', b"0.5",
    ],
    "binary": [
        b"\0" * 8, b"\xff" * 8, b"\x0e\0\0\0", b"\x0f\0\0\0", b"PAR1", b"PK\x03\x04", b"PK\x01\x02", b"\x93NUMPY\x01\0",
    ],
}  # fmt: skip
PATHS = ["..", "../outside", "../../../outside", "/outside", "a/../../outside", "", ".", "\0", "x" * 300, "CON", "a\\b"]
JUNK: list[Any] = [
    None, True, False, 0, 1, -1, 2, 7, 10**18, 2**64, 10**30, -0.5, 0.5, 1e300, 1e-320, "", "a", "9" * 5000, "nan",
    [], [[]], [1], ["a", "b"], {}, {"a": 1}, {"": None}, *PATHS,
]  # fmt: skip
DTYPES = ("<f8", "<f4", ">f8", "<i8", "<i4", "|u1", "|b1", "<U3", "<c16", "<M8[s]")
VALUES = (0.0, -1.0, 1.0, 0.5, 1e9, 1e300, -1e300, 1e-300, np.nan, np.inf)
LARGEST = 1 << 20


def mutate(raw: bytes, other: bytes, tokens: list[bytes], rng: random.Random) -> bytes:
    """One to eight changes of a file."""
    data = bytearray(raw)
    for _ in range(rng.choice((1, 1, 1, 2, 3, 8))):
        at = rng.randrange(len(data) + 1)
        kind = rng.randrange(10)
        if kind == 0 and data:
            data[at % len(data)] ^= 1 << rng.randrange(8)
        elif kind == 1 and data:
            data[at % len(data)] = rng.randrange(256)
        elif kind == 2:
            del data[at:]
        elif kind == 3:
            del data[at : at + rng.choice((1, 2, 4, 16, 100))]
        elif kind == 4:
            data[at:at] = rng.choice(tokens)
        elif kind == 5:
            token = rng.choice(tokens)
            data[at : at + len(token)] = token
        elif kind == 6:
            size = rng.choice((1, 2, 4, 8))
            number = rng.choice(INTERESTING) & ((1 << 8 * size) - 1)
            data[at : at + size] = number.to_bytes(size, rng.choice(("little", "big")))
        elif kind == 7:
            start = rng.randrange(len(data) + 1)
            data[at:at] = data[start : start + rng.choice((1, 8, 64, 500))]
        elif kind == 8:
            start = rng.randrange(len(other) + 1)
            data[at:] = other[start:]
        else:
            data[at:at] = bytes(rng.randrange(256) for _ in range(rng.randrange(1, 20)))
    return bytes(data[:LARGEST])


# ---------------------------------------------------------------------------------------------------------------------
# JSON


def change_json(raw: bytes, rng: random.Random) -> bytes:
    """One to three values of a JSON file, or of lines of JSON, are others."""
    try:
        json.loads(raw)
        lines = [raw]
    except ValueError:  # each line is a document of its own
        lines = raw.splitlines()
    chosen = rng.randrange(len(lines))
    document = [json.loads(lines[chosen])]  # in a list, so that the whole can be another thing too
    for _ in range(rng.choice((1, 1, 2, 3))):
        change_node(document, rng, JUNK)
    lines[chosen] = json.dumps(document[0] if document else None).encode()
    return b"\n".join(lines)


def change_node(document: Any, rng: random.Random, junk: list[Any]) -> None:
    """Remove, rename, copy, swap or replace one value of the JSON, at any depth."""
    places: list[tuple[Any, Any]] = []

    def walk(node: Any) -> None:
        for key in list(node) if isinstance(node, dict) else range(len(node)):
            places.append((node, key))
            if isinstance(node[key], (dict, list)):
                walk(node[key])

    walk(document)
    if not places:
        return
    parent, key = rng.choice(places)
    other, other_key = rng.choice(places)
    kind = rng.randrange(6)
    if kind == 0:
        del parent[key]
    elif kind == 1 and isinstance(parent, dict):
        parent[str(rng.choice([f"{key}_", "x_", "coef_", "classes_", "_x", "n_jobs", other_key]))] = parent.pop(key)
    elif kind == 2:
        parent[key] = copy.deepcopy(other[other_key])
    elif kind == 3 and isinstance(parent[key], (int, float)) and not isinstance(parent[key], bool):
        parent[key] = rng.choice([parent[key] + 1, -parent[key], parent[key] * 2, 0, 1e300, parent[key] + 0.5])
    elif kind == 4 and isinstance(parent[key], list):
        parent[key] = parent[key][::-1] if rng.random() < 0.5 else parent[key] * 2
    else:
        parent[key] = copy.deepcopy(rng.choice(junk))


# ---------------------------------------------------------------------------------------------------------------------
# Containers


def rezip(raw: bytes, rng: random.Random) -> bytes:
    """A member of a zip is changed, so that its checksum is right again."""
    with zipfile.ZipFile(io.BytesIO(raw)) as archive:
        members = {info: archive.read(info) for info in archive.infolist()}
    chosen = rng.choice(list(members))
    tokens = TOKENS["binary"] + [
        b"'shape': (9999999999,)", b"'descr': '|O'", b"-1", b"1e999", b"null", b"[]", b"{}", b'"',
    ]  # fmt: skip
    if chosen.filename.endswith((".xml", ".rels")):
        tokens = TOKENS["xml"]
    members[chosen] = mutate(members[chosen], members[rng.choice(list(members))], tokens, rng)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for info, content in members.items():
            archive.writestr(info.filename, content, info.compress_type)
    return buffer.getvalue()


def change_archive(raw: bytes, rng: random.Random, junk: list[Any] = JUNK) -> bytes:
    """One to three changes of the JSON and the arrays of one of our archives."""
    with zipfile.ZipFile(io.BytesIO(raw)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    name_of_json = next(name for name in members if name.endswith(".json"))
    document = json.loads(members.pop(name_of_json))
    arrays = {name: np.load(io.BytesIO(content)) for name, content in members.items()}
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        if arrays and rng.random() < 0.5:
            name = rng.choice(list(arrays))
            arrays[name] = _other_array(arrays[name], arrays[rng.choice(list(arrays))], rng)
        else:
            change_node(document, rng, junk)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(name_of_json, json.dumps(document))
        for name, array in arrays.items():
            stream = io.BytesIO()
            np.save(stream, array)
            archive.writestr(name, stream.getvalue())
    return buffer.getvalue()


def _other_array(array: np.ndarray, other: np.ndarray, rng: random.Random) -> np.ndarray:
    kind = rng.randrange(9)
    if kind == 0:
        return other
    if kind == 1 and array.ndim:
        axis = rng.randrange(array.ndim)
        return np.take(array, range(array.shape[axis] - 1), axis=axis)
    if kind == 2 and array.ndim:
        axis = rng.randrange(array.ndim)
        return np.concatenate([array, array], axis=axis)
    if kind == 3:
        return array.reshape(rng.choice([(-1,), (1, -1), (-1, 1), (*array.shape, 1), (1, *array.shape)]))
    if kind == 4:
        return np.ascontiguousarray(array.T)
    if kind == 5:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                return array.astype(rng.choice(DTYPES))
            except (ValueError, TypeError):
                return array
    if kind == 6:
        return array[:0] if array.ndim else array
    changed = array.copy()
    if changed.size and changed.dtype.kind in "iuf":
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            changed.reshape(-1)[rng.randrange(changed.size)] = np.array(rng.choice(VALUES)).astype(changed.dtype)
            if kind == 8:
                changed = np.full_like(changed, np.array(rng.choice(VALUES)).astype(changed.dtype))
    elif changed.size and changed.dtype.kind == "U":
        changed.reshape(-1)[0] = rng.choice(["", "a", "\0", "wren"])
    return changed


def remat(raw: bytes, rng: random.Random) -> bytes:
    """A MATLAB file without compression, so that changes reach its structure."""
    from scipy.io import loadmat, savemat

    buffer = io.BytesIO()
    content = {key: value for key, value in loadmat(io.BytesIO(raw)).items() if not key.startswith("__")}
    savemat(buffer, content, do_compression=False)
    return mutate(buffer.getvalue(), raw, TOKENS["binary"], rng)


def reparquet(raw: bytes, rng: random.Random) -> bytes:
    """A parquet file without compression and dictionaries, or with other columns, before it is changed."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pq.read_table(io.BytesIO(raw))
    kind = rng.randrange(4)
    if kind == 0:
        names = table.column_names
        names[rng.randrange(len(names))] = rng.choice(
            ["bag", "labels", "labelled", "x", "label:x", "instances", "instance_label", "location", *names]
        )
        table = table.rename_columns(names)
    elif kind == 1:
        column = rng.randrange(table.num_columns)
        value = rng.choice(
            [None, b"\xff\xfe", [], {"a": 1}, True, float("nan"), "x", 10**18, -1, 0.5, [[1.0]], [float("inf")]]
        )
        strange = pa.array([value] * table.num_rows)
        table = table.set_column(column, table.column_names[column], strange)
    elif kind == 2:
        about = mutate(
            b'{"version": 1, "class_names": ["wren", "gr"], "feature_names": ["x"]}', b"{}", [b"[", b"1", b"null"], rng
        )
        table = table.replace_schema_metadata({b"bagwise": about})
    buffer = io.BytesIO()
    pq.write_table(table, buffer, compression="none", use_dictionary=False)
    if kind < 3 and rng.random() < 0.5:
        return buffer.getvalue()
    return mutate(buffer.getvalue(), raw, TOKENS["binary"], rng)
