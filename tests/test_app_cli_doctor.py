"""What is installed, and where compiled kernels are kept."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numba
import pytest
from click.testing import CliRunner

import bagwise
from bagwise.app.cli import main
from bagwise.app.cli._doctor import Installation, as_lines, examine, requirements, version_of
from bagwise.kernels import _cache
from bagwise.union import are_compiled
from bagwise.union._infer import infer


def test_it_says_versions_extras_and_what_is_missing():
    result = CliRunner().invoke(main, ["doctor"])
    assert result.exit_code == 0, result.output
    for expected in (f"bagwise: {bagwise.__version__}", f"numpy: {version_of('numpy')}", "extra audio: soundfile"):
        assert expected in result.output
    found = json.loads(CliRunner().invoke(main, ["doctor", "--json"]).output)
    assert set(found) == {"facts", "packages", "extras", "programs", "missing"}
    assert found["missing"] == {
        extra: absent
        for extra, packages in found["extras"].items()
        if (absent := [name for name in packages if version_of(name) is None])
    }


def test_requirements_are_those_of_the_package():
    needed, extras = requirements()
    assert {"numpy", "scikit-learn", "numba"} <= set(needed)
    assert extras["audio"] == ["soundfile"]
    assert not {"soundfile", "torch"} & set(needed)


def test_a_missing_extra_is_named_with_its_cure():
    found = Installation({}, {}, {"audio": {"soundfile": None}, "xlsx": {"openpyxl": "3"}}, {"ffmpeg": None})
    lines = as_lines(found)
    assert "extra audio: soundfile missing" in lines
    assert "pip install 'bagwise[audio]'" in lines[-1]
    whole = Installation({}, {}, {"xlsx": {"openpyxl": "3"}, "torch": {"torch": None}}, {"ffmpeg": "x"})
    assert not any("pip install" in line for line in as_lines(whole))


def test_it_suggests_what_the_files_of_a_folder_need():
    found = Installation({}, {}, {"audio": {"soundfile": None}, "image": {"pillow": None}}, {})
    assert "'bagwise[image]'" in as_lines(found, "image")[-1]
    assert "'bagwise[audio,image]'" in as_lines(found)[-1]


def test_no_optional_library_is_loaded_to_look():
    code = """import sys, bagwise.app.cli._doctor
bagwise.app.cli._doctor.examine()
print([name for name in ("dask", "onnx", "soundfile") if name in sys.modules])"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_whether_kernels_are_compiled_is_seen_from_their_folder(tmp_path, monkeypatch):
    infer_folder = Path(examine().facts["compiled code"].split("kept in ")[1])
    assert infer_folder == _cache.cache_folder(infer)
    monkeypatch.setattr(_cache, "cache_folder", lambda kernel: tmp_path)
    assert not are_compiled()
    version = f"py{sys.version_info[0]}{sys.version_info[1]}"
    (tmp_path / f"_infer.infer-108.{version}.nbi").touch()
    assert are_compiled()


@pytest.mark.skipif(sys.platform == "win32", reason="rights of folders are others there")
class TestFolders:
    def settle(self, monkeypatch, writable):
        monkeypatch.setattr(numba.config, "CACHE_DIR", "")
        monkeypatch.setattr(_cache, "_can_write", lambda folder: writable)
        _cache.use_writable_cache()
        return numba.config.CACHE_DIR

    def test_numba_is_left_alone_where_it_finds_a_place(self, monkeypatch):
        assert self.settle(monkeypatch, True) == ""

    def test_else_a_folder_of_our_own(self, monkeypatch, tmp_path):
        monkeypatch.setattr(_cache.tempfile, "gettempdir", lambda: str(tmp_path))
        folder = Path(self.settle(monkeypatch, False))
        assert folder.parent == tmp_path
        assert folder.stat().st_mode & 0o777 == 0o700
        assert Path(self.settle(monkeypatch, False)) == folder  # and the same again

    @pytest.mark.parametrize("others", ["open to all", "a link", "a file"])
    def test_never_one_that_others_can_write(self, monkeypatch, tmp_path, others):
        monkeypatch.setattr(_cache.tempfile, "gettempdir", lambda: str(tmp_path))
        made = tmp_path / f"bagwise-kernels-{os.getuid()}"
        if others == "open to all":
            made.mkdir()
            made.chmod(0o777)
        elif others == "a link":
            (tmp_path / "theirs").mkdir(mode=0o700)
            made.symlink_to(tmp_path / "theirs")
        else:
            made.touch()
        assert Path(self.settle(monkeypatch, False)) != made

    @pytest.mark.parametrize("others", ["open to all", "open to the group", "in one open to all", "a link", "theirs"])
    def test_one_that_is_named_is_not_used_where_others_can_write(self, monkeypatch, tmp_path, others):
        named = tmp_path / "above" / "named"
        named.mkdir(parents=True, mode=0o700)
        if others == "theirs":
            monkeypatch.setattr(_cache.os, "getuid", lambda: named.stat().st_uid + 1)
            if named.stat().st_uid == 0:  # whatever is root's can be changed by root alone
                os.chown(named, 12345, -1)
        elif others == "a link":
            (tmp_path / "open").mkdir()
            (tmp_path / "open").chmod(0o777)
            named.rmdir()
            named.symlink_to(tmp_path / "open")
        elif others == "in one open to all":
            named.parent.chmod(0o777)
        else:
            named.chmod(0o777 if others == "open to all" else 0o775)
        monkeypatch.setenv("NUMBA_CACHE_DIR", str(named))
        monkeypatch.setattr(numba.config, "CACHE_DIR", str(named))
        monkeypatch.setattr(_cache, "_can_write", lambda folder: True)
        with pytest.warns(UserWarning, match="others than you can write there"):
            _cache.use_writable_cache()
        assert numba.config.CACHE_DIR == ""
        assert "NUMBA_CACHE_DIR" not in os.environ

    @pytest.mark.parametrize("made", [True, False])
    def test_one_that_is_named_is_used_where_others_cannot(self, monkeypatch, tmp_path, made):
        named = tmp_path / "sticky" / "named"
        named.parent.mkdir()
        named.parent.chmod(0o1777)  # as /tmp
        if made:
            named.mkdir(mode=0o755)
        monkeypatch.setattr(numba.config, "CACHE_DIR", str(named))
        _cache.use_writable_cache()
        assert str(named) == numba.config.CACHE_DIR
        assert not named.stat().st_mode & 0o022

    def test_nothing_is_loaded_from_a_folder_open_to_all(self, tmp_path):
        code = "from bagwise.union import compiled_folder; print(compiled_folder())"
        for expected in (False, True):
            tmp_path.chmod(0o700 if expected else 0o777)
            env = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
            done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
            assert Path(done.stdout.strip()).is_relative_to(tmp_path) is expected
            assert ("is not used" in done.stderr) is not expected

    def test_what_can_be_written(self, tmp_path):
        assert _cache._can_write(tmp_path / "not" / "there" / "yet")
        assert not _cache._can_write(Path("/proc/nothing"))
