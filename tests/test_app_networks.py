"""Processes of networks: the same numbers as without one, limits that hold, and nothing that outlives its use."""

import io
import json
import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import onnx_examples as nets
from bagwise.app.networks import Network
from bagwise.app.networks import _network as of_networks
from bagwise.app.networks._messages import LARGEST_HEAD, OUT_OF_MEMORY, MessageError, read_message, write_message
from bagwise.app.networks._onnx_model import OnnxModel
from bagwise.core.exceptions import BagwiseError, FormatError, InputError, MemoryLimitError

pytest.importorskip("onnxruntime")
resource = pytest.importorskip("resource", reason="limits of Unix")
SOME = {"sound": np.linspace(-1, 1, 24, dtype=np.float32).reshape(3, 8)}


def opened(path, n_rows=16):
    return Network(path.read_bytes(), path, n_rows)


def is_there(pid):
    """Whether a process runs; one that ended and was not waited for does not."""
    said = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True).stdout.strip()
    return bool(said) and not said.startswith("Z")


def until(happens):
    """Wait for something that must happen; a test that hangs here has failed."""
    while not happens():
        time.sleep(0.01)


# -- what is computed -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 5, 16])
def test_numbers_are_those_of_onnxruntime_to_the_bit(tmp_path, n):
    import onnxruntime

    path = nets.sound_network(tmp_path / "net.onnx")
    sound = np.random.default_rng(n).standard_normal((n, nets.N_SAMPLES)).astype(np.float32)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    (expected,) = onnxruntime.InferenceSession(path.read_bytes(), options).run(["embedding"], {"sound": sound})
    network = opened(path)
    for _ in range(3):
        np.testing.assert_array_equal(network.run({"sound": sound}, "embedding"), expected)
    network.close()
    assert [(port.name, port.kind, port.shape) for port in network.inputs] == [("sound", "float32", (None, 8000))]


def test_an_error_of_a_run_leaves_the_network_usable(tmp_path):
    network = opened(nets.sound_network(tmp_path / "net.onnx"))
    with pytest.raises(InputError, match=r"net\.onnx: the network cannot be run"):
        network.run({"sound": np.zeros((1, 3), dtype=np.float32)}, "embedding")
    assert network.run({"sound": np.zeros((1, 8000), dtype=np.float32)}, "embedding").shape == (1, nets.BANDS)
    network.close()


def test_a_tensor_inside_of_the_network_can_be_the_output(tmp_path):
    """The vector of `sound_network` is the logarithm of what is inside of it."""
    network = opened(nets.sound_network(tmp_path / "net.onnx"))
    sound = {"sound": np.random.default_rng(0).standard_normal((2, nets.N_SAMPLES)).astype(np.float32)}
    assert "mean" in network.inner
    assert "embedding" not in network.inner
    vector, inner = network.run_all(sound, ["embedding", "mean"])
    np.testing.assert_allclose(vector, np.log(inner + np.float32(1e-4)), rtol=1e-5)
    with pytest.raises(InputError, match=r"net\.onnx: the network cannot be run"):
        network.run(sound, "nowhere")
    np.testing.assert_array_equal(network.run(sound, "embedding"), vector)
    network.close()


# -- limits -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["ConstantOfShape", "Expand", "Tile", "Range"])
def test_sizes_known_only_at_run_time_are_bounded(tmp_path, monkeypatch, how):
    monkeypatch.setenv("BAGWISE_MEMORY_LIMIT", "500MB")
    path = nets.at_run_time(tmp_path / "net.onnx", how, 2.5e8)
    assert path.stat().st_size < 1000
    network = opened(path)
    with pytest.raises(MemoryLimitError, match=r"net\.onnx: .* within 0\.49 GiB of memory; raise BAGWISE_MEMORY_LIMIT"):
        network.run(SOME, "embedding")
    assert not network.alive
    few = opened(nets.at_run_time(path, how, 1000))
    assert few.run(SOME, "embedding").shape == (3, 8)
    few.close()


def test_limits_go_by_the_sizes_of_the_file_and_of_the_input_and_by_the_setting(tmp_path, monkeypatch):
    monkeypatch.delenv("BAGWISE_MEMORY_LIMIT", raising=False)
    monkeypatch.setattr(of_networks, "memory_limit", lambda: 8 * 2**30)
    path = nets.at_run_time(tmp_path / "net.onnx", "ConstantOfShape", 1.5e9)
    with pytest.raises(MemoryLimitError, match=r"within 1\.00 GiB"):
        opened(path).run(SOME, "embedding")
    with pytest.raises(MemoryLimitError, match=r"within 1\.50 GiB"):
        opened(path).run({"sound": np.zeros((2**18, 8), dtype=np.float32)}, "embedding")
    monkeypatch.setattr(of_networks, "memory_limit", lambda: 2**29)
    with pytest.raises(MemoryLimitError, match=r"within 0\.50 GiB"):
        opened(path).run(SOME, "embedding")


def test_an_output_that_would_fill_the_memory_here_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("BAGWISE_MEMORY_LIMIT", "500MB")
    network = opened(nets.of_wide_output(tmp_path / "net.onnx", 2**20))
    with pytest.raises(MemoryLimitError, match=r"net\.onnx: the network cannot be run within"):
        network.run({"sound": np.zeros((40, 8), dtype=np.float32)}, "embedding")  # 168 MB


def test_what_is_worked_out_while_it_is_loaded_has_an_end(tmp_path, monkeypatch):
    path = nets.slow_to_load(tmp_path / "net.onnx")
    monkeypatch.setattr(of_networks, "LOAD_SECONDS", 2.0)
    with pytest.raises(InputError, match=r"net\.onnx: the network cannot be loaded: it was not done after 2 s"):
        opened(path)


def test_memory_while_it_is_loaded_is_bounded(tmp_path, monkeypatch):
    monkeypatch.setenv("BAGWISE_MEMORY_LIMIT", "200MB")
    path = nets.slow_to_load(tmp_path / "net.onnx", n_products=1, side=6000)
    with pytest.raises(MemoryLimitError, match=r"net\.onnx: the network cannot be (loaded|run) within 0\.20 GiB"):
        opened(path).run(SOME, "embedding")


@pytest.mark.parametrize(
    ("sent", "match"),
    [
        (signal.SIGXCPU, "more time of the processor than it may"),
        (signal.SIGSEGV, r"crashed \(SIGSEGV\)"),
        (signal.SIGABRT, r"crashed \(SIGABRT\)"),
        (signal.SIGKILL, "or the system ended it"),
    ],
)
def test_a_process_that_ends_while_it_computes_names_the_network(tmp_path, sent, match):
    network = opened(nets.without_end(tmp_path / "net.onnx"))
    pid = network._process.pid
    threading.Timer(0.2, os.kill, [pid, sent]).start()
    with pytest.raises(InputError, match=rf"net\.onnx: the network cannot be run: .*{match}"):
        network.run(SOME, "embedding")
    assert not is_there(pid)


def run_limited(code):
    """What a process does under limits of its own."""
    code = f"from bagwise.app.networks._child import _Limits\nlimits = _Limits()\n{code}"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True).returncode


def test_time_of_the_processor_ends():
    assert run_limited("limits.set(2**30, 0.1)\nwhile True: pass") == -signal.SIGXCPU


def test_memory_is_watched_where_the_system_does_not():
    """As on macOS: what is taken little by little ends the process, what stays below does not."""
    watched = "import time\nlimits._memory = 2**28\nlimits.watch()\nkept = []\n"
    take = "for _ in range({}): kept.append(bytearray(2**25)); time.sleep(0.05)"
    assert run_limited(watched + take.format(100)) == OUT_OF_MEMORY
    assert run_limited(watched + take.format(2)) == 0


def test_limits_that_are_there_already_are_kept():
    code = """import resource
resource.setrlimit(resource.RLIMIT_CPU, (50, 60))
limits.set(2**30, 1000)
assert resource.getrlimit(resource.RLIMIT_CPU) == (60, 60)
"""
    assert run_limited(code) == 0


# -- nothing outlives its use -----------------------------------------------------------------------------------------


def test_processes_end_with_the_network(tmp_path):
    path = nets.sound_network(tmp_path / "net.onnx")
    closed, dropped = opened(path), opened(path)
    pids = closed._process.pid, dropped._process.pid
    assert all(map(is_there, pids))
    closed.close()
    del dropped
    assert not any(map(is_there, pids))
    nets.cut_off(path)
    with pytest.raises(BagwiseError):
        opened(path)


def test_a_process_ends_with_whoever_asked_it_even_while_it_computes(tmp_path):
    path = nets.without_end(tmp_path / "net.onnx")
    code = f"""
import numpy as np
from pathlib import Path
from bagwise.app.networks import Network
path = Path({str(path)!r})
network = Network(path.read_bytes(), path, 16)
print(network._process.pid, flush=True)
network.run({{"sound": np.zeros((1, 8), dtype=np.float32)}}, "embedding")
"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen([sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE) as asking:
        pid = int(asking.stdout.readline())
        assert is_there(pid)
        asking.send_signal(signal.SIGKILL)
    until(lambda: not is_there(pid))


def test_an_interrupt_ends_the_process_whose_answer_is_not_awaited(tmp_path, monkeypatch):
    network = opened(nets.sound_network(tmp_path / "net.onnx"))

    def interrupted(*given):
        raise KeyboardInterrupt

    monkeypatch.setattr(of_networks, "read_message", interrupted)
    with pytest.raises(KeyboardInterrupt):
        network.run({"sound": np.zeros((1, 8000), dtype=np.float32)}, "embedding")
    assert not network.alive


def test_a_process_is_not_for_those_who_were_forked(tmp_path, monkeypatch):
    network = opened(nets.sound_network(tmp_path / "net.onnx"))
    assert network.alive
    with monkeypatch.context() as patch:
        patch.setattr(os, "getpid", lambda: -1)
        assert not network.alive
    network.close()


def test_nothing_is_imported_from_the_folder_that_it_is_started_in(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", [place for place in sys.path if place])
    path = nets.sound_network(tmp_path / "net.onnx")
    for name in ("json", "numpy", "onnx", "queue"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit(9)")
    monkeypatch.chdir(tmp_path)
    opened(path).close()


def test_a_file_that_says_much_about_itself_is_told_so(tmp_path):
    notes = {f"note {i}": "a" * 1000 for i in range(5000)}
    with pytest.raises(FormatError, match=r"net\.onnx: its description takes"):
        opened(nets.sound_network(tmp_path / "net.onnx", notes=notes))
    few = opened(nets.sound_network(tmp_path / "net.onnx", notes={"rate": "16000", "labels": "a" * 5_000_000}))
    assert few.notes == {"rate": "16000"}
    few.close()


def test_the_process_starts_without_what_it_does_not_need():
    code = "import sys, bagwise.app.networks._child\nsys.exit(bool({'scipy', 'sklearn', 'onnx'} & set(sys.modules)))"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    assert subprocess.run([sys.executable, "-c", code], env=environment).returncode == 0


# -- what is read from a process --------------------------------------------------------------------------------------


def message(head, body=b""):
    text = head if isinstance(head, bytes) else json.dumps(head).encode()
    return len(text).to_bytes(8, "little") + text + body


ARRAYS = [np.arange(6, dtype=np.int64).reshape(2, 3), np.float32(2.5).reshape(()), np.empty((0, 4), dtype=np.float16)]
WRONG = {
    "nothing": b"",
    "a head that is too long": (LARGEST_HEAD + 1).to_bytes(8, "little") + b" " * (LARGEST_HEAD + 1),
    "no JSON": message(b"\x80\x04]q\x00."),
    "nested": message(b"[" * 100_000),
    "a list": message([1]),
    "no arrays": message({"a": 1}),
    "objects": message({"arrays": [["object", [1]]]}, bytes(8)),
    "fewer than none": message({"arrays": [["float32", [-1, -1]]]}, bytes(4)),
    "a size that is none": message({"arrays": [["float32", [True]]]}, bytes(4)),
    "many axes": message({"arrays": [["float32", [1] * 33]]}, bytes(4)),
    "much": message({"arrays": [["float32", [1000]]]}, bytes(4000)),
    "much in all": message({"arrays": [["float32", [100]], ["float32", [100]]]}, bytes(800)),
    "nothing of much": message({"arrays": [["float32", [0, 2**62, 2**62]]]}),
    "cut off": message({"arrays": [["float32", [4]]]}, bytes(15)),
}


def test_messages_come_back_as_they_were():
    stream = io.BytesIO()
    write_message(stream, {"a": "\udcff"}, ARRAYS)
    stream.seek(0)
    head, found = read_message(stream, 100)
    assert head == {"a": "\udcff"}
    for array, other in zip(ARRAYS, found, strict=True):
        assert other.dtype == array.dtype
        np.testing.assert_array_equal(other, array)


@pytest.mark.parametrize("name", WRONG)
def test_messages_that_are_none(name):
    with pytest.raises(MessageError):
        read_message(io.BytesIO(WRONG[name]), 500)


@pytest.mark.parametrize(
    "answer",
    [
        *WRONG.values(),
        message({"arrays": []}),
        message({"arrays": [], "inputs": [["a", "float32", [0.5]]], "outputs": [], "notes": {}}),
        message({"arrays": [], "inputs": [["a", "float32"]], "outputs": [], "notes": {}}),
        message({"arrays": [], "inputs": [["a", "float32", [2**30, 2**30]]], "outputs": [], "notes": {}}),
        message({"arrays": [], "inputs": [], "outputs": [], "notes": []}),
    ],
)
def test_whatever_a_process_says_is_an_error_that_names_the_network(tmp_path, monkeypatch, answer):
    monkeypatch.setenv("BAGWISE_MEMORY_LIMIT", "2000")
    (tmp_path / "answer").write_bytes(answer)
    code = "import sys, time; sys.stdout.buffer.write(open(sys.argv[1], 'rb').read())"
    monkeypatch.setattr(of_networks, "_command", lambda: [sys.executable, "-c", code, str(tmp_path / "answer")])
    with pytest.raises(BagwiseError, match=r"net\.onnx"):
        Network(b"", tmp_path / "net.onnx", 16)


def test_a_process_that_goes_on_after_nonsense_is_ended(tmp_path, monkeypatch):
    code = "import os, sys, time; open(sys.argv[1], 'w').write(str(os.getpid()))"
    code += "; print('no message at all', flush=True); time.sleep(1000)"
    monkeypatch.setattr(of_networks, "_command", lambda: [sys.executable, "-c", code, str(tmp_path / "pid")])
    with pytest.raises(InputError, match=r"net\.onnx: the process of the network answers what cannot be understood"):
        Network(b"", tmp_path / "net.onnx", 16)
    assert not is_there(int((tmp_path / "pid").read_text()))


def test_the_engine_alone_gives_errors_of_ours(tmp_path):
    for name, (make, match) in nets.HOSTILE.items():
        path = tmp_path / f"{name}.onnx"
        make(path)
        if name != "empty":
            with pytest.raises(BagwiseError, match=match):
                OnnxModel(path.read_bytes(), path, 16)
    assert resource.getrlimit(resource.RLIMIT_CPU)[0] == resource.RLIM_INFINITY  # limits are for processes of networks
