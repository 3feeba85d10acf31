"""Networks of ONNX files: the same vectors as onnxruntime gives by hand, and files that are refused."""

import contextlib
import re
import sys
import threading

import numpy as np
import pytest
import soundfile
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from scipy import signal

import onnx_examples as nets
from bagwise.app.media._sound_input import resample
from bagwise.app.media.audio import AUDIO, AudioSettings
from bagwise.app.media.audio_file import AudioInfo, Sound
from bagwise.app.media.embedding import _HERE, Windows, close_network, read_embedding, reopen_embedding
from bagwise.app.media.files import FileBags
from bagwise.app.media.image import ImageSettings, _read_picture
from bagwise.app.media.media_types import MEDIA
from bagwise.app.media.text import TextSettings, _read_passages
from bagwise.app.networks._onnx_model import OnnxModel
from bagwise.core.exceptions import BagwiseError, InputError

pytest.importorskip("onnxruntime")


def by_hand(path, feed, output="embedding"):
    import onnxruntime

    return onnxruntime.InferenceSession(path.read_bytes()).run([output], feed)[0]


def sound_file(path, seconds=3.0, rate=nets.RATE, seed=0):
    rng = np.random.default_rng(seed)
    t = np.arange(round(seconds * rate)) / rate
    samples = 0.002 * rng.standard_normal(len(t))
    for start, hertz in ((0.3, 1000), (1.2, 3000), (2.2, 5000)):
        inside = (t >= start) & (t < start + 0.3)
        samples[inside] += 0.3 * np.sin(2 * np.pi * hertz * t[inside])
    soundfile.write(path, samples, rate, subtype="FLOAT")
    return path


def describe(embedding, file, name, found):
    with AUDIO.opened(file) as sound:
        return embedding.describe(sound, name, found)


# -- sound ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("axes", "batch"), [(("n", 8000), 2), (("n", 1, 8000), 16), (("n", 8000, 1), 16), ((2, 8000), 16), ((8000,), 16)]
)
def test_syllables_get_the_vectors_that_onnxruntime_gives_by_hand(tmp_path, axes, batch):
    path = nets.sound_network(tmp_path / "net.onnx", axes)
    file = sound_file(tmp_path / "a.wav")
    embedding = read_embedding(path, MEDIA["audio"], {"rate": nets.RATE, "batch": batch}, join=False)
    found = AUDIO.read_file(file, "a.wav", AudioSettings())
    described = describe(embedding, file, "a.wav", found)
    samples, _ = soundfile.read(file, dtype="float32")
    assert sum(found.sizes) == 3
    for start, end, vector in zip(found.locations["start"], found.locations["end"], described.vectors, strict=True):
        begin = min(max(0, round((start + end) / 2 * nets.RATE - 4000)), len(samples) - 8000)
        shape = [{"n": 1, 2: 2}.get(axis, axis) for axis in axes]
        window = np.broadcast_to(samples[begin : begin + 8000].reshape([1 if n == 2 else n for n in shape]), shape)
        expected = by_hand(path, {"sound": np.ascontiguousarray(window)})[0]
        np.testing.assert_allclose(vector, expected, rtol=1e-5, atol=1e-6)
    assert embedding.size == nets.BANDS
    assert described.features is found.features


def test_other_rates_short_recordings_and_loudness(tmp_path):
    notes = {"sample_rate": "16000", "normalise": "peak", "author": "me"}
    path = nets.sound_network(tmp_path / "net.onnx", notes=notes)
    embedding = read_embedding(path, MEDIA["audio"], {"peak": 0.25}, join=False)
    inputs = embedding.inputs
    assert (inputs.rate, inputs.window, inputs.normalise, inputs.layout) == (16_000, 0.5, "peak", "nt")
    file = sound_file(tmp_path / "short.wav", seconds=0.2, rate=44_100)
    found = FileBags(["part"], [1], np.empty((1, 0)), {"start": np.array([0.1]), "end": np.array([0.2])}, {})
    samples, _ = soundfile.read(file, dtype="float64")
    heard = signal.resample_poly(samples, 160, 441)
    window = np.zeros((1, 8000), dtype=np.float32)
    heard -= heard.mean()
    window[0, : len(heard)] = 0.25 * heard / np.abs(heard).max()
    vectors = describe(embedding, file, "short.wav", found).vectors
    np.testing.assert_allclose(vectors, by_hand(path, {"sound": window}), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("rate", "wanted"), [(48_000, 32_000), (22_050, 16_000), (16_000, 48_000), (44_099, 16_000)])
def test_resampling_keeps_a_tone(rate, wanted):
    t, t_wanted = np.arange(rate) / rate, np.arange(wanted) / wanted
    found = resample(np.sin(2 * np.pi * 440 * t), rate, wanted)
    assert len(found) == wanted
    middle = slice(wanted // 10, -wanted // 10)
    np.testing.assert_allclose(found[middle], np.sin(2 * np.pi * 440 * t_wanted)[middle], atol=2e-3)


@settings(max_examples=40, deadline=None)
@given(st.floats(0.3, 400.0), st.floats(0.2, 10.0), st.floats(0.1, 1.0))
def test_windows_cover_a_recording_and_do_not_depend_on_parts(seconds, length, share):
    sound = Sound("a.wav", AudioInfo(1000, 1, max(1, round(1000 * seconds))), None)
    settings = AudioSettings(segment="windows", length=length, step=share * length)
    found = [AUDIO.parts.read(sound, part, settings) for part in AUDIO.parts.cut(sound, settings)]
    whole = AUDIO.parts.join(sound, "a.wav", found, settings)
    at_once = AUDIO.parts.read(sound, (0.0, sound.info.seconds), settings)
    start, end = whole.locations["start"], whole.locations["end"]
    order = np.argsort(start)
    assert start.min() == 0
    assert abs(end.max() - sound.info.seconds) < 1e-3
    assert np.all(start[order][1:] <= end[order][:-1] + 1e-3)
    assert np.all(np.diff(start[order]) <= share * length + 1e-3)
    np.testing.assert_allclose(start[order], at_once.locations["start"], atol=1e-4)


@pytest.mark.parametrize(
    ("axes", "values", "match"),
    [
        (("n", 8000), {}, "which sample rate the network takes; write rate = 32000 into net.toml"),
        (("n", "t"), {"rate": 16000}, "how many seconds the network takes"),
        (("n", 8000), {"rate": 16000, "window": 3}, "takes 8000 samples, and 3 s at 16000 Hz are 48000"),
        (("n", 8000), {"rate": 16000, "output": "logits"}, "no output 'logits'; it has 'embedding'"),
        (("n", 8000), {"rate": 16000, "channels": 2}, "takes channels = 1, and channels = 2 is asked for"),
        (("n", 1, 64, 125), {"rate": 16000}, "no samples of sound"),
        (("n", 8000), {"rate": 16000, "colour": 3}, "There is no setting 'colour'"),
        (("n", 8000), {"rate": "fast"}, "takes a number"),
        (("n", 8000), {"rate": 16000, "pool": "max"}, "use one of 'mean', 'first'"),
    ],
)
def test_networks_that_need_to_be_told_more(tmp_path, axes, values, match):
    path = nets.sound_network(tmp_path / "net.onnx", axes)
    with pytest.raises(InputError, match=re.escape(match)):
        read_embedding(path, MEDIA["audio"], values, join=False)


def test_what_the_network_says_cannot_be_changed_and_the_toml_fills_in(tmp_path):
    path = nets.sound_network(tmp_path / "net.onnx", notes={"bagwise.rate": "16000"})
    (tmp_path / "net.toml").write_text("normalise = 'standard'\nunit = true\n")
    embedding = read_embedding(path, MEDIA["audio"], {}, join=False)
    assert (embedding.inputs.normalise, embedding.inputs.unit, embedding.inputs.rate) == ("standard", True, 16_000)
    assert read_embedding(path, MEDIA["audio"], {"unit": "false"}, join=False).inputs.unit is False
    with pytest.raises(InputError, match="says rate = 16000, and rate = 48000 is asked for"):
        read_embedding(path, MEDIA["audio"], {"rate": 48_000}, join=False)
    for text, match in (
        ("rat = 1", "no setting 'rat'"), ("rate = ", "no TOML"), ("[rate]\na = 1", "is a table"),
    ):  # fmt: skip
        (tmp_path / "net.toml").write_text(text)
        with pytest.raises(InputError, match=match):
            read_embedding(path, MEDIA["audio"], {}, join=False)


def test_a_model_gets_the_very_network_that_it_was_trained_with(tmp_path):
    path = nets.sound_network(tmp_path / "net.onnx")
    about = read_embedding(path, MEDIA["audio"], {"rate": nets.RATE}, join=True).about
    again = reopen_embedding(path, MEDIA["audio"], about)
    assert again.about == about
    nets.sound_network(path, notes={"changed": "yes"})
    with pytest.raises(InputError, match="is not the network that the model was trained with"):
        reopen_embedding(path, MEDIA["audio"], about)
    file = sound_file(tmp_path / "a.wav")
    with pytest.raises(InputError, match="changed while files were read"):
        describe(again, file, "a.wav", AUDIO.read_file(file, "a.wav", AudioSettings()))


PERCH = 160_000, {"embedding": 1536, "label": 14_795}
BIRDNET_3 = 96_000, {"embeddings": 1280, "predictions": 30}
AVES = 32_004, {"frames": 768}


@pytest.mark.parametrize(
    ("shape", "values", "expected"),
    [
        (PERCH, {}, (32_000, 5.0, 1536, "peak", "embedding")),
        (BIRDNET_3, {}, (32_000, 3.0, 1280, "none", "embeddings")),
        (AVES, {"rate": 16_000}, (16_000, 2.00025, 768, "none", "frames")),
        (BIRDNET_3, {"output": "linear"}, (32_000, 3.0, 30, "none", "linear")),  # an inner tensor
    ],
)
def test_networks_of_the_shapes_of_published_ones(tmp_path, shape, values, expected):
    """As Perch 2, BirdNET 3 and AVES take and give: recognized, and given windows of their length."""
    path = nets.network_of_shape(tmp_path / "net.onnx", *shape, silent=shape is not BIRDNET_3)
    embedding = read_embedding(path, MEDIA["audio"], values, join=False)
    inputs = embedding.inputs
    assert (inputs.rate, inputs.window, embedding.size, inputs.normalise, inputs.output) == expected
    file = sound_file(tmp_path / "a.wav", seconds=2.0, rate=22_050)
    found = FileBags(["a"], [2], np.empty((2, 0)), {"start": np.array([0.2, 1.4]), "end": np.array([0.5, 1.9])}, {})
    described = describe(embedding, file, "a.wav", found)
    assert described.problems == []
    assert described.vectors.shape == (2, expected[2])
    assert np.isfinite(described.vectors).all()


@pytest.mark.parametrize(("kind", "shape"), [("logits", PERCH), ("probabilities", BIRDNET_3)])
def test_scores_of_published_shapes_are_log_odds_of_listed_species(tmp_path, kind, shape):
    path = nets.network_of_shape(tmp_path / "net.onnx", *shape, silent=shape is PERCH, scale=3.0)
    *_, (name, n) = shape[1].items()
    (tmp_path / "labels.csv").write_text("\n".join(["species", *(f"Genus s{i}" for i in range(n))]) + "\n")
    values = {"scores_are": "logits"} if kind == "logits" else {}  # zeros of silence could be both
    labels = ["genus S7", "Genus s2", "Nobody"]
    embedding = read_embedding(path, MEDIA["audio"], values, join=False, labels=labels)
    assert (dict(embedding.scores), embedding.inputs.scores) == ({"genus S7": 7, "Genus s2": 2}, name)
    assert embedding.inputs.scores_are == kind
    file = sound_file(tmp_path / "a.wav", seconds=2.0, rate=22_050)
    found = FileBags(["a"], [1], np.empty((1, 0)), {"start": np.array([0.2]), "end": np.array([0.5])}, {})
    (vector,) = describe(embedding, file, "a.wav", found).vectors
    inner = read_embedding(path, MEDIA["audio"], {"output": "label" if kind == "logits" else "linear"}, join=False)
    np.testing.assert_allclose(vector[-2:], describe(inner, file, "a.wav", found).vectors[0, [7, 2]], atol=1e-4)


def test_digital_silence_and_vectors_that_are_no_numbers(tmp_path):
    path = nets.network_of_shape(tmp_path / "net.onnx", *BIRDNET_3, silent=False)
    embedding = read_embedding(path, MEDIA["audio"], {}, join=False)
    samples = np.zeros(10 * 32_000)
    samples[: 4 * 32_000] = 0.1 * np.sin(np.arange(4 * 32_000))
    soundfile.write(tmp_path / "a.wav", samples, 32_000)
    start = np.array([0.0, 5.0])
    found = FileBags(["a"], [2], np.empty((2, 0)), {"start": start, "end": start + 3}, {})
    described = describe(embedding, tmp_path / "a.wav", "a.wav", found)
    assert described.problems == []
    assert np.isfinite(described.vectors).all()  # the network itself gives NaN there
    # those of other instances are named, and get what says nothing
    import onnx

    model = onnx.load(nets.sound_network(tmp_path / "log.onnx", notes={"rate": str(nets.RATE)}))
    model.graph.initializer[3].raw_data = np.float32(-1e-5).tobytes()  # the logarithm of what is loud alone
    (tmp_path / "log.onnx").write_bytes(model.SerializeToString())
    rng = np.random.default_rng(0)
    samples = np.concatenate([0.1 * rng.standard_normal(2 * nets.RATE), 1e-7 * rng.standard_normal(nets.RATE)])
    soundfile.write(tmp_path / "b.wav", samples, nets.RATE, subtype="FLOAT")
    start = np.array([0.1, 2.4, 1.1])
    found = FileBags(["b"], [3], np.empty((3, 0)), {"start": start, "end": start + 0.5}, {})
    embedding = read_embedding(tmp_path / "log.onnx", MEDIA["audio"], {}, join=False)
    described = describe(embedding, tmp_path / "b.wav", "b.wav", found)
    assert (
        "no finite vector for 1 of its 3 instances, the first is number 1; they have the mean" in described.problems[0]
    )
    vectors = described.vectors
    np.testing.assert_allclose(vectors[1], (vectors[0] + vectors[2]) / 2, rtol=1e-6)


# -- pictures ---------------------------------------------------------------------------------------------------------


def picture_file(path):
    image = np.zeros((40, 60, 3), dtype=np.uint8)
    image[:, :30], image[:, 30:] = (200, 40, 10), (20, 90, 220)
    image[10:20, 40:50] = (250, 250, 30)
    Image.fromarray(image).save(path)
    mask = np.zeros((40, 60), dtype=np.uint8)
    mask[5:25, 5:21], mask[10:20, 40:50], mask[30:40, 30:60] = 1, 2, 3
    mask[5:12, 12:21] = 0  # an L
    mask[13:17, 43:47] = 0  # a hole
    Image.fromarray(mask).save(path.with_name("a_mask.png"))
    return image, mask


@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
@pytest.mark.parametrize("masked", [False, True])
def test_regions_get_the_vectors_that_onnxruntime_gives_by_hand(tmp_path, layout, masked):
    path = nets.picture_network(tmp_path / "net.onnx", layout)
    (image, mask), file = picture_file(tmp_path / "a.png"), tmp_path / "a.png"
    mean, std = np.array([0.51, 0.4, 0.3]), np.array([0.2, 0.3, 0.4])
    values = {"mean": "0.51 0.4 0.3", "std": "0.2, 0.3, 0.4", "masked": masked, "batch": 2}
    embedding = read_embedding(path, MEDIA["image"], values, join=False)
    found = _read_picture(file, "a.png", ImageSettings(regions="mask"))
    vectors = embedding.describe(file, "a.png", found).vectors
    blank = tuple(np.round(mean * 255).astype(int).tolist())
    for i in range(3):
        left, top, width, height = (int(found.locations[key][i]) for key in ("left", "top", "width", "height"))
        side = max(width, height)
        canvas = Image.new("RGB", (300, 300), blank)
        shown = np.where((mask == i + 1)[..., None], image, np.array(blank, dtype=np.uint8)) if masked else image
        canvas.paste(Image.fromarray(shown), (100, 100))
        x, y = 100 + left + width / 2 - side / 2, 100 + top + height / 2 - side / 2
        cut = canvas.resize((16, 16), Image.Resampling.BICUBIC, box=(x, y, x + side, y + side))
        given = ((np.asarray(cut) / 255 - mean) / std).astype(np.float32)[None]
        expected = by_hand(path, {"picture": given.transpose(0, 3, 1, 2) if layout == "nchw" else given})
        np.testing.assert_allclose(vectors[i], expected[0], rtol=1e-4, atol=1e-5)


def test_pictures_for_networks_of_a_fixed_number_and_other_forms(tmp_path):
    path = nets.picture_network(tmp_path / "net.onnx", batch=2)
    picture_file(tmp_path / "a.png")
    found = _read_picture(tmp_path / "a.png", "a.png", ImageSettings(regions="mask"))

    def vectors(**values):
        embedding = read_embedding(path, MEDIA["image"], values, join=False)
        return embedding.describe(tmp_path / "a.png", "a.png", found).vectors

    plain, other = vectors(), vectors(colours="bgr")
    assert plain.shape == (3, 12)
    np.testing.assert_allclose(other.reshape(3, 3, 4), plain.reshape(3, 3, 4)[:, ::-1], atol=1e-6)
    np.testing.assert_allclose(vectors(scale=1.0), 255 * plain, rtol=1e-5)
    assert not np.allclose(vectors(margin=0.5), plain)
    assert not np.allclose(vectors(fit="stretch"), plain)
    np.testing.assert_allclose(np.linalg.norm(vectors(unit=True), axis=1), 1, rtol=1e-5)


@pytest.mark.parametrize("n_others", [0, 1, 5])
def test_regions_get_the_mean_of_their_patches_of_one_run(tmp_path, n_others):
    path = nets.patch_network(tmp_path / "net.onnx", n_others)
    image, mask = np.random.default_rng(0).integers(0, 256, (32, 64, 3)).astype(np.uint8), np.zeros((32, 64), np.uint8)
    mask[:, :32], mask[8:24, 32:48], mask[30:, 60:] = 1, 2, 3  # half, a place of its own, a corner of one patch
    Image.fromarray(image).save(tmp_path / "a.png")
    Image.fromarray(mask).save(tmp_path / "a_mask.png")
    found = _read_picture(tmp_path / "a.png", "a.png", ImageSettings(regions="mask", min_area=1))
    embedding = read_embedding(path, MEDIA["image"], {"pool": "regions", "patch": 4}, join=False)
    vectors = embedding.describe(tmp_path / "a.png", "a.png", found).vectors
    small = np.asarray(Image.fromarray(image).resize((16, 16), Image.Resampling.BICUBIC)) / 255
    given = small.transpose(2, 0, 1)[None].astype(np.float32)
    tokens = by_hand(path, {"pixel_values": given}, "last_hidden_state")[0, n_others:]
    for vector, region in zip(vectors, (1, 2, 3), strict=True):
        shares = (mask == region).reshape(4, 8, 4, 16).mean(axis=(1, 3)).ravel()  # of each patch
        np.testing.assert_allclose(vector, shares @ tokens / shares.sum(), rtol=1e-4, atol=1e-4)
    again = reopen_embedding(path, MEDIA["image"], embedding.about)
    np.testing.assert_array_equal(again.describe(tmp_path / "a.png", "a.png", found).vectors, vectors)


def test_a_region_too_thin_for_patches_has_the_one_in_its_middle(tmp_path):
    path = nets.patch_network(tmp_path / "net.onnx")
    image = np.random.default_rng(0).integers(0, 256, (160, 160, 3)).astype(np.uint8)
    mask = np.ones((160, 160), np.uint8)
    mask[:, 71] = 2  # between the points that are looked at
    Image.fromarray(image).save(tmp_path / "a.png")
    Image.fromarray(mask).save(tmp_path / "a_mask.png")
    found = _read_picture(tmp_path / "a.png", "a.png", ImageSettings(regions="mask"))
    embedding = read_embedding(path, MEDIA["image"], {"pool": "regions", "patch": 4}, join=False)
    vectors = embedding.describe(tmp_path / "a.png", "a.png", found).vectors
    thin = int(np.argmin(found.locations["area"]))
    given = np.asarray(Image.fromarray(image).resize((16, 16), Image.Resampling.BICUBIC)).transpose(2, 0, 1)[None] / 255
    tokens = by_hand(path, {"pixel_values": given.astype(np.float32)}, "last_hidden_state")[0, 1:]
    np.testing.assert_allclose(vectors[thin], tokens[2 * 4 + 1], rtol=1e-4, atol=1e-4)


def test_patches_that_are_not_those_of_the_network(tmp_path):
    path = nets.patch_network(tmp_path / "net.onnx", n_others=20)
    for patch in (14, 4, 2, 17):
        with pytest.raises(InputError, match="with pool = regions expected a vector for each of"):
            read_embedding(path, MEDIA["image"], {"pool": "regions", "patch": patch}, join=False)
    with pytest.raises(InputError, match="with pool = regions"):
        read_embedding(nets.picture_network(tmp_path / "n.onnx"), MEDIA["image"], {"pool": "regions"}, join=False)


@pytest.mark.parametrize(
    ("values", "match"),
    [
        ({"width": 32}, "takes width = 16, and width = 32 is asked for"),
        ({"layout": "nhwc"}, "takes layout = nchw"),
        ({"colours": "grey"}, "takes 3 colours"),
        ({"mean": "0.5 0.5"}, "expected one number, or 3"),
        ({"std": "0"}, "expected numbers above 0"),
        ({"mean": "red"}, "expected numbers, such as"),
        ({"output": "patches"}, "expected a vector for each instance"),
    ],
)
def test_pictures_that_do_not_fit_the_network(tmp_path, values, match):
    path = nets.picture_network(tmp_path / "net.onnx")
    with pytest.raises(InputError, match=match):
        read_embedding(path, MEDIA["image"], values, join=False)
    with pytest.raises(InputError, match="no pictures"):
        read_embedding(nets.sound_network(tmp_path / "s.onnx"), MEDIA["image"], {}, join=False)


# -- texts ------------------------------------------------------------------------------------------------------------


def test_passages_get_the_mean_of_their_tokens(tmp_path):
    path, table = nets.text_network(tmp_path / "net.onnx")
    file = tmp_path / "a.txt"
    file.write_text("the cow and the grass and milk. ship and sea and sail and wave and unheard", encoding="utf-8")
    found = _read_passages(file, "a.txt", TextSettings(window=6, step=4, keep=1.0))
    embedding = read_embedding(path, MEDIA["text"], {}, join=False)
    described = embedding.describe(file, "a.txt", found)
    text = file.read_text()
    for start, end, vector in zip(found.locations["start"], found.locations["end"], described.vectors, strict=True):
        words = re.findall(r"\w+|[^\w\s]+", text[start:end])
        ids = [nets.WORDS.index(word) if word in nets.WORDS else 1 for word in words]
        np.testing.assert_allclose(vector, table[ids].mean(axis=0), rtol=1e-5, atol=1e-6)
    assert described.problems == []
    first = read_embedding(path, MEDIA["text"], {"pool": "first", "tokens": 3}, join=False)
    cut = first.describe(file, "a.txt", found)
    np.testing.assert_allclose(cut.vectors[0], table[nets.WORDS.index("the")], rtol=1e-5)
    assert "have more than 3 tokens" in cut.problems[0]


def test_tokenizers_that_are_missing_broken_or_others(tmp_path):
    path, _ = nets.text_network(tmp_path / "net.onnx")
    about = read_embedding(path, MEDIA["text"], {}, join=False).about
    tokenizer = tmp_path / "tokenizer.json"
    tokenizer.write_text(tokenizer.read_text().replace('"cow"', '"bull"'))
    with pytest.raises(InputError, match="its tokenizer is another"):
        reopen_embedding(path, MEDIA["text"], about)
    tokenizer.write_text("{}")
    with pytest.raises(InputError, match="no tokenizer's file"):
        read_embedding(path, MEDIA["text"], {}, join=False)
    tokenizer.unlink()
    with pytest.raises(InputError, match="there is no tokenizer.json in its folder"):
        read_embedding(path, MEDIA["text"], {}, join=False)
    with pytest.raises(InputError, match="networks for texts take 'input_ids'"):
        read_embedding(nets.sound_network(tmp_path / "s.onnx"), MEDIA["text"], {}, join=False)


# -- windows of a table -----------------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 40), st.integers(1, 8)), min_size=1, max_size=12), st.integers(1, 45))
def test_gaps_and_nearest_windows_against_looking_everywhere(spans, seconds):
    """Windows of whole seconds: a gap is a second that none covers."""
    start = np.sort(np.array([first for first, _ in spans], dtype=float))
    start = start[start < seconds] if (start < seconds).any() else np.array([0.0])
    end = start + np.array([length for _, length in spans])[: len(start)]
    windows = Windows(np.stack([start, end], axis=1), np.arange(len(start))[:, None])
    open_seconds = [k for k in range(seconds) if not np.any((start <= k) & (end >= k + 1))]
    tail = seconds - min(end.max(), seconds)
    if tail < (end - start).max():
        open_seconds = [k for k in open_seconds if k < seconds - tail]
    told = [k for first, last in windows.gaps(float(seconds)) for k in range(round(first), round(last))]
    assert told == open_seconds
    moments = np.random.default_rng(0).uniform(0, 50, 20)
    best, inside = windows.nearest(moments[:, None])
    distance = np.abs((start + end)[None] / 2 - moments[:, None])
    np.testing.assert_allclose(distance[np.arange(20), best], distance.min(axis=1))
    np.testing.assert_array_equal(inside, (start[best] <= moments) & (moments <= end[best]))


# -- files that are refused -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", nets.HOSTILE)
def test_hostile_files_are_refused_before_anything_runs(tmp_path, name):
    make, match = nets.HOSTILE[name]
    path = tmp_path / "net.onnx"
    make(path)
    with pytest.raises(BagwiseError, match=match) as caught:
        read_embedding(path, MEDIA["audio"], {"rate": 16_000}, join=False)
    assert "net.onnx" in str(caught.value)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_damaged_files_give_errors_of_ours_alone(tmp_path_factory, data):
    """Whatever is cut or turned in the file: an error that names it, or a network that works.

    The engine is asked in this process: that it may have one of its own is of no matter here, and takes longer.
    """
    folder = tmp_path_factory.getbasetemp() / "damaged"
    folder.mkdir(exist_ok=True)
    whole = folder / "whole.onnx"
    if not whole.exists():
        nets.sound_network(whole)
    content = bytearray(whole.read_bytes())
    for _ in range(data.draw(st.integers(0, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path = folder / "net.onnx"
    path.write_bytes(content[: data.draw(st.integers(1, len(content)))])
    with contextlib.suppress(BagwiseError, MemoryError):
        network = OnnxModel(path.read_bytes(), path, 16)
        network.run({"sound": np.zeros((1, 8000), dtype=np.float32)}, "embedding")


def test_a_network_that_gives_no_numbers_names_the_file(tmp_path):
    path = nets.sound_network(tmp_path / "net.onnx")
    file = sound_file(tmp_path / "a.wav")
    loud = {"rate": nets.RATE, "gain": 1e9, "peak": 1e9, "normalise": "peak"}
    embedding = read_embedding(path, MEDIA["audio"], loud, join=False)
    found = AUDIO.read_file(file, "a.wav", AudioSettings())
    describe(embedding, file, "a.wav", found)  # still finite
    broken = nets.sound_network(tmp_path / "nan.onnx")
    import onnx

    model = onnx.load(broken)
    model.graph.initializer[3].raw_data = np.float32(-1e6).tobytes()
    broken.write_bytes(model.SerializeToString())
    embedding = read_embedding(broken, MEDIA["audio"], {"rate": nets.RATE}, join=False)
    with pytest.raises(InputError, match="a.wav: the network gives no finite vector for instance 0"):
        describe(embedding, file, "a.wav", found)


def test_media_without_networks():
    with pytest.raises(InputError, match="recordings, pictures and texts, and these files are series"):
        read_embedding("net.onnx", MEDIA["series"], {}, join=False)


def test_a_network_that_does_not_end_is_ended(tmp_path, monkeypatch):
    from bagwise.app.media import embedding

    monkeypatch.setattr(embedding, "TRIAL", 0.3)
    path = nets.without_end(tmp_path / "net.onnx")
    with pytest.raises(InputError, match="it was not done after 0.3 s"):
        read_embedding(path, MEDIA["audio"], {"rate": 8}, join=False)


def test_a_network_of_vectors_of_several_sizes_is_a_problem_of_the_file(tmp_path):
    path = nets.two_sizes_of_vectors(tmp_path / "net.onnx")
    embedding = read_embedding(path, MEDIA["audio"], {"rate": 16_000}, join=False)
    assert embedding.size == 8
    file = sound_file(tmp_path / "a.wav")
    with pytest.raises(InputError, match=r"a\.wav: the network gives vectors of 16 numbers here, and of 8 elsewhere"):
        describe(embedding, file, "a.wav", AUDIO.read_file(file, "a.wav", AudioSettings()))
    close_network()


def test_a_network_whose_process_ended_is_opened_again_and_each_thread_has_its_own(tmp_path):
    path = nets.sound_network(tmp_path / "net.onnx")
    file = sound_file(tmp_path / "a.wav")
    embedding = read_embedding(path, MEDIA["audio"], {"rate": nets.RATE}, join=False)
    found = AUDIO.read_file(file, "a.wav", AudioSettings())
    first = describe(embedding, file, "a.wav", found).vectors
    _HERE.network.close()
    np.testing.assert_array_equal(describe(embedding, file, "a.wav", found).vectors, first)
    own, others = _HERE.network, []

    def in_thread():
        others.append((describe(embedding, file, "a.wav", found).vectors, _HERE.network))

    threads = [threading.Thread(target=in_thread) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for vectors, _ in others:
        np.testing.assert_array_equal(vectors, first)
    assert len({id(own), *(id(network) for _, network in others)}) == 3
    close_network()


def test_vectors_follow_their_instances_in_whatever_order_they_come(tmp_path):
    path = nets.sound_network(tmp_path / "net.onnx")
    file = sound_file(tmp_path / "a.wav")
    embedding = read_embedding(path, MEDIA["audio"], {"rate": nets.RATE, "batch": 2}, join=False)
    start = np.array([2.2, 0.3, 1.2, 0.0, 2.4])
    found = FileBags(["a"], [5], np.empty((5, 0)), {"start": start, "end": start + 0.3}, {})
    vectors = describe(embedding, file, "a.wav", found).vectors
    for i in range(5):
        one = FileBags(["a"], [1], np.empty((1, 0)), {"start": start[i : i + 1], "end": start[i : i + 1] + 0.3}, {})
        np.testing.assert_allclose(vectors[i], describe(embedding, file, "a.wav", one).vectors[0], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("media_type", "missing"), [("audio", "onnx"), ("audio", "onnxruntime"), ("text", "tokenizers")]
)
def test_without_the_extra_it_is_said_what_to_install(tmp_path, monkeypatch, media_type, missing):
    path = (
        nets.text_network(tmp_path / "net.onnx")[0]
        if media_type == "text"
        else nets.sound_network(tmp_path / "net.onnx")
    )
    monkeypatch.setitem(sys.modules, missing, None)
    (tmp_path / "without").mkdir()  # and for the process of the network, which looks where this one does
    (tmp_path / "without" / f"{missing}.py").write_text(f"raise ImportError('No module {missing}')")
    monkeypatch.syspath_prepend(tmp_path / "without")
    with pytest.raises(ImportError, match=re.escape("pip install 'bagwise[onnx]'")):
        read_embedding(path, MEDIA[media_type], {}, join=False)
