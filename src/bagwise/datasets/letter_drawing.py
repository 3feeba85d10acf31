"""Distorted binary images of capital letters, in the fonts that matplotlib brings along."""

from __future__ import annotations

import string
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from scipy import ndimage

from bagwise.exceptions import InputError
from bagwise.typing import Seed

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
    images, _ = draw_with_fonts(letters, distortion=distortion, random_state=random_state)
    return images


def draw_with_fonts(
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
        for start in range(0, len(codes), _CHUNK):
            part = slice(start, start + _CHUNK)
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
