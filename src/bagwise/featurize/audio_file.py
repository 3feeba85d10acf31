"""Sound files, read in blocks and mixed to one channel."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bagwise.exceptions import FormatError
from bagwise.featurize.files import unreadable

EXTENSIONS = (".wav", ".flac", ".ogg", ".mp3")
LOUDEST = 1e12  # full scale is 1; what is above this is no sound, and its square would be infinite
OGG_PAGE, OGG_HEAD, OGG_LARGEST = b"OggS", 27, 27 + 255 + 255 * 255  # first bytes, heading and largest size of a page
UNKNOWN_SIZES = (0, 0x7FFFFFFF, 0xFFFFFFFF)  # what recorders write that do not know the length beforehand


@dataclass(frozen=True)
class AudioInfo:
    """Rate in hertz, number of channels, length in samples."""

    rate: int
    channels: int
    n_samples: int

    @property
    def seconds(self) -> float:
        return self.n_samples / self.rate


def audio_info(path: str | Path) -> AudioInfo:
    """Rate, channels and length of a sound file, from its heading alone."""
    with _open(path) as sound:
        return AudioInfo(sound.samplerate, sound.channels, sound.frames)


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
        If the file is no sound, is empty or cut off, or holds samples that are no numbers.
    """
    with _open(path) as sound:
        size = max(1, round(seconds * sound.samplerate))
        done = round(start * sound.samplerate)
        if done:
            sound.seek(min(done, sound.frames))
        while done < sound.frames:
            try:
                block = sound.read(min(size, sound.frames - done), dtype="float32", always_2d=True)
            except RuntimeError as error:
                raise unreadable(path, f"it cannot be decoded after {done / sound.samplerate:.1f} s", error) from error
            if len(block) < min(size, sound.frames - done):
                raise FormatError(
                    f"{path}: it is cut off: {sound.frames} samples are announced and {done + len(block)} are there. "
                    "Leave it out, or copy it anew."
                )
            with np.errstate(invalid="ignore", over="ignore"):
                mono = block.mean(axis=1)
                bad = np.flatnonzero(~(np.abs(mono) < LOUDEST))
            if len(bad):
                at = (done + bad[0]) / sound.samplerate
                raise FormatError(
                    f"{path}: {len(bad)} samples from {at:.3f} s on are not finite numbers (NaN or infinity), or "
                    f"above {LOUDEST:g}. Leave it out, or export it anew."
                )
            yield done / sound.samplerate, mono
            done += len(block)


@contextmanager
def _open(path: str | Path) -> Iterator[Any]:
    try:
        import soundfile
    except (ImportError, OSError) as error:
        raise ImportError(
            f"Reading sound needs soundfile, which is not there ({error}); pip install 'bagwise[audio]'."
        ) from error
    if os.path.getsize(path) == 0:
        raise FormatError(f"{path}: the file is empty (0 bytes). Leave it out, or copy it anew.")
    _refuse_cut_wav(path)
    _refuse_cut_ogg(path)
    try:
        sound = soundfile.SoundFile(path)
    except RuntimeError as error:
        raise unreadable(path, "it is not a sound file that can be read", error) from error
    with sound:
        if sound.frames <= 0:
            raise FormatError(f"{path}: it holds no samples. Leave it out, or record it anew.")
        yield sound


def _refuse_cut_wav(path: str | Path) -> None:
    """libsndfile quietly shortens a wav file that lost its end; the size in its heading tells."""
    with open(path, "rb") as file:
        head = file.read(12)
    if len(head) == 12 and head[:4] == b"RIFF" and head[8:] == b"WAVE":
        announced = struct.unpack("<I", head[4:8])[0]
        there = os.path.getsize(path) - 8
        if announced not in UNKNOWN_SIZES and announced > there + 1:
            raise FormatError(
                f"{path}: it is cut off: its heading announces {announced} bytes and {there} are there. "
                "Leave it out, or copy it anew."
            )


def _refuse_cut_ogg(path: str | Path) -> None:
    """libsndfile quietly leaves out the last page of an ogg file where its end was lost; its heading tells the size."""
    with open(path, "rb") as file:
        if file.read(len(OGG_PAGE)) != OGG_PAGE:
            return
        file.seek(max(0, os.path.getsize(path) - OGG_LARGEST))
        end = file.read()
    page = end[max(end.rfind(OGG_PAGE), 0) :]
    n_segments = page[OGG_HEAD - 1] if len(page) >= OGG_HEAD else 0
    announced = OGG_HEAD + n_segments + sum(page[OGG_HEAD : OGG_HEAD + n_segments])
    if len(page) < announced:
        raise FormatError(
            f"{path}: it is cut off: its last page announces {announced} bytes or more and {len(page)} are there. "
            "Leave it out, or copy it anew."
        )
