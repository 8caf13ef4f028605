# The two commands of the README. Each sets up what it needs: a virtual environment with everything in it.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo release-demo test lint fast

# Trains a digit classifier, builds its wheel, installs that into an empty environment and compares with TensorFlow.
demo: $(VENV)/installed
	$(BIN)/python -m tests.demo

# Two models through a whole release: all platforms' source distributions, cibuildwheel in a container, audits, a package
# index, a static index, pip. Needs root, podman, runc and mmdebstrap.
release-demo: $(VENV)/installed
	$(BIN)/python -m tests.demo.release

# Everything: style, types, and all tests, those with TensorFlow, compilers and containers included.
test: lint
	$(BIN)/python -m pytest -n 2 --dist loadfile

# The tests that need seconds.
fast: $(VENV)/installed
	$(BIN)/python -m pytest -m "not slow"

lint: $(VENV)/installed
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

$(VENV)/installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	$(BIN)/python -m pip install --quiet --editable ".[compile,release]" --group dev
	touch $@
