# Every target sets up what it needs; nothing but make and Python 3.11+ has to be there.

BIN := $(CURDIR)/.venv/bin
WORKERS ?= 2
ARGS ?=

export PATH := $(BIN):$(PATH)

.DEFAULT_GOAL := help
.PHONY: help setup demo test unit lint format bench sparkbench conformance chaos docs clean

help:  ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup:  ## make .venv with everything (the other targets call it)
	@scripts/python scripts/setup.py

demo: setup  ## events through topics and Spark, the job killed in the middle, every result proved (3 minutes)
	@moldau demo --output build/demo $(ARGS)

test: setup lint  ## lint and every test (under 25 minutes on 2 cores)
	@python scripts/first_failures.py -n $(WORKERS) -m "not chaos and not live" $(ARGS)

unit: setup  ## the fast tests alone: unit, property, contract, tidy
	@pytest -n $(WORKERS) tests/unit tests/property tests/contract tests/tidy $(ARGS)

lint: setup  ## ruff, mypy (strict), the import contracts of the layers
	@ruff check --quiet . && ruff format --check --quiet .
	@mypy
	@lint-imports

format: setup  ## let ruff rewrite what it can
	@ruff check --quiet --fix . ; ruff format .

bench: setup  ## Moldau and Apache Kafka as ratios; without ARGS, also what sparkbench does
	@python -m bench $(ARGS)
	@test -n "$(ARGS)" || python -m bench.spark

sparkbench: setup  ## the Spark data source and Spark's own connector, as ratios
	@python -m bench.spark $(ARGS)

conformance: setup  ## the same requests to Apache Kafka and to Moldau, answers compared live; Kafka's own tools
	@python -m tests.conformance live $(ARGS)
	@pytest -m live tests

chaos: setup  ## the long run of the crash tests and of the simulated clusters
	@pytest -m chaos tests/faults tests/simulation $(ARGS)

docs: setup  ## write the generated pages of docs/reference
	@python scripts/reference.py

clean:  ## remove everything that was made, .venv included
	@rm -rf .venv build dist .hypothesis .mypy_cache .pytest_cache .ruff_cache .import_linter_cache src/*.egg-info
	@find src tests bench scripts -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true
	@rm -f src/moldau/kernels/*.so
