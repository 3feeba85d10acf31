"""Run experiments, print them, and write the page."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from bagwise.core.exceptions import InputError
from bagwise.io.files import atomic_write
from benchmarks.papers.catalog import EXPERIMENTS
from benchmarks.papers.data import SOURCES, path_of
from benchmarks.papers.kinds import perform
from benchmarks.papers.page import INTRODUCTION, markdown_text, terminal_text, with_section
from benchmarks.papers.runs import Store, execute
from benchmarks.papers.summary import BEGIN, END, needed, put_between_marks, summary
from benchmarks.papers.tables import WITHOUT_DEVIATION

ROOT = Path(__file__).parents[2]
SUMMARY = f"""\
## Summary

For each data set the best of ours and the best that the papers print, of all methods that see the labels of bags only
(none, where bags are clustered). Settings are chosen as the papers choose them, by the figure shown; `ored`,
`ored-rbf`, `ored-forest` and, on HJA, where half of the instances carry no label, `ored-background` have one setting
for all data sets. The last column is the papers' best with every training instance labelled.

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


def reproduce(
    names: Iterable[str] = (),
    *,
    quick: bool = False,
    jobs: int = 1,
    out: Path | None = None,
    page_only: bool = False,
    say: Callable[[str], None] = print,
    progress: Callable[[str, int, int], None] | None = None,
) -> None:
    """Run what is not there yet, print every table, and write the page where all experiments were asked for.

    Parameters
    ----------
    names : names of experiments or papers
        None means all.
    quick : bool
        Few settings, folds and data sets; its page is written beside the runs, not into docs/.
    jobs : int
        Runs in parallel.
    out : path or None
        Folder of the runs (JSON lines) and, in the short form, of page and pictures; ``papers-output`` by default.
    page_only : bool
        Run nothing: write the page from what is finished; where names are given, their sections alone.
    say : callable
        Given the text of every experiment.
    progress : callable or None
        Called with what was done, how many are, and how many there are.
    """
    chosen = select(names)
    folder = out if out is not None else ROOT / "papers-output"
    store = Store(folder / ("runs-quick.jsonl" if quick else "runs.jsonl"))
    page = folder / "results.md" if quick else ROOT / "docs" / "results.md"
    if not quick and not any(path_of(name) for name in SOURCES):
        raise InputError(
            "None of the papers' data sets is there; set --data or BAGWISE_DATA to their folder (docs/data.md says "
            "what belongs there). The page is left as it is; --quick prints the published figures alone."
        )
    if page_only:
        if len(chosen) == len(EXPERIMENTS):
            write_page(page, store, quick)
        else:
            write_sections(page, store, quick, chosen)
        say(f"wrote {page}")
        return
    runs = {name: EXPERIMENTS[name].runs(quick) for name in chosen}
    wanted = {run.key: run for name in chosen for run in runs[name]}
    waiting = {name: {run.key for run in runs[name] if run not in store} for name in chosen}
    n_done = sum(run in store for run in wanted.values())
    # All runs go into one queue, so that no core waits for the last run of a table.
    _tell_finished(waiting, store, quick, page, say)
    for run in execute(wanted.values(), store, perform, jobs=jobs):
        n_done += 1
        if progress is not None:
            progress(str(run), n_done, len(wanted))
        for keys in waiting.values():
            keys.discard(run.key)
        if _tell_finished(waiting, store, quick, page, say) and len(chosen) == len(EXPERIMENTS):
            write_page(page, store, quick)
    if len(chosen) == len(EXPERIMENTS):
        write_page(page, store, quick)
        say(f"wrote {page}")


def _tell_finished(
    waiting: dict[str, set[str]], store: Store, quick: bool, page: Path, say: Callable[[str], None]
) -> list[str]:
    """Print the experiments that wait for no run any more and take them off the list."""
    finished = [name for name, keys in waiting.items() if not keys]
    for name in finished:
        experiment = EXPERIMENTS[name]
        say(terminal_text(experiment.title, experiment.report(store, quick, page.parent / "results")))
        del waiting[name]
    return finished


def write_sections(page: Path, store: Store, quick: bool, names: Iterable[str]) -> None:
    """Write the sections of these experiments into the page that is there; the others stay as they are."""
    if not page.is_file():
        raise InputError(f"There is no page {page} to write sections into; write the whole page first, without names.")
    text = page.read_text(encoding="utf-8")
    for name in names:
        text = with_section(text, EXPERIMENTS[name].title, _section(page, store, quick, name))
    _write(page, text)


def _section(page: Path, store: Store, quick: bool, name: str) -> str:
    """A section of the page; where runs are missing, a line that says so."""
    experiment = EXPERIMENTS[name]
    if not _can_report(store, quick, name):
        return f"## {experiment.title}\n\n`bagwise reproduce {name}` has not been run to its end yet.\n"
    return markdown_text(experiment.title, name, experiment.report(store, quick, page.parent / "results"), page)


def _can_report(store: Store, quick: bool, name: str) -> bool:
    experiment = EXPERIMENTS[name]
    finished = [run in store for run in experiment.runs(quick)]
    return all(finished) or (experiment.partial and any(finished))


def write_page(page: Path, store: Store, quick: bool) -> None:
    """Write the sections of all experiments whose runs are finished; the others are named.

    The summary stands at the top once all it is made of is finished, and in the long form on the README too.
    """
    command = "make papers QUICK=1" if quick else "make papers"
    runs = {name: experiment.runs(quick) for name, experiment in EXPERIMENTS.items()}
    reports = {
        name: experiment.report(store, quick, page.parent / "results")
        for name, experiment in EXPERIMENTS.items()
        if _can_report(store, quick, name)
    }
    minutes = store.seconds(run for part in runs.values() for run in part) / 60
    parts = [INTRODUCTION.format(command=command, unit=WITHOUT_DEVIATION, minutes=minutes)]
    table = summary(reports) if all(name in reports for name in needed()) else ""
    if table:
        parts.append(put_between_marks(SUMMARY, table))
        if not quick:
            _write(ROOT / "README.md", put_between_marks((ROOT / "README.md").read_text(encoding="utf-8"), table))
    parts += [_section(page, store, quick, name) for name in EXPERIMENTS]
    page.parent.mkdir(parents=True, exist_ok=True)
    _write(page, "\n".join(parts))


def _write(path: Path, text: str) -> None:
    with atomic_write(path, "w") as file:
        file.write(text)
