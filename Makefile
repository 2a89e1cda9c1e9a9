# Everything a newcomer types. `make` alone explains itself.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
EXTRAS := dev,hf,data,datasets,zh,s3,spacy,onnx,minilm,ray,serve,track
# A CPU with AVX2 and without AVX-512, on any machine.
AVX2 := ATEN_CPU_CAPABILITY=avx2 ONEDNN_MAX_CPU_ISA=AVX2 MKL_ENABLE_INSTRUCTIONS=AVX2
# The stamp's name holds the pins, so that changed pins, and nothing else, make the environment anew.
PINS := $(shell (echo $(EXTRAS); cat constraints.txt; sed -n '/^dependencies/,/^\[project.scripts/p' pyproject.toml) | cksum | cut -d' ' -f1)
STAMP := $(VENV)/.pins-$(PINS)
WORKERS ?= auto
BOX := src/spanlab/models/spanbert-mini-en
DATA ?= ../shared/data

.DEFAULT_GOAL := help
.PHONY: help setup quickstart examples test test-all test-avx2 lint format bench docs box reader clean

help: ## Show what can be done here
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(STAMP) ## Make the virtual environment .venv (once; again when the pins change)

$(STAMP):
	rm -rf $(VENV)
	$(PYTHON) -m venv $(VENV)
	PIP_CONSTRAINT=constraints.txt $(BIN)/pip install --quiet --disable-pip-version-check -e ".[$(EXTRAS)]"
	touch $@

quickstart: $(STAMP) ## See a model read, go on learning and take up a new task, in about 6 minutes, without network
	$(BIN)/spanlab quickstart

examples: $(STAMP) ## Run every example with MiniLM, and compare its score with a floor (before a release)
	$(BIN)/python -m benchmarks.examples

test: $(STAMP) ## Run the tests
	$(BIN)/python -m pytest -n $(WORKERS) -m "not slow"

test-all: $(STAMP) ## Run the tests, the slow ones too
	$(BIN)/python -m pytest -n $(WORKERS)

test-avx2: $(STAMP) ## Run the tests of the encoder, objectives, training and workflows as on a CPU without AVX-512
	$(AVX2) $(BIN)/python -m pytest -n $(WORKERS) -m "not slow" tests/encoder tests/objectives tests/training tests/workflows

lint: $(STAMP) ## Check format, style, types and the layering of the rooms
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(STAMP) ## Write the code the way `make lint` wants it
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(STAMP) ## Measure SpanLab beside its peers: docs/benchmarks.md (hours; QUICK=1: 15 minutes; wants a quiet machine)
	PIP_CONSTRAINT=constraints.txt $(BIN)/pip install --quiet --disable-pip-version-check -e ".[bench]"
	$(BIN)/python -m benchmarks.run_all $(if $(QUICK),--quick)

docs: $(STAMP) ## Build the documentation into site/
	PIP_CONSTRAINT=constraints.txt $(BIN)/pip install --quiet --disable-pip-version-check -e ".[docs]"
	$(BIN)/python docs/write_reference.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

box: $(STAMP) ## Put the trained model of a run into the package: make box RUN=runs/spanbert-mini-en
	$(BIN)/spanlab convert $(RUN) --compact --overwrite --out $(BOX)
	cd $(BOX) && sha256sum *.json *.safetensors vocab.txt > SHA256SUMS

reader: $(STAMP) ## Train the bundled reader again from public data sets, and measure it: make reader DATA=folder
	$(BIN)/python -m reader_training.train --data $(DATA) --out runs/reader
	$(BIN)/python -m reader_training.assemble --runs runs/reader
	$(BIN)/python -m reader_training.score --data $(DATA) --runs runs/reader

clean: ## Remove the virtual environment and everything built
	rm -rf $(VENV) quickstart own-text site dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis
