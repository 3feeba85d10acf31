"""Count what makes the house hard to take over: code, names, old words, and the files that one job leads through.

    python -m benchmarks.house            all counts, as a table
    python -m benchmarks.house --static   those that need no run

Tokens of code are those of Python's tokenizer without docstrings, comments, line ends and indentation, so that layout
is free. A file counts as visited by a job when one of its functions runs in it, on one thread and without processes.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tempfile
import tokenize
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
HOUSE = ROOT / "src" / "bagwise"
OLD_WORDS = (
    r"told", r"anew", r"mend(?:ed|s|ing)?", r"forgotten", r"strangers?", r"borne out", r"unlike anything",
    r"as good as", r"missed_pays", r"query_order", r"beside", r"likeness", r"medium", r"made up", r"cannot be had",
    r"doubt(?:s|ful)?", r"witness(?:ed)?", r"promise[sd]?",
)  # fmt: skip
WORST = OLD_WORDS[:8]
TEXT = {".py", ".js", ".html", ".j2", ".md", ".rst", ".css"}
LAYOUT = {
    tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING,
    tokenize.ENDMARKER,
}  # fmt: skip
GENERATED = ("_build", "auto_examples", "generated", "experiments")
N_RECORDINGS = 12


# -- what stands in the files -----------------------------------------------------------------------------------------


def sources() -> Iterator[tuple[Path, str]]:
    """Every module of the package and its text."""
    for path in sorted(HOUSE.rglob("*.py")):
        yield path, path.read_text(encoding="utf-8")


def code_tokens(text: str) -> int:
    """Tokens of code in a module."""
    docstrings = {
        (node.value.lineno, node.value.col_offset)
        for parent in ast.walk(ast.parse(text))
        if isinstance(getattr(parent, "body", None), list)
        for node in parent.body
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    }
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return sum(token.type not in LAYOUT and token.start not in docstrings for token in tokens)


def public_definitions(path: Path, text: str) -> int:
    """Functions and classes at the top of a module whose path has no underscore, those with one left out."""
    if any(part.startswith("_") and part != "__init__.py" for part in path.relative_to(HOUSE).parts):
        return 0
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    return sum(isinstance(node, kinds) and not node.name.startswith("_") for node in ast.parse(text).body)


def old_words() -> Counter[str]:
    """How often each word that DESIGN replaced stands in src, docs and README; papers' experiments are not read."""
    pages = [path for root in (HOUSE, ROOT / "docs") for path in root.rglob("*") if path.suffix in TEXT]
    counts: Counter[str] = Counter()
    for path in [*pages, ROOT / "README.md"]:
        if any(part in GENERATED for part in path.parts):
            continue
        text = path.read_text(encoding="utf-8")
        for word in OLD_WORDS:
            counts[word] += len(re.findall(rf"\b{word}\b", text, re.IGNORECASE))
    return counts


def static_counts() -> list[tuple[str, int]]:
    texts = list(sources())
    words = old_words()
    loose = [path for path in HOUSE.glob("*.py") if path.name not in ("__init__.py", "_version.py")]
    return [
        ("tokens of code in src", sum(code_tokens(text) for _, text in texts)),
        ("`# fmt: skip` in src", sum(text.count("# fmt: skip") for _, text in texts)),
        ("modules", len(texts)),
        ("files loose at the top of the package", len(loose)),
        ("public definitions outside underscored modules", sum(public_definitions(*pair) for pair in texts)),
        ("worst words of the old dialect", sum(words[word] for word in WORST)),
        *[(f"  {word}", count) for word, count in words.most_common() if count],
        ("options shown by annotate --help", shown_options()),
    ]


def shown_options() -> int:
    import click

    from bagwise.app.cli.main import main

    command = main.commands["annotate"]
    return sum(isinstance(each, click.Option) and not each.hidden for each in command.params) + 1  # and --help


# -- what runs ----------------------------------------------------------------------------------------------------


@contextmanager
def visits() -> Iterator[set[str]]:
    """The files of the package in which a function begins while the block runs."""
    seen: set[str] = set()
    prefix = str(HOUSE)

    def note(frame: Any, event: str, argument: Any) -> None:
        if event == "call" and frame.f_code.co_name != "<module>" and frame.f_code.co_filename.startswith(prefix):
            seen.add(frame.f_code.co_filename)

    sys.setprofile(note)
    try:
        yield seen
    finally:
        sys.setprofile(None)


OPENED: list[str] = []


def watch_opens() -> None:
    """From here on `OPENED` has the path of every file that is opened, by libsndfile too."""
    import soundfile

    sys.addaudithook(lambda event, arguments: OPENED.append(str(arguments[0])) if event == "open" else None)
    plain: Callable[..., Any] = soundfile.SoundFile.__init__

    def counted(self: Any, file: Any, *rest: Any, **options: Any) -> None:
        if isinstance(file, str | Path):
            OPENED.append(str(file))
        plain(self, file, *rest, **options)

    soundfile.SoundFile.__init__ = counted


def opens_per_recording(paths: list[str]) -> float:
    counts = Counter(path for path in paths if path.endswith(".wav"))
    return max(counts.values(), default=0)


def dynamic_counts() -> list[tuple[str, float]]:
    import bagwise
    from bagwise import ORedLogisticRegression
    from bagwise.calibration import CalibratedAnnotator
    from bagwise.datasets import make_gaussian_bags, make_soundscape

    watch_opens()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        sounds, labels, _ = make_soundscape(N_RECORDINGS, seconds=4.0, random_state=0).write(folder / "sounds")
        bagwise.Run.create(sounds, folder / "warm", labels=labels, jobs=1).close()  # imports and kernels
        OPENED.clear()
        with visits() as annotate:
            run = bagwise.Run.create(sounds, folder / "run", labels=labels, jobs=1)
        opened = opens_per_recording(OPENED)
        row = next(row for row in run.annotations() if row["label"])
        run.correct([(row["bag"], row["instance"], "")])
        OPENED.clear()
        with visits() as refit:
            run.refit()
        opened_by_refit = opens_per_recording(OPENED)
        run.close()
    made = make_gaussian_bags(n_bags=60, random_state=0)
    model = CalibratedAnnotator(ORedLogisticRegression(background=True))
    with visits() as fit:
        model.fit(made.bags, made.Y)
    return [
        (f"files visited: annotate of {N_RECORDINGS} recordings", len(annotate)),
        ("files visited: refit", len(refit)),
        ("files visited: ORed fit with background and calibration", len(fit)),
        ("times a recording is opened in one annotate", opened),
        ("times a recording is opened in one refit", opened_by_refit),
    ]


def main() -> None:
    rows: list[tuple[str, float]] = list(static_counts())
    if "--static" not in sys.argv[1:]:
        rows += dynamic_counts()
    width = max(len(what) for what, _ in rows)
    for what, count in rows:
        print(f"{what:<{width}}  {count:>9,}")


if __name__ == "__main__":
    main()
