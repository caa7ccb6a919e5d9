# Two commands do all the set-up: `make run` starts Hivewire, `make test` installs what the tests
# lack and runs them. Everything is built once, with one profile.

CARGO ?= cargo
export CARGO_TERM_COLOR ?= auto
export HIVEWIRE_BIN ?= $(CURDIR)/target/release/hivewire

.PHONY: run build test lint unit contract faults fuzz coverage bench soak tools help

help: ## shows this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

run: build ## builds Hivewire and starts it on the embedded default
	$(HIVEWIRE_BIN) up

build: cargo studio ## builds the binary, with the studio in it: target/release/hivewire
	$(CARGO) build --release --locked --workspace --bin hivewire

test: tools lint tests fuzz-short ## installs what is missing and runs all tests

# Always the whole workspace, and the binary along with the tests: a part of it would want its
# dependencies with fewer features, and build the larger ones a second time.
.PHONY: tests
tests: cargo studio ## the binary, and all that `cargo test` runs: crates, contract, faults
	$(CARGO) test --release --locked --workspace

# The studio is built only if something in it has changed, and is then put into the binary. Without npm the binary has none, and
# says so.
STUDIO_BUILT := studio/dist/.built
STUDIO_FILES := $(if $(wildcard studio/package.json),docs/reference/openapi.json $(wildcard studio/*.html studio/*.json studio/*.ts studio/*.js) \
	studio/dev/mock.ts studio/dev/size.mjs $(shell find studio/src -type f -not -name schema.d.ts))

.PHONY: studio
ifeq ($(wildcard studio/package.json),)
studio:
else ifeq ($(shell command -v npm),)
studio:
	@echo "npm is missing, so the binary gets no studio. Install it with your system's packages (Debian: nodejs npm) and build again."
else
studio: $(STUDIO_BUILT) ## builds the studio: studio/dist
endif

studio/node_modules/.installed: studio/package.json $(wildcard studio/package-lock.json)
	cd studio && npm ci --no-audit --no-fund
	touch $@

$(STUDIO_BUILT): studio/node_modules/.installed $(STUDIO_FILES)
	cd studio && npm run build
	touch $@

.PHONY: cargo
cargo:
	@command -v $(CARGO) >/dev/null || { echo "Rust is missing: install it with rustup or your system's packages (1.95 or later)"; exit 1; }

tools: cargo
	tests/tools/install test bench

lint: cargo studio ## format, lints and documentation without warnings; types and plain functions of the studio
	$(CARGO) fmt --all --check
	$(CARGO) clippy --release --locked --workspace --all-targets -- -D warnings
	$(CARGO) fmt --all --manifest-path tests/workers/Cargo.toml --check
	$(CARGO) fmt --manifest-path examples/workers/rust/Cargo.toml --check
	$(CARGO) fmt --manifest-path bench/peers/spider/Cargo.toml --check
	$(CARGO) fmt --manifest-path bench/peers/services/Cargo.toml --check
	$(CARGO) clippy --release --locked --manifest-path tests/workers/Cargo.toml --target-dir target/lint -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --release --locked --workspace --no-deps --quiet
	cd studio && npm run check && npm test

unit: build ## tests of every crate, with real sockets where there are any
	$(CARGO) test --release --locked --workspace --exclude hivewire-tests --exclude hivewire-bus
	$(CARGO) test --release --locked -p hivewire-bus --lib
	$(CARGO) test --release --locked -p hivewire-bus --doc

contract: build tools ## the bus contract on every engine, as a table in docs/reference/engines.md
	HIVEWIRE_CONTRACT_WRITE=1 $(CARGO) test --release --locked --workspace --test contract

faults: build ## real binary, real clients: kills, loss of power, full disks, bad input
	$(CARGO) test --release --locked -p hivewire-tests

.PHONY: fuzz-short
fuzz-short:
	tests/tools/fuzz 20

fuzz: ## an hour of fuzzing for every codec
	tests/tools/fuzz 3600

coverage: ## line coverage of the messaging crates; compiles them a second time
	tests/tools/coverage

bench: build tools ## side by side with the peers; writes docs/benchmarks.md
	$(CARGO) build --release --locked --workspace --bins
	target/release/hivewire-bench

soak: build tools ## the fault tests with 67 times the counts, or HIVEWIRE_SOAK times; takes hours
	HIVEWIRE_SOAK=$${HIVEWIRE_SOAK:-67} $(CARGO) test --release --locked -p hivewire-tests -- --nocapture
