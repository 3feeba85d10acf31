"""The wheel: whole, and of use in an environment where nothing but it and its dependencies is."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

import bagwise

ROOT = Path(__file__).parents[1]


def run(*arguments, **options):
    done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dist")
    run("-m", "build", "--no-isolation", "--wheel", "--outdir", str(folder), cwd=ROOT)
    (found,) = folder.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """The wheel unpacked where only a variable of the environment leads to it."""
    folder = tmp_path_factory.mktemp("site")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return {**os.environ, "PYTHONPATH": str(folder)}


def test_it_passes_the_checks_of_the_registry(wheel):
    run("-m", "twine", "check", "--strict", str(wheel))
    run("-m", "check_wheel_contents", str(wheel))


def test_all_files_of_the_package_are_in_it(wheel):
    with zipfile.ZipFile(wheel) as archive:
        found = {name for name in archive.namelist() if name.startswith("bagwise/")}
    tracked = subprocess.run(
        ["git", "ls-files", "src/bagwise"], cwd=ROOT, capture_output=True, text=True, check=False
    ).stdout.split()
    if not tracked:
        pytest.skip("this is no checkout")
    assert {name.removeprefix("src/") for name in tracked} == found
    assert "bagwise/py.typed" in found


def test_it_works_from_there(installed, tmp_path):
    where = run("-c", "import bagwise; print(bagwise.__file__, bagwise.__version__)", env=installed, cwd=tmp_path)
    assert str(installed["PYTHONPATH"]) in where
    assert bagwise.__version__ in where
    rng = np.random.default_rng(0)
    np.savez(
        tmp_path / "a.npz", X=rng.normal(size=(40, 3)), bag=np.arange(40) // 4, Y=np.ones((10, 3), dtype=int),
        class_names=np.array(["a", "b", "c"]),
    )  # fmt: skip
    cli = ("-m", "bagwise.cli")
    assert bagwise.__version__ in run(*cli, "--version", env=installed)
    run(*cli, "fit", "a.npz", "--out", "m.bagwise", "--model", "most-frequent", env=installed, cwd=tmp_path)
    assert "a;b;c" in run(*cli, "predict", "m.bagwise", "a.npz", env=installed, cwd=tmp_path)
