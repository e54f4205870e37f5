# `make up` runs Sidegate, `make test` tests it, `make help` lists the rest.
# Works with GNU make 3.81 (macOS) and newer.

VENV = .venv
BIN = $(VENV)/bin
SIDEGATE = $(BIN)/sidegate
# Further arguments for the command behind a target: make test ARGS="-k spool", make up ARGS=-v.
ARGS =
# Both spellings work: make producer topic=orders, make create-topic TOPIC=orders.
NAME = $(or $(topic),$(TOPIC))
LOCK = $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	--no-annotate --custom-compile-command "make lock" pyproject.toml requirements/build.in

.DEFAULT_GOAL = help
.PHONY: help up down status reset test long check fmt lock audit bench \
	producer consumer create-topic list-topics named runtime dev

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-14s%s\n", $$1, $$2 }' Makefile

up: runtime ## Start the whole mesh on this machine; Ctrl-C stops it
	@exec $(SIDEGATE) up $(ARGS)

down: runtime ## Stop it from another terminal
	@$(SIDEGATE) down $(ARGS)

status: runtime ## Show what runs, is connected, spooled and denied
	@$(SIDEGATE) status $(ARGS)

reset: down ## Stop it and delete its data; configurations and keys stay
	@rm -rf .sidegate/data .sidegate/run .sidegate/core.pub
	@echo "The data is gone."

test: dev ## Run the whole test suite
	@$(BIN)/pytest -m "not long" $(ARGS)

long: dev ## Run the long forms of the tests
	@$(BIN)/pytest -m long $(ARGS)

check: dev ## Check format, lint, types and imports, then run the tests
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(MAKE) test

fmt: dev ## Format the code and mend what ruff can mend
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

lock: dev ## Pin the requirements anew
	@$(LOCK) --output-file requirements/runtime.txt
	@$(LOCK) --extra audit --constraint requirements/runtime.txt --output-file requirements/audit.txt
	@$(LOCK) --extra audit --extra dev --constraint requirements/audit.txt \
		--output-file requirements/dev.txt

audit: ## Report on the log of the running or stopped mesh; installs Spark and Java on first use
	@sh requirements/venv audit
	@$(SIDEGATE) audit report $(ARGS)

bench: dev ## Measure it against its peers
	@$(BIN)/python -m bench $(ARGS)

producer: named runtime ## Publish each line that you type: topic=orders
	@exec $(SIDEGATE) publish '$(NAME)' - $(ARGS)

consumer: named runtime ## Print messages as they come: topic=orders
	@exec $(SIDEGATE) subscribe '$(NAME)' $(ARGS)

create-topic: named runtime ## TOPIC=orders, and if you like STRATEGY=round_robin PARTITIONS=3
	@$(SIDEGATE) topics create '$(NAME)' $(if $(STRATEGY),--strategy '$(STRATEGY)') \
		$(if $(PARTITIONS),--partitions '$(PARTITIONS)') $(ARGS)

list-topics: runtime ## List the topics
	@$(SIDEGATE) topics list $(ARGS)

named:
	@test -n '$(NAME)' || { echo "name a topic, such as: make $(MAKECMDGOALS) topic=orders" >&2; exit 2; }

runtime dev:
	@sh requirements/venv $@
