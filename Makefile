# Every target sets up what it needs; nothing but make and Python 3.11+ has to be there.

BIN := $(CURDIR)/.venv/bin
WORKERS ?= 3
ARGS ?=

export PATH := $(BIN):$(PATH)

.DEFAULT_GOAL := help
.PHONY: help setup demo test unit lint format bench clusterbench sparkbench clientsbench connectbench conformance chaos docs clean

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

bench: setup  ## Moldau and Apache Kafka as ratios; without ARGS, also what the other benches do
	@python -m bench $(ARGS)
	@test -n "$(ARGS)" || python -m bench.cluster
	@test -n "$(ARGS)" || python -m bench.spark
	@test -n "$(ARGS)" || python -m bench.clients
	@test -n "$(ARGS)" || python -m bench.rest
	@test -n "$(ARGS)" || python -m bench.connect
	@test -n "$(ARGS)" || python -m bench.mirror

clusterbench: setup  ## three brokers and three Apache Kafka brokers, as ratios
	@python -m bench.cluster $(ARGS)

sparkbench: setup  ## the Spark data source and Spark's own connector, as ratios
	@python -m bench.spark $(ARGS)

clientsbench: setup  ## the Python clients and confluent-kafka, as ratios; the schema registry; the REST proxy
	@python -m bench.clients $(ARGS)
	@test -n "$(ARGS)" || python -m bench.rest

connectbench: setup  ## Connect and Kafka Connect, the mirror and MirrorMaker 2, as ratios
	@python -m bench.connect $(ARGS)
	@test -n "$(ARGS)" || python -m bench.mirror

conformance: setup  ## the same requests to Apache Kafka and to Moldau, answers compared live; Kafka's own tools
	@python -m tests.conformance live $(ARGS)
	@pytest -m live tests

chaos: setup  ## the long run of the crash tests, of the simulated clusters and of the compatibility of schemas
	@rm -f build/chaos.txt
	@status=0; pytest -m chaos tests $(ARGS) || status=$$?; cat build/chaos.txt 2>/dev/null; exit $$status

docs: setup  ## write the generated pages of docs/reference
	@python scripts/reference.py

clean:  ## remove everything that was made, .venv included
	@rm -rf .venv build dist .hypothesis .mypy_cache .pytest_cache .ruff_cache .import_linter_cache src/*.egg-info
	@find src tests bench scripts -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true
	@rm -f src/moldau/kernels/*.so
