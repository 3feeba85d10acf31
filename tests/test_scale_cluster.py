"""Fits on a Dask cluster: two processes of this machine, ended with the tests."""

import operator
import os
import signal
import subprocess
import sys
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bagwise import ORedLogisticRegression, SupportInstanceMachine, make_pipeline
from bagwise.annotation import CLPL
from bagwise.app.media.media_types import check_media_type
from bagwise.app.runs import Run
from bagwise.app.runs._features import Source, read_files
from bagwise.catalog import make_model
from bagwise.core.exceptions import FormatError, InputError
from bagwise.datasets import make_gaussian_bags
from bagwise.io.data.formats import write_dataset
from bagwise.pipeline import final_step
from bagwise.preprocessing import CLPLScaler, PerInstance
from bagwise.scale import BagSource, fit_source
from bagwise.scale._engine import tree_sum
from bagwise.scale.cluster import ClusterError, _cluster_errors, _group_size, check_sees, check_workers, open_cluster

distributed = pytest.importorskip("distributed")
pytestmark = pytest.mark.filterwarnings("ignore")  # Dask's own, of clocks and ports


@pytest.fixture(scope="module")
def cluster():
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address="127.0.0.1:0"
    ) as started:
        yield started


@pytest.fixture
def client(cluster):
    with distributed.Client(cluster) as connected:
        connected.wait_for_workers(2, timeout=60)
        yield connected


@pytest.fixture
def source(tmp_path):
    data = make_gaussian_bags(n_bags=60, random_state=0)
    labelled = np.arange(60) % 5 > 0
    data = replace(data, Y=np.where(labelled[:, None], data.Y, 0), labelled=labelled)
    write_dataset(data, tmp_path / "a.parquet")
    return BagSource.from_parquet(tmp_path / "a.parquet", memory=60_000)


@pytest.mark.parametrize(
    "model",
    [
        make_model("ored-background", background_share=0.3, missed="learn", tol=1e-3),
        make_model("ored-rbf", size=20, tol=1e-3),
        make_model("ored-em", max_iter=6),
        make_pipeline(PerInstance(CLPLScaler()), CLPL()),
        make_pipeline(PerInstance(CLPLScaler()), SupportInstanceMachine(alpha=1e-4, n_phases=2, n_steps=5)),
    ],
)
def test_two_workers_find_what_one_process_finds(client, source, model):
    assert source.n_pieces > 3
    there = final_step(fit_source(model, source, client)).coef_
    here = final_step(fit_source(model, source)).coef_
    np.testing.assert_allclose(there, here, rtol=0, atol=1e-9 * np.abs(here).max())


def test_known_instances_and_one_worker(client, source):
    model = make_model("ored", tol=1e-3)
    both = final_step(fit_source(model, source, client, use_known=True)).coef_
    only = sorted(client.scheduler_info()["workers"])[0]

    class OneWorker:
        """The same client, which knows of one worker and sends all work to it."""

        def __getattr__(self, name):
            return getattr(client, name)

        def nthreads(self):
            return {only: 1}

        def submit(self, *arguments, **options):
            return client.submit(*arguments, **{**options, "workers": [only], "allow_other_workers": False})

        def map(self, *arguments, **options):
            return client.map(*arguments, workers=[only], **options)

    alone = final_step(fit_source(model, source, OneWorker(), use_known=True)).coef_
    assert np.array_equal(both, alone)


@given(n_pieces=st.integers(1, 300), n_threads=st.integers(1, 40), tasks=st.integers(1, 9), data=st.data())
def test_groups_leave_every_thread_its_tasks_and_do_not_change_a_sum(n_pieces, n_threads, tasks, data):
    size = _group_size(n_pieces, n_threads, tasks)
    assert size == 1 or n_pieces / size >= tasks * n_threads > n_pieces / (2 * size)
    values = data.draw(st.lists(st.floats(-1e6, 1e6), min_size=n_pieces, max_size=n_pieces))
    groups = [tree_sum(values[i : i + size], operator.add) for i in range(0, n_pieces, size)]
    assert tree_sum(groups, operator.add) == tree_sum(values, operator.add)


def test_a_worker_that_dies_is_made_up_for(client, source):
    model = make_model("ored", tol=1e-6)
    right = final_step(fit_source(model, source)).coef_
    killed = []

    def killing(iteration, objective):
        if iteration == 3:
            pid = next(iter(client.run(os.getpid).values()))
            os.kill(pid, signal.SIGKILL)
            killed.append(pid)

    there = final_step(fit_source(model, source, client, callback=killing)).coef_
    assert killed
    np.testing.assert_allclose(there, right, rtol=0, atol=1e-9)
    client.wait_for_workers(2, timeout=60)


def test_workers_of_another_version_and_files_that_changed(client, source, tmp_path):
    worker = sorted(client.scheduler_info()["workers"])[0]

    def pretend(version):
        import bagwise

        bagwise.__version__ = version

    def forget(dask_worker=None):
        import sys

        sys.modules["kept"], sys.modules["bagwise"] = sys.modules["bagwise"], None

    def remember(dask_worker=None):
        import sys

        sys.modules["bagwise"] = sys.modules.pop("kept")

    model = make_model("ored")
    client.run(pretend, "0.0.1", workers=[worker])
    with pytest.raises(ClusterError, match=f"The worker {worker} has bagwise 0.0.1, here it is"):
        fit_source(model, source, client)
    import bagwise

    client.run(pretend, bagwise.__version__, workers=[worker])
    client.run(forget, workers=[worker])
    with pytest.raises(ClusterError, match=f"The worker {worker} has no bagwise, here it is"):
        fit_source(model, source, client)
    client.run(remember, workers=[worker])
    (tmp_path / "a.parquet").unlink()
    with pytest.raises(FormatError, match=r"a.parquet, piece \d+ of \d+ .* cannot be read any more"):
        fit_source(model, source, client)


def test_nobody_answers():
    with (
        pytest.raises(ClusterError, match="No Dask scheduler answers at tcp://127.0.0.1:1"),
        open_cluster("tcp://127.0.0.1:1"),
    ):
        pass


def test_no_workers_and_workers_that_die_of_their_work():
    class Nobody:
        """A client of a cluster without workers."""

        class scheduler:
            address = "tcp://there:8786"

        @staticmethod
        def run(function):
            return {}

    with pytest.raises(ClusterError, match="The cluster at tcp://there:8786 has no workers; start some"):
        check_workers(Nobody)
    died = distributed.scheduler.KilledWorker("bagwise-evaluate-1", SimpleNamespace(address="tcp://w:1"), 3)
    words = r"Several workers died of the same piece .*; give them more memory"
    with pytest.raises(ClusterError, match=words), _cluster_errors():
        raise died


def test_the_scheduler_is_gone_and_the_checkpoint_goes_on(source, tmp_path):
    """A scheduler and a worker that others started; the scheduler is killed in the middle of a fit."""
    from bagwise.io.checkpoint import Checkpoint
    from bagwise.scale.fit import source_identity

    model = make_pipeline(ORedLogisticRegression(tol=1e-6))
    right = final_step(fit_source(model, source)).coef_
    address_file = tmp_path / "scheduler.json"
    common = ["--scheduler-file", str(address_file), "--no-dashboard"]
    scheduler = subprocess.Popen(
        [sys.executable, "-m", "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", "0", *common]
    )
    worker = subprocess.Popen(
        [sys.executable, "-m", "distributed.cli.dask_worker", "--nthreads", "1", "--no-nanny", *common]
    )
    try:
        with distributed.Client(scheduler_file=str(address_file), timeout=60) as client:
            client.wait_for_workers(1, timeout=60)
            state = Checkpoint(tmp_path / "state", source_identity(model, source), interval=0.0)

            def killing(iteration, objective):
                if iteration == 4:
                    scheduler.kill()

            with pytest.raises(ClusterError, match="scheduler of the cluster is gone.*--checkpoint"):
                fit_source(model, source, client, checkpoint=state, callback=killing)
    finally:
        for process in (worker, scheduler):
            process.kill()
            process.wait()
    again = final_step(fit_source(model, source, checkpoint=tmp_path / "state")).coef_
    np.testing.assert_allclose(again, right, rtol=0, atol=1e-9)


# -- media are read by the workers ------------------------------------------------------------------------------------


@pytest.fixture
def texts(tmp_path):
    folder = tmp_path / "texts"
    folder.mkdir()
    words = {"owl": "night moon wood hoot dark", "duck": "pond reed water swim quack"}
    for i in range(6):
        both = ["owl", "duck"] if i % 3 == 0 else [["owl", "duck"][i % 2]]
        (folder / f"{i}.txt").write_text("\n\n".join(f"{words[name]} {words[name]} {i}." for name in both))
    (folder / "bad.txt").write_bytes(b"\xff\xfe\x00")
    rows = [f"{i}.txt,{'owl;duck' if i % 3 == 0 else ['owl', 'duck'][i % 2]}" for i in range(6)]
    (tmp_path / "labels.csv").write_text("\n".join(["file,labels", *rows]))
    return folder


def test_media_read_by_workers_are_those_read_here(client, cluster, texts, tmp_path):
    media_type = check_media_type("text")
    settings = media_type.make_settings({})
    names = sorted(path.name for path in texts.iterdir())
    seen = []
    source = Source(texts, media_type, settings, names)
    for run in ("here", "there"):
        (tmp_path / run / ".features").mkdir(parents=True)
    here = read_files(source, tmp_path / "here", 1, lambda *_: None)
    there = read_files(
        source, tmp_path / "there", 1, lambda *step: seen.append(step), cluster=cluster.scheduler_address
    )
    assert list(there.bags) == list(here.bags)
    assert there.errors == here.errors
    assert len(here.errors) == 1
    for name, bags in here.bags.items():
        other = there.bags[name]
        assert (other.bag_names, other.sizes, other.info) == (bags.bag_names, bags.sizes, bags.info)
        assert (other.features != bags.features).nnz == 0
    assert seen[-1][1:] == (len(names), len(names))
    again = read_files(source, tmp_path / "there", 1, lambda *_: None)
    assert again.n_reused == len(here.bags)  # what workers read is kept


def test_a_run_whose_media_are_read_by_workers(client, cluster, texts, tmp_path):
    options = {"labels": tmp_path / "labels.csv", "page": False, "formats": ["csv"]}
    for name, more in (("here", {"jobs": 1}), ("there", {"cluster": cluster.scheduler_address})):
        with Run.create(texts, tmp_path / f"run-{name}", **options, **more):
            pass
    one, other = (tmp_path / f"run-{name}" / "annotations.csv" for name in ("here", "there"))
    assert one.read_bytes() == other.read_bytes()
    with pytest.raises(InputError, match="--cluster reads media, and .* is a file of bags"):
        Run.create(write_table(tmp_path), tmp_path / "run-table", cluster=cluster.scheduler_address)


def write_table(folder):
    write_dataset(make_gaussian_bags(n_bags=5, random_state=0), folder / "table.parquet")
    return folder / "table.parquet"


def test_workers_that_do_not_see_the_media_are_named(client):
    with pytest.raises(ClusterError, match=r"The worker tcp://.* does not see /nowhere/at/all; put it on storage that"):
        check_sees(client, "/nowhere/at/all")
