"""Pictures, masks and COCO polygons, read from files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from bagwise.exceptions import FormatError
from bagwise.featurize.files import unreadable

EXTENSIONS = (".png", ".jpg", ".jpeg", ".bmp", ".tif", ".tiff")


def read_image(path: str | Path) -> np.ndarray:
    """(height, width, 3) uint8 colours of a picture; other modes are converted."""
    return np.asarray(_open(path).convert("RGB"))


def read_mask(path: str | Path) -> np.ndarray:
    """(height, width) int64 numbers of a mask picture: one number for each grey value, palette entry or colour.

    0 (black) is outside of all regions.
    """
    image = _open(path)
    values = np.asarray(image if image.mode in ("P", "L", "I", "I;16", "1") else image.convert("RGB")).astype(np.int64)
    if values.ndim == 3:
        values = (values[..., 0] * 256 + values[..., 1]) * 256 + values[..., 2]
    return values


def _open(path: str | Path) -> Any:
    try:
        from PIL import Image, UnidentifiedImageError
    except ImportError as error:
        raise ImportError(
            f"Reading pictures needs pillow, which is not there ({error}); pip install 'bagwise[image]'."
        ) from error
    try:
        with open(path, "rb") as file:
            image = Image.open(file)
            image.load()
    except UnidentifiedImageError as error:
        found = "it is of no known kind" if Path(path).stat().st_size else "the file is empty, 0 bytes"
        raise unreadable(path, "it is not a picture that can be read", found) from error
    except FileNotFoundError:
        raise FormatError(f"{path}: there is no such file.") from None
    except Exception as error:  # decoders fail in many ways on damaged data: zlib, struct, index and other errors
        raise unreadable(path, "it is not a picture that can be read", error) from error
    return image


def read_coco_polygons(path: str | Path) -> dict[str, list[list[np.ndarray]]]:
    """For each file name the regions of a COCO file, each a list of (n, 2) polygons of x and y."""
    try:
        document = json.loads(Path(path).read_text(encoding="utf-8"))
        names = {image["id"]: str(image["file_name"]) for image in document["images"]}
        regions: dict[str, list[list[np.ndarray]]] = {name: [] for name in names.values()}
        for annotation in document["annotations"]:
            if isinstance(annotation["segmentation"], dict):
                raise FormatError(
                    f"{path}: annotation {annotation.get('id')} is run-length encoded; only polygons are read. "
                    "Export polygons."
                )
            polygons = [np.asarray(flat, dtype=float).reshape(-1, 2) for flat in annotation["segmentation"]]
            regions[names[annotation["image_id"]]].append(polygons)
    except FormatError:
        raise
    except FileNotFoundError:
        raise FormatError(f"{path}: there is no such file; set coco to the path of the COCO file.") from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise unreadable(path, "it is not a COCO file with polygons", repr(error)) from error
    return regions
