"""Pictures and masks, read from files: upright, in colours, with what is transparent marked, as large as is needed."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from bagwise.core.exceptions import FormatError
from bagwise.io.files import check_readable

HEIC = (".heic", ".heif")
EXTENSIONS = (".png", ".jpg", ".jpeg", ".bmp", ".tif", ".tiff", ".webp", ".gif", ".avif", *HEIC)
OPAQUE = 128  # of 255: points with less are not seen
_DEPTHS = (8, 12, 16)  # bits of greys that are kept in sixteen or more


@dataclass(frozen=True)
class Pixels:
    """A picture, or a smaller copy of it.

    Attributes
    ----------
    colours : (height, width, 3) uint8 array
        White shows through where the picture is transparent.
    seen : (height, width) bool array or None
        Where it is not transparent; None where it is so nowhere.
    width, height : int
        Of the picture itself, the way up that browsers show it.
    """

    colours: np.ndarray
    seen: np.ndarray | None
    width: int
    height: int


def read_pixels(path: str | Path, largest: int | None = None) -> Pixels:
    """A picture, turned as its camera says; a copy whose longer side has at most `largest` points, if that is given.

    Of moving pictures the first one is read. Greys of more than eight bits are scaled.
    """
    image, size = _open(path, largest)
    from PIL import Image

    image = _in_colours(image)
    if largest is not None and max(image.size) > largest:
        image = image.resize(_fitting(image.size, largest), Image.Resampling.BOX)
    if image.mode == "RGB":
        return Pixels(np.asarray(image), None, *size)
    ground = Image.new("RGBA", image.size, "white")
    seen = np.asarray(image.getchannel("A")) >= OPAQUE
    over_white = np.asarray(Image.alpha_composite(ground, image).convert("RGB"))
    return Pixels(over_white, None if seen.all() else seen, *size)


def read_mask(path: str | Path) -> np.ndarray:
    """(height, width) int64 numbers of a mask picture: one number for each grey value, palette entry or colour.

    0 (black) is outside of all regions.
    """
    image, _ = _open(path)
    values = np.asarray(image if image.mode in ("P", "L", "1") or _is_deep(image) else image.convert("RGB"))
    values = values.astype(np.int64)
    if values.ndim == 3:
        values = (values[..., 0] * 256 + values[..., 1]) * 256 + values[..., 2]
    return values


def _open(path: str | Path, largest: int | None = None) -> tuple[Any, tuple[int, int]]:
    """An upright picture of Pillow, and the width and height it has in full: of JPEG no more than needed is decoded."""
    try:
        from PIL import Image, ImageOps
    except ImportError as error:
        raise ImportError(
            f"Reading pictures needs pillow, which is not there ({error}); pip install 'bagwise[image]'."
        ) from error
    if Path(path).suffix.lower() in HEIC:
        _learn_heic(path)
    try:
        with check_readable(path).open("rb") as file, warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)  # cameras have a hundred megapixels
            image = Image.open(file)
            size = image.size
            if largest is not None:
                image.draft(None, _fitting(size, largest))
            image.load()
        upright = ImageOps.exif_transpose(image)
        is_turned = (upright.width > upright.height) != (size[0] > size[1])  # by us, or by Pillow itself
        return upright, (size[::-1] if is_turned else size)
    except FormatError:
        raise
    except Image.DecompressionBombError as error:
        raise FormatError(
            f"{path}: it has more points than are read ({error}). Save it smaller, or in parts."
        ) from error
    except Exception as error:  # decoders fail in many ways on damaged data: zlib, struct, index and other errors
        raise FormatError(
            f"{path}: it is not a picture that can be read ({error}). Leave it out, or save it again."
        ) from error


def _learn_heic(path: str | Path) -> None:
    """Let Pillow read HEIC, which needs a package of its own."""
    try:
        pillow_heif = import_module("pillow_heif")
    except ImportError as error:
        raise FormatError(
            f"{path}: HEIC is read with the package pillow-heif, which is not there ({error}). pip install "
            "pillow-heif, or save it as JPEG."
        ) from error
    pillow_heif.register_heif_opener()


def _fitting(size: tuple[int, int], largest: int) -> tuple[int, int]:
    scale = min(1.0, largest / max(size))
    return max(1, round(size[0] * scale)), max(1, round(size[1] * scale))


def _is_deep(image: Any) -> bool:
    """Whether there is one grey of more than eight bits a point."""
    return image.mode in ("I", "F") or image.mode.startswith("I;16")


def _in_colours(image: Any) -> Any:
    """The picture in RGB, or in RGBA where it has transparent points."""
    from PIL import Image

    if _is_deep(image):
        image = Image.fromarray(_eight_bits(np.asarray(image)))
    return image.convert("RGBA" if image.has_transparency_data else "RGB")


def _eight_bits(greys: np.ndarray) -> np.ndarray:
    """(height, width) uint8 greys: all that 8, 12 or 16 bits can hold, whichever the brightest needs, from 0 to 255.

    Cameras and microscopes give twelve bits in sixteen. What is darker than 0 or takes more is stretched from the
    darkest to the brightest, and so are fractions, which have no bits.
    """
    dark, bright = float(greys.min(initial=0)), float(greys.max(initial=0))
    most = next((2.0**bits - 1 for bits in _DEPTHS if bright < 2**bits), np.inf)
    if greys.dtype.kind == "f" or dark < 0 or most == np.inf:
        most = (bright - dark) or 1.0
    else:
        dark = 0.0
    return np.round((greys.astype(np.float32) - dark) * (255 / most)).astype(np.uint8)
