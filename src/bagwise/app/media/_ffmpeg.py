"""Sound files that only ffmpeg can read: decoded by it to a pipe, as it comes, never through a shell."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import tempfile
import threading
from contextlib import closing
from functools import lru_cache
from pathlib import Path

import numpy as np

from bagwise.core.exceptions import FormatError

# What a file may be; a playlist, which may name other files and addresses, is none of these.
KINDS = "aac,amr,ape,asf,flac,matroska,mov,mp3,ogg,wav,wv"
TIMEOUT = 60.0  # seconds without any output
CHUNK = 1 << 20
AU, FLOATS = b".snd", 6  # the heading of the format that it is asked for, and its number for 32-bit floats
KEPT = 10.0  # seconds of what was decoded last that can be read again


class Stream:
    """The sound of a file, decoded from its beginning on; to go back by more than a little, it is decoded again.

    Attributes
    ----------
    rate, channels : int
    """

    def __init__(self, path: str | Path):
        self.path = path
        self._begin()

    def _begin(self) -> None:
        """Start ffmpeg and read the heading of what it gives."""
        program = shutil.which("ffmpeg")
        if program is None:
            raise FormatError(
                f"{self.path}: files that end in {Path(self.path).suffix!r} are read by ffmpeg, which is not there; "
                "install it (https://ffmpeg.org), or save the file as WAV or FLAC."
            )
        self._said = tempfile.TemporaryFile()  # noqa: SIM115  # closed with the process
        self._process = subprocess.Popen(
            [
                *(program, "-nostdin", "-hide_banner", "-loglevel", "error"),
                *("-protocol_whitelist", "file", "-format_whitelist", KINDS),
                *("-i", f"file:{os.path.abspath(self.path)}", "-map", "0:a:0", "-vn"),
                *("-c:a", "pcm_f32be", "-f", "au", "pipe:1"),
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=self._said,
            bufsize=0,
        )
        try:
            head = self._read(24)
            if len(head) < 24 or head[:4] != AU:
                raise self._failed(self._complaint() or "it gave no sound")
            offset, _, encoding, self.rate, self.channels = struct.unpack(">5I", head[4:])
            self._read(offset - 24)
            if encoding != FLOATS or not self.rate or not self.channels:
                raise self._failed(f"it gives sound of the encoding {encoding}")
        except BaseException:
            self.close()
            raise
        self._done = 0  # samples that were decoded
        self._last = np.empty((0, self.channels), dtype=np.float32)

    def _read(self, n: int) -> bytes:
        """n bytes of the output, or fewer at its end."""
        parts: list[bytes] = []
        assert self._process.stdout is not None
        while n > 0:
            late = threading.Event()
            watch = threading.Timer(TIMEOUT, self._end, [late])
            watch.start()
            try:
                part = self._process.stdout.read(min(n, CHUNK))
            finally:
                watch.cancel()
            if late.is_set():
                raise FormatError(
                    f"{self.path}: ffmpeg gave nothing for {TIMEOUT:g} s and was ended. Leave the file out, or save it "
                    "as WAV or FLAC."
                )
            if not part:
                break
            parts.append(part)
            n -= len(part)
        return b"".join(parts)

    def _end(self, late: threading.Event) -> None:
        late.set()
        self._process.kill()

    def _failed(self, why: str) -> FormatError:
        return FormatError(f"{self.path}: ffmpeg cannot read it ({why}). Leave it out, or save it again.")

    def count(self) -> tuple[int, str]:
        """How many samples there are from here to the end, and what was wrong before it."""
        while len(self._decode(CHUNK)):
            pass
        said = self._complaint()
        if said and not self._done:
            raise self._failed(said)
        return self._done, f"ffmpeg could not decode all of it ({said})" if said else ""

    def _complaint(self) -> str:
        """What ffmpeg said when it failed, in short; "" where it did not."""
        if self._process.wait() == 0:
            return ""
        self._said.seek(0)
        lines = self._said.read().decode("utf-8", "replace").strip().splitlines()
        return lines[-1][-200:] if lines else f"it ended with {self._process.returncode}"

    def _decode(self, n: int) -> np.ndarray:
        """(k, channels) the next samples, k = n unless the sound ends before."""
        width = 4 * self.channels
        raw = self._read(n * width)
        found = np.frombuffer(raw[: len(raw) // width * width], dtype=">f4").astype(np.float32)
        found = found.reshape(-1, self.channels)
        self._done += len(found)
        self._last = np.concatenate([self._last, found])[-round(KEPT * self.rate) :]
        return found

    def read(self, begin: int, n: int) -> np.ndarray:
        """(k, channels) samples from `begin` on, k = n unless the sound ends before."""
        if begin < self._done - len(self._last):
            self.close()
            self._begin()
        while self._done < begin:
            if not len(self._decode(min(begin - self._done, CHUNK))):
                return self._last[:0]
        first = begin - (self._done - len(self._last))
        again = self._last[first : first + n]
        return np.concatenate([again, self._decode(n - len(again))])

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._said.close()


def count_samples(path: str | Path) -> tuple[int, str]:
    """How many samples ffmpeg decodes of a file, and what was wrong before its end.

    What files say of themselves is an estimate in some formats.
    """
    status = os.stat(path)
    return _count(str(path), status.st_size, status.st_mtime_ns)


@lru_cache(maxsize=1000)
def _count(path: str, size: int, changed: int) -> tuple[int, str]:
    with closing(Stream(path)) as stream:
        return stream.count()
