"""The tool of `make mutants`: what it changes, and that the tests of every module are known."""

import ast
import random

from benchmarks.mutants import PACKAGE, ROOT, TESTS, changed_source, changes_of, run_tests, sample


def test_every_module_of_kernels_and_solvers_has_its_tests():
    files = {
        f"{folder}/{path.stem}"
        for folder in ("kernels", "solvers", "metrics")
        for path in (PACKAGE / folder).glob("*.py")
        if path.stem not in ("__init__", "_cache", "result")
    }
    assert files == {module for module in TESTS if module.startswith(("kernels/", "solvers/", "metrics/"))}
    assert all((ROOT / "tests" / name).is_file() for names in TESTS.values() for name in names)
    assert all((PACKAGE / f"{module}.py").is_file() for module in TESTS)


def test_a_change_is_one_change():
    """Of every kind some: the text parses, and differs from the whole in one node and nowhere else."""
    drawn = random.Random(0).sample(sample(("kernels", "solvers", "metrics", "io"), 30, 0), 40)
    assert len({change.what for change in drawn}) > 10
    for change in drawn:
        whole = ast.parse((PACKAGE / f"{change.module}.py").read_text(encoding="utf-8"))
        mutant = ast.parse(changed_source(change))
        one, other = ast.unparse(whole).splitlines(), ast.unparse(mutant).splitlines()
        assert len(one) == len(other)
        assert sum(a != b for a, b in zip(one, other, strict=True)) == 1, change


def test_messages_and_estimates_of_memory_are_left_alone():
    for module in ("metrics/_measures", "kernels/hausdorff"):
        lines = (PACKAGE / f"{module}.py").read_text(encoding="utf-8").splitlines()
        assert not any(lines[change.line - 1].lstrip().startswith("raise ") for change in changes_of(module))


def test_a_sample_is_drawn_with_its_seed():
    assert sample(("metrics",), 10, 1) == sample(("metrics",), 10, 1)
    assert sample(("metrics",), 10, 1) != sample(("metrics",), 10, 2)


def test_tests_that_take_too_long_are_cut_off(tmp_path):
    """So is a change that makes a loop endless."""
    code, _ = run_tests(tmp_path, "kernels/smo", 0.01)
    assert code is None
