"""A report as text: for a terminal, in Markdown, and its tables as CSV and LaTeX."""

from __future__ import annotations

import csv
import io
import os
import re
from collections.abc import Iterable
from pathlib import Path

from bagwise.app.report.tables import format_table
from benchmarks.papers.data import SOURCES
from benchmarks.papers.experiment import Report
from benchmarks.papers.tables import Cell, Table

LEGEND = """\
Each cell: ours, then what the paper prints, then the difference. **Bold**: a two-tailed paired t-test at 95 % over the
folds does not tell it from our best of the column. A mark ▼ stands where ours is worse by more than one published
standard deviation (by more than {unit:g} where the paper prints none), ▲ where it is better by as much; the reasons
that are known stand below the table."""


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
    """Known reasons of marked and empty cells, each once with the data sets it is for.

    Those are columns or rows; where neither is one, the table is, whose `title` it is.
    """
    found: dict[str, list[str]] = {}
    for cell in cells:
        if cell.reason and cell.text is None and (cell.ours is None or cell.falls_short):
            names = found.setdefault(cell.reason, [])
            named = next((name for name in (cell.column, cell.row) if name in SOURCES), title or cell.row)
            data = title_of(named)
            if data not in names:
                names.append(data)
    return [f"{', '.join(names)}: {reason}." for reason, names in found.items()]


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
    parts = [title]
    for table in report.tables:
        headings, rows = grid_of(table, plain=True)
        parts.append(f"{table.title}\n\n{format_table(headings, rows, right=range(1, len(headings)))}")
        parts += reasons(table.cells, table.title)
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
    parts = [f"## {title}", f"`bagwise reproduce {name}`"]
    for table in report.tables:
        headings, rows = grid_of(table)
        lines = [[text.replace("|", r"\|") for text in line] for line in (headings, *rows)]
        lines.insert(1, ["---"] * len(headings))
        parts.append(f"{table.title}.")
        parts.append("\n".join("| " + " | ".join(line) + " |" for line in lines))
        known = reasons(table.cells, table.title)
        if known:
            parts.append("\n".join(f"- {line}" for line in known))
        chosen = chosen_settings(table.cells)
        if chosen:
            parts.append("Settings shown, the best of the grid:\n\n" + "\n".join(f"- {line}" for line in chosen))
    parts += report.notes
    parts += [f"![{what}]({os.path.relpath(path, page.parent)})\n\n{what}." for what, path in report.pictures]
    return "\n\n".join(parts) + "\n"
