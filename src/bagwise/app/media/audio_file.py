"""Sound files, read in blocks and mixed to one channel; and short sounds to play."""

from __future__ import annotations

import io
import os
import struct
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from scipy import signal

from bagwise.app.media import _ffmpeg as ffmpeg
from bagwise.app.media.files import NOTES
from bagwise.core.exceptions import FormatError, one_file

FOR_FFMPEG = (".m4a", ".m4b", ".aac", ".wma", ".amr", ".3gp", ".mka", ".wv", ".ape")  # libsndfile does not read them
EXTENSIONS = (
    *(".wav", ".flac", ".ogg", ".mp3", ".opus", ".aiff", ".aif", ".w64", ".rf64", ".caf", ".au"),
    *FOR_FFMPEG,
)
UNREADABLE = dict.fromkeys(
    (".wac", ".w4v", ".zc", ".dvf", ".vox"), "it is a recorder's own format; convert it to WAV with the maker's program"
)
CURE = "Leave it out, or save it again."
CANCELLED = 0.01  # share of the power of all channels that is left of their mean where one of them is inverted
LOUDEST = 1e12  # full scale is 1; what is above this is no sound, and its square would be infinite
MOST_RATE = 10_000_000  # samples per second; recorders of ultrasound and under water stay below 2 million


@dataclass(frozen=True)
class AudioInfo:
    """Rate in hertz, number of channels, length in samples, and what is wrong although it can be read."""

    rate: int
    channels: int
    n_samples: int
    problem: str = ""

    @property
    def seconds(self) -> float:
        return self.n_samples / self.rate


class Sound:
    """An open sound file.

    Attributes
    ----------
    path : path
    info : AudioInfo
    notes : dict
        What the recorder may have noted of the time: name to content of chunks of a WAV file.
    problem : str
        What was wrong with what was read so far, if anything.
    """

    problem = ""

    def __init__(
        self,
        path: str | Path,
        info: AudioInfo,
        samples: Callable[[int, int], np.ndarray],
        notes: Mapping[bytes, bytes] | None = None,
    ):
        self.path = Path(path)
        self.info = info
        self.notes = notes or {}
        self._samples = samples  # from a first one on, so many, of all channels

    @property
    def is_decoded_from_start(self) -> bool:
        """Whether all of the file before a place must be decoded to get there."""
        return self.path.suffix.lower() in FOR_FFMPEG

    def hold(self, room: int) -> tuple[Sound | None, int]:
        """The same with all samples in memory, for other processes too, and their bytes; None and 0 above `room`."""
        n_bytes = 4 * self.info.n_samples * self.info.channels
        if n_bytes > room:
            return None, 0
        samples = self._samples(0, self.info.n_samples)
        return Sound(self.path, self.info, partial(_rows_from, samples), self.notes), n_bytes

    def read(self, begin: int, n: int) -> np.ndarray:
        """(n,) float32 samples from `begin` on, all channels averaged; checked to be there and to be numbers.

        Where channels cancel each other, since a cable was soldered the wrong way round, it is the first one.
        """
        rate = self.info.rate
        with one_file(self.path, f"it cannot be decoded after {begin / rate:.1f} s", CURE):
            block = self._samples(begin, n)
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
        if block.shape[1] > 1 and np.vdot(mono, mono) < CANCELLED * np.vdot(block, block) / block.shape[1]:
            self.problem = "its channels cancel each other, so one is inverted; the first alone is used."
            return np.ascontiguousarray(block[:, 0])
        return mono

    def blocks(self, seconds: float, start: float = 0.0) -> Iterator[tuple[float, np.ndarray]]:
        """Pieces of so many seconds from `start` on: the second at which each begins, and its samples.

        The last may be shorter. Only one piece is in memory at a time, so the length of the file does not matter.
        """
        rate, n_samples = self.info.rate, self.info.n_samples
        size = max(1, round(seconds * rate))
        for begin in range(round(start * rate), n_samples, size):
            yield begin / rate, self.read(begin, min(size, n_samples - begin))


def _rows_from(samples: np.ndarray, begin: int, n: int) -> np.ndarray:
    return samples[begin : begin + n]


def audio_info(path: str | Path) -> AudioInfo:
    """Rate, channels and length of a sound file."""
    with open_sound(path) as sound:
        return sound.info


@contextmanager
def open_sound(path: str | Path) -> Iterator[Sound]:
    """A sound file, by libsndfile or by ffmpeg; of a wav file that was cut off what is there."""
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size == 0:
            raise FormatError(f"{path}: the file is empty (0 bytes). Leave it out, or copy it again.")
        if Path(path).suffix.lower() not in FOR_FFMPEG:
            _refuse_cut_ogg(path, file, size)
            chunks = _riff_chunks(file, size)
            notes = {name: _content(file, chunks[name]) for name in NOTES if name in chunks}
            problem, offset, options = _unfit_heading(file, size, chunks)
            with _decoded(path, file, offset, options) as sound:
                info = AudioInfo(sound.samplerate, sound.channels, sound.frames, problem)

                def samples(begin: int, n: int) -> np.ndarray:
                    if sound.tell() != begin:
                        sound.seek(min(begin, sound.frames))
                    return sound.read(n, dtype="float32", always_2d=True)

                yield Sound(path, _checked(path, info), samples, notes)
            return
    n_samples, problem = ffmpeg.count_samples(path)
    with closing(ffmpeg.Stream(path)) as stream:
        yield Sound(path, _checked(path, AudioInfo(stream.rate, stream.channels, n_samples, problem)), stream.read)


def _checked(path: str | Path, info: AudioInfo) -> AudioInfo:
    problem = info.problem
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


@contextmanager
def _decoded(path: str | Path, file: BinaryIO, offset: int, options: dict[str, Any]) -> Iterator[Any]:
    """What libsndfile makes of an open file."""
    try:
        import soundfile
    except (ImportError, OSError) as error:
        raise ImportError(
            f"Reading sound needs soundfile, which is not there ({error}); pip install 'bagwise[audio]'."
        ) from error
    with one_file(path, "it is not a sound file that can be read", CURE):
        sound = soundfile.SoundFile(_SoundBytes(file, offset), **options)
    with sound:
        yield sound


class _SoundBytes(io.FileIO):
    """The bytes of an open file from some place on, as libsndfile reads them; the file stays open when this is closed.

    A damaged heading may lead to a place before the first byte or far behind the last: these are the first and the last
    here, since an exception cannot pass through a library in C.
    """

    def __init__(self, file: BinaryIO, offset: int):
        super().__init__(file.fileno(), closefd=False)
        self._offset = offset
        self.seek(0)

    def seek(self, position: int, whence: int = io.SEEK_SET) -> int:
        here, end = self.tell(), super().seek(0, io.SEEK_END) - self._offset
        position += {io.SEEK_SET: 0, io.SEEK_CUR: here, io.SEEK_END: end}[whence]
        return super().seek(self._offset + min(max(position, 0), end)) - self._offset

    def tell(self) -> int:
        return super().tell() - self._offset


# ---------------------------------------------------------------------------------------------------------------------
# Files that lost their end, or whose heading does not fit the sound, as recorders leave them that lost their power

OGG_PAGE, OGG_HEAD, OGG_LARGEST = b"OggS", 27, 27 + 255 + 255 * 255  # first bytes, heading and largest size of a page
MOST_CHUNKS = 1000  # a damaged heading may announce any number
MOST_BYTES = 65_536  # of what is read of one
UNKNOWN = 0xFFFFFFFF  # size of a chunk of more than 4 GB, which the chunk ds64 tells; or of one that was never finished
UNKNOWN_SIZES = (0, 0x7FFFFFFF, UNKNOWN)  # what recorders write that do not know the length beforehand
EXTENSIBLE = 0xFFFE
SUBTYPES = {
    (1, 8): "PCM_U8",
    (1, 16): "PCM_16",
    (1, 24): "PCM_24",
    (1, 32): "PCM_32",
    (3, 32): "FLOAT",
    (3, 64): "DOUBLE",
    (6, 8): "ALAW",
    (7, 8): "ULAW",
}
"""What libsndfile calls samples of a kind and so many bits."""
Chunk = tuple[int, int]
"""The byte at which the content of a chunk begins, and the size that is announced."""


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


def _riff_chunks(file: BinaryIO, size: int) -> dict[bytes, Chunk]:
    """The first chunk of each name of an open file of `size` bytes, however damaged; none where it is no WAV file.

    The file as a whole is one too, ``RIFF``, or ``RF64`` where it may be larger. Only headings are read, never sound.
    """
    file.seek(0)
    head = file.read(12)
    if head[:4] not in (b"RIFF", b"RF64") or head[8:] != b"WAVE":
        return {}
    chunks = {head[:4]: (8, size - 8)}
    position, data_size = 12, UNKNOWN
    for _ in range(MOST_CHUNKS):
        if position + 8 > size:
            break
        file.seek(position)
        name, length = struct.unpack("<4sI", file.read(8))
        chunks.setdefault(name, (position + 8, length))
        if name == b"ds64":
            sizes = file.read(min(length, 16))
            data_size = struct.unpack("<QQ", sizes)[1] if len(sizes) == 16 else UNKNOWN
        elif name == b"data" and length == UNKNOWN:
            length = data_size
        position += 8 + length + length % 2
    return chunks


def _content(file: BinaryIO, chunk: Chunk) -> bytes:
    """The first bytes of a chunk."""
    file.seek(chunk[0])
    return file.read(min(chunk[1], MOST_BYTES))


def _unfit_heading(file: BinaryIO, size: int, chunks: dict[bytes, Chunk]) -> tuple[str, int, dict[str, Any]]:
    """What is wrong with the heading of a wav file, and where and how its samples are read if without the heading.

    A file that is shorter than announced is read by libsndfile to its end, in silence. One whose samples are announced
    as none, or as fewer than there are, is read by what its heading says of rate, channels and kind of samples.
    """
    if b"RIFF" not in chunks or b"data" not in chunks:  # libsndfile knows what RF64 announces
        return "", 0, {}
    start, announced = chunks[b"data"]
    there = size - start
    if announced not in UNKNOWN_SIZES and announced > there:
        problem = f"it is cut off: its heading announces {announced} bytes of sound and {there} are there"
        return problem, 0, {}
    is_short = _is_lost(file, start + announced + announced % 2, size) or (announced == 0 and there > 0)
    options = _raw_options(_content(file, chunks.get(b"fmt ", (0, 0))))
    if announced in UNKNOWN_SIZES[1:] or not is_short or not options:
        return "", 0, {}
    problem = f"its heading announces {announced} bytes of sound and {there} are there: the recorder did not finish it"
    return problem, start, options


def _is_lost(file: BinaryIO, end: int, size: int) -> bool:
    """Whether what lies behind the announced samples is no chunk of a wav file, and so must be more of them."""
    if size - end < 8:
        return False
    file.seek(end)
    name, length = struct.unpack("<4sI", file.read(8))
    return not (all(32 <= byte < 127 for byte in name) and length <= size - end)


def _raw_options(fmt: bytes) -> dict[str, Any]:
    """How soundfile is to read samples without their heading; nothing where it could not."""
    if len(fmt) < 16:
        return {}
    kind, channels, rate, _, _, bits = struct.unpack("<HHIIHH", fmt[:16])
    if kind == EXTENSIBLE and len(fmt) >= 26:
        kind = struct.unpack("<H", fmt[24:26])[0]
    subtype = SUBTYPES.get((kind, bits))
    if subtype is None or not channels or not 0 < rate <= MOST_RATE:
        return {}
    return {"format": "RAW", "subtype": subtype, "samplerate": rate, "channels": channels, "endian": "LITTLE"}


# ---------------------------------------------------------------------------------------------------------------------
# Short sounds to play: of one channel, loud enough, at a rate that browsers play, small

LEAST_RATE = 8_000  # that every browser plays
LOUDEST_GAIN, PEAK, FADE = 20.0, 0.9, 0.004
STEPS = 2**9 - 1  # of loudness on each side of zero, where a clip is to be small: ten bits, which field noise masks


def make_clip(samples: np.ndarray, rate: int, *, form: str, slow: int = 1, most_rate: int) -> bytes:
    """A file of 16 bits to be played: so many times slower, resampled where needed, raised, with soft edges.

    In a FLAC file the last six bits are zero and cost nothing.
    """
    import soundfile

    samples, rate_now = samples.astype(np.float64), rate / slow
    up, down = max(1, int(np.ceil(LEAST_RATE / rate_now))), max(1, int(np.ceil(rate_now / most_rate)))
    if up > 1 or down > 1:
        samples, rate_now = signal.resample_poly(samples, up, down), rate_now * up / down
    peak = float(np.abs(samples).max(initial=0.0))
    samples = samples * min(PEAK / peak, LOUDEST_GAIN) if peak > 0 else samples
    n_fade = min(int(FADE * rate_now), len(samples) // 2)
    if n_fade:  # a loop must not click
        ramp = np.linspace(0.0, 1.0, n_fade)
        samples[:n_fade] *= ramp
        samples[-n_fade:] *= ramp[::-1]
    levels = np.round(samples * STEPS) * (2**15 // (STEPS + 1)) if form == "FLAC" else samples * (2**15 - 1)
    stream = io.BytesIO()
    soundfile.write(stream, levels.astype(np.int16), round(rate_now), format=form, subtype="PCM_16")
    return stream.getvalue()
