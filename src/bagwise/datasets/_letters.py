"""A text as a multi-instance multi-label data set: a bag for each word, an instance for the image of each letter."""

from __future__ import annotations

import re
import string
import unicodedata
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy import ndimage
from sklearn.utils import gen_batches

from bagwise.core.bags import Bags, offsets_of
from bagwise.core.dataset import BagDataset, as_column
from bagwise.core.exceptions import InputError
from bagwise.core.typing import Seed

# Written for this project; every letter of the alphabet occurs at least five times.
TEXT = """
Before the sun lifts over the quiet fields, a lark begins. She climbs on a thin silver thread of song and
hangs there, juggling her small quick notes, while the fox goes home along the ditch. We sit by the gate
with a box of wires and a jar of cold coffee, and we listen. A wren answers from the hazel, sharp and dizzy,
six bars and a quaver. Next a jay, jarring and vexed, squawks at nobody. Two finches mix their voices in the
hedge, and a goldcrest buzzes, so high that only the young hear it. Which throat sang which phrase? The tape
does not say. It keeps one long breath of morning, everyone at once, and the page beside it holds a bare
list of names. So we play it back, and back again, and puzzle each voice loose: this zigzag is the wren,
that jumble is a lark, the hoarse exclaiming is the jay. By noon the maize stands still, the quails doze,
and the index is done. Just six birds, and a field that was never empty.
"""


def make_letter_bags(
    words: str | Sequence[str] | None = None, *, distortion: float = 1.0, random_state: Seed = 0
) -> BagDataset:
    """Turn a text into bags: one for each word, with the images of its letters as instances.

    This is how Letter-Carroll and Letter-Frost were made from two poems, except that the letters are drawn
    here (see `draw_letters`) and not taken from the UCI Letter Recognition data. A bag's labels are the
    letters of its word; which instance is which letter is known too, in `instance_labels`.

    Parameters
    ----------
    words : str or sequence of str, default=None
        A text, cut into words at blanks and dashes, or a list of words. Case, accents and everything that is
        not a letter are dropped. None takes a short text about birds.
    distortion : float, default=1.0
        Strength of the distortion of the letters, 0 to 2.
    random_state : int, numpy.random.Generator or None, default=0
        With an integer, ``draw_letters("".join(data.bag_names), distortion=..., random_state=...)`` draws the
        very images that were measured.

    Returns
    -------
    BagDataset
        26 classes "a" to "z", the sixteen features of `letter_features`, the words as `bag_names`, and in
        `locations` the columns word, position (in it) and font of the instances.

    References
    ----------
    F. Briggs, X. Z. Fern and R. Raich, "Rank-loss support instance machines for MIML instance annotation",
    KDD 2012.

    Examples
    --------
    >>> from bagwise.datasets import make_letter_bags
    >>> data = make_letter_bags("A wren sings")
    >>> data.bag_names, sorted(data.label_sets[1]), data.bags.sizes.tolist()
    (['a', 'wren', 'sings'], ['e', 'n', 'r', 'w'], [1, 4, 5])
    """
    words = _as_words(TEXT if words is None else words)
    letters = "".join(words)
    images, fonts = _draw_with_fonts(letters, distortion=distortion, random_state=random_state)
    offsets = offsets_of([len(word) for word in words])
    labels = np.array([string.ascii_lowercase.index(letter) for letter in letters])
    Y = np.zeros((len(words), 26), dtype=np.uint8)
    Y[np.repeat(np.arange(len(words)), np.diff(offsets)), labels] = 1
    return BagDataset(
        bags=Bags(letter_features(images), offsets),
        Y=Y,
        class_names=list(string.ascii_lowercase),
        instance_labels=Bags(labels, offsets),
        bag_names=words,
        feature_names=list(FEATURE_NAMES),
        locations={
            "word": as_column([word for word in words for _ in word]),
            "position": as_column([k for word in words for k in range(len(word))]),
            "font": as_column(fonts),
        },
        name="letters",
    )


def _as_words(words: str | Sequence[str]) -> list[str]:
    """Words of the letters a to z only."""
    if isinstance(words, str):
        folded = list(filter(None, map(_fold, re.split(r"\s+|--+|[\u2012-\u2015]", words))))
    else:
        for i, word in enumerate(words):
            if not isinstance(word, str):
                raise InputError(f"Word {i} is {word!r}; expected a text or a list of words.")
        folded = [_fold(word) for word in words]
        if "" in folded:
            i = folded.index("")
            raise InputError(f"Word {i}, {words[i]!r}, has no letter a to z; leave it out.")
    if not folded:
        raise InputError("There are no words; pass a text or a list of words with letters a to z.")
    return folded


def _fold(word: str) -> str:
    decomposed = unicodedata.normalize("NFKD", word.casefold())
    return "".join(letter for letter in decomposed if letter in string.ascii_lowercase)


# ---------------------------------------------------------------------------------------------------------------------
# Distorted binary images of capital letters, in the fonts that matplotlib brings along

# Text fonts with all capitals; the mathematical ones (cmmi, cmsy, cmex, STIXSiz...) have other glyphs there.
FONTS = (
    "DejaVuSans",
    "DejaVuSans-Bold",
    "DejaVuSans-Oblique",
    "DejaVuSans-BoldOblique",
    "DejaVuSansMono",
    "DejaVuSansMono-Bold",
    "DejaVuSansMono-Oblique",
    "DejaVuSerif",
    "DejaVuSerif-Bold",
    "DejaVuSerif-Italic",
    "DejaVuSerif-BoldItalic",
    "STIXGeneral",
    "STIXGeneralBol",
    "STIXGeneralItalic",
    "STIXGeneralBolIta",
    "cmb10",
    "cmr10",
    "cmss10",
    "cmti10",
    "cmtt10",
)
IMAGE_SIZE = 45
MAX_DISTORTION = 2.0

_GLYPH_POINTS = 88  # capitals some 65 pixels high: at least twice what is drawn
_CELL = 160  # side of the square that holds one glyph, with room around it
_BLUR = 1.0  # in glyph pixels, so that hairlines survive the reduction to 45 x 45
_THRESHOLD = 0.4
_CHUNK = 1000  # letters drawn at once: some 100 MB of workspace

# Largest values at distortion 1; each letter's own lies uniformly between plus and minus these.
_ROTATION = np.deg2rad(10.0)
_SHEAR = 0.2
_STRETCH = 0.25  # logarithm of the factor by which the letter is widened and flattened
_WAVE = 0.1  # amplitude of the bends, as a share of half the letter's height
_HEIGHT = (20.0, 40.0)  # pixels, at any distortion
_N_DRAWS = 11


def draw_letters(letters: str | Sequence[str], *, distortion: float = 1.0, random_state: Seed = 0) -> np.ndarray:
    """Draw capital letters, each in a random font, size, place and distortion.

    A letter is rotated, slanted, stretched and bent, and lies anywhere in its image. The first k images of a
    longer sequence are those of the first k letters drawn alone.

    Parameters
    ----------
    letters : str or sequence of str
        One letter a to z for each image, of either case.
    distortion : float, default=1.0
        Strength of the distortion, 0 (as the font draws it) to 2 (often hard to read).
    random_state : int, numpy.random.Generator or None, default=0
        Anything that `numpy.random.default_rng` takes; an integer draws the same images every time.

    Returns
    -------
    (m, 45, 45) bool array
        True where there is ink; row 0 is the top.

    Examples
    --------
    >>> from bagwise.datasets import draw_letters
    >>> draw_letters("birds").shape
    (5, 45, 45)
    """
    images, _ = _draw_with_fonts(letters, distortion=distortion, random_state=random_state)
    return images


def _draw_with_fonts(
    letters: str | Sequence[str], *, distortion: float = 1.0, random_state: Seed = 0
) -> tuple[np.ndarray, list[str]]:
    """The images of `draw_letters`, and the name of the font of each."""
    codes = _as_codes(letters)
    if not isinstance(distortion, (int, float, np.number)) or not 0 <= distortion <= MAX_DISTORTION:
        raise InputError(f"distortion={distortion!r}; expected a number from 0 to {MAX_DISTORTION:g}.")
    # One row of draws a letter, taken in order: a letter's image does not depend on the letters after it.
    draws = np.random.default_rng(random_state).uniform(-1, 1, (len(codes), _N_DRAWS))
    font = np.minimum(((draws[:, 0] + 1) / 2 * len(FONTS)).astype(int), len(FONTS) - 1)
    glyphs, glyph_of_letter = np.unique(np.stack([font, codes], axis=1), axis=0, return_inverse=True)
    glyph_of_letter = glyph_of_letter.reshape(-1)
    images = np.empty((len(codes), IMAGE_SIZE, IMAGE_SIZE), dtype=bool)
    if len(codes):
        atlas, half_sizes = _render_glyphs(glyphs)
        for part in gen_batches(len(codes), _CHUNK):
            images[part] = _warp(atlas, half_sizes, glyph_of_letter[part], draws[part, 1:], distortion)
    return images, [FONTS[i] for i in font]


def _as_codes(letters: str | Sequence[str]) -> np.ndarray:
    """Position in the alphabet of each letter."""
    for i, letter in enumerate(letters):
        if not isinstance(letter, str) or len(letter) != 1 or letter not in string.ascii_letters:
            raise InputError(f"Letter {i} is {letter!r}; expected one letter, a to z.")
    return np.array([ord(letter.upper()) - ord("A") for letter in letters], dtype=np.int64)


def _render_glyphs(glyphs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Draw each (font, letter) once, upright and large.

    Returns
    -------
    atlas : (n_glyphs * _CELL, _CELL) float32 array
        The glyphs one below the other, each in the middle of its cell; 1 is ink.
    half_sizes : (n_glyphs, 2) array
        Half the width and half the height of each glyph.
    """
    try:
        import matplotlib
        from matplotlib.ft2font import FT2Font
    except ImportError as error:
        raise ImportError(
            'Drawing letters needs the fonts of matplotlib, which is not installed: pip install "bagwise[report]".'
        ) from error
    folder = Path(matplotlib.get_data_path()) / "fonts" / "ttf"
    fonts = {i: FT2Font(str(folder / f"{FONTS[i]}.ttf")) for i in np.unique(glyphs[:, 0]).tolist()}
    for font in fonts.values():
        font.set_size(_GLYPH_POINTS, 72)
    cells = np.zeros((len(glyphs), _CELL, _CELL), dtype=np.float32)
    half_sizes = np.empty((len(glyphs), 2))
    for cell, half_size, (i, code) in zip(cells, half_sizes, glyphs.tolist(), strict=True):
        fonts[i].set_text(string.ascii_uppercase[code], 0.0)
        fonts[i].draw_glyphs_to_bitmap(antialiased=True)
        ink = _trim(np.asarray(fonts[i].get_image()))
        top, left = (_CELL - ink.shape[0]) // 2, (_CELL - ink.shape[1]) // 2
        cell[top : top + ink.shape[0], left : left + ink.shape[1]] = ink / 255
        half_size[:] = ink.shape[1] / 2, ink.shape[0] / 2
    return ndimage.gaussian_filter(cells, (0, _BLUR, _BLUR)).reshape(-1, _CELL), half_sizes


def _trim(bitmap: np.ndarray) -> np.ndarray:
    """The part of a bitmap that has ink."""
    rows, columns = np.flatnonzero(bitmap.any(axis=1)), np.flatnonzero(bitmap.any(axis=0))
    return bitmap[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]


def _warp(
    atlas: np.ndarray, half_sizes: np.ndarray, glyph: np.ndarray, draws: np.ndarray, distortion: float
) -> np.ndarray:
    """Look up, for every pixel of every image, the point of the glyph that falls on it."""
    height_draw, place_x, place_y, rotation, shear, stretch = draws[:, :6].T
    matrix = _affine(distortion * _ROTATION * rotation, distortion * _SHEAR * shear, distortion * _STRETCH * stretch)
    half = half_sizes[glyph]
    bend = distortion * _WAVE * draws[:, 6:8] * half[:, 1:]
    # Half the sides of a box that the distorted letter cannot leave, in glyph pixels.
    reach = np.einsum("mij,mj->mi", np.abs(matrix), half + np.abs(bend))
    height = np.mean(_HEIGHT) + (_HEIGHT[1] - _HEIGHT[0]) / 2 * height_draw
    room = IMAGE_SIZE / 2 - 1
    scale = np.minimum(height / (2 * reach[:, 1]), room / reach.max(axis=1))
    free = room - scale[:, None] * reach
    centre = (IMAGE_SIZE - 1) / 2 + free * np.stack([place_x, place_y], axis=1)

    inverse = np.linalg.inv(matrix) / scale[:, None, None]
    pixel = np.arange(IMAGE_SIZE)
    across = (pixel - centre[:, :1])[:, None, :]
    down = (pixel - centre[:, 1:])[:, :, None]
    x = inverse[:, 0, 0, None, None] * across + inverse[:, 0, 1, None, None] * down
    y = inverse[:, 1, 0, None, None] * across + inverse[:, 1, 1, None, None] * down
    x, y = _bend(x, y, bend, draws[:, 8:], half[:, 1])

    # Clipping to the cell keeps a far-off pixel from reading the neighbouring glyph: a cell's rim is blank.
    middle = (_CELL - 1) / 2
    row = np.clip(y + middle, 0, _CELL - 1) + _CELL * glyph[:, None, None]
    column = np.clip(x + middle, 0, _CELL - 1)
    return ndimage.map_coordinates(atlas, [row, column], order=1) > _THRESHOLD


def _affine(angle: np.ndarray, shear: np.ndarray, stretch: np.ndarray) -> np.ndarray:
    """(m, 2, 2) matrices that stretch, then slant, then rotate."""
    cos, sin, wide, flat = np.cos(angle), np.sin(angle), np.exp(stretch), np.exp(-stretch)
    first = np.stack([cos * wide, (cos * shear - sin) * flat], axis=1)
    second = np.stack([sin * wide, (sin * shear + cos) * flat], axis=1)
    return np.stack([first, second], axis=1)


def _bend(
    x: np.ndarray, y: np.ndarray, amplitude: np.ndarray, phase: np.ndarray, half_height: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Shift x by a wave along y and then y by a wave along x: smooth, and never folding over."""
    amplitude_x, amplitude_y = amplitude.T[:, :, None, None]
    phase_x, phase_y = phase.T[:, :, None, None]
    frequency = np.pi / half_height[:, None, None]
    x = x + amplitude_x * np.sin(frequency * y + np.pi * phase_x)
    y = y + amplitude_y * np.sin(frequency * x + np.pi * phase_y)
    return x, y


# ---------------------------------------------------------------------------------------------------------------------
# The sixteen numbers by which Frey and Slate (1991) described the image of a letter

# Name of each feature, and the two measured values that become 0 and 15. The limits are fixed, so that the
# features of an image do not depend on which other images are measured with it.
FEATURE_RANGES = {
    "x-box": (0.15, 0.85),
    "y-box": (0.15, 0.85),
    "width": (0.05, 0.95),
    "high": (0.2, 0.95),
    "onpix": (0.0, 0.35),
    "x-bar": (-0.2, 0.2),
    "y-bar": (-0.15, 0.15),
    "x2bar": (0.02, 0.13),
    "y2bar": (0.05, 0.13),
    "xybar": (-0.06, 0.06),
    "x2ybr": (-0.016, 0.016),
    "xy2br": (-0.016, 0.016),
    "x-ege": (1.0, 3.25),
    "xegvy": (-0.15, 0.15),
    "y-ege": (1.0, 2.75),
    "yegvx": (-0.15, 0.15),
}
FEATURE_NAMES = list(FEATURE_RANGES)
N_LEVELS = 16
MEASURED_AT_ONCE = 4096  # images measured at once: some 70 MB of workspace at 45 x 45


def letter_features(images: Any) -> np.ndarray:
    """Measure binary images of letters, as the UCI Letter Recognition data were made.

    Parameters
    ----------
    images : (m, height, width) array of bool or 0/1
        Row 0 is the top. Every image has at least one pixel that is on.

    Returns
    -------
    (m, 16) float64 array
        Whole numbers 0 to 15, in the order of Frey and Slate:

        - x-box, y-box, width, high: centre (from the left, from below) and size of the letter's box;
        - onpix: number of pixels that are on;
        - x-bar, y-bar, x2bar, y2bar, xybar, x2ybr, xy2br: means of x, y, x^2, y^2, xy, x^2 y and x y^2 over
          the pixels that are on; x is the distance from the box centre to the right as a share of the box's
          width, y that upwards as a share of its height;
        - x-ege, xegvy: number of left edges, and sum of their y, per row of the box; a left edge is a pixel
          that is on while its left neighbour is off or beyond the image;
        - y-ege, yegvx: number of lower edges, and sum of their x, per column of the box.

    References
    ----------
    P. W. Frey and D. J. Slate, "Letter recognition using Holland-style adaptive classifiers", Machine
    Learning 6, 1991.

    Examples
    --------
    >>> import numpy as np
    >>> from bagwise.datasets import letter_features
    >>> square = np.zeros((1, 45, 45), dtype=bool)
    >>> square[0, 15:30, 15:30] = True
    >>> letter_features(square)[0, :5].tolist()
    [8.0, 8.0, 5.0, 3.0, 5.0]
    """
    measured = _measure_letters(images)
    low, high = np.array(list(FEATURE_RANGES.values())).T
    scaled = (N_LEVELS - 1) * (measured - low) / (high - low)
    return np.clip(np.floor(scaled + 0.5), 0, N_LEVELS - 1)


def _measure_letters(images: Any) -> np.ndarray:
    """The sixteen features before they are scaled; positions, sizes and onpix as shares of the image.

    Parameters
    ----------
    images : (m, height, width) array of bool or 0/1

    Returns
    -------
    (m, 16) float64 array
    """
    images = _as_binary(images)
    starts = range(0, len(images), MEASURED_AT_ONCE)
    blocks = [_measure(images[start : start + MEASURED_AT_ONCE]) for start in starts]
    return np.concatenate([np.empty((0, len(FEATURE_NAMES))), *blocks])


def _as_binary(images: Any) -> np.ndarray:
    images = np.asarray(images)
    if images.ndim != 3 or 0 in images.shape[1:]:
        raise InputError(f"images have shape {images.shape}; expected (n_images, height, width).")
    if images.dtype != bool:
        if not np.issubdtype(images.dtype, np.number) or not np.all((images == 0) | (images == 1)):
            raise InputError("images hold values other than 0 and 1; threshold them first, as in `images > 0.5`.")
        images = images.astype(bool)
    blank = np.flatnonzero(~images.any(axis=(1, 2)))
    if len(blank):
        raise InputError(
            f"Image {blank[0]} is blank, {len(blank)} such image(s) in all; leave out what shows no letter."
        )
    return images


def _measure(on: np.ndarray) -> np.ndarray:
    _, height, width = on.shape
    left, box_width = _extent(np.asarray(on.any(axis=1)))
    top, box_height = _extent(np.asarray(on.any(axis=2)))
    # Twice the distances from the box centre are whole numbers: all sums below are exact, in whatever order a
    # library adds, and so no letter falls on another side of a rounding limit on another machine.
    x = (2 * np.arange(width) + 1 - (2 * left + box_width)[:, None]).astype(np.float64)
    y = ((2 * top + box_height)[:, None] - 2 * np.arange(height) - 1).astype(np.float64)
    unit_x, unit_y = 2.0 * box_width, 2.0 * box_height

    pixels = on.astype(np.float64)
    in_row, in_column = pixels.sum(axis=2), pixels.sum(axis=1)
    n_on = in_row.sum(axis=1)
    x_in_row = (pixels @ x[:, :, None])[:, :, 0]
    x2_in_row = (pixels @ (x**2)[:, :, None])[:, :, 0]
    left_edges = (np.diff(pixels, axis=2, prepend=0.0) > 0.0).sum(axis=2)
    lower_edges = (np.diff(pixels, axis=1, append=0.0) < 0.0).sum(axis=1)

    columns = [
        (left + box_width / 2) / width,
        1 - (top + box_height / 2) / height,
        box_width / width,
        box_height / height,
        n_on / (height * width),
        (in_column * x).sum(axis=1) / (n_on * unit_x),
        (in_row * y).sum(axis=1) / (n_on * unit_y),
        (in_column * x**2).sum(axis=1) / (n_on * unit_x**2),
        (in_row * y**2).sum(axis=1) / (n_on * unit_y**2),
        (x_in_row * y).sum(axis=1) / (n_on * unit_x * unit_y),
        (x2_in_row * y).sum(axis=1) / (n_on * unit_x**2 * unit_y),
        (x_in_row * y**2).sum(axis=1) / (n_on * unit_x * unit_y**2),
        left_edges.sum(axis=1) / box_height,
        (left_edges * y).sum(axis=1) / (box_height * unit_y),
        lower_edges.sum(axis=1) / box_width,
        (lower_edges * x).sum(axis=1) / (box_width * unit_x),
    ]
    return np.column_stack(columns)


def _extent(occupied: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """First occupied position in each row of `occupied`, and how many lie from there to the last."""
    first = occupied.argmax(axis=1)
    last = occupied.shape[1] - 1 - occupied[:, ::-1].argmax(axis=1)
    return first, last - first + 1
