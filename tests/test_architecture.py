"""What may stand where in the house: the rooms of docs/architecture.md, and imports that point one way."""

import ast
import functools
import graphlib
import itertools
import re
from pathlib import Path

from benchmarks import house

import bagwise
from conftest import SLOW

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


def room_of(module):
    """The part of the house: a folder or a file of the library, or a folder of the application (`app.media`).

    Three folders hold two rooms each, one above the other; the page lists them.
    """
    parts = module.split(".")[1:]
    two = ".".join(parts[:2])
    return two if two in floors() or parts[:1] == ["app"] else "".join(parts[:1])


@functools.cache
def floors():
    """Room -> floor, as docs/architecture.md draws them."""
    lines = re.search(r"```floors\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)[1].splitlines()
    return {room: i for i, line in enumerate(lines) for room in line.split()}


def graph():
    return {name: {other for other in imported_by(path) if other in MODULES} - {name} for name, path in MODULES.items()}


def test_no_module_imports_itself_in_a_circle():
    graphlib.TopologicalSorter(graph()).prepare()


def test_imports_point_down_the_floors_of_the_page():
    """Rooms of one line never import each other, those of a line only from lines above it; every room stands there."""
    floor = floors()
    assert set(floor) == {room_of(name) for name in MODULES} - {"", "app"}
    wrong = [
        (name, other)
        for name, others in graph().items()
        for other in others
        if room_of(name) and room_of(other) not in ("", room_of(name)) and floor[room_of(other)] >= floor[room_of(name)]
    ]
    assert wrong == []


def test_no_room_imports_private_names_of_another():
    """A module or name that begins with an underscore is its room's own; files of the top are rooms."""
    wrong = []
    for module, path in MODULES.items():
        for node in ast.walk(tree_of(path)):
            if not isinstance(node, ast.ImportFrom) or not (node.module or "").startswith("bagwise."):
                continue
            names = [alias.name for alias in node.names if alias.name != "__version__"]
            parts = [*node.module.split(".")[2:], *names]
            if room_of(node.module) != room_of(module) and any(part.startswith("_") for part in parts):
                wrong.append((module, node.module, names))
    assert wrong == []


def test_the_picture_shows_every_room():
    """`python docs/draw_architecture.py` draws it again; a new room needs its purpose there."""
    picture = (PAGE.parent / "architecture.svg").read_text(encoding="utf-8")
    shown = set(re.findall(r'font-size="14"[^>]*>([\w.]+)</text>', picture))
    assert shown == {room.removeprefix("app.") for room in floors() if not room.startswith("_")}


def test_the_library_knows_nothing_of_the_application():
    """Not by an import and not by a name in a string or a docstring."""
    library = {path for name, path in MODULES.items() if name.split(".")[1:2] != ["app"] and name != "bagwise"}
    assert {path for path in library if "bagwise.app" in path.read_text(encoding="utf-8")} == set()


def test_the_application_imports_no_underscored_module_of_the_library():
    hidden = {name for name in MODULES if any(part.startswith("_") for part in name.split(".")[1:])} - {
        "bagwise._version"
    }
    wrong = {
        (name, other)
        for name, others in graph().items()
        for other in others & hidden
        if name.startswith("bagwise.app.") and not other.startswith("bagwise.app.")
    }
    assert wrong == set()


def test_a_public_name_means_one_thing():
    """Two definitions of one name lead astray whoever looks it up; commands of click are named as they are typed."""
    places = {}
    for module, path in MODULES.items():
        if not module.startswith("bagwise.app.cli.") and "._" not in module:
            for node in tree_of(path).body:
                if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_"):
                    places.setdefault(node.name, []).append(module)
    assert {name: modules for name, modules in places.items() if len(modules) > 1} == {}


def test_few_files_lie_loose_at_the_top():
    assert {path.name for path in HOUSE.glob("*.py")} == {
        "__init__.py", "_version.py", "catalog.py", "model_selection.py", "pipeline.py",
    }  # fmt: skip


def test_the_house_stays_within_its_limits():
    """Figures of `python -m benchmarks.house` that were brought down once and may not rise again."""
    limits = {
        "`# fmt: skip` in src": 30,
        "public definitions outside underscored modules": 600,
        "options shown by annotate --help": 22,
    }
    found = dict(house.static_counts())
    assert {name: found[name] for name, limit in limits.items() if found[name] > limit} == {}


def test_every_room_says_what_it_is_for():
    silent = [
        name for name, path in MODULES.items() if path.name == "__init__.py" and not ast.get_docstring(tree_of(path))
    ]
    assert silent == []


def test_compiled_code_is_in_kernels_only():
    compiled = {
        room_of(name) for name, path in MODULES.items() if any(n.startswith("numba") for n in imported_by(path))
    }
    assert compiled == {"kernels", "union"} & set(floors())


def test_optional_libraries_are_imported_in_one_room_each():
    """And inside of functions, so that a plain install starts without them."""
    rooms = {
        "soundfile": {"app.media"},
        "starlette": {"app.review"},
        "jinja2": {"app.report"},
        "narwhals": {"core"},
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
        if path.name == "_deadlines.py":  # a subclass of uvicorn's, imported by the server alone, where uvicorn is
            continue
        top = [node for node in tree_of(path).body if isinstance(node, ast.Import | ast.ImportFrom)]
        names = {alias.name for node in top if isinstance(node, ast.Import) for alias in node.names}
        names |= {node.module for node in top if isinstance(node, ast.ImportFrom) and node.module}
        heavy = {"soundfile", "PIL", "skimage", "jinja2", "matplotlib", "pyarrow", "narwhals", "starlette", "uvicorn"}
        assert not {name.split(".")[0] for name in names} & heavy, path


def test_every_file_of_slow_tests_is_there():
    """`make check` leaves out those that conftest.py names; one that was renamed would be run again."""
    tests = {path.stem for path in Path(__file__).parent.glob("test_*.py")}
    assert tests >= SLOW
