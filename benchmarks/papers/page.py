"""A report as text: for a terminal, in Markdown, and its tables as CSV and LaTeX."""

from __future__ import annotations

import csv
import io
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from bagwise.app.report.tables import format_table
from benchmarks.papers.data import SOURCES
from benchmarks.papers.experiment import Report
from benchmarks.papers.tables import Cell, Table

LEGEND = """\
Each cell: ours, then what the paper prints, then the difference. **Bold**: a two-tailed paired t-test at 95 % over the
folds does not tell it from our best of the column. A mark ▼ stands where ours is worse by more than one published
standard deviation (by more than {unit:g} where the paper prints none), ▲ where it is better by as much; the reasons
that are known stand below the table."""
KEPT = (
    "† Figures of an earlier run of the same method on the same data and folds, with this grid or a part of it, "
    "whose "
    "single folds were not kept: in their columns no new t-test was made."
)
EARLIER = (
    "*This section is as an earlier run left it: its runs, or settings that are new since, have not been computed yet.*"
)


def cell_text(cell: Cell, digits: int, plain: bool = False) -> str:
    """One cell; `plain` for a terminal."""
    if cell.text is not None:
        return cell.text
    published = "-" if cell.published is None else f"{cell.published:,.{digits}f}"
    if cell.ours is None:
        return f"- / {published}"
    ours = f"{cell.ours:,.{digits}f}"
    if cell.best and not plain:
        ours = f"**{ours}**"
    if cell.kept:
        ours += "†"
    spread = "" if cell.deviation is None else f" ± {cell.deviation:.{digits}f}"
    if not cell.beside:
        return f"{ours}{spread}"
    difference = "" if cell.difference is None else f" ({cell.difference:+,.{digits}f})"
    mark = " ▼" if cell.falls_short else " ▲" if cell.stands_out else ""
    return f"{ours}{spread} / {published}{difference}{mark}"


def title_of(name: str) -> str:
    return SOURCES[name].title if name in SOURCES else name


def grid_of(table: Table, plain: bool = False) -> tuple[list[str], list[list[str]]]:
    """Headings and rows."""
    cells = {(cell.row, cell.column): cell for cell in table.cells}
    rows = [
        [
            title_of(row),
            *(
                cell_text(cells[row, column], table.digits, plain) if (row, column) in cells else ""
                for column in table.columns
            ),
        ]
        for row in table.rows
    ]
    return ["", *map(title_of, table.columns)], rows


def reasons(cells: Iterable[Cell], title: str = "") -> list[str]:
    """Known reasons of marked and empty cells, each once with the rows and data sets it is for.

    Data sets are columns or rows; where neither is one, the table is, whose `title` it is.
    """
    found: dict[str, dict[str, list[str]]] = {}
    for cell in cells:
        if cell.text is not None:
            continue
        reason = cell.gain if cell.stands_out else cell.reason if cell.ours is None or cell.falls_short else None
        if not reason:
            continue
        data, other = next(
            ((n, o) for n, o in ((cell.column, cell.row), (cell.row, cell.column)) if n in SOURCES), (title, cell.row)
        )
        mark = "" if cell.ours is None else "▲ " if cell.stands_out else "▼ "
        names = found.setdefault(f"{mark}{reason}", {}).setdefault(title_of(data), [])
        if other not in names:
            names.append(other)
    lines = []
    for reason, of_data in found.items():
        merged: dict[tuple[str, ...], list[str]] = {}  # rows -> the data sets that share them
        for data, names in of_data.items():
            merged.setdefault(tuple(names), []).append(data)
        named = "; ".join(f"{', '.join(data)} ({', '.join(names)})" for names, data in merged.items())
        lines.append(f"{named}: {reason}.")
    return lines


def not_all_settings(cells: Iterable[Cell]) -> list[str]:
    """Which cells show the best of a part of their grid."""
    found: dict[tuple[int, int], list[str]] = {}
    for cell in cells:
        if cell.settings_run is not None:
            found.setdefault(cell.settings_run, []).append(f"{cell.row} on {title_of(cell.column)}")
    return [
        f"The best of {n} of the grid's {of} settings so far: {', '.join(rows)}." for (n, of), rows in found.items()
    ]


FIGURES = re.compile(
    r"(?P<bold>\*\*)?(?P<ours>-?[\d,]+(?:\.\d+)?)(?:\*\*)?†?(?: ± (?P<deviation>[\d.]+))? / (?:-|[\d,.]+)"
)


def figures_on(page: str, paper: str) -> dict[tuple[str, ...], dict[str, Any]]:
    """Ours on a page that is there: (paper, table, row, column) -> what `Store.earlier` puts into a cell."""
    found: dict[tuple[str, ...], dict[str, Any]] = {}
    for title, text in re.findall(r"^([^\n|]+)\.\n\n(\|.+?)(?:\n\n|\Z)", page, re.MULTILINE | re.DOTALL):
        head, _, *rows = [
            [cell.strip().replace(r"\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
            for line in text.splitlines()
        ]
        for row, *cells in rows:
            for column, text_ in zip(head[1:], cells, strict=True):
                match = FIGURES.match(text_)
                if match is None:
                    continue
                deviation = match["deviation"]
                known = {
                    "ours": float(match["ours"].replace(",", "")), "best": bool(match["bold"]),
                    "deviation": None if deviation is None else float(deviation),
                }  # fmt: skip
                for r in _names_of(row):
                    for c in _names_of(column):
                        found[paper, title, r, c] = known
    return found


def _names_of(title: str) -> list[str]:
    """What is shown by this title: data sets have one, "Letter-Carroll" two."""
    return [name for name, source in SOURCES.items() if source.title == title] or [title]


def chosen_settings(cells: Iterable[Cell]) -> list[str]:
    """What was chosen from the grid, one line per method: each setting once, with the data sets it is for."""
    found: dict[str, dict[str, list[str]]] = {}
    for cell in cells:
        if cell.setting and cell.ours is not None:
            found.setdefault(cell.row, {}).setdefault(cell.setting, []).append(title_of(cell.column))
    return [
        f"{title_of(row)}: " + "; ".join(f"{setting} ({', '.join(names)})" for setting, names in settings.items())
        for row, settings in found.items()
    ]


def slug(title: str) -> str:
    """The anchor of a heading, as GitHub and MyST make it."""
    kept = "".join(each for each in title.lower() if each.isalnum() or each in " -_")
    return kept.replace(" ", "-")


def csv_text(table: Table) -> str:
    """One row per cell: method, data set, ours and its deviation, published and its deviation, the setting chosen."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(
        ["row", "column", "ours", "deviation", "published", "published_deviation", "setting", "reason", "text"]
    )
    for cell in table.cells:
        numbers = (cell.ours, cell.deviation, cell.published, cell.published_deviation)
        shown = ["" if number is None else f"{number:.6g}" for number in numbers]
        writer.writerow([cell.row, cell.column, *shown, cell.setting, cell.reason or "", cell.text or ""])
    return out.getvalue()


def latex_text(table: Table) -> str:
    """A tabular (booktabs): ours, and in parentheses what the paper prints."""
    headings, rows = grid_of(table, plain=True)
    escaped = [[re.sub(r"([&%#_$])", r"\\\1", text) for text in line] for line in (headings, *rows)]
    escaped = [[text.replace("±", r"$\pm$").replace("▼", r"$\blacktriangledown$").replace("▲", r"$\blacktriangle$")
                for text in line] for line in escaped]  # fmt: skip
    lines = [" & ".join(line) + r" \\" for line in escaped]
    return "\n".join(
        [f"% {table.title}", rf"\begin{{tabular}}{{l{'r' * (len(headings) - 1)}}}", r"\toprule", lines[0], r"\midrule",
         *lines[1:], r"\bottomrule", r"\end{tabular}", ""]
    )  # fmt: skip


def terminal_text(title: str, report: Report) -> str:
    """A report for the terminal."""
    parts = [title, *report.about]
    for table in report.tables:
        headings, rows = grid_of(table, plain=True)
        parts.append(f"{table.title}\n\n{format_table(headings, rows, right=range(1, len(headings)))}")
        parts += [*reasons(table.cells, table.title), *not_all_settings(table.cells)]
    parts += report.notes
    parts += [f"wrote {path}" for _, path in report.pictures]
    return "\n\n".join(parts) + "\n"


def sections_of(page: str) -> dict[str, str]:
    """The sections of a page by the names of their experiments, each with its heading."""
    found = {}
    for section in page.split("\n## ")[1:]:
        name = re.search(r"`bagwise reproduce ([\w-]+)`", section)
        if name is not None:
            found[name[1]] = f"## {section.rstrip()}\n"
    return found


def markdown_text(title: str, name: str, report: Report, page: Path) -> str:
    """A section of the page."""
    parts = [f"## {title}", f"`bagwise reproduce {name}`", *report.about]
    for table in report.tables:
        headings, rows = grid_of(table)
        lines = [[text.replace("|", r"\|") for text in line] for line in (headings, *rows)]
        lines.insert(1, ["---"] * len(headings))
        parts.append(f"{table.title}.")
        parts.append("\n".join("| " + " | ".join(line) + " |" for line in lines))
        known = [*reasons(table.cells, table.title), *not_all_settings(table.cells)]
        if any(cell.kept for cell in table.cells):
            known.append(KEPT)
        if known:
            parts.append("\n".join(f"- {line}" for line in known))
        chosen = chosen_settings(table.cells)
        if chosen:
            parts.append("Chosen settings:\n\n" + "\n".join(f"- {line}" for line in chosen))
    parts += report.notes
    parts += [f"![{what}]({os.path.relpath(path, page.parent)})\n\n{what}." for what, path in report.pictures]
    return "\n\n".join(parts) + "\n"
