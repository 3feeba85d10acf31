"""What may stand where in the house: the rooms of docs/architecture.md, and imports that point one way."""

import ast
import functools
import graphlib
import itertools
import re
from pathlib import Path

import bagwise

HOUSE = Path(bagwise.__file__).parent
PAGE = Path(__file__).parents[1] / "docs" / "architecture.md"
MODULES = {
    ".".join(["bagwise", *path.relative_to(HOUSE).with_suffix("").parts]).removesuffix(".__init__"): path
    for path in HOUSE.rglob("*.py")
}


@functools.cache
def tree_of(path):
    return ast.parse(path.read_text(encoding="utf-8"))


@functools.cache
def imported_by(path):
    """The modules that a file imports, also inside of functions; of a package the module that is meant.

    What the front door shows type checkers is not imported.
    """
    found, body = set(), tree_of(path).body
    if path == HOUSE / "__init__.py":
        body = [node for node in body if not isinstance(node, ast.If)]
    for node in itertools.chain.from_iterable(map(ast.walk, body)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= {name if name in MODULES else node.module for name in names}
    return found


WINGS = ("io.data", "io.annotations", "nn.network")


def room_of(module):
    """The part of the house: a folder or a file of the top floor; io and nn have wings on floors of their own."""
    parts = module.split(".")[1:]
    return ".".join(parts[:2]) if ".".join(parts[:2]) in WINGS else "".join(parts[:1])


def graph():
    return {name: {other for other in imported_by(path) if other in MODULES} - {name} for name, path in MODULES.items()}


def test_no_module_imports_itself_in_a_circle():
    graphlib.TopologicalSorter(graph()).prepare()


def test_imports_point_down_the_floors_of_the_page():
    """Rooms of one line never import each other, those of a line only from lines above it; every room stands there."""
    floors = re.search(r"```floors\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)[1].splitlines()
    floor = {room: i for i, line in enumerate(floors) for room in line.split()}
    assert set(floor) == {room_of(name) for name in MODULES} - {""}
    wrong = [
        (name, other)
        for name, others in graph().items()
        for other in others
        if room_of(name) and room_of(other) not in ("", room_of(name)) and floor[room_of(other)] >= floor[room_of(name)]
    ]
    assert wrong == []


def test_compiled_code_is_in_kernels_only():
    compiled = {
        room_of(name) for name, path in MODULES.items() if any(n.startswith("numba") for n in imported_by(path))
    }
    assert compiled == {"kernels"}


def test_optional_libraries_are_imported_in_one_room_each():
    """And inside of functions, so that a plain install starts without them."""
    rooms = {
        "soundfile": {"featurize"},
        "starlette": {"review"},
        "jinja2": {"report"},
        "narwhals": {"columns"},
        "torch": {"nn"},
        "distributed": {"scale"},
    }
    for library, expected in rooms.items():
        found = {
            room_of(name)
            for name, path in MODULES.items()
            if any(n.split(".")[0] == library for n in imported_by(path))
        }
        assert found == expected, library
    for path in MODULES.values():
        top = [node for node in tree_of(path).body if isinstance(node, ast.Import | ast.ImportFrom)]
        names = {alias.name for node in top if isinstance(node, ast.Import) for alias in node.names}
        names |= {node.module for node in top if isinstance(node, ast.ImportFrom) and node.module}
        heavy = {"soundfile", "PIL", "skimage", "jinja2", "matplotlib", "pyarrow", "narwhals", "starlette", "uvicorn"}
        assert not {name.split(".")[0] for name in names} & heavy, path
