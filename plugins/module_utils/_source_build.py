# Copyright: (c) 2026, The nodesmith authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What decides a build from source: its key, its steps, why it is made, what is kept, how far it is."""

from __future__ import annotations

import copy
import hashlib
import json
import re
import shlex
import tarfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import PurePosixPath
from typing import Any

RECIPE = 1
"""Goes up when the steps of a system, or what they see of the machine, change: everything builds anew."""

MANIFEST = ".nodesmith-build.json"
"""File in a prefix that is written last and says that the build is whole."""

STAGED = ("destdir", "stage")
"""Placeholders for folders that begin empty in every run."""

_PLACEHOLDER = re.compile(r"(?<!\$)\{(prefix|destdir|stage|tree|jobs|target)\}")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9.+_~-]*")


class BuildError(RuntimeError):
    """What was asked for cannot be built; the message names the value and the remedy."""


@dataclass(frozen=True)
class Step:
    """A command of a build, with placeholders in ``argv`` and ``env``."""

    name: str
    argv: Sequence[str]
    env: Mapping[str, str] = field(default_factory=dict)

    def names(self, placeholders: Iterable[str]) -> bool:
        """Say whether one of ``placeholders`` is in the command."""
        texts = [*self.argv, *self.env.values()]
        return any(found in placeholders for text in texts for found in _PLACEHOLDER.findall(text))

    def filled(self, values: Mapping[str, str]) -> Step:
        """Return the command with ``values`` in place of its placeholders.

        >>> Step("a", ["--bindir={prefix}/bin", "--libdir=${prefix}/lib"]).filled({"prefix": "/opt/a"}).argv
        ['--bindir=/opt/a/bin', '--libdir=${prefix}/lib']
        """

        def fill(text: str) -> str:
            # in one pass, so that a value is never searched itself
            return _PLACEHOLDER.sub(lambda match: values[match[1]], text)

        return Step(
            self.name, [fill(text) for text in self.argv], {key: fill(text) for key, text in self.env.items()}
        )


def system_steps(
    system: str, configure: Sequence[str], make: Sequence[str], install: Sequence[str]
) -> list[Step]:
    """Return the steps of a build system: V(autotools), V(make) or V(cmake), with options for each step.

    Variables that make is given are given to its installation too: OpenBLAS, for one, wants the same at both.
    """
    variables = [option for option in make if re.match(r"\w+=", option)]
    if system == "cmake":
        settings = ["-DCMAKE_INSTALL_PREFIX={prefix}", "-DCMAKE_BUILD_TYPE=Release"]
        return [
            Step("configure", ["cmake", "-S", ".", "-B", "build", *settings, *configure]),
            Step("make", ["cmake", "--build", "build", "--parallel", "{jobs}", *make]),
            Step("install", ["cmake", "--install", "build", *install], {"DESTDIR": "{destdir}"}),
        ]
    if system == "autotools":
        return [
            Step("configure", ["./configure", "--prefix={prefix}", *configure]),
            Step("make", ["make", "-j{jobs}", *make]),
            Step("install", ["make", *variables, *install, "DESTDIR={destdir}", "install"]),
        ]
    if configure:
        raise BuildError(
            f"configure_options are {shlex.join(configure)}, and system is make, which has nothing to "
            "configure: use make_options"
        )
    return [
        Step("make", ["make", "-j{jobs}", "PREFIX={prefix}", *make]),
        Step("install", ["make", "PREFIX={prefix}", *variables, *install, "DESTDIR={destdir}", "install"]),
    ]


def steps_of(params: Mapping[str, Any]) -> list[Step]:
    """Return the steps that the module's options ask for.

    :raises BuildError: options that contradict each other, or steps that would install nothing
    """
    options = [params[f"{part}_options"] for part in ("configure", "make", "install")]
    if params["system"]:
        steps = system_steps(params["system"], *options)
    else:
        if any(options):
            given = shlex.join([text for group in options for text in group])
            raise BuildError(f"the options {given} are for a system: put them into the argv of your steps")
        steps = [
            Step(step["name"], step["argv"], {key: str(value) for key, value in (step["env"] or {}).items()})
            for step in params["steps"]
        ]
    seen = set()
    for step in steps:
        if not _NAME.fullmatch(step.name) or step.name in seen or not step.argv:
            raise BuildError(
                f"the step {step.name!r} with argv {list(step.argv)} will not do: each needs a name of "
                "its own, of letters, digits and .+_~-, and a command"
            )
        seen.add(step.name)
    if not any(step.names(STAGED) for step in steps):
        raise BuildError(
            f"none of the steps {', '.join(seen)} names {{destdir}} or {{stage}}: nothing would be installed"
        )
    if params["target"] is None and any(step.names(["target"]) for step in steps):
        raise BuildError("a step names {target}, and the option target is not set: set it")
    return steps


def check_names(params: Mapping[str, Any]) -> None:
    """Refuse options that would make a bad path or that no file can match.

    :raises BuildError: names the option
    """
    for option in ("name", "version"):
        if not _NAME.fullmatch(params[option]):
            raise BuildError(
                f"{option} is {params[option]!r}: it becomes a folder's name: letters, digits and .+_~- only"
            )
    for option in ("prefix", "build_root"):
        if not params[option].startswith("/"):
            raise BuildError(f"{option} is {params[option]!r}: give an absolute path")
    for option in ("sha256", "archive_sha256"):
        if params[option] is not None and not re.fullmatch(r"[0-9a-fA-F]{64}", params[option]):
            raise BuildError(f"{option} is {params[option]!r}: give the file's SHA-256, 64 hex digits")
    for option, least in (("jobs", 1), ("timeout", 1), ("keep_builds", 1), ("needs_bytes", 0)):
        if params[option] is not None and params[option] < least:
            raise BuildError(f"{option} is {params[option]}: it has to be {least} or more")


def os_name(os_release: str) -> str:
    """Return ID and VERSION_ID of the text of /etc/os-release (os-release(5)), such as ``debian 12``."""
    fields = dict(word.split("=", 1) for word in shlex.split(os_release, comments=True) if "=" in word)
    return " ".join([fields.get("ID", "linux"), fields.get("VERSION_ID", "")]).strip()


def inputs_of(
    params: Mapping[str, Any], patches: Sequence[str], compiler: str, machine: str, os: str
) -> dict[str, Any]:
    """Return everything that decides the result of a build.

    ``patches`` are their SHA-256 sums in order, ``compiler`` the first line of its ``--version``.
    """
    # where there is a system, its steps follow from it, from the options and from RECIPE
    steps = [] if params["system"] else [asdict(step) for step in steps_of(params)]
    return {
        "recipe": RECIPE,
        "name": params["name"],
        "version": params["version"],
        "source": params["sha256"].lower(),
        "patches": list(patches),
        "system": params["system"],
        **{f"{part}_options": list(params[f"{part}_options"]) for part in ("configure", "make", "install")},
        "steps": steps,
        "env": {name: str(value) for name, value in params["env"].items()},
        "compiler": compiler,
        "target": params["target"],
        "depends": {name: str(value) for name, value in params["depends"].items()},
        "machine": machine,
        "os": os,
    }


def key_of(inputs: Mapping[str, Any]) -> str:
    """Return the key of a build: 12 hex digits that differ when any of ``inputs`` does."""
    text = json.dumps(inputs, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> str:
    """Say which inputs differ, such as ``configure_options changed: --without-x -> --with-x``."""
    said = []
    for name in [*new, *(name for name in old if name not in new)]:
        if old.get(name) != new.get(name):
            before, after = _apart(old.get(name), new.get(name))
            said.append(f"{name} changed: {before} -> {after}")
    return "; ".join(said)


def _apart(old: Any, new: Any) -> tuple[str, str]:
    """Return what only one of two values has, as text."""
    lists = [_as_list(old), _as_list(new)]
    only = [[item for item in lists[i] if item not in lists[1 - i]] for i in (0, 1)]
    if not any(only):
        # the same items in another order, or another number of them
        only = lists
    before, after = (" ".join(items) or "nothing" for items in only)
    return before, after


def _as_list(value: Any) -> list[str]:
    if isinstance(value, Mapping):
        return [f"{key}={item}" for key, item in sorted(value.items())]
    if isinstance(value, list):
        return [
            f"{item['name']}: {shlex.join(item['argv'])}" if isinstance(item, Mapping) else str(item)
            for item in value
        ]
    return [] if value is None else [str(value)]


def manifest_of(
    inputs: Mapping[str, Any],
    *,
    prefix: str,
    built: str,
    steps: Mapping[str, float],
    files: Mapping[str, int],
) -> dict[str, Any]:
    """Return what a whole build says of itself.

    ``built`` is the time in UTC (ISO 8601), ``steps`` the seconds of each, ``files`` the bytes of each file.
    """
    return {
        "name": inputs["name"],
        "version": inputs["version"],
        "key": key_of(inputs),
        "prefix": prefix,
        "built": built,
        "steps": [{"name": name, "seconds": seconds} for name, seconds in steps.items()],
        "inputs": dict(inputs),
        "count": len(files),
        "bytes": sum(files.values()),
        "files": dict(sorted(files.items())),
    }


def parse_manifest(text: str) -> dict[str, Any] | None:
    """Return a manifest, or None for a text that is none of ours."""
    try:
        manifest = json.loads(text)
        whole = key_of(manifest["inputs"]) == manifest["key"] and len(manifest["files"]) == manifest["count"]
        str(manifest["built"] + manifest["name"] + manifest["version"] + manifest["prefix"])
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    return manifest if whole else None


def surplus(others: Mapping[str, str], keep: int) -> list[str]:
    """Return which of ``others`` (folder: time built) to remove, oldest first.

    With the current build, which is none of them, ``keep`` stay.
    """
    oldest_first = sorted(others, key=lambda name: (others[name], name))
    return oldest_first[: max(0, len(others) - (keep - 1))]


def wanted_members(members: Iterable[tarfile.TarInfo]) -> Iterator[tarfile.TarInfo]:
    """Yield the members of a tarball as they are to be extracted: without its top folder, and root's.

    Python 3.9 may have no extraction filters, and the rule has to be the same on every node. Nothing may
    lead out of the tree, now or through a link that came before.

    :raises BuildError: names the member that leads out, or that is no file, folder or link
    """
    top = None
    links: set[tuple[str, ...]] = set()

    def refuse(member: tarfile.TarInfo, why: str) -> BuildError:
        return BuildError(f"its member {member.name!r} {why}: get the tarball from a place that you trust")

    def through_link(path: tuple[str, ...]) -> bool:
        return any(path[:length] in links for length in range(1, len(path) + 1))

    for original in members:
        member = copy.copy(original)
        if member.name.startswith("/") or ".." in member.name.split("/"):
            raise refuse(member, "leads out of the tree")
        path = PurePosixPath(member.name).parts
        if not path:
            continue
        top = path[0] if top is None else top
        if path[0] != top or (len(path) == 1 and not member.isdir()):
            raise BuildError(f"it has no single top folder: {top} and {member.name}. Pack it with one")
        path = path[1:]
        if not path:
            continue
        if through_link(path):
            raise refuse(member, "goes through a link")
        if member.issym():
            _check_link(member, path, refuse)
            links.add(path)
        elif member.islnk():
            target = PurePosixPath(member.linkname).parts
            if target[:1] != (top,) or ".." in target or through_link(target[1:]):
                raise refuse(member, f"is a link to {member.linkname!r}, out of the tree")
            member.linkname = "/".join(target[1:])
        elif not (member.isreg() or member.isdir()):
            raise refuse(member, "is a device or a pipe")
        member.name = "/".join(path)
        member.mode = (member.mode & 0o755) | (0o700 if member.isdir() else 0o600)
        member.uid, member.gid, member.uname, member.gname = 0, 0, "", ""
        yield member


def _check_link(member: tarfile.TarInfo, path: tuple[str, ...], refuse: Any) -> None:
    """Refuse a symbolic link that leads out; ups that follow a name could climb from another link's end."""
    target = [part for part in member.linkname.split("/") if part not in ("", ".")]
    ups = target.count("..")
    if member.linkname.startswith("/") or ups >= len(path) or ".." in target[ups:]:
        raise refuse(member, f"is a link to {member.linkname!r}, out of the tree")


_SOURCE = r"\S\.(?:c|cc|cpp|cxx|C|f|for|f77|f90|f95|f08|F|F77|F90|F95|F08|s|S|cu|hip)\b"
_COMPILES = re.compile(
    rf"(?=.*\s-c\s)(?=.*{_SOURCE})|.*\s-o\s*\S+\.l?o(?:\s|$)|\s+[A-Z][A-Z0-9]*\s+\S+\.l?o$"
)
_SHARE = re.compile(r"\[\s*(\d+)(?:%|/(\d+))\]")


def compile_steps(text: str) -> int:
    """Return how many lines compile something, in what make prints (with ``-n``, or silent rules)."""
    # libtool says again what make said
    return sum(bool(_COMPILES.match(line)) for line in text.splitlines() if not line.startswith("libtool:"))


@dataclass
class Progress:
    """How far a phase of a build is: ``done`` of ``total`` compile steps, or percent, where it is known."""

    phase: str
    total: int | None = None
    done: int | None = None
    line: str = ""

    def feed(self, line: str) -> None:
        """Take a line of the log into account."""
        self.line = line.strip()[:120] or self.line
        share = _SHARE.match(line)
        if share:
            self.done, self.total = int(share[1]), int(share[2] or 100)
        elif compile_steps(line):
            self.done = (self.done or 0) + 1
            if self.total is not None and self.done > self.total:
                self.total = None  # make -n did not see all of it

    def report(self, elapsed: float, phase_elapsed: float) -> dict[str, Any]:
        """Return what is shown: seconds since the start, and those left in this phase at its speed."""
        estimate = None
        if self.total and self.done:
            estimate = round(phase_elapsed * (self.total - self.done) / self.done, 1)
        return {
            "phase": self.phase,
            "done": self.done,
            "total": self.total,
            "elapsed": round(elapsed, 1),
            "estimate": estimate,
            "line": self.line,
        }


_ERROR = re.compile(
    r"\berrors?\b|\bfatal\b|\*\*\*|undefined reference|: not found|no such file|no space left|cannot find",
    re.IGNORECASE,
)


def last_errors(log: str, errors: int = 6, end: int = 3) -> str:
    """Return the last lines of ``log`` that say what failed, and the end of it, joined with slashes."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    said = [number for number, line in enumerate(lines) if _ERROR.search(line) and not compile_steps(line)][
        -errors:
    ]
    numbers = sorted({*said, *range(max(0, len(lines) - end), len(lines))})
    return " / ".join(lines[number][:300] for number in numbers)
