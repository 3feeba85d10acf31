"""What may stand where in the house."""

import ast
from pathlib import Path

import bagwise

HOUSE = Path(bagwise.__file__).parent


def imported_by(path):
    """The modules that a file imports, also inside of functions."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
    return found


def test_compiled_code_is_in_kernels_only():
    compiled = {
        path.relative_to(HOUSE).parts[0]
        for path in HOUSE.rglob("*.py")
        if any(name.partition(".")[0] == "numba" for name in imported_by(path))
    }
    assert compiled == {"kernels"}
