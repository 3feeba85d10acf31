"""Pictures: a bag is a picture, an instance is a region of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from bagwise.dataset import BagDataset
from bagwise.exceptions import FormatError, InputError
from bagwise.featurize.files import FileBags
from bagwise.featurize.gradients import gradient_histograms
from bagwise.featurize.image_file import EXTENSIONS, read_coco_polygons, read_image, read_mask
from bagwise.featurize.image_regions import grid_regions, mask_regions, outline, polygon_regions, slic_regions
from bagwise.featurize.medium import Medium, Row
from bagwise.featurize.palette import N_COLOURS, nearest_colour
from bagwise.featurize.picture_input import PictureInput
from bagwise.featurize.pictures import CLOSE_WIDTH, CloseUp, Picture, as_photograph, outline_region
from bagwise.featurize.settings import Settings
from bagwise.featurize.stages import draw_image_stages, numbered_picture
from bagwise.featurize.when import recorded_by_name
from bagwise.io.annotations.label_studio_facts import LabelStudio

REGIONS = ("slic", "mask", "coco", "patches")
HISTOGRAM_NAMES = [*(f"hog{i}" for i in range(16)), *(f"color{i}" for i in range(N_COLOURS))]
PATCH_NAMES = [f"{part}_{c}" for part in ("blob", "left", "up", "right", "down") for c in ("red", "green", "blue")]
LEAST_GRADIENT = 70.0  # of Sobel's, grey from 0 to 255; regions of MSRC v2 that have none above it are all zero there
PLACES = ("left", "top", "width", "height")
IMAGE_WIDTH = 640  # in units of the page, whatever the picture's own size: names and edges keep theirs
LARGEST_IMAGE = 640  # points of the longer side
_GRID = 8  # side of the shrunken picture of the SBN form
_CORNERS = (2, 3, 4)  # corners of its 2 x 2 blobs that have room for neighbours on all sides


@dataclass(frozen=True)
class ImageSettings(Settings):
    """How pictures become regions.

    Attributes
    ----------
    regions : {"slic", "mask", "coco", "patches"}
        Regions of like colour; of a mask picture beside each picture; polygons of a COCO file; nine patches.
    mask_suffix : str
        The mask of ``a.jpg`` is ``a<suffix>.png``.
    coco : str
        Path of the COCO file.
    n_segments, compactness : float
        Of SLIC: number of regions asked for, and how much place counts against colour.
    min_area : int
        Least points of a region.
    """

    regions: str = "slic"
    mask_suffix: str = "_mask"
    coco: str = ""
    n_segments: int = 12
    compactness: float = 10.0
    min_area: int = 50

    def __post_init__(self) -> None:
        if self.regions not in REGIONS:
            raise InputError(f"The setting 'regions' is {self.regions!r}; use one of {', '.join(map(repr, REGIONS))}.")
        if self.regions == "coco" and not self.coco:
            raise InputError("regions='coco' needs the setting 'coco': the path of the COCO file.")
        self.check_ranges({"n_segments": (1, 100_000), "compactness": (1e-6, 1e6), "min_area": (1, np.inf)})

    @property
    def feature_names(self) -> list[str]:
        return PATCH_NAMES if self.regions == "patches" else HISTOGRAM_NAMES


def is_mask(path: Path, settings: ImageSettings) -> bool:
    """Whether a file is the mask of another picture and no picture itself.

    Where regions are not taken from masks, only if that picture is there.
    """
    if not settings.mask_suffix or not path.stem.endswith(settings.mask_suffix):
        return False
    stem = path.stem.removesuffix(settings.mask_suffix)
    return settings.regions == "mask" or any(path.with_name(f"{stem}{ending}").exists() for ending in EXTENSIONS)


def find_regions(path: str | Path, name: str, image: np.ndarray, settings: ImageSettings) -> np.ndarray:
    """(height, width) region of each point, from 1; 0 is outside."""
    shape = image.shape[:2]
    if settings.regions == "slic":
        return slic_regions(image, settings.n_segments, settings.compactness, settings.min_area)
    if settings.regions == "patches":
        return grid_regions(shape, 3, 3)
    if settings.regions == "mask":
        file = Path(path).with_name(f"{Path(path).stem}{settings.mask_suffix}.png")
        if not file.exists():
            raise FormatError(
                f"{file}: there is no such file, and the regions of {name} are taken from it; put the mask there, or "
                "set regions=slic for regions of like colour."
            )
        mask = read_mask(file)
        if mask.shape != shape:
            raise FormatError(
                f"{file}: the mask is {mask.shape[1]} x {mask.shape[0]} points but the picture {name} is "
                f"{shape[1]} x {shape[0]}; they must be of one size."
            )
        return mask_regions(mask, settings.min_area)
    polygons = _coco(settings.coco)
    found = polygons.get(name, polygons.get(Path(name).name))
    if found is None:
        raise FormatError(f"{path}: the COCO file {settings.coco} does not name it; add it there, or leave it out.")
    return polygon_regions(shape, found, settings.min_area)


@lru_cache(maxsize=4)
def _coco(path: str) -> dict[str, list[list[np.ndarray]]]:
    return read_coco_polygons(path)


def region_features(image: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """(n, 48) histogram of gradients and of colours of each region, as MSRC v2 and VOC have them.

    16 directions of the gradient of the grey picture, counter-clockwise from "brighter to the right", and 32 colours;
    each block sums to 1, that of the gradients to 0 where the region is smooth.
    """
    n = int(labels.max(initial=0))
    grey = image @ np.array([0.299, 0.587, 0.114])
    gradients = gradient_histograms(grey[::-1], labels[::-1], n, least=LEAST_GRADIENT)
    inside = labels > 0
    cell = (labels[inside].astype(np.int64) - 1) * N_COLOURS + nearest_colour(image[inside])
    colours = np.bincount(cell, minlength=n * N_COLOURS).reshape(n, N_COLOURS)
    return np.hstack([gradients, colours / np.maximum(colours.sum(axis=1, keepdims=True), 1)])


def patch_features(image: np.ndarray) -> np.ndarray:
    """(9, 15) single blobs with neighbours (SBN), as the Scene set has them.

    The picture is averaged down to 8 x 8; a blob is 2 x 2 of these. Each of the nine blobs that have neighbours on all
    sides gives its mean colour and the differences to it of the blobs left of, above, right of and below it.
    """
    rows = np.linspace(0, image.shape[0], _GRID + 1).astype(int)
    columns = np.linspace(0, image.shape[1], _GRID + 1).astype(int)
    if min(image.shape[:2]) < _GRID:
        raise InputError(f"The picture is {image.shape[1]} x {image.shape[0]} points; patches need 8 x 8 or more.")
    sums = np.add.reduceat(np.add.reduceat(image.astype(float), rows[:-1], axis=0), columns[:-1], axis=1)
    small = sums / (np.diff(rows)[:, None] * np.diff(columns)[None, :])[..., None]

    def blob(row: int, column: int) -> np.ndarray:
        return small[row : row + 2, column : column + 2].mean(axis=(0, 1))

    return np.array([
        np.concatenate([
            blob(r, c), *(blob(r + i, c + j) - blob(r, c) for i, j in ((0, -2), (-2, 0), (0, 2), (2, 0)))
        ])
        for r in _CORNERS for c in _CORNERS
    ])  # fmt: skip


def read_picture(path: str | Path, name: str, settings: ImageSettings) -> FileBags:
    """The regions of one picture."""
    image = read_image(path)
    labels = find_regions(path, name, image, settings)
    features = patch_features(image) if settings.regions == "patches" else region_features(image, labels)
    problems = [] if len(features) else ["no region was found in it."]
    return FileBags(
        bag_names=[name],
        sizes=[len(features)],
        features=features,
        locations=_locations(labels, len(features)),
        info={"width": image.shape[1], "height": image.shape[0]},
        problems=problems,
    )


def _locations(labels: np.ndarray, n: int) -> dict[str, Any]:
    """Box, points and outline of each region."""
    boxes, polygons = np.zeros((n, 5), dtype=np.int64), np.empty(n, dtype=object)
    for i in range(n):
        region = labels == i + 1
        rows, columns = np.nonzero(region)
        boxes[i] = columns.min(), rows.min(), np.ptp(columns) + 1, np.ptp(rows) + 1, len(rows)
        polygons[i] = outline(region)
    return {**{key: boxes[:, j] for j, key in enumerate((*PLACES, "area"))}, "polygon": polygons}


def draw_image(path: Path, name: str, rows: Sequence[Row], settings: ImageSettings, start: float) -> Picture:
    """The picture with its regions."""
    from PIL import Image

    image = read_image(path)
    height, width = image.shape[:2]
    scale = IMAGE_WIDTH / width
    small = Image.fromarray(image)
    small.thumbnail((LARGEST_IMAGE, LARGEST_IMAGE))
    return Picture(
        title=name,
        kind="image",
        width=IMAGE_WIDTH,
        height=max(1, round(height * scale)),
        background=as_photograph(small),
        regions=[outline_region(row, [(x * scale, y * scale) for x, y in row["polygon"]], IMAGE_WIDTH) for row in rows],
    )


def close_up_regions(path: Path, rows: Sequence[Row], settings: ImageSettings) -> Iterator[CloseUp]:
    """Each region, outlined, and a little around it."""
    image = read_image(path)
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
        points = [(x - left, y - top) for x, y in place["polygon"]]
        ImageDraw.Draw(part).line([*points, points[0]], fill=(255, 64, 0), width=line)
    scale = size / max(part.size)
    return part.resize((max(1, round(part.width * scale)), max(1, round(part.height * scale))))


def draw_stages(path: Path, folder: Path, settings: ImageSettings, start: float, pieces: int) -> Iterator[str]:
    """Draw a picture and its regions; gives what was found, line by line."""
    image = read_image(path)
    labels = find_regions(path, path.name, image, settings)
    n = int(labels.max(initial=0))
    target = numbered_picture(folder, path.stem)
    draw_image_stages(image, labels, [str(i + 1) for i in range(n)], path.name, target)
    yield f"{path.name}: {image.shape[1]} x {image.shape[0]} points, {n} regions"
    yield f"wrote {target}"


def place_in_words(row: Row) -> str:
    return f"{row['width']} x {row['height']} points at {row['left']}, {row['top']}"


def _is_picture(path: Path, settings: ImageSettings) -> bool:
    return not is_mask(path, settings)


def _feature_names(files: Sequence[FileBags], settings: ImageSettings) -> list[str]:
    return settings.feature_names


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


IMAGE = Medium(
    name="image",
    title="Pictures, annotated",
    instances="regions",
    settings=ImageSettings,
    bags="pictures",
    finer="label parts of pictures, cut out as pictures of their own",
    extensions=EXTENSIONS,
    read=read_picture,
    belongs=_is_picture,
    feature_names=_feature_names,
    places=PLACES,
    whole=True,
    place_in_words=place_in_words,
    formats=("csv", "parquet", "coco", "label-studio"),
    label_studio=LabelStudio(
        "image", "polygonlabels", "Image", "PolygonLabels", value=_mark_value, place=_mark_place, details=_mark_details
    ),
    draw=draw_image,
    close_ups=close_up_regions,
    stages=draw_stages,
    recorded=recorded_by_name,
    shown_as="image",
    embed=PictureInput,
)


def featurize_images(paths: Sequence[str | Path], settings: ImageSettings | None = None) -> BagDataset:
    """Regions of pictures, described by gradients and colours or, for patches, by colours and differences.

    Parameters
    ----------
    paths : list of paths
        The pictures, without their masks.
    settings : ImageSettings or None

    Returns
    -------
    BagDataset
        Without labels. `locations` hold file, left, top, width and height of the box, area, and polygon (points x, y).

    Raises
    ------
    FormatError
        If a picture or its mask cannot be used; the message names it.
    """
    return IMAGE.featurize(paths, settings)
