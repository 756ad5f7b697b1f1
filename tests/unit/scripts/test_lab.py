from __future__ import annotations

import json

import pytest
from nodesmith_front.console import Failure, duration, table
from nodesmith_front.lab import lab_variables
from nodesmith_front.playbook import Stage, describe_failure
from nodesmith_front.summary import read_summary, summary_lines, write_json

SUMMARY = {
    "lab": "lab",
    "total_seconds": 421.0,
    "hpl": {
        "gflops": 52.55,
        "n": 12288,
        "nb": 256,
        "p": 1,
        "q": 2,
        "residual": 0.00231,
        "passed": True,
        "dgemm_gflops": 62.5,
        "dgemm_share": 0.8408,
        "seconds": 23.5,
        "report": "results/lab/report.html",
    },
    "models": {
        "url": "http://10.0.0.2:8000",
        "model": "SmolLM2-135M-Instruct",
        "completion": "Paris.\nIt lies on the Seine.",
        "tokens_per_second": 12.34,
    },
}


def test_the_summary_says_what_a_person_wants_to_know():
    text = "\n".join(summary_lines(SUMMARY, [Stage("setup", 17.0), Stage("site", 404.0)]))
    for part in (
        "52.5 GFLOPS, 84 % of the DGEMM peak",
        "N=12288 NB=256 P=1 Q=2",
        "0.00231 PASSED",
        "results/lab/report.html",
        '"Paris. It lies on the Seine."',
        "http://10.0.0.2:8000",
        "7 min 01 s (setup 17.0 s, site 6 min 44 s)",
    ):
        assert part in text
    assert "\033" not in text


def test_a_lab_without_models_has_a_summary_too():
    text = "\n".join(summary_lines(SUMMARY | {"models": None}, []))
    assert "GFLOPS" in text
    assert "URL" not in text


def test_a_missing_and_a_damaged_summary_are_named(tmp_path):
    with pytest.raises(Failure, match=r"left no summary\.json"):
        read_summary(tmp_path / "summary.json")
    (tmp_path / "summary.json").write_text('{"hpl": ')
    with pytest.raises(Failure, match="is not JSON"):
        read_summary(tmp_path / "summary.json")


def test_json_is_replaced_as_a_whole(tmp_path):
    path = tmp_path / "lab" / "up.json"
    write_json(path, {"a": 1})
    write_json(path, {"a": 2})
    assert json.loads(path.read_text()) == {"a": 2}
    assert [entry.name for entry in path.parent.iterdir()] == ["up.json"]


@pytest.mark.parametrize("name", ["../x", "Lab", "a b", "local", "example", "1lab", "x" * 32])
def test_a_bad_lab_name_is_refused_with_its_value(monkeypatch, name):
    monkeypatch.setenv("NODESMITH_LAB", name)
    with pytest.raises(Failure) as failure:
        lab_variables()
    assert repr(name) in str(failure.value)


def test_the_lab_is_named_by_the_environment(monkeypatch):
    monkeypatch.delenv("NODESMITH_LAB", raising=False)
    monkeypatch.delenv("NODESMITH_LAB_SUBNET", raising=False)
    assert lab_variables() == {"lab_name": "lab"}
    monkeypatch.setenv("NODESMITH_LAB", "ci-7")
    monkeypatch.setenv("NODESMITH_LAB_SUBNET", "172.31.7.0/24")
    assert lab_variables() == {"lab_name": "ci-7", "lab_subnet": "172.31.7.0/24"}


def test_a_failed_stage_is_described_by_host_task_and_message(tmp_path):
    failure = {"task": "Start the engine", "role": "docker", "message": "no\nspace", "unreachable": False}
    record = {"failures": [failure | {"host": "node1"}, failure | {"host": "node2"}]}
    text = describe_failure(record, tmp_path / "log")
    assert text == "node2 (and 1 more), task 'Start the engine': no space"


def test_a_run_that_ended_before_its_first_task_is_described_by_the_log(tmp_path):
    log = tmp_path / "site.log"
    log.write_text("[ERROR]: the role 'nope' was not found\nOrigin: x\n")
    assert describe_failure({}, log) == "[ERROR]: the role 'nope' was not found"


def test_times_and_tables():
    assert duration(4.24) == "4.2 s"
    assert duration(59.97) == "1 min 00 s"
    assert duration(187) == "3 min 07 s"
    assert table([("a", "long", "x"), ("bbb", "c", "")]) == ["a    long  x", "bbb  c"]
