# Every target does its own set-up: a fresh clone and Python 3.11 are all it needs.
PYTHON ?= $(shell command -v python3.11 || echo python3)
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/pip --disable-pip-version-check
# Hundreds of processes start in a run of the tests: where images forbid it, bytecode is kept all the same.
unexport PYTHONDONTWRITEBYTECODE
# Elsewhere a machine without a C compiler runs plain Python; a run for others shows both forms.
ifeq ($(CI),true)
export SKYROCKETMQ_COMPILE ?= require
endif
# What an installation compiles.
COMPILED := setup.py $(wildcard src/skyrocketmq/hot/_[a-z]*.py src/skyrocketmq/hot/*.pxd) src/skyrocketmq/hot/layout.py
# One worker for each of two cores and two for tests that wait; tests/spread.py says who gets what.
SPREAD := -n 4

.DEFAULT_GOAL := help
.PHONY: help setup compile run test interop-all bench-quick chaos soak check format lint types fast fuzz fuzz-live mutate simulate planted bench clean

help:            ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 14

run: $(VENV)/.server $(VENV)/.compiled    ## set up what a server needs, then start everything: name server and broker
	$(BIN)/skyrocketmq up

setup: $(VENV)/.all      ## prepare .venv with every extra and the development tools

compile: $(VENV)/.compiled    ## compile skyrocketmq/hot, if its sources changed (SKYROCKETMQ_COMPILE=require: or fail)

test: $(VENV)/.dev $(VENV)/.compiled    ## the tests, in their short form (left out: interop-all, bench-quick, chaos, soak)
	$(BIN)/pytest -q $(SPREAD) -m "not reference and not benchmark"

bench-quick: $(VENV)/.bench    ## see that the benchmarks run
	$(BIN)/pytest -q tests/benchmarks

# Its short form, a few rounds, is part of `test`. Each count is a variable of its own, so that a thousand rounds of SIGKILL
# on master and slave (CHAOS_ROUNDS=1000) are not two hundred killed Spark drivers too. What one costs:
#   CHAOS_ROUNDS=50        master and slave killed, 2.5 s of processor time; CHAOS_FROM=480 goes on after 480 rounds
#   BROKER_KILLS=50        a broker killed under load, with each way to flush, 1.2 s of processor time each
#   FAULT_ROUNDS=6         a delivery with killed consumers and bad links
#   TRANSACTION_KILLS=11   a broker killed amid transactions
#   SPARK_KILLS=4          a Spark driver killed, of each of four kinds of streams, a minute each
#   STORE_LIVES=600        a life of a store on a disk in memory; CRASH_SEEDS=5 for crashes at every disk call
# Only the rounds: make chaos CHAOS_ROUNDS=1000 CHAOS_TESTS=tests/system/test_replication_chaos.py
CHAOS_TESTS := tests/system/test_replication_chaos.py tests/system/test_broker_kill.py tests/system/test_delivery_faults.py \
    tests/system/test_transaction_kills.py tests/broker/test_transaction_restarts.py tests/store/test_crashes.py \
    tests/store/test_model.py tests/store/test_stateful.py tests/spark/test_driver_kills.py
chaos: $(VENV)/.dev          ## processes killed, stopped and cut off, again and again (CHAOS_ROUNDS=50, CHAOS_SEED=11, ...)
	CHAOS_ROUNDS=$${CHAOS_ROUNDS:-50} BROKER_KILLS=$${BROKER_KILLS:-50} FAULT_ROUNDS=$${FAULT_ROUNDS:-6} \
	    TRANSACTION_KILLS=$${TRANSACTION_KILLS:-11} SPARK_KILLS=$${SPARK_KILLS:-4} STORE_LIVES=$${STORE_LIVES:-600} \
	    CRASH_SEEDS=$${CRASH_SEEDS:-5} CRASH_AT_EVERY_CALL=1 $(BIN)/pytest -q $(CHAOS_TESTS)

# Of both, the short form is part of `test`.
soak: $(VENV)/.dev           ## a thousand lives of clients, ten minutes of killed brokers and bad links (CLIENT_SOAK_SECONDS=600)
	CLIENT_LIVES=$${CLIENT_LIVES:-1000} CLIENT_SOAK_SECONDS=$${CLIENT_SOAK_SECONDS:-600} $(BIN)/pytest -q -rP --show-capture=stdout \
	    tests/client/test_many_lives.py tests/client/test_killed_brokers.py

interop-all: $(VENV)/.dev    ## every test with Apache's programs, on every cluster and in every encoding: for each night
	$(BIN)/pytest tests/interop

check: format lint types fast    ## format, lint, types and the fast tests

format: $(VENV)/.dev
	$(BIN)/ruff format --check .
lint: $(VENV)/.dev
	$(BIN)/ruff check .
types: $(VENV)/.dev
	$(BIN)/mypy
fast: $(VENV)/.dev $(VENV)/.compiled
	$(BIN)/pytest -q $(SPREAD) -m "not slow and not system and not interop"

# Both go on where they ended, and count what they did to the code as it is now.
fuzz: $(VENV)/.dev $(VENV)/.compiled    ## feed damaged inputs to the decoders (FUZZ_INPUTS=100000000, JOBS=2)
	$(BIN)/python -m tests.wire.fuzz --inputs $(or $(FUZZ_INPUTS),100000000) --state .fuzz/decoders.json --jobs $(or $(JOBS),2)

fuzz-live: $(VENV)/.dev  ## feed damaged frames to running servers (FUZZ_FRAMES=1000000)
	$(BIN)/python -m tests.system.fuzz_live --frames $(or $(FUZZ_FRAMES),1000000) --state .fuzz/live.json

# Resumed where it ended; what it knows is kept in .mutation.
mutate: $(VENV)/.dev     ## break rules one by one and see which tests notice (MODULES=ha.rules, SECONDS=600, JOBS=2)
	$(BIN)/python -m tests.mutation --jobs $(or $(JOBS),2) --seconds $(or $(SECONDS),inf) --modules "$(MODULES)"

# Resumed where it ended, and added up for each version of the code; what it knows is kept in .simulation.
simulate: $(VENV)/.dev   ## clusters on virtual time, from seeds, with every fault (SEEDS=1000 or SECONDS=600, FROM=1, JOBS=2)
	$(BIN)/python -m skyrocketmq.testing.simulation $(if $(SEEDS),--seeds $(SEEDS)) $(if $(SECONDS),--seconds $(SECONDS)) \
	    --from $(or $(FROM),1) --jobs $(or $(JOBS),2) --folder $(or $(FOLDER),.simulation) --failures $(or $(FAILURES),1)

planted: $(VENV)/.dev    ## does the simulation find bugs that are planted? (BUGS="two-lock-owners", SEEDS=500, SECONDS=600 each)
	$(BIN)/python -m tests.simulation.planted $(BUGS) --seeds $(or $(SEEDS),500) --seconds $(or $(SECONDS),600) --jobs $(or $(JOBS),2)

bench: $(VENV)/.bench $(VENV)/.compiled    ## benchmarks beside Apache's servers and other systems, printed as ratios
	$(BIN)/python -m benchmarks

clean:           ## remove the environment and everything that was built
	rm -rf $(VENV) build dist src/*.egg-info src/skyrocketmq/hot/*.so .mypy_cache .ruff_cache .pytest_cache .hypothesis tests/interop/java*/target benchmarks/kafka*/target

# Stamp files: an environment is made again only when what it is made from has changed.
$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); exit 1; }
# An editable installation compiles, whatever else it has to do; a machine that cannot runs plain Python.
$(VENV)/.compiled: $(COMPILED) | $(VENV)/bin/python
	$(PIP) install --quiet --no-deps --editable .
	touch $@
$(VENV)/.server: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(PIP) install --quiet --constraint constraints.txt --editable .
	touch $@ $(VENV)/.compiled
$(VENV)/.dev: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(PIP) install --quiet --constraint constraints.txt --editable '.[spark,dev]'
	touch $@ $(VENV)/.server $(VENV)/.compiled
$(VENV)/.bench: $(VENV)/.dev
	$(PIP) install --quiet --constraint constraints.txt --editable '.[dev,bench]'
	touch $@
$(VENV)/.all: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(PIP) install --quiet --constraint constraints.txt --editable '.[dashboard,spark,otel,dev]'
	touch $@ $(VENV)/.dev $(VENV)/.server $(VENV)/.compiled
