"""Pictures and sounds of the files of a run, made when they are asked for and kept in memory up to a bound."""

from __future__ import annotations

import io
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from scipy import signal

from bagwise.app.media.audio_file import AudioInfo, audio_info, make_clip, open_sound
from bagwise.app.media.documents import document_text
from bagwise.app.media.image import crop_region
from bagwise.app.media.image_file import read_pixels
from bagwise.app.media.series import draw_stretch
from bagwise.app.media.series_file import RECORDING, Series, read_series
from bagwise.app.media.spectrogram import spectrogram
from bagwise.app.review._errors import ForbiddenError, MissingError, RequestError
from bagwise.app.runs import Run
from bagwise.core.exceptions import InputError, one_file

BOUND = 96 * 2**20  # bytes of pictures and sounds that are kept
GRID = 10.0  # seconds: pieces of this length have one spectrogram, whose noise is that of the piece
LONGEST_PICTURE, LONGEST_CLIP = 120.0, 60.0  # seconds
LARGEST_PICTURE = 1600  # points
SLOWER = (1, 2, 5, 10)
NARROWEST = 0.002  # width of a band that is heard, as a share of the rate
NARROWEST_PICTURE = 1.0  # hertz
BOX_COLOUR = (214, 96, 10)  # of an instance in the gallery
SHORTEST = 0.001  # seconds
MOST_RATE = 96_000  # that every browser plays


class Cache:
    """What was made last, up to so many bytes."""

    def __init__(self, bound: int):
        self.bound = bound
        self.size = 0
        self._kept: OrderedDict[Hashable, tuple[Any, int]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """What is kept under the key, or what `make` gives."""
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key][0]
        made = make()  # two threads may make the same: better than that one waits for all
        size = _size_of(made)
        with self._lock:
            if key not in self._kept and size <= self.bound:
                self._kept[key] = made, size
                self.size += size
                while self.size > self.bound:
                    self.size -= self._kept.popitem(last=False)[1][1]
        return made


def _size_of(made: Any) -> int:
    """Bytes that something made takes, roughly: the text, the series or the array in it, else the bytes themselves."""
    if isinstance(made, AudioInfo):
        return 64
    if isinstance(made, tuple):  # a piece of a spectrogram, with its edges
        made = made[0]
    if isinstance(made, str):
        return 4 * len(made)
    return made.values.nbytes if isinstance(made, Series) else getattr(made, "nbytes", None) or len(made)


class MediaStore:
    """The files of a run, and nothing else."""

    def __init__(self, run: Run):
        self._folder = run.folder
        self._names = {file["file"]: file for file in run.material.files} if run.media_type.read is not None else {}
        self._settings = run.media_type.make_settings(run.manifest["identity"]["settings"])
        self.media_type = run.media_type
        self._cache = Cache(BOUND)

    def info(self, name: str) -> dict[str, Any]:
        """What was found out about a file when the run was made."""
        if name not in self._names:
            raise MissingError(f"The run has no file {name[:80]!r}.")
        return self._names[name]

    def path(self, name: str) -> Path:
        """Where a file of the run is; names are looked up, never followed, so that no other file is ever opened."""
        self.info(name)
        path = self._folder / name
        try:
            real, folder = path.resolve(strict=True), self._folder.resolve(strict=True)
        except OSError as error:
            raise MissingError(
                f"{name} is not in {self._folder} any more, so it cannot be shown or played. Put it back, or say where "
                "the media are now (bagwise review --media)."
            ) from error
        if not real.is_relative_to(folder) or not real.is_file():
            raise ForbiddenError(f"{name} is a link to a place outside of the folder of media, so it is not shown.")
        return path

    def sound(self, name: str) -> AudioInfo:
        """Rate and length of a recording."""
        self._require("sound", "a recording")
        return self._kept(name, audio_info, "info")

    def text(self, name: str) -> str:
        return self._kept(name, document_text, "text")

    def series(self, name: str, recording: str = "") -> Series:
        """A file, or one recording of a table of several."""
        return self._kept(name, lambda path: read_series(path, self._settings, recording), "series", recording)

    # -- sound --------------------------------------------------------------------------------------------------------

    def band(self, name: str) -> tuple[float, float]:
        """Lowest and highest hertz that are looked at."""
        top = (self.info(name).get("rate") or self.sound(name).rate) / 2
        high = self._settings.high
        return float(min(self._settings.low, top)), float(top if high is None else min(high, top))

    def spectrogram(
        self, name: str, start: float, end: float, width: int, height: int, low: float | None, high: float | None
    ) -> bytes:
        """PNG of a stretch: time to the right, frequency upwards, dark where it is loud."""
        _check_stretch(start, end, self.sound(name).seconds, LONGEST_PICTURE)
        bottom, top = self.band(name)
        bottom, top = bottom if low is None else low, top if high is None else high
        if not (bottom >= 0 and top - bottom >= NARROWEST_PICTURE):
            raise RequestError(
                f"The picture goes from {bottom:g} to {top:g} Hz; the second must be larger by "
                f"{NARROWEST_PICTURE:g} Hz."
            )
        key = ("spectrogram", round(start, 3), round(end, 3), width, height, round(bottom), round(top))
        return self._kept(name, lambda path: self._draw(name, start, end, width, height, bottom, top), *key)

    def _draw(self, name: str, start: float, end: float, width: int, height: int, bottom: float, top: float) -> bytes:
        from PIL import Image

        picture = Image.new("L", (width, height), 255)
        first = int(start // GRID)
        for number in range(first, max(int(np.ceil(end / GRID)), first + 1)):
            values, begin, until, lowest, highest = self._piece(name, number)
            # where the piece lies in the picture, in points, and what part of the piece that is
            across = _overlap((start, end), width, (begin, until), values.shape[1])
            down = _overlap((-top, -bottom), height, (-highest, -lowest), values.shape[0])
            if across is None or down is None:
                continue
            (x0, x1, left, right), (y0, y1, upper, lower) = across, down
            box = (left, upper, right, lower)
            part = Image.fromarray(values).resize((x1 - x0, y1 - y0), Image.Resampling.BILINEAR, box=box)
            picture.paste(part, (x0, y0))
        return _png(picture)

    def _piece(self, name: str, number: int) -> tuple[np.ndarray, float, float, float, float]:
        """Greys of a piece from the highest frequency down; its first and last second, its lowest and highest hertz."""
        return self._kept(name, lambda path: self._look(path, self.sound(name).rate, number), "piece", number)

    def _look(self, path: Path, rate: int, number: int) -> tuple[np.ndarray, float, float, float, float]:
        settings = self._settings
        begin = number * GRID
        with open_sound(path) as sound:
            _, samples = next(sound.blocks(GRID, begin))
        made = spectrogram(samples, rate, settings, min(settings.low, rate / 4))
        first, last, lowest, highest = made.edges
        greys = (255 * (1 - made.intensity[::-1])).astype(np.uint8)
        # frames that would reach over the edge are not there: the first and the last stand for them
        length = len(samples) / rate
        missing = (max(0, round(first / made.time_step)), max(0, round((length - last) / made.time_step)))
        return np.pad(greys, ((0, 0), missing), mode="edge"), begin, begin + length, max(lowest, 0.0), highest

    def clip(self, name: str, start: float, end: float, low: float | None, high: float | None, slow: int) -> bytes:
        """WAV of a stretch, on request only of a band, on request slower and so deeper."""
        info = self.sound(name)
        _check_stretch(start, end, info.seconds, LONGEST_CLIP)
        if slow not in SLOWER:
            raise RequestError(f"slow is {slow}; use one of {', '.join(map(str, SLOWER))}.")

        def cut(path: Path) -> bytes:
            with open_sound(path) as sound:
                _, samples = next(sound.blocks(end - start, start))
            if low is not None or high is not None:
                top = info.rate / 2 if high is None else high
                samples = _band_pass(samples.astype(np.float64), info.rate, low or 0.0, top)
            return make_clip(samples, info.rate, form="WAV", slow=slow, most_rate=MOST_RATE)

        return self._kept(name, cut, "clip", round(start, 4), round(end, 4), low, high, slow)

    # -- pictures -----------------------------------------------------------------------------------------------------

    def picture(self, name: str) -> bytes:
        """PNG of a picture, at most 1600 points wide and high."""
        self._require("image", "a picture")
        return self._kept(name, lambda path: _png(read_pixels(path, LARGEST_PICTURE).colours), "picture")

    def thumb(self, name: str, place: dict[str, Any], size: int) -> bytes:
        """PNG of one instance for the gallery."""

        def draw(path: Path) -> bytes:
            if self.media_type.shown_as == "sound":
                return self._sound_thumb(name, place, size)
            if self.media_type.shown_as == "image":
                return _png(
                    crop_region(self._kept(name, lambda path: read_pixels(path).colours, "pixels"), place, size)
                )
            if self.media_type.shown_as == "series":
                return _png(draw_stretch(self.series(name, place.get(RECORDING) or ""), place, size))
            raise MissingError(f"There is no small picture of {self.media_type.instances}; show the text.")

        where = (repr(place.get(key)) for key in (*self.media_type.places, RECORDING))
        return self._kept(name, draw, "thumb", size, *where)

    def _sound_thumb(self, name: str, place: dict[str, Any], size: int) -> bytes:
        seconds, (bottom, top) = self.sound(name).seconds, self.band(name)
        around = max(0.15, 0.25 * (place["end"] - place["start"]))
        start = max(0.0, place["start"] - around)
        end = min(seconds, place["end"] + around, start + LONGEST_PICTURE)
        return _outlined(self._draw(name, start, end, size, size, bottom, top), place, (start, end), (bottom, top))

    # -- what is kept -------------------------------------------------------------------------------------------------

    def _require(self, kind: str, what: str) -> None:
        if self.media_type.shown_as != kind:
            raise MissingError(f"This run is of {self.media_type.name}, so there is no such thing as {what} in it.")

    def _kept(self, name: str, make: Callable[[Path], Any], *key: Any) -> Any:
        """What was made of the file as it is now."""
        path = self.path(name)
        try:
            status = path.stat()
            with one_file(path):
                return self._cache.get((name, *key, status.st_size, status.st_mtime_ns), lambda: make(path))
        except OSError as error:
            raise MissingError(f"{path.name} cannot be read ({error}).") from error
        except RequestError:
            raise
        except InputError as error:
            raise MissingError(f"It cannot be shown or played: {error}") from error


def _check_stretch(start: float, end: float, seconds: float, longest: float) -> None:
    is_inside = start >= 0 and start + SHORTEST <= seconds
    if not (is_inside and SHORTEST <= end - start <= longest + 1e-6):
        raise RequestError(
            f"The stretch goes from {start:g} to {end:g} s, and the recording is {seconds:g} s long; ask for a part of "
            f"it, from {SHORTEST:g} to {longest:g} s."
        )


def _overlap(
    shown: tuple[float, float], n_shown: int, there: tuple[float, float], n_there: int
) -> tuple[int, int, float, float] | None:
    """First and last point of what is shown that is there, and where these lie among the points that are there."""
    step = (shown[1] - shown[0]) / n_shown
    first = max(0, round((there[0] - shown[0]) / step))
    last = min(n_shown, round((there[1] - shown[0]) / step))
    scale = n_there / (there[1] - there[0])
    left, right = (float(np.clip((shown[0] + x * step - there[0]) * scale, 0, n_there)) for x in (first, last))
    return (first, last, left, right) if last > first and right > left else None


def _band_pass(samples: np.ndarray, rate: int, low: float, high: float) -> np.ndarray:
    """The samples with what lies outside of the band taken away, without a shift in time."""
    low, high = max(low, 0.0), min(high, 0.499 * rate)
    if low >= high:
        raise RequestError(f"The band goes from {low:g} to {high:g} Hz; the second must be larger.")
    # of a narrower band the filter cannot be computed; what is heard is what lies around it
    high = min(max(high, low + NARROWEST * rate), 0.499 * rate)
    low = max(min(low, high - NARROWEST * rate), 0.0)
    if low < NARROWEST * rate:
        sections = _filter("lowpass", (round(high / rate, 6),))
    else:
        sections = _filter("bandpass", (round(low / rate, 6), round(high / rate, 6)))
    return signal.sosfiltfilt(sections, samples, padlen=min(len(samples) - 1, 200)) if len(samples) > 1 else samples


@lru_cache(maxsize=64)
def _filter(kind: str, edges: tuple[float, ...]) -> np.ndarray:
    return signal.butter(4, edges if len(edges) > 1 else edges[0], kind, fs=1, output="sos")


def _outlined(picture: bytes, place: Mapping[str, Any], span: tuple[float, float], band: tuple[float, float]) -> bytes:
    """A spectrogram of a stretch and a band with the box of an instance."""
    from PIL import Image, ImageDraw

    image = Image.open(io.BytesIO(picture)).convert("RGB")
    left, right = ((place[key] - span[0]) / (span[1] - span[0]) * (image.width - 1) for key in ("start", "end"))
    top, below = ((band[1] - place[key]) / (band[1] - band[0]) * (image.height - 1) for key in ("high", "low"))
    top, below = max(0.0, top), min(float(image.height - 1), below)
    if left < right and top < below:
        ImageDraw.Draw(image).rectangle((left, top, right, below), outline=BOX_COLOUR, width=max(1, image.width // 100))
    return _png(image)


def _png(image: Any) -> bytes:
    from PIL import Image

    stream = io.BytesIO()
    picture = Image.fromarray(image) if isinstance(image, np.ndarray) else image
    picture.save(stream, "PNG", compress_level=3)
    return stream.getvalue()
