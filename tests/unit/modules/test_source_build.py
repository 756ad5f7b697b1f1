"""source_build with real compilers, make, cmake, patch, tar and zstd, on tiny projects made here."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path

import pytest
from ansible.module_utils.basic import AnsibleModule
from ansible_collections.nodesmith.cluster.plugins.modules import source_build

ROOT = Path(__file__).parents[3]
KEYS = {
    "changed",
    "key",
    "prefix",
    "current",
    "installed",
    "built",
    "unpacked",
    "reason",
    "log",
    "seconds",
    "steps",
    "archive",
    "inputs",
    "removed",
}

MAIN = """\
#include <stdio.h>
extern const char *word(void);
int main(void) { printf("%s from %s\\n", word(), PREFIX); return 0; }
"""
WORD = """\
#ifndef WORD
#define WORD "hello"
#endif
const char *word(void) { return WORD; }
"""
# written by hand in the form that autoconf's have, which is not on every machine
CONFIGURE = """\
#!/bin/sh
prefix=/usr/local word=hello
for option; do
  case $option in
    --prefix=*) prefix=${option#*=} ;;
    --with-word=*) word=${option#*=} ;;
    *) echo "configure: error: unrecognized option: $option" >&2; exit 1 ;;
  esac
done
echo "checking for the word... $word"
sed -e "s,@prefix@,$prefix,g" -e "s,@word@,$word,g" Makefile.in > Makefile
"""
MAKEFILE = """\
PREFIX ?= /usr/local
hello: main.o word.o
\t$(CC) -o $@ main.o word.o
main.o: main.c
\t$(CC) $(CPPFLAGS) -DPREFIX='"$(PREFIX)"' -c main.c -o $@
word.o: word.c
\t$(CC) $(CPPFLAGS) -c word.c -o $@
install: hello
\tmkdir -p $(DESTDIR)$(PREFIX)/bin
\tcp hello $(DESTDIR)$(PREFIX)/bin/hello
\tln -sf $(PREFIX)/bin/hello $(DESTDIR)$(PREFIX)/greet
.PHONY: install
"""
CMAKE = """\
cmake_minimum_required(VERSION 3.10)
project(hello C)
add_executable(hello main.c word.c)
target_compile_definitions(hello PRIVATE PREFIX="${CMAKE_INSTALL_PREFIX}")
install(TARGETS hello DESTINATION bin)
"""
PLAIN = {"main.c": MAIN, "word.c": WORD, "Makefile": MAKEFILE}
PROJECTS = {
    "autotools": {
        "main.c": MAIN,
        "word.c": WORD,
        "configure": CONFIGURE,
        "Makefile.in": MAKEFILE.replace("?= /usr/local", "= @prefix@").replace(
            "-c word.c", "-DWORD='\"@word@\"' -c word.c"
        ),
    },
    "make": PLAIN,
    "cmake": {"main.c": MAIN, "word.c": WORD, "CMakeLists.txt": CMAKE},
}
# waits for a file, so that a test can say when what runs is to go on
GATE = "\t@while [ ! -e $(GATE) ]; do sleep 0.05; done\n"


def tarball(path, files, members=()):
    """Write a tarball with the single top folder C(hello-1) and return path and sum as options."""
    with tarfile.open(path, "w:gz") as tar:
        for name, text in files.items():
            member = tarfile.TarInfo(f"hello-1/{name}")
            member.size, member.mode = len(text.encode()), 0o755 if name == "configure" else 0o644
            tar.addfile(member, io.BytesIO(text.encode()))
        for member in members:
            tar.addfile(member)
    return {"source": str(path), "sha256": hashlib.sha256(path.read_bytes()).hexdigest()}


def said_by(prefix):
    """Return what the program in ``prefix`` prints."""
    return subprocess.run([f"{prefix}/bin/hello"], capture_output=True, text=True, check=True).stdout.strip()


class Node:
    """A node of its own: prefix, build folder, and the options of a plain make build there."""

    def __init__(self, folder, call):
        self.folder, self.call = folder, call
        self.base = folder / "opt" / "hello"
        # reached through a link, as /var/tmp is on some machines
        self.work = folder / "real" / "build"
        (folder / "real").mkdir()
        (folder / "var").symlink_to("real")
        self.options = {
            "name": "hello",
            "version": "1",
            "system": "make",
            "prefix": str(self.base),
            "build_root": str(folder / "var" / "build"),
            **tarball(folder / "hello-1.tar.gz", PLAIN),
        }

    def with_files(self, files, members=()):
        self.options.update(tarball(self.folder / "hello-1.tar.gz", files, members))

    def given(self, options):
        """The options of this node and a test's own, without those that are None."""
        return {name: value for name, value in {**self.options, **options}.items() if value is not None}

    def __call__(self, check=False, **options):
        result = self.call(source_build, check=check, **self.given(options))
        assert set(result) - {"msg", "failed", "warnings", "diff", "invocation"} == KEYS
        return result

    def fails(self, **options):
        result = self(**options)
        assert result["failed"]
        assert not result["changed"]
        assert result["steps"] == result["removed"] == []
        return result["msg"]

    def start(self, uid=None, **options):
        """Start the module as a process of its own."""
        lines = [
            "import json, os, runpy, sys",
            "from ansible.module_utils.testing import patch_module_args",
            f"runpy.run_path({str(ROOT / 'conftest.py')!r})",
            "from ansible_collections.nodesmith.cluster.plugins.modules import source_build",
            f"os.setuid({uid})" if uid else "",
            "with patch_module_args(json.loads(sys.argv[1])): source_build.main()",
        ]
        command = [sys.executable, "-c", "\n".join(lines), json.dumps(self.given(options))]
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd="/")

    @property
    def builds(self):
        """The names in the prefix that are builds."""
        if not self.base.exists():
            return set()
        return {path.name for path in self.base.iterdir()} - {"logs", "current", ".lock"}


@pytest.fixture
def node(tmp_path, call):
    yield Node(tmp_path, call)
    (tmp_path / "gate").touch()  # nothing is to wait on after a test that failed


def wait_for(condition, what, seconds=30):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"no {what}"
        time.sleep(0.02)


def kill(process):
    process.send_signal(signal.SIGKILL)
    process.communicate()


# ---- building


@pytest.mark.parametrize("system", ["autotools", "make", "cmake"])
def test_build_and_converge(node, system):
    if system == "cmake" and not shutil.which("cmake"):
        pytest.skip("cmake is not installed")
    node.with_files(PROJECTS[system])
    options = {"system": system, "progress": str(node.folder / "progress.json")}
    would = node(check=True, **options)
    assert would["changed"]
    assert would["built"]
    assert would["reason"] == "no build yet"
    assert not node.base.exists()

    result = node(**options)
    assert result["changed"]
    assert result["built"]
    assert result["installed"]
    assert result["key"] == would["key"]
    assert result["prefix"] == would["prefix"] == f"{node.base}/1-{result['key']}"
    # built for the final prefix, although it was installed elsewhere and renamed
    assert said_by(node.base / "current") == f"hello from {result['prefix']}"
    names = ["configure", "make", "install"][system == "make" :]
    assert [step["name"] for step in result["steps"]] == names
    assert "$ " in Path(result["log"]).read_text()
    assert not list(node.work.iterdir())
    assert json.loads((node.folder / "progress.json").read_text())["phase"] == "done"

    manifest = json.loads(Path(result["prefix"], ".nodesmith-build.json").read_text())
    found = subprocess.run(
        ["find", ".", "!", "-type", "d", "!", "-name", ".nodesmith*", "-printf", "%P %s\n"],
        cwd=result["prefix"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split("\n")[:-1]
    assert sorted(found) == [f"{name} {size}" for name, size in manifest["files"].items()]
    assert manifest["count"] == len(found)
    assert manifest["bytes"] == sum(int(line.split()[-1]) for line in found)

    # neither the tarball nor write access is needed any more
    Path(node.options["source"]).unlink()
    again = node(**options)
    assert not again["changed"]
    assert again["reason"] == "built already"
    assert again["key"] == result["key"]


def test_steps_of_your_own(node):
    steps = [
        {"name": "make", "argv": ["make", "-j{jobs}", "CPPFLAGS=-DWORD='\"{target}\"'", "PREFIX={prefix}"]},
        {"name": "strip", "argv": ["sh", "-c", "x=bin; mkdir {stage}/${x}; test -f {tree}/main.c"]},
        {"name": "install", "argv": ["sh", "-c", "cp hello $WHERE"], "env": {"WHERE": "{stage}/bin/"}},
    ]
    result = node(system=None, steps=steps, target="zen", env={"SEEN": "1"})
    assert said_by(result["current"]) == f"zen from {result['prefix']}"


def test_the_environment_is_the_options_one(node, monkeypatch):
    monkeypatch.setenv("CFLAGS", "-O0")
    monkeypatch.setenv("MAKEFLAGS", "-n")
    steps = [{"name": "install", "argv": ["sh", "-c", "env > {stage}/env"]}]
    result = node(system=None, steps=steps, env={"LDFLAGS": "-Wl,-rpath,{prefix}/lib"})
    seen = dict(line.split("=", 1) for line in Path(result["prefix"], "env").read_text().splitlines())
    assert seen["LDFLAGS"] == f"-Wl,-rpath,{result['prefix']}/lib"
    assert seen["CC"] == "cc"
    assert not {"CFLAGS", "MAKEFLAGS"} & set(seen)


def test_patch(node):
    patch = node.folder / "word.patch"
    patch.write_text(
        '--- a/word.c\n+++ b/word.c\n@@ -1,3 +1,3 @@\n #ifndef WORD\n-#define WORD "hello"\n'
        '+#define WORD "patched"\n #endif\n'
    )
    before = node()
    after = node(patches=[str(patch)])
    assert said_by(after["current"]) == f"patched from {after['prefix']}"
    assert after["reason"].startswith("patches changed: nothing -> ")

    # a patch that needs fuzz: its first line of context is another
    patch.write_text(patch.read_text().replace("#ifndef WORD", "#ifndef OTHER"))
    message = node.fails(patches=[str(patch)])
    assert "patch" in message
    assert "FAILED" in message
    assert os.readlink(node.base / "current") == after["prefix"].rpartition("/")[2]
    assert before["key"] != after["key"]
    assert "no patch" in node.fails(patches=["/nowhere.patch"])


def test_what_is_not_there_yet_in_check_mode(node):
    for options, name in (
        ({"patches": ["/no.patch"]}, "/no.patch"),
        ({"compiler": "cc-of-mars"}, "cc-of-mars"),
    ):
        result = node(check=True, **options)
        assert result["changed"]
        assert result["key"] is result["prefix"] is result["inputs"] is None
        assert name in result["reason"]
        assert not node(check=True, key_only=True, **options)["changed"]


def test_as_another_user():
    if os.geteuid() != 0:
        pytest.skip("only root can build as another user")
    user = pwd.getpwnam("nobody")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        node = Node(folder, None)
        steps = [
            {"name": "make", "argv": ["sh", "-c", "make && id -u > who && touch $HOME/x && ! touch /opt/x"]},
            {"name": "install", "argv": ["sh", "-c", "mkdir {stage}/bin && cp hello who {stage}/bin"]},
        ]
        out, _err = node.start(system=None, steps=steps, user="nobody").communicate()
        result = json.loads(out)
        assert result.get("built"), result
        installed = Path(result["prefix"], "bin", "who")
        assert installed.read_text().strip() == str(user.pw_uid)
        assert {path.lstat().st_uid for path in Path(result["prefix"]).rglob("*")} == {0}


def test_a_user_that_is_not_there(node):
    assert "no user who-is-this" in node.fails(user="who-is-this")


# ---- what rebuilds, and why


def test_exactly_the_dependants_rebuild(tmp_path, call):
    nodes = {}
    for name in ("blas", "mpi", "hpl"):
        (tmp_path / name).mkdir()
        nodes[name] = Node(tmp_path / name, call)
        nodes[name].options["name"] = name

    def play(**options_of_blas):
        results = {"blas": nodes["blas"](**options_of_blas), "mpi": nodes["mpi"]()}
        keys = {name: result["key"] for name, result in results.items()}
        results["hpl"] = nodes["hpl"](depends=keys)
        return results

    play()
    assert [result["changed"] for result in play().values()] == [False] * 3
    after = play(make_options=["CPPFLAGS=-DX"])
    assert {name for name, result in after.items() if result["built"]} == {"blas", "hpl"}
    assert after["blas"]["reason"] == "make_options changed: nothing -> CPPFLAGS=-DX"
    assert after["hpl"]["reason"].startswith("depends changed: blas=")
    assert [result["changed"] for result in play(make_options=["CPPFLAGS=-DX"]).values()] == [False] * 3


def test_check_and_diff(node):
    node(make_options=["CPPFLAGS=-DA"])
    would = node(check=True, make_options=["CPPFLAGS=-DB"], env={"A": 1}, _ansible_diff=True)
    assert (
        would["reason"] == "make_options changed: CPPFLAGS=-DA -> CPPFLAGS=-DB; env changed: nothing -> A=1"
    )
    sides = [json.loads(would["diff"][side]) for side in ("before", "after")]
    assert {name for name in sides[0] if sides[0][name] != sides[1][name]} == {"make_options", "env"}
    assert len(node.builds) == 1
    same = node(check=True, make_options=["CPPFLAGS=-DA"], _ansible_diff=True)["diff"]
    assert same["before"] == same["after"]


def test_another_compiler(node):
    old = node.folder / "gcc-of-old"
    old.write_text('#!/bin/sh\n[ "$1" = --version ] && echo "gcc (Old) 4.2" && exit\nexec cc "$@"\n')
    old.chmod(0o755)
    first = node()
    second = node(compiler=str(old))
    version = subprocess.run(["cc", "--version"], capture_output=True, text=True, check=True).stdout
    assert second["reason"] == f"compiler changed: {version.splitlines()[0]} -> gcc (Old) 4.2"
    assert "$ make" in Path(second["log"]).read_text()
    assert str(old) in Path(second["log"]).read_text()
    # back again: both are there, and only the link moves
    back = node()
    assert back["changed"]
    assert not back["built"]
    assert back["reason"].startswith("current was ")
    assert os.readlink(node.base / "current") == Path(first["prefix"]).name


def test_key_only(node):
    asked = node(key_only=True)
    assert not asked["changed"]
    assert not asked["installed"]
    assert not node.base.exists()
    assert node()["key"] == asked["key"]
    assert node(key_only=True)["installed"]


@pytest.mark.parametrize("harm", ["unlink", "empty", "no manifest"])
def test_a_build_that_lost_something_is_made_again(node, harm):
    prefix = Path(node()["prefix"])
    if harm == "unlink":
        (prefix / "bin" / "hello").unlink()
    elif harm == "empty":
        (prefix / "bin" / "hello").write_bytes(b"")
    else:
        (prefix / ".nodesmith-build.json").unlink()
    result = node()
    assert result["built"]
    assert str(prefix) in result["reason"]
    assert said_by(prefix) == f"hello from {prefix}"
    assert node.builds == {prefix.name}


def test_an_edited_file_is_no_damage(node):
    prefix = Path(node()["prefix"])
    (prefix / "bin" / "hello").write_text("#!/bin/sh\necho mine\n")
    assert not node()["changed"]


def test_old_builds_go(node):
    keys = []
    for word in "abcd":
        result = node(make_options=[f"CPPFLAGS=-D{word}"])
        keys.append(f"1-{result['key']}")
        assert node.builds == set(keys[-2:])
    (node.base / "1-of-others").mkdir()
    only = node(make_options=["CPPFLAGS=-Dd"], keep_builds=1)
    assert only["removed"] == [str(node.base / keys[2])]
    assert only["reason"] == "more than 1 builds"
    assert node.builds == {keys[3], "1-of-others"}


# counts how often the link leads to no whole build, or a build is there that is not whole
READER = """
import os, sys
base, stop = sys.argv[1:]
seen, bad = set(), 0
def whole(path):
    try:
        os.stat(path + "/.nodesmith-build.json")
        os.stat(path + "/bin/hello")
        return True
    except OSError:
        return False
while not os.path.exists(stop):
    for _ in range(100):
        try:
            seen.add(os.readlink(base + "/current"))
        except OSError:
            bad += 1
        bad += not whole(base + "/current")
        for name in os.listdir(base):
            bad += name.startswith("1-") and not whole(f"{base}/{name}") and os.path.exists(f"{base}/{name}")
print(bad, len(seen))
"""


def test_current_always_leads_to_a_whole_build(node):
    node(make_options=["CPPFLAGS=-Dstart"])
    stop = node.folder / "stop"
    command = [sys.executable, "-c", READER, str(node.base), str(stop)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as reader:
        try:
            for word in "abc":  # with old builds that go
                node(make_options=[f"CPPFLAGS=-D{word}"])
            for word in "bc" * 15:
                assert node(make_options=[f"CPPFLAGS=-D{word}"])["changed"]
        finally:
            stop.touch()
        bad, seen = reader.communicate()[0].split()
    assert bad == "0"
    assert int(seen) >= 2


# ---- killed


def slow_project(node):
    """Let word.o wait for the file gate, and list objects that are finished in made."""
    made = f"\t@echo $@ >> {node.folder}/made\n"
    makefile = MAKEFILE.replace("main.c -o $@\n", f"main.c -o $@\n{made}")
    makefile = makefile.replace("word.o: word.c\n", f"word.o: word.c\n{GATE}")
    node.with_files({**PLAIN, "Makefile": makefile})
    gate = node.folder / "gate"
    node.options.update(make_options=[f"GATE={gate}"], jobs=1)
    return gate


def children_of(node):
    """The processes that run in the build folder."""
    found = []
    for link in Path("/proc").glob("[0-9]*/cwd"):
        with contextlib.suppress(OSError):
            if os.readlink(link).startswith(str(node.work)):
                found.append(int(link.parent.name))
    return found


@pytest.mark.parametrize("victim", ["make", "module"])
def test_killed_in_the_middle_of_make(node, victim):
    gate, made = slow_project(node), node.folder / "made"
    module = node.start()
    wait_for(made.exists, "main.o")
    wait_for(lambda: children_of(node), "make")
    if victim == "make":
        for process in children_of(node):
            if "make" in Path(f"/proc/{process}/comm").read_text():
                os.kill(process, signal.SIGKILL)
        result = json.loads(module.communicate()[0])
        assert "was killed (signal 9)" in result["msg"]
    else:
        kill(module)
        assert children_of(node)  # make lives on, and is not to meet the next one
    left = set(children_of(node))
    assert not list(node.base.glob("1-*"))
    # what is left of the first run is ended before it could meet the second one
    second = node.start()
    wait_for(lambda: children_of(node) and not left & set(children_of(node)), "second make alone")
    gate.touch()
    result = json.loads(second.communicate()[0])
    assert result["built"]
    assert made.read_text() == "main.o\n"
    assert said_by(result["current"]) == f"hello from {result['prefix']}"
    assert node.builds == {Path(result["prefix"]).name}


def test_killed_in_the_middle_of_the_installation(node):
    gate, made = node.folder / "gate", node.folder / "made"
    wait = f"while [ ! -e {gate} ]; do sleep 0.05; done; echo all > {{stage}}/bin/last"
    steps = [
        {"name": "make", "argv": ["sh", "-c", f"echo made >> {made}; make"]},
        {"name": "install", "argv": ["make", "install", "DESTDIR={destdir}", "PREFIX={prefix}"]},
        {"name": "rest", "argv": ["sh", "-c", wait]},
    ]
    node.options.update(system=None, steps=steps)
    module = node.start()
    wait_for(lambda: any("bin/last" in path.read_text() for path in node.base.glob("logs/*")), "last step")
    kill(module)
    assert not list(node.base.glob("1-*"))
    assert not (node.base / "current").is_symlink()
    assert not node(check=True)["installed"]
    gate.touch()
    result = node()
    assert [step["name"] for step in result["steps"]] == ["make", "install", "rest"]
    assert made.read_text() == "made\n"
    # the stage began empty again, so that what was installed before is there by a second run of that step
    assert sorted(path.name for path in Path(result["prefix"], "bin").iterdir()) == ["hello", "last"]


@pytest.mark.parametrize(("size", "makes"), [(100, 1), (0, 2)], ids=["half", "empty"])
def test_a_broken_file_of_a_killed_build_is_made_again(node, size, makes):
    gate = slow_project(node)
    module = node.start()
    wait_for((node.folder / "made").exists, "main.o")
    kill(module)
    (main,) = node.work.glob("*/tree/main.o")
    main.write_bytes(main.read_bytes()[:size])  # as if it had been written just then
    os.utime(main)
    gate.touch()
    result = node()
    assert said_by(result["current"]) == f"hello from {result['prefix']}"
    assert (node.folder / "made").read_text() == "main.o\nmain.o\n"
    # what the linker refuses begins the log anew; it would take an empty file without a word
    assert Path(result["log"]).read_text().count("$ make -j1") == makes


def test_two_at_once(node):
    gate = slow_project(node)
    module = node.start()
    wait_for((node.folder / "made").exists, "main.o")
    message = node.fails(timeout=10)
    assert f"another run (process {module.pid}) is at work in {node.base}" in message
    # the same build for another prefix, in the same build folder
    message = node.fails(prefix=str(node.folder / "elsewhere"), timeout=10)
    assert f"another run (process {module.pid}) is at work in {node.options['build_root']}" in message
    gate.touch()
    assert json.loads(module.communicate()[0])["built"]
    assert not node()["changed"]


def test_told_to_stop(node):
    slow_project(node)
    module = node.start()
    wait_for((node.folder / "made").exists, "main.o")
    module.terminate()
    module.communicate()
    wait_for(lambda: not children_of(node), "end of make")
    assert not node.builds


def test_time_runs_out(node):
    gate = slow_project(node)
    assert "the time ran out after 1 s in the step make" in node.fails(timeout=1)
    assert not children_of(node)
    gate.touch()
    assert node()["built"]
    assert (node.folder / "made").read_text() == "main.o\n"


def test_progress(node):
    gate, path = slow_project(node), node.folder / "progress.json"
    module = node.start(progress=str(path))
    seen = []

    def waits():
        if path.exists():
            seen.append(json.loads(path.read_text()))
        return seen and seen[-1]["phase"] == "make" and seen[-1]["done"]

    wait_for(waits, "progress")
    assert {name: seen[-1][name] for name in ("done", "total", "phase")} == {
        "phase": "make",
        "done": 1,
        "total": 2,
    }
    assert "main.o" in seen[-1]["line"]
    assert seen[-1]["estimate"] is not None
    gate.touch()
    module.communicate()
    assert json.loads(path.read_text())["phase"] == "done"


# ---- the packed result on another node


@pytest.mark.parametrize("zstd", [True, False])
def test_a_second_node_takes_the_packed_result(node, tmp_path, call, monkeypatch, zstd):
    if zstd and not shutil.which("zstd"):
        pytest.skip("zstd is not installed")
    if not zstd:
        which = shutil.which
        monkeypatch.setattr(
            shutil, "which", lambda name, **more: None if name == "zstd" else which(name, **more)
        )
    (tmp_path / "packed").mkdir()
    (tmp_path / "second").mkdir()
    first = node(pack=str(tmp_path / "packed"))
    packed = first["archive"]
    assert packed["path"].endswith(f"/hello-1-{first['key']}.tar.{'zst' if zstd else 'gz'}")
    assert packed["sha256"] == hashlib.sha256(Path(packed["path"]).read_bytes()).hexdigest()
    assert packed["bytes"] == Path(packed["path"]).stat().st_size
    again = node(pack=str(tmp_path / "packed"))
    assert not again["changed"]
    assert again["archive"] == packed

    second = Node(tmp_path / "second", call)
    second.options.update(source="/nowhere", sha256=node.options["sha256"])
    taking = {"archive": packed["path"], "archive_sha256": packed["sha256"]}
    would = second(check=True, **taking)
    assert would["unpacked"]
    assert not would["built"]
    warnings = []
    # where a warning ends up depends on what else this process has imported of Ansible
    monkeypatch.setattr(AnsibleModule, "warn", lambda _module, text: warnings.append(text))
    taken = second(**taking)
    assert taken["unpacked"]
    assert not taken["built"]
    assert taken["log"] is None
    assert taken["key"] == first["key"]
    # the program has the first node's prefix in it
    assert said_by(taken["current"]) == f"hello from {first['prefix']}"
    assert any(first["prefix"] in warning for warning in warnings)
    assert Path(taken["prefix"], "greet").resolve() == Path(taken["prefix"], "bin", "hello")
    assert not second(**taking)["changed"]

    wrong = second.fails(**{**taking, "archive_sha256": "0" * 64}, make_options=["CPPFLAGS=-DX"])
    assert "0" * 64 in wrong
    assert packed["sha256"] in wrong
    other = second(key_only=True, make_options=["CPPFLAGS=-DX"])["key"]
    message = second.fails(**taking, make_options=["CPPFLAGS=-DX"])
    assert first["key"] in message
    assert other in message
    assert "CPPFLAGS=-DX" in message
    assert second.builds == {Path(taken["prefix"]).name}


# ---- bad input


def member(name, kind=tarfile.REGTYPE, link=""):
    made = tarfile.TarInfo(name)
    made.type, made.linkname = kind, link
    return made


@pytest.mark.parametrize(
    "members",
    [
        [member("/etc/x")],
        [member("hello-1/../../x")],
        [member("hello-1/up", tarfile.SYMTYPE, "../x")],
        [member("hello-1/root", tarfile.SYMTYPE, "/etc")],
        [member("hello-1/a", tarfile.SYMTYPE, "."), member("hello-1/a/x")],
        [member("hello-1/a", tarfile.SYMTYPE, "."), member("hello-1/b", tarfile.SYMTYPE, "a/..")],
        [
            member("hello-1/b/c/up", tarfile.SYMTYPE, "../.."),
            member("hello-1/b/c/d", tarfile.SYMTYPE, "up/.."),
        ],
        [member("hello-1/hard", tarfile.LNKTYPE, "../x")],
        [member("hello-1/hard", tarfile.LNKTYPE, "/etc/passwd")],
        [member("hello-1/pipe", tarfile.FIFOTYPE)],
        [member("other/x")],
    ],
    ids=lambda members: " ".join(f"{one.name} {one.linkname}" for one in members),
)
def test_a_tarball_that_leads_out_is_refused(node, members):
    node.with_files(PLAIN, members)
    message = node.fails()
    assert node.options["source"] in message
    assert members[-1].name in message
    assert not node.builds
    assert not list(node.folder.rglob("x"))


def test_links_inside_a_tarball_stay(node):
    members = [
        member("hello-1/sub/up.c", tarfile.SYMTYPE, "../word.c"),
        member("hello-1/hard.c", tarfile.LNKTYPE, "hello-1/main.c"),
    ]
    node.with_files(PLAIN, members)
    steps = [{"name": "install", "argv": ["cp", "sub/up.c", "hard.c", "{stage}/"]}]
    prefix = Path(node(system=None, steps=steps)["prefix"])
    assert (prefix / "up.c").read_text() == WORD
    assert (prefix / "hard.c").read_text() == MAIN


def test_wrong_missing_or_short(node):
    right = node.options["sha256"]
    message = node.fails(sha256="0" * 64)
    assert right in message
    assert "0" * 64 in message
    assert "'12'" in node.fails(sha256="12")
    assert (
        "sha256" in node.call(source_build, **{k: v for k, v in node.options.items() if k != "sha256"})["msg"]
    )
    source = Path(node.options["source"])
    whole = source.read_bytes()
    source.write_bytes(whole[:-100])
    assert hashlib.sha256(whole[:-100]).hexdigest() in node.fails()
    # cut short before its sum was taken
    assert "not a whole tarball" in node.fails(sha256=hashlib.sha256(whole[:-100]).hexdigest())
    source.unlink()
    assert f"no file {source}" in node.fails()
    assert not list(node.work.iterdir())
    assert not node.builds


@pytest.mark.parametrize("which", ["prefix", "build_root"])
def test_a_folder_that_cannot_be_written(which):
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        node = Node(folder, None)
        for option in ("prefix", "build_root"):
            path = folder / option
            path.mkdir()
            path.chmod(0o555 if option == which else 0o777)
            node.options[option] = str(path / "below")
        module = node.start(uid=pwd.getpwnam("nobody").pw_uid if os.geteuid() == 0 else None)
        result = json.loads(module.communicate()[0])
        assert f"Permission denied: {folder / which / 'below'}" in result["msg"]
        assert "become" in result["msg"]
        assert not list(folder.glob("*/below/1-*"))


def test_no_space(node):
    message = node.fails(needs_bytes=2**60)
    assert str(2**60) in message
    assert "make room" in message
    assert not list(node.work.iterdir())


def test_a_folder_of_somebody_else(node):
    if os.geteuid() != 0:
        pytest.skip("only root can give a folder away")
    node.work.mkdir()
    os.chown(node.work, 12345, 12345)
    assert "belongs to user 12345" in node.fails()


def test_what_the_compiler_said_is_shown(node):
    node.with_files({**PLAIN, "word.c": "const char *word(void) { return wrod; }\n"})
    result = node()
    assert "'wrod' undeclared" in result["msg"]
    assert "the step make of hello 1 ended with status 2" in result["msg"]
    (log,) = (node.base / "logs").iterdir()
    assert f"The whole log is {log}" in result["msg"]
    assert result["log"] == str(log)
    assert "wrod" in log.read_text()
    assert not node.builds
    # a failed tree is not gone on with, even if nothing of the key has changed
    (tree,) = node.work.glob("*/tree")
    (tree / "word.c").write_text(WORD)
    assert "'wrod' undeclared" in node.fails()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"compiler": "cc-of-mars"}, "no compiler cc-of-mars"),
        ({"compiler": "false"}, "name a compiler that works"),
        ({"configure_options": ["--with-x"]}, "use make_options"),
        ({"version": "../1"}, "version is '../1'"),
        ({"prefix": "opt/x"}, "absolute path"),
        ({"keep_builds": 0}, "keep_builds is 0"),
        ({"system": None, "steps": [{"name": "a", "argv": ["true"]}]}, "nothing would be installed"),
        (
            {"system": None, "steps": [{"name": "a", "argv": ["x-of-mars", "{stage}"]}]},
            "cannot run x-of-mars",
        ),
        ({"system": None, "steps": [{"name": "a", "argv": ["true", "{stage}"]}]}, "nothing into {stage}"),
        (
            {"system": None, "steps": [{"name": "a", "argv": ["true", "{stage}", "{target}"]}]},
            "target is not set",
        ),
        ({"system": None, "steps": [{"name": "a", "argv": ["mkdir", "{prefix}", "{stage}/x"]}]}, "DESTDIR"),
        ({"system": "autotools"}, "cannot run ./configure"),
        ({"pack": "/nowhere/at/all"}, "no folder /nowhere/at/all"),
        ({"make_options": ["no-such-target"]}, "No rule to make target"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_options_that_cannot_work(node, options, said):
    assert said in node.fails(**options)
    assert not node.builds
