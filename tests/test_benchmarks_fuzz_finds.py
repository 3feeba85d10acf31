"""Inputs that `make fuzz` and `make fuzz-guided` found: each is refused in words, and in good time."""

import json
import struct
import subprocess
import sys
import zlib
from base64 import b64decode

import numpy as np
import pytest

from bagwise.app.formats import compare_marks, read_marks
from bagwise.app.formats.names import read_names
from bagwise.app.media._image_regions import find_shapes
from bagwise.app.media.audio_file import audio_info
from bagwise.app.media.files import FileBags, assemble
from bagwise.app.media.rle import expand_counts, sample_counts
from bagwise.app.media.series_file import SeriesSettings, read_recordings
from bagwise.app.runs._features import read_entries, write_entries
from bagwise.core.exceptions import FormatError
from media_examples import pictures, sounds


def shapes_of(path, segmentation, size=(4, 6)):
    document = {
        "images": [{"id": 1, "file_name": "a.png"}],
        "annotations": [{"image_id": 1, "segmentation": {"size": size, "counts": segmentation}}],
    }
    path.write_text(json.dumps(document))
    return find_shapes("a.png", "a.png", str(path))


@pytest.mark.parametrize("counts", [[5, 2, 2, 2, 2**64], [2**62] * 4 + [24], [-1, 25]])
def test_run_lengths_beyond_all_integers(counts):
    """The second sums to the size of the picture where 64 bits overflow."""
    with pytest.raises(ValueError, match=r"the run lengths are those of -?\d+ points, not of 4 x 6"):
        sample_counts(counts, (4, 6), (4, 6))


def test_run_lengths_that_never_end():
    with pytest.raises(ValueError, match="has more digits than any picture needs"):
        expand_counts("o" * 1_000_000)


def test_shapes_of_infinite_size(tmp_path):
    with pytest.raises(FormatError, match=r"it\.json: it is not a COCO file with polygons or run lengths"):
        shapes_of(tmp_path / "it.json", [24], size=(float("inf"), 6))


def test_shapes_nested_too_deeply(tmp_path):
    (tmp_path / "it.json").write_text("[" * 100_000)
    with pytest.raises(FormatError, match=r"it\.json: it is not a COCO file"):
        find_shapes("a.png", "a.png", str(tmp_path / "it.json"))


BAGS = FileBags(["a", "b"], [2, 1], np.eye(3), {"start": np.arange(3.0)}, {"seconds": 1.0})


@pytest.mark.parametrize(
    "change",
    [
        {"sizes": ["2", 1]}, {"sizes": [2, 2]}, {"sizes": [4, -1]}, {"sizes": [3]}, {"bag_names": [1, 2]},
        {"features": np.full((3, 3), np.nan)}, {"features": np.zeros(3)}, {"features": np.array([["a"]] * 3)},
        {"locations": {"start": np.arange(2.0)}}, {"info": []}, {"problems": "text"}, {"feature_names": ["x"]},
        {"vectors": np.zeros(3)},
    ],
    ids=str,
)  # fmt: skip
def test_kept_bags_that_do_not_fit_together_are_no_bags(tmp_path, change):
    (tmp_path / ".features").mkdir()
    whole = write_entries(tmp_path, {"key": BAGS})
    assert list(read_entries(whole)) == ["key"]
    damaged = write_entries(tmp_path, {"other": FileBags(**{**vars(BAGS), **change})})
    assert read_entries(damaged) == {}


@pytest.mark.parametrize(("digits", "message"), [(400, "annotation 1: bbox is 9"), (5000, "a number that is too long")])
def test_marks_with_numbers_of_hundreds_of_digits(tmp_path, digits, message):
    region = {"image_id": 1, "category_id": 1, "bbox": [0, 0, 1, 0]}
    text = json.dumps([region]).replace("[0, 0, 1, 0]", f"[0, 0, 1, {'9' * digits}]")
    (tmp_path / "it.json").write_text(text)
    with pytest.raises(FormatError, match=rf"it\.json.*{message}") as caught:
        read_marks(tmp_path / "it.json", pictures(), "coco")
    assert len(str(caught.value)) < len(str(tmp_path)) + 300


def test_names_of_species_in_a_short_row(tmp_path):
    (tmp_path / "it.csv").write_text("scientific name,common name\nTurdus merula,Blackbird\nParus major\n")
    with pytest.raises(FormatError, match=r"it\.csv, row 3: there are 1 cells but row 1 has 2"):
        read_names(tmp_path / "it.csv")


def test_a_time_after_the_end_of_the_calendar(tmp_path):
    (tmp_path / "it.csv").write_text("epoch_ms,x\n17000000000000000000,1\n17000000000000000100,2\n")
    with pytest.raises(FormatError, match=r"it\.csv, row 2: the time \('epoch_ms'\) is 1.7e\+19, .* year 9000"):
        read_recordings(tmp_path / "it.csv", SeriesSettings())


@pytest.mark.parametrize("rate", [10_000_000, 1_263_542_080])
def test_a_recording_of_a_rate_that_no_recorder_has(tmp_path, rate):
    """Its spectrogram would take gigabytes, however short it is."""
    pytest.importorskip("soundfile")
    data = bytes(400)
    fmt = struct.pack("<4sIHHIIHH", b"fmt ", 16, 1, 1, rate, 2 * rate % 2**32, 2, 16)
    chunks = fmt + struct.pack("<4sI", b"data", len(data)) + data
    (tmp_path / "it.wav").write_bytes(struct.pack("<4sI4s", b"RIFF", len(chunks) + 4, b"WAVE") + chunks)
    if rate == 10_000_000:
        assert audio_info(tmp_path / "it.wav").rate == rate
    else:
        with pytest.raises(FormatError, match=r"it\.wav: its heading announces 1263542080 samples per second"):
            audio_info(tmp_path / "it.wav")


def test_a_recording_without_its_length_and_with_a_rate_that_no_integer_holds(tmp_path):
    pytest.importorskip("soundfile")
    fmt = struct.pack("<4sIHHIIHH", b"fmt ", 16, 1, 1, 2**32 - 1, 2, 2, 16)
    chunks = fmt + struct.pack("<4sI", b"data", 0) + bytes(400)
    (tmp_path / "it.wav").write_bytes(struct.pack("<4sI4s", b"RIFF", len(chunks) + 4, b"WAVE") + chunks)
    with pytest.raises(FormatError, match=r"it\.wav: "):
        audio_info(tmp_path / "it.wav")


def test_files_whose_places_are_told_otherwise():
    other = FileBags(["c"], [1], np.eye(1, 3), {"left": np.arange(1.0)}, {})
    with pytest.raises(FormatError, match=r"b\.wav: its locations have other columns"):
        assemble({"a.wav": BAGS, "b.wav": other}, np.eye(4, 3), None, "audio")


ENDS_THE_PROCESS = (
    "eNqdlU9vEkEYxt8BdrtQYtrG2cwmG0MMnWDSIn/axhiNzHYtktJYMI3WGyDSaksRKGjSQ0+eevLs0UMPPXv2bDz25KHxA3joR3BmdtnFSlPqBGZe"
    "3pl5fs87u8uus3Iah3AcJ4p8gBmAGVsBIABhBLnwRJzkQLZ4DgO+ickcVvEU/6om0QYzgwhyOiRGZKeneR+JB3ivokAwDhyVwnNFLiOIHKagkJZT"
    "JhJgujh6KY56wtoQbjg7AmccLQJRO7Wt+m4F3wAcnQ2Q0OvtnfosFE2+Dkd4Qul0K+2uEwfrzVdOhFLumBbjM4Iy7u8s6KphGgcUTBw1FkGdMhxN"
    "HNBV/TPSvyBapJq5BAmlmuxXekSpiIHbM+bEYeMA8G6KDw/0W4ZqUFBFJVwu4so5jqTeD6SfIvob0RNk+qV6Z3zoH8VwdhTrziiSqHeI8y1ID4Me"
    "h4w8cvL3kY/HQSlJOZOUTwo9DXmU2MhqYv9TDUoPKGeInqv02L99bnt65498ynB2fEpmQPmJ6HeNftSu90yMSckO1XIcob/C13sULqfoJ5O6SjX9"
    "6yQYJomycvnp8/vOM0KOQndFW2AWY6zEnLbKWJ9ZDbbCWIMtN2TO4gvWRLDMWEEm/JG3mujeCoUFERWF1LKcfyE6Wy56LPevc15f0NYkb0VODdBu"
    "aEtURliTSNvm0T0hYUsRq+TpMV/6g+T1XP2Gtenut9h7uWjD98u8ULooVF39AmuM5U9Wsu/5W31zhT9Rj7VT3S2xtOfPLl3wV7vgT6Jr2fJWrVkS"
    "14Of56YYndbgTjiHX4+82Gq7mz1oaUOaeHLBv9TPv2xV8xvM3yLnHwKJtSrtd/v17nyt1ZqvtNt7/Viv3u5s7zVjmaVkKpk2Dvj/6L8fOOBvk3X+"
    "kvkDNfgBNw=="
)
"""A table of vectors whose footer says of a column what pyarrow ends the whole process for, compressed."""


def test_vectors_with_a_footer_that_ends_the_process(tmp_path):
    pytest.importorskip("pyarrow")
    path = tmp_path / "it.parquet"
    path.write_bytes(zlib.decompress(b64decode(ENDS_THE_PROCESS)))
    code = (
        "import sys; from pathlib import Path; from bagwise.core.exceptions import FormatError\n"
        "from bagwise.io.data.vectors import read_vector_file\n"
        "try: read_vector_file(Path(sys.argv[1]))\n"
        "except FormatError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"{path}: it is damaged")


def test_a_mark_that_names_no_file_fits_nothing(tmp_path):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    place = {"start": 0.1, "end": 0.2, "low": 100.0, "high": 200.0, "label": "x"}
    parquet.write_table(
        arrow.Table.from_pylist([{"file": "a.wav", **place}, {"file": None, **place}]), tmp_path / "m.parquet"
    )
    _, problems = compare_marks(sounds(), read_marks(tmp_path / "m.parquet", sounds()))
    assert any("no file ''" in message for _, message in problems)
