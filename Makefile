# Everything runs from here; `make help` lists it. Needs Python >= 3.11 and make.
PYTHON ?= python3
export PYTHON

VENV := .venv
RUN := $(VENV)/bin/python -m
BESIDE := @$(MAKE) --no-print-directory -j 2
STAMP := $(VENV)/.installed
CONSTRAINTS := constraints.txt constraints-celery.txt
PIP := $(RUN) pip --disable-pip-version-check -q
PINNED := $(CONSTRAINTS:%=-c %)
WHEELS := $(VENV)/wheels
# Most tests wait for processes; files run beside each other, each group of them on brokers of its own.
ASIDE := -n 4 --dist loadfile
# One session of Spark serves them all, and mostly plans, on one core.
SPARK := tests/pipeline
TESTS := test-computing test-older test-current test-fairness
# These measure the order of starts, to a percent: no more of them at a time than there are cores.
FAIRNESS := tests/fairness
BENCHMARKS := scheduler fairness throughput trickle once clients memory profile eventlog groups
SECONDS ?= 600
EVENTS ?= 1000000

# A virtual environment knows its own path: one that was moved is made anew.
ifneq ($(shell cat $(STAMP) 2>/dev/null),$(CURDIR))
.PHONY: $(STAMP)
endif

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' Makefile

.PHONY: demo
demo: $(STAMP) ## a fair worker on an in-memory broker, with a live table of shares
	$(RUN) celery fair demo

.PHONY: test
test: $(STAMP) brokers spark ## lint, and the tests
	@$(RUN) tests.brokers.lent $(MAKE) --no-print-directory $(TESTS)

# These compute and hardly wait.
.PHONY: test-computing
test-computing: $(STAMP) brokers spark ## the pipeline's tests, and beside them lint and the algorithms'
	@$(MAKE) --no-print-directory -j 3 test-spark lint test-core

.PHONY: lint
lint: $(STAMP) ## style, types and layers
	$(RUN) ruff check .
	$(RUN) ruff format --check .
	$(RUN) mypy
	$(VENV)/bin/lint-imports --no-logo

.PHONY: test-core
test-core: $(STAMP) ## the algorithms, every branch of them
	$(RUN) coverage erase
	$(RUN) coverage run -m pytest -q -n 2 tests/core
	$(RUN) coverage combine -q
	$(RUN) coverage report

.PHONY: test-older
test-older: $(STAMP) brokers ## what depends on Celery's inside, on Celery 5.5 and 5.6
	$(RUN) tox run-parallel -q -p 2 --parallel-no-spinner -e celery55,celery56

.PHONY: test-current
test-current: $(STAMP) brokers ## all that has workers, on the newest Celery
	$(RUN) pytest -q $(ASIDE) -m "not wide" $(addprefix --ignore=,tests/core $(FAIRNESS) $(SPARK))

.PHONY: test-spark
test-spark: $(STAMP) brokers spark ## the pipeline
	$(RUN) pytest -q -m "not wide" $(SPARK)

.PHONY: test-fairness
test-fairness: $(STAMP) brokers ## shares, and that no worker waits without need
	$(RUN) pytest -q -n 2 --dist loadfile $(FAIRNESS)

.PHONY: test-wide
test-wide: $(STAMP) brokers spark ## more brokers and stores, Celery 5.5, no fast path; takes minutes
	@$(RUN) tests.brokers.lent $(MAKE) --no-print-directory test-others test-oldest test-plain

.PHONY: test-others
test-others: $(STAMP)
	$(RUN) pytest -q $(ASIDE) -m wide

.PHONY: test-oldest
test-oldest: $(STAMP)
	$(RUN) tox run -q -e celery55 -- -q $(ASIDE) -m "not newest" tests/integration tests/fast_path tests/groups/test_traces.py

.PHONY: test-plain
test-plain: $(STAMP) brokers ## the tests with workers, without the fast path; takes minutes
	$(RUN) tox run -q -e plain

.PHONY: test-cluster
test-cluster: $(STAMP) spark ## the pipeline on a cluster and under spark-submit; takes minutes
	$(RUN) pytest -q tests/apart/test_cluster.py

.PHONY: test-live
test-live: $(STAMP) brokers spark ## a prediction against a live run; wants an idle machine
	$(RUN) pytest -q tests/apart/test_prediction.py

.PHONY: brokers
brokers:
	@scripts/system-packages.sh rabbitmq-server redis-server postgresql libzookeeper-java openjdk-17-jre-headless

.PHONY: spark
spark:
	@scripts/system-packages.sh openjdk-17-jre-headless chromium

.PHONY: docs
docs: $(STAMP) ## the documentation, in docs/_build/html
	$(RUN) sphinx -W --keep-going -q -b html docs docs/_build/html
	@echo "docs/_build/html/index.html"

.PHONY: bench
bench: $(STAMP) ## the benchmarks, each with its table
	@set -e; for name in $(BENCHMARKS); do $(RUN) benchmarks.$$name; done

.PHONY: bench-pipeline
bench-pipeline: $(STAMP) spark ## Spark on this machine, on clusters, and DuckDB, on EVENTS=1000000
	$(RUN) benchmarks.pipeline --events $(EVENTS)

.PHONY: faults
faults: $(STAMP) brokers ## the fault matrix, again and again for SECONDS=600
	$(RUN) tests.faults --seconds $(SECONDS)

.PHONY: churn
churn: $(STAMP) brokers ## workers of groups that come and go at random, for SECONDS=600
	$(RUN) tests.groups --seconds $(SECONDS)

.PHONY: constraints
constraints: ## pin today's versions of what make installs; with the oldest Python, see the script
	$(PYTHON) scripts/pin_versions.py

.PHONY: clean
clean: ## remove what builds and tests leave behind, but not .venv
	rm -rf .tox .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis \
	    .coverage .coverage.* build dist docs/_build var
	find . -name __pycache__ -not -path './$(VENV)/*' -prune -exec rm -rf {} +

$(STAMP): pyproject.toml $(CONSTRAINTS)
	@$(PYTHON) -c 'import sys; v = "%d.%d" % sys.version_info[:2]; \
	    sys.exit(None if sys.version_info >= (3, 11) else \
	    "Python >= 3.11 is needed, $(PYTHON) is " + v + ": make PYTHON=/path/to/python3.11 ...")'
	@scripts/system-packages.sh python3-venv
	@if [ -e $(STAMP) ] && [ "$$(cat $(STAMP))" != '$(CURDIR)' ]; then rm -rf $(VENV); fi
	$(PYTHON) -m venv $(VENV)
	$(BESIDE) packages spark-wheel
	$(PIP) install $(PINNED) --find-links $(WHEELS) -e '.[dev]'
	@rm -rf $(WHEELS)
	@echo '$(CURDIR)' > $(STAMP)

.PHONY: packages
packages:
	$(PIP) install $(PINNED) -e '.[tools]'

# Spark comes as source, half a gigabyte of archives: to compress them again takes longest.
.PHONY: spark-wheel
spark-wheel:
	$(PIP) wheel $(PINNED) --no-deps -w $(WHEELS) \
	    --config-settings=--build-option=--compression=stored pyspark
