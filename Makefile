# Each target is something you can type by hand. The virtual environment and the assets are made once.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: run test lint bench bench-quality install install-dev assets browser clean

run: install assets
	@$(BIN)/python app.py

# Two files at a time: the tests compute on one thread each.
test: install-dev assets browser
	@$(BIN)/python -m pytest --numprocesses 2 --dist loadfile --no-loadscope-reorder

lint: install-dev
	@$(BIN)/ruff check . && $(BIN)/ruff format --check .

bench: install-dev assets
	@$(BIN)/python -m benchmarks speed

bench-quality: install-dev assets
	@$(BIN)/python -m benchmarks quality

install: $(VENV)/.run
install-dev: $(VENV)/.dev

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit("Lethe needs Python 3.11 or newer; set PYTHON=python3.11") if sys.version_info < (3, 11) else None'
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); echo "Python's venv is missing; on Debian: apt install python3-venv"; exit 1; }

$(VENV)/.run: requirements.txt | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.txt
	@touch $@

$(VENV)/.dev: requirements.txt requirements-dev.txt | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements-dev.txt
	@touch $@ $(VENV)/.run

assets: | install
	@$(BIN)/python app.py assets fetch --quiet-if-done

# Debian's chromium for the browser tests; without it, or without root, they skip and say why.
browser:
	@if ! command -v chromium >/dev/null; then \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    apt-get update -qq && apt-get install -y -qq chromium fonts-dejavu >/dev/null \
	      || echo "chromium could not be installed: the browser tests will be skipped"; \
	  else echo "chromium is not installed and this user cannot install it: the browser tests will be skipped"; fi; fi

clean:
	rm -rf $(VENV) .pytest_cache .ruff_cache .hypothesis
