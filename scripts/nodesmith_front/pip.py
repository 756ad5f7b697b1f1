"""pip, with its long failures turned into one line."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from .console import Failure
from .layout import Layout
from .process import run_logged

# The order matters: a missing network ends in "No matching distribution" too.
_CAUSES = (
    (r"No space left on device", "the disk is full", "free some space"),
    (
        r"NewConnectionError|ConnectTimeoutError|ConnectionResetError|ProxyError|NameResolutionError|"
        r"Connection refused|Name or service not known|Temporary failure in name resolution|"
        r"Network is unreachable|Read timed out",
        "the package index cannot be reached",
        "check the network, or pip's index-url and proxy (`pip config list`)",
    ),
    (
        r"SSLError|CERTIFICATE_VERIFY_FAILED",
        "the package index's certificate is not trusted",
        "set pip's `cert`",
    ),
    (
        r"DO NOT MATCH THE HASHES",
        "a download does not match its sha256 in the lock file",
        "check which index pip uses; after a wanted change run `make lock`",
    ),
    (
        r"No matching distribution found for (?P<what>\S+)",
        "no release of {what} fits this Python and machine, or pip cannot see it",
        "check pip's index-url and find-links",
    ),
)


def explain(output: str) -> str:
    """Return cause and remedy for a failed pip run, on one line."""
    for pattern, cause, remedy in _CAUSES:
        found = re.search(pattern, output)
        if found:
            return f"{cause.format(**found.groupdict())}: {remedy}, then run the same command again"
    errors = [line for line in output.splitlines() if line.startswith("ERROR:")]
    return errors[-1] if errors else "pip failed"


def run_pip(layout: Layout, python: Path, arguments: Sequence[str], log: Path) -> None:
    """Run ``python -m pip`` with its output in ``log``. Raises Failure: cause, remedy, the log's path."""
    argv = [
        str(python),
        "-m",
        "pip",
        "--disable-pip-version-check",
        "--no-input",
        "--retries",
        "2",
        *arguments,
    ]
    before = log.stat().st_size if log.exists() else 0
    if run_logged(argv, log, cwd=layout.root, env=layout.tool_environment(), append=True) != 0:
        with log.open("rb") as stream:
            stream.seek(before)
            output = stream.read().decode("utf-8", errors="replace")
        raise Failure(f"{explain(output)} (log: {layout.show(log)})")
