# Every command installs what it needs from the package index; Python 3.11 or newer, gcc, make and git must be there.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
DEMO_STORE := $(if $(LOGS),.demo/yours,.demo/sample)
export HF_HUB_OFFLINE ?= 1
# Bytecode is written when a module is first imported: --no-compile leaves out what is never imported.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help venv demo check test soak lint types imports quick unit redis chromium firefox notebooks docs page-shots clean

help:
	@echo "make demo [LOGS=path]  ingest the sample (or your logs) and ask three questions"
	@echo "make check             ruff, mypy, import-linter and the quick tests (2 minutes)"
	@echo "make test              the same with every test (8 minutes)"
	@echo "make soak              the long tests, at full strength (hours)"
	@echo "make notebooks         run the notebooks and store their output"
	@echo "make page-shots        the pictures of docs/page/ (OUT=folder: of every view)"
	@echo "make docs              the site of docs/ in site/"
	@echo "make venv              .venv/ with every extra"
	@echo "make clean             remove .venv, .demo and caches"

venv: $(VENV)/.done

$(VENV)/.done: pyproject.toml constraints.txt hatch_build.py $(wildcard helix/native/*.[ch])
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Helix needs Python 3.11 or newer: make venv PYTHON=python3.11"; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing Helix with every extra into $(VENV) (a few minutes the first time)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --constraint constraints.txt --editable '.[all]'
	@touch $@

# The demonstration needs no extra: without .venv/ it takes a light environment, as `pip install helix-recall` gives it.
DEMO_VENV := $(if $(wildcard $(VENV)/.done),$(VENV),.demo/venv)

.demo/venv/.done: pyproject.toml constraints.txt hatch_build.py $(wildcard helix/native/*.[ch])
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Helix needs Python 3.11 or newer: make demo PYTHON=python3.11"; exit 1; }
	@test -x .demo/venv/bin/python || $(PYTHON) -m venv .demo/venv
	@echo "installing Helix into .demo/venv (half a minute the first time)"
	@.demo/venv/bin/python -m pip install --quiet --disable-pip-version-check --no-compile --constraint constraints.txt --editable .
	@touch $@

demo: $(DEMO_VENV)/.done
	@$(DEMO_VENV)/bin/python -m pipelines.cli.demo --store $(DEMO_STORE) $(LOGS)

# The tests start a redis-server of their own; the binary must be installed.
redis:
	@command -v redis-server >/dev/null 2>&1 || bash tests/support/install_redis.sh

# The same for the browser.
chromium:
	@command -v chromium >/dev/null 2>&1 || command -v chromium-browser >/dev/null 2>&1 || command -v google-chrome >/dev/null 2>&1 || test -n "$$CHROMIUM" || bash tests/support/install_chromium.sh

# Not a condition of the tests: they skip those in Firefox where there is no Firefox.
firefox:
	@command -v firefox-esr >/dev/null 2>&1 || command -v firefox >/dev/null 2>&1 || test -n "$$FIREFOX" || bash tests/support/install_firefox.sh || true

# Every view at four widths in light and dark goes to OUT; without OUT, the choice of docs/page/ is drawn again.
page-shots: venv
	@$(BIN)/python -m tests.support.page_shots $(if $(OUT),$(OUT),--docs)

lint: venv
	@$(BIN)/ruff check . && $(BIN)/ruff format --check .

types: venv
	@$(BIN)/mypy --strict

imports: venv
	@found=$$($(BIN)/lint-imports) || { echo "$$found"; exit 1; }

CORES := $(shell getconf _NPROCESSORS_ONLN)

# Tests that share a costly fixture run in one process (tests/support/sharing.py), the longest first.
PYTEST := $(BIN)/pytest --dist loadgroup

QUICK := not (soak or needs_encoder or needs_store or needs_redis or needs_browser or needs_process)

quick: venv
	@$(PYTEST) -n $(CORES) --hypothesis-profile quick -m '$(QUICK)'

check: lint
	@$(MAKE) --no-print-directory -j 3 types imports quick

# Two processes more than cores: some tests wait for processes of their own.
unit: venv redis chromium firefox
	@$(PYTEST) -n $$((2 + $(CORES))) --hypothesis-profile full

test: lint redis chromium firefox
	@$(MAKE) --no-print-directory -j 3 types imports unit

# Encoders are exported again. All tests run on the kernels in NumPy, too, which takes half an hour. Fuzzing guided by
# coverage needs atheris and is skipped where it has no build. The kernels are compiled with sanitisers: the compiler is
# gcc, with its libasan and libubsan.
soak: venv redis chromium firefox
	-@$(BIN)/python -m pip install --quiet --disable-pip-version-check 'atheris>=2.3'
	@rm -rf .cache/tests
	@$(BIN)/pytest --hypothesis-profile soak -m 'soak or hypothesis'
	@HELIX_KERNELS=reference $(PYTEST) -n $(CORES) --hypothesis-profile quick

# Figures are read from docs/; a test fails when the stored output is out of date.
notebooks: venv
	@$(BIN)/python -m notebooks.refresh

# Links and anchors are checked; with --quiet, --strict would see no warning. Then `python -m http.server --directory site`.
docs: venv
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

clean:
	rm -rf $(VENV) .demo site .cache .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
