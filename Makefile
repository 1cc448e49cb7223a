# Every target sets up what it needs; `make` alone lists them.
PYTHON ?= python3
PROFILE ?= laptop
FIGURES ?=
ARGS ?=

# A second MPI beside the environment's, as both have a mpirun.
MPICH := 5.0.2

GPU_PYTHON ?= 3.12
GPU_WHEELS := hydra-core omegaconf pydantic pydantic-core annotated-types typing-inspection pyroute2 msgpack

VENV := .venv
PY := $(VENV)/bin/python
STAMP := $(VENV)/.complete
PARTIAL := $(VENV)/.partial
PIP := $(PY) -m pip install --quiet --disable-pip-version-check --progress-bar off

.DEFAULT_GOAL := help
.PHONY: help setup lock test lint bench faults reproduce-figures gpu-wheels mlflow-ui

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-19s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(STAMP) ## create .venv with everything, pinned (PYTHON=python3); quick when nothing changed
	@echo "setup: $(VENV) is ready"

# $(PARTIAL) marks an installation under way: one that was interrupted starts afresh.
# torch comes first and with its dependencies, held to the lock's versions.
$(STAMP): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo "setup: '$(PYTHON)' is not Python 3.11 or newer; name one: make setup PYTHON=..." >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	  echo "setup: '$(PYTHON)' cannot create environments; install python3-venv" >&2; exit 1; }
	@if [ -e $(PARTIAL) ] || ! $(PY) -m pip --version >/dev/null 2>&1; then \
	  echo "setup: creating $(VENV)"; $(PYTHON) -m venv --clear $(VENV); fi
	@touch $(PARTIAL)
	@echo "setup: installing the pinned packages (minutes on a fresh machine)"
	@$(PIP) --constraint requirements.lock torch
	@$(PIP) --no-deps --requirement requirements.lock
	@$(PIP) --no-deps --no-build-isolation --editable .
	@$(PIP) --no-deps --ignore-installed --prefix .mpich mpich==$(MPICH)
	@echo "setup: compiling the planner and the virtual network"
	@$(PY) -c 'from mlfabric.planning.planner import warm_up; warm_up()'
	@$(PY) -c 'from mlfabric.engines.virtual.fabric import warm_up; warm_up()'
	@rm $(PARTIAL) && touch $(STAMP)

lock: ## pin what .venv holds now: install or upgrade there, run this, commit requirements.lock
	@{ echo '# Everything that make setup installs; refreshed by make lock.'; \
	  $(PY) -m pip list --format=freeze --exclude-editable --exclude pip --exclude mlfabric \
	  | sed 's/+cpu$$//' | LC_ALL=C sort --ignore-case; } > requirements.lock.new
	@mv requirements.lock.new requirements.lock

# Two tests at a time, then those of real ranks and links, which other load would disturb, one by one.
# Status 2: interrupted; 5: ARGS selected none of these.
test: $(STAMP) ## the whole test suite; prints what was skipped, and why (ARGS='-k name')
	@some() { $(PY) -m pytest -q -rs $(ARGS) "$$@"; }; \
	some -n 2 --dist loadfile -m 'not alone'; first=$$?; \
	[ $$first -ne 2 ] || exit 2; \
	some -n 0 -m alone; \
	case "$$first $$?" in "0 0" | "0 5" | "5 0") ;; *) exit 1 ;; esac

lint: $(STAMP) ## formatter, linter, types, import rules
	@$(PY) -m ruff format --check .
	@$(PY) -m ruff check .
	@$(PY) -m mypy
	@$(VENV)/bin/lint-imports

bench: $(STAMP) ## benchmarks; writes results/bench/<name>.json with the ratios they claim (ARGS='scale')
	@$(PY) -m experiments.bench $(ARGS)

faults: $(STAMP) ## randomised faults on the virtual clock and real ranks; writes results/bench/faults.json (ARGS='--virtual 300 --real 24')
	@$(PY) -m experiments.faults $(ARGS)

reproduce-figures: $(STAMP) ## run what the figures need, then draw (PROFILE=smoke|laptop|full|paper FIGURES=fig4,table1)
	@$(PY) -m experiments.reproduce --profile $(PROFILE) $(if $(FIGURES),--figures $(FIGURES))

# For machines with GPUs that reach no registry: what the study needs beside PyTorch and mpi4py.
gpu-wheels: ## collect wheels/ for `python3 -m experiments.gpus --packages wheels` (GPU_PYTHON=3.12)
	@mkdir -p wheels
	@$(PYTHON) -m pip download --quiet --no-deps --only-binary=:all: --python-version $(GPU_PYTHON) \
	  --constraint requirements.lock --dest wheels $(GPU_WHEELS)
	@$(PYTHON) -m pip wheel --quiet --no-deps --wheel-dir wheels \
	  --constraint requirements.lock antlr4-python3-runtime

mlflow-ui: $(STAMP) ## the MLflow UI on the suite's store (ARGS='--port 5001')
	@$(PY) -m experiments.mlflow_ui $(ARGS)
