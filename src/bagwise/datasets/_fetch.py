"""Public data sets that are downloaded when they are asked for, once, and are known by their checksum."""

from __future__ import annotations

import hashlib
import urllib.request
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bagwise.core.bags import Bags
from bagwise.core.dataset import BagDataset
from bagwise.core.exceptions import InputError
from bagwise.io.data.formats import read_dataset
from bagwise.io.files import PathLike, atomic_write

PATIENCE = 60.0  # seconds that a server may be silent


@dataclass(frozen=True)
class _Remote:
    name: str
    address: str
    n_bytes: int
    sha256: str


_MIML = (
    "https://raw.githubusercontent.com/sandgh/mtp_stage1/11a94301b076edccf9715715eee0108e7800b8e6/emnlp_2016/M3MIML/"
)
_PARTIAL = "https://raw.githubusercontent.com/pruirui/partial_label_realworld_dataset/a43c823f1cf2575e7fc74bcdfc307463e0bd44bd/"
SCENE = _Remote(
    "miml-scene.mat",
    _MIML + "miml-image-data.mat",
    631869,
    "6967efea30ebad3a33a1d91bf1d0f9cdca9a4b7fc619c360d16d38515c6dda91",
)
REUTERS = _Remote(
    "miml-reuters.mat",
    _MIML + "miml-text-data.mat",
    146006,
    "180d3043ba610dcb950e5e982512fac8f07f72b8196e509922cf753b18b4f339",
)
LOST = _Remote(
    "lost.mat", _PARTIAL + "lost.mat", 936096, "42a8cc43e05578087e7b8ca194647829ec535dc4d0a86cf47f357c5eb3146e4f"
)


def fetch_miml_scene(folder: PathLike | None = None) -> BagDataset:
    """The scenes of Zhang and Zhou: 2,000 pictures, nine patches each, five labels.

    Downloaded at the first call (.6 MB) and kept; nothing is said of the licence where it comes from.

    Parameters
    ----------
    folder : path or None
        Where the file is kept; by default ``~/.cache/bagwise``.

    Returns
    -------
    BagDataset

    Examples
    --------
    >>> from bagwise.datasets import fetch_miml_scene
    >>> data = fetch_miml_scene()  # doctest: +SKIP
    >>> data  # doctest: +SKIP
    <BagDataset 'miml-scene': 2000 bags, 18000 instances, 15 features, float64, 5 classes>
    """
    return read_dataset(_fetch(SCENE, folder))


def fetch_miml_reuters(folder: PathLike | None = None) -> BagDataset:
    """The Reuters texts of Zhang and Zhou: 2,000 documents of 2 to 26 passages, seven topics.

    Downloaded at the first call (.1 MB) and kept; nothing is said of the licence where it comes from.

    Parameters
    ----------
    folder : path or None
        Where the file is kept; by default ``~/.cache/bagwise``.

    Returns
    -------
    BagDataset

    Examples
    --------
    >>> from bagwise.datasets import fetch_miml_reuters
    >>> data = fetch_miml_reuters()  # doctest: +SKIP
    >>> data  # doctest: +SKIP
    <BagDataset 'miml-reuters': 2000 bags, 7119 instances, 243 features, float64, 7 classes>
    """
    return read_dataset(_fetch(REUTERS, folder))


def fetch_lost(folder: PathLike | None = None) -> BagDataset:
    """Faces of the series Lost, each with the names that its scene mentions, of which one is right.

    A face is a bag of one instance, whose labels are the candidates: learn from it with `OneOf`. Downloaded at the
    first call (.9 MB) and kept; nothing is said of the licence where it comes from.

    Parameters
    ----------
    folder : path or None
        Where the file is kept; by default ``~/.cache/bagwise``.

    Returns
    -------
    BagDataset
        With `instance_labels`, the right names.

    Examples
    --------
    >>> from bagwise import OneOf
    >>> from bagwise.datasets import fetch_lost
    >>> data = fetch_lost()  # doctest: +SKIP
    >>> sets = [{OneOf(*names)} if len(names) > 1 else names for names in data.label_sets]  # doctest: +SKIP
    """
    from scipy.io import loadmat
    from scipy.sparse import issparse

    content = loadmat(_fetch(LOST, folder))
    X, candidates, truth = (
        content[name].toarray() if issparse(content[name]) else content[name]
        for name in ("data", "partial_target", "target")
    )
    bags = Bags.from_list(list(X[:, None, :]))
    return BagDataset(
        bags=bags,
        Y=candidates.T.astype(np.uint8),
        class_names=[f"name{i + 1:02d}" for i in range(len(truth))],
        instance_labels=Bags(truth.argmax(axis=0), bags.offsets),
        name="lost",
    )


def _fetch(remote: _Remote, folder: PathLike | None) -> Path:
    """The file: kept from an earlier call, else downloaded whole or not at all."""
    kept = Path.home() / ".cache" / "bagwise" if folder is None else Path(folder)
    path = kept / remote.name
    if path.is_file() and _fingerprint(path.read_bytes()) == remote.sha256:
        return path
    by_hand = f"download {remote.address} by other means and save it as {path}."
    try:
        with urllib.request.urlopen(remote.address, timeout=PATIENCE) as answer:
            content = answer.read(remote.n_bytes + 1)
    except OSError as error:
        reason = getattr(error, "reason", None) or error
        raise InputError(f"{remote.name} could not be downloaded ({reason}); try again, or {by_hand}") from error
    if _fingerprint(content) != remote.sha256:
        raise InputError(
            f"{remote.address} gave {len(content)} bytes that are not the file that is expected there (its checksum "
            "is another), and they were not kept; report it, please."
        )
    kept.mkdir(parents=True, exist_ok=True)
    with atomic_write(path) as file:
        file.write(content)
    return path


def _fingerprint(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
