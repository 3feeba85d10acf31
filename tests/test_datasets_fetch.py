"""Data sets that are downloaded: from a server that the test starts, kept, known by their checksum."""

import hashlib
import threading
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest
from scipy.io import savemat
from scipy.sparse import csc_matrix

from bagwise import InputError
from bagwise.core.bags import Bags
from bagwise.core.dataset import BagDataset
from bagwise.datasets import _fetch, fetch_lost, fetch_miml_reuters, fetch_miml_scene
from bagwise.io.data.formats import write_dataset


class Quiet(SimpleHTTPRequestHandler):
    asked = 0

    def log_message(self, *args):
        type(self).asked += 1


@pytest.fixture
def server(tmp_path):
    """A folder that is served, and its address."""
    folder = tmp_path / "served"
    folder.mkdir()
    Quiet.asked = 0
    httpd = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder)))
    threading.Thread(target=httpd.serve_forever, daemon=True).start()
    yield folder, f"http://127.0.0.1:{httpd.server_port}/"
    httpd.shutdown()
    httpd.server_close()


def at(remote, address, path):
    content = path.read_bytes()
    return replace(
        remote, address=address + path.name, n_bytes=len(content), sha256=hashlib.sha256(content).hexdigest()
    )


@pytest.fixture
def scene(server, monkeypatch):
    folder, address = server
    rng = np.random.default_rng(0)
    made = BagDataset(Bags.from_list([rng.normal(size=(3, 2)) for _ in range(4)]), np.eye(4, dtype=np.uint8), [*"abcd"])
    write_dataset(made, folder / "scene.mat", format="lamda-mat")
    remote = at(_fetch.SCENE, address, folder / "scene.mat")
    monkeypatch.setattr(_fetch, "SCENE", remote)
    return made, remote


def test_a_set_is_downloaded_once(scene, tmp_path):
    made, _ = scene
    for _ in range(2):
        got = fetch_miml_scene(tmp_path / "kept")
        assert got.bags == made.bags
        assert (got.Y == made.Y).all()
    assert Quiet.asked == 1
    assert [path.name for path in (tmp_path / "kept").iterdir()] == ["miml-scene.mat"]


def test_a_kept_file_that_was_damaged_is_downloaded_again(scene, tmp_path):
    fetch_miml_scene(tmp_path)
    (tmp_path / "miml-scene.mat").write_bytes(b"cut off")
    assert len(fetch_miml_scene(tmp_path)) == 4
    assert Quiet.asked == 2


def test_what_is_another_file_is_not_kept(scene, tmp_path, monkeypatch):
    monkeypatch.setattr(_fetch, "SCENE", replace(scene[1], sha256="0" * 64))
    with pytest.raises(InputError, match="checksum"):
        fetch_miml_scene(tmp_path / "kept")
    assert not (tmp_path / "kept").exists()


def test_no_server_is_an_error_with_the_cure(scene, tmp_path, monkeypatch):
    for address in ("http://127.0.0.1:9/none.mat", scene[1].address + "-none"):
        monkeypatch.setattr(_fetch, "REUTERS", replace(scene[1], address=address))
        with pytest.raises(InputError, match="save it as"):
            fetch_miml_reuters(tmp_path)


def test_lost_is_bags_of_one_face_and_its_candidates(server, monkeypatch, tmp_path):
    folder, address = server
    rng = np.random.default_rng(1)
    truth = np.eye(3)[rng.integers(0, 3, 5)].T
    candidates = np.maximum(truth, rng.random((3, 5)) < 0.5)
    X = rng.normal(size=(5, 4))
    savemat(folder / "lost.mat", {"data": X, "partial_target": candidates, "target": csc_matrix(truth)})
    monkeypatch.setattr(_fetch, "LOST", at(_fetch.LOST, address, folder / "lost.mat"))
    data = fetch_lost(tmp_path)
    assert data.bags.instances.tolist() == X.tolist()
    assert (data.Y == candidates.T).all()
    assert (data.instance_labels.instances == truth.argmax(axis=0)).all()
    assert all(data.Y[i, data.instance_labels.instances[i]] for i in range(5))
