# superopt: `make` lists the targets. Everything runs in .venv, which the first target that needs it creates.

PYTHON  ?= python3
VENV    ?= .venv
BIN     := $(VENV)/bin
JOBS    ?= 2
STAMP   := $(VENV)/.superopt-dev
BENCH   := $(VENV)/.superopt-bench
OPENVINO := $(VENV)/openvino/.superopt-eps
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Thousands of processes import the package in one run of the tests: none shall compile it anew.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-all test-eps versions check rules verify audit bench bench-eps zoo conformance robustness faults

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(STAMP)  ## create .venv with superopt, ONNX Runtime (CPU) and the test tools

# The stamps make set-up happen once, and again only when the declared or pinned packages change.
$(STAMP): pyproject.toml setup.py constraints.txt
	@$(PYTHON) -c 'import sys; v = sys.version_info[:3]; sys.exit(None if (3, 11) <= v < (3, 14) else "$(PYTHON) is Python %d.%d.%d; superopt needs 3.11 to 3.13: make $(or $(MAKECMDGOALS),setup) PYTHON=/path/to/python3.12" % v)'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --editable '.[cpu,dev]' --constraint constraints.txt
	@touch $@

$(BENCH): $(STAMP)
	$(BIN)/python -m pip install --quiet --editable '.[cpu,bench]' --constraint constraints.txt
	@touch $@

# An environment of its own: the distributions of ONNX Runtime overwrite each other.
$(OPENVINO): $(STAMP)
	@test -x $(VENV)/openvino/bin/python || $(PYTHON) -m venv $(VENV)/openvino
	$(VENV)/openvino/bin/python -m pip install --quiet numpy 'onnxruntime-openvino>=1.23'
	@touch $@

demo: $(STAMP)  ## optimise NasRNN and MobileOne-S0, built in code; results in demo_output/
	$(BIN)/python -m scripts.bench.demo

test: $(STAMP)  ## run every test
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal

test-all:  ## run every test under each Python 3.11 to 3.13 found on this machine
	@scripts/test_all.sh $(JOBS)

test-eps: $(OPENVINO)  ## hold the CPU provider and OpenVINO (in .venv/openvino) to the suite of providers
	OPENVINO_PYTHON=$(abspath $(VENV)/openvino/bin/python) $(BIN)/python -m pytest -n $(JOBS) tests/providers tests/approximate/test_elsewhere.py tests/test_deployed.py
	$(BIN)/superopt eps --test cpu
	$(BIN)/superopt eps --test openvino --ep-python $(VENV)/openvino/bin/python

versions: $(STAMP)  ## run tests with the oldest dependencies that are admitted, and with the newest
	@scripts/test_versions.sh $(JOBS) $(BIN)/python

check: $(STAMP)  ## ruff (lint and format), limits of size, clocks, mypy --strict and the import contract
	$(BIN)/ruff check .
	$(BIN)/ruff format --check --quiet .
	$(BIN)/python -m scripts.audit.limits
	$(BIN)/python -m scripts.audit.clocks
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo --no-cache

rules: $(STAMP)  ## list the rule library
	$(BIN)/superopt rules list

verify: $(STAMP)  ## prove every rule whose proof is not on record, and say what is not as it should be
	$(BIN)/superopt verify

audit: $(STAMP)  ## attack prover, certificates and readers: every law anew, mutants, fuzz, names, small instances, forgeries, damaged files
	$(BIN)/superopt verify --anew
	$(BIN)/python -m scripts.audit.mutants
	$(BIN)/python -m scripts.audit.fuzz
	$(BIN)/python -m scripts.audit.names --judge taso_py.prove.prover:prove
	$(BIN)/python -m scripts.audit.expansion
	$(BIN)/python -m scripts.audit.certification
	$(BIN)/python -m scripts.audit.readers

zoo: $(BENCH)  ## export every benchmark network to zoo_models/ (random weights, needs torch)
	$(BIN)/python -m scripts.bench.zoo --all

bench: $(BENCH)  ## optimise the zoo and time it against onnxsim and onnxslim; results in bench_output/
	$(BIN)/python -m scripts.bench.bench

bench-eps: $(BENCH) $(OPENVINO)  ## race our results and OpenVINO on the zoo (ARGS='--budget 1e-2 --out ...': within an error budget, too)
	$(BIN)/python -m scripts.bench.bench --ep auto --ep-python $(VENV)/openvino/bin/python --out bench_eps_output $(ARGS)

conformance: $(STAMP)  ## run the ONNX backend test-suite through the optimiser; results in conformance_output/
	$(BIN)/python -m scripts.audit.conformance

robustness: $(STAMP)  ## put ONNX's, packaged and random models through the command line, and count exit codes; run every state of random ones
	$(BIN)/python -m scripts.audit.states
	$(BIN)/python -m scripts.audit.robustness

faults: $(STAMP)  ## disturb runs at random moments (signals, crashes, no memory, no disk), and look at what they leave
	$(BIN)/python -m scripts.bench.zoo nasrnn
	$(BIN)/python -m scripts.audit.faults zoo_models/nasrnn.onnx
