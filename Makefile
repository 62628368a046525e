# demo, test, check and bench are the main ones. Each creates the environment it needs.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
DATA ?=
export PIP_DISABLE_PIP_VERSION_CHECK := 1

DEMO_EXTRAS := local,langchain,llama-index
REAL_MODELS := $(if $(ANTHROPIC_API_KEY),langchain-anthropic llama-index-llms-anthropic 'anthropic<2',)

.PHONY: demo test test-lowest test-anthropic1 check bench notebooks clean

demo: $(VENV)/.demo  ## the main job; with DATA=<path to locomo10.json> on real conversations, measured
ifeq ($(DATA),)
	@$(BIN)/python -m demo
else
	@$(BIN)/python -m benchmarks.recall --data "$(DATA)"
endif

test: $(VENV)/.test  ## every test, with the newest releases of what we build on
	$(BIN)/python -m pytest

test-lowest: $(VENV)-lowest/.test  ## every test, with the lowest releases that pyproject.toml allows
	$(VENV)-lowest/bin/python -m pytest

test-anthropic1: $(VENV)-anthropic1/.test  ## the tests of LlamaIndex's Anthropic model, which no newer SDK can run
	ANTHROPIC1=1 $(VENV)-anthropic1/bin/python -m pytest tests/adapters/llama_index/test_planned_anthropic.py

check: $(VENV)/.test  ## lint, format, types, import rules, documentation
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m pytest docs/check_docs.py

notebooks: $(VENV)/.test  ## run the notebooks anew and keep their output
	$(BIN)/python tools/run_notebooks.py --write

BENCHMARKS := recall recall_cost forgetting context_recall tool_cache eviction_traces throughput prompt_cost prefix_stability agent_overhead

bench: $(VENV)/.bench  ## every benchmark; needs DATA=<folder> or TIERED_MEMORY_DATA
	@for name in $(BENCHMARKS); do \
		echo "== $$name"; $(if $(DATA),TIERED_MEMORY_DATA="$(DATA)") $(BIN)/python -m benchmarks.$$name || exit 1; \
	done

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q -U pip

$(VENV)/.demo: pyproject.toml | $(VENV)/bin/python
	@echo "installing tiered-memory[$(DEMO_EXTRAS)] into $(VENV) (once, about a minute)"
	@$(BIN)/python -m pip install -q -e '.[$(DEMO_EXTRAS)]' $(REAL_MODELS)
	@touch $@

$(VENV)/.test: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install -q -e '.[test]'
	@touch $@ $(VENV)/.demo

$(VENV)/.bench: pyproject.toml | $(VENV)/.test
	$(BIN)/python -m pip install -q -e '.[test,bench]'
	@touch $@

$(VENV)-lowest/.test: pyproject.toml
	$(PYTHON) -m venv $(VENV)-lowest
	$(VENV)-lowest/bin/python -m pip install -q -U pip uv
	$(VENV)-lowest/bin/uv pip install -q -p $(VENV)-lowest/bin/python --resolution lowest-direct -e '.[test]' 'pydantic<2.14'
	@touch $@

$(VENV)-anthropic1/.test: pyproject.toml
	$(PYTHON) -m venv $(VENV)-anthropic1
	$(VENV)-anthropic1/bin/python -m pip install -q -U pip uv
	$(VENV)-anthropic1/bin/uv pip install -q -p $(VENV)-anthropic1/bin/python -e '.[llama-index,anthropic]' \
		llama-index-llms-anthropic 'anthropic<2' pytest pytest-asyncio hypothesis
	@touch $@

clean:
	rm -rf .venv* build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
