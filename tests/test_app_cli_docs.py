"""The commands in the documentation, run in the folder of its example files: they print what the pages show."""

import contextlib
import doctest
import io
import re
import shlex
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from bagwise.app.cli import main
from bagwise.io.data.formats import FORMATS, guess_format, read_dataset

DOCS = Path(__file__).parents[1] / "docs"
EXAMPLES = DOCS / "formats" / "examples"
PAGES = sorted(p.relative_to(DOCS).as_posix() for p in [*DOCS.glob("formats/*.md"), DOCS / "command-line.md"])


def commands(text):
    """Pairs of command and what is shown below it."""
    for block in re.findall(r"```console\n(.*?)```", text, re.DOTALL):
        parts = re.split(r"^\$ (.*)\n", block, flags=re.MULTILINE)
        assert parts[0] == ""
        yield from zip(parts[1::2], parts[2::2], strict=True)


@pytest.mark.parametrize("page", PAGES)
def test_commands_print_what_is_shown(tmp_path, monkeypatch, page):
    shutil.copytree(EXAMPLES, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    same = doctest.OutputChecker().check_output
    for command, shown in commands((DOCS / page).read_text(encoding="utf-8")):
        program, *arguments = shlex.split(command)
        assert program == "bagwise"
        result = CliRunner().invoke(main, arguments)
        assert result.exit_code == (1 if shown.startswith("Error: ") else 0), result.output
        assert same(shown, result.output, doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE), (
            f"{command}\n{result.output}"
        )


def test_every_page_has_commands_and_every_format_a_page():
    text = {page: (DOCS / page).read_text(encoding="utf-8") for page in PAGES}
    assert all(list(commands(text[page])) for page in PAGES if page != "formats/tables.md")
    for name in FORMATS:
        assert f"| `{name}` |" in text["formats/README.md"]


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)\)", (DOCS / page).read_text(encoding="utf-8")):
        assert ((DOCS / page).parent / target).exists(), target


def test_examples_are_what_the_pages_say():
    expected = {
        "birds.csv": "csv", "birds.npz": "npz", "birds.parquet": "parquet", "birds-nested.parquet": "parquet-nested",
        "birds.arff": "arff", "birds-miml.csv": "miml-csv", "birds.mat": "lamda-mat", "wren.mat": "mil-mat",
        "wren.data": "musk",
    }  # fmt: skip
    assert sorted(expected.values()) == sorted(FORMATS)
    truth = read_dataset(EXAMPLES / "birds.csv")
    for file, name in expected.items():
        assert guess_format(EXAMPLES / file) == name
        data = read_dataset(EXAMPLES / file)
        assert data.bags == truth.bags
        assert data.Y[:, 0].tolist() == truth.Y[:, 0].tolist()
        if file.startswith("birds"):
            assert data.label_sets == truth.label_sets


def test_python_in_the_pages_prints_what_it_says():
    code = re.search(r"```python\n(.*?)```", (DOCS / "formats/tables.md").read_text(encoding="utf-8"), re.DOTALL)[1]
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "tables.md", "exec"), {})
    assert printed.getvalue().splitlines() == re.findall(r"^# (.*)$", code, re.MULTILINE)
