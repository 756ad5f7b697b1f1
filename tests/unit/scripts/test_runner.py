from __future__ import annotations

import pytest
from nodesmith_front import checks
from nodesmith_front.layout import Layout
from nodesmith_front.runner import Check, run_checks


@pytest.fixture
def layout(tmp_path) -> Layout:
    return Layout(root=tmp_path / "checkout", cache=tmp_path / "cache")


def run(layout, capsys, *batches):
    layout.root.mkdir()
    status = run_checks(layout, batches)
    return status, capsys.readouterr().out


def test_all_passed(layout, capsys):
    status, out = run(layout, capsys, (2, [Check("one", ["true"]), Check("two", ["true"])]))
    assert status == 0
    assert out.splitlines()[-1] == "checks: 2 passed, 0 failed"


def test_a_failure_shows_the_end_of_its_log_and_stops_only_what_needs_it(layout, capsys):
    broken = Check("broken", ["sh", "-c", "seq 1 100; echo the reason >&2; exit 3"])
    status, out = run(
        layout,
        capsys,
        (1, [broken]),
        (2, [Check("dependent", ["true"], needs=("broken",)), Check("other", ["true"])]),
    )
    lines = [line.strip() for line in out.splitlines()]
    assert status == 1
    assert lines[-1] == "checks: 1 passed, 2 failed"
    assert "the reason" in lines
    assert "42" in lines
    assert "41" not in lines
    assert "not run  dependent (needs broken)" in lines
    assert (layout.logs / "broken.log").read_text().startswith("1\n2\n")


def test_a_command_that_is_not_there_fails_the_check(layout, capsys):
    status, out = run(layout, capsys, (1, [Check("ghost", ["/nonexistent/tool"])]))
    assert status == 1
    assert "/nonexistent/tool: No such file or directory" in out


def test_the_environment_of_a_check_reaches_its_command(layout, capsys):
    status, _ = run(layout, capsys, (1, [Check("env", ["sh", "-c", '[ "$GLOB" = x ]'], env={"GLOB": "x"})]))
    assert status == 0


def test_long_scenarios_are_left_to_test_all(tmp_path):
    for name in ("sshd", "gpu"):
        (tmp_path / "molecule" / name).mkdir(parents=True)
        (tmp_path / "molecule" / name / "molecule.yml").touch()
    (tmp_path / "molecule" / "gpu" / ".long").touch()
    (tmp_path / "molecule" / "shared").mkdir()
    assert checks.scenarios(tmp_path, long=False) == ["sshd"]
    assert checks.scenarios(tmp_path, long=True) == ["gpu", "sshd"]


@pytest.mark.parametrize(
    ("command", "last"), [("true", "2 passed, 0 failed"), ("false", "0 passed, 2 failed")]
)
def test_a_check_may_need_an_earlier_one_of_its_own_batch(layout, capsys, command, last):
    first, second = Check("first", [command]), Check("second", ["true"], needs=("first",))
    _, out = run(layout, capsys, (1, [first, second]))
    assert out.splitlines()[-1] == f"checks: {last}"
