"""Pictures: a bag is a picture, an instance is a region of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy import ndimage

from bagwise.app.media._features import (
    APPEARANCE_NAMES,
    HISTOGRAM_NAMES,
    PATCH_NAMES,
    appearance_features,
    patch_features,
    region_histograms,
)
from bagwise.app.media._image_regions import (
    find_shapes,
    grid_regions,
    large_enough,
    mask_regions,
    merged_regions,
    outlines,
    sample_points,
    shape_file,
    shape_regions,
    slic_regions,
)
from bagwise.app.media._picture_input import PictureInput
from bagwise.app.media._stages import draw_image_stages, numbered_picture
from bagwise.app.media.files import FileBags, recorded
from bagwise.app.media.image_file import EXTENSIONS, Pixels, read_mask, read_pixels
from bagwise.app.media.media_type import LabelStudio, MediaType, Row
from bagwise.app.media.pictures import CLOSE_WIDTH, CloseUp, Picture, as_photograph, filled_region
from bagwise.app.media.rle import Rings, ring_area, rings_of
from bagwise.app.media.settings import Settings, choice, number
from bagwise.core.dataset import BagDataset
from bagwise.core.exceptions import FormatError, InputError

FEATURES = {"appearance": (APPEARANCE_NAMES, appearance_features), "histograms": (HISTOGRAM_NAMES, region_histograms)}
PLACES = ("left", "top", "width", "height")
IMAGE_WIDTH = 640  # in units of the page, whatever the picture's own size: names and edges keep theirs
LARGEST_IMAGE = 640  # points of the longer side


@dataclass(frozen=True)
class ImageSettings(Settings):
    """How pictures become regions.

    Attributes
    ----------
    regions : {"merge", "slic", "mask", "coco", "patches"}
        Neighbours of similar colour merged; patches of similar colour and about equal size; those of the mask
        picture of each picture; polygons or run lengths of a COCO file; nine patches.
    features : {"appearance", "histograms"}
        Place, size, colour and texture; or gradients and colours as MSRC v2 and VOC have them.
    mask_suffix : str
        The mask of ``a.jpg`` is ``a<suffix>.png``.
    coco : str
        Path of the COCO file, or of a folder of such files, one per picture.
    scale, min_share : float
        Of merging: larger scales give larger regions; least share of a picture that a region has.
    n_segments, compactness : float
        Of SLIC: number of regions asked for, and how much place counts against colour.
    min_area : int
        Least points of a region, of the copy that is looked at.
    max_side : int
        Most points of the longer side; regions are found and described in a copy of that size where there are more.

    Examples
    --------
    >>> from bagwise.app.media import ImageSettings
    >>> ImageSettings(regions="slic", n_segments=20).features
    'appearance'
    >>> ImageSettings(regions="coco")
    Traceback (most recent call last):
    ...
    bagwise.core.exceptions.InputError: regions='coco' needs the setting 'coco': the path of the COCO file.
    """

    regions: str = choice("merge", "slic", "mask", "coco", "patches")
    features: str = choice("appearance", "histograms")
    mask_suffix: str = "_mask"
    coco: str = ""
    scale: float = number(100.0, 1e-6, 1e9)
    min_share: float = number(0.02, 0.0, 0.5)
    n_segments: int = number(12, 1, 100_000)
    compactness: float = number(10.0, 1e-6, 1e6)
    min_area: int = number(50, 1)
    max_side: int = number(1024, 16, 100_000)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.regions == "coco" and not self.coco:
            raise InputError("regions='coco' needs the setting 'coco': the path of the COCO file.")


def _is_picture(path: Path, settings: ImageSettings) -> bool:
    """Whether a file is a picture itself and not the mask of another one.

    Where regions are not taken from masks, it is a mask only if that picture is there.
    """
    if not settings.mask_suffix or not path.stem.endswith(settings.mask_suffix):
        return True
    stem = path.stem.removesuffix(settings.mask_suffix)
    return settings.regions != "mask" and not any(path.with_name(stem + ending).exists() for ending in EXTENSIONS)


def _find_regions(path: str | Path, name: str, pixels: Pixels, settings: ImageSettings) -> np.ndarray:
    """(height, width) region of each point, from 1; 0 is outside, as is what is transparent."""
    labels = _all_regions(path, name, pixels, settings)
    if pixels.seen is not None:
        labels = np.where(pixels.seen, labels, 0)
    return labels if settings.regions == "patches" else large_enough(labels, settings.min_area)


def _all_regions(path: str | Path, name: str, pixels: Pixels, settings: ImageSettings) -> np.ndarray:
    shape = pixels.colours.shape[:2]
    if settings.regions == "merge":
        return merged_regions(pixels.colours, settings.scale, settings.min_share)
    if settings.regions == "slic":
        return slic_regions(pixels.colours, settings.n_segments, settings.compactness, pixels.seen)
    if settings.regions == "patches":
        return grid_regions(shape, 3, 3)
    if settings.regions == "mask":
        return mask_regions(sample_points(_mask_of(Path(path), name, pixels, settings), shape))
    try:
        shapes = find_shapes(path, name, settings.coco)
        return shape_regions(shape, [found.mask(shape, pixels.height, pixels.width) for found in shapes])
    except ValueError as error:
        if isinstance(error, InputError):
            raise
        raise FormatError(f"{settings.coco}: a region of {name} cannot be used: {error}.") from error


def _mask_file(path: Path, settings: ImageSettings) -> Path:
    return path.with_name(f"{path.stem}{settings.mask_suffix}.png")


def _companions(path: Path, name: str, settings: ImageSettings) -> list[Path]:
    """What the regions of a picture are taken from."""
    if settings.regions == "mask":
        return [_mask_file(path, settings)]
    return [shape_file(name, settings.coco)] if settings.regions == "coco" else []


def _mask_of(path: Path, name: str, pixels: Pixels, settings: ImageSettings) -> np.ndarray:
    file = _mask_file(path, settings)
    if not file.exists():
        raise FormatError(
            f"{file}: there is no such file, and the regions of {name} are taken from it; put the mask there, or "
            "set regions=merge for regions of like colour."
        )
    mask = read_mask(file)
    if mask.shape != (pixels.height, pixels.width):
        raise FormatError(
            f"{file}: the mask is {mask.shape[1]} x {mask.shape[0]} points but the picture {name}, upright, is "
            f"{pixels.width} x {pixels.height}; they must be of one size."
        )
    return mask


def _region_features(image: np.ndarray, labels: np.ndarray, settings: ImageSettings) -> np.ndarray:
    """(n, d) features of each region."""
    return patch_features(image) if settings.regions == "patches" else FEATURES[settings.features][1](image, labels)


def _read_picture(path: str | Path, name: str, settings: ImageSettings) -> FileBags:
    """The regions of one picture."""
    pixels = read_pixels(path, settings.max_side)
    labels = _find_regions(path, name, pixels, settings)
    features = _region_features(pixels.colours, labels, settings)
    problems = [] if len(features) else ["no region was found in it."]
    return FileBags(
        bag_names=[name],
        sizes=[len(features)],
        features=features,
        locations=_locations(labels, len(features), pixels),
        info={"width": pixels.width, "height": pixels.height, **recorded(name)},
        problems=problems,
    )


def _locations(labels: np.ndarray, n: int, pixels: Pixels) -> dict[str, Any]:
    """Box, points and outline of each region, in the full size of the picture."""
    across, down = pixels.width / labels.shape[1], pixels.height / labels.shape[0]
    boxes, polygons, rings = np.zeros((n, 5), dtype=np.int64), np.empty(n, dtype=object), np.empty(n, dtype=object)
    for i, (rows, columns) in enumerate(ndimage.find_objects(labels, n)):
        found: Rings = [
            [[round((x + columns.start) * across, 2), round((y + rows.start) * down, 2)] for x, y in ring]
            for ring in outlines(labels[rows, columns] == i + 1)
        ]
        left, top = int(columns.start * across), int(rows.start * down)
        right, bottom = int(np.ceil(columns.stop * across)), int(np.ceil(rows.stop * down))
        boxes[i] = left, top, right - left, bottom - top, ring_area(found, pixels.height, pixels.width)
        polygons[i], rings[i] = found[0], found if len(found) > 1 else []
    columns_of_box = {key: boxes[:, j] for j, key in enumerate((*PLACES, "area"))}
    return {**columns_of_box, "polygon": polygons, "rings": rings}


def _draw_image(path: Path, name: str, rows: Sequence[Row], settings: ImageSettings, start: float) -> Picture:
    """The picture with its regions."""
    from PIL import Image

    pixels = read_pixels(path, LARGEST_IMAGE)
    scale = IMAGE_WIDTH / pixels.width
    return Picture(
        title=name,
        kind="image",
        width=IMAGE_WIDTH,
        height=max(1, round(pixels.height * scale)),
        background=as_photograph(Image.fromarray(pixels.colours)),
        regions=[
            filled_region(row, [[(x * scale, y * scale) for x, y in ring] for ring in rings_of(row)]) for row in rows
        ],
    )


def _close_ups(path: Path, rows: Sequence[Row], settings: ImageSettings) -> Iterator[CloseUp]:
    """Each region, outlined, and a little around it."""
    image = read_pixels(path).colours
    for row in rows:
        part = crop_region(image, row, CLOSE_WIDTH)
        yield CloseUp(as_photograph(part), part.width, part.height)


def crop_region(image: np.ndarray, place: Row, size: int) -> Any:
    """A region of a picture, outlined, and a little around it; its longer side has `size` points."""
    from PIL import Image, ImageDraw

    margin = 0.15 * max(place["width"], place["height"])
    left, top = int(max(0, place["left"] - margin)), int(max(0, place["top"] - margin))
    right = int(np.ceil(min(image.shape[1], place["left"] + place["width"] + margin)))
    bottom = int(np.ceil(min(image.shape[0], place["top"] + place["height"] + margin)))
    part = Image.fromarray(np.ascontiguousarray(image[top:bottom, left:right]))
    if place.get("polygon"):
        line = max(1, round(max(place["width"], place["height"]) / 60))
        for ring in rings_of(place):
            points = [(x - left, y - top) for x, y in ring]
            ImageDraw.Draw(part).line([*points, points[0]], fill=(255, 64, 0), width=line)
    scale = size / max(part.size)
    return part.resize((max(1, round(part.width * scale)), max(1, round(part.height * scale))))


def _draw_stages(path: Path, folder: Path, settings: ImageSettings, start: float, pieces: int) -> Iterator[str]:
    """Draw a picture and its regions; gives what was found, line by line."""
    pixels = read_pixels(path, settings.max_side)
    labels = _find_regions(path, path.name, pixels, settings)
    target = numbered_picture(folder, path.stem)
    draw_image_stages(pixels.colours, labels, path.name, target)
    yield f"{path.name}: {pixels.width} x {pixels.height} points, {labels.max(initial=0)} regions"
    yield f"wrote {target}"


def _place_in_words(row: Row) -> str:
    return f"{row['width']} x {row['height']} points at {row['left']}, {row['top']}"


def _feature_names(files: Sequence[FileBags], settings: ImageSettings) -> list[str]:
    return PATCH_NAMES if settings.regions == "patches" else FEATURES[settings.features][0]


def _mark_value(row: Row, file: Row, text: str) -> dict[str, Any]:
    """Label Studio counts points in percent of the picture."""
    points = [[round(100 * x / file["width"], 4), round(100 * y / file["height"], 4)] for x, y in row["polygon"]]
    return {"points": points, "closed": True}


def _mark_place(value: Row, file: Row) -> dict[str, Any]:
    points = [[float(x) * file["width"] / 100, float(y) * file["height"] / 100] for x, y in value["points"]]
    if not points:
        raise ValueError("a polygon without points")
    return {"polygon": points}


def _mark_details(row: Row, file: Row) -> dict[str, Any]:
    return {"original_width": file["width"], "original_height": file["height"], "image_rotation": 0}


IMAGE = MediaType(
    name="image",
    title="Pictures, annotated",
    instances="regions",
    settings=ImageSettings,
    bags="pictures",
    finer="label parts of pictures, cut out as pictures of their own",
    better="give masks (--media-set regions=coco) or a vision network (--embed): docs/images.md, docs/embeddings.md",
    extensions=EXTENSIONS,
    read=_read_picture,
    belongs=_is_picture,
    companions=_companions,
    feature_names=_feature_names,
    places=PLACES,
    whole=True,
    place_in_words=_place_in_words,
    formats=("csv", "parquet", "coco", "label-studio"),
    label_studio=LabelStudio(
        "image", "polygonlabels", "Image", "PolygonLabels", value=_mark_value, place=_mark_place, details=_mark_details
    ),
    draw=_draw_image,
    close_ups=_close_ups,
    stages=_draw_stages,
    dated=True,
    shown_as="image",
    embed=PictureInput,
)


def featurize_images(paths: Sequence[str | Path], settings: ImageSettings | None = None) -> BagDataset:
    """Regions of pictures, described by what they look like.

    Parameters
    ----------
    paths : list of paths
        The pictures, without their masks.
    settings : ImageSettings or None

    Returns
    -------
    BagDataset
        Without labels. `locations` hold file, left, top, width and height of the box, area, polygon
        (points x, y of the outer edge) and rings (all edges, where there are holes or several parts).

    Raises
    ------
    FormatError
        If a picture or its mask cannot be used; the message names it.

    Examples
    --------
    >>> import os, tempfile
    >>> import numpy as np
    >>> from PIL import Image
    >>> from bagwise.app.media import ImageSettings, featurize_images
    >>> path, picture = os.path.join(tempfile.mkdtemp(), "a.png"), np.zeros((64, 64, 3), np.uint8)
    >>> picture[:, 32:] = 255
    >>> Image.fromarray(picture).save(path)
    >>> featurize_images([path], ImageSettings(regions="patches")).bags.sizes.tolist()
    [9]
    """
    return IMAGE.featurize(paths, settings)
