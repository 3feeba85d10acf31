"""`make mutants`: would the tests notice? One small change of the core at a time, and the tests that touch it.

A sample of all changes that can be made to `kernels`, `solvers`, `metrics` and `io` (comparisons, signs, operators,
constants, conditions, extremes) is drawn with a seed. Each is put into a copy of the package and the tests of its
module run on it in a process of their own, without compilation (``NUMBA_DISABLE_JIT=1``), until the first fails. One
that no test notices survives, and is listed with its line. Memory estimates, work space, sizes of blocks, messages
and warnings are left alone.
"""

from __future__ import annotations

import ast
import copy
import importlib
import json
import math
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "bagwise"
UNION = ("test_union_posterior.py", "test_union_rates.py")
TESTS: dict[str, tuple[str, ...]] = {
    "union/_exact": UNION,
    "union/_pairs": ("test_union_pairs.py",),
    "union/_infer": (*UNION, "test_kernels_small.py", "test_calibration.py"),
    "union/_propagate": ("test_union_propagate.py", "test_union_rates.py"),
    "union/_problem": UNION,
    "kernels/hausdorff": ("test_kernels_hausdorff.py",),
    "kernels/smo": ("test_kernels_smo.py", "test_classification_mimlboost.py"),
    "kernels/forest": ("test_annotation_forest.py",),
    "kernels/pegasos": ("test_solvers_subgradient.py", "test_solvers_losses.py"),
    "kernels/ranking": ("test_metrics.py", "test_solvers_losses.py"),
    "kernels/segments": ("test_kernels_small.py", "test_solvers_aggregation.py", "test_clustering_m3ic.py"),
    "kernels/clusters": ("test_kernels_small.py", "test_clustering_m3ic.py", "test_clustering_cpm3c.py"),
    "kernels/cuts": (
        "test_kernels_small.py",
        "test_solvers_cutting_plane.py",
        "test_solvers_qp.py",
        "test_clustering_m3ic.py",
    ),
    "kernels/mimlfast": ("test_annotation_mimlfast.py",),
    "kernels/noisy_or": ("test_annotation_noisy_or.py",),
    "solvers/losses": ("test_solvers_losses.py", "test_solvers_subgradient.py"),
    "solvers/aggregation": ("test_solvers_aggregation.py", "test_solvers_subgradient.py", "test_clustering_m3ic.py"),
    "solvers/subgradient": ("test_solvers_subgradient.py", "test_annotation_sim.py"),
    "solvers/cutting_plane": ("test_solvers_cutting_plane.py", "test_clustering_m3ic.py"),
    "solvers/em": ("test_solvers_small.py", "test_annotation_ored.py", "test_annotation_lsbcmm.py"),
    "solvers/_frank_wolfe": (
        "test_solvers_small.py",
        "test_classification_m3miml.py",
    ),
    "solvers/_lbfgs": ("test_solvers_small.py", "test_annotation_ored.py", "test_annotation_clpl.py"),
    "solvers/medoids": ("test_clustering_bamic.py", "test_classification_mimlsvm.py"),
    "solvers/support": ("test_classification_m3miml.py", "test_clustering_m3ic.py"),
    "solvers/_qp": ("test_solvers_qp.py",),
    "metrics/_measures": ("test_metrics.py",),
    "metrics/_scorers": ("test_model_selection_searches.py",),
    "io/archive": ("test_io_model.py", "test_io_model_whole.py"),
    "io/files": (
        "test_io_files.py",
        "test_io_model.py",
        "test_io_model_whole.py",
        "test_io_data_memory.py",
        "test_io_data_bad_input.py",
        "test_io_labels.py",
    ),
    "io/data/_csv": ("test_io_data_formats.py", "test_io_data_bad_input.py"),
    "io/data/_long": ("test_io_data_formats.py", "test_io_data_bad_input.py"),
    "io/data/_npz": ("test_datasets_npz.py",),
    "io/labels": ("test_io_labels.py", "test_io_label_tables.py"),
}
"""Modules, and the tests that hold them; the first goes first."""
GROUPS = ("kernels", "solvers", "metrics", "io")
LARGE = ("large_bags", "sixty_four", "far_nearer", "estimate_is", "18-18", "40-24")
"""Parts of the names of tests that take minutes without compilation; smaller ones of the same stay."""
PATIENCE = 3.0  # times the seconds of the tests without a change, after which a loop is taken not to end

COMPARISONS: dict[type, type] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip
OPERATORS: dict[type, type] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Div, ast.Pow: ast.Mult,
    ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.LShift: ast.RShift, ast.RShift: ast.LShift,
}  # fmt: skip
NAMES = {
    "max": "min", "min": "max", "maximum": "minimum", "minimum": "maximum", "argmax": "argmin", "argmin": "argmax",
    "any": "all", "all": "any", "zeros": "ones", "ones": "zeros",
}  # fmt: skip
IMPORTED_ONCE = (
    "pytest", "numba", "joblib", "scipy.optimize", "scipy.special", "sklearn.linear_model", "sklearn.model_selection",
    "sklearn.pipeline", "sklearn.decomposition", "sklearn.svm", "sklearn.tree", "sklearn.cluster",
)  # fmt: skip
"""By the process that the tests' processes are copies of; not hypothesis, whose plugin wants to be first."""
LEFT_ALONE = {
    "check_allocation", "check_memory", "warn", "warn_caller", "njit", "simplefilter", "filterwarnings", "empty",
}  # fmt: skip
"""Calls that are not changed: what they are given decides about memory and messages, not about results."""


@dataclass(frozen=True)
class Change:
    """One change: where it is, as number of a node in the walk of its file, and which of its kinds."""

    module: str
    line: int
    what: str
    number: int


@dataclass(frozen=True)
class Outcome:
    change: Change
    caught: bool
    seconds: float
    reason: str


def changes_of(module: str) -> list[Change]:
    """All changes of a module."""
    tree = ast.parse((PACKAGE / f"{module}.py").read_text(encoding="utf-8"))
    return [Change(module, node.lineno, what, number) for number, (node, what, _) in enumerate(_places(tree))]


def changed_source(change: Change) -> str:
    """The text of the module with the change."""
    tree = ast.parse((PACKAGE / f"{change.module}.py").read_text(encoding="utf-8"))
    for number, (_, _, apply) in enumerate(_places(tree)):
        if number == change.number:
            apply()
            return ast.unparse(ast.fix_missing_locations(tree))
    raise ValueError(f"{change.module} has no change {change.number}")


def _places(tree: ast.AST) -> Iterator[tuple[Any, str, Any]]:
    """Nodes that can be changed, how, and what makes the change."""
    for node in list(_walk(tree)):
        if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in COMPARISONS:
            yield node, *_swap(node, "ops", [COMPARISONS[type(node.ops[0])]()])
        elif isinstance(node, (ast.BinOp, ast.AugAssign)) and type(node.op) in OPERATORS:
            yield node, *_swap(node, "op", OPERATORS[type(node.op)]())
        elif isinstance(node, ast.BoolOp):
            yield node, *_swap(node, "op", ast.Or() if isinstance(node.op, ast.And) else ast.And())
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            yield node, *_swap(node, "op", ast.UAdd())
        elif isinstance(node, (ast.If, ast.While, ast.IfExp)):
            yield node, *_swap(node, "test", ast.UnaryOp(ast.Not(), node.test))
        elif isinstance(node, ast.Attribute) and node.attr in NAMES:
            yield node, *_swap(node, "attr", NAMES[node.attr])
        elif isinstance(node, ast.Name) and node.id in NAMES:
            yield node, *_swap(node, "id", NAMES[node.id])
        elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
            yield node, *_swap(node, "value", not node.value)
        elif isinstance(node, ast.Constant) and isinstance(node.value, (int, float)) and _can_change(node.value):
            yield node, *_swap(node, "value", node.value + 1)


def _can_change(value: Any) -> bool:
    """Not so the size of a block or a limit, and not a number so large that one more is the same number."""
    return value + 1 != value and not (isinstance(value, int) and value > 64)


def _swap(node: Any, field: str, new: Any) -> tuple[str, Any]:
    old = getattr(node, field)

    def shown(value: Any) -> str:
        first = value[0] if isinstance(value, list) else value
        return type(first).__name__ if isinstance(first, ast.AST) else repr(first)

    def apply() -> None:
        setattr(node, field, new)

    what = "not" if field == "test" else f"{shown(old)} -> {shown(new)}"
    return what, apply


def _walk(node: ast.AST) -> Iterator[ast.AST]:
    """Nodes of the code that computes: no messages, annotations, decorators, imports and estimates of memory.

    And nothing that only asserts: `assert`, and ``strict=`` of a zip.
    """
    if isinstance(node, (ast.Raise, ast.JoinedStr, ast.Assert, ast.Import, ast.ImportFrom)):
        return
    if isinstance(node, ast.keyword) and node.arg == "strict":
        return
    if isinstance(node, ast.Call):
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if name in LEFT_ALONE:
            return
    yield node
    for field, value in ast.iter_fields(node):
        if field in ("annotation", "returns", "decorator_list", "type_params"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from _walk(child)


def sample(groups: tuple[str, ...], count: int, seed: int) -> list[Change]:
    """So many changes of each group, drawn with the seed, in the order of modules."""
    drawn: list[Change] = []
    for group in groups:
        everything = [change for module in TESTS if module.split("/")[0] == group for change in changes_of(module)]
        rng = random.Random(f"{group} {seed}")
        drawn += rng.sample(everything, min(count, len(everything)))
    return sorted(drawn, key=lambda change: (list(TESTS).index(change.module), change.number))


def run_tests(folder: Path, module: str, limit: float | None = None) -> tuple[int | None, float]:
    """Exit code of the tests of a module on the package in `folder`, None where they took longer than the limit.

    Limit and what they took are seconds of the processor, so that other work on the machine does not count.
    """
    child = os.fork()
    if child == 0:  # what is imported already need not be imported again
        os.setsid()
        _in_child(folder, TESTS[module], limit)
    _, status, used = os.wait4(child, 0)
    code = os.waitstatus_to_exitcode(status)
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(child, signal.SIGKILL)  # whatever it left
    return None if code in (-signal.SIGXCPU, -signal.SIGKILL) else code, used.ru_utime + used.ru_stime


def _in_child(folder: Path, tests: tuple[str, ...], limit: float | None) -> None:
    import pytest

    if limit is not None:
        before = resource.getrusage(resource.RUSAGE_SELF)
        seconds = math.ceil(limit + before.ru_utime + before.ru_stime)
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
    np.seterr(all="ignore")  # compiled code, which this stands for, does not warn
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 1)
    os.dup2(nothing, 2)
    sys.path.insert(0, str(folder))
    os.environ["PYTHONPATH"] = str(folder)
    code = 1
    try:
        paths = [str(ROOT / "tests" / name) for name in tests]
        small = " and ".join(f"not {name}" for name in LARGE)
        options = ["-x", "-q", "-n", "0", "-p", "no:cacheprovider", "--hypothesis-seed=0", "-k", small]
        code = int(pytest.main([*options, *paths]))
    finally:
        os._exit(code)


@click.command()
@click.option("--count", type=int, default=40, show_default=True, help="Changes of each group.")
@click.option("--group", "groups", type=click.Choice(GROUPS), multiple=True, help="Only these; by default all.")
@click.option("--module", "modules", multiple=True, help="Only changes of these modules, such as kernels/smo.")
@click.option("--seed", type=int, default=0, show_default=True)
@click.option("--out", type=click.Path(path_type=Path), default=Path("mutants.json"), show_default=True)
def main(count: int, groups: tuple[str, ...], modules: tuple[str, ...], seed: int, out: Path) -> None:
    """Change the core in small ways and see whether tests notice; prints the share and those that nobody noticed."""
    os.environ["NUMBA_DISABLE_JIT"] = "1"
    sys.dont_write_bytecode = True
    for name in IMPORTED_ONCE:
        importlib.import_module(name)
    drawn = [change for change in sample(groups or GROUPS, count, seed) if not modules or change.module in modules]
    outcomes: list[Outcome] = []
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        shutil.copytree(PACKAGE, folder / "bagwise", ignore=shutil.ignore_patterns("__pycache__", "*.nb[ic]"))
        limits: dict[tuple[str, ...], float] = {}
        for change in drawn:
            tests = TESTS[change.module]
            if tests not in limits:
                code, seconds = run_tests(folder, change.module)
                if code != 0:
                    raise SystemExit(f"{', '.join(tests)} fail without any change; there is nothing to learn.")
                limits[tests] = 10.0 + PATIENCE * seconds
            outcomes.append(_try(change, folder, limits[tests]))
            said = "caught  " if outcomes[-1].caught else "SURVIVED"
            click.echo(f"{said} {change.module}:{change.line} {change.what} ({outcomes[-1].seconds:.1f} s)")
            out.write_text(json.dumps([asdict(outcome) for outcome in outcomes], indent=1))
    _summarize(outcomes)


def _try(change: Change, folder: Path, limit: float) -> Outcome:
    path = folder / "bagwise" / f"{change.module}.py"
    whole = path.read_text(encoding="utf-8")
    try:
        path.write_text(changed_source(copy.copy(change)), encoding="utf-8")
        code, seconds = run_tests(folder, change.module, limit)
    finally:
        path.write_text(whole, encoding="utf-8")
    return Outcome(change, code != 0, seconds, "time" if code is None else f"exit code {code}")


def _summarize(outcomes: list[Outcome]) -> None:
    total = Counter(outcome.change.module.split("/")[0] for outcome in outcomes)
    caught = Counter(outcome.change.module.split("/")[0] for outcome in outcomes if outcome.caught)
    click.echo("")
    for group in total:
        click.echo(f"{group:<10} {caught[group]:>4} of {total[group]:>4} caught, {caught[group] / total[group]:.0%}")


if __name__ == "__main__":
    main()
