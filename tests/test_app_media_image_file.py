"""Pictures as cameras and microscopes write them: turned, transparent, deep, large, of many kinds; shapes of SAM."""

import json
import sys
import types

import numpy as np
import pytest
from PIL import Image
from pycocotools import mask as coco_mask
from skimage.color import rgb2lab

from bagwise.app.media import ImageSettings, featurize_images
from bagwise.app.media.image import IMAGE, _draw_image
from bagwise.app.media.image_file import EXTENSIONS, HEIC, read_mask, read_pixels
from bagwise.app.runs._features import Source, read_files
from bagwise.core.exceptions import FormatError, InputError


def scene(height=60, width=90):
    """A red square at the upper left of a green field under a blue stripe on the right."""
    image = np.zeros((height, width, 3), dtype=np.uint8)
    image[:] = (30, 160, 40)
    image[:, -width // 3 :] = (30, 40, 200)
    image[: height // 3, : width // 3] = (220, 30, 30)
    return image


TURNS = {
    1: lambda a: a, 2: lambda a: a[:, ::-1], 3: lambda a: a[::-1, ::-1], 4: lambda a: a[::-1],
    5: lambda a: a.swapaxes(0, 1), 6: lambda a: np.rot90(a), 7: lambda a: a[::-1, ::-1].swapaxes(0, 1),
    8: lambda a: np.rot90(a, -1),
}  # fmt: skip
"""What a camera that was held so stores of a scene (EXIF orientation)."""


@pytest.mark.parametrize("ending", ["jpg", "png", "tif", "webp"])
@pytest.mark.parametrize("orientation", sorted(TURNS))
def test_pictures_stand_upright(tmp_path, orientation, ending):
    stored = Image.fromarray(np.ascontiguousarray(TURNS[orientation](scene())))
    exif = Image.Exif()
    exif[0x0112] = orientation
    path = tmp_path / f"a.{ending}"
    stored.save(path, exif=exif, **({"lossless": True} if ending == "webp" else {}))
    for largest in (None, 45):
        pixels = read_pixels(path, largest)
        assert (pixels.width, pixels.height) == (90, 60)
        assert pixels.colours.shape == ((60, 90, 3) if largest is None else (30, 45, 3))
    assert np.abs(read_pixels(path).colours.astype(int) - scene()).mean() < 6


def test_regions_and_page_of_a_turned_picture(tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.fromarray(np.ascontiguousarray(TURNS[6](scene()))).save(tmp_path / "a.png", exif=exif)
    data = featurize_images([tmp_path / "a.png"])
    boxes = np.transpose([data.locations[key] for key in ("left", "top", "width", "height")]).tolist()
    assert [0, 0, 30, 20] in boxes
    row = {"label": "red", "probability": 1.0, "bag": "a.png", "instance": 0}
    row |= {"polygon": data.locations["polygon"][boxes.index([0, 0, 30, 20])]}
    drawn = _draw_image(tmp_path / "a.png", "a.png", [row], ImageSettings(), 0.0)
    assert (drawn.width, drawn.height) == (640, 427)
    (tmp_path / "a_mask.png").write_bytes((tmp_path / "a.png").read_bytes())
    Image.fromarray(np.ones((90, 60), dtype=np.uint8)).save(tmp_path / "a_mask.png")
    with pytest.raises(FormatError, match="the mask is 60 x 90 points but the picture a.png, upright, is 90 x 60"):
        featurize_images([tmp_path / "a.png"], ImageSettings(regions="mask"))


@pytest.mark.parametrize("regions", ["merge", "slic", "mask"])
def test_transparent_points_belong_to_no_region(tmp_path, regions):
    opacity = np.full((60, 90), 255, dtype=np.uint8)
    opacity[30:] = 0
    Image.fromarray(np.dstack([scene(), opacity])).save(tmp_path / "a.png")
    Image.fromarray(np.ones((60, 90), dtype=np.uint8)).save(tmp_path / "a_mask.png")
    data = featurize_images([tmp_path / "a.png"], ImageSettings(regions=regions))
    assert (data.locations["top"] + data.locations["height"]).max() == 30
    assert data.locations["area"].sum() == pytest.approx(30 * 90, rel=0.03)
    assert (read_pixels(tmp_path / "a.png").colours[40:] == 255).all()  # the page shows it on white


def test_transparent_colours_of_palettes(tmp_path):
    image = Image.fromarray(scene()).quantize(3)
    image.info["transparency"] = image.getpixel((0, 0))
    for ending in ("gif", "png"):
        image.save(tmp_path / f"a.{ending}", transparency=image.getpixel((0, 0)))
        pixels = read_pixels(tmp_path / f"a.{ending}")
        assert not pixels.seen[:20, :30].any()
        assert pixels.seen[20:].all()
    Image.new("RGBA", (40, 40), (0, 0, 0, 0)).save(tmp_path / "nothing.png")
    with pytest.raises(InputError, match="Nothing was found"):
        featurize_images([tmp_path / "nothing.png"])


@pytest.mark.parametrize("ending", ["png", "tif"])
@pytest.mark.parametrize("bits", [8, 12, 16])
def test_deep_greys_are_scaled(tmp_path, bits, ending):
    steps = np.linspace(0, 2**bits - 1, 60).astype(np.uint16)
    Image.fromarray(np.tile(steps, (40, 1))).save(tmp_path / f"a.{ending}")
    found = read_pixels(tmp_path / f"a.{ending}").colours
    np.testing.assert_allclose(found[..., 0], np.tile(steps / (2**bits - 1) * 255, (40, 1)), atol=0.51)
    assert (read_mask(tmp_path / f"a.{ending}") == steps).all()  # numbers of a mask stay


def test_fractions_and_numbers_below_zero_are_stretched(tmp_path):
    for values in (np.linspace(0, 1, 50, dtype=np.float32), np.linspace(-300, 900, 50).astype(np.int32)):
        Image.fromarray(np.tile(values, (40, 1))).save(tmp_path / "a.tif")
        found = read_pixels(tmp_path / "a.tif").colours[0, :, 0]
        np.testing.assert_allclose(found, np.linspace(0, 255, 50), atol=1)
    Image.fromarray(np.zeros((9, 9), dtype=np.float32)).save(tmp_path / "a.tif")
    assert (read_pixels(tmp_path / "a.tif").colours == 0).all()


@pytest.mark.parametrize("ending", [ending for ending in EXTENSIONS if ending not in HEIC])
def test_every_kind_is_read(tmp_path, ending):
    from PIL import features

    if ending in (".webp", ".avif") and not features.check(ending[1:]):
        pytest.skip(f"this pillow has no {ending}")
    path = tmp_path / f"a{ending}"
    Image.fromarray(scene()).save(path)
    assert np.abs(read_pixels(path).colours.astype(int) - scene()).mean() < 8
    assert ending in IMAGE.extensions


def test_heic_needs_a_package_of_its_own(tmp_path, monkeypatch):
    path = tmp_path / "a.HEIC"
    Image.fromarray(scene()).save(path, format="PNG")
    monkeypatch.setitem(sys.modules, "pillow_heif", None)
    with pytest.raises(FormatError, match=r"a.HEIC: HEIC is read with the package .*pip install pillow-heif"):
        read_pixels(path)
    asked = []
    package = types.SimpleNamespace(register_heif_opener=lambda: asked.append(True))
    monkeypatch.setitem(sys.modules, "pillow_heif", package)
    assert (read_pixels(path).colours == scene()).all()
    assert asked


def test_large_pictures_are_looked_at_in_a_copy(tmp_path):
    """Regions, places and features are those of the small picture, the outlines in points of the large one."""
    Image.fromarray(scene(600, 900)).save(tmp_path / "a.png")
    Image.fromarray(scene(60, 90)).save(tmp_path / "b.png")
    small = ImageSettings(max_side=90, min_area=10)
    large, tiny = (featurize_images([tmp_path / name], small) for name in ("a.png", "b.png"))
    np.testing.assert_allclose(large.bags.instances, tiny.bags.instances, atol=1e-9)
    for key in ("left", "top", "width", "height"):
        np.testing.assert_array_equal(large.locations[key], 10 * tiny.locations[key])
    np.testing.assert_array_equal(large.locations["area"], 100 * tiny.locations["area"])
    assert large.locations["area"].sum() == 600 * 900


def test_what_is_larger_than_any_picture_is_refused(tmp_path, monkeypatch):
    Image.fromarray(scene()).save(tmp_path / "a.png")
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 60 * 90 - 1)
    assert read_pixels(tmp_path / "a.png").colours.shape == (60, 90, 3)  # somewhat more is no reason to warn
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 60 * 90 // 2 - 1)
    with pytest.raises(FormatError, match=r"a.png: it has more points than are read .*Save it smaller"):
        read_pixels(tmp_path / "a.png")


def test_shapes_of_sam(tmp_path):
    """Run lengths as SAM writes them, compressed or not, in one file or in one for each picture; also polygons."""
    Image.fromarray(scene()).save(tmp_path / "a.png")
    masks = np.zeros((2, 60, 90), dtype=np.uint8)
    masks[0, 5:50, 10:80] = 1
    masks[1, 10:20, 20:40] = 1
    masks[1, 14:17, 25:30] = 0
    packed = [coco_mask.encode(np.asfortranarray(mask)) for mask in masks]
    as_text = [{"size": list(map(int, r["size"])), "counts": r["counts"].decode()} for r in packed]
    flat = [np.flatnonzero(np.diff(np.concatenate([[0], mask.T.ravel(), [1 - mask[-1, -1]]]))) for mask in masks]
    as_list = [{"size": [60, 90], "counts": np.diff(np.concatenate([[0], edges, [5400]])).tolist()} for edges in flat]
    expected = [int(masks[0].sum() - (masks[0] & masks[1]).sum()), int(masks[1].sum())]
    (tmp_path / "sam").mkdir()
    for shapes in (as_text, as_list):
        regions = [{"segmentation": shape, "image_id": 1} for shape in shapes]
        document = {"images": [{"id": 1, "file_name": "a.png"}], "annotations": regions}
        one = {"image": {"file_name": "a.png"}, "annotations": regions}
        for path, content in (("coco.json", document), ("sam/a.json", one), ("sam/a.json", regions)):
            (tmp_path / path).write_text(json.dumps(content))
            source = tmp_path / path if path == "coco.json" else tmp_path / "sam"
            data = featurize_images([tmp_path / "a.png"], ImageSettings(regions="coco", coco=str(source)))
            assert data.locations["area"].tolist() == expected
            assert [len(rings) for rings in data.locations["rings"]] == [3, 2]
            lab = rgb2lab(scene())[masks[1] == 1]
            np.testing.assert_allclose(data.bags.instances[1, 5:8], lab.mean(axis=0))


def test_bad_shapes_are_named(tmp_path):
    Image.fromarray(scene()).save(tmp_path / "a.png")
    folder = tmp_path / "sam"
    folder.mkdir()
    chosen = ImageSettings(regions="coco", coco=str(folder))
    with pytest.raises(FormatError, match=r"a.png: there is no .*a.json with its regions"):
        featurize_images([tmp_path / "a.png"], chosen)
    for content, message in (
        ([{"segmentation": {"size": [90, 60], "counts": [5400]}}], "those of 60 x 90 points, but the picture"),
        ([{"segmentation": {"size": [60, 90], "counts": [7]}}], "those of 7 points, not of 60 x 90"),
        ([{"segmentation": {"size": [60, 90]}}], "does not list regions"),
        ([{"segmentation": {"size": [60, 90], "counts": "é"}}], "does not list regions"),
        ({"masks": []}, "does not list regions"),
    ):
        (folder / "a.json").write_text(json.dumps(content))
        with pytest.raises(FormatError, match=message):
            featurize_images([tmp_path / "a.png"], chosen)


@pytest.mark.parametrize("regions", ["mask", "coco"])
def test_another_mask_is_another_entry(tmp_path, regions):
    """What was kept of a picture is not taken when the file that its regions come from has changed."""
    Image.fromarray(scene()).save(tmp_path / "a.png")
    source = tmp_path / ("a_mask.png" if regions == "mask" else "coco.json")
    settings = ImageSettings(regions=regions, coco=str(source))
    run = tmp_path / "run"
    (run / ".features").mkdir(parents=True)
    sizes = []
    for width in (20, 40, 40):
        if sizes[-1:] != [width * 30]:
            mask = np.zeros((60, 90), dtype=np.uint8)
            mask[10:40, 10 : 10 + width] = 1
            document = {"images": [{"id": 1, "file_name": "a.png"}], "annotations": [{"image_id": 1}]}
            document["annotations"][0]["segmentation"] = [[10, 10, 10 + width, 10, 10 + width, 40, 10, 40]]
            Image.fromarray(mask).save(source) if regions == "mask" else source.write_text(json.dumps(document))
        found = read_files(Source(tmp_path, IMAGE, settings, ["a.png"]), run, 1, lambda what, done, total: None)
        sizes.append(int(found.bags["a.png"].locations["area"][0]))
    assert sizes == [600, 1200, 1200]
    assert found.n_reused == 1
