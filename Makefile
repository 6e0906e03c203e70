# `make demo` and `make test` work on a bare machine with Python 3.11 and make: both create .venv first.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
WORKERS ?= 2
BENCHMARKS := startup load ranking fuzz

.PHONY: help venv demo test lint types tests nightly check coverage bench compare docs clean
help:
	@echo "make demo     install Tacit, then train, adapt, ask and explain on the embedded graph"
	@echo "make test     lint, then types and every test"
	@echo "make nightly  every test, with random examples that differ from day to day"
	@echo "make check    ruff (lint, format) and mypy"
	@echo "make coverage every test, and the share of lines they run"
	@echo "make bench    the quick benchmarks: $(BENCHMARKS)"
	@echo "make compare  what starting, asking, loading and training take there and here: make compare AGAINST=CHECKOUT"
	@echo "make docs     rewrite docs/cli.md from the commands, then build the documentation site into site/"
	@echo "make clean    remove the environment and all caches"

venv: $(INSTALLED)

# torch goes first and alone: resolved together with the rest, pip may fetch several versions of it to compare them.
$(INSTALLED): pyproject.toml constraints.txt
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Tacit needs Python 3.11 or later; say which one with: make PYTHON=/path/to/python" >&2; exit 1; }
	"$(PYTHON)" -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt torch
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	@touch $@

demo: venv
	@$(BIN)/tacit demo

lint: venv
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: venv
	$(BIN)/mypy

check: lint types

# One thread for each worker: together they use the cores there are. A worker keeps to files of its own until it is
# done with them, so that what a file's tests share is made once. Bytecode is kept even where the environment says
# otherwise: each of the many processes that tests start would compile the package anew.
PYTEST := OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE= $(BIN)/pytest -n $(WORKERS) --dist worksteal

tests: venv
	$(PYTEST)

# Seeds follow the day; FIRST_SEED=… repeats one. Hypothesis prints how a failing example is repeated.
nightly: FIRST_SEED ?= $(shell date +%Y%m%d)00
nightly: venv
	@echo "FIRST_SEED=$(FIRST_SEED)"
	HYPOTHESIS_PROFILE=nightly TACIT_FUZZ=3000 FIRST_SEED=$(FIRST_SEED) $(PYTEST)

# mypy without its cache takes half a minute on one core, so it runs beside the tests.
test: lint
	@$(MAKE) --no-print-directory --jobs 2 types tests

# The last line is the figure that stands in CONTRIBUTING.md.
coverage: venv
	$(PYTEST) --cov=tacit --cov-report=term:skip-covered
	@echo "Coverage: $$($(BIN)/coverage report --format=total) %"

bench: venv
	@set -e; for name in $(BENCHMARKS); do echo "== $$name"; $(BIN)/python benchmarks/$$name.py; done

compare: venv
	$(BIN)/python benchmarks/before_after.py --against "$(AGAINST)"

# Look at the result with: python -m http.server --directory site
docs: venv
	$(BIN)/python docs/write_cli.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

clean:
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis build dist site src/*.egg-info
	find src tests benchmarks docs data -name __pycache__ -exec rm -rf {} +
