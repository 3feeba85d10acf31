"""`bagwise doctor`: what is installed and what is missing, for bug reports."""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path

import click

from bagwise._version import __version__
from bagwise.app.cli._common import any_path, check_output

PROGRAMS = {"ffmpeg": "sound in the formats of telephones (m4a, wma)"}
ALWAYS = {"report": "the page of a run", "review": "the review page"}
BY_MEDIA_TYPE = {
    "audio": {"audio": "recordings"},
    "image": {"image": "pictures"},
    "text": {"text": "PDF, docx and stems of words"},
    "series": {"parquet": "tables in parquet"},
}
"""What is suggested by itself; all other extras are for those who ask for them (networks, clusters, GPUs)."""


@dataclass
class Installation:
    """What is there, as text by name; `missing` maps each extra that is not whole to the packages it lacks."""

    facts: dict[str, str]
    packages: dict[str, str]
    extras: dict[str, dict[str, str | None]]
    programs: dict[str, str | None]
    missing: dict[str, list[str]] = field(init=False)

    def __post_init__(self) -> None:
        self.missing = {
            extra: absent
            for extra, packages in self.extras.items()
            if (absent := [name for name, found in packages.items() if found is None])
        }


def examine() -> Installation:
    """Look at this installation; no optional library is loaded but torch, which is asked for its devices."""
    from bagwise.core.checks import memory_limit

    needed, extras = requirements()
    return Installation(
        facts={
            "bagwise": __version__,
            "Python": f"{platform.python_version()} ({platform.python_implementation()})",
            "system": f"{platform.system()} {platform.release()}, {platform.machine()}",
            "processors": str(os.cpu_count()),
            "threads": _threads(),
            "memory": f"at most {memory_limit() / 2**30:.1f} GB for one array",
            "compiled code": _kernels(),
            "GPU": _gpu(),
        },
        packages={name: version_of(name) or "not installed" for name in needed},
        extras={extra: {name: version_of(name) for name in names} for extra, names in extras.items() if extra != "all"},
        programs={name: shutil.which(name) for name in PROGRAMS},
    )


def requirements() -> tuple[list[str], dict[str, list[str]]]:
    """Packages that bagwise needs, and those of each extra, from its own metadata."""
    needed: list[str] = []
    extras: dict[str, list[str]] = {}
    for line in requires("bagwise") or []:
        name = re.match(r"[A-Za-z0-9._-]+", line)
        extra = re.search(r"extra\s*==\s*['\"]([^'\"]+)['\"]", line)
        if name is None or name.group() == "bagwise":  # an extra made of extras
            continue
        (extras.setdefault(extra.group(1), []) if extra else needed).append(name.group())
    return needed, extras


def version_of(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _threads() -> str:
    from threadpoolctl import threadpool_info

    from bagwise.kernels import get_num_threads

    pools = {f"{pool['user_api']} {pool['num_threads']}" for pool in threadpool_info()}
    return ", ".join([*sorted(pools), f"compiled code {get_num_threads()}"])


def _kernels() -> str:
    from bagwise.union import are_compiled, compiled_folder

    state = "compiled" if are_compiled() else "compiled at the first fit, once"
    return f"{state}, kept in {compiled_folder()}"


def _gpu() -> str:
    if version_of("torch") is None:
        return "not looked for: torch is not installed"
    from bagwise.nn.device import name_of_gpu

    return name_of_gpu() or "none that torch can use"


def as_lines(found: Installation, media_type: str | None = None) -> list[str]:
    """The report, a line per fact; of what is missing it suggests what this media type needs, or any of them."""
    lines = [f"{name}: {text}" for name, text in found.facts.items()]
    lines += [f"{name}: {text}" for name, text in found.packages.items()]
    for extra, packages in found.extras.items():
        own = ", ".join(f"{name} {there or 'missing'}" for name, there in packages.items())
        lines.append(f"extra {extra}: {own}")
    lines += [f"program {name}: {path or 'missing'} ({PROGRAMS[name]})" for name, path in found.programs.items()]
    kinds = [BY_MEDIA_TYPE.get(media_type, {})] if media_type else BY_MEDIA_TYPE.values()
    wanted = {name: what for one in (ALWAYS, *kinds) for name, what in one.items() if name in found.missing}
    what_for = ", ".join(f"{what} ({name})" for name, what in wanted.items())
    lines.append(
        f"missing for {what_for}: pip install 'bagwise[{','.join(wanted)}]'"
        if wanted
        else f"all that {media_type or 'recordings, pictures, texts and series'} and the pages need is there"
    )
    return lines


@click.command()
@click.argument("folder", type=any_path(), required=False)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def doctor(folder: Path | None, as_json: bool) -> None:
    """Say what is installed and what is missing, in all or for the files of FOLDER.

    Prints versions, extras, threads, and where compiled code is kept: put it into a bug report.
    """
    check_output()
    media_type = None
    if folder is not None:
        from bagwise.app.runs.look import look_at

        media_type = look_at(folder).media_type
    found = examine()
    click.echo(json.dumps(asdict(found), indent=2) if as_json else "\n".join(as_lines(found, media_type)))
