# The two commands that do everything on a fresh Debian 12 or Ubuntu 24.04 machine, installs included:
#
#     make demo     a plan for a real graph on four devices
#     make check    the tests
#
# The rest:  make (build/release/stowage)  make bench  make check-all  make coverage  make fuzz  make format  make docs  make install
#
# CMake does the work; this file only knows the order of things.

SHELL := /bin/bash
PREFIX ?= /usr/local
JOBS ?= $(shell nproc)
BIN := build/release/stowage

.PHONY: all venv demo check check-all check-style tidy bench tables coverage fuzz format docs install setup setup-all clean

all: setup
	cmake --preset release >/dev/null
	cmake --build --preset release -j $(JOBS)

# Installs only what is missing, after saying what and why; NO_INSTALL=1 only names it.
setup:
	@scripts/setup.sh
setup-all:
	@scripts/setup.sh all

# Packages of other people that some tests compare with.
venv: setup
	@scripts/venv.sh

demo: all
	@echo; echo '$$ stowage inspect data/graphs/gnmt-4.json.gz'; $(BIN) inspect data/graphs/gnmt-4.json.gz
	@echo; echo '$$ stowage optimize data/graphs/gnmt-4.json.gz --machine h200x4 --budget 10s -o build/gnmt-4.plan.json \'
	@echo '      --trace build/gnmt-4.trace.json'
	@$(BIN) optimize data/graphs/gnmt-4.json.gz --machine h200x4 --budget 10s -o build/gnmt-4.plan.json \
	    --trace build/gnmt-4.trace.json
	@echo; echo 'build/gnmt-4.plan.json has a device, a priority and a group for every op (docs/formats/plan.md); to evaluate it again:'
	@echo '    $(BIN) simulate data/graphs/gnmt-4.json.gz --plan build/gnmt-4.plan.json'
	@echo 'build/gnmt-4.trace.json is its timeline: open it in ui.perfetto.dev or chrome://tracing.'

check: venv all check-style
	cmake --preset sanitize >/dev/null
	cmake --build --preset sanitize -j $(JOBS)
	scripts/run_tests.sh build/sanitize build/release

check-style: setup
	python3 scripts/check_includes.py
	python3 scripts/check_unused.py
	python3 scripts/check_paths.py
	python3 scripts/mutate_sim.py --check
	python3 scripts/check_ops.py data/graphs/*.json.gz
	scripts/format.sh --check

# What takes longer: threads, SimGrid, Chromium, long random tests, fuzzing of every reader.
check-all: setup-all check tidy
	scripts/check_all.sh

tidy: setup-all all
	clang-tidy -p build/release --quiet $$(git ls-files 'src/*.c' 'cli/*.c')

bench: all
	build/release/bench/bench_sim
	build/release/bench/bench_methods
	build/release/bench/bench_moves
	build/release/bench/bench_nn
	build/release/bench/bench_policy
	build/release/bench/fit_costs

# The tables of README and docs/results.md: about half an hour, on an otherwise idle machine.
tables: all
	for table in readme paper all memory quality; do bench/tables.py $$table || exit 1; done

coverage: setup-all
	cmake --preset coverage >/dev/null
	cmake --build --preset coverage -j $(JOBS)
	ctest --test-dir build/coverage --output-on-failure -j $(JOBS)
	gcovr --root . --filter src/ --filter cli/ --object-directory build/coverage --print-summary

fuzz: setup-all
	scripts/fuzz.sh 60

format:
	scripts/format.sh

docs: all
	scripts/make_man.sh $(BIN)

install: all
	cmake --install build/release --prefix $(PREFIX)

clean:
	rm -rf build
