# Every target does its own set-up: a fresh clone and Python 3.11 are all it needs.
PYTHON ?= $(shell command -v python3.11 || echo python3)
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/pip --disable-pip-version-check
# Hundreds of processes start in a run of the tests: where images forbid it, bytecode is kept all the same.
unexport PYTHONDONTWRITEBYTECODE
# Tests share the cores (tests/spread.py says how); those marked `alone` have the machine to themselves.
SPREAD := -n 2
# The benchmarks from end to end, in their short form: minutes, so not in every run.
BENCHMARKS := tests/benchmarks/test_broker.py tests/benchmarks/test_client.py tests/benchmarks/test_kinds.py tests/benchmarks/test_peers.py tests/benchmarks/test_replication.py tests/benchmarks/test_spark.py tests/benchmarks/test_store.py tests/benchmarks/test_transactions.py
BUT_BENCHMARKS := $(addprefix --ignore ,$(BENCHMARKS))
# Servers, JVMs and tests share two cores, and some tests have bounds on time: what fails is shown, and tried once more alone.
AGAIN  := || $(BIN)/pytest -q --last-failed --last-failed-no-failures none

.DEFAULT_GOAL := help
.PHONY: help setup run test interop-all bench-quick chaos soak check format lint types fast fuzz bench clean

help:            ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 14

run: $(VENV)/.server     ## set up what a server needs, then start everything: name server and broker
	$(BIN)/skyrocketmq up

setup: $(VENV)/.all      ## prepare .venv with every extra and the development tools

test: $(VENV)/.dev       ## the tests, in their short form (left out: interop-all, bench-quick, chaos, soak)
	$(BIN)/pytest -q $(SPREAD) -m "not system and not interop" $(AGAIN)
	$(BIN)/pytest -q $(SPREAD) -m "(system or interop) and not alone and not reference" $(BUT_BENCHMARKS) $(AGAIN)
	$(BIN)/pytest -q -m "alone and not reference" $(BUT_BENCHMARKS) $(AGAIN)

bench-quick: $(VENV)/.bench    ## see that the benchmarks run
	$(BIN)/pytest -q tests/benchmarks

# Its short form, a few rounds, is part of `test`.
chaos: $(VENV)/.dev          ## processes killed, stopped and cut off, again and again (CHAOS_ROUNDS=50, CHAOS_SEED=11)
	CHAOS_ROUNDS=$${CHAOS_ROUNDS:-50} BROKER_KILLS=$${CHAOS_ROUNDS:-50} FAULT_ROUNDS=$$(( $${CHAOS_ROUNDS:-50} / 10 + 1 )) \
	    SPARK_KILLS=$$(( $${CHAOS_ROUNDS:-50} / 5 )) \
	    TRANSACTION_KILLS=$$(( $${CHAOS_ROUNDS:-50} / 5 + 1 )) STORE_LIVES=$$(( $${CHAOS_ROUNDS:-50} * 12 )) CRASH_SEEDS=5 CRASH_AT_EVERY_CALL=1 $(BIN)/pytest -q \
	    tests/store/test_crashes.py tests/store/test_model.py tests/store/test_stateful.py \
	    tests/system/test_replication_chaos.py tests/system/test_broker_kill.py tests/system/test_delivery_faults.py tests/system/test_transaction_kills.py \
	    tests/broker/test_transaction_restarts.py tests/spark/test_driver_kills.py

# Of both, the short form is part of `test`.
soak: $(VENV)/.dev           ## a thousand lives of clients, ten minutes of killed brokers and bad links (CLIENT_SOAK_SECONDS=600)
	CLIENT_LIVES=$${CLIENT_LIVES:-1000} CLIENT_SOAK_SECONDS=$${CLIENT_SOAK_SECONDS:-600} $(BIN)/pytest -q -rP --show-capture=stdout \
	    tests/client/test_many_lives.py tests/client/test_killed_brokers.py

interop-all: $(VENV)/.dev    ## every test with Apache's programs, also on Apache's own cluster and on mixed ones
	$(BIN)/pytest tests/interop

check: format lint types fast    ## format, lint, types and the fast tests

format: $(VENV)/.dev
	$(BIN)/ruff format --check .
lint: $(VENV)/.dev
	$(BIN)/ruff check .
types: $(VENV)/.dev
	$(BIN)/mypy
fast: $(VENV)/.dev
	$(BIN)/pytest -q $(SPREAD) -m "not slow and not system and not interop" $(AGAIN)

fuzz: $(VENV)/.dev       ## feed millions of damaged inputs to the decoders (FUZZ_INPUTS=5000000)
	$(BIN)/python -m tests.wire.fuzz --inputs $${FUZZ_INPUTS:-5000000}

bench: $(VENV)/.bench    ## benchmarks beside Apache's servers and other systems, printed as ratios
	$(BIN)/python -m benchmarks

clean:           ## remove the environment and everything that was built
	rm -rf $(VENV) build dist src/*.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis tests/interop/java*/target benchmarks/kafka*/target

# Stamp files: an environment is made again only when what it is made from has changed.
$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); exit 1; }
$(VENV)/.server: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(PIP) install --quiet --constraint constraints.txt --editable .
	touch $@
$(VENV)/.dev: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(PIP) install --quiet --constraint constraints.txt --editable '.[spark,dev]'
	touch $@ $(VENV)/.server
$(VENV)/.bench: $(VENV)/.dev
	$(PIP) install --quiet --constraint constraints.txt --editable '.[dev,bench]'
	touch $@
$(VENV)/.all: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(PIP) install --quiet --constraint constraints.txt --editable '.[dashboard,spark,otel,dev]'
	touch $@ $(VENV)/.dev $(VENV)/.server
