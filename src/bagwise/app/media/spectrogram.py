"""From samples to a picture of loudness over the noise: time to the right, frequency upwards; and the regions in it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from scipy import fft, ndimage
from scipy.signal import ShortTimeFFT
from scipy.signal.windows import hann

from bagwise.app.media.settings import Settings, choice, number
from bagwise.core.exceptions import InputError

LOUDEST = 40.0  # decibels over the noise that count as 1 in the picture
DEEPEST = 20.0  # decibels by which the noise of a frequency may lie below that of most
SILENCE = 1e-14  # power of a full-scale tone is about 1; nothing a recorder writes is below -140 dB


@dataclass(frozen=True)
class AudioSettings(Settings):
    """How recordings become syllables.

    Attributes
    ----------
    window : float
        Seconds of a piece; a longer recording is cut into pieces of this length. What is found does not depend on it.
    bags : {"window", "file"}
        A bag is a piece, or a whole file.
    frame, overlap : float
        Seconds of a frame of the spectrogram, and the share that the next one covers again.
    low, high : float
        Hertz to look at; high=None is half the rate.
    smooth : float
        Deviation in points of the Gaussian that smooths the spectrogram.
    noise_quantile : float
        Share of the time in which a frequency is taken to hold noise alone.
    threshold : float
        Loudness at which sound begins, in deviations of the noise.
    least_decibels : float
        The threshold is never below this.
    grow : float
        Share of the threshold down to which a syllable is followed.
    close : int
        Frames of a gap that is bridged.
    thin : int
        Bridges and specks thinner than this many points are cut.
    min_area, min_frames : int
        Least points and frames of a syllable.
    segment : {"syllables", "windows", "boxes"}
        What the instances are: syllables that are found; windows of a fixed length, for networks trained elsewhere; or
        boxes that a detector drew.
    boxes : str
        Name and fingerprint of the table of these boxes (--segment TABLE).
    length, step : float or None
        Seconds of such a window, and from the start of one to the start of the next; None as the network has it.
    features : {"shape", "patch"}
        A syllable is described by the 38 features of its profiles, shape and gradients, or by the patch of the
        spectrogram around it, for a network that finds its own (the model `ored-patch`).

    Examples
    --------
    >>> from bagwise.app.media import AudioSettings
    >>> AudioSettings(low=1000.0, high=8000.0).segment
    'syllables'
    """

    window: float = number(10.0, 0.1, 3600)
    bags: str = choice("window", "file")
    frame: float = number(0.032, 0.001, 1)
    overlap: float = number(0.75, 0, 0.95)
    low: float = number(200.0, 0)
    high: float | None = None
    smooth: float = number(1.0, 0, 10)
    noise_quantile: float = number(0.3, 0, 0.95)
    threshold: float = number(4.0, 0)
    least_decibels: float = number(6.0, 0)
    grow: float = number(0.5, 0.05, 1)
    close: int = number(3, 0, 1000)
    thin: int = number(2, 0, 100)
    min_area: int = number(60, 1)
    min_frames: int = number(3, 1)
    segment: str = choice("syllables", "windows", "boxes")
    length: float | None = number(None, 0.05, 3600)
    step: float | None = number(None, 0.01, 3600)
    features: str = choice("shape", "patch")
    boxes: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_range("high", self.low + 1, np.inf)


@dataclass(frozen=True)
class Spectrogram:
    """Loudness of every point over the noise, and where the points are.

    Attributes
    ----------
    level : (n_frequencies, n_frames) float32 array
        Decibels of full scale.
    above_noise : (n_frequencies, n_frames) float32 array
        Decibels over the noise of that frequency: the whitened spectrogram.
    intensity : (n_frequencies, n_frames) float32 array
        The same from 0 (noise) to 1 (40 dB over it).
    frequencies, times : arrays
        Hertz of the rows; seconds of the columns, from the start of the piece.
    frequency_step, time_step : float
    """

    level: np.ndarray
    above_noise: np.ndarray
    intensity: np.ndarray
    frequencies: np.ndarray
    times: np.ndarray
    frequency_step: float
    time_step: float

    @property
    def edges(self) -> tuple[float, float, float, float]:
        """Outer edges of the points: first and last second, lowest and highest hertz."""
        half, step = self.time_step / 2, self.frequency_step / 2
        return (
            float(self.times[0] - half),
            float(self.times[-1] + half),
            float(self.frequencies[0] - step),
            float(self.frequencies[-1] + step),
        )


def spectrogram(
    samples: np.ndarray, rate: int, settings: AudioSettings | None = None, low: float | None = None
) -> Spectrogram:
    """Spectrogram of a piece of sound, with the noise of each frequency taken off.

    Frames are given in seconds, so recordings of different rates have points of the same size. The noise of a
    frequency is the `noise_quantile` of its smoothed level over the piece: what is there most of the time (wind,
    hum, hiss) becomes flat and zero, which is whitening and noise reduction in one step.

    Parameters
    ----------
    samples : (n,) array
    rate : int
    settings : AudioSettings or None
    low : float or None
        Hertz from which on it is drawn, in place of `settings.low`.
    """
    settings = settings or AudioSettings()
    low, high = settings.low if low is None else low, rate / 2 if settings.high is None else settings.high
    transform = _transform(rate, settings.frame, settings.overlap)
    samples = np.asarray(samples, dtype=np.float32)
    # frames that lie wholly inside: padded ones would read as silence
    first = -(-transform.m_num_mid // transform.hop)
    least = first * transform.hop + transform.m_num - transform.m_num_mid
    if len(samples) < least:
        samples = np.pad(samples, (0, least - len(samples)))
    last = first + 1 + (len(samples) - least) // transform.hop
    frequencies = transform.f
    rows = (frequencies >= low) & (frequencies <= high)
    if not rows.any():
        raise InputError(
            f"There is no point of the spectrogram from low={low:g} to high={high:g} Hz: points are "
            f"{transform.delta_f:.3g} Hz apart. Widen the range, or take longer frames."
        )
    power = _power(samples, transform, first, last)[rows]
    if settings.smooth > 0:
        power = ndimage.gaussian_filter(power, settings.smooth)
    level = 10.0 * np.log10(np.maximum(power, np.float32(SILENCE)))
    above = level - _noise_level(level, settings.noise_quantile)[:, None]
    return Spectrogram(
        level=level,
        above_noise=above,
        intensity=np.clip(above / LOUDEST, 0.0, 1.0),
        frequencies=frequencies[rows],
        times=transform.t(len(samples), p0=first, p1=last),
        frequency_step=float(transform.delta_f),
        time_step=float(transform.delta_t),
    )


def _power(samples: np.ndarray, transform: Any, first: int, last: int) -> np.ndarray:
    """(n_frequencies, n_frames) what ``transform.spectrogram(samples, p0=first, p1=last)`` gives, as float32.

    All frames are transformed in one call: the loop over frames inside `ShortTimeFFT` takes several times as long.
    """
    begin = first * transform.hop - transform.m_num_mid
    frames = np.lib.stride_tricks.sliding_window_view(samples[begin:], transform.m_num)[:: transform.hop][
        : last - first
    ]
    spectrum = fft.rfft(frames * transform.win.astype(np.float32), axis=1)
    return np.ascontiguousarray((np.square(spectrum.real) + np.square(spectrum.imag)).T)


def _noise_level(level: np.ndarray, quantile: float) -> np.ndarray:
    """(n_frequencies,) decibels of the noise; frames of digital silence say nothing about it and are left out."""
    heard = level.max(axis=0) > 10.0 * np.log10(SILENCE) + 1.0 if level.size else np.zeros(0, bool)
    if not heard.any():
        return np.full(len(level), 10.0 * np.log10(SILENCE), dtype=level.dtype)
    picked = level[:, heard]
    rank = min(int(quantile * picked.shape[1]), picked.shape[1] - 1)
    noise = np.partition(picked, rank, axis=1)[:, rank]
    # a coder such as mp3 empties bands now and then: what it leaves there is no sound over the noise
    return np.maximum(noise, np.median(noise) - DEEPEST)


@lru_cache(maxsize=16)
def _transform(rate: int, frame: float, overlap: float) -> Any:
    size = _fast_size(max(8, round(rate * frame)))
    hop = max(1, round(size * (1 - overlap)))
    return ShortTimeFFT(hann(size, sym=False), hop, rate, scale_to="magnitude")


def _fast_size(size: int) -> int:
    """The nearest even size whose Fourier transform is fast; it lies within a few percent."""
    larger = 2 * fft.next_fast_len((size + 1) // 2, real=True)
    smaller = 2 * fft.prev_fast_len(max(size // 2, 1), real=True)
    return larger if larger - size < size - smaller else smaller


# ---------------------------------------------------------------------------------------------------------------------
# Connected regions that stand out of the noise

_FAR_BELOW = 25.0  # decibels under the noise that no noise reaches
_CONNECTED = np.ones((3, 3), dtype=bool)


@dataclass(frozen=True)
class Stages:
    """Every stage of one piece: spectrogram, mask of sound, numbered regions, threshold in decibels."""

    picture: Spectrogram
    mask: np.ndarray
    labels: np.ndarray
    decibels: float


def find_syllables(samples: np.ndarray, rate: int, settings: AudioSettings) -> Stages:
    """Spectrogram, mask and regions of one piece of sound."""
    if settings.low >= rate / 2:
        raise InputError(
            f"The recording has a rate of {rate} Hz and so nothing above {rate / 2:g} Hz, but only sounds from "
            f"{settings.low:g} Hz on are looked at; lower that (--media-set low=100)."
        )
    picture = spectrogram(samples, rate, settings)
    decibels = _threshold_of(picture.above_noise, settings)
    mask = _foreground(picture.above_noise, decibels, settings.grow)
    return Stages(picture, mask, _segment(mask, settings), decibels)


def _threshold_of(above_noise: np.ndarray, settings: AudioSettings) -> float:
    """Decibels over the noise at which sound begins in this piece.

    The spread of the noise is read from the quieter half of the points, which hold no sound: a Gaussian has 34.1 % of
    its mass between the median and one deviation below it.
    """
    flat = above_noise.ravel()
    sample = flat[:: max(1, flat.size // 65536)]  # a quantile of 65,536 points is sharp enough
    sample = sample[sample > -_FAR_BELOW]  # digital silence says nothing about the noise
    if sample.size == 0:
        return settings.least_decibels
    below, median = np.quantile(sample, [0.159, 0.5])
    return max(float(median + settings.threshold * (median - below)), settings.least_decibels)


def _foreground(above_noise: np.ndarray, decibels: float, grow: float) -> np.ndarray:
    """Points that belong to sound: those above the threshold and, joined to them, those above `grow` times of it."""
    labels, n = ndimage.label(above_noise > grow * decibels, structure=_CONNECTED)
    strong = np.zeros(n + 1, dtype=bool)
    strong[labels[above_noise > decibels]] = True
    strong[0] = False
    return strong[labels]


def _segment(mask: np.ndarray, settings: AudioSettings) -> np.ndarray:
    """(n_frequencies, n_frames) int32 number of the region of each point of a mask, from left to right, 0 outside.

    Gaps of up to `close` frames are bridged, bridges and specks thinner than `thin` points are cut, and regions of
    fewer points or frames than the least are dropped.
    """
    close, thin = settings.close, settings.thin
    if close > 0:
        padded = np.pad(mask, ((0, 0), (close + 1, close + 1)))
        mask = ndimage.binary_closing(padded, np.ones((1, close + 1)))[:, close + 1 : -close - 1]
    if thin > 1:
        mask = ndimage.binary_opening(mask, np.ones((thin, thin)))
    labels, n = ndimage.label(mask, structure=_CONNECTED)
    columns = [box[1] for box in ndimage.find_objects(labels)]
    first, frames = np.array([[s.start, s.stop - s.start] for s in columns], dtype=np.int64).reshape(-1, 2).T
    area = np.bincount(labels.ravel(), minlength=n + 1)
    kept = np.flatnonzero((area[1:] >= settings.min_area) & (frames >= settings.min_frames))
    numbers = np.zeros(n + 1, dtype=np.int32)
    numbers[kept[np.argsort(first[kept], kind="stable")] + 1] = np.arange(1, len(kept) + 1)
    return numbers[labels]
