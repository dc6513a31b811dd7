# sparkd: `make demo` shows it working, `make test` proves it. Both set themselves up in .venv.
SHELL := /bin/bash
.DELETE_ON_ERROR:

PYTHON ?= $(firstword $(foreach p,python3.11 python3.12 python3.13 python3.14 python3,$(shell command -v $(p) 2>/dev/null)))
VENV := .venv
BIN := $(VENV)/bin
PYTEST := $(BIN)/pytest
# Two workers for the lab, which waits for engines half of its time, and one for everything else (tests/conftest.py says what
# goes together).
BY_FOLDER := --dist loadscope --no-loadscope-reorder

.PHONY: help demo test test-fast lint lab lab-down bench docs nightly clean

help:
	@echo "make demo      the whole daemon on two local nodes with a simulated engine: a fault, a recovery"
	@echo "make test      every test; as root with the two-node lab (real systemd, sshd, dockerd, vLLM)"
	@echo "make test-fast what needs neither root nor the lab, in three minutes: it leaves out what is marked slow (the demo as"
	@echo "               a person starts it, reloads of a whole daemon, planted secrets, simulations, benchmarks, completion in shells)"
	@echo "make lint      ruff, mypy --strict, import contracts"
	@echo "make lab       start the lab and leave it running (root); make lab-down removes it"
	@echo "make bench     measure what docs/architecture.md promises, as a table and bench-results.json"
	@echo "make docs      write docs/cli.md, checks.md, configuration.md, the manual page and the schemas anew"
	@echo "make nightly   what takes longer than make test"

$(VENV)/.ready: pyproject.toml
	@test -n "$(PYTHON)" || { echo "sparkd needs Python 3.11 or newer: apt-get install python3 python3-venv"; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "$(PYTHON) is older than 3.11; set PYTHON=/path/to/python3.11"; exit 1; }
	@$(PYTHON) -m venv $(VENV) >/dev/null 2>&1 || { rm -rf $(VENV); \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    echo "installing python3-venv"; apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq python3-venv >/dev/null && $(PYTHON) -m venv $(VENV); \
	  else echo "the venv module is missing; as root: apt-get install python3-venv"; exit 1; fi; }
	@echo "setting up $(VENV) (once)"
	@$(BIN)/pip install -q --disable-pip-version-check -e '.[dev]'
	@touch $@

demo: $(VENV)/.ready
	@$(BIN)/sparkd demo

test: $(VENV)/.ready
	$(PYTEST) tests -m "not nightly" -n 3 --durations=30 $(BY_FOLDER)

test-fast: $(VENV)/.ready
	$(PYTEST) tests -m "not lab and not slow and not nightly" -n 2 $(BY_FOLDER)

lint: $(VENV)/.ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

lab: $(VENV)/.ready
	$(BIN)/python -m tests.lab up

lab-down: $(VENV)/.ready
	$(BIN)/python -m tests.lab down
	SPARKD_LAB=2 $(BIN)/python -m tests.lab down

bench: $(VENV)/.ready
	$(BIN)/python -m tests.bench

docs: $(VENV)/.ready
	$(BIN)/python -m tests.docs

nightly: $(VENV)/.ready
	$(PYTEST) tests -m nightly

clean:
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .hypothesis .import_linter_cache
