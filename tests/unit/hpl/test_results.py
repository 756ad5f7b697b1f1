"""Every way in which an HPL run can fail to count."""

from __future__ import annotations

import json

import pytest
from ansible_collections.nodesmith.cluster.plugins.module_utils._hpl_results import parse_dgemm, parse_results
from ansible_collections.nodesmith.cluster.plugins.module_utils._hpl_values import HplError
from hypothesis import given
from hypothesis import strategies as st


def test_a_good_run(hpl_text):
    row, end = hpl_text
    result = parse_results(row(115200, 192, 6, 8, 3417.23, "2.9826e+02", "2.22081836e-03", "PASSED") + end(1))
    assert result == {
        "passed": True,
        "reason": "",
        "rows": [
            {
                "tv": "WR11C2R4",
                "n": 115200,
                "nb": 192,
                "p": 6,
                "q": 8,
                "seconds": 3417.23,
                "gflops": 298.26,
                "residual": 0.00222081836,
                "passed": True,
                "reason": None,
            }
        ],
    }


def test_several_rows_and_column_major(hpl_text):
    row, end = hpl_text
    text = row(1024, 128, 1, 2, 0.5, "1.4e+00", "0.0026512", "PASSED")
    text += row(2048, 128, 1, 2, 4.1, "1.4e+00", "0.0016512", "PASSED").replace("WR11C2R4", "WC00L8R2")
    result = parse_results(text + end(2))
    assert result["passed"]
    assert [(r["tv"], r["n"]) for r in result["rows"]] == [("WR11C2R4", 1024), ("WC00L8R2", 2048)]


def test_extra_column_before_the_time(hpl_text):
    row, end = hpl_text
    text = row(1024, 128, 1, 2, 0.5, "1.4e+00", "0.0026", "PASSED").replace(
        "    2               ", "    2   M           "
    )
    result = parse_results(text + end(1))
    assert (result["passed"], result["rows"][0]["seconds"]) == (True, 0.5)


def test_hpl_1_prints_three_residuals(hpl_text):
    row, end = hpl_text
    text = row(5000, 160, 1, 2, 10.1, "8.253e+00", "0.0", "PASSED").split("||Ax-b")[0]
    lines = [
        f"||Ax-b||_oo / ( eps * {norm} ) =        {value} ...... {verdict}\n"
        for norm, value, verdict in (
            ("||A||_1  * N        ", "0.0412956", "PASSED"),
            ("||A||_1  * ||x||_1  ", "99.0272613", "FAILED"),
            ("||A||_oo * ||x||_oo ", "0.0053214", "PASSED"),
        )
    ]
    assert "FAILED" in parse_results(text + "".join(lines) + end(0, 1))["reason"]
    good = parse_results(text + lines[0] + lines[2] + end(1))
    assert good["passed"]
    assert good["rows"][0]["residual"] == 0.0412956


def failures(row, end):
    good = row(1024, 128, 1, 2, 0.5, "1.4e+00", "0.0026", "PASSED")
    return {
        "residual 1234.5000000 is above the threshold: FAILED": row(
            1024, 128, 1, 2, 0.5, "1.4e+00", "1234.5000000", "FAILED"
        )
        + end(0, 1),
        "residual is nan": row(1024, 128, 1, 2, 0.5, "1.4e+00", "nan", "FAILED") + end(0, 1),
        "residual is -nan": row(1024, 128, 1, 2, 0.5, "1.4e+00", "-nan", "PASSED") + end(1),
        "GFLOPS cannot be": row(1024, 128, 1, 2, 0.5, "inf", "0.0026", "PASSED") + end(1),
        "1 tests were skipped": good + end(1, 0, 1),
        "did not finish": good,
        "the output ends early": good + end(1).split("---")[0],
        "no result": end(0),
        "it is empty": "",
        "HPL counts 2 passed tests, but 1": good + end(2),
        "was not checked": good.split("||Ax-b")[0]
        + end(1).replace("passed residual checks", "x")
        + "1 tests completed "
        "without checking,",
    }


def test_failures_have_a_reason(hpl_text):
    for words, text in failures(*hpl_text).items():
        result = parse_results(text)
        assert result["passed"] is False, words
        assert words in result["reason"], result["reason"]
        json.dumps(result, allow_nan=False)


def test_what_hpl_said_is_passed_on():
    text = (
        "HPL ERROR from process # 0, on line 419 of function HPL_pdinfo:\n"
        ">>> Need at least 4 processes for these tests <<<\n\n"
        "HPL ERROR from process # 0, on line 621 of function HPL_pdinfo:\n"
        ">>> Illegal input in file HPL.dat. Exiting ... <<<\n"
    )
    assert "Need at least 4 processes" in parse_results(text)["reason"]


def test_every_cut_of_a_good_output_fails(hpl_text):
    row, end = hpl_text
    text = row(1024, 128, 1, 2, 0.5, "1.4e+00", "0.0026", "PASSED") + end(1)
    last = text.index("End of Tests") + len("End of Tests")
    assert [cut for cut in range(last) if parse_results(text[:cut])["passed"]] == []
    assert parse_results(text[:last])["passed"]


@given(st.text())
def test_any_text_has_a_verdict(text):
    result = parse_results(text)
    assert result["passed"] is (result["reason"] == "")


def test_dgemm_line():
    text = "starting\nDGEMM ranks=2 n=6000 gflops_sum=70.125 gflops_min=34.900 gflops_max=35.225\n"
    assert parse_dgemm(text) == {
        "ranks": 2,
        "n": 6000,
        "gflops_sum": 70.125,
        "gflops_min": 34.9,
        "gflops_max": 35.225,
    }


@pytest.mark.parametrize(
    "text", ["", "DGEMM ranks=2", "DGEMM ranks=2 n=9 gflops_sum=nan gflops_min=1 gflops_max=1"]
)
def test_bad_dgemm(text):
    with pytest.raises(HplError, match="DGEMM"):
        parse_dgemm(text)
