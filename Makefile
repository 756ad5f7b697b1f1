# The front door: `make help` says what there is. The work is done by scripts/front_door.py.
PYTHON ?= python3

.DEFAULT_GOAL := help
.PHONY: help up down test test-all lint lock setup

help:      ; @$(PYTHON) scripts/front_door.py help
up:        ; @$(PYTHON) scripts/front_door.py up
down:      ; @$(PYTHON) scripts/front_door.py down
test:      ; @$(PYTHON) scripts/front_door.py test
test-all:  ; @$(PYTHON) scripts/front_door.py test-all
lint:      ; @$(PYTHON) scripts/front_door.py lint
lock:      ; @$(PYTHON) scripts/front_door.py lock
setup:     ; @$(PYTHON) scripts/front_door.py setup
