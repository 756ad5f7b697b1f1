"""HPL.dat: HPL's own layout, and the way there and back."""

from __future__ import annotations

import pytest
from ansible_collections.nodesmith.cluster.plugins.module_utils._hpl_dat import hpl_dat, parse_hpl_dat, render
from ansible_collections.nodesmith.cluster.plugins.module_utils._hpl_values import HplError
from hypothesis import given
from hypothesis import strategies as st

# What HPL 2.3 ships as testing/ptest/HPL.dat, values only: its lines hold these first tokens.
SHIPPED = """\
HPLinpack benchmark input file
Innovative Computing Laboratory, University of Tennessee
HPL.out output file name (if any)
6 device out (6=stdout,7=stderr,file)
4 # of problems sizes (N)
29 30 34 35 Ns
4 # of NBs
1 2 3 4 NBs
0 PMAP process mapping (0=Row-,1=Column-major)
3 # of process grids (P x Q)
2 1 4 Ps
2 4 1 Qs
16.0 threshold
3 # of panel fact
0 1 2 PFACTs (0=left, 1=Crout, 2=Right)
2 # of recursive stopping criterium
2 4 NBMINs (>= 1)
1 # of panels in recursion
2 NDIVs
3 # of recursive panel fact.
0 1 2 RFACTs (0=left, 1=Crout, 2=Right)
1 # of broadcast
0 BCASTs (0=1rg,1=1rM,2=2rg,3=2rM,4=Lng,5=LnM)
1 # of lookahead depth
0 DEPTHs (>=0)
2 SWAP (0=bin-exch,1=long,2=mix)
64 swapping threshold
0 L1 in (0=transposed,1=no-transposed) form
0 U in (0=transposed,1=no-transposed) form
1 Equilibration (0=no,1=yes)
8 memory alignment in double (> 0)
"""


def test_the_shipped_file_is_read():
    read = parse_hpl_dat(SHIPPED)
    assert (read["n"], read["nb"]) == ([29, 30, 34, 35], [1, 2, 3, 4])
    assert list(zip(read["p"], read["q"])) == [(2, 2), (1, 4), (4, 1)]
    assert (read["pfact"], read["rfact"], read["nbmin"], read["ndiv"]) == ([0, 1, 2], [0, 1, 2], [2, 4], [2])
    assert (read["threshold"], read["bcast"], read["depth"], read["alignment"]) == (16.0, [0], [0], 8)


def test_hpccinf_tail_is_ignored():
    tail = "##### This line (no. 32) is ignored ######\n0 Number of additional problem sizes for PTRANS\n"
    assert parse_hpl_dat(SHIPPED + tail) == parse_hpl_dat(SHIPPED)


def test_a_plan_has_every_line_where_hpl_expects_it():
    ours = hpl_dat({"n": 12288, "nb": 256, "p": 1, "q": 2}).splitlines()
    shipped = SHIPPED.splitlines()
    assert len(ours) == len(shipped) == 31

    def comment(line: str) -> str:
        return " ".join(word for word in line.split() if not word.replace(".", "").isdigit())

    assert [comment(line) for line in ours[2:]] == [comment(line) for line in shipped[2:]]
    assert [ours[i].split()[0] for i in (5, 7, 10, 11)] == ["12288", "256", "1", "2"]


def several(least: int, most: int):
    return st.lists(st.integers(least, most), min_size=1, max_size=20)


@st.composite
def parameters(draw):
    grids = draw(st.lists(st.tuples(st.integers(1, 999), st.integers(1, 999)), min_size=1, max_size=20))
    return {
        "output_file": draw(st.from_regex(r"[A-Za-z0-9._/-]+", fullmatch=True)),
        "device_out": draw(st.integers(0, 9)),
        "n": draw(several(0, 10**8)),
        "nb": draw(several(1, 2000)),
        "pmap": draw(st.integers(0, 1)),
        "p": [p for p, _ in grids],
        "q": [q for _, q in grids],
        "threshold": draw(st.floats(-1, 100)),
        "pfact": draw(several(0, 2)),
        "nbmin": draw(several(1, 64)),
        "ndiv": draw(several(2, 8)),
        "rfact": draw(several(0, 2)),
        "bcast": draw(several(0, 5)),
        "depth": draw(several(0, 4)),
        "swap": draw(st.integers(0, 2)),
        "swap_threshold": draw(st.integers(0, 512)),
        "l1": draw(st.integers(0, 1)),
        "u": draw(st.integers(0, 1)),
        "equilibration": draw(st.integers(0, 1)),
        "alignment": draw(st.integers(1, 64)),
    }


@given(parameters())
def test_there_and_back(values):
    assert parse_hpl_dat(render(values)) == values


@given(st.text())
def test_any_text_is_read_or_refused(text):
    try:
        parse_hpl_dat(text)
    except HplError:
        return


@given(st.integers(0, 30), st.text(max_size=8))
def test_a_broken_line_is_read_or_refused(number, junk):
    lines = SHIPPED.splitlines()
    lines[number] = junk.replace("\n", "")
    try:
        parse_hpl_dat("\n".join(lines))
    except HplError as error:
        message = str(error)
    else:
        return
    assert "HPL.dat line" in message


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("29 30 34 35 Ns", "29 30 Ns", "line 6: 4 values of Ns expected, 3 found"),
        ("4 # of NBs", "21 # of NBs", "line 7: 21 values"),
        ("2 1 4 Ps", "2 0 4 Ps", "line 11: p must be between 1"),
        ("2 SWAP", "3 SWAP", "line 26: swap must be at most 2"),
        ("0 DEPTHs (>=0)\n", "", "line 26: swap"),
    ],
)
def test_what_hpl_would_refuse(old, new, words):
    with pytest.raises(HplError) as caught:
        parse_hpl_dat(SHIPPED.replace(old, new))
    assert words in str(caught.value)


def test_refused_parameters():
    good = parse_hpl_dat(SHIPPED)
    for change, words in (
        ({"q": [1]}, "3 values of P but 1 of Q"),
        ({"output_file": "a b"}, "without blanks"),
        ({"n": list(range(21))}, "21 values"),
        ({"nb": []}, "0 values"),
        ({"swap": None}, "swap must be a number"),
    ):
        with pytest.raises(HplError) as caught:
            render({**good, **change})
        assert words in str(caught.value)
    with pytest.raises(HplError, match="no nb, q"):
        hpl_dat({"n": 1, "p": 1})
