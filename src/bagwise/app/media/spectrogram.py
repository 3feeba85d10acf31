"""From samples to a picture of loudness over the noise: time to the right, frequency upwards."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from scipy import fft, ndimage
from scipy.signal import ShortTimeFFT
from scipy.signal.windows import hann

from bagwise.core.exceptions import InputError

LOUDEST = 40.0  # decibels over the noise that count as 1 in the picture
DEEPEST = 20.0  # decibels by which the noise of a frequency may lie below that of most
SILENCE = 1e-14  # power of a full-scale tone is about 1; nothing a recorder writes is below -140 dB


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
    samples: np.ndarray,
    rate: int,
    *,
    frame: float = 0.032,
    overlap: float = 0.75,
    low: float = 200.0,
    high: float | None = None,
    smooth: float = 1.0,
    noise_quantile: float = 0.3,
) -> Spectrogram:
    """Spectrogram of a piece of sound, with the noise of each frequency taken off.

    The frame is given in seconds, so recordings of different rates have points of the same size. The noise of a
    frequency is the `noise_quantile` of its smoothed level over the piece: what is there most of the time (wind,
    hum, hiss) becomes flat and zero, which is whitening and noise reduction in one step.

    Parameters
    ----------
    samples : (n,) array
    rate : int
    frame : float
        Seconds of a frame; 1 / frame is the frequency step.
    overlap : float
        Share of a frame that the next one covers again.
    low, high : float
        Hertz to look at; None is half the rate.
    smooth : float
        Standard deviation in points of the Gaussian that smooths the power.
    noise_quantile : float
        Share of the time in which a frequency is taken to hold noise alone.
    """
    transform = _transform(rate, frame, overlap)
    samples = np.asarray(samples, dtype=np.float32)
    if len(samples) < transform.m_num:
        samples = np.pad(samples, (0, transform.m_num - len(samples)))
    first, last = transform.lower_border_end[1], transform.upper_border_begin(len(samples))[1]
    last = max(last, first + 1)  # frames that lie wholly inside: padded ones would read as silence
    frequencies = transform.f
    rows = (frequencies >= low) & (frequencies <= (rate / 2 if high is None else high))
    if not rows.any():
        raise InputError(
            f"There is no point of the spectrogram from low={low:g} to high={high or rate / 2:g} Hz: points are "
            f"{transform.delta_f:.3g} Hz apart. Widen the range, or take longer frames."
        )
    power = _power(samples, transform, first, last)[rows]
    if smooth > 0:
        power = ndimage.gaussian_filter(power, smooth)
    level = 10.0 * np.log10(np.maximum(power, np.float32(SILENCE)))
    above = level - _noise_level(level, noise_quantile)[:, None]
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
