"""The resolution at which instances are looked for, chosen by what the labels of held-out bags say."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from bagwise.app.media.files import FileNames
from bagwise.app.media.matching import count_inside
from bagwise.app.runs._features import Progress, Source
from bagwise.app.runs._material import Labels, read_material
from bagwise.app.runs.options import DEFAULT_MODEL, RunOptions
from bagwise.app.runs.supervision import put_together
from bagwise.catalog import make_model
from bagwise.core.checks import memory_limit
from bagwise.core.dataset import BagDataset
from bagwise.core.exceptions import BackgroundShareWarning, BagwiseError, InfeasibleBagWarning, InputError
from bagwise.io.labels import LabelTable

FEWEST_FILES = 12
LEAST_FILES, MOST_FILES = 60, 120  # of a set half of the files, within these
MOST_RATES = 20  # files whose rate is looked at where nothing is tried
MOST_HELD = 2**30  # bytes of the sample in memory
MOST_SOUND = 1200.0  # seconds that are read at one resolution
REPEATS, FOLDS = 3, 5
SURE = 0.02  # a probability nearer to 0 or 1 than this says no more
CLEAR = 3.0  # standard errors by which another resolution must be better: two, and training sets of folds overlap
MERGED = 0.25  # share of segments that hold several of another resolution, from which on that need only be better


def choose_scale(
    source: Source, run: Path, table: Labels | None, options: RunOptions, progress: Progress
) -> tuple[Any, dict[str, Any], int]:
    """The settings at which the labels of held-out bags are predicted best, from a sample of the files.

    What is tried first is the default; then finer and coarser settings for as long as the loss falls. The default stays
    where the best of them is not clearly better: by three standard errors over the bags; by fewer where segments of the
    default hold several of its segments, so that calls run together, and by anything where a quarter of them do.

    Parameters
    ----------
    source : Source
        With the settings that were asked for.
    run : folder of the run
        What is read of the sample is kept there.
    table : the labels, None where there are none
    options : RunOptions
    progress : callable

    Returns
    -------
    settings, about, n_read
        `about` is plain data, empty where there is nothing to choose: ``chosen`` and ``default`` (in words), ``asked``
        (the settings), ``files``, ``bags``, ``why`` where nothing was tried, and ``rows``: of each resolution that was
        tried its log loss per label, how far that is above the default's, with its standard error, the share of
        segments of the default that hold several of its segments (``merged``), labels for which no segment is left
        (``unexplained``), number and median seconds of segments. `n_read` files were read at the settings now.
    """
    scales, given = source.media_type.scales, options.settings
    if scales is None or not isinstance(given, Mapping):
        return source.settings, {}, 0
    names, rates, why = _sample(source, table)
    candidates, begin = scales.settings(source.settings, given, rates)
    about: dict[str, Any] = {"asked": source.settings.to_dict(), "rows": [], "files": len(names)}
    if len(candidates) == 1:
        return source.settings, {}, 0
    first = candidates[begin[0]]
    if why:
        return first, {**about, "chosen": scales.in_words(first), "why": why}, 0
    part = replace(source, names=names, vectors=None, embedded=None)
    part = part if options.cluster else replace(part, held=_held(part))
    tried: dict[int, _Trial] = {}

    def loss(i: int) -> float:
        """The mean loss of a candidate, so far as the bags of those before it go."""
        if i not in tried:
            progress("trying resolutions", len(tried), 0)
            tried[i] = _try(replace(part, settings=candidates[i]), run, table, options)
        bags = _bags(tried)
        return float(tried[i].losses(bags).mean()) if bags else np.inf

    best = min(begin, key=loss)
    for step in (-1, 1):
        start = best
        while 0 <= best + step < len(candidates) and loss(best + step) < loss(best):
            best += step
        if best != start:
            break
    bags = _bags(tried)
    if len(bags) < FEWEST_FILES:
        why = f"{len(bags)} labelled {source.media_type.bags} are too few to judge others by"
        return first, {**about, "chosen": scales.in_words(first), "why": why}, tried[begin[0]].n_read
    losses = {i: trial.losses(bags) for i, trial in sorted(tried.items())}
    best = min(losses, key=lambda i: losses[i].mean())
    differences = {i: own - losses[begin[0]] for i, own in losses.items()}
    errors = {i: float(own.std() / np.sqrt(len(own))) for i, own in differences.items()}
    merged = {i: tried[begin[0]].share_that_holds_several(trial) for i, trial in tried.items()}
    # the more calls run together, the less speaks for the default
    asked = CLEAR * max(0.0, 1.0 - merged[best] / MERGED)
    if best != begin[0] and -differences[best].mean() <= asked * errors[best]:
        best = begin[0]
    rows = [
        {
            "scale": scales.in_words(candidates[i]),
            "loss": round(float(own.mean()), 4),
            "difference": round(float(differences[i].mean()), 4),
            "error": round(errors[i], 4),
            "merged": round(merged[i], 3),
            "unexplained": tried[i].n_unexplained,
            **tried[i].about_segments(),
        }
        for i, own in losses.items()
    ]
    progress("trying resolutions", 1, 1)
    chosen = {"chosen": scales.in_words(candidates[best]), "default": scales.in_words(first)}
    n_read = tried[best].n_read if source.vectors is None else 0
    return candidates[best], {**about, **chosen, "rows": rows, "bags": len(bags)}, n_read


def scales_of(source: Source, given: Collection[str]) -> tuple[list[Any], int]:
    """Settings from fine to coarse by the rates of the first files, and which of them is the default for such files."""
    scales, rates = source.media_type.scales, list[float]()
    if scales is None:
        return [source.settings], 0
    for name in source.names[:MOST_RATES]:
        with suppress(BagwiseError, OSError), source.opened(name) as file:
            rates.append(scales.measure(file)[1])
    found, begin = scales.settings(source.settings, given, rates)
    return found, begin[0]


@dataclass(frozen=True)
class _Trial:
    """What is found at one resolution, and the mean loss of held-out labels of each bag in which anything is."""

    data: BagDataset | None = None
    by_bag: Mapping[str, float] = field(default_factory=dict)
    n_read: int = 0

    @property
    def sets(self) -> dict[str, frozenset[str]]:
        """The labels of each bag."""
        if self.data is None:
            return {}
        return {name: frozenset(own or ()) for name, own in zip(self.data.bag_names, self.data.label_sets, strict=True)}

    @property
    def n_unexplained(self) -> int:
        """Labels that are left over where a bag lists more of them than it has instances."""
        if self.data is None:
            return 0
        return int(np.maximum(np.asarray(self.data.Y).sum(axis=1, dtype=np.int64) - self.data.bags.sizes, 0).sum())

    def about_segments(self) -> dict[str, float]:
        if self.data is None:
            return {"instances": 0}
        assert self.data.locations is not None
        lengths = self.data.locations["end"] - self.data.locations["start"]
        return {"instances": len(lengths), "median": round(float(np.median(lengths)), 4)}

    def share_that_holds_several(self, other: _Trial) -> float:
        """Of the segments those that hold several of another resolution."""
        if self.data is None or other.data is None or self is other:
            return 0.0
        assert self.data.locations is not None
        assert other.data.locations is not None
        return float(np.mean(count_inside(self.data.locations, other.data.locations) > 1))

    def losses(self, bags: Mapping[str, frozenset[str]]) -> np.ndarray:
        """(n,) mean loss over the labels of each bag; of a bag without instances as if nothing were known of it."""
        n, labels = max(len(bags), 1), sorted(set().union(*bags.values()))
        share = np.clip([sum(label in own for own in bags.values()) / n for label in labels], SURE, 1 - SURE)
        listed = np.array([[label in own for label in labels] for own in bags.values()])
        base = -np.where(listed, np.log(share), np.log1p(-share)).mean(axis=1)
        return np.array([self.by_bag.get(bag, unknown) for bag, unknown in zip(bags, base, strict=True)])


def _bags(tried: Mapping[int, _Trial]) -> dict[str, frozenset[str]]:
    """Every labelled bag in which any resolution found something, with its labels."""
    return dict(sorted({bag: labels for trial in tried.values() for bag, labels in trial.sets.items()}.items()))


def _sample(source: Source, table: Labels | None) -> tuple[list[str], list[float], str]:
    """Some labelled files drawn at random, their rates, and why they are not enough."""
    scales = source.media_type.scales
    assert scales is not None
    files = FileNames(source.names)
    names = set(source.names)
    if isinstance(table, LabelTable):
        found = [files.find(name) or files.find(name.rpartition("@")[0]) for name in table.names]
        names = {next(iter(one)) for one in found if len(one) == 1}
    order = np.random.default_rng(0).permutation(sorted(names)).tolist()
    wanted = int(np.clip(len(order) // 2, LEAST_FILES, MOST_FILES))
    drawn, lengths, rates = list[str](), list[float](), list[float]()
    for name in order:
        if len(drawn) == wanted or (len(drawn) >= FEWEST_FILES and sum(lengths) >= MOST_SOUND):
            break
        with suppress(BagwiseError, OSError), source.opened(name) as file:
            length, rate = scales.measure(file)
            drawn.append(name)
            lengths.append(length)
            rates.append(rate)
    why = ""
    if table is None:
        why = "there are no labels to judge others by"
    elif len(drawn) < FEWEST_FILES:
        why = f"{len(drawn)} labelled files are too few to judge others by"
    elif sum(lengths) > MOST_SOUND and len(drawn) > len(order) / 2:
        why = f"its {len(order)} labelled files are too long to try others"
    return sorted(drawn), rates, why


def _held(source: Source) -> dict[str, Any]:
    """The files of the sample as they are read at every resolution, as many as there is room for; decoded once."""
    scales, room = source.media_type.scales, min(MOST_HELD, memory_limit() // 4)
    assert scales is not None
    held = {}
    for name in source.names:
        with suppress(BagwiseError, OSError), source.opened(name) as file:
            found, n_bytes = scales.hold(file, room)
            if found is not None:
                held[name], room = found, room - n_bytes
    return held


def _try(source: Source, run: Path, table: Labels | None, options: RunOptions) -> _Trial:
    """Read the sample at one resolution, and predict the labels of each bag by models that did not see its file."""
    plain = replace(options, known=None, cluster=None)
    try:
        material = read_material(source, run, table, plain, lambda what, done, total: None, keep=None)
    except InputError:  # nothing is found at all
        return _Trial()
    data = put_together(material.dataset, material.sets).dataset
    if not data.labelled.any():
        return _Trial()
    data = data[data.labelled]
    losses = np.mean([_held_out_loss(data, seed) for seed in range(REPEATS)], axis=0)
    n_read = len(material.files) - material.n_reused
    return _Trial(data, dict(zip(data.bag_names, losses.tolist(), strict=True)), n_read)


def _held_out_loss(data: BagDataset, seed: int) -> np.ndarray:
    """(n,) log loss of the labels of each bag, the mean over labels; files are never split."""
    assert data.Y is not None
    assert data.locations is not None
    Y = np.asarray(data.Y) != 0
    file = np.unique(data.locations["file"][data.bags.offsets[:-1]].astype(str), return_inverse=True)[1]
    fold = np.random.default_rng(seed).permutation(file.max() + 1)[file] % FOLDS
    proba = np.empty(Y.shape)
    with warnings.catch_warnings():
        for category in (InfeasibleBagWarning, BackgroundShareWarning, ConvergenceWarning):
            warnings.simplefilter("ignore", category)
        for k in np.unique(fold):
            train = data[fold != k]
            model = make_model(DEFAULT_MODEL).fit(train.bags, train.Y)
            proba[fold == k] = model.predict_proba(data[fold == k].bags)
    # where a bag lists more labels than it has instances, those that are left over go to no instance
    proba = np.clip(proba, SURE, 1 - SURE)
    for i in np.flatnonzero(Y.sum(axis=1) > data.bags.sizes):
        listed = np.flatnonzero(Y[i])
        proba[i, listed[np.argsort(-proba[i, listed])[data.bags.sizes[i] :]]] = SURE
    return -np.where(Y, np.log(proba), np.log1p(-proba)).mean(axis=1)
