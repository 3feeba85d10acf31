"""Make a virtual environment with what lists of requirements name, and bagwise itself as it lies here.

    python3 tools/set_up.py .venv requirements.lock [more lists ...]

Python's own library is all it needs. Lists with hashes are installed by their hashes. A line at a time says what is
being done, since the first set-up takes a minute.
"""

import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def main() -> None:
    if sys.version_info < (3, 11):  # noqa: UP036 - it runs on what the reader has
        raise SystemExit(
            f"bagwise needs Python 3.11 or newer, this is {sys.version.split()[0]}; try: make PYTHON=python3.12"
        )
    folder, *lists = sys.argv[1:]
    print(f"Setting up {folder} (once) ...", flush=True)
    venv.create(folder, with_pip=True)
    python = Path(folder) / ("Scripts" if sys.platform == "win32" else "bin") / "python"
    install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    for name in lists:
        text = (ROOT / name).read_text(encoding="utf-8")
        hashed = "--hash=" in text
        packages = sum("==" in line for line in text.splitlines())
        print(f"  {packages} packages of {name} ...", flush=True)
        subprocess.run([*install, *(["--require-hashes"] if hashed else []), "-r", str(ROOT / name)], check=True)
    print("  bagwise ...", flush=True)
    subprocess.run([*install, "--no-deps", "--no-build-isolation", "-e", str(ROOT)], check=True)


if __name__ == "__main__":
    try:
        main()
    except subprocess.CalledProcessError as error:
        raise SystemExit(f"pip could not install this (exit code {error.returncode}); its message is above") from None
