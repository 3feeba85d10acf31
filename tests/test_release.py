"""The wheel: whole, and of use where nothing but it and its dependencies is; and what it is made from: pinned."""

import os
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import numpy as np
import pytest
import yaml
from packaging.requirements import Requirement

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
    cli = ("-m", "bagwise.app.cli")
    assert bagwise.__version__ in run(*cli, "--version", env=installed)
    run(*cli, "fit", "a.npz", "--out", "m.bagwise", "--model", "most-frequent", env=installed, cwd=tmp_path)
    assert "a;b;c" in run(*cli, "predict", "m.bagwise", "a.npz", env=installed, cwd=tmp_path)


# -- what a release is made from ---------------------------------------------------------------------------------------

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
PINNED = re.compile(r"[\w.-]+/[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+")
REQUIREMENTS = [
    "requirements.lock", "requirements-dev.lock", "requirements-docs.txt", "requirements-sbom.txt",
    "requirements-coverage.txt", "requirements-torch.txt", "requirements-birdnet.txt", "requirements-fuzz.txt",
]  # fmt: skip
USERS = ["report", "audio", "image", "review"]  # the extras that `make demo` needs


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_actions_are_pinned_by_commit(path):
    """A tag can be moved to other code; a commit cannot."""
    used = re.findall(r"^ *(?:- )?uses: *(.*)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    assert used
    assert [line for line in used if not PINNED.fullmatch(line)] == []


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_every_job_says_what_it_may(path):
    workflow = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert workflow["permissions"] == {}  # none but those of the jobs
    allowed = {name: {key for key, value in job["permissions"].items() if value == "write"}
               for name, job in workflow["jobs"].items()}  # fmt: skip
    expected = {"attest": {"id-token", "attestations"}, "publish": {"id-token"}, "release": {"contents"}}
    assert {name: rights for name, rights in allowed.items() if rights} == (expected if path.stem == "release" else {})
    for job in workflow["jobs"].values():
        for step in job["steps"]:
            if step.get("uses", "").startswith("actions/checkout@"):  # code of the repository runs: with no key to it
                assert step["with"] == {"persist-credentials": False}
                assert "write" not in job["permissions"].values()


def test_only_a_tag_publishes():
    # yaml takes "on" for true
    starts = {path.stem: yaml.safe_load(path.read_text(encoding="utf-8"))[True] for path in WORKFLOWS}
    assert starts["release"] == {"push": {"tags": ["v*"]}}
    for path in WORKFLOWS:
        assert ("gh-action-pypi-publish" in path.read_text(encoding="utf-8")) == (path.stem == "release")


def entries(name):
    """Name and version of everything that a file of requirements pins, and its hashes."""
    if not (ROOT / name).exists():
        pytest.skip("this is no checkout")
    text = (ROOT / name).read_text(encoding="utf-8").replace("\\\n", " ")
    found = {}
    for line in text.splitlines():
        if line and not line.startswith((" ", "#")):
            requirement, *hashes = line.split("--hash=")
            found[requirement.strip()] = [one.strip() for one in hashes]
    return found


@pytest.mark.parametrize("name", REQUIREMENTS)
def test_every_requirement_has_a_version_and_hashes(name):
    pinned = entries(name)
    assert pinned
    for requirement, hashes in pinned.items():
        assert re.match(r"[\w.-]+==[\w.!+]+( ;.*)?$", requirement), requirement
        assert hashes, requirement
        assert all(re.fullmatch(r"sha256:[0-9a-f]{64}", one) for one in hashes), requirement
    assert "://" not in (ROOT / name).read_text(encoding="utf-8")  # of no index but the one that is set


def test_the_lock_is_no_older_than_the_floors():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    extras = project["project"]["optional-dependencies"]
    groups = project["dependency-groups"]
    wanted = {
        "requirements.lock": [
            *project["project"]["dependencies"], *(one for name in USERS for one in extras[name]), *groups["install"]
        ],
        "requirements-dev.lock": [
            *project["project"]["dependencies"],
            *(one for name, many in extras.items() if name not in ("all", "torch", "birdnet", "hdf5") for one in many),
            *(one for one in groups["dev"] if isinstance(one, str)),
        ],
        "requirements-docs.txt": groups["docs"], "requirements-sbom.txt": groups["sbom"],
        "requirements-coverage.txt": groups["coverage"],
        "requirements-formats.txt": [*groups["formats"], *extras["hdf5"]],
        "requirements-torch.txt": extras["torch"], "requirements-birdnet.txt": extras["birdnet"],
    }  # fmt: skip
    for name, requirements in wanted.items():
        pinned = {}
        for entry in entries(name):
            package, version = re.match(r"([\w.-]+)==([\w.!+]+)", entry).groups()
            pinned.setdefault(package, []).append(version)
        for requirement in map(Requirement, requirements):
            assert pinned[requirement.name], (name, requirement)
            assert all(requirement.specifier.contains(version) for version in pinned[requirement.name]), requirement


def test_users_and_developers_have_the_same_versions():
    """What users install is what the tests ran with."""
    users, developers = entries("requirements.lock"), entries("requirements-dev.lock")
    assert len(users) < len(developers) / 2
    assert {name: developers.get(name) for name in users} == users


def test_the_oldest_versions_are_those_of_the_floors():
    """A floor that was raised without `make lock` would leave the job `oldest` to test another one."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    pinned = dict(entry.split("==") for entry in entries("requirements-oldest.txt"))
    assert "://" not in (ROOT / "requirements-oldest.txt").read_text(encoding="utf-8")
    for requirement in map(Requirement, project["dependencies"]):
        (floor,) = requirement.specifier
        assert floor.operator == ">="
        assert pinned[requirement.name].startswith(floor.version), requirement
