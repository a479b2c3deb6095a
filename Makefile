# SPDX-License-Identifier: MIT
# A small front for Meson. `make help` lists the targets.

MESON ?= meson
PREFIX ?= /usr/local
FUZZ_SECONDS ?= 60
export FUZZ_SECONDS PREFIX

.DEFAULT_GOAL := build
.PHONY: build run test quick sanitize soak chaos tiny check format bench bench-peers plots sweep fuzz install clean help

build: ## build build/mare and build/mare.so
	@tools/build.sh build mare mare.so luaproc.so

run: ## install what is missing, build, and play the tour
	@tools/setup.sh build
	@tools/build.sh build mare mare.so luaproc.so
	@build/mare examples/tour.lua

test: ## install what is missing, build, run every test in every build
	@tools/setup.sh build test
	@tools/suite.sh plain stress tiny asan tsan

quick: ## the tests of the plain build alone
	@tools/setup.sh build test
	@tools/suite.sh plain

tiny: ## the tests of the build with tiny buffers and slices
	@tools/setup.sh build test
	@tools/suite.sh tiny

sanitize: ## the whole suite under ASan+UBSan and under TSan
	@tools/setup.sh build test
	@tools/suite.sh asan tsan tsan-e2e

soak: ## SOAK_SECONDS (600) of each of the random programs under TSan
	@tools/setup.sh build test
	@MARE_STRESS_SECONDS=$${SOAK_SECONDS:-600} tools/suite.sh soak

chaos: ## CHAOS_SECONDS (600) each of nodes, members of etcd and of groups that fail at any moment
	@tools/setup.sh build test
	@MARE_CHAOS_SECONDS=$${CHAOS_SECONDS:-600} tools/suite.sh chaos chaos-etcd chaos-groups

check: ## format, lint, layout rules
	@tools/setup.sh build test check
	@tools/build.sh build
	@tools/check.sh

format: ## rewrite the C code the way make check wants it
	@tools/setup.sh check
	@git ls-files '*.c' '*.h' | xargs -r clang-format -i

bench: ## measure against the floors, and the peers that are installed
	@tools/setup.sh build
	@tools/build.sh build
	@python3 bench/run.py

bench-peers: ## install the peers, then measure
	@tools/setup.sh peers web
	@$(MAKE) --no-print-directory bench

plots: ## measure how it scales, and draw the plots in docs/img
	@tools/setup.sh build
	@tools/build.sh build
	@python3 tools/plot_formulas.py
	@python3 tools/plot_clocks.py
	@python3 bench/scaling.py
	@python3 bench/mechanisms.py

sweep: ## simulate SWEEP_SEEDS (100000) runs of each algorithm, and of links between nodes, with faults
	@tools/setup.sh build
	@tools/build.sh build
	@tools/sweep.sh

fuzz: ## run each fuzz target for FUZZ_SECONDS (60)
	@tools/setup.sh build test
	@tools/fuzz.sh

install: ## install under PREFIX (/usr/local); DESTDIR is honoured
	@$(if $(filter file,$(origin PREFIX)),,test ! -d build || $(MESON) configure build -Dprefix=$(PREFIX))
	@tools/build.sh build
	@$(MESON) install -C build --no-rebuild

clean: ## remove every build folder
	@rm -rf build build-*

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' Makefile
