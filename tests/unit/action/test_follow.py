"""Following a long module: the line, and real playbooks on a terminal, in a pipe, and when things break."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import sys
import termios
import time
from datetime import timedelta
from fcntl import ioctl
from fractions import Fraction
from pathlib import Path

import pytest
import yaml
from ansible_collections.nodesmith.cluster.plugins.module_utils._follow import (
    PLAIN_SECONDS,
    PlainPace,
    clock,
    hpl_progress,
    render,
    waits,
)
from hypothesis import given
from hypothesis import strategies as st

ROOT = Path(__file__).resolve().parents[3]
HIDDEN = "correct-horse-battery"

ACTION = """
from ansible_collections.nodesmith.cluster.plugins.plugin_utils._follow import FollowedAction

class ActionModule(FollowedAction):
    LONGEST_WAIT = 0.2
    PATIENCE_SECONDS = {patience}
"""

KEEP = """
import json
from ansible.plugins.action import ActionBase

class ActionModule(ActionBase):
    def run(self, tmp=None, task_vars=None):
        with open(self._task.args["path"], "w") as stream:
            json.dump(self._task.args["value"], stream)
        return {}
"""

MODULE = '''#!/usr/bin/python
"""Work in two phases, each until it was asked for twice or for a while, and end in one of several ways."""
import json, os, signal, time
from ansible.module_utils.basic import AnsibleModule

module = AnsibleModule(
    argument_spec={
        "progress": {"type": "path"}, "end": {"default": "well"}, "password": {"no_log": True},
        "asked": {"type": "path"}, "break_file": {"type": "path"}, "touch": {"type": "path"},
    },
    supports_check_mode=True,
)
p = module.params
with open("/proc/%d/cmdline" % os.getppid()) as stream:
    asynchronous = "async_wrapper" in stream.read()
if module.check_mode:
    module.exit_json(changed=True, asynchronous=asynchronous)

def replace(path, text):
    with open(path + ".part", "w") as stream:
        stream.write(text)
    os.rename(path + ".part", path)

def asked():
    return os.path.getsize(p["asked"]) if p["asked"] and os.path.exists(p["asked"]) else 0

if p["touch"]:
    replace(p["touch"], str(os.getpid()))
for done, phase in enumerate(["configure", "make"]):
    replace(p["progress"], json.dumps({"phase": phase, "done": done, "total": 2, "elapsed": done,
                                       "estimate": 2 - done, "line": "cc \\x1b[2J part.c"}))
    before, begin = asked(), time.monotonic()
    if p["break_file"] and done:
        open(p["break_file"], "w").close()
    while asked() < before + 2 and time.monotonic() < begin + (30 if p["asked"] else 1):
        time.sleep(0.05)
    while p["end"] == "never" and time.monotonic() < begin + 60:
        time.sleep(0.05)
if p["end"] == "badly":
    module.fail_json(msg="the compiler said no", code=7)
if p["end"] == "killed":
    os.kill(os.getpid(), signal.SIGKILL)
if p["end"] == "group killed":
    os.killpg(0, signal.SIGKILL)
if p["break_file"] and p["end"] == "well":
    os.remove(p["break_file"])
module.exit_json(changed=True, answer=42, diff={"before": "a\\n", "after": "b\\n"}, stdout="one\\ntwo",
                 asynchronous=asynchronous)
'''

WATCHED = '''
DOCUMENTATION = """
name: watched
short_description: The local connection, which counts its commands and breaks while a file is there
description: For tests.
options:
  asked: {description: File that gets a byte for each command., vars: [{name: asked}]}
  break_file: {description: The file., default: "", vars: [{name: break_file}]}
extends_documentation_fragment: [connection_pipelining]
"""
import os
from ansible.errors import AnsibleConnectionFailure
from ansible.plugins.connection.local import Connection as Local

class Connection(Local):
    transport = "watched"

    def exec_command(self, cmd, in_data=None, sudoable=True):
        try:
            if os.path.exists(self.get_option("break_file")):
                raise AnsibleConnectionFailure("No route to host")
            return super().exec_command(cmd, in_data=in_data, sudoable=sudoable)
        finally:
            with open(self.get_option("asked"), "a") as stream:
                stream.write(".")
'''

LINE = re.compile(
    r"(?P<host>\w+)  Work  (?P<phase>running|configure|make|no answer, trying again)"
    r"(  \d+/\d+ \d+ %)?  elapsed \d+:\d\d(  left \d+:\d\d)?"
)


class Playbook:
    """A playbook with one task that is followed, on hosts with these arguments for it."""

    def __init__(
        self, folder: Path, hosts: dict[str, dict], patience: float = 60, check: bool = False, **variables
    ) -> None:
        self.folder = folder
        for name, text in {
            "action_plugins/work.py": ACTION.format(patience=patience),
            "action_plugins/keep.py": KEEP,
            "library/work.py": MODULE,
            "connection_plugins/watched.py": WATCHED,
        }.items():
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_text(text)
        inventory = {
            host: {
                "ansible_connection": "watched",
                "ansible_python_interpreter": sys.executable,
                "asked": f"{folder}/{host}.asked",
                "break_file": arguments.get("break_file", ""),
                "arguments": {"asked": f"{folder}/{host}.asked", "password": HIDDEN} | arguments,
            }
            | variables
            for host, arguments in hosts.items()
        }
        (folder / "hosts.yml").write_text(yaml.safe_dump({"all": {"hosts": inventory}}))
        kept = {"path": f"{folder}/{{{{ inventory_hostname }}}}.json", "value": "{{ done }}"}
        go_on = {"ignore_errors": True, "ignore_unreachable": True}
        tasks = [
            {"name": "Work", "work": "{{ arguments }}", "register": "done", "check_mode": check, **go_on},
            {"name": "Keep", "keep": kept},
        ]
        play = {"name": "A play", "hosts": "all", "gather_facts": False, "tasks": tasks}
        (folder / "play.yml").write_text(yaml.safe_dump([play], sort_keys=False))
        self.argv = [sys.executable, "-m", "ansible", "playbook", "-i", "hosts.yml", "play.yml"]
        self.env = {name: text for name, text in os.environ.items() if not name.startswith("ANSIBLE_")} | {
            "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
            "ANSIBLE_LOCAL_TEMP": str(folder / "local"),
            "ANSIBLE_REMOTE_TEMP": str(folder / "remote"),
            "ANSIBLE_ASYNC_DIR": str(folder / "async"),
            "TERM": "xterm",
        }

    def run(self, *options: str) -> subprocess.CompletedProcess:
        return subprocess.run(
            [*self.argv, *options], cwd=self.folder, env=self.env, capture_output=True, text=True, check=False
        )

    def start(self) -> subprocess.Popen:
        return subprocess.Popen(
            self.argv, cwd=self.folder, env=self.env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )

    def result(self, host: str) -> dict:
        return json.loads((self.folder / f"{host}.json").read_text())

    def left_over(self) -> list[str]:
        return os.listdir(self.folder / "async")


# -- the line ------------------------------------------------------------------------------------------------

anything = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.lists(st.integers())
keys = ("phase", "done", "total", "elapsed", "estimate", "line")


@given(
    st.text(),
    st.text(),
    st.fixed_dictionaries({}, optional=dict.fromkeys(keys, anything)),
    st.integers(0, 200),
    st.booleans(),
)
def test_any_progress_fits_its_line(host, title, progress, width, log_line):
    line = render(host, title, progress, width, log_line)
    assert len(line) <= width
    assert line.isascii()
    assert line.isprintable()


def test_the_title_gives_way_to_the_numbers():
    progress = {
        "phase": "make",
        "done": 123,
        "total": 456,
        "elapsed": 63,
        "estimate": 168,
        "line": " CC a.o ",
    }
    numbers = "make  123/456 26 %  elapsed 1:03  left 2:48"
    assert render("node1", "Build it all", progress, 80) == f"node1  Build it all  {numbers}"
    assert render("node1", "Build it all", progress, 60) == f"node1  Build it  {numbers}"
    assert render("node1", "Build it all", progress, 55) == f"node1  {numbers}"
    assert render("node1", "", progress, 80, log_line=True) == f"node1  {numbers}  | CC a.o"


@given(st.integers(0, 10**9), st.integers(1, 10**9))
def test_percent_is_the_share_that_is_done(done, total):
    percent = int(re.search(r"(\d+) %", render("h", "", {"done": done, "total": total}, 80))[1])
    share = min(Fraction(done, total), Fraction(1))
    assert Fraction(percent, 100) <= share < Fraction(percent + 1, 100)


@given(st.integers(0, 86399))
def test_the_clock_agrees_with_timedelta(seconds):
    hours, minutes, rest = str(timedelta(seconds=seconds)).split(":")
    assert clock(seconds) == (f"{hours}:{minutes}:{rest}" if hours != "0" else f"{int(minutes)}:{rest}")


@given(st.lists(st.tuples(st.sampled_from(["configure", "make"]), st.floats(0, 20))))
def test_plain_lines_come_with_a_phase_or_after_a_while(steps):
    pace, now, last, shown = PlainPace(), 0.0, None, None
    for phase, later in steps:
        now += later
        due = pace.due(phase, now)
        assert due == (shown != phase or now - last >= PLAIN_SECONDS)
        if due:
            last, shown = now, phase


def test_the_node_is_asked_ever_less_often():
    pause = waits(2.0)
    pauses = [next(pause) for _ in range(20)]
    assert (pauses[0], pauses[-1]) == (0.5, 2.0)
    assert pauses == sorted(pauses)


@given(st.integers(2000, 500_000), st.integers(16, 512), st.floats(1, 1e6), st.data())
def test_hpl_reports_give_columns_and_the_time_left(n, nb, gflops, data):
    """The line as HPL's printf format "Column=%09d Fraction=%4.1f%% Gflops=%9.3e" gives it."""
    j = nb * data.draw(st.integers(1, (n - 1) // nb))
    line = f"Column={j:09} Fraction={j * 100 / n:4.1f}% Gflops={gflops:9.3e}"
    earlier = "Column=000000001 Fraction= 0.0% Gflops=1.000e-01\nW = 3\n"
    progress = hpl_progress(f"{earlier}{line}\n")
    assert (progress["phase"], progress["done"], progress["line"]) == ("solve", j, line)
    if j / n < 0.05:
        return  # one decimal of a few percent tells little about N
    assert progress["total"] == pytest.approx(n, rel=0.02)
    whole = 2 / 3 * n**3 / (gflops * 1e9)
    passed = 2 / 3 * (n**3 - (n - j) ** 3) / (gflops * 1e9)
    assert progress["estimate"] == pytest.approx(whole - passed, abs=0.06 * whole)


@pytest.mark.parametrize("text", ["", "T/V                N    NB\n", "Column=12 Fraction=\n"])
def test_no_hpl_report_yet(text):
    assert hpl_progress(text) is None


# -- real playbooks ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def piped(tmp_path_factory):
    """One run for many hosts at once, each with another end, without a terminal."""
    folder = tmp_path_factory.mktemp("piped")
    ends = {"fine": "well", "bad": "badly", "dead": "killed", "gone": "group killed"}
    hosts = {host: {"end": end} for host, end in ends.items()}
    playbook = Playbook(folder, {**hosts, "flaky": {"break_file": str(folder / "broken")}})
    return playbook, playbook.run()


def test_the_result_is_the_modules_own(piped):
    playbook, run = piped
    assert run.returncode == 0, run.stdout + run.stderr
    result = playbook.result("fine")
    assert result.pop("invocation", None) is None or HIDDEN not in run.stdout
    assert result == {
        "changed": True,
        "failed": False,
        "answer": 42,
        "diff": {"before": "a\n", "after": "b\n"},
        "stdout": "one\ntwo",
        "stdout_lines": ["one", "two"],
        "asynchronous": True,
    }


def test_piped_lines_are_whole_and_one_for_each_phase(piped):
    _playbook, run = piped
    lines = [LINE.fullmatch(line) for line in run.stderr.splitlines() if "  Work  " in line]
    assert lines
    assert all(lines), run.stderr
    phases = [match["phase"] for match in lines if match["host"] == "fine" and match["phase"] != "running"]
    assert phases == ["configure", "make"]
    assert "\r" not in run.stderr
    assert "\x1b" not in run.stderr


def test_arguments_and_log_lines_are_not_shown(piped):
    _playbook, run = piped
    assert HIDDEN not in run.stdout + run.stderr
    assert "part1" not in run.stderr


def test_a_failure_is_the_modules_own(piped):
    result = piped[0].result("bad")
    assert (result["failed"], result["msg"], result["code"]) == (True, "the compiler said no", 7)


@pytest.mark.parametrize("host", ["dead", "gone"])
def test_a_killed_job_is_a_clear_failure(piped, host):
    result = piped[0].result(host)
    assert result["failed"]
    assert f"work ended on {host} without a result (last phase: make): it was killed" in result["msg"]


def test_a_broken_connection_is_tried_again(piped):
    playbook, run = piped
    assert playbook.result("flaky")["answer"] == 42
    assert "flaky  Work  no answer, trying again  elapsed 0:0" in run.stderr


def test_nothing_is_left_on_the_node(piped):
    assert piped[0].left_over() == []


def test_a_lost_node_is_given_up_with_what_to_do(tmp_path):
    arguments = {"break_file": str(tmp_path / "broken"), "end": "badly"}
    playbook = Playbook(tmp_path, {"flaky": arguments}, patience=1)
    run = playbook.run()
    result = playbook.result("flaky")
    assert result["unreachable"], run.stdout + run.stderr
    assert "while work ran on it (last phase: configure), and it may still run there" in result["msg"]
    assert "No route to host" in result["msg"]


def test_check_mode_runs_the_module_at_once(tmp_path):
    playbook = Playbook(tmp_path, {"one": {}}, check=True)
    run = playbook.run()
    assert run.returncode == 0, run.stdout + run.stderr
    assert playbook.result("one")["asynchronous"] is False
    assert not (tmp_path / "async").exists()


def on_a_terminal(playbook: Playbook, columns: int, *options: str) -> str:
    """Return all that a playbook writes to a terminal of this width."""
    main, other = pty.openpty()
    ioctl(other, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    env = playbook.env | {"NO_COLOR": "1"}
    with subprocess.Popen(
        [*playbook.argv, *options], cwd=playbook.folder, env=env, stdin=other, stdout=other, stderr=other
    ) as process:
        os.close(other)
        written = b""
        while select.select([main], [], [], 30)[0]:
            try:
                written += os.read(main, 65536)
            except OSError:  # Linux says that the other side is closed
                break
        assert process.wait(10) == 0, written.decode()
    os.close(main)
    return written.decode().replace("\r\n", "\n")


def screen(text: str) -> list[str]:
    """Return the lines that a terminal shows after ``text``, with the two controls that are used."""
    lines, column = [""], 0
    for part in re.findall(r"\x1b\[K|\r|\n|[^\x1b\r\n]+|\x1b", text):
        if part == "\n":
            lines.append("")
            column = 0
        elif part == "\r":
            column = 0
        elif part == "\x1b[K":
            lines[-1] = lines[-1][:column]
        else:
            assert part != "\x1b", f"another control in {text!r}"
            lines[-1] = lines[-1][:column].ljust(column) + part + lines[-1][column + len(part) :]
            column += len(part)
    return lines


def test_a_terminal_line_is_rewritten_and_leaves_nothing(tmp_path):
    text = on_a_terminal(Playbook(tmp_path, {"fine": {}}), 72, "-v")
    drawn = re.findall(r"\r\x1b\[K([^\r\n\x1b]+)", text)
    assert len(drawn) >= 2, text
    assert {"configure", "make"} <= {word for line in drawn for word in line.split()}
    assert all(len(line) <= 71 for line in drawn)
    assert any("| cc ?[2J" in line for line in drawn), drawn
    shown = screen(text)
    assert any(line.startswith("changed: [fine]") for line in shown), shown
    assert not any("elapsed" in line for line in shown)


def test_several_hosts_on_a_terminal_have_plain_lines(tmp_path):
    text = on_a_terminal(Playbook(tmp_path, {"one": {}, "two": {}}), 100)
    assert "\x1b" not in text
    lines = [LINE.fullmatch(line) for line in text.splitlines() if "  Work  " in line]
    assert all(lines), text
    assert {(match["host"], match["phase"]) for match in lines} >= {("one", "make"), ("two", "make")}


def wait_until(condition, seconds: float = 20) -> bool:
    until = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > until:
            return False
        time.sleep(0.05)
    return True


INTERRUPTS = (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)


@pytest.fixture(scope="module")
def interrupted(tmp_path_factory):
    """Three playbooks at once, each interrupted in another way while its job runs; and the jobs."""
    playbooks, processes = {}, {}
    for number in INTERRUPTS:
        folder = tmp_path_factory.mktemp("interrupted")
        playbooks[number] = Playbook(folder, {"one": {"end": "never", "touch": str(folder / "pid")}})
        processes[number] = playbooks[number].start()
    jobs = {}
    for number, process in processes.items():
        pid_file = playbooks[number].folder / "pid"
        assert wait_until(pid_file.exists)
        jobs[number] = Path("/proc", pid_file.read_text())
        assert jobs[number].exists()
        process.send_signal(number)
    for process in processes.values():
        process.wait(30)
    return playbooks, jobs


@pytest.mark.parametrize("number", INTERRUPTS)
def test_an_interrupted_playbook_ends_the_job(interrupted, number):
    playbooks, jobs = interrupted
    assert wait_until(lambda: not jobs[number].exists())
    assert wait_until(lambda: playbooks[number].left_over() == []), playbooks[number].left_over()


@pytest.fixture
def container(tmp_path):
    """A container with nothing of its own but this machine's /usr."""
    if not shutil.which("docker") or subprocess.run(["docker", "info"], capture_output=True).returncode:
        pytest.skip("needs a running Docker Engine")
    if not Path("/usr/bin/python3").exists():
        pytest.skip("needs Python in /usr/bin, which the container borrows")
    (tmp_path / "root").mkdir()
    name = f"nodesmith-follow-{os.getpid()}"
    packed = subprocess.run(
        ["tar", "c", "-C", tmp_path / "root", "."], capture_output=True, check=True
    ).stdout
    subprocess.run(["docker", "import", "-", name], input=packed, capture_output=True, check=True)
    mounts = [
        f"--volume={path}:{path}:ro" for path in ("/usr", "/bin", "/lib", "/lib64") if Path(path).exists()
    ]
    subprocess.run(
        ["docker", "run", "--detach", "--init", f"--name={name}", *mounts, name, "/usr/bin/sleep", "100"],
        capture_output=True,
        check=True,
    )
    yield name
    for what in (["rm", "--force"], ["rmi"]):
        subprocess.run(["docker", *what, name], capture_output=True, check=True)


def test_in_a_container(tmp_path, container):
    playbook = Playbook(
        tmp_path,
        {"box": {"asked": ""}},
        ansible_connection="community.docker.docker",
        ansible_host=container,
        ansible_python_interpreter="/usr/bin/python3",
        ansible_remote_tmp="/var/remote",
        ansible_async_dir="/var/async",
    )
    run = playbook.run()
    assert run.returncode == 0, run.stdout + run.stderr
    assert playbook.result("box")["answer"] == 42
    assert run.stderr
    assert all(LINE.fullmatch(line) for line in run.stderr.splitlines()), run.stderr
    left = subprocess.run(["docker", "exec", container, "ls", "/var/async"], capture_output=True, text=True)
    assert (left.returncode, left.stdout) == (0, "")
