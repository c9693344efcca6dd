# All tasks of this repository. Needs Python ≥ 3.11, git and make; downloads or builds everything else.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
EXAMPLE ?= manifests/examples/guestbook.yaml
# tests/conftest.py chooses the number of processes.
PYTEST_ARGS ?= --numprocesses auto --dist worksteal
# The minor versions of Kubernetes that Hearth is tested with: the folders tests/control_plane/kubernetes*.
VERSIONS ?= 1.35 1.36 1.37
# A retry separates a delay on a busy machine from a fault; the report shows the first failure. More than three failed
# tests fail the run.
SECOND_TRIES ?= --reruns 1 --max-suite-reruns 3 --rerun-show-tracebacks

AUDIT := PYTHONPATH=tests:manifests/image $(BIN)/python -m support.checks.audit
VERSION = $(shell sed -n 's/^__version__ = "\(.*\)"/\1/p' operator/hearth/__init__.py)
CONTROLPLANE := $(BIN)/python tests/control_plane/controlplane.py
ON_NODE := PYTHONPATH=tests/control_plane:manifests/image $(BIN)/python tests/control_plane

# If it is set, each of some hundred processes compiles all its imports again.
unexport PYTHONDONTWRITEBYTECODE

# Only a cluster on make's own command line counts. One from the environment is ignored, so that no real cluster is used
# by accident.
unexport KUBECONFIG
ifeq ($(origin KUBECONFIG),command line)
ON_CLUSTER := HEARTH_TEST_KUBECONFIG=$(abspath $(KUBECONFIG))
ON_CLUSTER_QUIETLY := $(ON_CLUSTER)
KUBECONFIG_FILE := $(abspath $(KUBECONFIG))
else
# Start the local control plane unless it is running; stop it afterwards in that case only.
ON_CLUSTER := $(CONTROLPLANE) with --
# Tests trade memory for CPU: with the usual GOGC=100, the API server spends a fifth of its CPU time on garbage. Benchmarks
# do not, so that their figures stay comparable.
ON_CLUSTER_QUIETLY := GOGC=400 GOMEMLIMIT=2GiB $(CONTROLPLANE) with --quiet --
KUBECONFIG_FILE = $$($(CONTROLPLANE) kubeconfig)
KUBECTL = --kubectl "$$($(CONTROLPLANE) build)/kubectl"
endif

.DEFAULT_GOAL := help
.PHONY: help run kind test test-more test-fast test-ecosystem test-node test-versions soak mutants check format cluster cluster-down browser screenshots crds chart reference docs changelog dist image release audit bench simulate test-import clean
.DELETE_ON_ERROR:

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

## ---- see it work

ifeq ($(origin NODE),command line)
run: EXAMPLE = manifests/examples/three-tier.yaml
run: ON_CLUSTER = $(ON_NODE)/node_shop.py --
run: KUBECONFIG_FILE = $$($(CONTROLPLANE) --name example kubeconfig)
endif
run: $(INSTALLED) ## Watch the example converge on a local control plane, on KUBECONFIG=file, or with real Pods: NODE=1
	@$(ON_CLUSTER) $(BIN)/python -m hearth demo --kubeconfig "$(KUBECONFIG_FILE)" --example $(EXAMPLE) $(KUBECTL)

kind: $(INSTALLED) ## The same on a kind cluster (needs Docker)
	@$(BIN)/python tests/control_plane/kind_cluster.py -- \
		sh -c 'exec $(BIN)/python -m hearth demo --kubeconfig "$$KUBECONFIG" --example $(EXAMPLE)'

## ---- know that it works

test: check ## All checks, then the tests of every change, some of them on the local control plane: minutes
	@$(ON_CLUSTER_QUIETLY) $(BIN)/pytest $(PYTEST_ARGS) $(SECOND_TRIES) -m "not more"

test-more: $(INSTALLED) ## The other tests: stories in all settings, everything on a real API server, attacks
	@$(ON_CLUSTER_QUIETLY) $(BIN)/pytest $(PYTEST_ARGS) $(SECOND_TRIES) -m more

test-fast: check ## All checks, then the tests that need no control plane
	@$(BIN)/pytest $(PYTEST_ARGS) -m "not cluster and not more"

test-ecosystem: $(INSTALLED) browser ## Long tests, and those with programs of other projects, built from source the first time
	@$(ON_CLUSTER_QUIETLY) $(BIN)/pytest --numprocesses auto --dist loadscope $(SECOND_TRIES) -m "(ecosystem or long) and not soak"

test-node: $(INSTALLED) ## Tests on a real node, with Hearth as its Pods: needs Linux and root
	@$(ON_NODE)/node.py with -- sh -c '$(BIN)/pytest -n 3 --dist loadfile $(SECOND_TRIES) -m "node and not alone" tests/node; \
		first=$$?; $(BIN)/pytest $(SECOND_TRIES) -m "node and alone" tests/node && exit $$first'

test-versions: $(INSTALLED) ## Tests that depend on the API server, on each supported Kubernetes: VERSIONS="1.35 1.37"
	@for version in $(VERSIONS); do \
		echo "Kubernetes $$version"; \
		HEARTH_KUBERNETES=$$version $(CONTROLPLANE) --name kubernetes-$$version with --quiet -- \
			$(BIN)/pytest $(PYTEST_ARGS) $(SECOND_TRIES) -m versions || failed="$$failed $$version"; \
	done; test -z "$$failed" || { echo "failed on Kubernetes:$$failed"; exit 1; }

soak: $(INSTALLED) ## Random worlds, long faults, SIGKILL at writes; all samples: HEARTH_SOAK_FULL=1
	@$(ON_CLUSTER_QUIETLY) sh -c '$(BIN)/pytest -n 2 --dist worksteal --durations=0 -m "soak and not alone"; first=$$?; \
		$(BIN)/pytest -m "soak and alone" && exit $$first'

mutants: $(INSTALLED) ## Break rules on purpose, one at a time, in a copy: which story notices?
	@$(BIN)/python tests/mutants/run.py $(RULES)

check: $(INSTALLED) ## Lint, formatting, architecture, types; known vulnerabilities, where their data can be reached
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check --quiet . || { echo 'not formatted: run `make format`'; exit 1; }
	@$(BIN)/lint-imports --no-logo
	@$(AUDIT) --beside $(BIN)/mypy

format: $(INSTALLED) ## Format the source
	@$(BIN)/ruff check --fix-only --quiet .
	@$(BIN)/ruff format .

test-import: $(INSTALLED) ## Import plain manifests and run them as Stacks: make test-import FILES="a.yaml b.yaml"
	@test -n "$(FILES)" || { echo 'which files? make test-import FILES="a.yaml b.yaml"'; exit 2; }
	@$(ON_CLUSTER) $(BIN)/python tests/control_plane/import_files.py $(FILES)

bench: $(INSTALLED) ## Measure the speed against a bare loop over the same objects: make bench BENCH="B1 --profile"
	@$(ON_CLUSTER) env PYTHONPATH=tests $(BIN)/python tests/bench/run.py $(BENCH)

simulate: $(INSTALLED) ## Where very large trees break: make simulate SIMULATE="--resources 10000 --shards 1 10"
	@PYTHONPATH=tests $(BIN)/python tests/bench/simulate.py $(SIMULATE)

## ---- maintain it

cluster: $(INSTALLED) ## Start the local control plane, and leave it running
	@$(CONTROLPLANE) up

cluster-down: $(INSTALLED) ## Stop the local control plane
	@$(CONTROLPLANE) down

browser: $(INSTALLED) ## Install what the tests of the page need: Chromium, its driver, axe-core
	@PYTHONPATH=tests:tests/control_plane $(BIN)/python -m support.browser.programs

screenshots: $(INSTALLED) browser ## Write docs/images/ from the tests of the page
	@$(ON_CLUSTER_QUIETLY) env HEARTH_SCREENSHOTS=docs/images $(BIN)/pytest -q -n 0 -m ecosystem tests/integration/cli/test_page.py -k picture

crds: $(INSTALLED) ## Write crds/ from the models
	@mkdir -p crds
	@$(BIN)/python -m hearth crds --directory crds
	@PYTHONPATH=tests $(BIN)/python -m support.checks.crd_outlines

chart: $(INSTALLED) ## Write what manifests/chart shares with crds/, manifests/ and the flags
	@PYTHONPATH=tests:manifests/release $(BIN)/python -m support.ecosystem.chart_files

reference: $(INSTALLED) ## Write the generated pages of the documentation
	@PYTHONPATH=operator:tests $(BIN)/python tests/documentation/reference.py

docs: $(INSTALLED) reference ## Build the documentation as a site into build/site; strict: links are checked
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "open build/site/index.html"

changelog: $(INSTALLED) ## Turn the fragments of docs/changelog.d into the section of the current version
	@$(BIN)/towncrier build --yes

dist: $(INSTALLED) ## Build the wheel, the sdist, and kubectl-stack as one file into dist/
	@$(BIN)/python -m hatchling build --directory dist
	@mkdir -p build && sed -n 's/^\([A-Za-z0-9_.-]*==[^ ;]*\).*/\1/p' requirements.lock > build/constraints.txt
	@PIP_CONSTRAINT=build/constraints.txt $(BIN)/shiv --quiet --console-script kubectl-stack --python '/usr/bin/env python3' \
		--compressed --reproducible --output-file dist/kubectl-stack dist/hearth-$(VERSION)-py3-none-any.whl
	@ls -l dist

ifdef ENGINE
image: ## Build the container image into build/image, with its bill of materials; or by an engine: make image ENGINE=podman
	@$(ENGINE) build --file manifests/image/Containerfile --tag hearth:$(VERSION) .
else
image: $(INSTALLED)
	@PYTHONPATH=manifests/image $(BIN)/python manifests/image/build.py $(IMAGE_ARGS)
endif

release: $(INSTALLED) ## Build all artifacts of this version into dist/release-VERSION, with provenance; signed: make release KEY=key.pem
	@PYTHONPATH=manifests/image:manifests/release $(BIN)/python manifests/release/make_release.py $(if $(KEY),--key $(KEY)) $(RELEASE_ARGS)

audit: $(INSTALLED) ## Look up known vulnerabilities of all locked packages: make audit AUDIT_ARGS="--vulnerability-service=osv"
	@$(AUDIT) $(AUDIT_ARGS)

clean: ## Remove all generated files of this folder; cached programs and a running control plane stay
	rm -rf $(VENV) build dist .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache tests/bench/results
	find . -name __pycache__ -not -path './.git/*' -prune -exec rm -rf {} +

$(INSTALLED): pyproject.toml requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python is too old: Hearth needs 3.11 or newer; name one by make PYTHON=…")'
	@echo "setting up $(VENV) from requirements.lock: about a minute and a half"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/pip install --quiet --disable-pip-version-check --requirement requirements.lock
	@$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@
