# `make run` starts a broker, `make test` runs every test; `make help` lists the rest.
# Needs Python 3.11 or newer with venv, gcc and the CPython headers; everything else goes into .venv.
# pip takes packages from whatever index this machine is set up for.

PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/pip --disable-pip-version-check --quiet

# Extra words for `leveret serve`, pytest and the benchmark: make run ARGS="--port 5673".
ARGS ?=

# Most tests wait for something most of the time: a few files of them run side by side.
WORKERS ?= 4
PYTEST := $(BIN)/python -m pytest --numprocesses=$(WORKERS) --dist=loadfile --no-loadscope-reorder

SOURCES := pyproject.toml setup.py $(shell find src -name '*.py' -o -name '*.pxd' -o -name 'py.typed')
# Interpreted, the data plane is what matters: operators' tools and pages meet the compiled one alone.
OPERATORS := $(foreach word,http cli ctl cve metrics pyrabbit2 rabbitmqadmin secrets tools,$(wildcard tests/conformance/test_*$(word)*.py))
PURE_SUITES := $(wildcard $(addprefix tests/,unit property simulation fuzz)) \
	$(filter-out $(OPERATORS),$(sort $(wildcard tests/conformance/test_*.py)))
# What says how RabbitMQ behaves, and so holds for both.
ORACLE_SUITES := tests/contract $(sort $(wildcard tests/conformance/test_http_*.py))
FUZZ_SUITES := $(wildcard $(addprefix tests/,property fuzz))
CHECKED := src tests benchmarks distributions setup.py

.DEFAULT_GOAL := help
.PHONY: help run install test test-compiled test-spark test-spark-long test-pure test-oracle bench crash client-adversity pipeline pipeline-kills lint format docs fuzz coverage client-wheel pins deps-system clean
.DELETE_ON_ERROR:

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: install ## start a broker on 127.0.0.1:5672 (ARGS="--port 5673" to change)
	@exec $(BIN)/leveret serve --host 127.0.0.1 --port 5672 $(ARGS)

install: $(VENV)/.installed ## make .venv with the compiled package and its pinned dependencies

test: ## every test, compiled; with Spark; the suites that also run interpreted; the contract with RabbitMQ as the oracle
	@$(MAKE) --no-print-directory test-compiled
	@# Those of the oracle wait for RabbitMQ most of the time. Each shows what it has to say when it has ended.
	@$(MAKE) --no-print-directory --jobs=2 --output-sync=target test-spark test-oracle
	@$(MAKE) --no-print-directory test-pure

test-compiled: $(VENV)/.installed $(VENV)/.test $(VENV)/.dev ## every test against the compiled data plane
	$(PYTEST) --ignore=tests/spark $(ARGS)

# A Spark session is a JVM with all cores of its own: two of them at a time are enough. Those that take longest are in
# the first folder, and would come last if files with few tests did.
SPARK_PYTEST := $(BIN)/python -m pytest --numprocesses=2 --dist=loadfile --no-loadscope-reorder tests/spark tests/unit/spark
test-spark: $(VENV)/.installed $(VENV)/.test $(VENV)/.spark ## the data pipeline on a real Spark; needs Java 17
	$(SPARK_PYTEST) $(ARGS)

test-pure: $(VENV)/.installed $(VENV)/.test ## the same source interpreted, LEVERET_PURE=1
	LEVERET_PURE=1 $(PYTEST) $(PURE_SUITES) --ignore=tests/fuzz/test_http_fuzz.py $(ARGS)

# Debian keeps the server where only root looks.
test-oracle: $(VENV)/.installed $(VENV)/.test ## the contract suite against RabbitMQ, where that is installed
	@if PATH="$$PATH:/usr/sbin" command -v rabbitmq-server >/dev/null; \
	then LEVERET_CONFORMANCE_TARGET=rabbitmq $(BIN)/python -m pytest $(ORACLE_SUITES) $(ARGS); \
	else echo "no rabbitmq-server here: the contract was checked against Leveret alone"; fi

bench: $(VENV)/.installed ## side by side with RabbitMQ where installed (ARGS="--only small --repeats 1")
	$(BIN)/python -m benchmarks.broker $(ARGS)

crash: $(VENV)/.installed $(VENV)/.test ## 200 kills, 100 power losses, every disk fault, 10,000 flipped bits; as root
	LEVERET_CRASH_CYCLES=200 LEVERET_CRASH_POWER_CYCLES=100 LEVERET_CRASH_FLIPS=10000 $(BIN)/python -m pytest --timeout=3600 tests/crash $(ARGS)

client-adversity: $(VENV)/.installed $(VENV)/.test ## the client: faults at every step, 20 kills of the broker, 1,000 reconnects under load
	LEVERET_CLIENT_ADVERSITY=all LEVERET_CLIENT_KILLS=20 LEVERET_CLIENT_RECONNECTS=1000 $(BIN)/python -m pytest --timeout=3600 tests/client/adversity $(ARGS)

pipeline: $(VENV)/.installed $(VENV)/.spark ## a broker, a day of messages, the jobs of the data pipeline, a report; needs Java 17
	$(BIN)/leveret pipeline demo --lake build/lake $(ARGS)

test-spark-long: $(VENV)/.installed $(VENV)/.test $(VENV)/.spark ## the same with what takes minutes: every way to ship, to plan
	LEVERET_SPARK_LONG=1 $(SPARK_PYTEST) $(ARGS)

pipeline-kills: $(VENV)/.installed $(VENV)/.test $(VENV)/.spark ## 20 kills of driver, workers and broker under each pipeline
	LEVERET_SPARK_LONG=1 LEVERET_PIPELINE_KILLS=20 $(BIN)/python -m pytest --timeout=3600 tests/spark/exactly_once $(ARGS)

lint: $(VENV)/.run $(VENV)/.test $(VENV)/.dev ## ruff, mypy, import rules
	$(BIN)/ruff check $(CHECKED)
	$(BIN)/ruff format --check $(CHECKED)
	$(BIN)/mypy
	PYTHONPATH=src $(BIN)/lint-imports --no-cache

format: $(VENV)/.dev ## let ruff rewrite what it can
	$(BIN)/ruff check --fix $(CHECKED)
	$(BIN)/ruff format $(CHECKED)

docs: $(VENV)/.run ## the tables of docs/configuration.md, from the declarations
	PYTHONPATH=src $(BIN)/python -m leveret.node.config.documentation docs/configuration.md

fuzz: $(VENV)/.installed $(VENV)/.test ## property and fuzz tests with many more examples
	HYPOTHESIS_PROFILE=fuzz $(BIN)/python -m pytest --timeout=3600 $(FUZZ_SUITES) $(ARGS)
	LEVERET_PURE=1 HYPOTHESIS_PROFILE=fuzz $(BIN)/python -m pytest --timeout=3600 $(FUZZ_SUITES) $(ARGS)

coverage: $(VENV)/.installed $(VENV)/.test $(VENV)/.dev ## lines reached by the interpreted suites
	LEVERET_PURE=1 $(BIN)/coverage run -m pytest $(PURE_SUITES) $(ARGS)
	$(BIN)/coverage report

# The wheel is built from the source distribution, so that this is known to be complete.
client-wheel: $(VENV)/.build ## leveret-client, the client without the broker, as source and wheel into dist/
	$(BIN)/python -m distributions.client.staging build/client
	@rm -f dist/leveret_client-*; mkdir -p dist
	cd build/client && $(abspath $(BIN))/python -c 'from setuptools.build_meta import build_sdist; build_sdist("$(CURDIR)/dist")'
	$(PIP) wheel --no-index --no-build-isolation --no-deps --wheel-dir dist dist/leveret_client-*.tar.gz

deps-system: ## as root on Debian: the system packages that the tests and the benchmark use
	.ci/run system

clean: ## remove everything that make made
	rm -rf $(VENV) .cache build dist src/*.egg-info .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis .coverage
	find src -name '*.so' -delete
	find src -name '*.c' -delete
	find src tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +

# ---- what the targets stand on; a stamp is newer than everything it was made from

$(VENV)/.made:
	@test -n "$(PYTHON)" || { echo "no python3 found: install Python 3.11 or newer"; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "$(PYTHON) is older than 3.11"; exit 1; }
	$(PYTHON) -m venv $(VENV) || { echo "no venv module: on Debian, apt-get install python3-venv"; exit 1; }
	@touch $@

$(VENV)/.build $(VENV)/.run $(VENV)/.test $(VENV)/.dev $(VENV)/.spark: $(VENV)/.%: requirements/%.txt $(VENV)/.made
	$(PIP) install --require-hashes -r $<
	@touch $@

# Without build isolation, although that works too (tests/tidy/test_install.py): a Cython that stays where it is
# compiles again only what changed. build/ keeps what is compiled; what has left src/ must not be installed from it.
$(VENV)/.installed: $(SOURCES) $(VENV)/.build $(VENV)/.run
	@for object in $$(find build/lib* -name '*.so' 2>/dev/null); do \
		module=$${object#build/lib*/}; test -e "src/$${module%%.*}.pxd" || rm -f "$$object"; \
	done
	@find build/lib* -name '*.p*' -type f -delete 2>/dev/null || true
	$(PIP) install --no-index --no-build-isolation --no-deps --force-reinstall .
	@touch $@

# ---- pins: versions and hashes, no addresses

UV_COMPILE = $(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes \
	--no-emit-index-url --no-emit-find-links --custom-compile-command "make pins"

pins: $(VENV)/.dev ## take the newest versions that pyproject.toml allows into requirements/*.txt
	@set -e; index="$${PIP_INDEX_URL:-$$($(BIN)/pip config get global.index-url 2>/dev/null || true)}"; \
	if [ -n "$$index" ]; then export UV_DEFAULT_INDEX="$$index"; fi; \
	$(UV_COMPILE) pyproject.toml -o requirements/run.txt; \
	$(UV_COMPILE) --extra test -c requirements/run.txt pyproject.toml -o requirements/test.txt; \
	$(UV_COMPILE) --extra spark --extra declarative -c requirements/test.txt pyproject.toml -o requirements/spark.txt; \
	$(UV_COMPILE) --extra dev -c requirements/test.txt pyproject.toml -o requirements/dev.txt; \
	$(BIN)/python -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["build-system"]["requires"], sep="\n")' \
		| $(UV_COMPILE) -c requirements/test.txt - -o requirements/build.txt
