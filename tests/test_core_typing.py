"""Types for users: a script that is checked strictly and run, and a front door that shows type checkers every name."""

import ast
import os
import runpy
import subprocess
import sys
from importlib import resources
from pathlib import Path

import pytest

import bagwise

SCRIPT = Path(__file__).parent / "user_script.py"


def test_a_users_script_passes_the_strictest_checks(tmp_path):
    """And one with mistakes does not, so that the types are there and are not Any."""
    pytest.importorskip("mypy")
    wrong = tmp_path / "wrong.py"
    wrong.write_text(
        "from bagwise import Bags, ORedLogisticRegression, make_pipeline, metrics, save\n"
        "count: int = metrics.hamming_loss([[1]], [[1]])\n"
        "ORedLogisticRegression(l2='much')\n"
        "ORedLogisticRegression().fit(Bags([[1.0]], [0, 1]), [{'a'}], callback=3)\n"
        "make_pipeline(3)\n"
        "save('model', 'file')\n"
    )
    result = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", "--cache-dir", str(tmp_path / "cache"),
         str(SCRIPT), str(wrong)],
        capture_output=True, text=True, cwd=SCRIPT.parents[1], check=False,
        env={**os.environ, "MYPYPATH": str(Path(bagwise.__file__).parents[1])},
    )  # fmt: skip
    found = [line.split(":")[:2] for line in result.stdout.splitlines() if " error: " in line]
    assert [Path(file).name for file, _ in found] == ["wrong.py"] * 5, result.stdout + result.stderr
    assert [int(row) for _, row in found] == [2, 3, 4, 5, 6]


def test_the_script_runs():
    found = runpy.run_path(str(SCRIPT))["main"]()
    assert found["same"] == found["chosen"] == 1.0
    assert found["bags"] == 35.0
    assert found["right"] > 0.5


def test_the_package_says_that_it_is_typed():
    assert resources.files("bagwise").joinpath("py.typed").is_file()


def test_type_checkers_see_what_can_be_imported():
    tree = ast.parse(Path(bagwise.__file__).read_text(encoding="utf-8"))
    block = next(node for node in tree.body if isinstance(node, ast.If))
    shown = {alias.name for node in block.body for alias in node.names}
    assert shown == {*bagwise._NAMES, *bagwise._MODULES}
    assert {*bagwise.__all__} == {*shown, "__version__"}
    modules = {node.module: {alias.name for alias in node.names} for node in block.body}
    for name, module in bagwise._NAMES.items():
        assert name in modules[module]
