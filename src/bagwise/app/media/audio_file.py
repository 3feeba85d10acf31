"""Sound files, read in blocks and mixed to one channel."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import numpy as np

from bagwise.app.media import _ffmpeg as ffmpeg
from bagwise.app.media._wav import MOST_RATE, SoundBytes, WavHeading, noted_time, read_heading
from bagwise.app.media.files import unreadable
from bagwise.core.exceptions import FormatError

EXTENSIONS = (
    ".wav",
    ".flac",
    ".ogg",
    ".mp3",
    ".opus",
    ".aiff",
    ".aif",
    ".w64",
    ".rf64",
    ".caf",
    ".au",
    *ffmpeg.EXTENSIONS,
)
UNREADABLE = dict.fromkeys(
    (".wac", ".w4v", ".zc", ".dvf", ".vox"), "it is a recorder's own format; convert it to WAV with the maker's program"
)
LOUDEST = 1e12  # full scale is 1; what is above this is no sound, and its square would be infinite
OGG_PAGE, OGG_HEAD, OGG_LARGEST = b"OggS", 27, 27 + 255 + 255 * 255  # first bytes, heading and largest size of a page


@dataclass(frozen=True)
class AudioInfo:
    """Rate in hertz, number of channels, length in samples, what is wrong although it can be read, and when the
    recording began and where that stands, as far as the recorder noted it."""

    rate: int
    channels: int
    n_samples: int
    problem: str = ""
    noted: tuple[datetime, str] | None = None

    @property
    def seconds(self) -> float:
        return self.n_samples / self.rate


class _Samples(Protocol):
    """Where samples come from."""

    def read(self, begin: int, n: int) -> np.ndarray: ...


class Sound:
    """An open sound file.

    Attributes
    ----------
    path : path
    info : AudioInfo
    """

    def __init__(self, path: str | Path, info: AudioInfo, samples: _Samples):
        self.path = path
        self.info = info
        self._samples = samples

    def read(self, begin: int, n: int) -> np.ndarray:
        """(n,) float32 samples from `begin` on, all channels averaged; checked to be there and to be numbers."""
        rate = self.info.rate
        try:
            block = self._samples.read(begin, n)
        except RuntimeError as error:
            raise unreadable(self.path, f"it cannot be decoded after {begin / rate:.1f} s", error) from error
        if len(block) < n:
            raise FormatError(
                f"{self.path}: it is cut off: {self.info.n_samples} samples are announced and {begin + len(block)} are "
                "there. Leave it out, or copy it again."
            )
        with np.errstate(invalid="ignore", over="ignore"):
            mono = block.mean(axis=1)
            bad = np.flatnonzero(~(np.abs(mono) < LOUDEST))
        if len(bad):
            at = (begin + bad[0]) / rate
            raise FormatError(
                f"{self.path}: {len(bad)} samples from {at:.3f} s on are not finite numbers (NaN or infinity), or "
                f"above {LOUDEST:g}. Leave it out, or export it again."
            )
        return mono

    def blocks(self, seconds: float, start: float = 0.0) -> Iterator[tuple[float, np.ndarray]]:
        """Pieces of so many seconds from `start` on: the second at which each begins, and its samples."""
        rate, n_samples = self.info.rate, self.info.n_samples
        size = max(1, round(seconds * rate))
        for begin in range(round(start * rate), n_samples, size):
            yield begin / rate, self.read(begin, min(size, n_samples - begin))


def audio_info(path: str | Path) -> AudioInfo:
    """Rate, channels and length of a sound file."""
    with open_sound(path) as sound:
        return sound.info


def read_blocks(path: str | Path, seconds: float, start: float = 0.0) -> Iterator[tuple[float, np.ndarray]]:
    """Yield pieces of a sound file as (start in seconds, mono float32 samples).

    Only one piece is in memory at a time, so the length of the file does not matter. Channels are averaged.

    Parameters
    ----------
    path : str or path
    seconds : float
        Length of a piece; the last may be shorter.
    start : float
        Where to begin.

    Raises
    ------
    FormatError
        If the file is no sound, is empty, or holds samples that are no numbers.
    """
    with open_sound(path) as sound:
        yield from sound.blocks(seconds, start)


@contextmanager
def open_sound(path: str | Path) -> Iterator[Sound]:
    """A sound file, by libsndfile or by ffmpeg; of a wav file that was cut off what is there."""
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size == 0:
            raise FormatError(f"{path}: the file is empty (0 bytes). Leave it out, or copy it again.")
        if not ffmpeg.is_for_ffmpeg(path):
            _refuse_cut_ogg(path, file, size)
            heading, noted = read_heading(file, size), noted_time(file, size)
            with _decoded(path, file, heading) as sound:
                info = AudioInfo(sound.samplerate, sound.channels, sound.frames, noted=noted)
                yield Sound(path, _checked(path, info, heading.problem), _FromFile(sound))
            return
    n_samples, problem = ffmpeg.count_samples(path)
    with closing(ffmpeg.Stream(path)) as stream:
        yield Sound(path, _checked(path, AudioInfo(stream.rate, stream.channels, n_samples), problem), stream)


def _checked(path: str | Path, info: AudioInfo, problem: str) -> AudioInfo:
    if info.n_samples <= 0:
        raise FormatError(f"{path}: {f'{problem}; it' if problem else 'it'} holds no samples. Leave it out.")
    if info.rate > MOST_RATE:
        raise FormatError(
            f"{path}: its heading announces {info.rate} samples per second, more than {MOST_RATE}, so that it is "
            "damaged. Leave it out, or copy it again."
        )
    if not problem:
        return info
    return replace(info, problem=f"{problem}; the {info.seconds:.1f} s that can be read are used.")


class _FromFile:
    """Samples that libsndfile reads."""

    def __init__(self, file: Any):
        self._file = file

    def read(self, begin: int, n: int) -> np.ndarray:
        if self._file.tell() != begin:
            self._file.seek(min(begin, self._file.frames))
        return self._file.read(n, dtype="float32", always_2d=True)


@contextmanager
def _decoded(path: str | Path, file: BinaryIO, heading: WavHeading) -> Iterator[Any]:
    """What libsndfile makes of an open file."""
    try:
        import soundfile
    except (ImportError, OSError) as error:
        raise ImportError(
            f"Reading sound needs soundfile, which is not there ({error}); pip install 'bagwise[audio]'."
        ) from error
    try:
        sound = soundfile.SoundFile(SoundBytes(file, heading.offset), **heading.options or {})
    except RuntimeError as error:
        raise unreadable(path, "it is not a sound file that can be read", error) from error
    with sound:
        yield sound


def _refuse_cut_ogg(path: str | Path, file: BinaryIO, size: int) -> None:
    """libsndfile quietly leaves out the last page of an ogg file where its end was lost; its heading has the size."""
    if file.read(len(OGG_PAGE)) != OGG_PAGE:
        return
    file.seek(max(0, size - OGG_LARGEST))
    end = file.read()
    page = end[max(end.rfind(OGG_PAGE), 0) :]
    n_segments = page[OGG_HEAD - 1] if len(page) >= OGG_HEAD else 0
    announced = OGG_HEAD + n_segments + sum(page[OGG_HEAD : OGG_HEAD + n_segments])
    if len(page) < announced:
        raise FormatError(
            f"{path}: it is cut off: its last page announces {announced} bytes or more and {len(page)} are there. "
            "Leave it out, or copy it again."
        )
