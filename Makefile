# Everything a contributor runs. `make` alone prints the list.

SHELL := /bin/bash
GO    ?= go
# RACE=0 runs the tests without the race detector: several times faster, and weaker.
RACE  ?= 1
# PACKAGES narrows the tests while working: make test PACKAGES=./queue/...
PACKAGES ?= ./...
# FUZZTIME is how long each fuzz test runs under `make fuzz`.
FUZZTIME ?= 10s
# KILLS and CUTS are how often `make torture` kills the process and cuts the power; WRITE is how long
# it has 50 writers write at once, EVENTS how many events each of 50 writes into a MongoDB while its
# connections are cut, PENDING how many effects it has wait for a dead destination, NODES how long it
# disturbs three nodes on one PostgreSQL.
KILLS   ?= 200
CUTS    ?= 1000
WRITE   ?= 90s
EVENTS  ?= 1000
PENDING ?= 100000
NODES   ?= 10m

export GO RACE PACKAGES FUZZTIME

.DEFAULT_GOAL := help
.PHONY: help build test lint fuzz torture bench fmt clean

help: ## print this list
	@echo 'once: make an operation happen once in effect, however often it arrives'
	@echo
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo
	@echo '  RACE=0 PACKAGES=./queue/... FUZZTIME=10s KILLS=200 CUTS=1000 WRITE=90s EVENTS=1000 PENDING=100000'
	@echo '  NODES=10m'
	@echo '  can be set on the command line'

build: ## build the program: bin/once
	$(GO) build -trimpath -ldflags '-s -w' -o bin/once ./cmd/once

test: ## check and test everything, after installing what the tests need
	@scripts/needs.sh
	@scripts/test.sh

lint: ## check formatting, vet, staticcheck, import rules and style, without the other tests
	@scripts/lint.sh
	$(GO) test -count=1 ./internal/lint

fuzz: ## run each fuzz test for FUZZTIME
	@scripts/fuzz.sh

torture: ## kill the process and cut the power, over and over, under load
	@scripts/needs.sh
	ONCE_TORTURE_KILLS=$(KILLS) $(GO) test -count=1 -timeout=12h -v ./internal/torture/...
	ONCE_POWERCUTS=$(CUTS) $(GO) test -count=1 -timeout=12h -v -run '(?i)power' ./oncesqlite
	ONCE_WRITE_FOR=$(WRITE) $(GO) test -count=1 -timeout=12h -v -run 'L01' ./oncesqlite
	ONCE_WRITE_EVENTS=$(EVENTS) $(GO) test -count=1 -timeout=24h -v -run 'B06_B07' ./oncemongo
	ONCE_PENDING=$(PENDING) $(GO) test -count=1 -timeout=12h -v -run 'I26' ./internal/server
	ONCE_NODES_FOR=$(NODES) $(GO) test -count=1 -timeout=12h -v -run 'NodesOnOne' ./internal/demo

bench: ## measure intake and end to end against peers, printed as a table
	cd bench && $(GO) run .

fmt: ## format the Go code
	gofmt -w $$(find . -name '*.go' -not -path '*/testdata/*')

clean: ## remove what was built
	rm -rf bin bench/out
