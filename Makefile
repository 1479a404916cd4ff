# Every target that people use. `make help` lists them.
SHELL := /bin/bash
# The Python of .venv, else the first that runs: 3.11 is tested most, and 3.13 makes no candidates for ONNX Runtime and OpenVINO.
PYTHON ?= $(or $(call supported,$(shell sed -n 's/^executable = //p' .venv/pyvenv.cfg 2>/dev/null)),$(call supported,python3.11),\
	$(call supported,python3.12),$(call supported,python3.13),python3)
supported = $(if $(filter 3.11 3.12 3.13,$(call minor,$(1))),$(1))
minor = $(if $(1),$(shell $(1) -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null))
BIN := .venv/bin
UNTIL ?= accept
DEVICE ?= $(if $(wildcard .venv/gpu),gpu,cpu)
RUNTIME ?= $(if $(filter file,$(origin DEVICE)),$(if $(wildcard .venv/cuda),cuda))
BUILD = $(if $(filter cuda,$(RUNTIME)),cuda,$(DEVICE))
OTHER_BUILD = $(wildcard $(filter-out .venv/$(BUILD),.venv/cpu .venv/gpu .venv/cuda))
BASE_IMAGE ?= python:$(call minor,$(BIN)/python)-slim
ANOTHER_PYTHON = $(filter-out $(call minor,$(PYTHON)),$(call minor,$(BIN)/python))
comma := ,
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | awk -F'\t' '{printf "  make %-20s %s\n", $$1, $$2}'

setup: .venv/$(BUILD) ## make .venv with everything, pinned: [PYTHON=python3.12] [RUNTIME=cuda, ONNX Runtime for NVIDIA GPUs] [DEVICE=gpu PADDLE_INDEX=address of Paddle's own wheels, Paddle for GPUs]
.venv/$(BUILD): pyproject.toml constraints.txt $(if $(filter-out file,$(origin PYTHON)),$(if $(ANOTHER_PYTHON),another-python))
	@[ "$(DEVICE)" = cpu ] || [ "$(DEVICE)" = gpu ] || { echo "error: DEVICE must be cpu or gpu (got '$(DEVICE)')" >&2; exit 2; }
	@[ -z "$(RUNTIME)" ] || [ "$(RUNTIME)" = cuda ] || { echo "error: RUNTIME must be cuda or empty (got '$(RUNTIME)')" >&2; exit 2; }
	@[ "$(BUILD)" != cuda ] || [ "$(origin DEVICE)" = file ] || [ "$(DEVICE)" = cpu ] || { echo "error: RUNTIME=cuda comes with Paddle for CPUs: leave DEVICE=$(DEVICE) out" >&2; exit 2; }
	@[ -n "$(call supported,$(PYTHON))" ] || { echo "error: $(PYTHON) $(if $(call minor,$(PYTHON)),is Python $(call minor,$(PYTHON))$(comma) which is not supported,does not run): install Python 3.11, 3.12 or 3.13 with its venv module, or run make setup PYTHON=..." >&2; exit 4; }
	@echo "setting up .venv with Python $(call minor,$(PYTHON))"
	@$(PYTHON) -m venv $(if $(OTHER_BUILD)$(ANOTHER_PYTHON),--clear) .venv
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt uv
	@$(BIN)/python -m uv pip install --quiet --python $(BIN)/python --compile-bytecode -c constraints.txt $(if $(PADDLE_INDEX),--index $(PADDLE_INDEX)) -e '.[$(BUILD),dev]'
	@touch $@
another-python: # no file, so .venv is made again

engine: ## start a Docker engine, or use one that already runs; installs it if needed
	@infra/engine.sh start

engine-stop: ## stop the engine that `make engine` started
	@infra/engine.sh stop

pipeline: setup ## run the pipeline from data to image: [PARAMS=file laid over params.yaml] [UNTIL=stage]
	@if [ "$(UNTIL)" = accept ] || [ "$(UNTIL)" = package ]; then \
		infra/engine.sh start >/dev/null && infra/base_image.sh $(BASE_IMAGE) || true; fi
	@$(BIN)/paddleship run --until $(UNTIL) $(if $(PARAMS),--params $(PARAMS))

ci: no-stale-report setup ## what a CI job runs: the pipeline if something changed, and reports/ci.md: [UNTIL=stage] [DEPLOYMENT=name] [FORCE=1]
	@if [ -z "$(DEPLOYMENT)" ] && { [ "$(UNTIL)" = accept ] || [ "$(UNTIL)" = package ]; }; then \
		infra/engine.sh start >/dev/null && infra/base_image.sh $(BASE_IMAGE) || true; fi
	@$(BIN)/paddleship ci --until $(UNTIL) $(if $(DEPLOYMENT),--deployment $(DEPLOYMENT)) $(if $(FORCE),--force)

no-stale-report: # of an earlier job in the same workspace, also if setup fails
	@rm -f reports/ci.md

ui: setup ## start Prefect's and MLflow's pages on loopback: [PREFECT_PORT=4200] [MLFLOW_PORT=5000]
	@$(BIN)/paddleship ui

worker: setup ## run a worker for the deployments of a work pool, in the foreground: [POOL=name] [LIMIT=runs at a time]
	@$(BIN)/paddleship worker $(if $(POOL),--pool $(POOL)) $(if $(LIMIT),--limit $(LIMIT))

stop: setup ## stop what `make ui` started
	@$(BIN)/paddleship stop

stack: setup ## start Prefect and MLflow on PostgreSQL, an object store, an image registry and a worker: [ACTION=up|down|status|remove|backup|restore] [BACKUP=folder]
	@PYTHON=$(BIN)/python infra/stack.sh $(or $(ACTION),up) $(if $(BACKUP),'$(BACKUP)')

test: setup ## run the test suite; starts a Docker engine if there is none: [LONG=1] [TESTS=paths]
	@infra/engine.sh start >/dev/null && infra/base_image.sh $(BASE_IMAGE)
	@$(BIN)/pytest -n 3 --dist loadfile --no-loadscope-reorder $(if $(LONG),--long) $(TESTS)

zoo: setup ## run the doctor on models with known traps and on real ones, and files of weights to their image: [SHORT=1] [NAMES='traps Gated files']
	@SHORT=$(SHORT) $(BIN)/python -m benchmarks.zoo $(NAMES)

compare-graph-modes: setup ## benchmark eager and static graphs of Paddle and PyTorch on this machine: [FULL=1] [TORCH_SITE=folder]
	@$(BIN)/paddleship run --until prepare
	@$(BIN)/paddleship compare-graph-modes $(if $(FULL),--full) $(if $(TORCH_SITE),--torch-site $(TORCH_SITE))

train-image: setup ## build paddleship/train, the image for the Docker work pool: [BASE_IMAGE=python:3.11] [EXTRAS=torch]
	@BASE_IMAGE=$(if $(filter file,$(origin BASE_IMAGE)),,$(BASE_IMAGE)) infra/train_image.sh

pipeline-bench: setup ## measure what DVC, Prefect and MLflow add to the bare stages: [SHORT=1]
	@SHORT=$(SHORT) $(BIN)/python -m benchmarks.pipeline

parity-bench: setup ## inject faults into exports and images, and count missed faults and false alarms: [SHORT=1]
	@infra/engine.sh start >/dev/null && infra/base_image.sh $(BASE_IMAGE)
	@SHORT=$(SHORT) $(BIN)/python -m benchmarks.faults

gpu-wheels: setup ## collect the wheels for `make gpu-check` on a machine without network, in parts of 60 MB: [WHEELS=.gpu-wheels] [FOR_PYTHON=3.12] [WITHOUT=nvidia-]
	@$(BIN)/python -m benchmarks.gpu.wheels $(or $(WHEELS),.gpu-wheels) --python $(or $(FOR_PYTHON),3.12) $(if $(WITHOUT),--without $(WITHOUT))

gpu-check: ## what only an NVIDIA GPU can prove, with .venv or, on a bare machine, with the parts of `make gpu-wheels`: [WHEELS=folder] [NAMES='lstm textcnn']
	@$(or $(if $(WHEELS),python3),$(wildcard $(BIN)/python),python3) -m benchmarks.gpu $(if $(WHEELS),--wheels $(WHEELS)) $(NAMES)

serve-bench: setup ## a candidate's requests/s over HTTP, beside other servers, a constant on its stack and the candidate in process: [SHORT=1] [CANDIDATE=folder] [PEERS=MLServer,LitServe]
	@SHORT=$(SHORT) CANDIDATE=$(CANDIDATE) $(if $(PEERS),PEERS="$(PEERS)") $(BIN)/python -m benchmarks.serve

image-bench: setup ## size, start and repackaging of the images of two candidates: [SHORT=1] [CANDIDATES='onnxruntime paddle']
	@infra/engine.sh start >/dev/null && infra/base_image.sh $(BASE_IMAGE)
	@SHORT=$(SHORT) CANDIDATES="$(CANDIDATES)" $(BIN)/python -m benchmarks.image

image-size: setup ## size by layer, package and library of the image of a candidate that cannot be proven here: [CANDIDATE=onnxruntime-cuda]
	@infra/engine.sh start >/dev/null && infra/base_image.sh $(BASE_IMAGE)
	@$(BIN)/python -m benchmarks.image.unproven $(CANDIDATE)

serve-overload-bench: setup ## what the server answers in time at twice the load that it can answer: [SHORT=1] [CANDIDATE=folder]
	@SHORT=$(SHORT) CANDIDATE=$(CANDIDATE) $(BIN)/python -m benchmarks.serve.overload

serve-soak: setup ## minutes of mixed load on the accepted image's container, every answer compared with eager's: [SHORT=1] [PARAMS=file]
	@SHORT=$(SHORT) PARAMS=$(PARAMS) $(BIN)/python -m benchmarks.serve.soak

bench: setup ## ten models, eager against every candidate, and whether the choice was right: [SHORT=1] [NAMES='textcnn lstm'] [PEERS=1]
	@SHORT=$(SHORT) PEERS="$(PEERS)" $(BIN)/python -m benchmarks.choice $(NAMES)

aa-bench: setup ## check the benchmark's verdicts: a model against itself, and against itself made 10% slower: [SHORT=1]
	@SHORT=$(SHORT) $(BIN)/python -m benchmarks.aa

promote-bench: setup ## promote and roll back under constant load: failed requests, seconds of a rollback: [SHORT=1]
	@infra/engine.sh start >/dev/null && infra/base_image.sh $(BASE_IMAGE) && infra/proxy_image.sh haproxy:2.6
	@SHORT=$(SHORT) $(BIN)/python -m benchmarks.promote

chaos: setup ## break running pipelines on purpose, and check the state after the same command again: [SHORT=1] [NAMES='power-off disk-full']
	@[ -n "$(SHORT)" ] || { infra/engine.sh start >/dev/null && infra/base_image.sh $(BASE_IMAGE); }
	@SHORT=$(SHORT) $(BIN)/python -m benchmarks.chaos $(NAMES)

lint: setup ## ruff
	@$(BIN)/ruff check . && $(BIN)/ruff format --check .

types: setup ## mypy, strict
	@$(BIN)/mypy

contracts: setup ## import contracts
	@$(BIN)/lint-imports

docs: setup ## build the documentation site in docs/_build; a warning, such as a dead link, is an error
	@$(BIN)/sphinx-build --quiet --fail-on-warning --keep-going --builder html docs docs/_build
	@echo "site    docs/_build/index.html"

clean: ## remove .venv and caches; data, models and runs stay
	@rm -rf .venv docs/_build .pytest_cache .ruff_cache .mypy_cache .import_linter_cache *.egg-info

.PHONY: help setup engine engine-stop pipeline ci ui worker stop stack test lint types contracts docs pipeline-bench parity-bench serve-bench serve-overload-bench serve-soak image-bench image-size bench gpu-wheels gpu-check aa-bench promote-bench chaos zoo compare-graph-modes train-image clean
