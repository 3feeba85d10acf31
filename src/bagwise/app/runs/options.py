"""What `bagwise annotate` and `Run.create` can be asked for: one list, from which command line and docs are made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import Any

from bagwise.core.exceptions import InputError

DEFAULT_MODEL = "ored-background"
NOISE_SHARE = 0.1
GROUPS = LABELS, MODEL, INSTANCES, OUTPUT, RUNNING = "Labels", "Model", "Finding instances", "Output", "Running"
_PATH = ("labels", "known", "embed", "embeddings", "names", "label_studio_root", "sites")


def _about(flag: str, kind: str, help: str, group: str = "", metavar: str | None = None) -> dict[str, Any]:
    """How a field stands on the command line; without a group ``bagwise annotate --help`` does not show it."""
    return {"flag": flag, "kind": kind, "help": help, "group": group, "metavar": metavar}


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """What a run is asked for, but its source and its folder: the keyword arguments of `Run.create`.

    The command line (`bagwise.app.cli`) makes an option of each field from its metadata: ``flag``, ``kind`` (of the
    value), ``help``, ``group`` (of the help page, "" for what is rarely needed) and ``metavar``. The table of
    docs/command-line.md is that of `option_table`.
    """

    labels: Path | None = field(
        default=None,
        metadata=_about(
            "--labels",
            "path",
            "Labels of each file or bag: a table (CSV, .xlsx, parquet), or tables of Raven or BirdNET.",
            LABELS,
        ),
    )
    columns: tuple[str, str] | None = field(
        default=None,
        metadata=_about(
            "--columns",
            "pair",
            "Headings of the columns with file (or bag) and label in the table of labels, where it has others too.",
            LABELS,
            "FILE LABEL",
        ),
    )
    separator: str | None = field(
        default=None,
        metadata=_about(
            "--separator", "text", "What is between several labels in one cell of that table; found out if not given."
        ),
    )
    fold_case: bool = field(
        default=False, metadata=_about("--fold-case", "flag", "Labels that differ in case or blanks only are one.")
    )
    sheet: str | None = field(
        default=None,
        metadata=_about("--sheet", "text", "Sheet of that table, if it is a spreadsheet with several.", metavar="NAME"),
    )
    min_confidence: float = field(
        default=0.5,
        metadata=_about("--min-confidence", "share", "Detections of BirdNET that are less sure are no labels."),
    )
    known: Path | None = field(
        default=None,
        metadata=_about(
            "--known", "path", "Instances that are known: a table or folder of Raven, Audacity, COCO, ...", LABELS
        ),
    )
    use_known: bool = field(
        default=False,
        metadata=_about("--instance-labels", "flag", "Learn from the instance labels in a table, too.", LABELS),
    )
    model: str | Path = field(
        default=DEFAULT_MODEL,
        metadata=_about(
            "--model",
            "text",
            "Name in the catalogue, to be trained; auto to choose one; or a model file of an earlier run.",
            MODEL,
        ),
    )
    learner: Mapping[str, Any] = field(
        default_factory=dict,
        metadata=_about(
            "--set",
            "settings",
            "A setting of the learner, such as l2=0.1, or of a step before it as step__name=value; may be repeated.",
            MODEL,
            "NAME=VALUE",
        ),
    )
    select: str | None = field(
        default=None,
        metadata=_about(
            "--select",
            "text",
            "Choose this setting by cross-validated rank loss, from bag labels alone.",
            metavar="NAME",
        ),
    )
    grid: Sequence[Any] = field(
        default=(),
        metadata=_about(
            "--grid", "numbers", "Values to choose from, separated by commas; for alpha 1e-9 to 1 by default."
        ),
    )
    folds: int = field(default=10, metadata=_about("--folds", "folds", "Folds of --select."))
    noise_share: float = field(
        default=NOISE_SHARE,
        metadata=_about("--noise-share", "open share", "Expected share of instances that belong to no label.", MODEL),
    )
    precision: float | None = field(
        default=None,
        metadata=_about(
            "--precision",
            "open share",
            "Keep the instances of which this share is expected to be right, such as 0.95; the others are marked.",
            MODEL,
        ),
    )
    seed: int | None = field(
        default=None,
        metadata=_about("--seed", "integer", "Of all that is random; by default as the catalogue has it.", MODEL),
    )
    media_type: str | None = field(
        default=None,
        metadata=_about(
            "--media-type", "text", "audio, image, text, ...: found out from the files.", INSTANCES, "NAME"
        ),
    )
    window: float | None = field(
        default=None,
        metadata=_about("--window", "number", "Seconds of a piece of a recording (audio; 10 by default).", INSTANCES),
    )
    settings: Any = field(
        default=None,
        metadata=_about(
            "--media-set",
            "settings",
            "A setting of the media type, such as threshold=5; may be repeated.",
            INSTANCES,
            "NAME=VALUE",
        ),
    )
    segment: str | None = field(
        default=None,
        metadata=_about(
            "--segment", "segment", "What the instances of recordings are; windows go with --embed or --embeddings."
        ),
    )
    embed: Path | None = field(
        default=None,
        metadata=_about(
            "--embed", "path", "Describe instances by a network that was trained elsewhere.", INSTANCES, "MODEL.onnx"
        ),
    )
    embed_settings: Mapping[str, Any] = field(
        default_factory=dict,
        metadata=_about(
            "--embed-set",
            "settings",
            "How the network is given its input, such as rate=32000; may be repeated.",
            metavar="NAME=VALUE",
        ),
    )
    embeddings: Path | None = field(
        default=None,
        metadata=_about(
            "--embeddings",
            "path",
            "Vectors that were made already: a .parquet or .npz with file, start, end and vector.",
            metavar="TABLE",
        ),
    )
    join: bool = field(
        default=False, metadata=_about("--join", "flag", "Keep the features of the media type next to the vectors.")
    )
    bag: str | None = field(
        default=None,
        metadata=_about("--bag", "text", "The column of a file of bags that names the bag.", metavar="COLUMN"),
    )
    features: str | Sequence[str] | None = field(
        default=None,
        metadata=_about(
            "--features", "names", "Its columns that are features; by default all others.", metavar="A,B,..."
        ),
    )
    read_as: str | None = field(
        default=None,
        metadata=_about("--read-as", "text", "Format of a file of bags; by default it is found out.", metavar="NAME"),
    )
    reading: Mapping[str, Any] = field(default_factory=dict)
    """Options of the reader of a file of bags, for Python; ``bag``, ``features`` and ``read_as`` are put into it."""
    formats: Sequence[str] | None = field(
        default=None,
        metadata=_about("--format", "repeated", "Formats to write; all of the media type if not given.", OUTPUT),
    )
    max_noise: float = field(
        default=0.5,
        metadata=_about("--max-noise", "share", "What is more probably noise stands in the long table only."),
    )
    sites: Path | None = field(
        default=None,
        metadata=_about(
            "--sites",
            "path",
            "Table of the sites of recording: columns site, latitude, longitude and, if wanted, time_zone.",
            OUTPUT,
        ),
    )
    names: Path | None = field(
        default=None, metadata=_about("--names", "path", "Table of the scientific names of labels, for birdnet.csv.")
    )
    label_studio_root: Path | None = field(
        default=None,
        metadata=_about(
            "--label-studio-root",
            "path",
            "Folder from which Label Studio serves files, so that its tasks play and show them.",
            metavar="FOLDER",
        ),
    )
    page: bool = field(default=True, metadata=_about("--no-page", "flag", "Write no report.html.", OUTPUT))
    overwrite: bool = field(
        default=False,
        metadata=_about("--overwrite", "flag", "Replace another run in the folder for the results.", OUTPUT),
    )
    jobs: int = field(
        default=-1, metadata=_about("--jobs", "integer", "Files read at a time; -1 for all cores.", RUNNING)
    )
    cluster: str | None = field(
        default=None,
        metadata=_about(
            "--cluster",
            "text",
            "Read the files on the workers of a Dask cluster: tcp://host:8786, or local:4 for four of this machine.",
            metavar="ADDRESS",
        ),
    )

    def __post_init__(self) -> None:
        """Paths become `Path`, and what is the same thing said in two ways is said in one."""
        paths = {name: Path(value) for name in _PATH if (value := getattr(self, name)) is not None}
        reading = {"bag": self.bag, "features": self._feature_names(), "format": self.read_as}
        own = {"window": self.window, "segment": self.segment}
        if isinstance(self.settings, Mapping) or self.settings is None:
            own = {**(self.settings or {}), **{name: value for name, value in own.items() if value is not None}}
        elif any(value is not None for value in own.values()):
            raise InputError(
                "window and segment are settings of the media type, which are given whole; set them there."
            )
        changed = paths | {
            "learner": dict(self.learner or {}),
            "embed_settings": dict(self.embed_settings or {}),
            "settings": own if isinstance(self.settings, Mapping) or self.settings is None else self.settings,
            "reading": {**self.reading, **{name: value for name, value in reading.items() if value is not None}},
        }
        for name, value in changed.items():
            object.__setattr__(self, name, value)

    def _feature_names(self) -> list[str] | None:
        names = self.features.split(",") if isinstance(self.features, str) else self.features
        return None if names is None else [name.strip() for name in names]

    @property
    def has_segment(self) -> bool:
        """Whether it was said what the instances are."""
        return "segment" in self.settings if isinstance(self.settings, Mapping) else True


def option_table() -> list[str]:
    """The rows of the Markdown table in docs/command-line.md."""
    rows = ["| option | in Python | default | what |", "|---|---|---|---|"]
    for one in fields(RunOptions):
        about, default = one.metadata, one.default
        if about:
            shown = "" if default in (None, (), False, True, MISSING) else f"`{default}`"
            rows.append(f"| `{about['flag']}` | `{one.name}` | {shown} | {about['help']} |")
    return rows
