"""Short sounds to play: of one channel, loud enough, at a rate that browsers play, small."""

from __future__ import annotations

import io
import wave

import numpy as np
from scipy import signal

LEAST_RATE = 8_000  # that every browser plays
PAGE_RATE = 24_000  # of the sounds of a report
SLOW = 10  # times slower and so deeper, for ultrasound
LOUDEST_GAIN, PEAK, FADE = 20.0, 0.9, 0.004
STEPS = 2**9 - 1  # of loudness on each side of zero: ten bits, which field noise masks


def make_clip(samples: np.ndarray, rate: int, *, slow: int = 1, most_rate: int) -> tuple[np.ndarray, int]:
    """Samples and rate to be played: so many times slower, resampled where needed, raised, with soft edges."""
    samples, rate_now = samples.astype(np.float64), rate / slow
    if rate_now < LEAST_RATE:
        up = int(np.ceil(LEAST_RATE / rate_now))
        samples, rate_now = signal.resample_poly(samples, up, 1), rate_now * up
    elif rate_now > most_rate:
        down = int(np.ceil(rate_now / most_rate))
        samples, rate_now = signal.resample_poly(samples, 1, down), rate_now / down
    peak = float(np.abs(samples).max(initial=0.0))
    samples = samples * min(PEAK / peak, LOUDEST_GAIN) if peak > 0 else samples
    n_fade = min(int(FADE * rate_now), len(samples) // 2)
    if n_fade:  # a loop must not click
        ramp = np.linspace(0.0, 1.0, n_fade)
        samples[:n_fade] *= ramp
        samples[-n_fade:] *= ramp[::-1]
    return samples, round(rate_now)


def as_wav(samples: np.ndarray, rate: int) -> bytes:
    """A WAV file of 16 bits."""
    stream = io.BytesIO()
    with wave.open(stream, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes((np.clip(samples, -1, 1) * 32767).astype("<i2").tobytes())
    return stream.getvalue()


def as_flac(samples: np.ndarray, rate: int) -> bytes:
    """A FLAC file of 16 bits, of which the last six are zero and cost nothing."""
    import soundfile

    stream = io.BytesIO()
    coarse = (np.round(np.clip(samples, -1, 1) * STEPS) * (32768 // (STEPS + 1))).astype(np.int16)
    soundfile.write(stream, coarse, rate, format="FLAC", subtype="PCM_16")
    return stream.getvalue()
