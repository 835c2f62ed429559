PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready

.PHONY: demo test test-slow lint wheel hooks reproduce tables docs docs-check gallery notebooks lock clean help

help:          ## list the commands
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/'

demo: $(READY) ## a minute: two modes, a model beside NUTS, a report
	$(BIN)/understudy demo

test: $(READY) ## style, then the whole test suite without its slow part
	$(BIN)/ruff check src tests experiments benchmarks docs
	$(BIN)/python -m pytest -n 2 -m "not slow" -q

test-slow: $(READY) ## every test, the long statistical ones included
	$(BIN)/python -m pytest -n 2 -q

lint: $(READY) ## style and types
	$(BIN)/ruff check src tests experiments benchmarks docs
	$(BIN)/ruff format --check src tests experiments benchmarks docs/tools docs/gallery
	$(BIN)/pyright

reproduce: $(READY) ## an experiment of the paper again: make reproduce NAME=mixture PRESET=quick
	$(BIN)/python -m experiments $(NAME) $(if $(PRESET),--preset $(PRESET))

tables: $(READY) ## fill the tables of the documents from the rows in results
	$(BIN)/python -m experiments tables

docs: .venv/.docs ## build the site into site, strictly, and follow every link
	$(BIN)/python -m docs.tools.build

docs-check: docs ## open every page of the site and every report in runs in a browser (needs chromium)
	$(BIN)/python -m docs.tools.browse $(wildcard runs/*/report.html)

gallery: $(READY) ## run the examples of the gallery whose programs changed
	$(BIN)/python -m docs.tools.gallery

notebooks: $(READY) ## write the quickstarts as notebooks
	$(BIN)/python -m docs.tools.notebooks

wheel: $(READY) ## build the wheel into dist
	$(BIN)/python -m pip wheel -q --disable-pip-version-check --no-deps --no-build-isolation -w dist .

hooks: $(READY) ## check style before every commit (needs pre-commit)
	pre-commit install

lock: $(READY) ## write constraints.txt anew from pyproject.toml
	$(BIN)/pip install -q uv
	$(BIN)/uv pip compile -q --universal --fork-strategy fewest --python-version 3.11 --all-extras --no-header --no-annotate --upgrade pyproject.toml -o constraints.txt

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "understudy needs Python 3.11 or newer; set PYTHON=/path/to/python3.11")'
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install -q --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $(READY)

.venv/.docs: $(READY)
	$(BIN)/python -m pip install -q --disable-pip-version-check -c constraints.txt -e '.[docs]'
	touch .venv/.docs

clean:         ## remove the virtual environment and what runs left behind
	rm -rf .venv runs dist build site .pytest_cache .ruff_cache
