"""Draw docs/architecture.svg from the floors of docs/architecture.md:  python docs/draw_architecture.py"""

import re
from pathlib import Path

DOCS = Path(__file__).parent
PURPOSE = {
    "core": "bags, labels, checks, errors", "kernels": "compiled code", "pipeline": "pipelines, bag tags",
    "metrics": "measures, scorers", "solvers": "optimizers, losses", "preprocessing": "transformers of instances",
    "inspection": "which features matter",
    "plotting": "displays",
    "calibration": "probabilities, novelty", "model_selection": "evaluate, search", "nn": "tensors (torch)",
    "io": "model file, files of bags", "annotation": "label instances",
    "classification": "label bags", "clustering": "group bags", "catalog": "named models",
    "datasets": "load, make", "scale": "pieces, Dask", "union": "likelihood of label sets",
    "app.networks": "networks from elsewhere, each in a process",
    "app.media": "recordings, images, texts, series to bags",
    "app.formats": "Raven, Audacity, COCO, Label Studio, ...", "app.labels": "label tables, selections",
    "app.report": "summaries and pages", "app.runs": "Run: create, open, correct, refit",
    "app.review": "the local page",
    "app.demo": "bagwise demo", "app.cli": "the command line",
}  # fmt: skip
WIDTH, MARGIN, GAP, BOX, STEP, HEAD = 960, 24, 10, 44, 54, 34
COLORS = {"app": ("#fdf1e2", "#b4640f"), "library": ("#e6f0f7", "#1f5f8b")}


def floors() -> list[list[str]]:
    """Rooms, floor by floor from the ground."""
    text = (DOCS / "architecture.md").read_text(encoding="utf-8")
    lines = re.search(r"```floors\n(.*?)```", text, re.DOTALL)[1].splitlines()
    return [[room for room in line.split() if not room.startswith("_")] for line in lines]


def rect(x: float, y: float, width: float, height: float, look: str) -> str:
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" {look}/>'


def words(x: float, y: float, look: str, content: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" {look}>{content}</text>'


def draw() -> str:
    rows = floors()[::-1]
    parts, y = [], float(MARGIN)
    for storey, title in (("app", "the application: bagwise.app"), ("library", "the library: import bagwise")):
        own = [row for row in rows if row and row[0].startswith("app.") == (storey == "app")]
        fill, stroke = COLORS[storey]
        parts.append(rect(MARGIN, y, WIDTH - 2 * MARGIN, HEAD + STEP * len(own), f'rx="8" fill="{fill}"'))
        parts.append(words(MARGIN + 14, y + 23, f'font-size="15" font-weight="bold" fill="{stroke}"', title))
        y += HEAD
        for row in own:
            width = (WIDTH - 2 * MARGIN - 2 * 14 - GAP * (len(row) - 1)) / len(row)
            for i, room in enumerate(row):
                x = MARGIN + 14 + i * (width + GAP)
                middle, center = x + width / 2, 'text-anchor="middle"'
                parts.append(rect(x, y, width, BOX, f'rx="5" fill="#ffffff" stroke="{stroke}"'))
                bold = f'{center} font-size="14" font-weight="bold" fill="#222222"'
                parts.append(words(middle, y + 19, bold, room.removeprefix("app.")))
                parts.append(words(middle, y + 35, f'{center} font-size="11.5" fill="#555555"', PURPOSE[room]))
            y += STEP
        y += 14
    rule = "imports point down; rooms of one row never import each other"
    parts.append(words(WIDTH / 2, y + 8, 'text-anchor="middle" font-size="12" fill="#555555"', rule))
    y += 24
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y:.0f}" width="{WIDTH}" height="{y:.0f}" '
        'role="img" font-family="Helvetica, Arial, sans-serif">\n'
        "<title>The two storeys of bagwise and their rooms</title>\n"
        f'<rect width="{WIDTH}" height="{y:.0f}" rx="10" fill="#ffffff"/>'
    )
    return "\n".join([head, *parts, "</svg>"]) + "\n"


if __name__ == "__main__":
    (DOCS / "architecture.svg").write_text(draw(), encoding="utf-8")
