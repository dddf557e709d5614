# Thin front end: a target is one preset of CMake or one tool. `make help` lists them.
.PHONY: help cpu release asan tsan cuda setup demo test test-all chaos soak fuzz tidy analyze format bench install clean
.DEFAULT_GOAL := cpu
# In the order of writing: `setup` before the build that needs it. The build itself runs in parallel.
.NOTPARALLEL:
MAKEFLAGS += --no-print-directory

jobs := $(shell nproc)
PREFIX ?= /usr/local

help:     ## this list
	@sed -nE 's/^([a-z][a-z -]*): *[^#]*## (.*)/\1|\2/p' Makefile | awk -F'|' '{printf "make %-28s %s\n", $$1, $$2}'

cpu release asan tsan cuda: ## build that preset in build/<preset>; plain make builds cpu
	@cmake --preset $@
	@cmake --build --preset $@ --parallel $(jobs)

setup:    ## install what is missing (Debian, Ubuntu); on a cluster say what is needed
	@tools/setup

demo: setup cpu ## from nothing to a small model trained on real text
	@tools/demo-text data/kjv.txt
	@tools/demo build/cpu data/kjv.txt

test: setup cpu asan ## set up, build, run all tests but the slow ones, plain and with sanitizers
	@ctest --preset cpu --parallel $(jobs) --label-exclude slow
	@ctest --preset asan --parallel $(jobs) --label-exclude slow

test-all: test ## those of test, and the slow ones: all sizes instead of a sample
	@ctest --preset cpu --parallel $(jobs) --label-regex slow

chaos: setup cpu ## ranks killed at every place of a step and of a repair, with a table; about 4 minutes
	@build/cpu/run-chaos matrix

soak: setup cpu ## 2,500 random kills of real ranks, then 200 storms of losses; about half an hour
	@build/cpu/run-chaos soak
	@build/cpu/run-chaos storm

fuzz: setup ## bytes from outside against all that reads them, FUZZ_SECONDS (60) per target
	@tools/fuzz

tidy: setup ## the house rules: arrows, layout, clang-tidy
	@cmake --preset cpu
	@tools/tidy

analyze: setup ## clang's path-sensitive analyzer over the sources, some minutes
	@cmake --preset cpu
	@tools/tidy --only analyze

format:   ## lay out every source file
	@tools/tidy --only format --fix

bench: setup release ## measure: how fast, next to the limits of this machine
	@cmake --build --preset release --parallel $(jobs) --target rhizome-bench bench-engine
	@build/release/rhizome-bench build/bench.json
	@build/release/run-bench-engine build/bench.json

install: release ## install the release preset under PREFIX (DESTDIR is honoured)
	@cmake --install build/release --prefix $(abspath $(PREFIX))

clean:    ## remove everything that was built; .venv, data and runs stay
	@rm -rf build
