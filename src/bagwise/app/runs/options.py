"""What `bagwise annotate` and `Run.create` can be asked for: one list, from which command line and docs are made."""

# ruff: noqa: RUF009 - what is called makes the field of a dataclass
from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from bagwise.core.exceptions import InputError

DEFAULT_MODEL = "ored-background"
NOISE_SHARE = 0.1
GROUPS = LABELS, MODEL, INSTANCES, OUTPUT, RUNNING = "Labels", "Model", "Finding instances", "Output", "Running"
SOUND = "time of sound read"  # what progress of recordings is counted in, by seconds


def _option(default: Any, flag: str, kind: str, help: str, group: str = "", metavar: str | None = None) -> Any:
    """A field and how it stands on the command line; without a group ``bagwise annotate --help`` does not show it."""
    about = {"flag": flag, "kind": kind, "help": help, "group": group, "metavar": metavar}
    return field(default=default, metadata=about)


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """What a run is asked for, but its source and its folder: the keyword arguments of `Run.create`.

    The command line (`bagwise.app.cli`) makes an option of each field from its metadata: ``flag``, ``kind`` (of the
    value), ``help``, ``group`` (of the help page, "" for what is rarely needed) and ``metavar``. The table of
    docs/command-line.md is that of `option_table`.

    Examples
    --------
    >>> from bagwise.app.runs import RunOptions
    >>> options = RunOptions(model="clpl", page=False)
    >>> options.model, options.min_confidence, options.labels is None
    ('clpl', 0.5, True)
    """

    labels: Path | None = _option(
        None,
        "--labels",
        "path",
        "Labels of each file or bag: a table (CSV, .xlsx, parquet), one per observer, or those of Raven or BirdNET.",
        LABELS,
    )
    columns: tuple[str, str] | None = _option(
        None,
        "--columns",
        "pair",
        "Headings of the columns with file (or bag) and label in the table of labels, where it has others too.",
        LABELS,
        "FILE LABEL",
    )
    separator: str | None = _option(
        None, "--separator", "text", "What is between several labels in one cell of that table; found out if not given."
    )
    fold_case: bool = _option(False, "--fold-case", "flag", "Labels that differ in case or blanks only are one.")
    sheet: str | None = _option(
        None, "--sheet", "text", "Sheet of that table, if it is a spreadsheet with several.", metavar="NAME"
    )
    min_confidence: float = _option(
        0.5, "--min-confidence", "share", "Detections of BirdNET that are less sure are no labels."
    )
    known: Path | None = _option(
        None, "--known", "path", "Instances that are known: a table or folder of Raven, Audacity, COCO, ...", LABELS
    )
    use_known: bool = _option(
        False, "--instance-labels", "flag", "Learn from the instance labels in a table, too.", LABELS
    )
    model: str | Path | None = _option(
        None,
        "--model",
        "text",
        "Name in the catalogue; auto to choose one; or a model file. By default ored-background, of windows noisy-or.",
        MODEL,
    )
    learner: Mapping[str, Any] = _option(
        None,
        "--set",
        "settings",
        "A setting of the learner, such as l2=0.1, or of a step before it as step__name=value; may be repeated.",
        MODEL,
        "NAME=VALUE",
    )
    select: str | None = _option(
        None,
        "--select",
        "text",
        "Choose this setting by cross-validated rank loss, from bag labels alone.",
        metavar="NAME",
    )
    grid: Sequence[Any] = _option(
        None, "--grid", "numbers", "Values to choose from, separated by commas; for alpha 1e-9 to 1 by default."
    )
    folds: int = _option(10, "--folds", "folds", "Folds of --select.")
    noise_share: float = _option(
        NOISE_SHARE, "--noise-share", "open share", "Expected share of instances that belong to no label.", MODEL
    )
    precision: float | None = _option(
        None,
        "--precision",
        "open share",
        "Keep the instances of which this share is expected to be right, such as 0.95; the others are marked.",
        MODEL,
    )
    seed: int | None = _option(
        None, "--seed", "integer", "Of all that is random; by default as the catalogue has it.", MODEL
    )
    media_type: str | None = _option(
        None, "--media-type", "text", "audio, image, text, ...: found out from the files.", INSTANCES, "NAME"
    )
    window: float | None = _option(
        None, "--window", "number", "Seconds of a piece of a recording (audio; 10 by default).", INSTANCES
    )
    settings: Any = _option(
        None,
        "--media-set",
        "settings",
        "A setting of the media type, such as threshold=5; may be repeated.",
        INSTANCES,
        "NAME=VALUE",
    )
    segment: str | None = _option(
        None,
        "--segment",
        "text",
        "What the instances of recordings are: syllables, windows (with --embed or --embeddings), or a table of boxes.",
    )
    embed: Path | None = _option(
        None,
        "--embed",
        "path",
        "Describe instances by a network: an .onnx or .tflite file, or birdnet if a package with it is installed.",
        INSTANCES,
        "NETWORK",
    )
    embed_settings: Mapping[str, Any] = _option(
        None,
        "--embed-set",
        "settings",
        "How the network is given its input, such as rate=32000; may be repeated.",
        metavar="NAME=VALUE",
    )
    embeddings: Path | None = _option(
        None,
        "--embeddings",
        "path",
        "Vectors that were made already: a table with file, start, end and vector, or a folder of hoplite.",
        metavar="TABLE",
    )
    join: bool | None = _option(
        None,
        "--join/--no-join",
        "flag",
        "Keep the features of the media type next to the vectors; of syllables they are kept if not said otherwise.",
    )
    bag: str | None = _option(
        None, "--bag", "text", "The column of a file of bags that names the bag.", metavar="COLUMN"
    )
    features: str | Sequence[str] | None = _option(
        None, "--features", "text", "Its columns that are features; by default all others.", metavar="A,B,..."
    )
    read_as: str | None = _option(
        None, "--read-as", "text", "Format of a file of bags; by default it is found out.", metavar="NAME"
    )
    reading: Mapping[str, Any] = field(default_factory=dict)
    """Options of the reader of a file of bags, for Python; ``bag``, ``features`` and ``read_as`` are put into it."""
    formats: Sequence[str] | None = _option(
        None, "--format", "repeated", "Formats to write; all of the media type if not given.", OUTPUT
    )
    max_noise: float | None = _option(
        None,
        "--max-noise",
        "share",
        "What is more probably noise stands in the long table only; 0.5, or less where that is below --noise-share.",
    )
    sites: Path | None = _option(
        None,
        "--sites",
        "path",
        "Table of the sites of recording: columns site, latitude, longitude and, if wanted, time_zone.",
        OUTPUT,
    )
    names: Path | None = _option(None, "--names", "path", "Table of the scientific names of labels, for birdnet.csv.")
    label_studio_root: Path | None = _option(
        None,
        "--label-studio-root",
        "path",
        "Folder from which Label Studio serves files, so that its tasks play and show them.",
        metavar="FOLDER",
    )
    page: bool = _option(True, "--no-page", "flag", "Write no report.html.", OUTPUT)
    overwrite: bool = _option(
        False, "--overwrite", "flag", "Replace another run in the folder for the results.", OUTPUT
    )
    jobs: int = _option(-1, "--jobs", "integer", "Files read at a time; -1 for all cores.", RUNNING)
    cluster: str | None = _option(
        None,
        "--cluster",
        "text",
        "Read the files on the workers of a Dask cluster: tcp://host:8786, or local:4 for four of this machine.",
        metavar="ADDRESS",
    )

    def __post_init__(self) -> None:
        """Paths become `Path`, and what is the same thing said in two ways is said in one."""
        given = {name: value for name, value in vars(self).items() if value is not None}
        paths = {one.name for one in fields(self) if one.metadata.get("kind") == "path"}
        changed: dict[str, Any] = {name: Path(given[name]) for name in paths & given.keys()}
        own = {name: given[name] for name in ("window", "segment") if name in given}
        if self.boxes is not None:
            del own["segment"]
        if isinstance(self.settings, Mapping) or self.settings is None:
            changed["settings"] = {**(self.settings or {}), **own}
        elif own:
            raise InputError(
                "window and segment are settings of the media type, which are given whole; set them there."
            )
        features = self.features.split(",") if isinstance(self.features, str) else self.features
        reading = {"bag": self.bag, "features": features and [*map(str.strip, features)], "format": self.read_as}
        changed |= {
            "grid": tuple(self.grid or ()),
            "learner": dict(self.learner or {}),
            "embed_settings": dict(self.embed_settings or {}),
            "reading": {**self.reading, **{name: value for name, value in reading.items() if value is not None}},
        }
        for name, value in changed.items():
            object.__setattr__(self, name, value)

    @property
    def has_segment(self) -> bool:
        """Whether it was said what the instances are."""
        return "segment" in self.settings or self.boxes is not None if isinstance(self.settings, Mapping) else True

    @property
    def boxes(self) -> Path | None:
        """The table of boxes that are the instances, if that was said."""
        return None if self.segment in (None, "syllables", "windows") else Path(self.segment)


def option_table() -> list[str]:
    """The rows of the Markdown table in docs/command-line.md."""
    rows = ["| option | in Python | default | what |", "|---|---|---|---|"]
    for one in fields(RunOptions):
        about, default = one.metadata, one.default
        if about:
            shown = "" if default in (None, False, True) else f"`{default}`"
            rows.append(f"| `{about['flag']}` | `{one.name}` | {shown} | {about['help']} |")
    return rows
