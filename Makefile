# Two commands need nothing but Python 3.11, gcc, make, git and the package index: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
DEMO_STORE := $(if $(LOGS),.demo/yours,.demo/sample)
export HF_HUB_OFFLINE ?= 1
# What is used is compiled when it is first used, and kept: not all of every package, nor Helix anew by each process.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help venv demo test soak lint types unit redis chromium notebooks clean

help:
	@echo "make demo [LOGS=path]  ingest the sample (or your logs) and ask three questions"
	@echo "make test              ruff, mypy --strict and every test"
	@echo "make soak              the tests that take long"
	@echo "make notebooks         run the notebooks, and store what they show"
	@echo "make venv              .venv/ with every extra"
	@echo "make clean             remove .venv, .demo and caches"

venv: $(VENV)/.done

$(VENV)/.done: pyproject.toml constraints.txt hatch_build.py $(wildcard helix/native/*.[ch])
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Helix needs Python 3.11 or newer: make venv PYTHON=python3.11"; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing Helix with every extra into $(VENV) (a few minutes the first time)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --constraint constraints.txt --editable '.[all]'
	@touch $@

demo: venv
	@$(BIN)/python -m pipelines.cli.demo --store $(DEMO_STORE) $(LOGS)

# The tests start their own redis-server; only the binary has to be there.
redis:
	@command -v redis-server >/dev/null 2>&1 || bash tests/support/install_redis.sh

# Nor do they bring a browser.
chromium:
	@command -v chromium >/dev/null 2>&1 || command -v chromium-browser >/dev/null 2>&1 || command -v google-chrome >/dev/null 2>&1 || test -n "$$CHROMIUM" || bash tests/support/install_chromium.sh

lint: venv
	@$(BIN)/ruff check . && $(BIN)/ruff format --check .

types: venv
	@$(BIN)/mypy --strict

# A process more than there are cores: some tests wait for processes of their own. A file's tests stay together, for what
# they share. In the order of the files the long ones come first.
unit: venv redis chromium
	@$(BIN)/pytest -n $$($(PYTHON) -c 'import os; print(1 + os.cpu_count())') --dist loadfile --no-loadscope-reorder

# mypy works while the first tests wait for an encoder to be exported.
test: lint redis chromium
	@$(MAKE) --no-print-directory -j 2 types unit

# Fuzzing guided by coverage goes without atheris where there is no build of it. The kernels are compiled anew, with
# sanitisers: the compiler is gcc, with its libasan and libubsan.
soak: venv redis chromium
	-@$(BIN)/python -m pip install --quiet --disable-pip-version-check 'atheris>=2.3'
	@$(BIN)/pytest -m soak

# Figures are read from docs/ anew; a test says when what is stored is not current.
notebooks: venv
	@$(BIN)/python -m notebooks.refresh

clean:
	rm -rf $(VENV) .demo .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
