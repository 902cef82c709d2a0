# Five minutes from clone to audit: `make audit` needs nothing but Python 3.11+ and a package index.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SOURCES := repro_audit workloads tests benchmarks

.PHONY: audit test lint format benchmark clean

audit: $(VENV)/.runtime  ## install, then audit this machine
	$(BIN)/repro-audit run

test: $(VENV)/.development  ## install, then run the tests
	$(BIN)/python -m pytest -m "not serial" --numprocesses 2 --dist loadfile
	$(BIN)/python -m pytest -m serial

lint: $(VENV)/.development
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/ruff format --check $(SOURCES)
	$(BIN)/mypy

format: $(VENV)/.development
	$(BIN)/ruff check --fix $(SOURCES)
	$(BIN)/ruff format $(SOURCES)

benchmark: $(VENV)/.development  ## the ratios that the README quotes
	$(BIN)/python benchmarks/suite.py
	$(BIN)/python benchmarks/script.py
	$(BIN)/python benchmarks/trace.py

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.runtime: pyproject.toml constraints.txt | $(BIN)/python
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable .
	$(BIN)/python -m compileall -q repro_audit
	touch $@

$(VENV)/.development: pyproject.toml constraints.txt | $(BIN)/python
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	$(BIN)/python -m compileall -q repro_audit
	touch $@
