# Everything here needs Go and git, and no cluster. `make help` lists the targets.

GO        ?= go
BIN       := bin/setpoint
# Every module of the workspace; most of tools is other people's.
PACKAGES  := ./... ./operators/... ./plane/... ./cmd/setpoint/... ./bench/... ./test/... ./tools/image
LIBRARIES := . ./operators/... ./plane/...
VERSION   ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
# The race detector needs a C compiler; hack/race prints -race where there is one.
RACE       = $(shell ./hack/race)

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: up
up: build ## start the control plane, the Foo operator and a first Foo; runs until interrupted
	@# A make that is interrupted never ends with 0: on a terminal the command gets Ctrl-C for itself, in a process group of its own.
	@if [ -t 0 ]; then exec bash -mc '$(BIN) up -f examples/quickstart'; else exec $(BIN) up -f examples/quickstart; fi

.PHONY: build
build: ## compile bin/setpoint
	@GO="$(GO)" VERSION="$(VERSION)" ./hack/build $(BIN)

.PHONY: image
image: ## write the image that runs the shipped operators as an OCI archive, bin/image.tar, without Docker
	@GO="$(GO)" VERSION="$(VERSION)" ./hack/image bin/image.tar

.PHONY: test
test: ## run every test that needs neither a cluster nor a long time, with the race detector
	@./hack/progress "compiling (the first time this takes in much of Kubernetes)" $(GO) build $(RACE) -v $(LIBRARIES)
	$(GO) test $(RACE) -vet=off -ldflags='-s -w' -timeout 20m $(PACKAGES)

.PHONY: mutants
mutants: ## break each law on purpose and show that the tests of docs/laws.md notice
	GO="$(GO)" ./hack/mutants

.PHONY: lint
lint: static ## gofmt, and go vet and staticcheck on what does not link the API server
	@test -z "$$(gofmt -l $$(git ls-files '*.go'))" || { echo "gofmt -w these files:"; gofmt -l $$(git ls-files '*.go'); exit 1; }
	$(GO) vet $(RACE) $(STATIC)

# What vet and staticcheck look at. They analyse all dependencies from their sources, which takes a quarter of an hour for
# packages that link the API server: `make lint STATIC=./plane/...` does it for those.
STATIC ?= ./... ./operators/...

.PHONY: static
static: ## staticcheck
	cd tools && $(GO) build -o ../bin/staticcheck honnef.co/go/tools/cmd/staticcheck
	GOFLAGS="$$($(GO) env GOFLAGS) $(RACE)" bin/staticcheck $(STATIC)

# How long each fuzzer runs. A failing program of the queue is kept in queue/testdata/fuzz; the cache's test names the
# seed, which SETPOINT_SEED repeats. SETPOINT_SEED repeats a soak, too.
FUZZTIME ?= 10m

.PHONY: fuzz
fuzz: ## compare queue and cache with their models for FUZZTIME each
	$(GO) test -vet=off -run '^$$' -fuzz '^FuzzQueue$$' -fuzztime $(FUZZTIME) -fuzzminimizetime 20x ./queue
	SETPOINT_FUZZTIME=$(FUZZTIME) $(GO) test -vet=off -count=1 -timeout 24h -run '^TestModel$$' ./cache

.PHONY: soak
soak: ## an hour of virtual time with 5 000 objects, churn and faults; then ten minutes on the plane
	SETPOINT_SOAK_OBJECTS=5000 SETPOINT_SOAK_TIME=1h $(GO) test $(RACE) -vet=off -count=1 -timeout 1h -v -run '^TestSoak$$' .
	SETPOINT_SOAK_OBJECTS=200 SETPOINT_SOAK_TIME=10m $(GO) test -vet=off -ldflags='-s -w' -count=1 -timeout 1h -v -run '^TestSoakOnPlane$$' ./test

.PHONY: shards
shards: ## prove elections and shards at length: 200 schedules; 50 seeds of ten virtual minutes with 5 000 objects
	SETPOINT_SCHEDULES=200 $(GO) test -vet=off -count=1 -timeout 1h -v -run '^(TestElectionSchedules|TestFailOver|TestShardsThroughput)$$' .
	SETPOINT_SHARDS_SEEDS=50 SETPOINT_SHARDS_OBJECTS=5000 SETPOINT_SHARDS_MINUTES=10 $(GO) test -vet=off -count=1 -timeout 3h -v -run '^TestShardsUnderChurn$$' .

.PHONY: bench
bench: ## measure side by side with the peers; writes bench/out/results.json
	$(GO) run ./bench

.PHONY: conformance
conformance: ## run the heavier judges: upstream's suites and a real etcd + kube-apiserver
	./hack/conformance

.PHONY: clean
clean: ## remove what the targets above made
	rm -rf bin bench/out
