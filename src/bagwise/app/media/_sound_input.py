"""Sound as networks take it: samples of a fixed rate, some seconds around the middle of each instance."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Self

import numpy as np
from scipy import signal

from bagwise.app.media._network_input import Feed, NetworkInput, agree, chosen_output, how_to_say
from bagwise.app.media.audio_file import Sound
from bagwise.app.media.files import FileBags
from bagwise.app.media.settings import choice, number
from bagwise.app.networks import Network, Port, one_of
from bagwise.core.exceptions import InputError

LAYOUTS = {"t": 1, "nt": 2, "nct": 3, "ntc": 3}  # instance, channel, time; and how many axes that are
MOST_CHANNELS = 2
FAINT = 2.0**-15
ZEROS = 10  # of the filter to each side, in samples of the lower rate


@dataclass(frozen=True)
class SoundInput(NetworkInput):
    """How sound is given to a network.

    Attributes
    ----------
    rate : int
        Samples per second.
    window : float
        Seconds that it takes at a time.
    layout : {"t", "nt", "nct", "ntc"}
        The axes of its input: instance (n), channel (c), time (t).
    channels : int
        Each is given the same sound.
    normalise : {"none", "peak", "standard"}
        Samples as they are (full scale is 1), mean 0 and the loudest of a window at `peak`, or mean 0 and deviation 1.
    peak, gain : float
        Of "peak"; and what samples are multiplied with at last.
    """

    rate: int = number(0, 0, 10_000_000)
    window: float = number(0.0, 0, 3600)
    layout: str = choice("", *LAYOUTS)
    channels: int = number(0, 0, MOST_CHANNELS)
    normalise: str = choice("none", "peak", "standard")
    peak: float = number(1.0, 1e-9, 1e9)
    gain: float = number(1.0, -1e9, 1e9)

    @property
    def n_samples(self) -> int:
        return round(self.window * self.rate)

    def completed(self, network: Network) -> Self:
        port, path = one_of(network.inputs, network.path, "sounds"), network.path
        if not self.rate:
            raise InputError(
                f"{path}: nothing says which sample rate the network takes; {how_to_say('rate', 32000, path)}."
            )
        layout = self._layout(port, path)
        channels = agree("channels", self.channels, port.shape[layout.index("c")] if "c" in layout else 1, path)
        return replace(
            self,
            layout=layout,
            channels=channels or 1,
            window=self._window(port.shape[layout.index("t")], path),
            output=chosen_output(self.output, network),
        )

    def _layout(self, port: Port, path: Path) -> str:
        """Which axis of the input is which: by how many there are, and by which of three is that of channels."""
        fitting = [name for name, axes in LAYOUTS.items() if axes == len(port.shape)]
        if not fitting:
            raise InputError(
                f"{path}: the network takes {port}, which are no samples of sound (instance x time); only networks "
                "that take samples are run. Put the spectrogram into the network when you export it."
            )
        few = [name for name in fitting if "c" not in name or (port.shape[name.index("c")] or np.inf) <= MOST_CHANNELS]
        if not few and not self.layout:
            how = how_to_say("layout", "nct", path)
            raise InputError(f"{path}: the network takes {port}; say which axis is which, {how}.")
        layout = agree("layout", self.layout, few[0] if few else None, path)
        if layout not in fitting:
            raise InputError(f"{path}: the network takes {port}, and 'layout' is {layout!r}; use one of {fitting}.")
        return layout

    def _window(self, n_samples: int | None, path: Path) -> float:
        """Seconds that the network takes; `n_samples` is what its input takes, None where that is open."""
        if n_samples is None and not self.window:
            how = how_to_say("window", 5.0, path)
            raise InputError(f"{path}: nothing says how many seconds the network takes; {how}.")
        window = self.window or (n_samples or 0) / self.rate
        asked = round(window * self.rate)
        if asked < 1:
            raise InputError(f"{path}: a window of {window:g} s at {self.rate} Hz holds no sample; raise 'window'.")
        if n_samples not in (None, asked):
            raise InputError(
                f"{path}: the network takes {n_samples} samples, and {window:g} s at {self.rate} Hz are {asked}; "
                "change 'rate' or 'window'."
            )
        return window

    def order(self, found: FileBags) -> np.ndarray:
        """As time goes: some files can only be read from their beginning on."""
        middle = (np.asarray(found.locations["start"]) + np.asarray(found.locations["end"])) / 2
        return np.argsort(middle, kind="stable")

    def nothing(self) -> np.ndarray:
        return np.zeros(self.n_samples, dtype=np.float32)

    def feed(self, cuts: list[np.ndarray], network: Network) -> Feed:
        port = network.inputs[0]
        samples = np.stack(cuts)
        if "c" in self.layout:
            axis = self.layout.index("c")
            samples = np.repeat(np.expand_dims(samples, axis), self.channels, axis=axis)
        return {port.name: np.ascontiguousarray(samples, dtype=port.dtype)}

    def cut(self, source: Sound, place: Mapping[str, Any]) -> np.ndarray:
        """(n_samples,) float32 window about the middle of an instance, moved into the recording, zeros behind it."""
        info, middle = source.info, float(place["start"] + place["end"]) / 2
        size = min(math.ceil(self.window * info.rate), info.n_samples)
        begin = min(max(0, round((middle - self.window / 2) * info.rate)), info.n_samples - size)
        window = resample(source.read(begin, size), info.rate, self.rate)[: self.n_samples].astype(np.float64)
        if self.normalise == "peak":
            window = window - window.mean()
            loudest = np.abs(window).max(initial=0.0)
            window = window * (self.peak / loudest) if loudest > 0 else window
        elif self.normalise == "standard":
            window = (window - window.mean()) / max(float(window.std()), 1e-12)
        samples = np.zeros(self.n_samples, dtype=np.float32)
        samples[: len(window)] = self.gain * window
        # some networks divide by the loudness; digital silence is heard as the faintest noise that 16 bits hold
        return (
            samples if samples.any() else np.random.default_rng(0).uniform(-FAINT, FAINT, self.n_samples).astype("f4")
        )


def resample(samples: np.ndarray, rate: int, wanted: int) -> np.ndarray:
    """The same sound at another rate, by a polyphase filter."""
    if rate == wanted:
        return samples
    shared = math.gcd(rate, wanted)
    up, down = wanted // shared, rate // shared
    return signal.resample_poly(samples.astype(np.float64), up, down, window=_low_pass(max(up, down)))


@lru_cache(maxsize=8)
def _low_pass(factor: int) -> np.ndarray:
    """What `resample_poly` designs at every call: for rates that share few factors that takes longer than the rest."""
    return signal.firwin(2 * ZEROS * factor + 1, 1.0 / factor, window=("kaiser", 5.0))
