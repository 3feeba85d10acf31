"""The papers' data sets by short names: which file each is in, and why ours may differ from the authors'."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import numpy as np

from bagwise.core.bags import Bags, offsets_of
from bagwise.core.dataset import BagDataset
from bagwise.datasets import load_npz
from benchmarks.common import data_folder

LETTERS = "letter_recognition"  # the file of all letters of UCI Letter Recognition
DRAWN = "the letters were drawn again: the authors' draw is lost"
RESTORED = "which regions make a picture was restored by inference"
ABSENT = "data not available"
EXPERTS_FILE, WITH_EXPERTS = "hja_birdsong_experts", "hja_birdsong"
EXPERTS = "the experts' labels of 5 of the 13 species were to be had, the others are those of the instances"
RARE = ("voc12", "50salads", "sival")  # files
SHORT = "not in the short form"
FEWER = "fewer settings were tried than in the paper"
PROTOCOLS = {  # by method: what else than the data may make a difference
    "mlr": "the steps of mlr's M-step are not fully described",
    **dict.fromkeys(("k-mlr", "k-mlr-raw"), "the steps of mlr's M-step are not fully described"),
    "k-sim": FEWER,
    "k-mfast": FEWER,
    "k-slr": "how slr was regularized is not described",
    "mfast": FEWER,
    "lsb": FEWER,
    "slr": "how slr was regularized is not described",
    **dict.fromkeys(("m-svm", "m-nn"), "how features were scaled is not described"),
    **dict.fromkeys(
        ("m3ic", "bamic-minimal", "bamic-maximal", "bamic-average", "majority-kmeans", "cpm3c"),
        "scaling, starting points and the number of runs are not fully described",
    ),
    **dict.fromkeys(
        ("sim-max-rff", "sim-cccp-rff", "sim-softmax-rff"), "the random frequencies are another draw than the authors'"
    ),
}
OF_EXPERTS = (
    "the paper's bag labels are the experts', which leave out some that instances carry; of 5 of the 13 species they "
    'are at hand (the column "HJA, experts\' labels" of the tables of 2013)'
)
GAINS = {  # by data and method, of any data where that is empty: why ours may be better than the published
    **dict.fromkeys([("hja", "sim-"), ("hja-filtered", "sim-")], OF_EXPERTS),
    **dict.fromkeys(
        [("hja", "clpl"), ("hja-filtered", "clpl")],
        f"{OF_EXPERTS}; it is not the solver, since LIBLINEAR, which the paper used, gives the same on these labels",
    ),
    **dict.fromkeys(
        [("", "dummy"), ("", "dummy-commonest")],
        "the published figure follows a rule that is not described; on HJA `dummy-commonest` comes near it",
    ),
    **dict.fromkeys(
        [("hja-filtered", "m3miml"), ("hja-experts", "m3miml")],
        "open: it is not the experts' labels, with which it is about as high",
    ),
    ("", "m3miml"): "open: at other C ours is near the published figure; the best, as shown, is above it",
}


@dataclass(frozen=True)
class Source:
    """Where a data set comes from.

    Attributes
    ----------
    file : str
        Name in the data folder, without the ending .npz.
    title : str
    reason : str or None
        Why figures may differ from the published ones.
    drop_absent : bool
        Leave out classes that no bag carries, as Pham et al. do with two letters.
    unlabelled : bool
        Whether many instances carry no label, which asks for a background class (benchmarks/ored_background.py).
    experts : bool
        Bag labels are those that experts wrote down, as far as a file has them, not the union of the instances'.
    """

    file: str
    title: str
    reason: str | None = None
    drop_absent: bool = False
    unlabelled: bool = False
    experts: bool = False


SOURCES: dict[str, Source] = {
    "carroll": Source("letter_carroll_rebuilt", "Letter-Carroll", DRAWN),
    "frost": Source("letter_frost_rebuilt", "Letter-Frost", DRAWN),
    "carroll-24": Source("letter_carroll_rebuilt", "Letter-Carroll", DRAWN, drop_absent=True),
    "frost-24": Source("letter_frost_rebuilt", "Letter-Frost", DRAWN, drop_absent=True),
    "hja-filtered": Source("hja_birdsong_filtered", "HJA filtered"),
    "hja": Source("hja_birdsong", "HJA", unlabelled=True),
    "hja-experts": Source("hja_birdsong_filtered", "HJA, experts' labels", EXPERTS, experts=True),
    "msrc": Source("msrc_v2", "MSRC v2", RESTORED),
    "voc12": Source("voc12", "VOC 2012"),
    "50salads": Source("50salads", "50Salads"),
    "scene": Source("miml_scene", "Scene"),
    "reuters": Source("miml_reuters", "Reuters"),
    "corel": Source("elephant", "Corel"),
    **{f"sival{n}": Source("sival", f"SIVAL{n}") for n in range(1, 7)},
    **{f"scene{n}": Source("miml_scene", f"Natural Scene{n}") for n in range(1, 5)},
    **{f"reuters{n}": Source("miml_reuters", f"Reuters{n}") for n in range(1, 7)},
}


def is_missing(name: str) -> bool:
    """Whether it is one of the data sets that could not be had, and is not in the folder either."""
    return SOURCES[name].file in RARE and path_of(name) is None


def missing_line(names: Iterable[str]) -> list[str]:
    """One line about those that could not be had, none where there are none."""
    titles = [SOURCES[name].title for name in names if is_missing(name)]
    if not titles:
        return []
    shown = titles[0] if len(titles) == 1 else f"{', '.join(titles[:-1])} and {titles[-1]}"
    return [
        f"{shown} could not be had. A file in the layout of [the papers' data](../data.md) is read by "
        "`bagwise.datasets.load_npz`, and adds what the paper prints for it to this table, beside ours."
    ]


def path_of(name: str) -> Path | None:
    """The file of a data set, or None where it is not in the data folder."""
    folder = data_folder()
    if folder is None:
        return None
    source = SOURCES[name]
    if source.experts:  # a file of their own, or what hja_birdsong.npz has of them
        own = folder / f"{EXPERTS_FILE}.npz"
        if own.is_file() or not (folder / f"{WITH_EXPERTS}.npz").is_file():
            return own if own.is_file() else None
    path = folder / f"{source.file}.npz"
    return path if path.is_file() else None


def reason_of(name: str, method: str, computed: bool = True) -> str | None:
    """Why figures of a method may differ from the published ones, or why there are none."""
    if path_of(name) is None:
        return ABSENT
    known = [reason for reason in (SOURCES[name].reason, PROTOCOLS.get(method)) if reason]
    return (", and ".join(known) or None) if computed else SHORT


def gain_of(name: str, method: str) -> str | None:
    """Why figures of a method may be better than the published ones."""
    kind = "sim-" if method.startswith("sim-") else method
    return GAINS.get((name, kind)) or GAINS.get(("", kind)) or SOURCES[name].reason


@lru_cache(maxsize=2)
def load(name: str) -> BagDataset:
    """A data set that is there (`path_of`)."""
    path = path_of(name)
    if path is None:
        raise FileNotFoundError(f"{SOURCES[name].file}.npz is not in the data folder; set BAGWISE_DATA to it.")
    data = load_npz(path)
    if SOURCES[name].experts and path.stem != EXPERTS_FILE:
        with np.load(path.with_name(f"{WITH_EXPERTS}.npz"), allow_pickle=False) as archive:
            data = replace(data, Y=np.maximum(data.Y, archive["Y_expert"] == 1))  # -1: of that species nothing is known
    return without_absent_classes(data) if SOURCES[name].drop_absent else data


def without_absent_classes(data: BagDataset) -> BagDataset:
    """The data set without the classes that no bag carries."""
    assert data.Y is not None
    present = np.flatnonzero(data.Y.any(axis=0))
    labels = data.instance_labels
    if labels is not None:
        renumber = np.full(data.n_classes + 1, -1)  # the last is for -1, unknown
        renumber[present] = np.arange(len(present))
        labels = Bags(renumber[labels.instances], data.bags.offsets)
    names = [data.class_names[c] for c in present]
    return replace(data, Y=data.Y[:, present], class_names=names, instance_labels=labels)


def redraw(name: str, seed: int) -> BagDataset:
    """A Letter set with the words of `name` and letters drawn anew from UCI Letter Recognition."""
    folder = data_folder()
    assert folder is not None
    with np.load(folder / f"{LETTERS}.npz", allow_pickle=False) as archive:
        instances, letters = archive["X"], archive["y"]
    rng = np.random.default_rng(seed)
    text = words_of(name).read_text(encoding="utf-8")
    words = [[ord(letter) - ord("a") for letter in word if letter.isalpha()] for word in text.lower().split()]
    words = [word for word in words if word]
    pools = [list(rng.permutation(np.flatnonzero(letters == letter))) for letter in range(26)]
    labels = np.array([letter for word in words for letter in word])
    bags = Bags(instances[[pools[letter].pop() for letter in labels]], offsets_of([len(word) for word in words]))
    Y = np.zeros((len(bags), 26), dtype=np.uint8)
    Y[bags.bag_index, labels] = 1
    return BagDataset(bags, Y, instance_labels=Bags(labels, bags.offsets), name=name)


def words_of(name: str) -> Path:
    """The file of a Letter set's words."""
    return (data_folder() or Path()) / f"{SOURCES[name].file.removesuffix('_rebuilt')}_words.txt"


def can_redraw(name: str) -> bool:
    """Whether the words and the letters to draw from are in the data folder."""
    folder = data_folder()
    return folder is not None and (folder / f"{LETTERS}.npz").is_file() and words_of(name).is_file()
