# Everything that the README names. A fresh machine needs make, Python 3.11 to 3.13 and the package registries.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
PYTEST := $(BIN)/python -m pytest
PROGRAMS := claude_agent_sdk claude_code codex kimi_code langgraph mini_swe_agent openai_agents opencode pi \
	pydantic_ai qwen_code smolagents terminus_2

# Bytecode is worth writing: without it each kernel and server compiles its libraries anew.
unexport PYTHONDONTWRITEBYTECODE
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.DEFAULT_GOAL := help
.PHONY: help env demo demo-smollm2 smollm2 browser terminal programs test test-fast test-real check format soak bench bench-peer docs \
	notebooks clean

help:  ## list what there is to do
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:[^#]*## /\t/' | expand -t 16

env: $(READY)  ## create or bring up to date the environment in .venv

$(READY): pyproject.toml
	@$(PYTHON) -c 'import sys; v = sys.version_info[:2]; (3, 11) <= v <= (3, 13) or sys.exit("Python 3.11 to 3.13 \
	is needed, this is %d.%d; name another one: make PYTHON=python3.12" % v)'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet uv
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --compile-bytecode --editable '.[dev]'
	@touch $@

demo: $(READY)  ## run the quickstart notebook with the embedded model: no download, no key
	@$(BIN)/python scripts/demo.py notebooks/01_quickstart.ipynb

demo-smollm2: $(READY)  ## the same with a real model: SmolLM2-135M-Instruct on vLLM, on this machine's CPU
	@$(BIN)/python scripts/smollm2.py run -- $(BIN)/python scripts/demo.py notebooks/01_quickstart.ipynb

smollm2: $(READY)  ## only set up the real model (2.6 GB of disk)
	@$(BIN)/python scripts/smollm2.py setup

browser:  ## install Chromium where that can be done without a question
	@command -v chromium >/dev/null || scripts/install_debian.sh Chromium chromium fonts-dejavu-core

terminal:  ## install tmux, in which Terminus 2 works, where that can be done without a question
	@command -v tmux >/dev/null || scripts/install_debian.sh tmux tmux

test: test-fast test-real  ## all tests

test-fast: $(READY)  ## units and local servers, in several processes: they wait more than they compute
	@$(PYTEST) -n 4 --dist loadfile

programs: $(READY)  ## install the agent programs that the real tests run (4 GB of disk)
	@-$(BIN)/vfnb harness install $(PROGRAMS)

test-real: $(READY) browser terminal smollm2 programs  ## real browser, real notebooks, real model, real agent programs
	@$(PYTEST) -m real

soak: $(READY)  ## the large counts
	@$(PYTEST) -m soak --timeout 3600

check: $(READY)  ## format, lint, types, layers, links of the documentation
	@$(BIN)/ruff format --check --quiet .
	@$(BIN)/ruff check --quiet .
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(BIN)/python scripts/docs.py --check

format: $(READY)  ## format and mend what ruff can mend
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

bench: $(READY)  ## every row of the performance table: ours, the floor, the peer
	@$(BIN)/python -m benchmarks

bench-peer: $(READY)  ## create the peer's environment, outside the project
	@$(BIN)/python -m benchmarks.peer.setup

docs: $(READY)  ## build/docs: the API reference; fails on a dead link in any page
	@$(BIN)/python scripts/docs.py build/docs

notebooks: $(READY) smollm2  ## run the example notebooks and store their outputs
	@$(BIN)/python scripts/run_notebooks.py notebooks/*.ipynb

clean:  ## remove what was built, environments stay
	@rm -rf build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
