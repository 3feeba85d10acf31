"""Letters: the text, the drawings, the sixteen features and the data set made of them."""

import string
import subprocess
import sys
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bagwise.core.dataset import rows_of
from bagwise.core.exceptions import InputError
from bagwise.datasets import draw_letters, letter_features, make_letter_bags
from bagwise.datasets._letters import FEATURE_NAMES, FEATURE_RANGES, FONTS, _draw_with_fonts, _measure_letters

ALPHABET = string.ascii_lowercase
SHORT_NAMES = [
    "x-box",
    "y-box",
    "width",
    "high",
    "onpix",
    "x-bar",
    "y-bar",
    "x2bar",
    "y2bar",
    "xybar",
    "x2ybr",
    "xy2br",
    "x-ege",
    "xegvy",
    "y-ege",
    "yegvx",
]

# ------------------------------------------------------------------------------------------------------------
# Features


def measure_slowly(image):
    """Frey and Slate's definitions, pixel by pixel; y grows upwards."""
    height, width = len(image), len(image[0])
    on = [(row, column) for row in range(height) for column in range(width) if image[row][column]]
    left, right = min(c for _, c in on), max(c for _, c in on)
    top, bottom = min(r for r, _ in on), max(r for r, _ in on)
    box_width, box_height = right - left + 1, bottom - top + 1
    middle_column, middle_row = (left + right) / 2, (top + bottom) / 2
    sums = Counter()
    for r, c in on:
        x, y = (c - middle_column) / box_width, (middle_row - r) / box_height
        for name, value in zip(SHORT_NAMES[5:12], (x, y, x * x, y * y, x * y, x * x * y, x * y * y), strict=True):
            sums[name] += value / len(on)
        if c == 0 or not image[r][c - 1]:
            sums["x-ege"] += 1 / box_height
            sums["xegvy"] += y / box_height
        if r == height - 1 or not image[r + 1][c]:
            sums["y-ege"] += 1 / box_width
            sums["yegvx"] += x / box_width
    sums["x-box"] = (middle_column + 0.5) / width
    sums["y-box"] = (height - 1 - middle_row + 0.5) / height
    sums["width"], sums["high"] = box_width / width, box_height / height
    sums["onpix"] = len(on) / (width * height)
    return [sums[name] for name in SHORT_NAMES]


def test_feature_names():
    assert SHORT_NAMES == FEATURE_NAMES


@settings(max_examples=100, deadline=None)
@given(
    hnp.arrays(bool, st.tuples(st.integers(1, 4), st.integers(1, 9), st.integers(1, 9))).filter(
        lambda images: images.any(axis=(1, 2)).all()
    )
)
def test_measures_equal_the_definitions(images):
    expected = [measure_slowly(image.tolist()) for image in images]
    np.testing.assert_allclose(_measure_letters(images), expected, rtol=1e-12, atol=1e-14)


def test_measures_of_drawn_letters_equal_the_definitions():
    images = draw_letters(ALPHABET, random_state=4)
    expected = [measure_slowly(image.tolist()) for image in images]
    np.testing.assert_allclose(_measure_letters(images), expected, rtol=1e-12, atol=1e-14)


def test_filled_rectangle():
    image = np.zeros((1, 40, 50), dtype=np.uint8)
    image[0, 10:18, 20:40] = 1  # 8 high, 20 wide, its middle at 30 of 50 from the left and 26 of 40 from below
    measured = dict(zip(FEATURE_NAMES, _measure_letters(image)[0].tolist(), strict=True))
    expected = dict.fromkeys(FEATURE_NAMES, 0.0) | {
        "x-box": 30 / 50,
        "y-box": 26 / 40,
        "width": 20 / 50,
        "high": 8 / 40,
        "onpix": 160 / 2000,
        "x2bar": (20**2 - 1) / (12 * 20**2),  # variance of a discrete uniform distribution
        "y2bar": (8**2 - 1) / (12 * 8**2),
        "x-ege": 1.0,
        "y-ege": 1.0,
    }
    assert measured == pytest.approx(expected, rel=1e-12, abs=1e-15)


def test_edges_at_the_rim_of_the_image_count():
    stripes = np.array([[[1, 0, 1, 0, 1]] * 2], dtype=bool)
    measured = dict(zip(FEATURE_NAMES, _measure_letters(stripes)[0].tolist(), strict=True))
    assert measured["x-ege"] == 3
    assert measured["y-ege"] == 3 / 5


@settings(max_examples=50, deadline=None)
@given(
    hnp.arrays(bool, (2, 7, 6)).filter(lambda images: images.any(axis=(1, 2)).all()),
    st.integers(0, 4),
    st.integers(0, 4),
)
def test_moving_a_letter_changes_its_place_only(images, down, right):
    canvas, moved = np.zeros((2, 2, 11, 10), dtype=bool)
    canvas[:, :7, :6] = images
    moved[:, down : down + 7, right : right + 6] = images
    np.testing.assert_array_equal(_measure_letters(moved)[:, 2:], _measure_letters(canvas)[:, 2:])
    shift = _measure_letters(moved)[:, :2] - _measure_letters(canvas)[:, :2]
    np.testing.assert_allclose(shift, [[right / 10, -down / 11]] * 2, atol=1e-12)


def test_mirroring_turns_the_signs():
    images = draw_letters(ALPHABET, random_state=1)
    here, there = _measure_letters(images), _measure_letters(images[:, :, ::-1])
    sign = np.array([-1 if name in ("x-bar", "xybar", "xy2br", "yegvx") else 1 for name in FEATURE_NAMES])
    np.testing.assert_allclose(there[:, 2:12], (sign * here)[:, 2:12], atol=1e-15)
    # As many runs from the right as from the left, and the lower edges are mirrored too.
    np.testing.assert_allclose(there[:, [12, 13, 14, 15]], (sign * here)[:, [12, 13, 14, 15]], atol=1e-15)


def test_features_are_the_measures_on_sixteen_levels():
    images = draw_letters(ALPHABET * 8, random_state=2)
    features, measured = letter_features(images), _measure_letters(images)
    assert features.shape == (208, 16)
    assert features.dtype == np.float64
    for column, name in enumerate(SHORT_NAMES):
        low, high = FEATURE_RANGES[name]
        for got, value in zip(features[:, column], measured[:, column], strict=True):
            assert got in range(16)
            assert abs(got - min(max(15 * (value - low) / (high - low), 0), 15)) <= 0.5 + 1e-9
        assert len(np.unique(features[:, column])) >= 6  # the scale is used, not a corner of it


def test_features_of_an_image_do_not_depend_on_the_others():
    images = draw_letters("listen", random_state=0)
    alone = np.concatenate([letter_features(image[None]) for image in images])
    np.testing.assert_array_equal(letter_features(images), alone)
    np.testing.assert_array_equal(letter_features(images.astype(np.uint8)), alone)
    assert letter_features(images[:0]).shape == (0, 16)


@pytest.mark.parametrize(
    ("images", "message"),
    [
        (
            np.ones((45, 45), dtype=bool),
            r"images have shape \(45, 45\); expected \(n_images, height, width\)",
        ),
        (np.full((1, 3, 3), 255), "values other than 0 and 1; threshold them first"),
        (np.full((1, 3, 3), "x"), "values other than 0 and 1"),
        (np.eye(3)[None] * np.array([1, 0, 0])[:, None, None], "Image 1 is blank, 2 such"),
    ],
)
def test_bad_images(images, message):
    with pytest.raises(InputError, match=message):
        letter_features(images)


# ------------------------------------------------------------------------------------------------------------
# Drawings


def test_drawings_are_reproducible_and_do_not_depend_on_what_follows():
    images = draw_letters("quietfields", random_state=7)
    assert images.shape == (11, 45, 45)
    assert images.dtype == bool
    np.testing.assert_array_equal(images, draw_letters(list("QuietFields"), random_state=7))
    np.testing.assert_array_equal(images[:5], draw_letters("quiet", random_state=7))
    assert (images != draw_letters("quietfields", random_state=8)).any(axis=(1, 2)).all()
    assert draw_letters("").shape == (0, 45, 45)


def test_the_same_letter_is_drawn_differently_each_time():
    images, fonts = _draw_with_fonts("e" * 200, random_state=0)
    assert len(np.unique(images.reshape(200, -1), axis=0)) == 200
    assert len(FONTS) >= 12
    assert set(fonts) == set(FONTS)


@pytest.mark.parametrize("distortion", [0.0, 1.0, 2.0])
def test_letters_lie_within_the_image_and_have_a_size(distortion):
    images = draw_letters(ALPHABET * 40, distortion=distortion, random_state=3)
    rim = images.copy()
    rim[:, 1:-1, 1:-1] = False
    assert not rim.any()
    _, _, _, high, onpix, *_ = _measure_letters(images).T
    assert high.min() * 45 >= 8
    assert onpix.min() * 45**2 >= 15


def test_letters_are_placed_off_centre():
    x_box, y_box, *_ = _measure_letters(draw_letters("o" * 300, random_state=0)).T
    for place in (x_box, y_box):
        assert place.mean() == pytest.approx(0.5, abs=0.02)
        assert place.std() > 0.05


def test_every_font_has_every_capital():
    ft2font = pytest.importorskip("matplotlib.ft2font")
    matplotlib = pytest.importorskip("matplotlib")
    for name in FONTS:
        font = ft2font.FT2Font(f"{matplotlib.get_data_path()}/fonts/ttf/{name}.ttf")
        assert all(font.get_char_index(ord(letter)) for letter in string.ascii_uppercase)


def test_undistorted_letters_have_the_topology_of_the_alphabet():
    from scipy import ndimage

    holes = dict.fromkeys(ALPHABET, 0) | dict.fromkeys("adopqr", 1) | {"b": 2}
    images = draw_letters(ALPHABET * 20, distortion=0.0, random_state=0)
    # A few small ones lose a hole or a hairline; as good as all must be whole.
    right = [ndimage.label(~image)[1] - 1 == holes[a] for image, a in zip(images, ALPHABET * 20, strict=True)]
    assert np.mean(right) > 0.9
    in_one_piece = [ndimage.label(image, np.ones((3, 3)))[1] == 1 for image in images]
    assert np.mean(in_one_piece) > 0.97


@pytest.mark.parametrize("letters", ["a b", ["a", "bc"], ["ä"], [1], "é"])
def test_bad_letters(letters):
    with pytest.raises(InputError, match=r"Letter \d is .*; expected one letter, a to z"):
        draw_letters(letters)


@pytest.mark.parametrize("distortion", [-0.1, 2.1, np.nan, "much", None])
def test_bad_distortion(distortion):
    with pytest.raises(InputError, match=r"distortion=.*; expected a number from 0 to 2"):
        draw_letters("a", distortion=distortion)


def test_without_matplotlib_the_message_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r'pip install "bagwise\[report\]"'):
        make_letter_bags("owl")


def test_importing_the_data_sets_leaves_matplotlib_alone():
    code = "import sys, bagwise.datasets; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# ------------------------------------------------------------------------------------------------------------
# The data set


@pytest.fixture(scope="module")
def default_bags():
    return make_letter_bags()


def test_default_text_has_every_letter_five_times(default_bags):
    counts = Counter("".join(default_bags.bag_names))
    assert set(counts) == set(ALPHABET)
    assert min(counts.values()) >= 5
    assert 150 <= len(default_bags) <= 200


def test_bags_are_words_and_instances_letters(default_bags):
    data = default_bags
    assert data.class_names == list(ALPHABET)
    assert data.feature_names == SHORT_NAMES
    assert data.bags.sizes.tolist() == [len(word) for word in data.bag_names]
    assert data.label_sets == [set(word) for word in data.bag_names]
    spelled = ["".join(ALPHABET[i] for i in labels) for labels in data.instance_labels]
    assert spelled == data.bag_names
    places = rows_of(data.locations)
    assert len(places) == data.bags.n_instances
    for location, label in zip(places, data.instance_labels.instances, strict=True):
        assert set(location) == {"word", "position", "font"}
        assert location["word"][location["position"]] == ALPHABET[label]
        assert location["font"] in FONTS


@pytest.mark.parametrize(("distortion", "random_state"), [(1.0, 0), (0.4, 11)])
def test_the_very_images_can_be_drawn_again(distortion, random_state):
    data = make_letter_bags("we sit and listen", distortion=distortion, random_state=random_state)
    images = draw_letters("".join(data.bag_names), distortion=distortion, random_state=random_state)
    np.testing.assert_array_equal(letter_features(images), data.bags.instances)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("Don't stop!\n 42 times", ["dont", "stop", "times"]),
        ("snicker-snack -- so\u2014said he", ["snickersnack", "so", "said", "he"]),
        ("Ça, déjà; naïve Straße", ["ca", "deja", "naive", "strasse"]),
        (["Jay", "o'clock"], ["jay", "oclock"]),
        (("wren",), ["wren"]),
    ],
)
def test_words_are_cleaned(words, expected):
    assert make_letter_bags(words).bag_names == expected


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("", "There are no words; pass a text or a list of words"),
        ("12 -- 34", "There are no words"),
        ([], "There are no words"),
        (["owl", "42"], "Word 1, '42', has no letter a to z; leave it out"),
        (["owl", 42], "Word 1 is 42; expected a text or a list of words"),
    ],
)
def test_bad_words(words, message):
    with pytest.raises(InputError, match=message):
        make_letter_bags(words)


def cross_validated_accuracy(data):
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    return cross_val_score(model, data.bags.instances, data.instance_labels.instances, cv=folds).mean()


def test_letters_are_as_hard_to_tell_apart_as_real_ones(default_bags):
    # Logistic regression reaches some 73 % on the UCI letters of a text of this length.
    assert 0.7 < cross_validated_accuracy(default_bags) < 0.9


def test_distortion_makes_it_harder():
    scores = [cross_validated_accuracy(make_letter_bags(distortion=d, random_state=1)) for d in (0.0, 1.0, 2.0)]
    assert np.diff(scores).max() < -0.05
