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
PYTEST := $(BIN)/python -m pytest --numprocesses=$(WORKERS) --dist=loadfile --no-loadscope-reorder --durations=20 --durations-min=8

SOURCES := pyproject.toml setup.py $(shell find src -name '*.py' -o -name '*.pxd' -o -name '*.pyi' -o -name 'py.typed') $(wildcard src/leveret/management/ui/*)
# Interpreted, the data plane is what matters: rooms that only call it, operators' tools and pages meet the compiled one
# alone.
PURE_UNITS := $(wildcard $(addprefix tests/unit/,core queues routing storage session broker operations runtime client))
OPERATORS := $(foreach word,http cli ctl cve metrics pyrabbit2 rabbitmqadmin secrets tools,$(wildcard tests/conformance/test_*$(word)*.py))
PURE_SUITES := $(PURE_UNITS) $(wildcard $(addprefix tests/,property fuzz)) \
	$(filter-out $(OPERATORS),$(sort $(wildcard tests/conformance/test_*.py)))
# What says how RabbitMQ behaves, and so holds for both.
ORACLE_SUITES := tests/contract $(sort $(wildcard tests/conformance/test_http_*.py))
FUZZ_SUITES := $(wildcard $(addprefix tests/,property fuzz))
COMPILED := $(patsubst %.pyi,%.py,$(shell find src -name '*.pyi'))
CHECKED := src tests benchmarks distributions native setup.py

.DEFAULT_GOAL := help
.PHONY: help run install engine engine-test engine-pins simulate test test-compiled test-ui test-spark test-spark-long test-pure test-oracle bench crash client-adversity links-adversity test-clients pipeline pipeline-kills lint format stubs docs fuzz fuzz-asan coverage client-wheel ui ui-shots pins deps-system clean
.DELETE_ON_ERROR:

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: install ## start a broker on 127.0.0.1:5672 (ARGS="--port 5673" to change)
	@exec $(BIN)/leveret serve --host 127.0.0.1 --port 5672 $(ARGS)

engine: $(VENV)/.engine ## build the consensus engine (native/raft) into .venv; needs cargo, Rust 1.85 or newer

install: $(VENV)/.installed ## make .venv with the compiled package and its pinned dependencies

test: ## every test, compiled; with Spark; the suites that also run interpreted; the contract with RabbitMQ as the oracle
	@$(MAKE) --no-print-directory test-compiled
	@$(MAKE) --no-print-directory test-ui
	@# Those of the oracle wait for RabbitMQ most of the time. Each shows what it has to say when it has ended.
	@$(MAKE) --no-print-directory --jobs=2 --output-sync=target test-spark test-oracle
	@$(MAKE) --no-print-directory test-pure

# Where cargo is, the engine is built and its tests run; elsewhere they are skipped and say why.
ENGINE := $(if $(shell command -v cargo),$(VENV)/.engine)
SEEDS ?= 10000
MINUTES ?= 0
simulate: $(VENV)/.installed $(VENV)/.test $(VENV)/.engine ## the consensus under faults, many seeds (SEEDS=10000, or MINUTES=60; ARGS="--first 7")
	$(BIN)/python -m tests.simulation.campaign --seeds $(SEEDS) --minutes $(MINUTES) $(ARGS)

engine-test: $(VENV)/.engine ## the tests of the binding that are written in Rust
	cd native/raft && PATH="$(abspath $(BIN)):$$PATH" CARGO_TARGET_DIR="$(abspath build/engine)" cargo test --locked --no-default-features

test-compiled: $(VENV)/.installed $(VENV)/.test $(VENV)/.dev $(ENGINE) ## every test against the compiled data plane
	$(PYTEST) --ignore=tests/spark --ignore=tests/ui $(ARGS)

test-ui: $(VENV)/.installed $(VENV)/.test ## the web interface in a real browser; needs chromium
	$(BIN)/python -m pytest --numprocesses=2 --dist=loadfile tests/ui $(ARGS)

# A Spark session is a JVM with all cores of its own: two of them at a time are enough. Those that take longest are in
# the first folder, and would come last if files with few tests did.
SPARK_PYTEST := $(BIN)/python -m pytest --numprocesses=2 --dist=loadfile --no-loadscope-reorder tests/spark tests/unit/spark
test-spark: $(VENV)/.installed $(VENV)/.test $(VENV)/.spark ## the data pipeline on a real Spark; needs Java 17
	$(SPARK_PYTEST) $(ARGS)

test-pure: $(VENV)/.installed $(VENV)/.test $(ENGINE) ## the same source interpreted, LEVERET_PURE=1
	LEVERET_PURE=1 $(PYTEST) $(PURE_SUITES) --ignore=tests/fuzz/test_http_fuzz.py $(ARGS)

# Debian keeps the server where only root looks.
test-oracle: $(VENV)/.installed $(VENV)/.test ## the contract suite against RabbitMQ, where that is installed
	@if PATH="$$PATH:/usr/sbin" command -v rabbitmq-server >/dev/null; \
	then LEVERET_CONFORMANCE_TARGET=rabbitmq $(BIN)/python -m pytest $(ORACLE_SUITES) $(ARGS); \
	else echo "no rabbitmq-server here: the contract was checked against Leveret alone"; fi

bench: $(VENV)/.installed ## side by side with RabbitMQ where installed (ARGS="--only small --repeats 1")
	$(BIN)/python -m benchmarks.broker $(ARGS)

crash: $(VENV)/.installed $(VENV)/.test ## 200 kills, 100 power losses, 100 stops, every system call failing, 10,000 flipped bits; as root
	LEVERET_CRASH_CYCLES=200 LEVERET_CRASH_POWER_CYCLES=100 LEVERET_CRASH_STOPS=100 LEVERET_CRASH_FLIPS=10000 LEVERET_CRASH_ENUMERATION=all $(BIN)/python -m pytest --timeout=3600 tests/crash $(ARGS)

client-adversity: $(VENV)/.installed $(VENV)/.test ## the client: faults at every step, 20 kills of the broker, 1,000 reconnects under load
	LEVERET_CLIENT_ADVERSITY=all LEVERET_CLIENT_KILLS=20 LEVERET_CLIENT_RECONNECTS=1000 $(BIN)/python -m pytest --timeout=3600 tests/client/adversity $(ARGS)

links-adversity: $(VENV)/.installed $(VENV)/.test ## shovels and federation: brokers killed and links cut under load
	LEVERET_LINKS_ROUNDS=20 $(BIN)/python -m pytest --timeout=3600 tests/links $(ARGS)

pipeline: $(VENV)/.installed $(VENV)/.spark ## a broker, a day of messages, the jobs of the data pipeline, a report; needs Java 17
	$(BIN)/leveret pipeline demo --lake build/lake $(ARGS)

test-spark-long: $(VENV)/.installed $(VENV)/.test $(VENV)/.spark ## the same with what takes minutes: every way to ship, to plan
	LEVERET_SPARK_LONG=1 $(SPARK_PYTEST) $(ARGS)

pipeline-kills: $(VENV)/.installed $(VENV)/.test $(VENV)/.spark ## 20 kills of driver, workers and broker under each pipeline
	LEVERET_SPARK_LONG=1 LEVERET_PIPELINE_KILLS=20 $(BIN)/python -m pytest --timeout=3600 tests/spark/exactly_once $(ARGS)

# Each client against Leveret, and against RabbitMQ as the control where that is installed. Not part of `make test`.
test-clients: $(VENV)/.installed $(VENV)/.test ## clients in Go, Rust and Java, and taskiq and faststream; says which of go, cargo, javac, mvn is missing
	LEVERET_CLIENTS=1 $(BIN)/python -m pytest tests/clients $(ARGS)

lint: $(VENV)/.run $(VENV)/.test $(VENV)/.dev ## ruff, mypy, import rules
	$(BIN)/ruff check $(CHECKED)
	$(BIN)/ruff format --check $(CHECKED)
	$(BIN)/mypy
	@# Beside a stub mypy reads no .py, unless it is named.
	$(BIN)/mypy --cache-dir=.mypy_cache/compiled $(COMPILED)
	PYTHONPATH=src $(BIN)/lint-imports --no-cache

format: $(VENV)/.dev ## let ruff rewrite what it can
	$(BIN)/ruff check --fix $(CHECKED)
	$(BIN)/ruff format $(CHECKED)

stubs: $(VENV)/.dev ## the type stubs of the compiled modules, from their .py and .pxd
	$(BIN)/python -m distributions.stubs src

docs: $(VENV)/.run ## the tables of docs/configuration.md, from the declarations
	PYTHONPATH=src $(BIN)/python -m leveret.node.config.documentation docs/configuration.md

fuzz: $(VENV)/.installed $(VENV)/.test ## property and fuzz tests with many more examples
	HYPOTHESIS_PROFILE=fuzz $(BIN)/python -m pytest --timeout=3600 $(FUZZ_SUITES) $(ARGS)
	LEVERET_PURE=1 HYPOTHESIS_PROFILE=fuzz $(BIN)/python -m pytest --timeout=3600 $(FUZZ_SUITES) $(ARGS)

fuzz-asan: $(VENV)/.installed $(VENV)/.test ## the compiled parsers under AddressSanitizer and UBSan, built apart; needs gcc with libasan
	$(BIN)/python -m tests.fuzz.sanitizer build/sanitized $(ARGS)

coverage: $(VENV)/.installed $(VENV)/.test $(VENV)/.dev ## lines reached by the interpreted suites
	LEVERET_PURE=1 $(BIN)/coverage run -m pytest $(PURE_SUITES) $(ARGS)
	$(BIN)/coverage report

# Only for those who change it: what is built is in the package, and a test compares.
ui: ui/node_modules/.installed ## build the user interface into src/leveret/management/ui; needs Node 20
	cd ui && npm run --silent build

ui/node_modules/.installed: ui/package.json ui/package-lock.json
	cd ui && npm ci --no-fund --no-audit
	@touch $@

ui-shots: $(VENV)/.installed $(VENV)/.test ## screenshots of every page, light and dark, into build/shots; needs chromium
	$(BIN)/python -m tests.ui.shots build/shots $(ARGS)

# The wheel is built from the source distribution, so that this is known to be complete.
client-wheel: $(VENV)/.build ## leveret-client, the client without the broker, as source and wheel into dist/
	$(BIN)/python -m distributions.client.staging build/client
	@rm -f dist/leveret_client-*; mkdir -p dist
	cd build/client && $(abspath $(BIN))/python -c 'from setuptools.build_meta import build_sdist; build_sdist("$(CURDIR)/dist")'
	$(PIP) wheel --no-index --no-build-isolation --no-deps --wheel-dir dist dist/leveret_client-*.tar.gz

deps-system: ## as root on Debian: the system packages that the tests and the benchmark use
	.ci/run system

clean: ## remove everything that make made
	rm -rf $(VENV) .cache build dist native/raft/Cargo.lock native/raft/target src/*.egg-info .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis .coverage
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
	@rm -rf build/lib*/leveret/management/ui
	@# First by itself, because pip shows nothing of a build; pip then finds all of it compiled.
	@echo "compiling the data plane: about a minute on two cores the first time, later only what has changed"
	@$(BIN)/python setup.py --quiet build_ext
	$(PIP) install --no-index --no-build-isolation --no-deps --force-reinstall .
	@touch $@

# build/engine keeps what is compiled: all 89 crates the first time, later only ours.
NO_CARGO := no cargo here: on Debian 13 apt-get install cargo, on Debian 12 apt-get install cargo-web rustc-web, elsewhere rustup
$(VENV)/.engine: $(wildcard native/raft/*.toml native/raft/*.pyi native/raft/src/*.rs native/raft/build_backend/*.py) requirements/engine.txt $(VENV)/.made
	@command -v cargo >/dev/null || { echo "$(NO_CARGO)"; exit 1; }
	$(PIP) install --require-hashes -r requirements/engine.txt
	@echo "compiling the consensus engine: about a minute on two cores the first time"
	PATH="$(abspath $(BIN)):$$PATH" CARGO_TARGET_DIR="$(abspath build/engine)" $(PIP) install --no-index --no-build-isolation --no-deps --force-reinstall ./native/raft
	@touch $@

# ---- pins: versions and hashes, no addresses

engine-pins: $(VENV)/.made ## take the newest crates that native/raft/Cargo.toml and Rust 1.85 allow into native/raft/pins.toml
	cd native/raft && CARGO_RESOLVER_INCOMPATIBLE_RUST_VERSIONS=fallback cargo update
	$(BIN)/python native/raft/build_backend/lock_file.py pin

UV_COMPILE = $(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes \
	--no-emit-index-url --no-emit-find-links --custom-compile-command "make pins"

pins: $(VENV)/.dev ## take the newest versions that pyproject.toml allows into requirements/*.txt
	@set -e; index="$${PIP_INDEX_URL:-$$($(BIN)/pip config get global.index-url 2>/dev/null || true)}"; \
	if [ -n "$$index" ]; then export UV_DEFAULT_INDEX="$$index"; fi; \
	$(UV_COMPILE) pyproject.toml -o requirements/run.txt; \
	$(UV_COMPILE) --extra test -c requirements/run.txt pyproject.toml -o requirements/test.txt; \
	$(UV_COMPILE) --extra spark --extra declarative -c requirements/test.txt pyproject.toml -o requirements/spark.txt; \
	$(UV_COMPILE) --extra dev -c requirements/test.txt pyproject.toml -o requirements/dev.txt; \
	$(UV_COMPILE) --group clients -o requirements/clients.txt; \
	$(BIN)/python -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["build-system"]["requires"], sep="\n")' \
		| $(UV_COMPILE) -c requirements/test.txt - -o requirements/build.txt; \
	$(BIN)/python -c 'import tomllib; print(*tomllib.load(open("native/raft/pyproject.toml", "rb"))["build-system"]["requires"], sep="\n")' \
		| $(UV_COMPILE) - -o requirements/engine.txt
