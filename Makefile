# The one list of tasks. `make demo` and `make test` need only Python 3.11+, make and a package index.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --disable-pip-version-check -q

.PHONY: help demo test lint types arch format check coverage engines engines-smoke examples lab twin bench-attribution bench-cost bench-fleet bench-overhead bench-soak bench-stalls bench-stamps bench-stories bench-wire intervals test-floors clean

help: ## what there is
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

$(VENV)/base: pyproject.toml constraints.txt
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing latscope ..."
	@$(PIP) install -c constraints.txt -e .
	@touch $@

$(VENV)/dev: $(VENV)/base
	@echo "installing the development tools ..."
	@$(PIP) install -c constraints.txt -e '.[openai,anthropic,otel,encodings,analysis,dev]'
	@touch $@

demo: $(VENV)/base ## the main job, with no key: six simulated calls, each split beside its truth
	@$(BIN)/latscope demo

test: $(VENV)/dev ## the tests
	$(BIN)/python -m pytest

test-floors: $(VENV)/dev ## the capture tests with the oldest supported SDKs, in environments of their own
	LATSCOPE_FLOORS=1 $(BIN)/python -m pytest -m floors tests/capture

lint: $(VENV)/dev ## ruff: format and lint
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

format: $(VENV)/dev ## write the format
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

types: $(VENV)/dev ## mypy strict
	$(BIN)/mypy

arch: $(VENV)/dev ## the import contracts
	$(BIN)/lint-imports

twin: $(VENV)/dev ## write latscope/capture's httpx file anew from the httpx2 one
	$(BIN)/python tests/capture/twin.py --write

coverage: $(VENV)/dev ## the tests with the coverage bars: 100 % of the core, 90 % of the rest
	rm -f .coverage .coverage.*
	$(BIN)/python -m coverage run -m pytest -q
	$(BIN)/python -m coverage combine -q
	$(BIN)/python -m coverage report --fail-under=90
	$(BIN)/python -m coverage report --fail-under=100 --include='latscope/units.py,latscope/errors.py,latscope/steps.py,latscope/recording.py,latscope/wire/*,latscope/protocols/*,latscope/timeline/*,latscope/attribution/*,latscope/rules/*'

check: lint types arch test ## what a change must pass

engines-smoke: $(VENV)/dev ## one vLLM, one llama.cpp, one nginx: installed, started, probed
	$(BIN)/python tests/engines/install.py vllm llama nginx collector
	LATSCOPE_ENGINES_REQUIRED=1 $(BIN)/python -m pytest tests/engines -m smoke

engines: $(VENV)/dev ## every test against real engines
	$(BIN)/python tests/engines/install.py all
	LATSCOPE_ENGINES_REQUIRED=1 $(BIN)/python -m pytest tests/engines

lab: $(VENV)/dev ## the lab: real network paths and real proxies (root, Debian packages)
	$(BIN)/python -m tests.lab.install all
	LATSCOPE_ENGINES_REQUIRED=1 $(BIN)/python -m pytest tests/lab

examples: $(VENV)/dev ## docs/examples with LiteLLM, pydantic-ai and LangChain: installed and run
	$(BIN)/python tests/examples/install.py
	LATSCOPE_EXAMPLES_REQUIRED=1 $(BIN)/python -m pytest tests/examples

bench-stamps: $(VENV)/dev ## the hard bounds against a real vLLM's own stamps
	$(BIN)/python tests/engines/install.py vllm
	$(BIN)/python benchmarks/stamps.py

bench-attribution: $(VENV)/dev ## the scoreboard: half B of the lab and a real vLLM, five baselines beside
	$(BIN)/python tests/engines/install.py vllm
	$(BIN)/python -m benchmarks.attribution

bench-stalls: $(VENV)/dev ## injected stalls over a real network path (root): found, and their causes
	$(BIN)/python benchmarks/stalls.py

bench-stories: $(VENV)/dev ## the runbooks over simulated weeks, each with one cause: half B
	$(BIN)/python -m benchmarks.stories

bench-cost: $(VENV)/dev ## what an attribution costs on one core
	$(BIN)/python benchmarks/cost.py

intervals: $(VENV)/dev ## write latscope/attribution/residuals.py anew from half A of the lab
	$(BIN)/python -m benchmarks.intervals --jobs 2

bench-fleet: $(VENV)/dev ## how many calls a second the fleet simulator gets done
	$(BIN)/python benchmarks/fleet.py

bench-overhead: $(VENV)/dev ## what latscope and its peers cost a stream (installs the peers once)
	$(BIN)/python -m benchmarks.overhead

bench-soak: $(VENV)/dev ## 200 streams at once for SECONDS (1800): no leak, no lost call, no altered byte
	$(BIN)/python benchmarks/soak.py $(if $(SECONDS),--seconds $(SECONDS))

bench-wire: $(VENV)/dev ## cost per event of the stream decoder against the number of events
	$(BIN)/python benchmarks/wire.py

clean: ## remove what the tasks made
	rm -rf $(VENV) dist .coverage* .mypy_cache .ruff_cache .pytest_cache .hypothesis
