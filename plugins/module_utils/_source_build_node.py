# Copyright: (c) 2026, The nodesmith authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A build from source on this node: unpacked, made, put in place, packed; whole at any time, or not there."""

from __future__ import annotations

import contextlib
import datetime
import errno
import fcntl
import hashlib
import json
import lzma
import os
import platform
import pwd
import shlex
import shutil
import signal
import stat
import subprocess
import tarfile
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from ._hpl_process import end_group, signals_raise, wait_ended
from ._source_build import (
    MANIFEST,
    STAGED,
    BuildError,
    Progress,
    Step,
    compile_steps,
    differences,
    inputs_of,
    key_of,
    last_errors,
    manifest_of,
    os_name,
    parse_manifest,
    steps_of,
    surplus,
    wanted_members,
)

DRY_RUN_SECONDS = 60
"""Time for make -n to say how much there is to do; without it there is no percentage, and nothing else."""

PROGRESS_SECONDS = 0.5
POLL_SECONDS = 0.1


class StepError(BuildError):
    """A step ended with an error of its own, so that its tree is not worth going on with."""


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file, hex."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while block := stream.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def check_sum(path: Path, expected: str, option: str) -> None:
    """Refuse a file that is missing or has another sum.

    :raises BuildError: says both sums
    """
    if not path.is_file():
        raise BuildError(f"there is no file {path}: bring it to the node first")
    found = sha256_of(path)
    if found != expected.lower():
        raise BuildError(
            f"{path} has the SHA-256 {found}, and {option} is {expected.lower()}: it is cut short or another "
            "file than was meant. Fetch it again; change the sum only if you know it to be right"
        )


def write_json(path: Path, value: Any) -> None:
    """Write a file that is never seen half written."""
    part = path.with_name(f".{path.name}.{os.getpid()}")
    part.write_text(json.dumps(value), encoding="utf-8")
    part.replace(path)


def remove(path: Path) -> None:
    """Remove a file, a link or a folder, if it is there."""
    if path.is_symlink() or path.is_file():
        path.unlink()
    elif path.exists():
        shutil.rmtree(path)


def give(folder: Path, owner: tuple[int, int]) -> None:
    """Make ``owner`` (user and group) the owner of a folder and all in it."""
    os.chown(folder, *owner)
    for parent, folders, files in os.walk(folder):
        for name in folders + files:
            os.lchown(os.path.join(parent, name), *owner)


def own_folder(path: Path) -> None:
    """Make a folder to build in.

    :raises BuildError: it belongs to somebody who could change what is built there
    """
    path.mkdir(parents=True, exist_ok=True)
    found = path.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid not in (0, os.geteuid()):
        raise BuildError(
            f"{path} is a link or belongs to user {found.st_uid}: remove it, or name another build_root"
        )


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold ``path`` as a lock, which children do not inherit.

    :raises BuildError: another run holds it
    """
    with path.open("a+", encoding="utf-8") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            held = os.fstat(stream.fileno()).st_nlink > 0  # or its holder has removed it just now
        except BlockingIOError:
            held = False
        if not held:
            stream.seek(0)
            raise BuildError(
                f"another run (process {stream.read().strip()}) is at work in {path.parent}: wait for its "
                "end, and run again"
            )
        stream.truncate(0)
        stream.write(f"{os.getpid()}\n")
        stream.flush()
        yield


def holders(path: Path) -> list[int]:
    """Return the other processes that hold the file at ``path`` open."""
    found, real = [], os.path.realpath(path)
    for process in Path("/proc").iterdir():
        if process.name.isdigit() and int(process.name) != os.getpid():
            # it may end while it is looked at, and those of other users are closed to a plain user
            with contextlib.suppress(OSError):
                if any(os.readlink(link.path) == real for link in os.scandir(process / "fd")):
                    found.append(int(process.name))
    return found


def end_leftovers(mark: Path) -> None:
    """End what a killed run has left running: all that a build starts holds ``mark`` open."""
    for _attempt in range(50):
        left = holders(mark)
        if not left:
            return
        for process in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        time.sleep(POLL_SECONDS)
    raise BuildError(f"processes {left} of an earlier build do not end: end them, and run again")


@contextlib.contextmanager
def zstd(*options: str, **streams: Any) -> Iterator[subprocess.Popen[bytes]]:
    """Run zstd beside the caller.

    :raises BuildError: zstd is not there or fails
    """
    try:
        process = subprocess.Popen(["zstd", "-q", "-c", *options], stderr=subprocess.PIPE, **streams)
    except FileNotFoundError:
        raise BuildError("there is no zstd: install it, or use a .tar.gz") from None
    with process:
        yield process
        if process.stdin:
            process.stdin.close()
        if process.stdout:
            while process.stdout.read(1 << 20):
                pass
        said = process.stderr.read().decode("utf-8", "replace") if process.stderr else ""
    if process.returncode:
        raise BuildError(f"zstd ended with status {process.returncode}: {said.strip()}")


def extract(path: Path, folder: Path) -> None:
    """Unpack a tarball into the new ``folder``, without its top folder.

    :raises BuildError: it is not whole, or a member would lead out of ``folder``
    """

    def unpack(tar: tarfile.TarFile) -> None:
        # the members are checked already; newer Pythons warn where no filter is named
        tar.extraction_filter = lambda member, path: member
        tar.extractall(folder, members=wanted_members(tar), numeric_owner=True)  # noqa: S202

    folder.mkdir(parents=True)
    try:
        if path.suffix == ".zst":
            with (
                zstd("-d", str(path), stdout=subprocess.PIPE) as process,
                tarfile.open(fileobj=process.stdout, mode="r|") as tar,
            ):
                unpack(tar)
        else:
            with tarfile.open(path) as tar:
                unpack(tar)
    except BuildError as error:
        raise BuildError(f"{path} cannot be unpacked: {error}") from None
    except (OSError, EOFError, tarfile.TarError, zlib.error, lzma.LZMAError) as error:
        if isinstance(error, OSError) and error.errno:
            raise
        raise BuildError(f"{path} is not a whole tarball ({error}): fetch it again") from None
    if not any(folder.iterdir()):
        raise BuildError(f"{path} is an empty tarball: fetch it again")


def listing(folder: Path) -> dict[str, int]:
    """Return the bytes of each file and link below ``folder``, but for the manifest."""
    files = {}
    for parent, folders, names in os.walk(folder):
        for path in (Path(parent, name) for name in folders + names):
            found = path.lstat()
            if not stat.S_ISDIR(found.st_mode):
                files[str(path.relative_to(folder))] = found.st_size
    files.pop(MANIFEST, None)
    return files


def damage(folder: Path, manifest: Mapping[str, Any]) -> str:
    """Say which file of a build is gone, or nothing. Files that were edited are nobody's damage."""
    for name, size in manifest["files"].items():
        try:
            if size and not (folder / name).lstat().st_size:
                return f"{folder / name} is empty"
        except OSError:
            return f"{folder / name} is gone"
    return ""


def compiler_of(params: Mapping[str, Any]) -> str | None:
    """Return the path of the compiler, if it is there."""
    name: str = params["compiler"]
    return shutil.which(name, path=variables(params)["PATH"])


def variables(params: Mapping[str, Any]) -> dict[str, str]:
    """Return the environment of the steps, but for HOME."""
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        "LC_ALL": "C",
        "CC": params["compiler"],
        **{name: str(value) for name, value in params["env"].items()},
    }


def not_there_yet(params: Mapping[str, Any]) -> str:
    """Say what is missing to know the key, or nothing."""
    if not compiler_of(params):
        return f"there is no compiler {params['compiler']}: install it, or name another as compiler"
    missing = [path for path in params["patches"] if not Path(path).is_file()]
    return f"there is no patch {missing[0]}: bring it to the node first" if missing else ""


def look(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return everything that decides the result of the build on this node."""
    compiler = str(compiler_of(params))
    done = subprocess.run(
        [compiler, "--version"],
        env={**os.environ, "LC_ALL": "C"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    line = done.stdout.partition("\n")[0].strip()
    if done.returncode or not line:
        raise BuildError(
            f"{compiler} --version ends with status {done.returncode} and says "
            f"{done.stdout + done.stderr!r}: name a compiler that works"
        )
    release = Path("/etc/os-release")
    return inputs_of(
        params,
        [sha256_of(Path(path)) for path in params["patches"]],
        line,
        platform.machine(),
        os_name(release.read_text(encoding="utf-8") if release.exists() else ""),
    )


class Reporter:
    """Writes how far the build is, where that is asked for."""

    def __init__(self, path: str | None) -> None:
        self.path = path
        self.begin = self.phase_begin = time.monotonic()
        self.last = float("-inf")
        self.progress = Progress("unpack")

    def phase(self, name: str, line: str = "") -> None:
        """Begin a phase."""
        self.progress = Progress(name, line=line[:120])
        self.phase_begin = time.monotonic()
        self.write(final=name in ("done", "failed"))

    def write(self, final: bool = False) -> None:
        """Write the file, unless that was done just now."""
        now = time.monotonic()
        if self.path and (final or now - self.last >= PROGRESS_SECONDS):
            self.last = now
            write_json(Path(self.path), self.progress.report(now - self.begin, now - self.phase_begin))


class Build:
    """A build of one key on this node."""

    def __init__(
        self, params: dict[str, Any], inputs: dict[str, Any], report: Reporter, warn: Callable[[str], None]
    ) -> None:
        self.params, self.inputs, self.report, self.warn = params, inputs, report, warn
        self.steps = steps_of(params)
        self.key = key_of(inputs)
        self.title = f"{params['name']} {params['version']}"
        self.base = Path(params["prefix"])
        self.folder = f"{params['version']}-{self.key}"
        self.full_name = f"{params['name']}-{self.folder}"
        self.final = self.base / self.folder
        self.current = self.base / "current"
        self.log = self.base / "logs" / f"{self.folder}.log"
        self.destdir = self.base / f".stage-{self.folder}"
        self.stage = Path(f"{self.destdir}{self.final}")
        self.work = Path(params["build_root"], self.full_name)
        self.tree = self.work / "tree"
        self.state_file = self.work / "state.json"
        self.mark = self.work / "running"
        self.deadline = None if params["timeout"] is None else time.monotonic() + params["timeout"]
        self.owner: tuple[int, int] | None = None
        self.credentials: dict[str, Any] = {}
        if params["user"] is not None:
            self._become(params["user"])

    def _become(self, name: str) -> None:
        try:
            user = pwd.getpwnam(name)
        except KeyError:
            raise BuildError(f"there is no user {name} here: create it, or name another as user") from None
        if os.geteuid() == 0:
            groups = os.getgrouplist(name, user.pw_gid)
            self.owner = (user.pw_uid, user.pw_gid)
            self.credentials = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": groups}
        elif user.pw_uid != os.geteuid():
            raise BuildError(f"only root can build as the user {name}: use become, or leave user out")

    def plan(self) -> dict[str, Any]:
        """Return what is to be done, as the module's results."""
        builds = self._builds()
        newest = max(builds.values(), key=lambda manifest: str(manifest["built"]), default=None)
        self.before = newest["inputs"] if newest else {}
        manifest = builds.pop(self.folder, None)
        if manifest:
            missing = damage(self.final, manifest)
        elif self.final.exists():
            missing = f"{self.final} is not whole"
        else:
            missing = differences(self.before, self.inputs) if newest else "no build yet"
        stale = surplus({name: other["built"] for name, other in builds.items()}, self.params["keep_builds"])
        packed = self._packed()
        link = os.readlink(self.current) if self.current.is_symlink() else "nothing"
        others = {
            f"current was {link}": link != self.folder,
            "not packed yet": bool(self.params["pack"]) and not packed,
            f"more than {self.params['keep_builds']} builds": bool(stale),
        }
        reason = missing or next((why for why, holds in others.items() if holds), "")
        return {
            "changed": bool(reason),
            "key": self.key,
            "prefix": str(self.final),
            "installed": not missing,
            "built": bool(missing) and not self.params["archive"],
            "unpacked": bool(missing) and bool(self.params["archive"]),
            "reason": reason or "built already",
            "log": self.written_log(),
            "archive": packed,
            "inputs": self.inputs,
            "removed": [str(self.base / name) for name in stale],
        }

    def _builds(self) -> dict[str, dict[str, Any]]:
        """Return the manifests of the whole builds of this program, by folder."""
        found = {}
        for path in self.base.glob(f"[!.]*/{MANIFEST}"):
            manifest = parse_manifest(path.read_text(encoding="utf-8", errors="replace"))
            if manifest and manifest["name"] == self.params["name"] and not path.parent.is_symlink():
                found[path.parent.name] = manifest
        return found

    def written_log(self) -> str | None:
        """Return the path of the log, if a build of this key was begun here."""
        return str(self.log) if self.log.exists() else None

    def _packed(self) -> dict[str, Any] | None:
        """Return path, sum and size of the packed build, if it is there."""
        for end in (".tar.zst", ".tar.gz"):
            path = Path(self.params["pack"] or "", self.full_name + end)
            if self.params["pack"] and path.is_file():
                return {"path": str(path), "sha256": sha256_of(path), "bytes": path.stat().st_size}
        return None

    def converge(self) -> dict[str, Any]:
        """Do what the plan says, and return what was done, as the module's results."""
        os.umask(0o022)
        if self.params["pack"] and not Path(self.params["pack"]).is_dir():
            raise BuildError(f"there is no folder {self.params['pack']}: make it, or correct pack")
        if self.current.exists() and not self.current.is_symlink():
            raise BuildError(f"{self.current} is no link: move it away, as current is to be one")
        self.base.mkdir(parents=True, exist_ok=True)
        with signals_raise(), locked(self.base / ".lock"):
            result = self.plan()  # another run may have done it meanwhile
            for left in (
                path for name in ("old", "current", "stage") for path in self.base.glob(f".{name}-*")
            ):
                if left != self.destdir:
                    remove(left)
            try:
                if result["built"]:
                    result["steps"] = self.build()
                elif result["unpacked"]:
                    self.unpack()
            finally:
                remove(self.destdir)
            self.switch()
            for path in result["removed"]:
                self._discard(Path(path))
            if self.params["pack"] and not result["archive"]:
                result["archive"] = self.pack()
        return {**result, "installed": True, "log": self.written_log()}

    def build(self) -> list[dict[str, Any]]:
        """Build from source, going on with a build that was killed, and return the steps' times."""
        own_folder(self.work.parent)
        own_folder(self.work)
        self.log.parent.mkdir(exist_ok=True)
        with locked(self.work / "lock"):
            self.mark.touch()
            end_leftovers(self.mark)
            seconds = self._state()
            try:
                if seconds is None:
                    seconds = self._begin()
                    self._run_steps(seconds)
                else:
                    self._resume(seconds)
            except StepError:
                # its next run begins anew
                self.state_file.unlink(missing_ok=True)
                raise
            self._place(self._staged(seconds))
            remove(self.work)
        return [{"name": name, "seconds": seconds[name]} for name in seconds]

    def _state(self) -> dict[str, float] | None:
        """Return the seconds of the steps that an earlier run has finished; None when there is none."""
        try:
            state = json.loads(self.state_file.read_text(encoding="utf-8"))
            same = state["prefix"] == str(self.final) and self.tree.is_dir()
            return dict(state["steps"]) if same else None
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def _begin(self) -> dict[str, float]:
        """Make a new source tree, or leave nothing behind."""
        try:
            self._make_tree()
        except BaseException:
            remove(self.work)
            raise
        write_json(self.state_file, {"prefix": str(self.final), "steps": {}})
        return {}

    def _make_tree(self) -> None:
        """Unpack and patch the source."""
        free = shutil.disk_usage(self.work).free
        if free < self.params["needs_bytes"]:
            raise BuildError(
                f"{self.work.parent} has {free} bytes free, and {self.title} needs "
                f"{self.params['needs_bytes']}: make room, or name another build_root"
            )
        source, part, home = Path(self.params["source"]), self.work / "tree.part", self.work / "home"
        check_sum(source, self.params["sha256"], "sha256")
        self.report.phase("unpack")
        for path in (self.state_file, self.tree, part, home):
            remove(path)
        self.log.write_bytes(b"")
        home.mkdir()
        extract(source, part)
        if self.owner:
            give(part, self.owner)
            give(home, self.owner)
        for patch in self.params["patches"]:
            self.report.phase("patch", line=patch)
            with open(patch, "rb") as stream:
                command = ["patch", "-p1", "--fuzz=0", "--batch", "--forward", "--no-backup-if-mismatch"]
                self._run(Step(f"patch {patch}", command, variables(self.params)), part, stream)
        part.rename(self.tree)

    def _resume(self, seconds: dict[str, float]) -> None:
        """Go on where a killed run was, or begin anew when that fails: it may have left a broken file."""
        for path in self.tree.rglob("*.[oa]"):
            # the linker takes an empty file for a script that says nothing
            if path.is_file() and not path.stat().st_size:
                path.unlink()
        try:
            self._run_steps(seconds)
        except StepError:
            seconds.clear()
            self._begin()
            self._run_steps(seconds)

    def _run_steps(self, seconds: dict[str, float]) -> None:
        """Run the steps that are not in ``seconds`` yet, and those that fill the empty stage."""
        remove(self.destdir)
        self.stage.mkdir(parents=True)
        if self.owner:
            give(self.destdir, self.owner)
        if not self.final.is_symlink() and self.final.exists() and not (self.final / MANIFEST).exists():
            remove(self.final)
        existed = self.final.exists()
        values = {
            "prefix": str(self.final),
            "destdir": str(self.destdir),
            "stage": str(self.stage),
            "tree": str(self.tree),
            "jobs": str(self.params["jobs"] or len(os.sched_getaffinity(0))),
            "target": self.params["target"] or "",
        }
        for step in self.steps:
            if step.name in seconds and not step.names(STAGED):
                continue
            begin = time.monotonic()
            command = Step(step.name, step.argv, {**variables(self.params), **step.env}).filled(values)
            self.report.phase(step.name)
            self.report.progress.total = self._compile_steps(command)
            self._run(command, self.tree)
            if self.final.exists() and not existed:
                remove(self.final)
                raise StepError(
                    f"the step {step.name} of {self.title} wrote to {self.final} itself, which may never "
                    "be seen half filled: its installation does not know DESTDIR. Install into {stage} with "
                    "steps"
                )
            seconds[step.name] = round(time.monotonic() - begin, 3)
            write_json(self.state_file, {"prefix": str(self.final), "steps": seconds})

    def _start(
        self, step: Step, cwd: Path, mark: IO[bytes], stdout: IO[bytes], stdin: IO[bytes] | int
    ) -> subprocess.Popen[bytes]:
        """Start a command as the build's user, in a session of its own and with nothing else in its way."""
        try:
            return subprocess.Popen(
                list(step.argv),
                cwd=cwd,
                env={"HOME": str(self.work / "home"), **step.env},
                stdin=stdin,
                stdout=stdout,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                umask=0o022,
                pass_fds=[mark.fileno()],
                **self.credentials,
            )
        except OSError as error:
            raise BuildError(
                f"the step {step.name} of {self.title} cannot run {step.argv[0]}: {error.strerror}. "
                "Install it, or correct the step"
            ) from None

    def _compile_steps(self, step: Step) -> int | None:
        """Ask make how much there is to compile; None when it cannot say, or nobody wants to know."""
        if not self.report.path or Path(step.argv[0]).name not in ("make", "gmake"):
            return None
        # -k: it cannot see past what the build itself makes on the way, but sees the other folders
        dry = Step(step.name, [step.argv[0], "-nk", *step.argv[1:]], step.env)
        with tempfile.TemporaryFile() as out, self.mark.open("rb") as mark:
            process = self._start(dry, self.tree, mark, out, subprocess.DEVNULL)
            try:
                wait_ended(process, DRY_RUN_SECONDS)
            except subprocess.TimeoutExpired:
                return None
            finally:
                end_group(process)
            out.seek(0)
            return compile_steps(out.read().decode("utf-8", "replace")) or None

    def _run(self, step: Step, cwd: Path, stdin: IO[bytes] | int = subprocess.DEVNULL) -> None:
        """Run a command, with its output in the log.

        :raises StepError: it failed
        :raises BuildError: it could not start, was killed, or the time ran out
        """
        with self.log.open("ab") as out, self.mark.open("rb") as mark:
            out.write(f"$ {shlex.join(step.argv)}\n".encode())
            out.flush()
            begin = out.tell()
            process = self._start(step, cwd, mark, out, stdin)
            try:
                self._follow(process, step, begin)
            finally:
                end_group(process)
        if process.returncode == 0:
            return
        ended = f"the step {step.name} of {self.title} "
        if process.returncode < 0:
            raise BuildError(
                f"{ended}was killed (signal {-process.returncode}): run again, and it goes on there"
            )
        with self.log.open("rb") as log:
            log.seek(begin)
            said = last_errors(log.read().decode("utf-8", "replace"))
        raise StepError(
            f"{ended}ended with status {process.returncode}: {said or 'it said nothing'}. The whole log is "
            f"{self.log} on the node"
        )

    def _follow(self, process: subprocess.Popen[bytes], step: Step, begin: int) -> None:
        """Report what the process writes to the log, until it ends or the time runs out."""
        part = b""
        with self.log.open("rb") as log:
            log.seek(begin)
            while True:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    wait_ended(process, POLL_SECONDS)
                *lines, part = (part + log.read()).split(b"\n")
                for line in lines:
                    self.report.progress.feed(line.decode("utf-8", "replace"))
                self.report.write()
                if process.returncode is not None:
                    return
                if self.deadline is not None and time.monotonic() > self.deadline:
                    raise BuildError(
                        f"the time ran out after {self.params['timeout']} s in the step {step.name} of "
                        f"{self.title}: give timeout more and run again, and it goes on there"
                    )

    def _staged(self, seconds: Mapping[str, float]) -> Path:
        """Return the stage when it is whole, with its manifest."""
        end_leftovers(self.mark)
        if self.owner:
            give(self.destdir, (os.geteuid(), os.getegid()))
        files = listing(self.stage)
        if not files:
            raise BuildError(
                f"the steps of {self.title} have put nothing into {{stage}}, {self.stage}: does its "
                "installation know DESTDIR? If not, install into {stage} with steps"
            )
        others = [name for name in listing(self.destdir) if not self._in_prefix(name)]
        if others:
            self.warn(
                f"{self.title} installs {len(others)} files outside of its prefix, left out: {others[:3]}"
            )
        for name in files:
            path = self.stage / name
            # a packed build has no links by absolute path, as they could lead anywhere
            if path.is_symlink() and os.readlink(path).startswith(f"{self.final}/"):
                inside = os.path.relpath(os.readlink(path), (self.final / name).parent)
                path.unlink()
                path.symlink_to(inside)
        manifest = manifest_of(
            self.inputs,
            prefix=str(self.final),
            built=datetime.datetime.now(datetime.timezone.utc).isoformat(),
            steps=seconds,
            files=listing(self.stage),
        )
        with (self.stage / MANIFEST).open("x", encoding="utf-8") as stream:
            json.dump(manifest, stream, indent=1)
        return self.stage

    def _in_prefix(self, name: str) -> bool:
        return f"/{name}".startswith(f"{self.final}/")

    def unpack(self) -> None:
        """Put a packed build in place."""
        path = Path(self.params["archive"])
        self.report.phase("unpack", line=str(path))
        check_sum(path, self.params["archive_sha256"], "archive_sha256")
        remove(self.destdir)
        self.destdir.mkdir()
        folder = self.destdir / "packed"
        extract(path, folder)
        text = (folder / MANIFEST).read_text(encoding="utf-8") if (folder / MANIFEST).is_file() else ""
        manifest = parse_manifest(text)
        if manifest is None:
            raise BuildError(f"{path} is no packed build: it has no {MANIFEST}. Pack one with pack")
        if manifest["key"] != self.key:
            raise BuildError(
                f"{path} is {manifest['name']} {manifest['version']} of the key {manifest['key']}, and "
                f"{self.key} is asked for ({differences(manifest['inputs'], self.inputs)}): take the build "
                "of that key, or build here"
            )
        missing = damage(folder, manifest)
        if missing:
            raise BuildError(f"{path} is not whole: {missing}. Pack it again")
        if manifest["prefix"] != str(self.final):
            self.warn(
                f"{path} was built for {manifest['prefix']}, and goes to {self.final}: what it finds by the "
                "path that it was built with, it will not find there"
            )
        self._place(folder)

    def _place(self, folder: Path) -> None:
        """Give a whole build its final name."""
        if self.final.exists():
            self._discard(self.final, folder)
        else:
            folder.rename(self.final)

    def _discard(self, path: Path, successor: Path | None = None) -> None:
        """Remove a build, which is first renamed so that none is seen with half its files."""
        old = self.base / f".old-{path.name}"
        path.rename(old)
        if successor:
            successor.rename(path)
        remove(old)

    def switch(self) -> None:
        """Let current lead to this build, in one step."""
        link = self.base / f".current-{os.getpid()}"
        link.symlink_to(self.folder)
        link.replace(self.current)

    def pack(self) -> dict[str, Any] | None:
        """Pack the build for other nodes."""
        self.report.phase("pack")
        end = ".tar.zst" if shutil.which("zstd") else ".tar.gz"
        path = Path(self.params["pack"], self.full_name + end)
        part = path.with_name(f".{path.name}.{os.getpid()}")
        try:
            if end == ".tar.gz":
                with tarfile.open(part, "w:gz") as tar:
                    tar.add(self.final, self.full_name)
            else:
                with (
                    part.open("wb") as out,
                    zstd("-T0", stdin=subprocess.PIPE, stdout=out) as process,
                    tarfile.open(fileobj=process.stdin, mode="w|") as tar,
                ):
                    tar.add(self.final, self.full_name)
            part.replace(path)
        finally:
            remove(part)
        return self._packed()


def remedy(error: OSError) -> str:
    """Return what an operating system's error says, and what to do."""
    said = f"{error.strerror}: {error.filename}" if error.filename else str(error)
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"{said}. Make room there, or name another prefix or build_root"
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return f"{said}. Use become, or name another prefix or build_root"
    return said
