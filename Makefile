# Two commands on a fresh machine with Python 3.11 and make: `make demo` and `make test`.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

# A second busy process makes spinning OpenMP threads many times slower.
export OMP_WAIT_POLICY ?= PASSIVE
# Compiled modules are kept: each of the hundreds of processes of the tests would compile them anew.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help install demo docs docs-pictures test coverage test-docs test-all wheel-test fuzz kill lock licences check bench bench-gpu study study-real study-sequences study-views study-dye study-missed study-empty study-questions study-short study-rates study-degraded clean
.DEFAULT_GOAL := help

help: ## Say what there is to make
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/'

# uv installs in seconds what pip takes minutes for; wheels of your own come from PIP_FIND_LINKS.
# Compiled at once: every command would otherwise compile torch anew where Python may not write.
$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt uv
	UV_FIND_LINKS="$(PIP_FIND_LINKS)" $(BIN)/uv pip install --quiet --python $(BIN)/python \
		--compile-bytecode --constraint constraints.txt --editable '.[dev,bench,docs,export,foundation,scale,serve,train]'
	@touch $@

install: $(READY) ## Set up .venv with everything

demo: $(READY) ## The whole way on simulated procedures; ends in a table and demo-out/report.html
	$(BIN)/polyplink demo demo-out

docs: $(READY) ## The documentation as a site in site/, which can be read without a server
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict
	@echo site/index.html

docs-pictures: demo ## Record the outputs and pictures of docs/gallery.md again, from the demo
	$(BIN)/python docs/pictures.py demo-out $$(command -v chromium || command -v chromium-browser)

# A worker has its own part of the files, so that fixtures are made in one worker.
PYTEST := $(BIN)/python -m pytest -n auto --dist worksteal

test: $(READY) ## Run the quick tests on all cores, without those of `make check`
	$(PYTEST) --ignore tests/test_house.py --ignore tests/test_prose.py

coverage: $(READY) ## Run the quick tests and print the share of statements that they execute
	$(PYTEST) --cov src --cov-report term

test-docs: $(READY) ## Run the commands, Python and notebooks of the documentation as written
	$(PYTEST) -m documentation tests/test_docs.py

test-all: $(READY) ## Run all tests, as before a release: those of test-docs and the slow ones too
	$(PYTEST) -m "not study"

fuzz: $(READY) ## Read N mutated files of every kind and print what was neither read nor refused
	POLARS_MAX_THREADS=1 $(BIN)/python -m tests.fuzz --count $(or $(N),100000)

kill: $(READY) ## Kill every verb at each of its file events and compare what it leaves
	KILLS=1 $(BIN)/python -m pytest -m slow -s -k kill tests/cli/test_kills.py tests/cli/test_live.py \
		tests/cli/test_archive.py

wheel-test: $(READY) ## Build the wheel, install it alone into empty environments, and use it there
	.ci/wheel-test $(CURDIR)/$(BIN)/python $(CURDIR)/$(BIN)

lock: $(READY) ## Write requirements.lock: exact versions with hashes of what PyPI has
	UV_FIND_LINKS= $(BIN)/uv pip compile pyproject.toml --quiet --extra all --universal \
		--constraint constraints.txt --generate-hashes --no-emit-index-url --no-emit-find-links \
		--custom-compile-command "make lock" --output-file requirements.lock

licences: $(READY) ## Write docs/reference/licences.md
	$(BIN)/python docs/licences.py

check: $(READY) ## Lint, types, house rules and words
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy -n 2  # worker processes
	$(BIN)/python -m pytest tests/test_house.py tests/test_prose.py

study: $(READY) ## Slow studies: is the simulator as hard as it should be?
	$(BIN)/python -m pytest -m study -s tests/studies

study-real: $(READY) ## Encoders on real frames; DATA="FOLDER --imagenet WEIGHTS ...", see docs/results.md
	$(BIN)/python -m tests.studies.real_frames $(DATA)

study-sequences: $(READY) ## Count real sequences shown in a row; DATA="MIX --empty FOLDER", see docs/results.md
	$(BIN)/python -m tests.studies.sequences_in_a_row $(DATA)

study-views: $(READY) ## What views of one still teach an encoder; DATA="STILLS --weights FILE --real FOLDER ..."
	$(BIN)/python -m tests.studies.views_of_stills $(DATA)

study-dye: $(READY) ## Polyps on dyed mucosa; DATA="STILLS --weights FILE --empty FOLDER"
	$(BIN)/python -m tests.studies.dyed_stills $(DATA)

study-missed: $(READY) ## Polyps that a review reaches and the count misses; DATA="COUNT TRUTH"
	$(BIN)/python -m tests.studies.missed_polyps $(DATA)

study-empty: $(READY) ## False polyps in five minutes without a polyp; DATA="FOLDER"
	$(BIN)/python -m tests.studies.no_polyp $(DATA)

study-questions: $(READY) ## Answers that a review takes, and wrong decisions; DATA="COUNT TRUTH"
	$(BIN)/python -m tests.studies.review_questions $(DATA)

study-short: $(READY) ## Counts of recordings with few views; DATA="FOLDER --weights NAME"
	$(BIN)/python -m tests.studies.short_recordings $(DATA)

study-rates: $(READY) ## Counts from every k-th frame, or compressed; DATA="PROCEDURES ... --every 1 2 4 --crf 35"
	$(BIN)/python -m tests.studies.frame_rates $(DATA)

study-degraded: $(READY) ## Models on compressed, blurred or bordered frames; DATA="FOLDER --detector NAME --weights NAME"
	$(BIN)/python -m tests.studies.degraded_frames $(DATA)

bench: $(READY) ## The hot paths against their rivals, with equal outputs
	$(BIN)/polyplink bench

bench-gpu: $(READY) ## All that a GPU is used for, and where the time of a training step goes
	$(BIN)/polyplink bench step precision simulate --device cuda --json \
		--profile bench-out/step-profile.txt

clean: ## Remove what was built; keeps your data
	rm -rf $(VENV) demo-out .pytest_cache .mypy_cache .ruff_cache .hypothesis .cache dist site
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +
