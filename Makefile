# Perhop: the commands a person types. Needs git, make, a C compiler and Rust.

CARGO ?= cargo
SECONDS ?= 60
SOAK_SECONDS ?= 600
SOAK_HOURS ?= 24
TORTURE_SECONDS ?= 600
TORTURE_POINTS ?= 1000
DEMO_ARGS ?=
PREFIX ?= /usr/local
DESTDIR ?=
BENCH_ARGS ?= --json

# Test inputs that the project does not hold (docs/test-data.md); an absolute path, because tests run elsewhere.
ifndef PERHOP_TEST_DATA
ifneq ($(wildcard ../shared/data),)
export PERHOP_TEST_DATA := $(abspath ../shared/data)
endif
else
export PERHOP_TEST_DATA
endif

PERHOP := target/release/perhop
FUZZ_TARGET := x86_64-unknown-linux-gnu
# Coverage instrumentation of libFuzzer on stable Rust.
FUZZ_FLAGS := -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
	-Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
	-Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=1 --cfg fuzzing

# The published measurements: every scenario but the examples.
SCENARIOS ?= $(basename $(notdir $(wildcard scenarios/*.toml)))

.PHONY: help demo check test scenarios soak bench fuzz fmt release install

help: ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "%-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: release ## calls on a congested link, plain and with Perhop; ends by itself (DEMO_ARGS="--calls 25")
	@$(PERHOP) demo $(DEMO_ARGS)

check: ## quick: format, layers, tidy, lints and tests of what changed
	@$(CARGO) xtask check

test: ## everything: lints, docs, tests, soak; last line "N passed, N failed, N skipped"
	@$(CARGO) xtask ci

scenarios: release ## the published measurements in full, beside the original (SCENARIOS="H-8.1.1 H-8.2"); exit 1: a target is missed
	@$(PERHOP) lab run $(SCENARIOS)

# One after the other: the second watches the memory of its process.
soak: ## long run under changes, a day of virtual time, domains under torture, release build (SOAK_SECONDS=600 SOAK_HOURS=24 TORTURE_SECONDS=600 TORTURE_POINTS=1000)
	PERHOP_SOAK_SECONDS=$(SOAK_SECONDS) $(CARGO) test --release --locked --package perhop-tests soak -- --nocapture --skip soak_day
	PERHOP_SOAK_HOURS=$(SOAK_HOURS) $(CARGO) test --release --locked --package perhop-tests soak_day -- --nocapture
	PERHOP_TORTURE_SECONDS=$(TORTURE_SECONDS) PERHOP_TORTURE_POINTS=$(TORTURE_POINTS) $(CARGO) test --release --locked --package perhop --test cli torture:: -- --nocapture --test-threads 1

# Each sweep varies one thing. A bench that cannot run here (exit 3) says so and does not stop the others.
bench: release ## speed of packet path and simulator, one JSON object a line (needs an otherwise idle machine)
	@failed=0; \
	run() { $(PERHOP) bench "$$@" $(BENCH_ARGS) || { code=$$?; [ $$code -eq 3 ] || failed=$$code; }; }; \
	for flows in 1 1000 100000; do run forward --flows $$flows --filters 1 --packet 64; done; \
	for filters in 100 5000; do run forward --flows 1000 --filters $$filters --packet 64; done; \
	run detection; \
	run allocation; \
	run abr; \
	run change; \
	run change --under-load; \
	if [ -n "$$PERHOP_TEST_DATA" ]; then run classify --rules $$PERHOP_TEST_DATA/classbench/*_10k; fi; \
	run chain; \
	run meter; \
	run schedule; \
	run edge; \
	run flows; \
	run memory; \
	run load; \
	run workers; \
	run tcapi; \
	run ledger; \
	for io in af_packet af_xdp; do \
		run veth --io $$io; \
		run idle --io $$io; \
		run mlffr --io $$io --packet 64 --runs 1; \
	done; \
	run sim; \
	exit $$failed

# Stops at the first crash and leaves its input in out/fuzz. New inputs collect in out/fuzz/NAME beside the seeds of
# fuzz/corpus/NAME; `NAME -merge=1 fuzz/corpus/NAME out/fuzz/NAME` keeps those that reach something new. Seeds of the
# router file and of the scenario file are also the examples and the broken files of their tests.
fuzz: ## every fuzz target for SECONDS=60 each
	@test -f fuzz/Cargo.toml || { echo "there are no fuzz targets in this checkout: fuzz/Cargo.toml is missing" >&2; exit 3; }
	cd fuzz && RUSTFLAGS="$(FUZZ_FLAGS)" $(CARGO) build --release --locked --target $(FUZZ_TARGET)
	@set -e; for file in fuzz/fuzz_targets/*.rs; do \
		name=$$(basename $$file .rs); seeds=fuzz/corpus/$$name; \
		case $$name in \
			agent_file) seeds="scenarios/agents $$seeds";; \
			router_file) seeds="examples dataplane/routerfile/tests/broken $$seeds";; \
			scenario_file) seeds="scenarios scenarios/examples lab/scenario/tests/broken $$seeds";; \
		esac; \
		mkdir -p out/fuzz/$$name; \
		echo "== $$name: $(SECONDS) s"; \
		fuzz/target/$(FUZZ_TARGET)/release/$$name -use_value_profile=1 -max_total_time=$(SECONDS) \
			-artifact_prefix=out/fuzz/$$name- out/fuzz/$$name $$seeds; \
	done

# Without the line numbers of backtraces, which are most of what the linker writes.
install: release ## the program and its manual pages, stripped, below PREFIX=/usr/local (DESTDIR= for packages)
	install -D -s -m 755 $(PERHOP) $(DESTDIR)$(PREFIX)/bin/perhop
	$(PERHOP) man $(DESTDIR)$(PREFIX)/share/man/man1

fmt: ## format all code
	@$(CARGO) fmt --all

release:
	@$(CARGO) build --release --locked --package perhop
