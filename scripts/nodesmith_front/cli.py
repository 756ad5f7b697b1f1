"""The commands of ``scripts/front_door.py``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence

from .checks import run_lint, run_test, run_test_all
from .console import Failure, say
from .lab import down, up
from .layout import Layout
from .lock import lock
from .setup import setup


def _setup(layout: Layout) -> int:
    setup(layout, dev=True)
    say("setup: .venv and .ansible/bundle are up to date")
    return 0


COMMANDS: dict[str, tuple[Callable[[Layout], int], str]] = {
    "up": (up, "set up, start the lab cluster, run Linpack on it and serve a model; again: changes nothing"),
    "down": (down, "remove the lab cluster and all that belongs to it"),
    "test": (run_test, "everything that CI runs"),
    "test-all": (run_test_all, "`test` and the long integration tests and scenarios"),
    "lint": (run_lint, "yamllint, ansible-lint, ruff, mypy, generated files up to date"),
    "lock": (lock, "write the locked requirements from the *.in files"),
    "setup": (_setup, "only .venv (with the test tools) and the collections"),
}


def _help() -> int:
    for name, entry in COMMANDS.items():
        say(f"make {name:<9} {entry[1]}")
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; return the exit status: 0, 1 after one line with cause and remedy, 130 on Ctrl-C."""
    parser = argparse.ArgumentParser(prog="front_door.py", description=__doc__)
    parser.add_argument("command", choices=["help", *COMMANDS])
    command = parser.parse_args(arguments).command
    if command == "help":
        return _help()
    try:
        return COMMANDS[command][0](Layout.of_checkout())
    except Failure as failure:
        print(f"nodesmith: {failure}", file=sys.stderr, flush=True)
        return 1
    except OSError as error:
        print(f"nodesmith: {error}: check the disk and who owns this folder", file=sys.stderr, flush=True)
        return 1
    except KeyboardInterrupt:
        print(
            f"\nnodesmith: interrupted; `make {command}` goes on where it stopped",
            file=sys.stderr,
            flush=True,
        )
        return 130
