"""A virtual environment for each peer, so that what it needs never meets what bagwise needs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parents[2] / ".peers"
REQUIREMENTS = {
    # it names none of its own, and newer releases of numpy and setuptools lack what it calls
    "mimllearning": (
        "mimllearning==1.0.11",
        "numpy==2.3.5",
        "scikit-learn==1.9.1",
        "tabulate==0.10.0",
        "setuptools==80.9.0",
    ),
    "torchmil": ("torchmil==1.0.2", "torch==2.15.0"),
    "misvm": (),
}
# used where their environment is there, and left out with this reason where it is not
NOT_BY_ITSELF = {
    "torchmil": "torch brings gigabytes; python -m benchmarks.peers --with torchmil installs it",
    # a name that nobody owns must not be asked of a package index: whoever takes it could run code here
    "misvm": "it has no release that pip could install; put it into a virtual environment .peers/misvm yourself",
}
INSTALL_LIMIT = 1800  # seconds


class PeerMissingError(Exception):
    """A peer cannot be used here; the message says why in one line."""


def interpreter(peer: str, wanted: bool = False) -> Path:
    """The Python of a peer's environment, made where it is missing; some only where `wanted` or made before."""
    folder = FOLDER / peer
    if peer in NOT_BY_ITSELF and not wanted and not folder.exists():
        raise PeerMissingError(f"{peer} is left out: {NOT_BY_ITSELF[peer]}")
    python = folder / "bin" / "python"
    if not python.exists():
        _call(peer, [sys.executable, "-m", "venv", str(folder)])
    if REQUIREMENTS[peer]:  # pip does nothing, and asks nobody, where all is there already
        options = ["--quiet", "--disable-pip-version-check", "--retries", "1", "--timeout", "15"]
        _call(peer, [str(python), "-m", "pip", "install", *options, *REQUIREMENTS[peer]])
    return python


def _call(peer: str, command: list[str]) -> None:
    try:
        subprocess.run(command, check=True, capture_output=True, text=True, timeout=INSTALL_LIMIT)
    except subprocess.CalledProcessError as error:
        lines = (error.stderr or error.stdout or str(error)).strip().splitlines()
        reasons = [line for line in lines if line.startswith("ERROR:")] or lines
        reason = reasons[-1].removeprefix("ERROR: ")
        raise PeerMissingError(f"{peer} is left out, it cannot be installed: {reason}") from error
    except (OSError, subprocess.TimeoutExpired) as error:
        raise PeerMissingError(f"{peer} is left out, it cannot be installed: {error}") from error
