"""What the documentation shows is what happens."""

import contextlib
import doctest
import importlib
import io
import pkgutil
import re
from pathlib import Path

import pytest

import bagwise

ROOT = Path(__file__).parents[1]
MODULES = sorted(m.name for m in pkgutil.walk_packages(bagwise.__path__, "bagwise.") if not m.name.endswith("__main__"))


def test_readme_example_prints_what_it_says():
    code = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)[1]
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "README.md", "exec"), {})
    # the words shown are drawn and fitted anew: a last bit may differ between machines, a letter or two with it
    shown = re.findall(r"'(\w+)'", code.rsplit("#", 1)[1])
    found = re.findall(r"'(\w+)'", printed.getvalue())
    assert len(found) == len(shown) == 6
    assert sum(a != b for one, other in zip(found, shown, strict=True) for a, b in zip(one, other, strict=True)) <= 4


def test_code_of_the_page_on_scikit_learn_runs():
    page = (ROOT / "docs" / "scikit-learn.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert len(blocks) >= 7
    names = {}
    for block in blocks:
        exec(compile(block, "docs/scikit-learn.md", "exec"), names)
    assert names["search"].best_estimator_[-1].coef_.shape == (3, 3)


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings(name):
    if name.startswith("bagwise.nn."):
        pytest.importorskip("torch", reason="torch is not there; make test-torch makes an environment with it")
    result = doctest.testmod(importlib.import_module(name), optionflags=doctest.NORMALIZE_WHITESPACE)
    assert result.failed == 0


@pytest.mark.parametrize(
    "page", sorted(p.relative_to(ROOT).as_posix() for p in [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")])
)
def test_links_lead_somewhere(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#]+)\)", text):
        if not target.startswith(("http:", "https:")):
            assert ((ROOT / page).parent / target).exists(), target
