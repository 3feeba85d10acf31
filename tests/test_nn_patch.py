"""The network of patches: other views of them, and the whole path from a folder of sound to annotations."""

import csv

import numpy as np
import pytest
from click.testing import CliRunner

torch = pytest.importorskip("torch", reason="torch is not there; make test-torch makes an environment with it")

import bagwise  # noqa: E402
from bagwise.app.cli.main import main as cli  # noqa: E402
from bagwise.app.media.matching import match_events  # noqa: E402
from bagwise.catalog import make_model  # noqa: E402
from bagwise.core.exceptions import InputError  # noqa: E402
from bagwise.datasets import make_soundscape  # noqa: E402
from bagwise.nn import _patch  # noqa: E402
from bagwise.nn.patch_shape import COLUMNS, LAYERS, N_FEATURES, ROWS  # noqa: E402


def some_patches(m=200, seed=0):
    """Loud points in the middle, so that no shift moves one out."""
    rng = np.random.default_rng(seed)
    patches = np.zeros((m, len(LAYERS), ROWS, COLUMNS), dtype=np.float32)
    rows, columns = rng.integers(4, ROWS - 4, m), rng.integers(4, COLUMNS - 4, m)
    patches[np.arange(m), :, rows, columns] = 1.0
    return torch.as_tensor(patches), rows, columns


def test_other_views_are_moved_by_no_more_than_they_may():
    torch.manual_seed(0)
    patches, rows, columns = some_patches()
    views = _patch.augmented(patches)
    assert views.shape == patches.shape
    own = views[:, 1]
    assert torch.equal(own.sum(dim=(1, 2)), torch.ones(len(own)))  # where the sound is goes along, and is not wiped out
    place = own.reshape(len(own), -1).argmax(dim=1).numpy()
    down, right = place // COLUMNS - rows, place % COLUMNS - columns
    assert set(down) == set(range(-_patch.SHIFT[0], _patch.SHIFT[0] + 1))
    assert set(right) == set(range(-_patch.SHIFT[1], _patch.SHIFT[1] + 1))
    loud = views[:, 0].reshape(len(own), -1)[torch.arange(len(own)), torch.as_tensor(place)].numpy()
    assert views.min() >= 0
    assert views.max() <= 1
    kept = loud > 0
    assert 0.5 < kept.mean() < 1  # some are wiped out by a strip
    assert loud[kept].min() > 1 - _patch.GAIN - 6 * _patch.NOISE


def test_strips_are_of_every_width_up_to_the_largest():
    torch.manual_seed(0)
    wiped = (~_patch._outside_strip(2000, ROWS, 4, torch.device("cpu"))).sum(dim=1)
    assert set(wiped.tolist()) == {0, 1, 2, 3, 4}


def test_what_is_judged_is_judged_as_it_is():
    network = _patch.patch_network(N_FEATURES, 3).eval()
    X = torch.rand(4, N_FEATURES, generator=torch.Generator().manual_seed(0))
    assert torch.equal(network(X), network(X))
    assert network(X).shape == (4, 3)


def test_features_of_another_kind_are_refused():
    data = bagwise.datasets.make_gaussian_bags(n_bags=20, random_state=0)
    with pytest.raises(InputError, match=r"1536 features, and there are 8; .*\(--media-set features=patch\)"):
        make_model("ored-patch").fit(data.bags, data.Y)


def test_from_a_folder_of_sound_to_annotations(tmp_path):
    """Most syllables inside of a call get its species, and the file of the model is all that new sound needs."""
    scene = make_soundscape(16, species_per_recording=(1, 2), random_state=1)
    sounds, labels, _ = scene.write(tmp_path / "scene")
    settings = ["n_members=1", "epochs=12", "learning_rate=0.004", "background=true", "calibrate=none"]
    run = tmp_path / "run"
    arguments = ["annotate", str(sounds), "--labels", str(labels), "--out", str(run), "--model", "ored-patch"]
    arguments += [
        "--media-set",
        "features=patch",
        *(part for s in settings for part in ("--set", s)),
        "--jobs",
        "1",
        "--no-page",
    ]
    result = CliRunner().invoke(cli, arguments)
    assert result.exit_code == 0, result.output
    with (run / "annotations.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    found = [{**row, "start": float(row["start"]), "end": float(row["end"])} for row in rows]
    matched = match_events(
        [{**row, "low": float(row["low"]), "high": float(row["high"])} for row in found], scene.events
    )
    right = [row["label"] == scene.events[j]["label"] for row, j in zip(rows, matched, strict=True) if j >= 0]
    assert len(right) > 100
    assert np.mean(right) > 0.8
    again = CliRunner().invoke(
        cli,
        ["annotate", str(sounds), "--model", str(run / "model.bagwise"), "--out", str(tmp_path / "new"), "--no-page"],
    )
    assert again.exit_code == 0, again.output
    with (tmp_path / "new" / "annotations.csv").open(encoding="utf-8") as file:
        assert len(list(csv.DictReader(file))) == len(rows)
