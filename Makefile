# Every command a developer needs. `make demo` and `make test` work on a fresh clone.
MAKEFLAGS += --no-print-directory
SHELL := /bin/bash
export PATH := $(CURDIR)/.venv/bin:$(PATH)
# Besides their own lists, trust what this machine trusts: it may sit behind a proxy with an authority of its own.
ifneq ($(wildcard /etc/ssl/certs),)
export UV_SYSTEM_CERTS := true
export NODE_USE_SYSTEM_CA := 1
endif
LOCK := uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-emit-find-links --no-header
GROUPS := --group cli --group infra --group local --group dev --group browser
LINT := ruff check && ruff format --check && mypy && MYPYPATH=functions/console mypy functions/console/*.py && cdk synth --quiet --no-notices -c stage=prod -c sender=webhooks@example.com
READY := .venv/.ready

.PHONY: demo up down test integration check campaign soak bench deploy lock setup

demo: setup  ## the whole story on the embedded AWS, ending with a table: lost 0, duplicates 0
	python -m infra.local demo

up: setup  ## the embedded AWS with the stack on it; prints URLs and keys
	python -m infra.local up

down: setup  ## stops what `up` started
	python -m infra.local down

test: setup  ## everything: `check` and `integration`, side by side; each tells when it is done
	$(MAKE) --jobs=2 --output-sync=target check integration

integration: setup  ## integration and browser tests on the embedded AWS
	pytest -m "integration or browser" --durations=10

check: setup  ## ruff, mypy, cdk synth with cdk-nag, and the tests that need nothing but Python
	$(LINT) && PYTHONHASHSEED=0 pytest -n 2 -m "not (integration or browser or bench)"

campaign: setup  ## every call of every function is killed, throttled, and loses its answer; prints the table
	python -m tests.campaign

soak: setup  ## load on an embedded AWS of its own while endpoints fail and functions are killed; SOAK_SECONDS=240
	python -m tests.soak

bench: setup  ## measures; a JSON line for each number with its goal, a table at the end: make bench ARGS="B4 B12"
	python -m tests.bench $(ARGS)

deploy: setup  ## to the AWS account of your credentials: make deploy ARGS="-c stage=prod -c sender=webhooks@example.com"
	cdk deploy $(ARGS)

lock: setup  ## both lock files, from pyproject.toml
	$(LOCK) pyproject.toml $(GROUPS) -o requirements.txt
	$(LOCK) pyproject.toml -c requirements.txt -o layers/dependencies/requirements.txt

setup: $(READY)  ## .venv with Python packages, Node and the CDK

$(READY): requirements.txt pyproject.toml .ci/setup
	@.ci/setup && touch $@
