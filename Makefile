# README's quick start uses make demo, make test and make install.
GO ?= go
BIN := bin/ostiary

.PHONY: build install demo test conformance oracle oracle-policies sim faults mutants fuzz soak-kill kill-nodes onap-stability again connections bench bench-conformance beside-xacml crash clean

build:
	@mkdir -p bin
	@echo 'Building. The first build fetches and compiles all packages, which takes minutes.'
	$(GO) build -buildvcs=auto -o bin/ ./cmd/ostiary ./cmd/ostiary-bench

# install installs the program ostiary, without ostiary-bench, into Go's folder for programs, usually ~/go/bin.
install:
	$(GO) install -buildvcs=auto ./cmd/ostiary

# demo loads an example into a folder, serves it, and sends requests over HTTP.
demo: build
	@$(BIN) demo

# test runs the project's own tests. It needs only Go, and takes up to 9 minutes on 2 cores
# when nothing has been built before. Tests that need another program are skipped where it is not installed. go test
# vets each package, with all checks. Many tests wait more than they compute, so twice as
# many run as there are cores. The packages that take longest come first, so that no core is
# idle while the last ones run. Programs that tests build have no symbols for a debugger,
# which takes a third of the time to link them.
TWICE := $(shell expr 2 '*' $$(getconf _NPROCESSORS_ONLN))
LONGEST := cmd/ostiary internal/workshop/fleet internal/workshop/beside internal/workshop/bench door/keystone \
	internal/cluster/raftlog internal/workshop/enginetest internal/engine/eval internal/workshop/rules server cmd/ostiary/internal/serve
TESTRUN := GOFLAGS="$$GOFLAGS -ldflags=-w" $(GO) run ./internal/workshop/testrun
TESTFLAGS := -p $(TWICE) -parallel $(TWICE) -timeout 15m
test:
	@mkdir -p bin
	$(TESTRUN) -note bin/skipped -vet=all $(TESTFLAGS) $(patsubst %,./%,$(wildcard $(LONGEST))) ./...

# test-changed runs the tests of the packages that differ from the commit BASE, of those
# that depend on them, and of the rules.
.PHONY: test-changed
test-changed:
	@packages=$$(bash internal/workshop/testrun/changed.sh '$(BASE)') && echo $$packages && \
		$(TESTRUN) -vet=all $(TESTFLAGS) $$packages

# test-servers installs the database servers and other programs that the tests need, as
# root on Debian. test-skipped then runs the tests that "make test" has skipped for want
# of them.
.PHONY: test-servers test-skipped
test-servers:
	bash internal/workshop/bench/servers/install.sh

test-skipped:
	$(TESTRUN) -complete -noted bin/skipped -vet=off $(TESTFLAGS)

# release makes the files of the release VERSION in dist: docs/release.md. image makes only
# the image, as an archive in dist, with the tag ostiary:dev or that of VERSION.
.PHONY: release image
release:
	$(GO) run -C packaging ./release -version '$(VERSION)' $(ARGS)

image:
	$(GO) run -C packaging ./release $(if $(VERSION),-version $(VERSION),-snapshot) -image $(or $(VERSION:v%=%),dev) $(ARGS)

# conformance runs other projects' test suites and clients, each once, two parts at a time.
# After a failure the other parts still run. "make conformance-PART" runs one. Each part
# installs what it needs: Debian's packages as root, others in ignored folders. With CI in
# the environment, a test that is skipped for want of a package fails.
PARTS := keystone openfga acp permify native console oidc xacml onap galera authzen chart prometheus packaging
conformance:
	@$(MAKE) -k -j2 -O --no-print-directory $(PARTS:%=conformance-%)

# release-check runs before a release what conformance leaves out because it takes long: the
# proxies, three nodes on PostgreSQL, the suites while the node that writes is killed, the
# study of regions, and the plays of load beside other servers.
.PHONY: release-check
release-check:
	@$(MAKE) -k --no-print-directory $(patsubst %,conformance-%,proxies nodes kills geo load onap-load)

conformance-%:
	@if [ -f conformance/$*/run.sh ]; then bash conformance/$*/run.sh; else $(call suite,$*,./...); fi
conformance-openfga:
	@$(call suite,openfga,. ./differential ./ratios ./served)
conformance-load:
	@$(call suite,openfga,./beside ./overnoop)
conformance-onap-load:
	@bash conformance/onap/run.sh load
conformance-packaging:
	@bash internal/workshop/bench/servers/install.sh crun skopeo minisign mandoc rpm curl ip || true
	@$(GO) run ./internal/workshop/testrun -C packaging $(if $(CI),-complete) -count=1 -timeout 50m ./...
conformance-kills:
	@bash conformance/nodes/run.sh kills
suite = $(GO) run ./internal/workshop/testrun -C conformance/$(1) $(if $(CI),-complete) -count=1 -timeout 50m $(2)

# The long runs. Each prints its seed. WORLDS, SEED and FUZZTIME set the size.
WORLDS ?= 1000000
FUZZTIME ?= 60s

oracle: oracle-policies
	OSTIARY_WORLDS=$(WORLDS) OSTIARY_SEED=$(SEED) $(GO) test ./internal/workshop/oracle -run Worlds -count=1 -timeout 12h -v

# oracle-policies compares the evaluator of XACML policies with a naive one.
oracle-policies:
	OSTIARY_WORLDS=$(WORLDS) OSTIARY_SEED=$(SEED) $(GO) test ./internal/workshop/oracle/policies -run Worlds -count=1 -timeout 12h -v

# sim plays RUNS runs of several nodes on one log, from a fresh seed or from SEED. WINDOW is
# how many groups of writes may overlap, otherwise 1, 2 or 16, by the seed.
# About 65 runs take a second of one processor.
sim: RUNS = 10000
sim:
	OSTIARY_WINDOW=$(WINDOW) OSTIARY_RUNS=$(RUNS) OSTIARY_SEED=$(SEED) $(GO) test ./internal/workshop/sim -run TestRuns -count=1 -timeout 12h -v

# faults compiles the code with each seeded fault of internal/workshop/oracle/faults in turn, and
# fails if the oracle, or the tests of the door, do not catch one. FAULT is a
# pattern of names, such as 'openfga-*'.
FAULT ?= all
faults:
	OSTIARY_FAULTS='$(FAULT)' $(GO) test ./internal/workshop/oracle/faults -run TestCaught -count=1 -timeout 2h -v

# mutants changes the code of PACKAGES in small ways, one change at a time, and
# fails if the tests notice too few of the changes. It tries MUTANTS changes in
# each package, chosen by SEED; 0 tries all, which takes hours. The default of
# PACKAGES is those that differ from the revision BASE.
MUTANTS ?= 60
BASE ?= main
mutants:
	$(GO) run ./internal/workshop/mutants -n $(MUTANTS) -seed $(or $(SEED),1) -base $(BASE) $(PACKAGES)

fuzz:
	@for p in $$($(GO) list ./...); do \
		for f in $$($(GO) test -list '^Fuzz' $$p | grep '^Fuzz'); do \
			echo "$$p $$f"; $(GO) test -run '^$$' -fuzz "^$$f$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 1x $$p || exit 1; \
		done; \
	done

# bench-keystone starts a real Keystone (MariaDB and PyPI are needed), and compares
# it with this program. ARGS are arguments of "ostiary-bench keystone".
.PHONY: bench-keystone
bench-keystone:
	bash conformance/keystone/bench.sh $(ARGS)

# bench-databases starts PostgreSQL and MariaDB, DELAYS away, one way, and compares the log
# in them with the bare database. Each cell takes SECONDS_EACH seconds.
SECONDS_EACH ?= 5
DELAYS ?= 0,50ms,150ms
.PHONY: bench-databases
bench-databases:
	OSTIARY_SECONDS=$(SECONDS_EACH) OSTIARY_DELAYS=$(DELAYS) $(GO) test ./internal/workshop/databases -run TestBench -count=1 -timeout 1h -v

# geo plays the study of multi-region Keystone deployments, with the real Keystone. It
# takes several hours and needs root, MariaDB with Galera, PostgreSQL and PyPI. Started
# again, it goes on; "make geo ARGS='--for 110m'" ends in time. The results are in
# docs/benchmarks/geo.tar.
.PHONY: geo geo-quiet geo-figures
geo:
	bash conformance/geo/geo.sh $(ARGS)

# geo-quiet plays cells again of which it is not known that the machine was quiet: first
# those that other programs disturbed, then all with 9 instances, the 45 instances, and the
# others. It ends after FOR, or when other programs use more than 5 % of a processor for
# three minutes. Started again, it goes on.
FOR ?= 110m
geo-quiet:
	bash conformance/geo/geo.sh --mix --again --quiet --part 0.4 --part-high 0.1 --scenario-max 20s --for $(FOR) $(ARGS)

# geo-figures makes the page of docs/benchmarks/geo.tar in conformance/geo/.work, and the
# figures of docs/geo.md.
geo-figures:
	bash conformance/geo/geo.sh --show

# onap-stability plays the mix of ONAP's report for STABILITY windows of a minute,
# 30 by default, with 10 users. It fails if memory, handles or goroutines grow.
STABILITY ?= 30
onap-stability: build
	$(BIN)-bench onap --no-floor --users 10 --duration 1m --windows $(STABILITY) --flat

# soak-kill kills the server KILLS times under load, and checks that no
# acknowledged write is lost.
KILLS ?= 1000
soak-kill:
	OSTIARY_KILLS=$(KILLS) OSTIARY_SEED=$(SEED) $(GO) test ./cmd/ostiary -run TestKilledServer -count=1 -timeout 3h -v

# kill-nodes kills a node of a shared log KILLS times under load, each time with the loss
# of what it has not synced, and compares its copy with the log.
kill-nodes: KILLS = 100
kill-nodes:
	OSTIARY_KILLS=$(KILLS) OSTIARY_SEED=$(SEED) $(GO) test ./internal/cluster/replica -run TestKilledNode -count=1 -timeout 3h -v

# cluster plays clients on three nodes over the log LOG (postgres, mariadb, galera or raft) for the time
# FOR, while nodes and the database are killed, paused and cut off, and judges what the
# clients saw. Then it plays on nodes that keep less than they promise: that must be found.
# At the end it plays the suites of conformance/nodes while the node that writes is killed.
# As root, DELAY=50ms puts the nodes and the database into network namespaces, so far apart.
.PHONY: cluster
FOR ?= 10m
LOG ?= postgres
cluster:
	OSTIARY_PLAY=$(FOR) OSTIARY_PLAY_LOG=$(LOG) OSTIARY_PLAY_DELAY=$(DELAY) OSTIARY_SEED=$(SEED) $(GO) test ./internal/workshop/fleet -run 'TestPlay|TestControl' -count=1 -timeout 12h -v
	bash conformance/nodes/run.sh kills

# cluster-figures measures three nodes over the log LOG: docs/benchmarks/leases.md.
.PHONY: cluster-figures
cluster-figures:
	OSTIARY_FIGURES=$(LOG) $(GO) test ./internal/workshop/fleet -run TestFigures -count=1 -timeout 1h -v

# again runs the doors' scripts TIMES times, to find results that depend on
# timing.
TIMES ?= 100
again:
	$(GO) test ./door/permify ./door/openfga ./door/authzen ./door/native -run 'TestScripts' -count=$(TIMES) -timeout 1h

# connections opens 10,000 connections to a server. It needs more than 10,000
# file descriptors (ulimit -n) in two processes.
connections:
	OSTIARY_STREAMS=1 $(GO) test ./server -run TestTenThousandConnections -count=1 -timeout 10m -v

# stores creates STORES stores in a folder, asks random ones, and prints memory and
# processor time.
STORES ?= 100000
.PHONY: stores
stores:
	OSTIARY_STORES=$(STORES) $(GO) test ./internal/workshop/enginetest -run TestStoresBound -count=1 -timeout 1h -v

bench:
	$(GO) test -run '^$$' -bench . -benchmem -count=3 ./internal/engine/graph ./internal/engine/eval ./internal/workshop/enginetest ./storage/pebble ./expr/cel

# beside-xacml measures decisions of AuthzForce and of this project on the same
# policies, in one run. It needs Java 17 and Maven. BESIDE_SECONDS is the time of
# each cell, BESIDE_POLICIES are the numbers of policies.
BESIDE_SECONDS ?= 5
BESIDE_POLICIES ?= 1,100,10000
beside-xacml:
	cd conformance/xacml && OSTIARY_SECONDS=$(BESIDE_SECONDS) OSTIARY_POLICIES=$(BESIDE_POLICIES) \
		$(GO) test -run TestBeside -count=1 -timeout 1h -v .

# beside-main builds the program of the earlier commit BASE, plays ten hot paths on it and
# on that of the work tree in turns, and prints the ratios. TURNS and TURN set the number
# and the time of the turns; the defaults take about 20 minutes. PATHS is a part of the
# names of the paths to play.
TURNS ?= 20
TURN ?= 2s
.PHONY: beside-main
beside-main:
	$(GO) run ./internal/workshop/beside -base '$(BASE)' -turns $(TURNS) -time $(TURN) -only '$(PATHS)'

bench-conformance:
	cd conformance/openfga && $(GO) test -run '^$$' -bench . -count=3 ./...

# clean removes what make has built. It never removes data.
clean:
	rm -rf bin

# proto generates the messages of Permify's API and those between nodes from .proto
# files. proto-check fails if the generated code in the repository differs.
.PHONY: proto proto-check zones
WIRES := internal/permifypb internal/cluster/link/wire internal/cluster/quorum/wire internal/cluster/raftlog/wire
proto:
	cd internal/permifypb/generate && for dir in $(WIRES); do $(GO) run . -dir ../../../$$dir || exit 1; done

proto-check:
	cd internal/permifypb/generate && for dir in $(WIRES); do $(GO) run . -check -dir ../../../$$dir || exit 1; done

# console makes console/assets, the pages for a browser, from console/src. It needs node 20 and
# npm. console-check fails if the committed files differ.
.PHONY: console console-check
console:
	bash console/build.sh

console-check:
	bash console/build.sh check

# console-pictures plays the console in a browser, and makes the pictures of docs/console.md.
.PHONY: console-pictures
console-pictures:
	mkdir -p bin/pictures
	PICTURES=$(CURDIR)/bin/pictures bash conformance/console/run.sh
	cp bin/pictures/allowed-light.png docs/console-ask.png
	cp bin/pictures/time-light.png docs/console-time.png
	cp bin/pictures/model-light.png docs/console-model.png

# zones copies the time zones of the Go release into expr/cel. A test there
# fails if they differ.
zones:
	cp "$$($(GO) env GOROOT)/lib/time/zoneinfo.zip" expr/cel/zoneinfo.zip

# attack attacks the program on loopback and prints a table: memory before, at
# its peak and after REST, and what a neighbor notices. RUNS is the number of runs
# of each attack, of which it prints the medians. ATTACK selects attacks by a part of
# their names.
.PHONY: attack
REST ?= 60s
RUNS ?= 1
attack: build
	OSTIARY_ATTACK=$(CURDIR)/$(BIN) OSTIARY_ATTACK_REST=$(REST) OSTIARY_ATTACK_RUNS=$(RUNS) OSTIARY_ATTACK_ONLY='$(ATTACK)' \
		$(GO) test ./server ./cmd/ostiary -run 'TestAttacks|TestLongWork$$|TestFloods$$|TestFairShare$$|TestAttackedNodes$$' -p 1 -count=1 -timeout 4h -v
