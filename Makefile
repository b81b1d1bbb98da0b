# The front door. Needs Python 3.11+, a C compiler and a package index; everything else it makes itself.

PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
DEBUG  := build/debug
SANITIZED := build/sanitized
FUZZ   := build/fuzz/engine
SOURCES := $(shell find src -name '*.py')
ENGINE := $(shell find src/headrace -name "*.pyx" -o -name "*.pxd")
READY  := $(VENV)/.ready
MINUTES ?= 5
MEASURED := build/coverage
COVERAGE := COVERAGE_FILE=$(CURDIR)/$(MEASURED)/data $(BIN)/python -m coverage
PYTHON_FLOOR := 95
CYTHON_FLOOR := 90
# What the tests of the compiled parts reach by themselves, for CI.
COMPILED_FLOOR := 89
# The tests of what is compiled.
COMPILED := tests/engine $(addprefix tests/client/test_,columns.py flight.py store_directory.py) \
	$(addprefix tests/bench/test_,histogram.py load.py load_rates.py stream_load.py) \
	tests/spark/payload/test_json_decoder.py
# Three tests at a time even on two cores, because half of their time they wait; all of one file one after another.
# The order is that of tests/conftest.py, and not by the number of tests in a file: those with few take longest.
TOGETHER := -n 3 --dist loadfile --no-loadscope-reorder

export PIP_CONSTRAINT := $(CURDIR)/constraints.txt
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Where it is set, as in many containers, each of the thousand servers and commands that the tests start compiles the
# whole package again, and each worker all tests: a third of a start.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo test test-slow test-long test-debug test-sanitized test-delayed test-pythons test-newest-python test-sparks coverage fuzz soak lint format bench bench-long dist clean

help:  ## this list
	@sed -n 's/^\([a-z-]*\):.*##/\1\t/p' Makefile | expand -t 20

$(READY): pyproject.toml setup.py constraints.txt $(ENGINE)
	@echo "Setting up $(VENV) and building the engine (a few minutes the first time) ..."
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install -q -e '.[dev]'
	@touch $@

# A second build of the engine, with bounds checks, asserts and counts of lines.
$(DEBUG)/.ready: $(READY) $(ENGINE) $(SOURCES)
	@test build/base-debug -nt setup.py || rm -rf build/base-debug
	@rm -rf $(DEBUG) build/base-debug/lib*
	@HEADRACE_ENGINE_DEBUG=1 $(BIN)/python -m pip install -q --no-deps --target $(DEBUG) .
	@touch $@

# A third build, with AddressSanitizer and UndefinedBehaviorSanitizer, in a copy of the package.
$(SANITIZED)/.ready: $(READY) $(ENGINE) $(SOURCES)
	@rm -rf $(SANITIZED)
	@HEADRACE_ENGINE_SANITIZE=1 $(BIN)/python -m pip install -q --no-deps --target $(SANITIZED) .
	@touch $@

# With both, and with counters that tell libFuzzer what an input reached.
$(FUZZ)/.ready: $(READY) $(ENGINE) $(SOURCES) tests/fuzz/trace.h
	@rm -rf $(FUZZ)
	@HEADRACE_ENGINE_FUZZ=1 $(BIN)/python -m pip install -q --no-deps --target $(FUZZ) .
	@touch $@

demo: $(READY)  ## orders through server and Spark into tables, a kill in the middle, and a reconciliation
	@$(BIN)/python -m examples.demo

test: $(READY)  ## the tests, in about ten minutes on two cores
	$(BIN)/python -m pytest -q $(TOGETHER)

test-slow: $(READY)  ## what it has no time for: other formats and servers for Spark, the demo, docs
	$(BIN)/python -m pytest -q $(TOGETHER) -m "slow and not long"

test-debug: $(DEBUG)/.ready  ## the engine's tests against its debug build; at least COMPILED_FLOOR % of its lines must run
	@find build/base-debug -name '*.gcda' -delete
	PYTHONPATH=$(CURDIR)/$(DEBUG) $(BIN)/python -m pytest -q $(TOGETHER) $(COMPILED)
	@$(BIN)/python -m tests.compiled_coverage --floor $(COMPILED_FLOOR)

# All tests with the debug build, which counts lines of Cython, under coverage, which counts those of Python,
# in every process that they start. Both slow the tests down, so they have more time; those that judge CPU time
# or failing allocations would judge the measurement, and are left out.
coverage: $(DEBUG)/.ready  ## branch coverage of Python and line coverage of Cython; details in build/coverage
	@rm -rf $(MEASURED) && mkdir -p $(MEASURED)
	@find build/base-debug -name '*.gcda' -delete
	PYTHONPATH=$(CURDIR)/$(DEBUG) $(COVERAGE) run -m pytest -q $(TOGETHER) -m "not long" --timeout=300 \
		--deselect tests/adversity/test_stalls.py --deselect tests/engine/core/test_hub_out_of_memory.py
	@$(COVERAGE) combine -q
	@rm -f $(MEASURED)/data.*  # of processes that were killed while they wrote
	@$(COVERAGE) report --show-missing --skip-covered > $(MEASURED)/python.txt
	@$(BIN)/python -m tests.compiled_coverage --missing > $(MEASURED)/cython.txt
	@$(BIN)/python -m tests.compiled_coverage --floor $(CYTHON_FLOOR)
	@echo "Python: $$($(COVERAGE) report --format=total) % of lines and branches ran (floor: $(PYTHON_FLOOR) %)"
	@$(COVERAGE) report --format=total --fail-under=$(PYTHON_FLOOR) > $(MEASURED)/total.txt

test-pythons: $(READY)  ## quick tests with Python 3.12, 3.13 and 3.14, those that are installed
	@$(BIN)/python -m tests.versions pythons

test-newest-python: $(READY)  ## the same with the newest of them alone
	@$(BIN)/python -m tests.versions newest-python

test-sparks: $(READY)  ## the main tests of Spark with the oldest and the newest PySpark that pyproject.toml allows
	@$(BIN)/python -m tests.versions sparks

test-sanitized: $(READY)  ## the tests of engine, streams and faults under the sanitizers of memory and undefined behavior
	@$(BIN)/python -m tests.sanitizers --check
	@$(MAKE) --no-print-directory $(SANITIZED)/.ready
	$(BIN)/python -m tests.sanitizers $(TOGETHER) tests/engine tests/adversity tests/streams

test-delayed: $(READY)  ## the tests, while system calls return late and processes stand still: what needs a quiet machine fails
	$(BIN)/python -m tests.delays -q $(TOGETHER)

test-long: $(READY) $(FUZZ)/.ready  ## the tests that run for minutes, and the fuzzers for hours
	$(BIN)/python -m pytest -m long
	$(BIN)/python -m tests.fuzz

fuzz: $(READY) $(FUZZ)/.ready  ## the fuzzers alone: FUZZERS="protocol client" RUNS=100000 for some of them, and less
	$(BIN)/python -m tests.fuzz $(FUZZERS) $(if $(RUNS),--runs $(RUNS))

soak: $(READY)  ## kills, full disks and purges for MINUTES, with a checker and a page: build/soak/report.html
	@$(BIN)/python -m tests.soak --minutes $(MINUTES)

lint: $(READY)  ## ruff and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(READY)  ## let ruff rewrite what it can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(READY)  ## headrace compared with nats-server, alternating rounds, as ratios; then Spark
	$(BIN)/python -m benchmarks
	$(BIN)/python -m benchmarks.spark
	$(BIN)/python -m benchmarks.spark.pipeline

bench-long: $(READY)  ## the same with ten million stored messages (minutes)
	$(BIN)/python -m benchmarks --long

dist: $(READY)  ## sdist and wheel of this Python in dist/; for the wheels of all: cibuildwheel, see docs/deploy.md
	@rm -rf dist
	$(BIN)/python -m build --outdir dist .

clean:  ## remove everything that make made
	rm -rf $(VENV) build dist src/*.egg-info $(shell find src/headrace -name "*.so")
