"""What a run of annotation gave, and the media files that its page shows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bagwise.app.formats import Annotations
from bagwise.app.media.files import Problem
from bagwise.app.media.media_type import MediaType
from bagwise.core.dataset import BagDataset
from bagwise.core.exceptions import InputError, in_words, one_file, warn_caller


@dataclass(frozen=True)
class Reliability:
    """What is known about the probabilities of a run.

    Attributes
    ----------
    calibrated : bool
        Whether the model calibrated its probabilities on held-out bags.
    bags : dict or None
        Reliability tables of the labels of held-out bags, "before" and "after" calibration, and the number of "bags".
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
    dataset : BagDataset or None
        The features that the model saw, from which the page works out what is typical of a label.
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
    dataset: BagDataset | None = None


@dataclass(frozen=True)
class MediaFiles:
    """Media files in a folder, how they were read, and how long each is where files have a length in time."""

    media_type: MediaType
    settings: Any
    folder: Path
    seconds: Mapping[str, float]

    @classmethod
    def of(cls, annotations: Annotations) -> MediaFiles:
        """The files that were annotated."""
        seconds = {file["file"]: file.get("seconds", 0.0) for file in annotations.files}
        media_type = annotations.media_type
        return cls(media_type, media_type.make_settings(annotations.about["settings"]), annotations.folder, seconds)

    def visit(
        self, names: Iterable[str], looks: Sequence[Callable[[str, Any], None]], step: Callable[[int, int], None]
    ) -> None:
        """Open each file once for all `looks`, which get its name and the open file.

        A warning names the first of the files that changed or were cut off by now.
        """
        names = list(dict.fromkeys(names))
        errors: dict[str, str] = {}

        def net(name: str) -> AbstractContextManager[None]:
            return self._noting(errors, name)

        for i, name in enumerate(names):
            step(i, len(names))
            with net(name), self.media_type.open(self.folder / name) as file:
                for look in looks:
                    with net(name):
                        look(name, file)
        step(len(names), len(names))
        if errors:
            first = next(iter(errors.values()))
            warn_caller(f"{len(errors)} file(s) could not be drawn; the first: {first}", UserWarning)

    @contextmanager
    def _noting(self, errors: dict[str, str], name: str) -> Iterator[None]:
        try:
            with one_file(self.folder / name):
                yield
        except FileNotFoundError:  # media that were moved: the run says so
            pass
        except (OSError, InputError) as error:
            errors.setdefault(name, in_words(error))
