"""Files that are whole or absent, and archives that may be forged."""

import errno
import io
import json
import os
import stat
import struct
import warnings
import zipfile

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from bagwise.core.exceptions import FormatError, InputError
from bagwise.io import files
from bagwise.io.archive import parse_array, read_archive, write_archive
from bagwise.io.files import atomic_write


class FullDisk(io.FileIO):
    """A file on a disk with room for eight bytes."""

    def write(self, data):
        if self.tell() + len(data) > 8:
            raise OSError(errno.ENOSPC, "No space left on device")
        return super().write(data)


class TestAtomicWrite:
    def test_writes_bytes_and_text(self, tmp_path):
        with atomic_write(tmp_path / "a") as handle:
            handle.write(b"\x00\n")
        with atomic_write(str(tmp_path / "b"), "w") as handle:
            handle.write("wren: \N{BIRD}\n")
        assert (tmp_path / "a").read_bytes() == b"\x00\n"
        assert (tmp_path / "b").read_bytes() == "wren: \N{BIRD}\n".encode()
        assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]

    def test_the_file_appears_only_at_the_end(self, tmp_path):
        path = tmp_path / "model"
        path.write_text("old")
        with atomic_write(path, "w") as handle:
            handle.write("new")
            handle.flush()
            assert path.read_text() == "old"
        assert path.read_text() == "new"

    @pytest.mark.parametrize("error", [ValueError("x"), KeyboardInterrupt(), SystemExit(1), MemoryError()])
    @pytest.mark.parametrize("old", [None, "old"])
    def test_any_exception_leaves_things_as_they_were(self, tmp_path, error, old):
        path = tmp_path / "model"
        if old is not None:
            path.write_text(old)

        def write():
            with atomic_write(path, "w") as handle:
                handle.write("half")
                raise error

        with pytest.raises(type(error)):
            write()
        assert [p.read_text() for p in tmp_path.iterdir()] == ([] if old is None else [old])

    def test_full_disk(self, tmp_path, monkeypatch):
        path = tmp_path / "model"
        path.write_text("old")
        monkeypatch.setattr(files, "open", lambda name, mode: FullDisk(name, mode), raising=False)

        def write():
            with atomic_write(path) as handle:
                handle.write(b"12345678")
                handle.write(b"9")

        with pytest.raises(OSError, match=r"The disk is full: .* what was there before is untouched") as caught:
            write()
        assert caught.value.errno == errno.ENOSPC
        assert [p.read_text() for p in tmp_path.iterdir()] == ["old"]

    @pytest.mark.parametrize("function", ["fsync", "replace"])
    def test_failure_in_the_last_steps(self, tmp_path, monkeypatch, function):
        path = tmp_path / "model"
        path.write_text("old")

        def fail(*arguments):
            raise OSError(errno.EIO, "Input/output error")

        monkeypatch.setattr(files.os, function, fail)

        def write():
            with atomic_write(path) as handle:
                handle.write(b"new")

        with pytest.raises(OSError, match="Input/output error"):
            write()
        monkeypatch.undo()
        assert [p.read_text() for p in tmp_path.iterdir()] == ["old"]

    def test_permissions(self, tmp_path):
        mask = os.umask(0o027)
        try:
            with atomic_write(tmp_path / "new") as handle:
                handle.write(b"1")
            (tmp_path / "old").write_text("1")
            (tmp_path / "old").chmod(0o604)
            with atomic_write(tmp_path / "old") as handle:
                handle.write(b"2")
        finally:
            os.umask(mask)
        assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o640
        assert stat.S_IMODE((tmp_path / "old").stat().st_mode) == 0o604

    def test_a_link_is_followed(self, tmp_path):
        (tmp_path / "real").write_text("old")
        (tmp_path / "link").symlink_to(tmp_path / "real")
        with atomic_write(tmp_path / "link", "w") as handle:
            handle.write("new")
        assert (tmp_path / "link").is_symlink()
        assert (tmp_path / "real").read_text() == "new"

    def test_places_that_cannot_be_written(self, tmp_path, monkeypatch):
        with pytest.raises(InputError, match=r"there is no folder .*missing; create it first"):
            atomic_write(tmp_path / "missing" / "model").__enter__()
        with pytest.raises(InputError, match="it is a folder; give the name of a file"):
            atomic_write(tmp_path).__enter__()
        with pytest.raises(InputError, match="it is a device or a pipe"):
            atomic_write(os.devnull).__enter__()
        with pytest.raises(InputError, match="mode='a' is not known; use 'wb' or 'w'"):
            atomic_write(tmp_path / "model", "a").__enter__()

        def refuse(*arguments, **options):
            raise PermissionError(errno.EACCES, "Permission denied")

        monkeypatch.setattr(files, "open", refuse, raising=False)
        with pytest.raises(InputError, match=r"the folder .* is not writable \(Permission denied\)"):
            atomic_write(tmp_path / "model").__enter__()


def npy(array, **options):
    stream = io.BytesIO()
    np.lib.format.write_array(stream, array, **options)
    return stream.getvalue()


def npy_with_header(header, data=b""):
    text = header.encode().ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + data


class TestParseArray:
    @given(
        hnp.arrays(
            st.one_of(
                hnp.boolean_dtypes(),
                hnp.integer_dtypes(),
                hnp.unsigned_integer_dtypes(),
                hnp.floating_dtypes(),
                hnp.complex_number_dtypes(),
                hnp.unicode_string_dtypes(max_len=4),
                hnp.datetime64_dtypes(),
            ),
            hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3),
        ),
        st.booleans(),
    )
    @settings(max_examples=80, deadline=None)
    def test_round_trip_bit_for_bit(self, array, fortran):
        array = np.asfortranarray(array) if fortran and array.ndim else array
        back = parse_array(npy(array), "x")
        assert back.dtype == array.dtype
        assert back.shape == array.shape
        assert back.tobytes() == array.tobytes()
        assert back.flags.writeable
        assert back.flags.f_contiguous == array.flags.f_contiguous

    def test_no_objects(self):
        with pytest.raises(FormatError, match="dtype object, which is not read"):
            parse_array(npy(np.array([{}], dtype=object), allow_pickle=True), "x")

    @pytest.mark.parametrize(
        ("shape", "data"),
        [
            ((4,), bytes(24)),
            ((2,), bytes(24)),
            ((10**15,), b""),
            ((-1, -3), bytes(24)),
            ((0,), bytes(8)),
        ],
    )
    def test_the_header_must_tell_the_truth(self, shape, data):
        raw = npy_with_header(f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}", data)
        with pytest.raises(FormatError, match="claims the shape"):
            parse_array(raw, "x")

    @pytest.mark.parametrize("descr", ["'|V8'", "[('a', '<f8')]", "'|O'", "'<U0'", "('<f8', (2,))"])
    def test_other_types_are_refused(self, descr):
        raw = npy_with_header(f"{{'descr': {descr}, 'fortran_order': False, 'shape': (1,), }}", bytes(8))
        with pytest.raises(FormatError, match="which is not read"):
            parse_array(raw, "x")

    def test_values_that_do_not_exist(self):
        raw = npy(np.array(["a"]))
        with pytest.raises(FormatError, match="characters that do not exist"):
            parse_array(raw[:-4] + b"\xff\xff\xff\xff", "x")
        raw = npy(np.array([True]))
        with pytest.raises(FormatError, match="neither 0 nor 1"):
            parse_array(raw[:-1] + b"\x02", "x")

    def test_versions(self):
        raw = npy(np.zeros(2))
        with pytest.raises(FormatError, match="header of its array 'x' cannot be read"):
            parse_array(raw[:6] + b"\x09\x00" + raw[8:], "x")
        assert parse_array(npy(np.zeros(2), version=(2, 0)), "x").tolist() == [0, 0]

    def test_a_header_that_is_code_is_not_run(self, tmp_path):
        witness = tmp_path / "ran"
        raw = npy_with_header(f"open({str(witness)!r}, 'w')")
        with pytest.raises(FormatError, match="header of its array"):
            parse_array(raw, "x")
        assert not witness.exists()

    @pytest.mark.parametrize("header", ["(" * 5000, "-" * 9000 + "1", "[" * 9000, "{" * 300, "1" * 9000])
    def test_absurd_headers(self, header):
        text = header.encode() + b"\n"
        raw = b"\x93NUMPY\x02\x00" + struct.pack("<I", len(text)) + text
        with pytest.raises(FormatError, match="header of its array"):
            parse_array(raw, "x")

    def test_headers_of_python_2_are_refused(self):
        raw = npy_with_header("{'descr': '<f8', 'fortran_order': False, 'shape': (1L,), }", bytes(8))
        with pytest.raises(FormatError, match="header of its array"):
            parse_array(raw, "x")


def archive(members, compression=zipfile.ZIP_STORED):
    stream = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # zipfile warns of duplicate names
        with zipfile.ZipFile(stream, "w", compression) as out:
            for name, data in members:
                out.writestr(name, data)
    return stream


class TestArchive:
    def test_round_trip(self):
        stream = io.BytesIO()
        document = {"a": [1, 2.5, None, True, "\N{BIRD}"]}
        arrays = [np.arange(6.0).reshape(2, 3), np.array(["x"]), np.zeros((0, 2))]
        write_archive(stream, document, arrays)
        got, back = read_archive(stream)
        assert got == document
        assert list(back) == [0, 1, 2]
        for i, array in enumerate(arrays):
            np.testing.assert_array_equal(back[i], array)

    def test_half_a_character_is_refused(self):
        stream = io.BytesIO()
        write_archive(stream, {"a": "\ud800"}, [])
        with pytest.raises(FormatError, match="half a character"):
            read_archive(stream)

    def test_same_content_same_bytes(self):
        first, second = io.BytesIO(), io.BytesIO()
        for stream in (first, second):
            write_archive(stream, {"a": 1}, [np.zeros(3)])
        assert first.getvalue() == second.getvalue()

    @pytest.mark.parametrize(
        ("members", "message"),
        [
            ([("other.json", "{}")], r"it holds no model\.json"),
            ([], r"it holds no model\.json"),
            ([("model.json", "{}"), ("model.json", "{}")], "same name"),
            ([("model.json", "{}"), ("../evil.npy", b"")], r"'\.\./evil\.npy', which is no part"),
            ([("model.json", "{}"), ("/etc/passwd", b"")], "which is no part"),
            ([("model.json", "{}"), ("arrays/00.npy", b"")], "which is no part"),
            ([("model.json", "{}"), ("arrays/0.npy/", b"")], "which is no part"),
            ([("model.json", '{"a": NaN}')], "holds NaN, which is not JSON"),
            ([("model.json", '{"a": -Infinity}')], "holds -Infinity, which is not JSON"),
        ],
    )
    def test_foreign_archives(self, members, message):
        with pytest.raises(FormatError, match=message):
            read_archive(archive(members))

    def test_no_bombs(self):
        for compression in (zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA):
            bomb = archive([("model.json", " " * 10**6)], compression)
            with pytest.raises(FormatError, match="compressed or encrypted"):
                read_archive(bomb)

    @pytest.mark.parametrize(
        ("offset", "form", "value", "message"),
        [
            (8, "<H", 1, "compressed or encrypted"),
            (10, "<H", 8, "compressed or encrypted"),
            (24, "<I", 2**31, "the two sizes .* differ"),
            (20, "<II", (2**31, 2**31), "larger than the file"),
        ],
    )
    def test_forged_directory(self, offset, form, value, message):
        raw = bytearray(archive([("model.json", "{}")]).getvalue())
        entry = raw.index(b"PK\x01\x02")
        struct.pack_into(form, raw, entry + offset, *(value if isinstance(value, tuple) else (value,)))
        with pytest.raises(FormatError, match=message):
            read_archive(io.BytesIO(raw))

    def test_many_names_for_the_same_bytes(self):
        """The central directory points to one array a hundred times: refused before anything is read."""
        big = npy(np.zeros(10_000))
        members = [("model.json", "{}")] + [(f"arrays/{i}.npy", b"") for i in range(100)]
        raw = bytearray(archive(members).getvalue())
        entry = raw.index(b"PK\x01\x02")
        for _ in range(101):
            struct.pack_into("<II", raw, entry + 20, len(big), len(big))
            entry = raw.find(b"PK\x01\x02", entry + 4)
        with pytest.raises(FormatError, match="larger than the file"):
            read_archive(io.BytesIO(raw))

    @pytest.mark.parametrize("raw", [b"", b"PK", b"hello, world" * 50, json.dumps({"a": 1}).encode()])
    def test_no_zip(self, raw):
        with pytest.raises(FormatError, match="not a zip file, or it is cut off"):
            read_archive(io.BytesIO(raw))
