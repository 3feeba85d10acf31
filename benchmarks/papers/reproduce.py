"""Run experiments, print them, and write the pages: one per paper, and a summary that leads to them."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from bagwise.core.exceptions import InputError
from bagwise.io.files import atomic_write
from benchmarks.papers.catalog import EXPERIMENTS
from benchmarks.papers.data import SOURCES, path_of
from benchmarks.papers.experiment import Experiment
from benchmarks.papers.kinds import perform
from benchmarks.papers.page import (
    EARLIER,
    LEGEND,
    csv_text,
    figures_on,
    latex_text,
    markdown_text,
    sections_of,
    slug,
    terminal_text,
)
from benchmarks.papers.runs import Store, execute
from benchmarks.papers.summary import BEGIN, END, needed, put_between_marks, reproduced, summary
from benchmarks.papers.tables import WITHOUT_DEVIATION

ROOT = Path(__file__).parents[2]
PAPERS = {
    "briggs2012": "Briggs, Fern and Raich (2012): rank-loss support instance machines",
    "briggs2013": "Briggs, Fern, Raich and Lou (2013): instance annotation for MIML learning",
    "pham": "Pham, Raich and Fern: ORed logistic regression",
    "zhang2008": "Zhang and Zhou (2008): M3MIML",
    "m3ic": "Zhang, Wang, Si and Li: M3IC",
    "beyond": "Past the papers",
    "networks": "Past the papers: networks",
}
"""The pages: the beginning of the names of a page's experiments, and its title."""
INTRODUCTION = """\
# The papers, reproduced

Written by `{command}`; do not edit by hand. {legend} The runs at hand took {minutes:,.0f} minutes of one
core.

{contents}
"""
SUMMARY = f"""\
## Summary

For each data set the best that the papers print, of all methods that see the labels of bags only (none, where bags
are clustered); what the same method reaches here; the best of ours, from these papers or not; and the papers' best with
every training instance labeled. Settings are chosen as the papers choose them, by the figure shown; `ored`, `ored-rbf`,
`ored-forest` and, on HJA, where half of the instances carry no label, `ored-background` have one setting for all data
sets, those of `ored-rbf` and `ored-forest` found on these same sets.

{BEGIN}
{END}
"""


def select(names: Iterable[str]) -> list[str]:
    """Experiments by name, or by the beginning of a name such as a paper's; none means all."""
    chosen: list[str] = []
    for name in names:
        found = [known for known in EXPERIMENTS if known == name or known.startswith(f"{name}-")]
        if not found:
            raise InputError(f"There is no experiment {name!r}; there are {', '.join(EXPERIMENTS)}.")
        chosen += [known for known in found if known not in chosen]
    return chosen or list(EXPERIMENTS)


def paper_of(name: str) -> str:
    """The page that an experiment stands on."""
    return next(paper for paper in PAPERS if name == paper or name.startswith(f"{paper}-"))


def page_path(index: Path, paper: str) -> Path:
    return index.parent / "results" / f"{paper}.md"


def with_grid(chosen: Iterable[str], given: Mapping[str, Sequence[Any]]) -> dict[str, Experiment]:
    """The chosen experiments, with settings of one's own in place of those of the papers' grids."""
    experiments = {name: EXPERIMENTS[name] for name in chosen}
    if not given:
        return experiments
    tables = {name: experiment.with_grid(given) for name, experiment in experiments.items()}
    used = {name: experiment for name, experiment in tables.items() if experiment is not None}
    if not used:
        raise InputError(
            f"None of the experiments has a grid with {', '.join(given)}; name a table whose methods have that setting."
        )
    return used


def reproduce(
    names: Iterable[str] = (),
    *,
    quick: bool = False,
    jobs: int = 1,
    minutes: float | None = None,
    out: Path | None = None,
    page_only: bool = False,
    grid: Mapping[str, Sequence[Any]] | None = None,
    say: Callable[[str], None] = print,
    progress: Callable[[str, int, int], None] | None = None,
) -> None:
    """Run what is not there yet, print every table, and write the page where all experiments were asked for.

    Parameters
    ----------
    names : names of experiments or papers
        None means all.
    quick : bool
        Few settings, folds and data sets.
    jobs : int
        Runs in parallel.
    minutes : float or None
        After these no run begins; the same call goes on from there.
    out : path or None
        Folder of all that is written: runs (JSON lines), pages, pictures, and every table as CSV and LaTeX. By default
        ``papers-output``; the pages of the long form, with their pictures, go into docs/.
    page_only : bool
        Run nothing: write the pages from what is finished; where names are given, their sections alone.
    grid : dict or None
        Settings of one's own, name to values, in place of the papers' grids; no page is written with them.
    say : callable
        Given the text of every experiment.
    progress : callable or None
        Called with what was done, how many are, and how many there are.
    """
    folder = out if out is not None else ROOT / "papers-output"
    store = Store(folder / ("runs-quick.jsonl" if quick else "runs.jsonl"))
    index = (folder if quick or out is not None else ROOT / "docs") / "results.md"
    experiments = with_grid(select(names), grid or {})
    if not quick and not any(path_of(name) for name in SOURCES):
        raise InputError(
            "None of the papers' data sets is there; set --data or BAGWISE_DATA to their folder (docs/data.md says "
            "what belongs there). The pages are left as they are; --quick prints the published figures alone."
        )
    everything = len(experiments) == len(EXPERIMENTS)
    if page_only:
        if everything:
            write_pages(index, store, quick)
        else:
            write_sections(index, store, quick, experiments)
        say(f"wrote {index}")
        return
    runs = {name: experiment.runs(quick) for name, experiment in experiments.items()}
    wanted = {run.key: run for of_experiment in runs.values() for run in of_experiment}
    waiting = {name: {run.key for run in runs[name] if run not in store} for name in experiments}
    n_done = sum(run in store for run in wanted.values())

    def tell_finished() -> bool:
        """Print the experiments that wait for no run any more and take them off the list."""
        finished = [name for name, keys in waiting.items() if not keys]
        for name in finished:
            report = experiments[name].report(store, quick, folder / "results")
            say(terminal_text(experiments[name].title, report))
            for number, table in enumerate(report.tables, 1):
                place = folder / "tables" / (name if len(report.tables) == 1 else f"{name}-{number}")
                _write(place.with_name(f"{place.name}.csv"), csv_text(table))
                _write(place.with_name(f"{place.name}.tex"), latex_text(table))
            del waiting[name]
        return bool(finished)

    # All runs go into one queue, so that no core waits for the last run of a table.
    tell_finished()
    until = math.inf if minutes is None else time.monotonic() + 60 * minutes
    for run in execute(wanted.values(), store, perform, jobs=jobs, until=until):
        n_done += 1
        if progress is not None:
            progress(str(run), n_done, len(wanted))
        for keys in waiting.values():
            keys.discard(run.key)
        if tell_finished() and everything and not grid:
            write_pages(index, store, quick)
    if n_done < len(wanted):
        say(f"{len(wanted) - n_done} of {len(wanted)} runs are left; the same command goes on with them.")
    if everything and not grid:
        write_pages(index, store, quick)
        say(f"wrote {index}")


def write_sections(index: Path, store: Store, quick: bool, names: Iterable[str]) -> None:
    """Write the sections of these experiments into the pages that are there; the others stay as they are."""
    store.kept = figures_on_pages(index)
    for paper, chosen in itertools.groupby(sorted(names, key=list(EXPERIMENTS).index), key=paper_of):
        page = page_path(index, paper)
        if not page.is_file():
            raise InputError(f"There is no page {page} to write sections into; write all pages first, without names.")
        kept = sections_of(page.read_text(encoding="utf-8"))
        _write_page(page, paper, quick, {**kept, **{name: _section(page, store, quick, name) for name in chosen}})


def _write_page(page: Path, paper: str, quick: bool, sections: Mapping[str, str]) -> None:
    """The page of a paper: what its cells say, its contents, its sections in the order of the experiments."""
    names = [name for name in EXPERIMENTS if paper_of(name) == paper and name in sections]
    links = "\n".join(f"- [{EXPERIMENTS[name].title}](#{slug(EXPERIMENTS[name].title)})" for name in names)
    written = f"Written by `{_command(quick)}`; do not edit by hand. {LEGEND.format(unit=WITHOUT_DEVIATION)}"
    _write(page, "\n".join([f"# {PAPERS[paper]}\n\n{written}\n\n{links}\n", *(sections[name] for name in names)]))


def _command(quick: bool) -> str:
    return "make papers QUICK=1" if quick else "make papers"


def figures_on_pages(index: Path) -> dict[tuple[str, ...], dict[str, Any]]:
    """What an earlier run left on the pages that are there (`Store.kept`)."""
    found: dict[tuple[str, ...], dict[str, Any]] = {}
    for paper in PAPERS:
        page = page_path(index, paper)
        if page.is_file():
            found |= figures_on(page.read_text(encoding="utf-8"), paper)
    return found


def _section(page: Path, store: Store, quick: bool, name: str) -> str:
    """A section of a page; where runs are missing, what the page has of it, or a line that says so."""
    experiment = EXPERIMENTS[name]
    if not _can_report(store, quick, name):
        kept = sections_of(page.read_text(encoding="utf-8")) if page.is_file() else {}
        missing = f"## {experiment.title}\n\n`bagwise reproduce {name}` has not been run to its end yet.\n"
        section = kept.get(name, missing)
        line = f"`bagwise reproduce {name}`\n"
        return section if EARLIER in section or name not in kept else section.replace(line, f"{line}\n{EARLIER}\n", 1)
    return markdown_text(experiment.title, name, experiment.report(store, quick, page.parent), page)


def _can_report(store: Store, quick: bool, name: str) -> bool:
    experiment = EXPERIMENTS[name]
    finished = [run in store for run in experiment.runs(quick)]
    some = any(finished) and (experiment.partial or experiment.keeps)
    return all(finished) or some or (experiment.keeps and bool(store.kept))


def write_pages(index: Path, store: Store, quick: bool) -> None:
    """Write a page per paper, of all experiments whose runs are finished (the others are named), and the index.

    The summary stands on the index once all it is made of is finished, and in the long form on the README too.
    """
    store.kept = figures_on_pages(index)
    runs = {name: experiment.runs(quick) for name, experiment in EXPERIMENTS.items()}
    minutes = store.seconds(run for part in runs.values() for run in part) / 60
    legend = LEGEND.format(unit=WITHOUT_DEVIATION)
    contents = "\n".join(f"- [{title}](results/{paper}.md)" for paper, title in PAPERS.items())
    tree = "\n".join(["```{toctree}", ":hidden:", *(f"results/{paper}" for paper in PAPERS), "```"])
    parts = [
        INTRODUCTION.format(command=_command(quick), legend=legend, minutes=minutes, contents=f"{contents}\n\n{tree}")
    ]
    for paper in PAPERS:
        page = page_path(index, paper)
        names = [name for name in EXPERIMENTS if paper_of(name) == paper]
        _write_page(page, paper, quick, {name: _section(page, store, quick, name) for name in names})
    whole = dict.fromkeys([*needed(), *(name for name, each in EXPERIMENTS.items() if each.keeps)])
    reports = {
        name: EXPERIMENTS[name].report(store, quick, index.parent / "results")
        for name in whole
        if _can_report(store, quick, name)
    }
    parts.append(reproduced({paper: title.partition(":")[0] for paper, title in PAPERS.items()}, reports, quick))
    if set(needed()) <= set(reports):
        table = summary(reports)
        if table:
            parts.append(put_between_marks(SUMMARY, table))
            if not quick and index.parent == ROOT / "docs":
                _write(ROOT / "README.md", put_between_marks((ROOT / "README.md").read_text(encoding="utf-8"), table))
    _write(index, "\n".join(parts))


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(path, "w") as file:
        file.write(text)
