"""The review page's JavaScript under Node: syntax, lint, and unit tests of its pure parts (``tests/js``).

Skipped where Node is not installed: the page needs no build step, and `make test` no Node.
"""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

import bagwise

NODE = shutil.which("node")
STATIC = Path(bagwise.__file__).parent / "app" / "review" / "static"
REPORT = Path(bagwise.__file__).parent / "app" / "report"
TESTS = Path(__file__).parent / "js"
pytestmark = pytest.mark.skipif(NODE is None, reason="Node is not installed")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A copy of the page's modules and of their tests, which Node takes for modules here."""
    folder = tmp_path_factory.mktemp("js")
    shutil.copytree(STATIC, folder / "static")
    shutil.copytree(TESTS, folder, dirs_exist_ok=True)
    (folder / "package.json").write_text(json.dumps({"type": "module", "private": True}), encoding="utf-8")
    return folder


def node(*arguments, cwd):
    done = subprocess.run([NODE, *map(str, arguments)], cwd=cwd, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("path", [*sorted(STATIC.glob("*.js")), REPORT / "page.js"], ids=lambda path: path.name)
def test_syntax(folder, path):
    node("--check", folder / "static" / path.name if path.parent == STATIC else path, cwd=folder)


def test_lint(folder):
    node("lint.mjs", "static", cwd=folder)


def test_units(folder):
    node("--test", *sorted(path.name for path in folder.glob("*.test.mjs")), cwd=folder)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('import { none } from "./api.js";', "does not export it"),
        ("export const f = () => post(1);", "neither imported nor defined"),
        ("const left = 1;", "left is defined and not used"),
        ("export const f = (x) => x == 1;", "compares loosely"),
        ("document.body.innerHTML = 1;", "sets markup"),
        ('import { T } from "./texts.js";\nexport const f = T.nothing;', "no text T.nothing"),
    ],
)
def test_lint_finds(folder, tmp_path, line, words):
    shutil.copytree(folder, tmp_path / "js")
    (tmp_path / "js" / "static" / "wrong.js").write_text(line + "\n", encoding="utf-8")
    with pytest.raises(AssertionError, match=words):
        node("lint.mjs", "static", cwd=tmp_path / "js")
