"""Models that leave the house: the same numbers in onnxruntime and LiteRT, and refusals with a cure."""

import json

import numpy as np
import pytest
from click.testing import CliRunner
from scipy.special import expit
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, RobustScaler, StandardScaler

import bagwise
from bagwise import Bags, make_pipeline
from bagwise.annotation import NoisyOrLogisticRegression, ORedLogisticRegression, SupportInstanceMachine
from bagwise.app.cli import main
from bagwise.app.networks._tflite import TfliteFile
from bagwise.app.networks.heads import write_tflite
from bagwise.app.runs import Run
from bagwise.app.runs.export import export_model
from bagwise.calibration import CalibratedAnnotator, CalibratedLabelSets
from bagwise.catalog import make_model
from bagwise.core.exceptions import InputError
from bagwise.datasets import make_gaussian_bags
from bagwise.preprocessing import CLPLScaler, LinearHead, PerInstance, linear_head

SIZE = 1024
SCALERS = (StandardScaler, MinMaxScaler, MaxAbsScaler, RobustScaler, CLPLScaler)
LEARNERS = {
    "ored": lambda: ORedLogisticRegression(l2=0.1),
    "ored-background": lambda: ORedLogisticRegression(l2=0.1, background=True),
    "calibrated": lambda: CalibratedAnnotator(ORedLogisticRegression(l2=0.1, background=True)),
    "calibrated-sets": lambda: CalibratedLabelSets(NoisyOrLogisticRegression(l2=0.1)),
    "noisy-or": lambda: NoisyOrLogisticRegression(l2=0.1),
}


def data_of(n_features=6):
    """Bags of numbers that 32 bits hold, on scales that differ."""
    data = make_gaussian_bags(n_bags=60, n_features=n_features, random_state=0)
    scales = np.geomspace(0.01, 100.0, n_features)
    return Bags((data.bags.instances * scales + 3.0 * scales).astype(np.float32), data.bags.offsets), data.Y


@pytest.fixture(scope="module", params=[(name, scaler) for name in LEARNERS for scaler in SCALERS], ids=str)
def fitted(request):
    name, scaler = request.param
    bags, Y = data_of()
    return make_pipeline(PerInstance(scaler()), LEARNERS[name]()).fit(bags, Y), bags


def test_onnx_gives_our_numbers(fitted, tmp_path):
    runtime = pytest.importorskip("onnxruntime")
    model, bags = fitted
    bagwise.save(model, tmp_path / "model.bagwise")
    assert export_model(tmp_path / "model.bagwise", tmp_path / "model.onnx") == [tmp_path / "model.onnx"]
    session = runtime.InferenceSession(tmp_path / "model.onnx")
    (proba,) = session.run(["probabilities"], {"features": bags.instances})
    np.testing.assert_allclose(proba, model.predict_instances_proba(bags), atol=1e-6)
    about = session.get_modelmeta().custom_metadata_map
    assert json.loads(about["bagwise.classes"]) == [str(name) for name in model.classes_]
    assert "bagwise.licence" not in about


def run_litert(path, instances):
    """As BirdNET-Analyzer does: any number of rows, without the delegate."""
    litert = pytest.importorskip("ai_edge_litert.interpreter", reason="make test-birdnet installs it")
    resolver = litert.OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    network = litert.Interpreter(model_path=str(path), experimental_op_resolver_type=resolver)
    network.allocate_tensors()
    given, gives = network.get_input_details()[0], network.get_output_details()[0]
    assert given["shape"][-1] == instances.shape[1]
    network.resize_tensor_input(given["index"], instances.shape)
    network.allocate_tensors()
    network.set_tensor(given["index"], instances)
    network.invoke()
    return network.get_tensor(gives["index"])


def test_tflite_gives_log_odds_of_our_numbers(fitted, tmp_path):
    model, bags = fitted
    write_tflite(linear_head(model), tmp_path / "model.tflite", {})
    scores = run_litert(tmp_path / "model.tflite", bags.instances)
    # 32 bits in between, on features of which the largest are 10,000 times the smallest
    np.testing.assert_allclose(expit(scores), model.predict_instances_proba(bags), atol=1e-5)


def test_log_odds_are_finite_and_exact_where_probabilities_round(tmp_path):
    head = LinearHead(np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, -30.0]]), 2, "softmax")
    write_tflite(head, tmp_path / "model.tflite", {})
    x = np.array([[-200.0], [-20.0], [-1.0], [0.0], [12.0], [200.0]], dtype=np.float32)
    scores = run_litert(tmp_path / "model.tflite", x)
    assert np.isfinite(scores).all()
    others = np.logaddexp(-x[:, 0], -30.0)
    inside = np.abs(x[:, 0]) < 30  # beyond it BirdNET-Analyzer cuts off, at 20
    np.testing.assert_allclose(scores[inside, 0], (x[:, 0] - others)[inside], rtol=1e-5, atol=1e-5)
    assert (np.abs(scores[~inside]) > 30).all()


def test_tflite_is_what_our_own_reader_expects(tmp_path):
    head = LinearHead(np.zeros((3, SIZE + 1)), 2, "softmax", 0.01)
    write_tflite(head, tmp_path / "model.tflite", {"licence": "CC BY"})
    file = TfliteFile((tmp_path / "model.tflite").read_bytes())
    assert [file.tensors[i].shape for i in (*file.inputs, *file.outputs)] == [(None, SIZE), (None, 2)]
    assert not file.own_operators
    assert not file.elsewhere
    assert b"CC BY" in file.content


def test_run_is_exported_with_its_names(tmp_path):
    bags, Y = data_of(SIZE)
    bagwise.write_dataset(bagwise.BagDataset(bags=bags, Y=Y, class_names=["b_a", *"cdef"]), tmp_path / "made.npz")
    Run.create(tmp_path / "made.npz", tmp_path / "run", page=False, formats=["csv"]).close()
    result = CliRunner().invoke(main, ["export", str(tmp_path / "run"), "--to", str(tmp_path / "head.tflite")])
    assert result.exit_code == 0, result.output
    assert (tmp_path / "head_Labels.txt").read_text().splitlines() == ["b_a", *"cdef"]
    model = bagwise.load(tmp_path / "run" / "model.bagwise")
    scores = run_litert(tmp_path / "head.tflite", bags.instances)
    np.testing.assert_allclose(expit(scores), model.predict_instances_proba(bags), atol=1e-5)


@pytest.mark.parametrize(
    ("model", "target", "words"),
    [
        (
            make_pipeline(PerInstance(CLPLScaler()), SupportInstanceMachine()),
            "m.onnx",
            "SupportInstanceMachine is not linear .*ored-background",
        ),
        (make_model("ored-rbf"), "m.onnx", "RBFDictionary does more than scale"),
        (make_pipeline(PerInstance(MinMaxScaler(clip=True)), ORedLogisticRegression()), "m.onnx", "MinMaxScaler does"),
        (ORedLogisticRegression(), "m.tflite", "1024 numbers of BirdNET 2.4, and this model takes 6 features; export"),
        (ORedLogisticRegression(), "m.pb", "exported as .onnx or .tflite, not as 'm.pb'"),
    ],
)
def test_what_cannot_be_exported_is_refused(model, target, words, tmp_path):
    bags, Y = data_of()
    bags = Bags(StandardScaler().fit_transform(bags.instances), bags.offsets)
    bagwise.save(model.fit(bags, Y), tmp_path / "model.bagwise")
    with pytest.raises(InputError, match=words):
        export_model(tmp_path / "model.bagwise", tmp_path / target)
    assert not (tmp_path / target).exists()
