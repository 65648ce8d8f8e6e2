# Everything runs from here; `make help` lists it. Needs make and Python 3.11 or newer.
# Which Python makes .venv: `make PYTHON=/path/to/python3.12 …`; else the first on PATH that will do.
export PYTHON
# Tests start hundreds of processes: without bytecode each of them would compile all that it imports.
unexport PYTHONDONTWRITEBYTECODE

VENV := .venv
RUN := $(VENV)/bin/python -m
# These make a Celery release; other Celerys in tox take all other pins.
CELERY := ^(amqp|billiard|celery|kombu|redis|vine)==
# Most tests wait for processes; files run beside each other, each group of them on brokers of its own.
ASIDE := -n 6 --dist loadfile --no-loadscope-reorder
# One session of Spark serves them all, and mostly plans, on one core.
SPARK := tests/pipeline
# These measure the order of starts, to a percent: no more of them at a time than there are cores.
FAIRNESS := tests/fairness
BENCHMARKS := scheduler fairness throughput trickle once clients bounds memory scale wake_up crowds profile eventlog groups keys lanes scenarios web
SECONDS ?= 600
EVENTS ?= 1000000
MESSAGES ?= 10000
MINUTES ?= 30
KILLS ?= 1000
WORLDS ?= 10000
SEED ?= 1
RELEASE ?= celery57

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' Makefile

.PHONY: demo
demo: ## an interactive task behind a bulk job: on Celery's worker, then on a fair one
	@scripts/environment.sh demo
	@$(RUN) celery fair demo

# Many brokers on few cores: none may spin while it waits for work, nor wake another core for it.
test test-wide: export RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS := +sbwt none +sbwtdcpu none +sbwtdio none +S 1:1

.PHONY: test
test: environment brokers spark ## lint, and the tests
	@$(RUN) tests.brokers.lent $(MAKE) --no-print-directory -j 2 test-spark test-workers

# While Spark computes on one core: that is one process beside many, and would else be the last to end.
# Not nicer than that: beside somebody else's load these would get next to nothing.
.PHONY: test-workers
test-workers: environment brokers
	@nice -n 5 $(MAKE) --no-print-directory -j 4 lint test-core test-older test-compiled
	@nice -n 5 $(MAKE) --no-print-directory test-current
	@$(MAKE) --no-print-directory test-fairness

# Each of the processes beside each other imports all tests: once they are rewritten and compiled, in
# a third of the time.
.PHONY: test-compiled
test-compiled: environment
	@$(RUN) pytest -qq --collect-only -m "not wide" $(addprefix --ignore=,tests/core $(FAIRNESS) $(SPARK)) >/dev/null

.PHONY: test-costs
test-costs: environment ## the tests, and what each file of them costs of the processors
	@rm -rf var/costs
	@CELERY_FAIR_TEST_COSTS=$(CURDIR)/var/costs $(MAKE) --no-print-directory test
	@$(RUN) tests.costs var/costs

.PHONY: lint
lint: environment ## style, types and layers
	$(RUN) ruff check .
	$(RUN) ruff format --check .
	$(RUN) mypy
	$(VENV)/bin/lint-imports --no-logo
	$(VENV)/bin/python scripts/foreign_assignments.py
	$(VENV)/bin/python scripts/size.py

.PHONY: test-core
test-core: environment ## the algorithms, every branch of them
	$(RUN) coverage erase
	$(RUN) coverage run -m pytest -q -n 2 tests/core
	$(RUN) coverage combine -q
	$(RUN) coverage report

.PHONY: test-older
test-older: environment brokers ## what depends on Celery's inside, on Celery 5.5 and 5.6
	$(RUN) tox run-parallel -q -p 2 --parallel-no-spinner -e celery55,celery56

.PHONY: test-current
test-current: environment brokers chromium ## all that has workers, on the newest Celery
	$(RUN) pytest -q $(ASIDE) -m "not wide" $(addprefix --ignore=,tests/core $(FAIRNESS) $(SPARK))

.PHONY: test-spark
test-spark: environment brokers spark ## the pipeline
	$(RUN) pytest -q -m "not wide" $(SPARK)

.PHONY: test-fairness
test-fairness: environment brokers ## shares, and that no worker waits without need
	$(RUN) pytest -q -n 2 --dist loadfile -m "not wide" $(FAIRNESS)

.PHONY: test-wide
test-wide: environment brokers spark ## more brokers, Celery 5.5, no fast path; takes minutes
	@$(RUN) tests.brokers.lent $(MAKE) --no-print-directory test-laws test-others test-oldest test-plain

.PHONY: test-laws
test-laws: environment ## the algorithms, with more examples drawn for each law
	CELERY_FAIR_TEST_EXAMPLES=many $(RUN) pytest -q -n 2 tests/core

.PHONY: test-others
test-others: environment
	$(RUN) pytest -q $(ASIDE) -m wide $(addprefix --ignore=,$(FAIRNESS) $(SPARK))
	$(RUN) pytest -q -m wide $(SPARK)
	$(RUN) pytest -q -n 2 --dist loadfile -m wide $(FAIRNESS)

.PHONY: test-oldest
test-oldest: environment
	$(RUN) tox run -q -e celery55 -- -q $(ASIDE) -m "not newest" tests/integration tests/fast_path tests/groups/test_traces.py

.PHONY: test-plain
test-plain: environment brokers ## the tests with workers, without the fast path; takes minutes
	$(RUN) tox run -q -e plain

# RABBITMQ_SERVER and VALKEY_SERVER name servers that the system does not have.
export RABBITMQ_SERVER VALKEY_SERVER
JSON ?= var/matrix.json
.PHONY: test-matrix
test-matrix: environment brokers ## brokers, queues, pools and Celerys, pairwise; takes ten minutes
	$(RUN) tox run-parallel -q --notest --parallel-no-spinner -e celery55,celery56
	$(RUN) tests.matrix --json $(JSON)

.PHONY: test-cluster
test-cluster: environment spark ## the pipeline on a cluster and under spark-submit; takes minutes
	$(RUN) pytest -q tests/apart/test_cluster.py

.PHONY: test-live
test-live: environment brokers spark ## predictions against live runs, with a table; takes ten minutes
	$(RUN) pytest -q -s tests/apart/test_prediction.py

.PHONY: brokers
brokers:
	@scripts/system-packages.sh rabbitmq-server redis-server postgresql mariadb-server libzookeeper-java openjdk-17-jre-headless prometheus

.PHONY: spark
spark: chromium
	@scripts/system-packages.sh openjdk-17-jre-headless rclone

.PHONY: chromium
chromium:
	@scripts/system-packages.sh chromium

.PHONY: docs
docs: environment ## the documentation, in docs/_build/html
	$(RUN) sphinx -W --keep-going -q -b html docs docs/_build/html
	@echo "docs/_build/html/index.html"

.PHONY: package
package: environment ## the wheel and the source archive in dist/, tried in empty environments of each Python here
	@scripts/package.sh

.PHONY: test-celery
test-celery: environment brokers ## what depends on Celery's inside, on one RELEASE=celery55, celery56 or celery57
	$(RUN) tox run -q -e $(RELEASE)

.PHONY: bench
bench: environment ## the benchmarks, each with its table
	@set -e; for name in $(BENCHMARKS); do $(RUN) benchmarks.$$name; done

.PHONY: bench-pipeline
bench-pipeline: environment spark ## Spark on this machine, on clusters, and DuckDB, on EVENTS=1000000
	$(RUN) benchmarks.pipeline --events $(EVENTS)

.PHONY: faults
faults: environment brokers ## the fault matrix, again and again for SECONDS=600
	$(RUN) tests.faults --seconds $(SECONDS)

.PHONY: kills
kills: environment brokers ## KILLS=1000 of who publishes to, works on and keeps keyed queues, at random; takes 20 minutes
	$(RUN) tests.kills --kills $(KILLS) --seed $(SEED)

.PHONY: hostile
hostile: environment brokers ## MESSAGES=10000 hostile messages on each broker; takes minutes
	$(RUN) tests.hostile --messages $(MESSAGES)

.PHONY: soak
soak: environment brokers ## workers among flapping connections for MINUTES=30: nothing that they hold grows
	$(RUN) tests.soak --minutes $(MINUTES)

.PHONY: worlds
worlds: environment spark ## the audit against WORLDS=10000 random worlds whose truth is known; takes minutes
	$(RUN) tests.worlds --worlds $(WORLDS) --seed $(SEED)

.PHONY: mutants
mutants: environment brokers spark ## put faults into a copy, one at a time: a test must notice each; takes half an hour
	@$(RUN) tests.brokers.lent $(RUN) tests.mutants

.PHONY: churn
churn: environment brokers ## workers of groups that come and go at random, for SECONDS=600
	$(RUN) tests.groups --seconds $(SECONDS)

.PHONY: constraints
constraints: environment ## pin today's versions of all that make installs, for each Python from 3.11 on
	$(VENV)/bin/uv pip compile -q --universal --python-version 3.11 --extra dev --no-annotate \
	    --no-header --no-emit-index-url pyproject.toml -o $(VENV)/pins
	grep -vE '$(CELERY)' $(VENV)/pins > constraints.txt
	grep -E '$(CELERY)' $(VENV)/pins > constraints-celery.txt

.PHONY: clean
clean: ## remove what builds and tests leave behind, but not .venv
	rm -rf .tox .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis \
	    .coverage .coverage.* build dist docs/_build var
	find . -name __pycache__ -not -path './$(VENV)/*' -prune -exec rm -rf {} +

.PHONY: environment
environment:
	@scripts/environment.sh dev
