"""Pictures to regions: masks, shapes, merging, SLIC, patches, features against loops, outlines, bad files."""

import json
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from scipy.ndimage import gaussian_filter
from skimage.color import rgb2lab
from skimage.draw import polygon2mask

from bagwise.app.media import ImageSettings, featurize_images
from bagwise.app.media._features import (
    APPEARANCE_NAMES,
    HISTOGRAM_NAMES,
    N_COLOURS,
    PALETTE,
    appearance_features,
    nearest_colour,
    patch_features,
    region_histograms,
)
from bagwise.app.media._image_regions import (
    grid_regions,
    merged_regions,
    outlines,
    shape_regions,
    slic_regions,
)
from bagwise.app.media.image import _find_regions
from bagwise.app.media.image_file import Pixels, read_pixels
from bagwise.app.media.rle import ring_area, ring_counts, sample_counts
from bagwise.core.exceptions import FormatError, InputError


def two_colours(height=40, width=60):
    image = np.zeros((height, width, 3), dtype=np.uint8)
    image[:, : width // 2] = (200, 30, 30)
    image[:, width // 2 :] = (20, 180, 40)
    return image


def save(path, array, **options):
    Image.fromarray(array).save(path, **options)
    return path


def test_masks_become_contiguous_regions(tmp_path):
    mask = np.zeros((40, 60), dtype=np.uint8)
    mask[2:12, 2:12] = 5
    mask[2:12, 30:40] = 5  # the same value elsewhere: a region of its own
    mask[20:38, 10:50] = 2
    mask[0, 59] = 9  # too small
    save(tmp_path / "a.png", two_colours())
    save(tmp_path / "a_mask.png", mask)
    data = featurize_images([tmp_path / "a.png"], ImageSettings(regions="mask", features="histograms"))
    assert data.bags.instances.shape == (3, 48)
    boxes = np.transpose([data.locations[key] for key in ("left", "top", "width", "height")])
    assert boxes.tolist() == [[10, 20, 40, 18], [2, 2, 10, 10], [30, 2, 10, 10]]
    assert data.locations["area"].tolist() == [720, 100, 100]
    np.testing.assert_allclose(data.bags.instances[:, :16].sum(axis=1), [1, 0, 1])  # the second lies in one colour
    np.testing.assert_allclose(data.bags.instances[:, 16:].sum(axis=1), 1)
    red, green = (int(nearest_colour(np.array([c]))[0]) for c in ((200, 30, 30), (20, 180, 40)))
    assert data.bags.instances[1, 16 + red] == 1
    assert data.bags.instances[2, 16 + green] == 1
    assert data.bags.instances[0, 16 + red] == pytest.approx(0.5)


def test_masks_in_colour_and_palette(tmp_path):
    values = np.zeros((30, 30), dtype=np.uint8)
    values[:15] = 3
    values[15:, 15:] = 7
    colours = np.zeros((30, 30, 3), dtype=np.uint8)
    colours[values == 3] = (255, 0, 0)
    colours[values == 7] = (0, 0, 255)
    palette = Image.fromarray(values).convert("P")
    save(tmp_path / "a.png", two_colours(30, 30))
    regions = []
    for mask in (Image.fromarray(values), Image.fromarray(colours), palette):
        mask.save(tmp_path / "a_mask.png")
        pixels = read_pixels(tmp_path / "a.png")
        regions.append(_find_regions(tmp_path / "a.png", "a.png", pixels, ImageSettings(regions="mask")))
    assert all(set(np.unique(r)) == {0, 1, 2} for r in regions)
    assert all(((r > 0) == (values > 0)).all() for r in regions)


def test_coco_polygons(tmp_path):
    save(tmp_path / "a.png", two_colours())
    square, triangle = [5, 5, 25, 5, 25, 25, 5, 25], [30, 10, 55, 10, 30, 35]
    document = {
        "images": [{"id": 7, "file_name": "a.png"}],
        "annotations": [{"id": i, "image_id": 7, "segmentation": [p]} for i, p in enumerate((square, triangle))],
    }
    (tmp_path / "coco.json").write_text(json.dumps(document))
    chosen = ImageSettings(regions="coco", coco=str(tmp_path / "coco.json"))
    labels = _find_regions(tmp_path / "a.png", "a.png", Pixels(two_colours(), None, 60, 40), chosen)
    for i, flat in enumerate((square, triangle)):
        points = np.array(flat).reshape(-1, 2)[:, ::-1]
        expected = polygon2mask((40, 60), points)
        assert np.mean((labels == i + 1) != expected) < 0.03  # the edge may fall on either side
    save(tmp_path / "b.png", two_colours())
    with pytest.raises(FormatError, match=r"b.png: the COCO file .* does not name it"):
        featurize_images([tmp_path / "b.png"], chosen)
    for content, message in (("{}", "not a COCO file"), ("no json", "not a COCO file")):
        (tmp_path / "bad.json").write_text(content)
        with pytest.raises(FormatError, match=message):
            featurize_images([tmp_path / "a.png"], ImageSettings(regions="coco", coco=str(tmp_path / "bad.json")))


@pytest.mark.parametrize(
    "find", [lambda image: slic_regions(image, 8, 10.0), lambda image: merged_regions(image, 100, 0.02)]
)
@pytest.mark.parametrize("deviation", [0, 10, 20])
def test_regions_keep_colours_apart_in_grainy_pictures(find, deviation):
    for seed in range(3):
        grain = np.random.default_rng(seed).normal(0, deviation, (60, 60, 3))
        labels = find((two_colours(60, 60) + grain).clip(0, 255).astype(np.uint8))
        assert 2 <= labels.max() <= 16
        assert labels.min() == 1
        assert not set(np.unique(labels[:, :27])) & set(np.unique(labels[:, 33:]))


@pytest.mark.parametrize("grain", [0, 1, 4])
def test_a_sky_is_one_region(grain):
    """What changes slowly from point to point is merged, where SLIC cuts it up."""
    image = np.zeros((200, 300, 3))
    image[:120] = np.linspace((90, 140, 220), (190, 210, 250), 120)[:, None]
    image[120:] = (60, 130, 40)
    image = (image + np.random.default_rng(0).normal(0, grain, image.shape)).clip(0, 255).astype(np.uint8)
    assert len(np.unique(merged_regions(image, 100, 0.02)[:110])) == 1
    assert len(np.unique(slic_regions(image, 12, 10.0)[:110])) > 1


def test_large_pictures_have_the_regions_of_their_copies():
    image = np.asarray(Image.fromarray(two_colours(300, 400)).resize((1600, 1200), Image.Resampling.NEAREST))
    labels = merged_regions(image, 100, 0.02)
    assert labels.shape == (1200, 1600)
    assert labels.max() == 2
    assert abs((labels[0] == labels[0, 0]).sum() - 800) <= 4


def test_the_smaller_of_two_shapes_is_on_top():
    large, small = np.zeros((9, 9), dtype=bool), np.zeros((9, 9), dtype=bool)
    large[1:8, 1:8] = small[3:5, 3:5] = True
    for masks, numbers in (([large, small], (1, 2)), ([small, large], (2, 1))):
        labels = shape_regions((9, 9), masks)
        assert (labels[large & ~small] == numbers[0]).all()
        assert (labels[small] == numbers[1]).all()


def loop_region(image, region):
    """Histograms of one region by loops over its points."""
    grey = 0.299 * image[..., 0] + 0.587 * image[..., 1] + 0.114 * image[..., 2]
    padded = np.pad(grey, 1, mode="symmetric")
    kernel = np.array([[-1, 0, 1], [-2, 0, 2], [-1, 0, 1]])
    gradients, colours = np.zeros(16), np.zeros(N_COLOURS)
    for r, c in np.argwhere(region):
        patch = padded[r : r + 3, c : c + 3]
        x, up = (patch * kernel).sum(), -(patch * kernel.T).sum()
        if np.hypot(x, up) >= 70:
            gradients[int((np.degrees(np.arctan2(up, x)) % 360 + 11.25) % 360 // 22.5)] += np.hypot(x, up)
        distances = [((image[r, c].astype(float) - np.array(p)) ** 2).sum() for p in PALETTE]
        colours[int(np.argmin(distances))] += 1
    return np.concatenate([gradients / gradients.sum(), colours / colours.sum()])


@pytest.mark.parametrize("seed", range(3))
def test_features_are_those_of_loops(seed):
    rng = np.random.default_rng(seed)
    image = rng.integers(0, 256, (18, 22, 3)).astype(np.uint8)
    labels = np.zeros((18, 22), dtype=np.int32)
    labels[2:9, 3:12] = 1
    labels[9:17, 8:20] = 2
    found = region_histograms(image, labels)
    for i in range(2):
        np.testing.assert_allclose(found[i], loop_region(image, labels == i + 1), rtol=1e-4, atol=1e-6)
    assert found.shape == (2, len(HISTOGRAM_NAMES))


def loop_appearance(image, region):
    """Place, size, colours and patterns of one region by loops over its points."""
    height, width = region.shape
    grey = np.round(image @ [0.299, 0.587, 0.114])
    points, colours, patterns = [], [], np.zeros(10)
    lab = rgb2lab(image)
    around = [(0, 1), (-1, 1), (-1, 0), (-1, -1), (0, -1), (1, -1), (1, 0), (1, 1)]
    for r, c in np.argwhere(region):
        points.append(((c + 0.5) / width, (r + 0.5) / height))
        colours.append(lab[r, c])
        bits = []
        for i, j in around:
            y, x = r + i * (0.70710678 if i and j else 1), c + j * (0.70710678 if i and j else 1)
            y0, x0 = int(np.floor(y + 1e-9)), int(np.floor(x + 1e-9))
            corners = [
                (grey[y0 + a, x0 + b] if 0 <= y0 + a < height and 0 <= x0 + b < width else 0.0)
                * (y - y0 if a else 1 - y + y0) * (x - x0 if b else 1 - x + x0)
                for a in (0, 1) for b in (0, 1)
            ]  # fmt: skip
            bits.append(sum(corners) >= grey[r, c] - 1e-5)
        changes = sum(bits[k] != bits[k - 1] for k in range(8))
        patterns[sum(bits) if changes <= 2 else 9] += 1
    points, colours = np.array(points), np.array(colours)
    return np.concatenate([
        points.mean(0), points.std(0), [np.sqrt(region.sum() / region.size)], colours.mean(0), colours.std(0),
        np.sqrt(patterns / region.sum()),
    ])  # fmt: skip


@pytest.mark.parametrize("seed", range(3))
def test_appearance_is_that_of_loops(seed):
    rng = np.random.default_rng(seed)
    image = rng.integers(0, 256, (18, 22, 3)).astype(np.uint8)
    labels = np.zeros((18, 22), dtype=np.int32)
    labels[2:9, 3:12] = 1
    labels[9:17, 8:20] = 2
    found = appearance_features(image, labels)
    assert found.shape == (2, len(APPEARANCE_NAMES))
    for i in range(2):
        np.testing.assert_allclose(found[i], loop_appearance(image, labels == i + 1), rtol=1e-6, atol=1e-9)


def test_patches_are_blobs_with_neighbours():
    """The identities that hold in the Scene set: what is right of one blob is the blob two further on."""
    image = np.random.default_rng(0).integers(0, 256, (64, 96, 3)).astype(np.uint8)
    found = patch_features(image)
    assert found.shape == (9, 15)
    small = image.reshape(8, 8, 8, 12, 3).mean(axis=(1, 3))
    np.testing.assert_allclose(found[4, :3], small[3:5, 3:5].mean(axis=(0, 1)))
    np.testing.assert_allclose(found[0, 9:12], found[2, :3] - found[0, :3])  # right
    np.testing.assert_allclose(found[0, 12:15], found[6, :3] - found[0, :3])  # below
    np.testing.assert_allclose(found[8, 3:6], found[6, :3] - found[8, :3])  # left
    np.testing.assert_allclose(found[8, 6:9], found[2, :3] - found[8, :3])  # above
    assert set(np.unique(grid_regions((64, 96), 3, 3))) == set(range(1, 10))
    with pytest.raises(InputError, match="8 x 8 or more"):
        patch_features(image[:5])


def test_scene_set_obeys_the_same_identities(real_data):
    path = real_data / "miml_scene.npz"
    if not path.is_file():
        pytest.skip("miml_scene.npz is not there")
    X = np.load(path)["X"].reshape(-1, 9, 15)[:50]
    for a, b, block in ((0, 2, 9), (0, 6, 12), (8, 6, 3), (8, 2, 6), (3, 5, 9), (1, 7, 12)):
        np.testing.assert_allclose(X[:, a, block : block + 3], X[:, b, :3] - X[:, a, :3])


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 100_000))
def test_outlines_are_those_of_their_region(seed):
    """Exactly, before they are simplified; holes and parts too."""
    rng = np.random.default_rng(seed)
    region = gaussian_filter(rng.random((30, 40)), rng.uniform(0.5, 3)) > rng.uniform(0.45, 0.55)
    region[:2] = region[-1:] = False
    region[5:8, 5:9] = True
    exact = outlines(region, tolerance=0.0, least=0)
    assert (sample_counts(ring_counts(exact, 30, 40), (30, 40), (30, 40)) == region).all()
    simple = outlines(region)
    assert sum(map(len, simple)) <= sum(map(len, exact))
    edges = sum(np.abs(np.diff(region.astype(int), axis=axis)).sum() for axis in (0, 1))
    assert abs(ring_area(simple, 30, 40) - region.sum()) <= 0.5 * edges + 4
    assert all(0 <= x <= 40 and 0 <= y <= 30 for ring in simple for x, y in ring)


def test_outlines_of_boxes_holes_and_lines():
    region = np.zeros((20, 30), dtype=bool)
    region[2:12, 3:20] = True
    assert {tuple(point) for point in outlines(region)[0]} == {(3, 2), (20, 2), (20, 12), (3, 12)}
    region[5:9, 8:12] = False
    region[15:19, 22:29] = True
    rings = outlines(region)
    assert [len(ring) for ring in rings] == [4, 4, 4]
    assert ring_area(rings, 20, 30) == region.sum()
    line = np.zeros((5, 9), dtype=bool)
    line[2, 1:8] = True
    assert ring_area(outlines(line), 5, 9) == 7
    dots = np.zeros((9, 9), dtype=bool)
    dots[2, 2] = dots[6, 6] = True
    assert ring_area(outlines(dots), 9, 9) == 25  # too small for rings of their own: the box


def test_bad_pictures_are_named(tmp_path):
    (tmp_path / "text.png").write_text("no picture")
    with pytest.raises(FormatError, match=r"text.png: it is not a picture that can be read \(cannot identify"):
        featurize_images([tmp_path / "text.png"])
    (tmp_path / "empty.png").touch()
    with pytest.raises(FormatError, match=r"empty.png is empty; there is nothing to read in it"):
        featurize_images([tmp_path / "empty.png"])
    raw = save(tmp_path / "a.png", two_colours()).read_bytes()
    (tmp_path / "cut.png").write_bytes(raw[: len(raw) // 2])
    with pytest.raises(FormatError, match="cut.png: it is not a picture"):
        featurize_images([tmp_path / "cut.png"])
    masked = ImageSettings(regions="mask")
    with pytest.raises(FormatError, match="a_mask.png: there is no such file.*put the mask there"):
        featurize_images([tmp_path / "a.png"], masked)
    (tmp_path / "a_mask.png").write_bytes(b"broken")
    with pytest.raises(FormatError, match="a_mask.png: it is not a picture"):
        featurize_images([tmp_path / "a.png"], masked)
    save(tmp_path / "a_mask.png", np.ones((3, 3), np.uint8))
    with pytest.raises(FormatError, match="a_mask.png: the mask is 3 x 3"):
        featurize_images([tmp_path / "a.png"], masked)
    save(tmp_path / "a_mask.png", np.zeros((40, 60), np.uint8))
    with pytest.raises(InputError, match="Nothing was found in any of the 1 files"):
        featurize_images([tmp_path / "a.png"], masked)
    with pytest.raises(InputError, match="'regions' is 'x'"):
        ImageSettings(regions="x")
    with pytest.raises(InputError, match="needs the setting 'coco'"):
        ImageSettings(regions="coco")
    with pytest.raises(FormatError, match="nowhere.json: there is no such file"):
        featurize_images([tmp_path / "a.png"], ImageSettings(regions="coco", coco=str(tmp_path / "nowhere.json")))


@pytest.mark.parametrize("module", ["PIL", "skimage.measure"])
def test_what_is_not_installed_is_named(tmp_path, monkeypatch, module):
    path = save(tmp_path / "a.png", two_colours())
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=r"pip install 'bagwise\[image\]'"):
        featurize_images([path])
