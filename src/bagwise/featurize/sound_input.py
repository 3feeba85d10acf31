"""Sound as networks take it: samples of a fixed rate, some seconds around the middle of each instance."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Self

import numpy as np
from scipy import signal

from bagwise.exceptions import InputError
from bagwise.featurize.audio_file import Sound, open_sound
from bagwise.featurize.files import FileBags
from bagwise.featurize.network_input import Feed, NetworkInput, agree, chosen_output, how_to_say, rows_at_a_time
from bagwise.featurize.onnx_model import Network, Port, one_of

LAYOUTS = {"t": 1, "nt": 2, "nct": 3, "ntc": 3}  # instance, channel, time; and how many axes that are
NORMALISE = ("none", "peak", "standard")
MOST_CHANNELS = 2
ZEROS = 10  # of the filter to each side, in samples of the lower rate


@dataclass(frozen=True)
class SoundInput(NetworkInput):
    """How sound is given to a network.

    Attributes
    ----------
    rate : int
        Samples a second.
    window : float
        Seconds that it hears at a time.
    layout : {"t", "nt", "nct", "ntc"}
        The axes of its input: instance (n), channel (c), time (t).
    channels : int
        Each is given the same sound.
    normalise : {"none", "peak", "standard"}
        Samples as they are (full scale is 1), mean 0 and the loudest of a window at `peak`, or mean 0 and deviation 1.
    peak, gain : float
        Of "peak"; and what samples are multiplied with at last.
    """

    rate: int = 0
    window: float = 0.0
    layout: str = ""
    channels: int = 0
    normalise: str = "none"
    peak: float = 1.0
    gain: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_choice("normalise", NORMALISE)
        self.check_choice("layout", ("", *LAYOUTS))
        self.check_ranges({
            "rate": (0, 10_000_000), "window": (0, 3600), "channels": (0, MOST_CHANNELS), "peak": (1e-9, 1e9),
            "gain": (-1e9, 1e9),
        })  # fmt: skip

    @property
    def n_samples(self) -> int:
        return round(self.window * self.rate)

    def completed(self, network: Network) -> Self:
        port, path = one_of(network.inputs, network.path, "sounds"), network.path
        if not self.rate:
            raise InputError(
                f"{path}: nothing says at which rate the network hears; {how_to_say('rate', 32000, path)}."
            )
        layout = self._layout(port, path)
        channels = agree("channels", self.channels, port.shape[layout.index("c")] if "c" in layout else 1, path)
        return replace(
            self, layout=layout, channels=channels or 1, window=self._window(port.shape[layout.index("t")], path),
            output=chosen_output(self.output, network),
        )  # fmt: skip

    def _layout(self, port: Port, path: Path) -> str:
        """Which axis of the input is which: told by how many there are, and by which of three is that of channels."""
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
        """Seconds that the network hears; `n_samples` is what its input takes, None where that is open."""
        if n_samples is None and not self.window:
            how = how_to_say("window", 5.0, path)
            raise InputError(f"{path}: nothing says how many seconds the network hears; {how}.")
        window = self.window or (n_samples or 0) / self.rate
        asked = round(window * self.rate)
        if asked < 1:
            raise InputError(f"{path}: a window of {window:g} s at {self.rate} Hz holds no sample; raise 'window'.")
        if n_samples not in (None, asked):
            raise InputError(
                f"{path}: the network takes {n_samples} samples, and {window:g} s at {self.rate} Hz are {asked}; mend "
                "'rate' or 'window'."
            )
        return window

    def order(self, found: FileBags) -> np.ndarray:
        """As time goes: some files can only be read from their beginning on."""
        return np.argsort(_middle(found), kind="stable")

    def feeds(self, path: Path, found: FileBags, network: Network, problems: list[str]) -> Iterator[Feed]:
        middle, n = _middle(found)[self.order(found)], rows_at_a_time(self, network)
        with open_sound(path) as sound:
            for i in range(0, len(middle), n):
                yield self._feed([self.hear(sound, at) for at in middle[i : i + n].tolist()], network)

    def example(self, network: Network) -> Feed:
        return self._feed([np.zeros(self.n_samples, dtype=np.float32)], network)

    def _feed(self, windows: list[np.ndarray], network: Network) -> Feed:
        port = network.inputs[0]
        samples = np.stack(windows)
        if "c" in self.layout:
            axis = self.layout.index("c")
            samples = np.repeat(np.expand_dims(samples, axis), self.channels, axis=axis)
        return {port.name: np.ascontiguousarray(samples, dtype=port.dtype)}

    def hear(self, sound: Sound, middle: float) -> np.ndarray:
        """(n_samples,) float32 of the window around a moment, moved into the recording; zeros after its end."""
        info = sound.info
        size = min(math.ceil(self.window * info.rate), info.n_samples)
        begin = min(max(0, round((middle - self.window / 2) * info.rate)), info.n_samples - size)
        heard = resample(sound.read(begin, size), info.rate, self.rate)[: self.n_samples].astype(np.float64)
        if self.normalise == "peak":
            heard = heard - heard.mean()
            loudest = np.abs(heard).max(initial=0.0)
            heard = heard * (self.peak / loudest) if loudest > 0 else heard
        elif self.normalise == "standard":
            heard = (heard - heard.mean()) / max(float(heard.std()), 1e-12)
        samples = np.zeros(self.n_samples, dtype=np.float32)
        samples[: len(heard)] = self.gain * heard
        return samples


def _middle(found: FileBags) -> np.ndarray:
    return (np.asarray(found.locations["start"]) + np.asarray(found.locations["end"])) / 2


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
