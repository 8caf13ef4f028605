# The two commands of the README are `make demo` and `make test`. Each installs what it needs into .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo demo-formats release-demo adopt-demo hostile-demo scale-demo bench bench-fusions bare-machine test lint unit integration exhaustive tool-check zoo corpus mutants onnx-conformance precision fuzz lock docs

# Trains a digit classifier, builds its wheel, installs that into an empty environment and compares with TensorFlow.
demo: $(VENV)/complete
	@$(BIN)/python -m tests.demo

# One network from each format that needs more than TensorFlow, to a prediction in an environment without any framework.
demo-formats: $(VENV)/complete
	@$(BIN)/python -m tests.demo.formats

# Two models through a whole release: source distributions for all platforms, cibuildwheel in a container, audits, a
# package index, a static index, pip. Needs root, podman, runc and mmdebstrap.
release-demo: $(VENV)/complete
	@$(BIN)/python -m tests.demo.release

# A group's own repository of models, from `modelwheel init` to a prediction out of its catalogue.
adopt-demo: $(VENV)/complete
	@$(BIN)/python -m tests.demo.adopt

# Every attack that is known: hostile models, specs, archives, wheels and callers; what stopped each, and what it left behind.
hostile-demo: $(VENV)/complete
	@$(BIN)/python -m tests.demo.hostile

# Forty models on a cluster whose workers are killed, with a store in S3: in one table and one plot. SCALE="--models 100" for more.
scale-demo: $(VENV)/complete
	@$(BIN)/python -m tests.scale.demo $(SCALE)

# The reference set against other runtimes, which are installed for it. BENCH="--help" lists what can be chosen;
# BENCH="--page" writes docs/benchmarks.md, its plots and README's table; "--page --resume" goes on where that was stopped.
bench: $(VENV)/complete
	@$(BIN)/python -m pip install --quiet --editable ".[all,bench]" --group dev
	@$(BIN)/python -m tests.bench $(BENCH)

# What each fusion is worth: wheels of single layers with and without it, timed in turn.
bench-fusions: $(VENV)/complete
	@$(BIN)/python -m tests.bench.fusions

# README's commands on a Debian that has the packages of README and nothing else. Needs root and mmdebstrap.
bare-machine:
	@$(PYTHON) -m tests.containers.bare_machine 'make unit' 'make demo' \
	  '$(BIN)/python -m pytest -q tests/integration/test_cpp.py -k every_source'

# Style, types, and the tests that a pull request waits for, including those with TensorFlow, compilers and containers. The
# last line says what is left to `make exhaustive`.
test: lint unit integration

# Style and types of Python, C++, and configuration files.
lint: $(VENV)/light
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy --num-workers 2
	$(BIN)/python -m tests.support.lint_template

# The tests that take seconds. They need neither TensorFlow nor a compiler.
unit: $(VENV)/light
	$(BIN)/python -m pytest tests/unit --numprocesses 2 --dist loadfile

# Changed inputs for every parser of what comes from outside; `make unit` tries a few of each. Longer, for one parser, or guided
# by coverage (`pip install atheris`): make fuzz FUZZ="wheel --coverage --seconds 36000"
FUZZ ?= --seconds 3600
fuzz: $(VENV)/light
	$(BIN)/python -m tests.fuzz $(FUZZ)

integration: $(VENV)/complete
	$(BIN)/python -m pytest tests/integration -m "not exhaustive" --numprocesses 2 --dist loadfile --no-loadscope-reorder --durations 25

# What `make integration` leaves out, because it takes longer than a pull request should wait.
exhaustive: $(VENV)/complete
	$(BIN)/python -m pytest tests/integration -m exhaustive --numprocesses 2 --dist loadfile --no-loadscope-reorder

# What a release of modelwheel publishes: built, installed with all that pip installs for it, README's steps run from there.
# MODELWHEEL_DIST=DIR checks the files in DIR.
tool-check: $(VENV)/complete
	$(BIN)/python -m pytest tests/integration/test_tool_package.py

# Compiles the models of tests/models/zoo and writes what became of them into docs/zoo.md.
zoo: $(VENV)/complete
	$(BIN)/python -m tests.models.zoo

# Every model of ONNX's own conformance suite: docs/onnx.md.
onnx-conformance: $(VENV)/complete
	@$(BIN)/python -m tests.conformance

# Whose errors are whose, over the zoo and the published models: docs/precision.md and its plot.
precision: $(VENV)/complete
	$(BIN)/python -m tests.precision

# Overwrites weights of wheels, and writes how many changes are found into docs/mutants.md.
mutants: $(VENV)/complete
	$(BIN)/python -m tests.mutants

# Builds, verifies and times the published models of tests/corpus/models.yaml, and writes docs/corpus.md. Takes hours; what .corpus has
# results of is not done again. CORPUS="--help" lists what can be chosen.
corpus: $(VENV)/complete
	@$(BIN)/python -m pip install --quiet --editable ".[all,bench]" --group dev
	@$(BIN)/python -m tests.corpus $(CORPUS)

# The site of the documentation, with reference pages out of the code, in docs/site.
docs: $(VENV)/complete
	$(BIN)/python -m tests.docs docs/site

# The versions and hashes that the workflows of releases install, for every system, in .github/locks/.
lock: $(VENV)/complete
	$(BIN)/python -m tests.support.lock

# pip would compile what it installs on one core. Not every file that packages have can be compiled.
INSTALL := $(BIN)/python -m pip install --quiet --no-compile
COMPILE := $(BIN)/python -m compileall -qq -j 0 $(VENV)/lib || true

# Everything but TensorFlow and scikit-learn: 1 GB, where those are 2.
$(VENV)/light: pyproject.toml
	@$(call check_machine,2)
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) --upgrade "pip>=25.1"
	$(INSTALL) --editable ".[cross]" --group lint --group unit --group integration
	@$(COMPILE)
	@touch $@

$(VENV)/complete: $(VENV)/light
	@$(call check_machine,6)
	$(INSTALL) --editable ".[all]" --group dev
	@$(COMPILE)
	@touch $@

# Says in one sentence what to install, before anything slow. The argument is free disk space in GB.
define check_machine
command -v $(PYTHON) >/dev/null || { echo "error: there is no $(PYTHON); on Debian and Ubuntu: apt install python3" >&2; exit 1; }; \
PYTHONPATH=pipeline $(PYTHON) -B -m modelwheel.prerequisites $(1)
endef
