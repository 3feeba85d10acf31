"""Pictures as networks take them: each region cut out, of a fixed size, its colours scaled."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np

from bagwise.app.media._network_input import REGIONS, Feed, NetworkInput, agree, chosen_output, how_to_say
from bagwise.app.media.files import FileBags
from bagwise.app.media.image_file import read_pixels
from bagwise.app.media.rle import ring_counts, rings_of, sample_counts
from bagwise.app.media.settings import choice, number
from bagwise.app.networks import Network, one_of
from bagwise.core.exceptions import InputError

LAYOUTS = {"nchw": 1, "nhwc": 3}  # and which axis is that of the colours
COLOURS = {"rgb": 3, "bgr": 3, "grey": 1}
MOST_OTHERS = 16  # tokens before those of patches: of the class, and registers
GREY = (0.299, 0.587, 0.114)


@dataclass(frozen=True)
class PictureInput(NetworkInput):
    """How regions of pictures are given to a network.

    Attributes
    ----------
    pool : {"mean", "first", "regions"}
        As in `NetworkInput`; "regions": a network of patches sees the whole picture once, and the vector of a region is
        the mean of its patches, each by how much of it the region has.
    patch : int
        Points of the side of a patch, of "regions".
    width, height : int
        Points of its input.
    layout : {"nchw", "nhwc"}
        The axes of its input: instance (n), colour (c), height (h), width (w).
    colours : {"rgb", "bgr", "grey"}
    scale : float
        Colours from 0 to 255 are multiplied with this first.
    mean, std : str
        One number, or one for each colour: what is taken off then, and what is divided by.
    fit : {"square", "stretch"}
        The box of the region grown to the proportions of the input, or pulled into them.
    margin : float
        Room around the box, as a share of its longer side.
    masked : bool
        Whether what lies outside of the region is blanked: it gets the colour that becomes zero.
    """

    pool: str = choice("mean", "first", "regions")
    patch: int = number(14, 1, 1024)
    width: int = number(0, 0, 16_384)
    height: int = number(0, 0, 16_384)
    layout: str = choice("", *LAYOUTS)
    colours: str = choice("", *COLOURS)
    scale: float = number(1 / 255, 1e-9, 1e9)
    mean: str = "0"
    std: str = "1"
    fit: str = choice("square", "stretch")
    margin: float = number(0.0, 0, 10)
    masked: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("mean", "std"):
            _numbers(name, getattr(self, name))
        if np.any(_numbers("std", self.std) <= 0):
            raise InputError(f"The setting 'std' is {self.std!r}; expected numbers above 0.")

    def completed(self, network: Network) -> Self:
        port, path = one_of(network.inputs, network.path, "pictures"), network.path
        if len(port.shape) != 4:
            raise InputError(
                f"{path}: the network takes {port}, which are no pictures (instance x colour x height x width); use a "
                "network for pictures."
            )
        said = next((name for name, axis in LAYOUTS.items() if port.shape[axis] in (1, 3)), None)
        if said is None and not self.layout:
            raise InputError(
                f"{path}: the network takes {port}; say which axis is which, {how_to_say('layout', 'nchw', path)}."
            )
        layout = agree("layout", self.layout, said, path)
        n_colours = port.shape[LAYOUTS[layout]]
        colours = self.colours or ("grey" if n_colours == 1 else "rgb")
        if n_colours is not None and COLOURS[colours] != n_colours:
            raise InputError(f"{path}: the network takes {n_colours} colours, and 'colours' is {colours!r}; change it.")
        size = {}
        for name, axis in (("height", layout.index("h")), ("width", layout.index("w"))):
            size[name] = agree(name, getattr(self, name), port.shape[axis], path)
            if not size[name]:
                raise InputError(
                    f"{path}: nothing says of which {name} its pictures are; {how_to_say(name, 224, path)}."
                )
        for name in ("mean", "std"):
            if len(_numbers(name, getattr(self, name))) not in (1, COLOURS[colours]):
                raise InputError(
                    f"The setting {name!r} is {getattr(self, name)!r}; expected one number, or {COLOURS[colours]}."
                )
        inputs = replace(self, layout=layout, colours=colours, output=chosen_output(self.output, network), **size)
        # the network scores the whole picture, and no region of it
        return replace(inputs, classes="none") if self.pool == "regions" else inputs

    def source(self, file: Path) -> np.ndarray:
        return read_pixels(file).colours

    def nothing(self) -> np.ndarray:
        return np.zeros((self.height, self.width, 3), dtype=np.uint8)

    @property
    def blank(self) -> tuple[int, ...]:
        """The colour that becomes zero."""
        values = np.broadcast_to(_numbers("mean", self.mean) / self.scale, (COLOURS[self.colours],))
        colour = np.clip(np.round(values), 0, 255).astype(int).tolist()
        return tuple((colour * 3)[:3] if self.colours != "bgr" else colour[::-1])

    def feeds(self, file: Any, found: FileBags, network: Network, problems: list[str]) -> Iterator[Feed]:
        if self.pool != "regions" or not sum(found.sizes):
            yield from super().feeds(file, found, network, problems)
            return
        from PIL import Image

        source = self.source(file)
        height, width = source.shape[:2]
        picture = np.asarray(Image.fromarray(source).resize((self.width, self.height), Image.Resampling.BICUBIC))
        rows = [{key: column[row] for key, column in found.locations.items()} for row in range(sum(found.sizes))]
        shares = np.stack([self._shares(row, height, width) for row in rows])
        yield self.feed([picture], network) | {REGIONS: shares}

    @property
    def _grid(self) -> tuple[int, int]:
        """Patches down and across."""
        return self.height // self.patch, self.width // self.patch

    def _shares(self, place: Mapping[str, Any], height: int, width: int) -> np.ndarray:
        """How much of each patch a region of a picture of that size has; of none, it has the one in its middle."""
        down, across = self._grid
        shape = down * self.patch, across * self.patch
        inside = sample_counts(ring_counts(rings_of(place), height, width), (height, width), shape)
        shares = inside.reshape(down, self.patch, across, self.patch).mean(axis=(1, 3))
        if not shares.any():
            row = int((place["top"] + place["height"] / 2) / height * down)
            shares[min(row, down - 1), min(int((place["left"] + place["width"] / 2) / width * across), across - 1)] = (
                1.0
            )
        return shares

    def pooled(self, found: np.ndarray, feed: Feed, network: Network) -> np.ndarray:
        if self.pool != "regions":
            return super().pooled(found, feed, network)
        n_patches = int(np.prod(self._grid))
        if found.ndim != 3 or not 0 < n_patches <= found.shape[1] <= n_patches + MOST_OTHERS:
            raise InputError(
                f"{network.path}: the output is {' x '.join(map(str, found.shape))}; with pool = regions expected a "
                f"vector for each of {self._grid[0]} x {self._grid[1]} patches of {self.patch} points, and at most "
                f"{MOST_OTHERS} before them. {how_to_say('patch', 16, network.path).capitalize()}, or choose another "
                "'output'."
            )
        patches = found[0, -n_patches:].astype(np.float64)
        shares = feed.get(REGIONS, np.ones((1, n_patches))).reshape(-1, n_patches)  # of the first try, all of it
        return (shares @ patches) / shares.sum(axis=1, keepdims=True)

    def cut(self, source: np.ndarray, place: Mapping[str, Any]) -> np.ndarray:
        """(height, width, 3) the region of a picture, resized."""
        from PIL import Image

        image = source
        if self.masked:
            height, width = size = image.shape[:2]
            inside = sample_counts(ring_counts(rings_of(place), height, width), size, size)
            image = np.where(inside[..., None], image, np.array(self.blank, dtype=np.uint8))
        picture = Image.fromarray(image)
        box = np.array(self._box(place))
        around = self._around(box, picture.size)
        if any(around):
            size = picture.width + around[0] + around[2], picture.height + around[1] + around[3]
            wider = Image.new("RGB", size, self.blank)
            wider.paste(picture, around[:2])
            picture, box = wider, box + np.array([*around[:2], *around[:2]])
        return np.asarray(picture.resize((self.width, self.height), Image.Resampling.BICUBIC, box=tuple(box.tolist())))

    def _around(self, box: np.ndarray, size: tuple[int, int]) -> tuple[int, int, int, int]:
        """Points by which a picture must be wider left, above, right and below to hold a box and its edge."""
        # the bicubic kernel reaches two points of the result beyond the box: there, too, must be the blank colour
        reach = np.ceil(2 * np.maximum(1.0, (box[2:] - box[:2]) / (self.width, self.height))) + 1
        beyond = np.concatenate([-box[:2], box[2:] - size]) + np.tile(reach, 2)
        found = np.ceil(np.maximum(beyond, 0.0)).astype(int).tolist()
        return found[0], found[1], found[2], found[3]

    def _box(self, place: Mapping[str, Any]) -> tuple[float, float, float, float]:
        """Left, top, right and bottom of what is cut out; it may reach beyond the picture."""
        width, height = float(place["width"]), float(place["height"])
        room = self.margin * max(width, height)
        x, y, width, height = place["left"] + width / 2, place["top"] + height / 2, width + 2 * room, height + 2 * room
        if self.fit == "square":
            stretch = max(width / self.width, height / self.height)
            width, height = stretch * self.width, stretch * self.height
        return x - width / 2, y - height / 2, x + width / 2, y + height / 2

    def feed(self, cuts: list[np.ndarray], network: Network) -> Feed:
        port = network.inputs[0]
        values = np.stack(cuts).astype(np.float32)
        if self.colours == "grey":
            values = (values @ np.array(GREY, dtype=np.float32))[..., None]
        elif self.colours == "bgr":
            values = values[..., ::-1]
        if np.issubdtype(port.dtype, np.floating):
            values = (values * np.float32(self.scale) - _numbers("mean", self.mean)) / _numbers("std", self.std)
        else:  # whole numbers are colours as they are
            values = np.round(values)
        if self.layout == "nchw":
            values = values.transpose(0, 3, 1, 2)
        return {port.name: np.ascontiguousarray(values, dtype=port.dtype)}


def _numbers(name: str, text: str) -> np.ndarray:
    try:
        found = np.array([float(word) for word in text.replace(",", " ").split()], dtype=np.float32)
    except ValueError:
        found = np.empty(0, dtype=np.float32)
    if not len(found) or not np.isfinite(found).all():
        raise InputError(f"The setting {name!r} is {text!r}; expected numbers, such as 0.485 0.456 0.406.")
    return found
