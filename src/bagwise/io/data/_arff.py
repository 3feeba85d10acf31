"""Multi-instance ARFF (a relational attribute of instances in every row) with the XML file that names the labels.

scipy's reader takes no text attributes and no names beyond ASCII and tells no row, so the rows are read here; in the
tests both agree on what scipy reads.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from xml.etree.ElementTree import ParseError
from xml.sax.saxutils import quoteattr

import numpy as np

from bagwise.core.bags import Bags
from bagwise.core.columns import check_features
from bagwise.core.dataset import BagDataset
from bagwise.core.exceptions import FormatError, InputError
from bagwise.io.data._long import dense_features, feature_names_of, unique_names
from bagwise.io.files import PathLike, atomic_write, check_readable, read_text
from bagwise.io.tables import first_repeated

_NUMERIC = ("numeric", "real", "integer")
_PLAIN = re.compile(r"[\w.+-]+")
_ATTRIBUTE = re.compile(
    r"@attribute\s+('(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|[^\s{]+)\s*(.*)", re.IGNORECASE | re.DOTALL
)
_QUOTED = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"", re.DOTALL)
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t"}
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_LABEL_SPACE = "http://mulan.sourceforge.net/labels"


def read_arff(path: PathLike, *, xml: PathLike | None = None) -> tuple[BagDataset, str]:
    """Read a multi-instance ARFF file; also a sentence that says how it was understood.

    Parameters
    ----------
    path : str or path
        Rows of bag name, instances and labels of 0 and 1.
    xml : str, path or None
        The file that names the labels; by default the one next to `path` with the ending ``.xml``, if there is one.
        Without it all attributes after the instances are labels.
    """
    path = Path(path)
    lines = enumerate(read_text(path).text.split("\n"), start=1)
    attributes, features, relational, line = _read_header(lines, path)
    xml_path = path.with_suffix(".xml")
    labels_path = Path(xml) if xml is not None else xml_path if xml_path.is_file() else None
    position = {name: i for i, name in enumerate(attributes)}
    classes = attributes[relational + 1 :] if labels_path is None else read_label_names(labels_path)
    for label in classes:
        if label not in position:
            raise FormatError(f"{path}, row {line}: the label {label!r} of the XML file is no attribute; add it.")
    names, Y, places, blocks = list[str](), list[list[int]](), list[str](), list[np.ndarray]()
    for line, text in lines:
        if not text.strip() or text.lstrip().startswith("%"):
            continue
        place = f"{path}, row {line}"
        cells = _cells(text, place)
        if len(cells) != len(attributes):
            raise FormatError(
                f"{place}: there are {len(cells)} values but {len(attributes)} attributes; write one for each (a bag's "
                "instances in quotes)."
            )
        bits = {label: cells[position[label]] for label in classes}
        for label, cell in bits.items():
            if cell not in ("0", "1"):
                raise FormatError(f"{place}: the label {label!r} is {cell[:40]!r}; expected 0 or 1.")
        blocks.append(_instances(cells[relational], len(features), place))
        names.append(cells[0] if relational > 0 else str(len(names)))
        Y.append([int(cell) for cell in bits.values()])
        places.append(place)
    if not blocks:
        raise FormatError(f"{path}: no row follows @data; add a row for each bag.")
    bags = Bags.from_list(blocks)
    check_features(
        bags.instances, features, lambda row: places[int(np.searchsorted(bags.offsets, row, side="right")) - 1]
    )
    dataset = BagDataset(
        bags=bags,
        Y=np.array(Y, dtype=np.uint8) if classes else None,
        class_names=classes,
        bag_names=names,
        feature_names=features,
        name=path.stem,
    )
    source = "the attributes after the instances" if labels_path is None else str(labels_path)
    return dataset, f"a row per bag, {len(features)} features, {len(classes)} labels named by {source}"


def _read_header(lines: Iterator[tuple[int, str]], path: Path) -> tuple[list[str], list[str], int, int]:
    """Attributes of the rows, features of the instances, which attribute these are, and the line of @data."""
    attributes, features = list[str](), list[str]()
    relational, inside, place = -1, False, f"{path}, row 1"
    for line, raw in lines:
        text, place = raw.strip(), f"{path}, row {line}"
        word = text.split(None, 1)[0].casefold() if text else ""
        if not text or text.startswith("%") or word == "@relation":
            continue
        if word == "@attribute":
            match = _ATTRIBUTE.match(text)
            if match is None:
                raise FormatError(f"{place}: the attribute cannot be read; write @attribute NAME TYPE.")
            name, kind = _unquote(match[1]), match[2].strip()
            if inside:
                if kind.casefold() not in _NUMERIC:
                    raise FormatError(f"{place}: the feature {name!r} is {kind[:40]!r}; expected numeric.")
                features.append(name)
                continue
            if kind.casefold() == "relational":
                if relational >= 0:
                    raise FormatError(f"{place}: there are two relational attributes; expected one.")
                relational, inside = len(attributes), True
            attributes.append(name)
        elif word == "@end":
            inside = False
        elif word == "@data":
            if not features:
                raise FormatError(
                    f"{place}: no relational attribute with features was declared, so there are no bags; a "
                    "multi-instance file has one."
                )
            twice = [name for names in (attributes, features) if (name := first_repeated(names)) is not None]
            if twice:
                raise FormatError(f"{place}: two attributes are named {twice[0]!r}; rename one.")
            return attributes, features, relational, line
        else:
            raise FormatError(f"{place}: {text[:40]!r} is no ARFF; expected @attribute or @data.")
    raise FormatError(f"{place}: the file ends before @data; it is cut off or no ARFF file.")


def _cells(text: str, place: str) -> list[str]:
    """The values of one row."""
    cells, rest = list[str](), text.strip()
    while True:
        if rest[:1] in ("'", '"'):
            match = _QUOTED.match(rest)
            after = rest[match.end() :].lstrip() if match else "?"
            if match is None or after[:1] not in ("", ","):
                raise FormatError(f"{place}: value {len(cells) + 1} cannot be read; check its quotes.")
            cells.append(_unquote(match[0]))
            is_last, rest = not after, after[1:]
        else:
            cell, comma, rest = rest.partition(",")
            cells.append(cell.strip())
            is_last = not comma
        if is_last:
            return cells
        rest = rest.lstrip()


def _unquote(text: str) -> str:
    if len(text) < 2 or text[0] not in "'\"" or text[-1] != text[0]:
        return text
    return re.sub(r"\\(.)", lambda m: _ESCAPES.get(m[1], m[1]), text[1:-1], flags=re.DOTALL)


def _quote(text: str) -> str:
    if _PLAIN.fullmatch(text):
        return text
    for character, letter in (("\\", "\\"), ("'", "'"), ("\n", "n"), ("\r", "r"), ("\t", "t")):
        text = text.replace(character, f"\\{letter}")
    return f"'{text}'"


def _instances(text: str, width: int, place: str) -> np.ndarray:
    rows = []
    for i, line in enumerate(text.split("\n")):
        if not line.strip():
            continue
        cells = line.split(",")
        if len(cells) != width:
            raise FormatError(f"{place}, instance {i + 1}: there are {len(cells)} values but {width} features.")
        try:
            rows.append([float(cell) for cell in cells])
        except ValueError as error:
            raise FormatError(f"{place}, instance {i + 1}: {error}; expected numbers.") from error
    if not rows:
        raise FormatError(f"{place}: the bag holds no instances; remove the row.")
    return np.array(rows)


def read_label_names(path: PathLike) -> list[str]:
    """The names in the XML file of labels that goes with an ARFF file; entities and external files are refused."""
    from defusedxml.common import DefusedXmlException
    from defusedxml.ElementTree import fromstring

    path = check_readable(path)
    if path.stat().st_size > 1 << 26:
        raise FormatError(f"{path}: it is larger than 64 MiB, too large for a list of labels; check the file.")
    try:
        root = fromstring(path.read_bytes(), forbid_dtd=True)
    except ParseError as error:
        raise FormatError(f"{path}, row {error.position[0]}: it is no XML ({error}); correct it.") from error
    except DefusedXmlException as error:
        raise FormatError(
            f"{path}: it declares a document type or entities, which are not read; remove them."
        ) from error
    except (ValueError, LookupError, UnicodeError) as error:
        raise FormatError(f"{path}: it cannot be decoded ({error}); save it as UTF-8.") from error
    names = [element.get("name") for element in root.iter() if element.tag.rpartition("}")[2] == "label"]
    if not names or not all(names):
        raise FormatError(f'{path}: it names no labels; expected <label name="..."/> for each.')
    if len(set(names)) < len(names):
        raise FormatError(f"{path}: a label is named twice; remove one.")
    return [str(name) for name in names]


def write_arff(dataset: BagDataset, path: PathLike) -> None:
    """Write a multi-instance ARFF file, and next to it the XML file that names the labels (where there are any)."""
    path = Path(path)
    names = unique_names(dataset)
    classes = [str(name) for name in dataset.class_names] if dataset.Y is not None else []
    features = feature_names_of(dataset)
    taken = {"id", "bag"}
    clash = [name for name in classes if name in taken or not name]
    if clash:
        raise InputError(f"A class is named {clash[0]!r}, which an ARFF file keeps for another attribute; rename it.")
    bad = [name for name in classes if _NOT_XML.search(name)]
    if bad:
        raise InputError(
            f"The class name {bad[0]!r} holds a character that XML cannot; rename it, or use csv or parquet."
        )
    if classes:
        _write_label_names(classes, path.with_suffix(".xml"))
    with atomic_write(path, "w") as file:
        file.write(f"@relation {_quote(dataset.name or 'bags')}\n\n@attribute id {{{','.join(map(_quote, names))}}}\n")
        file.write("@attribute bag relational\n")
        file.writelines(f"  @attribute {_quote(name)} numeric\n" for name in features)
        file.write("@end bag\n")
        file.writelines(f"@attribute {_quote(name)} {{0,1}}\n" for name in classes)
        file.write("\n@data\n")
        X, offsets = dense_features(dataset), dataset.bags.offsets
        for b, name in enumerate(names):
            block = X[offsets[b] : offsets[b + 1]].astype(np.float64).tolist()
            text = "\\n".join(",".join(map(repr, row)) for row in block)
            bits = "".join(f",{bit}" for bit in (dataset.Y[b].tolist() if dataset.Y is not None else []))
            file.write(f'{_quote(name)},"{text}"{bits}\n')


def _write_label_names(names: list[str], path: Path) -> None:
    with atomic_write(path, "w") as file:
        file.write(f'<?xml version="1.0" encoding="utf-8"?>\n<labels xmlns="{_LABEL_SPACE}">\n')
        file.writelines(f"<label name={quoteattr(name)}></label>\n" for name in names)
        file.write("</labels>\n")
