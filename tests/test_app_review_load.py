"""The server of the review page under load and killed, briefly; BAGWISE_REVIEW_LOAD=1 runs it as long as asked for."""

import os

import pytest
from benchmarks.review_load import CLIENTS, KILLS, SECONDS, make_table_run, measure_kills, measure_load

LONG = os.environ.get("BAGWISE_REVIEW_LOAD") == "1"

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")


def test_many_clients_lose_nothing(tmp_path):
    done = measure_load(make_table_run(tmp_path, 150), *((CLIENTS, SECONDS) if LONG else (8, 3.0)))
    assert done["errors"] == 0, done["first_error"]
    assert done["answered"] >= done["clients"]
    assert done["lost"] == 0
    assert done["exit_code"] == 0
    assert done["memory_end_mb"] < done["memory_half_way_mb"] + 20


def test_killed_servers_lose_nothing(tmp_path):
    done = measure_kills(make_table_run(tmp_path, 150), KILLS if LONG else 2)
    assert done["answered"] > done["kills"]
    assert done["lost"] == 0
    assert done["refit_afterwards"] == "idle"
