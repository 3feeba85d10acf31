"""Every format: what is written comes back, to the last bit where the format can hold it."""

import warnings
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bagwise.core.bags import Bags, offsets_of
from bagwise.core.dataset import BagDataset, columns_of, rows_of
from bagwise.core.exceptions import FormatError, InputError
from bagwise.io.data._csv import write_bags_csv
from bagwise.io.data._long import feature_names_of, find_roles, with_labels
from bagwise.io.data._parquet_write import write_parquet
from bagwise.io.data.formats import (
    BAG_NAMES,
    CLASS_NAMES,
    FEATURE_NAMES,
    FORMATS,
    INSTANCE_LABELS,
    LOCATIONS,
    SAME_NAMES,
    UNLABELLED,
    format_for_writing,
    guess_format,
    iter_dataset,
    read_dataset,
    read_described,
    write_dataset,
)
from bagwise.io.labels import LabelTable

ONE_CLASS = ("mil-mat", "musk")  # formats with exactly one class, whose name is fixed
TEXT_NAMES = ("csv", "arff", "miml-csv", "lamda-mat", "musk")  # names come back as text
SINGLE_PRECISION = ("npz", "parquet", "parquet-nested")

WORD = st.text(st.characters(blacklist_categories=("Cs", "Cc", "Z"), blacklist_characters='",'), min_size=1, max_size=6)
QUOTED_WORD = st.text(st.characters(blacklist_categories=("Cs",), blacklist_characters="\0\r"), min_size=1, max_size=6)
XML_WORD = QUOTED_WORD.filter(lambda word: all(c >= " " and c not in "\ufffe\uffff" for c in word))
WORDS = {"arff": XML_WORD, "miml-csv": WORD, "musk": WORD}
FLOATS = {
    64: st.floats(allow_nan=False, allow_infinity=False),
    32: st.floats(allow_nan=False, allow_infinity=False, width=32),
}


@st.composite
def datasets(draw, n_classes=None, words=WORD):
    width = draw(st.sampled_from([32, 64]))
    sizes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=5))
    n_features = draw(st.integers(1, 3))
    c = n_classes or draw(st.integers(1, 3))
    offsets = offsets_of(sizes)
    m = int(offsets[-1])
    X = draw(st.lists(FLOATS[width], min_size=m * n_features, max_size=m * n_features))
    bits = st.lists(st.integers(0, 1), min_size=len(sizes) * c, max_size=len(sizes) * c)
    has_labels = n_classes is not None or draw(st.booleans())
    reserved = {"bag", "bag_name", "labels", "labelled", "instance_label", "location", "id"}
    names = draw(
        st.lists(words.filter(lambda w: w not in reserved and w == w.strip()), min_size=c + n_features,
                 max_size=c + n_features, unique=True)
    )  # fmt: skip
    codes = draw(st.none() | st.lists(st.integers(-1, c - 1), min_size=m, max_size=m))
    places = [{"file": names[0], "seconds": [0.5, float(i)], **({"n": i} if i % 2 else {})} for i in range(m)]
    Y = np.array(draw(bits), dtype=np.uint8).reshape(len(sizes), c) if has_labels else None
    labelled = np.array(draw(st.lists(st.booleans(), min_size=len(sizes), max_size=len(sizes))))
    return BagDataset(
        bags=Bags(np.array(X, dtype=f"f{width // 8}").reshape(m, n_features), offsets),
        Y=None if Y is None else Y * labelled[:, None],
        class_names=names[:c] if has_labels or codes is not None else [],
        instance_labels=None if codes is None else Bags(np.array(codes), offsets),
        bag_names=draw(st.none() | st.lists(words, min_size=len(sizes), max_size=len(sizes))),
        feature_names=draw(st.sampled_from([None, names[c:]])),
        locations=columns_of(places) if draw(st.booleans()) else None,
        labelled=labelled if has_labels else None,
        name="made",
    )


def round_trip(data, name, folder):
    path = Path(folder) / f"made{FORMATS[name].extension}"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        write_dataset(data, path, name)
    return read_dataset(path, name), path


def assert_same(back, data, name):
    """Equal in all that the format holds."""
    holds = FORMATS[name].holds
    text = str if name in TEXT_NAMES else (lambda value: value)
    np.testing.assert_array_equal(back.bags.offsets, data.bags.offsets)
    assert back.bags.instances.tobytes() == data.bags.instances.astype(back.bags.instances.dtype).tobytes()
    assert back.bags.instances.dtype == (data.bags.instances.dtype if name in SINGLE_PRECISION else np.float64)
    assert (back.Y is None) == (data.Y is None)
    if data.Y is not None:
        np.testing.assert_array_equal(back.Y, data.Y)
    np.testing.assert_array_equal(back.labelled, data.labelled if UNLABELLED in holds else data.Y is not None)
    if CLASS_NAMES in holds and data.Y is not None:
        assert back.class_names == [text(name) for name in data.class_names]
    if INSTANCE_LABELS in holds and name not in ONE_CLASS:
        assert instance_names(back) == [None if x is None else text(x) for x in instance_names(data)]
    names = data.bag_names
    if BAG_NAMES in holds and (SAME_NAMES in holds or len(set(map(text, names))) == len(names)):
        assert back.bag_names == [text(x) for x in names]
    if FEATURE_NAMES in holds and data.feature_names is not None:
        assert back.feature_names == data.feature_names
    if LOCATIONS in holds:
        assert (back.locations is None) == (data.locations is None)
        assert rows_of(back.locations or {}) == rows_of(data.locations or {})


def instance_names(data):
    if data.instance_labels is None:
        return [None] * data.bags.n_instances
    return [data.class_names[code] if code >= 0 else None for code in data.instance_labels.instances]


@pytest.mark.parametrize("name", [name for name in FORMATS if name not in ONE_CLASS])
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(data=st.data())
def test_round_trip(tmp_path_factory, name, data):
    made = data.draw(datasets(words=WORDS.get(name, QUOTED_WORD)))
    folder = tmp_path_factory.mktemp("round")
    if made.Y is None and name in ("lamda-mat", "miml-csv"):
        with pytest.raises(InputError, match="needs bag labels"):
            write_dataset(made, folder / "x", name)
        assert list(folder.iterdir()) == []
        return
    back, path = round_trip(made, name, folder)
    assert_same(back, made, name)
    assert guess_format(path) == name


@pytest.mark.parametrize("name", ONE_CLASS)
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(made=datasets(n_classes=1))
def test_round_trip_of_one_class(tmp_path_factory, name, made):
    back, path = round_trip(made, name, tmp_path_factory.mktemp("round"))
    assert_same(back, made, name)
    assert back.class_names == ["positive" if name == "mil-mat" else "musk"]
    assert guess_format(path) == name


def small(**changes):
    rng = np.random.default_rng(0)
    values = {
        "bags": Bags(rng.normal(size=(6, 2)), [0, 2, 3, 6]),
        "Y": np.array([[1, 0], [1, 1], [0, 0]]),
        "class_names": ["grün", "rot;blau"],
        "instance_labels": Bags(np.array([0, -1, 1, -1, -1, -1]), [0, 2, 3, 6]),
        "bag_names": ["ä", "日本", "=1+1"],
        "feature_names": ["größe", "x,y"],
        "locations": {"file": [f"{i}.wav" for i in range(6)]},
    }
    return BagDataset(**{**values, **changes})


LOST = {
    "npz": "locations", "parquet": None, "parquet-nested": "locations", "csv": None,
    "arff": "instance labels, locations", "lamda-mat": "instance labels, locations",
}  # fmt: skip


@pytest.mark.parametrize("name", LOST)
def test_what_a_format_does_not_keep_is_said(tmp_path, name):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        write_dataset(small(), tmp_path / "x", name)
    said = [str(warning.message) for warning in caught]
    assert said == (
        [] if LOST[name] is None else [f"{tmp_path / 'x'}: the format {name!r} does not keep {LOST[name]}."]
    )
    back = read_dataset(tmp_path / "x", name)
    assert back.class_names == ["grün", "rot;blau"]
    assert back.bag_names == ["ä", "日本", "=1+1"]


KEEPS_NO_UNLABELLED = [name for name in FORMATS if UNLABELLED not in FORMATS[name].holds]


def test_who_keeps_unlabelled_bags():
    assert KEEPS_NO_UNLABELLED == ["arff", "miml-csv", "lamda-mat", "mil-mat", "musk"]


@pytest.mark.parametrize("name", KEEPS_NO_UNLABELLED)
def test_lost_unlabelled_bags_are_said(tmp_path, name):
    data = BagDataset(small().bags, np.array([[1], [0], [0]]), labelled=np.array([True, False, True]))
    with pytest.warns(UserWarning, match="does not keep which bags are unlabelled."):
        write_dataset(data, tmp_path / "x", name)
    assert read_dataset(tmp_path / "x", name).labelled.all()


def test_names_that_nobody_gave_are_not_lost(tmp_path):
    bags, Y = small().bags, np.array([[1], [0], [0]])
    write_dataset(BagDataset(bags, Y), tmp_path / "x.mat", "mil-mat")  # no warning, which would be an error
    with pytest.warns(UserWarning, match="does not keep bag names"):
        write_dataset(BagDataset(bags, Y, bag_names=list("abc")), tmp_path / "y.mat", "mil-mat")
    for names, stored in ((None, False), ([0, 1, 2], False), ([1, 2, 3], True)):
        write_dataset(BagDataset(bags, Y, bag_names=names), tmp_path / "x.npz")
        with np.load(tmp_path / "x.npz") as arrays:
            assert ("bag_names" in arrays) == stored
        assert read_dataset(tmp_path / "x.npz").bag_names == (names or [0, 1, 2])


@pytest.mark.parametrize("name", ["npz", "csv", "parquet", "parquet-nested"])
def test_labelled_is_written_only_where_it_says_something(tmp_path, name):
    path = tmp_path / f"x{FORMATS[name].extension}"
    for labelled in (None, np.array([True, False, False])):
        write_dataset(small(Y=np.array([[1, 0], [0, 0], [0, 0]]), labelled=labelled, locations=None), path, name)
        if name == "npz":
            with np.load(path) as arrays:
                found = "labelled" in arrays
        elif name == "csv":
            found = "labelled" in path.read_text(encoding="utf-8").split("\n")[0].split(",")
        else:
            found = "labelled" in pq.read_schema(path).names
        assert found == (labelled is not None)
        back = read_dataset(path, name)
        assert back.label_sets == ([{"grün"}, None, None] if found else [{"grün"}, set(), set()])


@pytest.mark.parametrize("name", ["csv", "parquet", "parquet-nested"])
def test_pieces_whose_first_is_labelled(tmp_path, name):
    """What comes in pieces says beforehand whether some bag is unlabelled; otherwise it would be lost in silence."""
    data = small(Y=np.array([[1, 0], [0, 1], [0, 0]]), labelled=np.array([True, True, False]))
    pieces, path = [data[:1], data[1:]], tmp_path / "x"
    writers = {
        "csv": lambda **options: write_bags_csv(pieces, path, numbered=False, **options),
        "parquet": lambda **options: write_parquet(pieces, path, nested=False, numbered=False, **options),
        "parquet-nested": lambda **options: write_parquet(pieces, path, nested=True, numbered=False, **options),
    }
    with pytest.raises(
        InputError, match="The bag '=1\\+1' is unlabelled, but the file was begun without .*marked=True"
    ):
        writers[name]()
    assert not path.exists()
    writers[name](marked=True)
    assert read_dataset(path, name).labelled.tolist() == [True, True, False]


def test_places_without_facts_are_none(tmp_path):
    (tmp_path / "x.csv").write_text("bag,location,x\na,{},1\na,,2\n")
    assert read_dataset(tmp_path / "x.csv").locations is None


def test_numbers_of_hundreds_of_digits_in_places(tmp_path):
    (tmp_path / "x.csv").write_text('bag,location,x\na,"{""n"": 1%s}",1\na,"{""n"": 0.5}",2\n' % ("0" * 400))
    assert read_dataset(tmp_path / "x.csv").locations["n"].tolist() == [10**400, 0.5]


def test_places_may_hold_arrays(tmp_path):
    data = small(locations={"polygon": [np.zeros((2, 2)), np.ones((3, 2))] * 3, "n": np.arange(6, dtype=np.int16)})
    back, _ = round_trip(data, "csv", tmp_path)
    assert back.locations["polygon"][0] == [[0.0, 0.0], [0.0, 0.0]]
    assert back.locations["n"].tolist() == list(range(6))


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        ("miml-csv", {}, "which the CSV of mimllearning cannot"),
        ("musk", {}, "holds exactly one class, and the data set has 2"),
        ("mil-mat", {}, "holds exactly one class"),
        ("lamda-mat", {"Y": None}, "needs bag labels"),
        ("csv", {"feature_names": ["bag", "x"]}, "keeps for another column"),
        ("csv", {"feature_names": ["x", "x"]}, "stands twice"),
        ("parquet", {"bag_names": [1, "a", 2]}, "of several kinds"),
        ("arff", {"class_names": ["\x1b", "x"]}, "a character that XML cannot"),
        ("arff", {"class_names": ["id", "x"]}, "keeps for another attribute"),
    ],
)
def test_what_cannot_be_written_leaves_no_file(tmp_path, name, changes, message):
    with pytest.raises(InputError, match=message):
        write_dataset(small(**changes), tmp_path / "x", name)
    assert list(tmp_path.iterdir()) == []


def test_several_bags_of_one_name(tmp_path):
    data = small(bag_names=["the", "the", "the#2"])
    for name in ("npz", "csv", "parquet", "parquet-nested", "lamda-mat"):
        assert round_trip(data, name, tmp_path)[0].bag_names == ["the", "the", "the#2"]
    assert round_trip(data, "arff", tmp_path)[0].bag_names == ["the", "the#3", "the#2"]


@pytest.mark.parametrize("file", ["letter_frost_rebuilt", "musk1", "msrc_v2"])
def test_real_data_in_every_format(tmp_path, real_data, file):
    data = read_dataset(real_data / f"{file}.npz")
    for name in FORMATS:
        if name not in ONE_CLASS or data.n_classes == 1:
            assert_same(round_trip(data, name, tmp_path)[0], data, name)


# ---------------------------------------------------------------------------------------------------------------------
# Which format it is


def test_formats_by_ending():
    assert format_for_writing("a.PARQUET") == "parquet"
    assert format_for_writing("a/b.mat") == "lamda-mat"
    with pytest.raises(InputError, match=r"'.xyz' of a.xyz tells no format; use one of .npz"):
        format_for_writing("a.xyz")


@pytest.mark.parametrize(
    ("written", "named", "says"),
    [
        ("parquet", "x.npz", "looks like parquet|is no .npz"),
        ("npz", "x.csv", "named .csv but its content looks like numpy"),
        ("arff", "x.csv", "named .csv but its content looks like multi-instance ARFF"),
        ("csv", "x.parquet", "does not begin as a parquet file"),
        ("csv", "x.npz", "is no .npz file"),
        ("csv", "x.mat", "no MATLAB 5 file"),
        ("csv", "x.arff", "is no ARFF"),
        ("csv", "x.data", "which is no number"),
    ],
)
def test_content_that_contradicts_the_name(tmp_path, written, named, says):
    path = tmp_path / named
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        write_dataset(small(), path, written)
    with pytest.raises(FormatError, match=says):
        read_dataset(path)


def test_unknown_format_and_option(tmp_path):
    write_dataset(small(), tmp_path / "x.csv")
    with pytest.raises(InputError, match="There is no format 'excel'; the formats are npz, parquet"):
        read_dataset(tmp_path / "x.csv", "excel")
    with pytest.raises(InputError, match="'csv' has no option 'xml'; it has bag, labels"):
        read_dataset(tmp_path / "x.csv", xml="y.xml")


@pytest.mark.parametrize("name", FORMATS)
def test_missing_empty_and_folder(tmp_path, name):
    for path in (tmp_path, tmp_path / "nowhere", tmp_path / "empty"):
        (tmp_path / "empty").write_bytes(b"")
        with pytest.raises(FormatError, match=f"{path}.*(is a folder|does not exist|is empty)"):
            read_dataset(path, name)


# ---------------------------------------------------------------------------------------------------------------------
# Labels from a second table


def test_labels_from_a_second_table(tmp_path):
    write_dataset(small(Y=None, instance_labels=None, locations=None, bag_names=["a", "b", "c"]), tmp_path / "x.csv")
    (tmp_path / "labels.csv").write_text("bag,labels\nc,\na,wren;robin\nb,wren\n", encoding="utf-8")
    data, understood = read_described(tmp_path / "x.csv", labels_from=tmp_path / "labels.csv")
    assert data.label_sets == [{"wren", "robin"}, {"wren"}, set()]
    assert understood.startswith("csv: a row per instance, separated by commas")
    assert "labels.csv: one row per bag, separated by commas, its labels in one cell" in understood
    (tmp_path / "labels.csv").write_text("bag,labels\na,wren;robin\nb,wren\n", encoding="utf-8")
    with pytest.raises(FormatError, match=r"labels.csv: 1 bag\(s\) of .*x.csv have no row, the first is 'c'"):
        read_dataset(tmp_path / "x.csv", labels_from=tmp_path / "labels.csv")
    part = read_dataset(tmp_path / "x.csv", labels_from=tmp_path / "labels.csv", missing_labels="unlabelled")
    assert part.label_sets == [{"wren", "robin"}, {"wren"}, None]
    with pytest.raises(InputError, match="missing='empty' is not known; use one of 'error', 'unlabelled'"):
        read_dataset(tmp_path / "x.csv", labels_from=tmp_path / "labels.csv", missing_labels="empty")
    (tmp_path / "labels.csv").write_text("bag,labels\na,wren;robin\nb,wren\nc,\nd,wren\n", encoding="utf-8")
    with pytest.raises(FormatError, match=r"labels.csv, row 5: there is no bag 'd' in"):
        read_dataset(tmp_path / "x.csv", labels_from=tmp_path / "labels.csv")


def test_instance_labels_follow_the_second_table(tmp_path):
    data = small(Y=None, class_names=["robin", "wren"], bag_names=["a", "b", "c"], locations=None)
    write_dataset(data, tmp_path / "x.csv")
    (tmp_path / "labels.csv").write_text("bag,wren,robin\na,0,1\nb,1,0\nc,1,1\n", encoding="utf-8")
    back = read_dataset(tmp_path / "x.csv", labels_from=tmp_path / "labels.csv")
    assert back.class_names == ["wren", "robin"]
    assert instance_names(back) == ["robin", None, "wren", None, None, None]
    (tmp_path / "labels.csv").write_text("bag,wren,owl\na,0,1\nb,1,0\nc,1,1\n", encoding="utf-8")
    with pytest.raises(FormatError, match=r"labels.csv: .* holds the label 'robin', which is none of the 2 classes"):
        read_dataset(tmp_path / "x.csv", labels_from=tmp_path / "labels.csv")


def test_whole_numbers_match_the_text_of_the_second_table(tmp_path):
    data = small(Y=np.eye(3, 2), class_names=[7, 8], bag_names=[10, 11, 12], locations=None)
    write_dataset(data, tmp_path / "x.npz")
    (tmp_path / "labels.csv").write_text("bag,labels\n10,7\n11,8;7\n12,\n", encoding="utf-8")
    back = read_dataset(tmp_path / "x.npz", labels_from=tmp_path / "labels.csv")
    assert back.label_sets == [{"7"}, {"7", "8"}, set()]
    assert instance_names(back) == ["7", None, "8", None, None, None]


# ---------------------------------------------------------------------------------------------------------------------
# Many columns, strange names


def test_bags_whose_names_have_one_hash(tmp_path):
    assert hash(-1) == hash(-2)
    names = [-2, -1, 0, 2**61 - 1]
    table = pa.table({"bag": np.repeat(names, 2), "x": np.arange(8.0)})
    pq.write_table(table, tmp_path / "x.parquet")
    pieces, _ = iter_dataset(tmp_path / "x.parquet")
    assert [name for piece in pieces for name in piece.bag_names] == names


class Heading(str):
    """A heading that counts how often it is compared."""

    n_compared = 0
    __slots__ = ()

    def __eq__(self, other):
        Heading.n_compared += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__

    def __str__(self):
        return self  # text made from it counts on


def count_comparisons(work):
    Heading.n_compared = 0
    work()
    return Heading.n_compared


def table_of_labels(names, classes):
    return LabelTable(names, [[] for _ in names], list(range(len(names))), "", classes)


def with_many_labels(n):
    names = [Heading(f"b{i}") for i in range(n)]
    data = BagDataset(Bags(np.zeros((n, 1)), np.arange(n + 1)), bag_names=names[:-1] + names[-2:-1])
    with pytest.raises(FormatError, match="two bags are named"):
        with_labels(data, table_of_labels(names, ["u"]), "x", "y")


WIDE = {
    "find_roles": lambda n: find_roles([Heading("bag"), *(Heading(f"x{i}") for i in range(n))], "x"),
    "feature_names_of": lambda n: feature_names_of(
        BagDataset(Bags(np.zeros((1, n)), [0, 1]), feature_names=[Heading(f"x{i}") for i in range(n)])
    ),
    "with_labels": with_many_labels,
}


@pytest.mark.parametrize("name", WIDE)
def test_many_columns_take_comparisons_in_proportion(name):
    few, many = (count_comparisons(lambda n=n: WIDE[name](n)) for n in (2_000, 20_000))
    assert few <= 20 * 2_000
    assert many <= 20 * 20_000
