"""What HPL and its relatives print when a run counts, and every way in which one can fail to count."""

from __future__ import annotations

import json

import pytest
from ansible_collections.nodesmith.cluster.plugins.module_utils._hpl_results import parse_dgemm, parse_results
from ansible_collections.nodesmith.cluster.plugins.module_utils._hpl_values import HplError
from hpl_outputs import GOOD, MPI_FAILURES, ending, netlib, rochpl
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


@pytest.mark.parametrize("program", GOOD)
def test_a_good_run_of_each_program(program):
    text, values = GOOD[program]
    result = parse_results(text)
    assert (result["passed"], result["reason"]) == (True, "")
    (row,) = result["rows"]
    keys = ("tv", "n", "nb", "p", "q", "seconds", "gflops", "residual")
    assert row == {**dict(zip(keys, values)), "passed": True, "reason": None}


@pytest.mark.parametrize("program", GOOD)
def test_no_beginning_of_a_good_run_counts(program):
    lines = GOOD[program][0].splitlines(keepends=True)
    end = lines.index("End of Tests.\n")
    for count in range(end):
        result = parse_results("".join(lines[:count]))
        assert not result["passed"], count
        assert result["reason"]
    assert parse_results("".join(lines[: end + 1]))["passed"]


def test_several_runs_of_hpcc_in_one_file():
    text = GOOD["hpcc"][0]
    assert len(parse_results(text + text)["rows"]) == 2
    assert parse_results(text + text)["passed"]
    assert not parse_results(text + text.split("||Ax-b")[0])["passed"]


@pytest.mark.parametrize("tag", ["[1,0]<stdout>:", "0: ", "[prterun-n1-1@1,0]<stdout>: "])
def test_the_tags_of_a_launcher(tag):
    text = "".join(tag + line for line in netlib().splitlines(keepends=True))
    assert parse_results(text)["passed"]


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


def test_rochpl_without_memory():
    reason = parse_results(rochpl(skipped=True))["reason"]
    assert "1 tests were skipped" in reason
    assert "choose a smaller N" in reason
    assert "HPL says: [0,0] Device memory allocation failed for A and b." in reason


def test_only_the_terminal_of_rochpl():
    shown = "".join(
        line for line in rochpl().splitlines(keepends=True) if "Final Score" in line or "Check" in line
    )
    assert "HPL.out" in parse_results(shown)["reason"]


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("1.380e+03", "*********", "time or GFLOPS cannot be"),
        ("514.92", "nan", "time or GFLOPS cannot be"),
        ("514.92", "-1.00", "time or GFLOPS cannot be"),
        ("1.380e+03", "0.000e+00", "time or GFLOPS cannot be"),
        ("102144", "******", "a result line cannot be read: WR01C2L8"),
        ("102144", "9" * 5000, "a result line cannot be read: WR01C2L8"),
        ("0.0020152", "inf", "residual is inf"),
        ("0.0020152", "-0.002", "residual is -0.002"),
        ("0.0020152", "*********", "residual is *********"),
        ("1 tests completed and passed", "9" * 5000 + " tests completed and passed", "the output ends early"),
    ],
)
def test_figures_that_cannot_be(old, new, words):
    assert old in netlib()
    result = parse_results(netlib().replace(old, new, 1))
    assert result["passed"] is False
    assert words in result["reason"]
    json.dumps(result, allow_nan=False)


def test_a_threshold_of_zero_checks_nothing():
    text = netlib().split("-" * 80 + "\n||Ax-b")[0] + ending(0, unchecked=1)
    assert "the threshold in HPL.dat must be above 0" in parse_results(text)["reason"]


@pytest.mark.parametrize("begun", ["", netlib().split("||Ax-b")[0]])
@pytest.mark.parametrize("printed", MPI_FAILURES)
def test_what_mpi_said_is_explained(printed, begun):
    result = parse_results(f"{begun}{printed}\n")
    assert result["passed"] is False
    assert MPI_FAILURES[printed] in result["reason"]


def test_every_cut_of_a_good_output_fails(hpl_text):
    row, end = hpl_text
    text = row(1024, 128, 1, 2, 0.5, "1.4e+00", "0.0026", "PASSED") + end(1)
    last = text.index("End of Tests") + len("End of Tests")
    assert [cut for cut in range(last) if parse_results(text[:cut])["passed"]] == []
    assert parse_results(text[:last])["passed"]


def verdict(text):
    result = parse_results(text)
    assert result["passed"] is (result["reason"] == "")
    json.dumps(result, allow_nan=False)
    return result


@given(st.text())
def test_any_text_has_a_verdict(text):
    verdict(text)


WORDS = ["9" * 5000, " ", "\n", " ...... PASSED", "1 tests completed and passed residual checks"]
WORDS += ["WR00L2L2", "W", "1_0", "1e999", "²", "٣", "(", ")", ">>>", "<<<", "||Ax-b||_oo/="]


@given(st.lists(st.sampled_from(WORDS)))
def test_any_text_of_the_words_of_hpl_has_a_verdict(words):
    verdict(" ".join(words))


@given(st.data())
def test_a_damaged_output_counts_only_with_its_row_whole(data):
    program = data.draw(st.sampled_from(sorted(GOOD)))
    lines = GOOD[program][0].splitlines()
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(lines) - 1))
        change = data.draw(st.sampled_from(["drop", "repeat", "cut", "swap"]))
        if change == "drop":
            del lines[at]
        elif change == "repeat":
            lines.insert(at, lines[at])
        elif change == "cut":
            lines[at] = lines[at][: data.draw(st.integers(0, len(lines[at])))]
        else:
            other = data.draw(st.integers(0, len(lines) - 1))
            lines[at], lines[other] = lines[other], lines[at]
        if not lines:
            return
    result = verdict("\n".join(lines))
    if result["passed"]:
        (row,) = result["rows"]
        assert (row["n"], row["p"]) == (GOOD[program][1][1], GOOD[program][1][3])


def test_a_row_whose_rate_is_not_what_its_order_and_time_give():
    """Cut before its last column, SWP stands where N was, and the time where the rate was."""
    row = "WRC07R8C48c 211       523008   384     1     2        12788.60"
    result = verdict(GOOD["zen"][0].replace(f"{row}         7.4578e+03", row))
    assert result["reason"].startswith(f"N=211 NB=523008 384x1: time or GFLOPS cannot be: {row}")


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
