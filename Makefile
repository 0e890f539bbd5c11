# SessionDock. `make` alone lists the targets.

SHELL       := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

GO     ?= go
BIN    := bin
# What each program is built from.
PROGRAMS := sessiondock=./cli sessiondockd=./daemon sessiondock-host=./host
# Packages that start no browser.
PLAIN   = $$($(GO) list ./... | grep -v -e '/e2e' -e '/sim$$')

# N is how much is tried, SEED what it is drawn from (0: by chance).
SEED ?= 0
fuzz:      N ?= 200000
sim:       N ?= 1000000
explore:   SIZE ?= both
crash:     N ?= 500
powerloss: N ?= 100000
teardown:  N ?= 1000
launches:  N ?= 200

.PHONY: help build demo install packages test check bench fuzz sim explore crash powerloss teardown launches logins deps deps-demo clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## build the three programs into bin/
	@mkdir -p $(BIN)
	@for p in $(PROGRAMS); do \
		echo "$(GO) build -trimpath -o $(BIN)/$${p%%=*} $${p##*=}"; \
		$(GO) build -trimpath -o $(BIN)/$${p%%=*} $${p##*=}; \
	done

demo: deps-demo build ## the handoff, on a site of its own, in a real Chromium (ARGS=...)
	@$(BIN)/sessiondock demo $(ARGS)

install: build ## install for this user (ARGS=--dry-run only shows what would be done)
	@$(BIN)/sessiondock install $(ARGS)

packages: build ## the deb and the rpm, into build/, and a comparison of what is in them
	@GO=$(GO) .ci/packages

test: build check ## everything: check, unit tests with -race, tests in a real Chromium
	@echo "go test -race"; GO=$(GO) .ci/tests -race -timeout 15m $(PLAIN)
	@echo "go test ./sim"; GO=$(GO) .ci/tests -timeout 30m ./sim
	$(GO) run ./sim -n 20000 -seed $(or $(filter-out 0,$(SEED)),1) -plants some
	@echo "go test ./e2e/..."; GO=$(GO) .ci/tests -p 1 -timeout 30m ./e2e/...

# Where CI is set, what is NOT RUN is a failure.
check: ## format, vet, generated files, import arrows, the extension's tests and types
	@bad=$$(gofmt -l $$(git ls-files -co --exclude-standard '*.go')); \
		if [ -n "$$bad" ]; then printf 'gofmt would change:\n%s\n' "$$bad" >&2; exit 1; fi
	$(GO) vet ./...
	$(GO) run ./daemon/wire/gen -check
	$(GO) run ./extension/bundle -check
	$(GO) test .
	@if command -v node >/dev/null; then \
		echo "node --test extension/test"; node --test extension/test/*.test.js; \
	else echo "NOT RUN: the extension's tests, because node is missing: make deps"; test -z "$${CI:-}"; fi
	@if [ -x extension/node_modules/.bin/tsc ]; then \
		echo "tsc -p extension"; cd extension && node_modules/.bin/tsc -p .; \
	else echo "NOT RUN: the extension's types, because typescript is missing: make deps"; test -z "$${CI:-}"; fi

bench: build ## measure; one JSON line a figure in build/bench.jsonl (ONLY=name,name)
	@if [ ! -d e2e/bench/rivals/node_modules ] && command -v npm >/dev/null; then \
		echo "npm ci (e2e/bench/rivals: other servers of browser tools, to measure against)"; \
		npm ci --prefix e2e/bench/rivals --no-audit --no-fund || echo "npm has failed: nothing is measured against them" >&2; \
	fi
	$(GO) run ./e2e/bench

fuzz: ## fuzz every decoder (N=inputs); the last line is {"executions","findings"}
	@GO=$(GO) N=$(N) .ci/fuzz

# With N=1 and a SEED one schedule is printed step by step.
sim: ## simulate the authority (N=schedules, SEED=): every invariant after every step, and faults planted to be found
	@$(GO) run ./sim -n $(N) -seed $(SEED)

explore: ## go through every state of takeover, fence and grant (SIZE=both, link, deaths, whole, time, middle or small), and planted faults to be found
	@$(GO) run ./sim -explore $(SIZE)

crash: ## kill the daemon under load (N=rounds, SEED=), and hold its disk against what it acknowledged
	@$(GO) run ./e2e/crash -rounds=$(N) -seed=$(SEED)

powerloss: ## cut the power at every system call of the store (N=states, SEED=), with a control that loses
	@$(GO) run ./e2e/powerloss -states=$(N) -seed=$(SEED)

teardown: ## end launches from which processes escape, under a real user manager (N=launches, SEED=; needs root)
	@$(GO) run ./e2e/teardown -n=$(N) -seed=$(SEED)

launches: ## start and stop a real Chromium, and look for what is left (N=launches; needs root)
	@$(GO) run ./e2e/launches -n=$(N)

logins: ## what becomes of a sign-in when a browser's run ends, in every way, into docs/LOGINS.md (needs root)
	@.ci/deps chromium systemd session-bus xvfb
	$(GO) run ./e2e/logins -write docs/LOGINS.md

deps: ## install what building, tests and demo need, by the distribution and npm
	@.ci/deps chromium node npm cc strace systemd session-bus xvfb rpm2cpio cpio
	@if [ ! -x extension/node_modules/.bin/tsc ]; then \
		echo "npm ci (extension: typescript and Chromium's types, into extension/node_modules)"; \
		npm ci --prefix extension --no-audit --no-fund || echo "npm has failed: the extension's types will not be checked" >&2; \
	fi
	@if [ ! -d e2e/clients/node_modules ]; then \
		echo "npm ci (e2e/clients: Playwright and Puppeteer as they are published, for tests alone)"; \
		npm ci --prefix e2e/clients --no-audit --no-fund || echo "npm has failed: those clients will not be tried" >&2; \
	fi

deps-demo:
	@.ci/deps chromium

clean: ## remove what was built
	rm -rf $(BIN) build extension/node_modules e2e/clients/node_modules e2e/bench/rivals/node_modules
