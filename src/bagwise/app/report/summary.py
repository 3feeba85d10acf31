"""What a run gave, as plain data: the page is made from this and from nothing else."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from bagwise.app.formats import Annotations
from bagwise.app.media.files import Problem
from bagwise.app.media.pictures import COLOURS
from bagwise.app.report.field import summarize_field
from bagwise.calibration.novelty import ALARM
from bagwise.core.dataset import BagDataset

N_LEAST_SURE = 30
N_NOVEL = 20  # novel instances that are listed, the most probable first
SURE = 0.9  # probability of a name that is called sure
SLIGHT = 0.2  # of what a guess gets wrong: names that get no more of it right are hardly better (Landis and Koch, 1977)
USELESS = 0.4  # where most names are less probable, they are not to be used
BARS = 10  # bins of the histogram of probabilities
MOST_FILES = 10_000  # rows of the table of files
MOST_LABELS = 8  # named of a file
STRIP = 120  # columns of the strip of a file, fewer where files are many
MOST_MARKS = 60_000  # columns of all strips together
MOST_CURVES = 24  # labels whose activity is drawn
PATTERNS = ("", "stripes", "dots", "checks")  # in the order in which they are needed; the pages draw them


@dataclass(frozen=True)
class Reliability:
    """What is known about the probabilities of a run.

    Attributes
    ----------
    calibrated : bool
        Whether the model calibrated its probabilities on held-out bags.
    bags : dict or None
        Reliability tables of the labels of held-out bags, "before" and "after" calibration, and the number of "bags";
        "names" of their instances, where bags tell of them.
    instances : list or None
        Reliability table of the instances that a person reviewed: predictions before the review against answers.
    precision : float or None
        The precision that was asked for.
    """

    calibrated: bool
    bags: dict[str, Any] | None = None
    instances: list[dict[str, float]] | None = None
    precision: float | None = None


@dataclass(frozen=True)
class AnnotateResult:
    """What a run gave.

    Attributes
    ----------
    annotations : Annotations
    problems : list of (name, message)
        Files and rows that could not be used or that look wrong; the rest was done.
    unexplained : list of (bag, labels)
        Labels of a bag that none of its instances was given.
    outputs : list of paths
    form : str
        How the table of labels was understood.
    n_reused : int
        Files that an earlier run had finished.
    label_sets : dict
        Bag name to its labels, None where the bag is unlabelled.
    label_issues : list of dict
        Labels that are probably missing or spurious, see `bagwise.app.runs.label_issues`.
    reliability : Reliability or None
    remarks : list of str
        Labels that cannot be told apart.
    choice : dict
        How the model was chosen, see `bagwise.app.runs.choose`; empty where it was named.
    expected : str
        How many names are expected to be right, in words; "" where the model gives no probabilities.
    resolution : dict
        At which resolution instances were looked for, and why; empty where there is nothing to choose.
    dataset : BagDataset or None
        The features that the model saw, from which the page works out what is typical of a label.
    observers, disputed : list of dict
        As `bagwise.Run.observers` and `bagwise.Run.disputed_labels` give them.
    activity : list of dict
        Counts of labels by hour with intervals, as `Run.estimate` gives them; empty where no sample was answered.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from bagwise import Run, write_dataset
    >>> from bagwise.datasets import make_gaussian_bags
    >>> folder = Path(tempfile.mkdtemp())
    >>> write_dataset(make_gaussian_bags(n_bags=40, random_state=0), folder / "made.csv")
    >>> with Run.create(folder / "made.csv", folder / "run", page=False) as run:
    ...     result = run.result()
    >>> len(result.label_sets), result.problems
    (40, [])
    """

    annotations: Annotations
    problems: list[Problem]
    unexplained: list[tuple[str, list[str]]]
    outputs: list[Path]
    form: str
    n_reused: int
    label_sets: dict[str, set[str] | None] = field(default_factory=dict)
    label_issues: list[dict[str, Any]] = field(default_factory=list)
    reliability: Reliability | None = None
    remarks: list[str] = field(default_factory=list)
    choice: dict[str, Any] = field(default_factory=dict)
    expected: str = ""
    resolution: dict[str, Any] = field(default_factory=dict)
    dataset: BagDataset | None = None
    observers: list[dict[str, Any]] = field(default_factory=list)
    disputed: list[dict[str, Any]] = field(default_factory=list)
    activity: list[dict[str, Any]] = field(default_factory=list)


class _Look(NamedTuple):
    """What a label looks like: a colour as ``#rrggbb``, and the name of a pattern, "" for none."""

    colour: str
    pattern: str


def class_colours(names: Sequence[str]) -> dict[str, _Look]:
    """A look for each class: no color comes twice until all are used, and then with another pattern.

    Ninety-six classes look different; after that they repeat.
    """
    return {
        name: _Look(COLOURS[i % len(COLOURS)], PATTERNS[i // len(COLOURS) % len(PATTERNS)])
        for i, name in enumerate(names)
    }


def _by_label(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The hours of the labels of which there are most."""
    hours: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        hours.setdefault(row["label"], []).append(row)
    found = [{"label": label, "most": max(row["high"] for row in own), "hours": own} for label, own in hours.items()]
    found.sort(key=lambda one: -sum(row["count"] for row in one["hours"]))
    return [one for one in found if one["most"] > 0][:MOST_CURVES]


def summarize_run(result: AnnotateResult) -> dict[str, Any]:
    """The figures of the page.

    Returns
    -------
    dict
        ``about``, ``expected``, ``counts`` (files, bags, instances and so on), ``classes`` (a dict per class),
        ``least_sure`` (rows, the least certain first), ``files`` (a dict per file), ``n_files``, ``field`` (see
        `summarize_field`), ``activity`` (of each label the hours, the most frequent first), ``observers``,
        ``disputed``, ``problems``, ``unexplained``, ``label_issues``, ``reliability``, ``remarks``, ``choice``,
        ``resolution``, ``form``.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from bagwise import Run, write_dataset
    >>> from bagwise.app.report.summary import summarize_run
    >>> from bagwise.datasets import make_gaussian_bags
    >>> folder = Path(tempfile.mkdtemp())
    >>> write_dataset(make_gaussian_bags(n_bags=40, random_state=0), folder / "made.csv")
    >>> with Run.create(folder / "made.csv", folder / "run", page=False) as run:
    ...     counts = summarize_run(run.result())["counts"]
    >>> counts["bags"], counts["unlabelled bags"]
    (40, 0)
    """
    annotations = result.annotations
    shown = annotations.shown()
    labelled = [labels for labels in result.label_sets.values() if labels is not None]
    by_instance = annotations.by_instance()
    n_named = sum(map(annotations.is_named, annotations.rows))
    counts = {
        "files": len(annotations.files),
        "bags": len(result.label_sets),
        "labelled bags": len(labelled),
        "unlabelled bags": len(result.label_sets) - len(labelled),
        "instances": annotations.n_instances,
        **({"labels of instances": len(shown)} if annotations.label_sets else {}),
        "instances with a label": sum(any(map(annotations.is_shown, own)) for own in by_instance),
        "background instances": sum(not any(map(annotations.is_named, own)) for own in by_instance),
    }
    if "kept" in annotations.extra:  # the column of a run that asked for a precision
        counts["instances below the wanted precision"] = n_named - len(shown)
    if annotations.media_type.timed:
        seconds = sum(file["seconds"] - file.get("seconds_of_gaps", 0.0) for file in annotations.files)
        counts["minutes"] = round(seconds / 60, 1)
    return {
        "about": annotations.about,
        "expected": result.expected,
        "counts": counts,
        "classes": _classes(annotations.classes, shown, labelled),
        "least_sure": sorted(
            (row for row in shown if row["probability"] is not None),
            key=lambda row: (row["probability"], row.get("file", ""), str(row["bag"]), row["instance"]),
        )[:N_LEAST_SURE],
        "files": _files(annotations),
        "n_files": len(annotations.files) if annotations.media_type.places else 0,
        "field": summarize_field(annotations),
        "observers": result.observers,
        "disputed": result.disputed,
        "activity": _by_label(result.activity),
        "problems": result.problems,
        "unexplained": result.unexplained,
        "label_issues": result.label_issues,
        "reliability": None if result.reliability is None else _reliability(result.reliability, annotations),
        "remarks": result.remarks,
        "notes": annotations.media_type.notes(annotations.files),
        "choice": result.choice,
        "resolution": result.resolution,
        "resolution_in_words": resolution_in_words(result.resolution),
        "form": result.form,
    }


def _classes(names: list[str], shown: list[dict[str, Any]], labelled: list[set[str]]) -> list[dict[str, Any]]:
    listed = Counter(label for labels in labelled for label in labels)
    instances = Counter(row["label"] for row in shown)
    probabilities: dict[str, list[float]] = defaultdict(list)
    files: dict[str, set[str]] = defaultdict(set)
    for row in shown:
        files[row["label"]].add(row.get("file", ""))
        if row["probability"] is not None:
            probabilities[row["label"]].append(row["probability"])
    rows = []
    for name, look in class_colours(names).items():
        values = probabilities[name]
        bars = Counter(min(int(value * BARS), BARS - 1) for value in values)
        mean = sum(values) / len(values) if values else None
        rows.append(
            {"name": name, **look._asdict(), "bags": listed[name], "instances": instances[name]}
            | {"files": len(files[name]), "mean_probability": mean, "histogram": [bars[i] for i in range(BARS)]}
        )
    return rows


# ---------------------------------------------------------------------------------------------------------------------
# Files


def _files(annotations: Annotations) -> list[dict[str, Any]]:
    """For each file its name, site, time, length, counts, labels, least probability, and strip.

    A strip has for each label the columns in which it is the most frequent one, as pairs of first column and number of
    columns.
    """
    files = annotations.files[:MOST_FILES]
    if not annotations.media_type.places:
        return []
    shown = annotations.shown_by_file()
    total = Counter(own[0]["file"] for own in annotations.by_instance())
    columns = min(STRIP, MOST_MARKS // max(len(files), 1))
    found = []
    for file in files:
        name, rows = file["file"], shown[file["file"]]
        labels = Counter(row["label"] for row in rows).most_common()
        length = file.get("seconds") or file.get("characters") or 0
        facts = {
            "file": name,
            "site": file.get("site", ""),
            "recorded": file.get("recorded", ""),
            "seconds": file.get("seconds"),
            "named": len(rows),
            "background": total[name] - len({(row["bag"], row["instance"]) for row in rows}),
            "labels": labels[:MOST_LABELS],
            "more": len(labels[MOST_LABELS:]),
            "least": min((row["probability"] for row in rows if row["probability"] is not None), default=None),
            "columns": columns,
            "strip": _strip(rows, file.get("start", 0.0), length, columns) if length and columns > 3 else {},
        }
        found.append(facts)
    return found


def _strip(rows: list[dict[str, Any]], begin: float, length: float, columns: int) -> dict[str, list[tuple[int, int]]]:
    counts: dict[int, Counter[str]] = defaultdict(Counter)
    for row in rows:
        first = min(max(int((row["start"] - begin) / length * columns), 0), columns - 1)
        last = min(max(int((row["end"] - begin) / length * columns), first), columns - 1)
        for column in range(first, last + 1):
            counts[column][row["label"]] += 1
    strip: dict[str, list[tuple[int, int]]] = {}
    for column in sorted(counts):
        label = min(counts[column], key=lambda name: (-counts[column][name], name))
        runs = strip.setdefault(label, [])
        if runs and sum(runs[-1]) == column:
            runs[-1] = runs[-1][0], runs[-1][1] + 1
        else:
            runs.append((column, 1))
    return strip


# ---------------------------------------------------------------------------------------------------------------------
# Reliability


def _reliability(reliability: Reliability, annotations: Annotations) -> dict[str, Any]:
    """Reliability tables with their errors, the sentences on precision and novelty, and the novel instances."""
    bags = instances = None
    if reliability.bags is not None:
        before, after = reliability.bags["before"], reliability.bags["after"]
        bags = {"bags": reliability.bags["bags"], "rows": after}
        bags |= {"before": _calibration_error(before), "after": _calibration_error(after)}
        names = reliability.bags.get("names")
        bags["names"] = None if names is None else names | {"error": _calibration_error(names["rows"])}
    if reliability.instances:
        instances = {"rows": reliability.instances, "error": _calibration_error(reliability.instances)}
    novel = [row for row in annotations.shown() if row.get("novel")]
    return {
        "calibrated": reliability.calibrated,
        "bags": bags,
        "instances": instances,
        "precision": precision_in_words(annotations, reliability.precision),
        "novel": novelty_in_words(annotations),
        "novel_rows": sorted(novel, key=lambda row: -(row["probability"] or 0.0))[:N_NOVEL],
    }


def _calibration_error(table: Sequence[dict[str, float]]) -> float:
    """Expected calibration error of a reliability table."""
    total = sum(row["count"] for row in table)
    return sum(row["count"] * abs(row["accuracy"] - row["confidence"]) for row in table) / total


def expected_in_words(
    probability: Sequence[float],
    reliability: Mapping[str, Any] | None,
    bags: str = "bags",
    background_share: float | None = None,
    cure: str = "",
) -> str:
    """About how many names are right: the mean of their calibrated probabilities; and without the labels of the bags.

    Parameters
    ----------
    probability : (m,) sequence
        Of the instances that are named.
    reliability : mapping or None
        What held-out bags said, see `Reliability.bags`; None where nothing was calibrated.
    bags : str
        What bags are called.
    background_share : float or None
        The share of background that was assumed, on which the probabilities rest; None where none was.
    cure : str
        What helps where names are hardly better than guesses.
    """
    n = len(probability)
    if not n:
        return "No instance has a name."
    if reliability is None:
        return (
            f"How many of the {n} names are right is not known: probabilities are not calibrated (that takes ten "
            f"labelled {bags}). Review some before you use them."
        )
    sure = sum(value >= SURE for value in probability)
    text = (
        f"Of 100 names about {100 * sum(probability) / n:.0f} are expected to be right; {sure} of {n} are sure "
        f"({100 * SURE:.0f} % or more)."
    )
    names = reliability.get("names")
    if names is not None:
        fewer = names["accuracy"] < sum(probability) / n  # to know less cannot help
        text += f" In {bags} whose labels nobody gave, about "
        text += f"{100 * names['accuracy']:.0f} of 100." if fewer else "as many."
    if background_share is not None:
        text += (
            f" This takes {100 * background_share:g} % of the instances for background (--noise-share): where more "
            "are, fewer names are right."
        )
    if names is not None and _is_guessing(names):
        return (
            f"Names are hardly better than guessing: of 100 of held-out {bags} about {100 * names['accuracy']:.0f} are "
            f"right, and {100 * names['guess']:.0f} where all get the most frequent label. Do not use them as they "
            f"are{cure and '; '}{cure}. {text}"
        )
    if sorted(probability)[n // 2] < USELESS:
        text += f" Most names are less than {100 * USELESS:.0f} % sure: do not use them as they are."
    return text


def _is_guessing(names: Mapping[str, Any]) -> bool:
    """Whether names of held-out bags, most of which their labels judge, hardly beat the most frequent label."""
    if names.get("judged", 0.0) < 0.5:  # nor is it there in models of earlier versions
        return False
    return bool(names["accuracy"] - names["guess"] < SLIGHT * (1.0 - names["guess"]))


def precision_in_words(annotations: Annotations, precision: float | None) -> str | None:
    """How many instances are kept for a precision; None where none was asked for."""
    if precision is None:
        return None
    named = [row for row in annotations.rows if annotations.is_named(row)]
    what = "labels of instances" if annotations.label_sets else "labelled instances"
    kept = [row for row in named if row["kept"]]
    if not kept:
        return (
            f"for a precision of {100 * precision:g} % none of {len(named)} {what} is certain enough; all "
            "are marked in the long table (kept: False)"
        )
    expected = sum(row["probability"] for row in named)
    recall = sum(row["probability"] for row in kept) / expected if expected else 0.0
    least = min(row["probability"] for row in kept)
    n_novel = sum(1 for row in named if row.get("novel") and not row["kept"])
    return (
        f"for a precision of {100 * precision:g} % {len(kept)} of {len(named)} {what} are kept "
        f"({100 * len(kept) / len(named):.0f} %, those of probability {least:.2f} and more"
        + (f", without {n_novel} novel ones" if n_novel else "")
        + f"), and with them {100 * recall:.0f} % of the labels that are expected to be right; the others are "
        "marked in the long table (kept: False)"
    )


def novelty_in_words(annotations: Annotations) -> str | None:
    """How many instances are novel; None where none is, or the model cannot say."""
    rows = [own[0] for own in annotations.by_instance()]
    n = sum(1 for row in rows if row.get("novel"))
    if not n:
        return None
    share = n / len(rows)
    return (
        f"{n} of {len(rows)} instances ({100 * share:.0f} %) are novel: far from all training data; in "
        f"bags like those of training {100 * ALARM:.0f} % are"
        + (". Their labels, however probable, are guesses about what the model never saw" if share > 5 * ALARM else "")
    )


def observer_table(rows: Sequence[Mapping[str, Any]], bags: str) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Headings and cells of the table of observers; rates are missing until something was learned of them.

    Parameters
    ----------
    rows : list of dict
        As `bagwise.Run.observers` gives them.
    bags : str
        What bags are called.
    """
    headings = ("observer", bags, "labels listed", "missed", "invented", "right of those listed")
    percent = {
        name: ["" if row.get(name) is None else f"{100 * row[name]:.0f} %" for row in rows]
        for name in ("missed", "invented", "right")
    }
    counts = [(row["observer"], str(row["bags"]), str(row["listed"])) for row in rows]
    return headings, [(*own, *shares) for own, *shares in zip(counts, *percent.values(), strict=True)]


def resolution_in_words(resolution: dict[str, Any]) -> str | None:
    """At which resolution instances were looked for, and why; None where there is nothing to choose."""
    if not resolution:
        return None
    chosen, rows = resolution["chosen"], {row["scale"]: row for row in resolution["rows"]}
    begin = f"frames of {chosen}"
    if not rows:
        return f"{begin}, the default: {resolution['why']}"
    tried = f"{len(rows)} tried on {resolution['bags']} bags of {resolution['files']} files"
    if chosen == resolution["default"]:
        return f"{begin}, the default: no other predicts the labels of held-out bags clearly better ({tried})"
    row = rows[chosen]
    return (
        f"{begin} instead of {resolution['default']}: the log loss of the labels of held-out bags falls from "
        f"{rows[resolution['default']]['loss']:.3f} to {row['loss']:.3f} (by {-row['difference']:.3f} +/- "
        f"{row['error']:.3f}; {tried}); --media-set frame=... overrides it"
    )
