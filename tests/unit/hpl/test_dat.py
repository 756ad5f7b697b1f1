"""HPL.dat: HPL's own layout, and the way there and back."""

from __future__ import annotations

import itertools
import re

import pytest
from ansible_collections.nodesmith.cluster.plugins.module_utils._hpl_dat import (
    DIALECTS,
    hpl_dat,
    parse_hpl_dat,
    render,
)
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


# hpcc 1.5 ships these lines in _hpccinf.txt; the number says how many of the values count.
PTRANS = """\
##### This line (no. 32) is ignored (it serves as a separator). ######
0                      \t\tNumber of additional problem sizes for PTRANS
1200 10000 30000        \tvalues of N
2                       \tnumber of additional blocking sizes for PTRANS
40 9 8 13 13 20 16 32 64       \tvalues of NB
"""
# rocHPL's scripts/HPL.dat, values only
ROCHPL = "0 1 45312 1 384 1 1 1 1 16.0 1 2 1 32 1 2 1 2 1 0 1 1 1 64 0 0 0 8"


def test_hpccinf():
    read = parse_hpl_dat(SHIPPED + PTRANS)
    assert (read.pop("ptrans_n"), read.pop("ptrans_nb")) == ([], [40, 9])
    assert read == {**parse_hpl_dat(SHIPPED), "dialect": "hpcc"}


def test_a_gpu_plan_is_written_as_rochpl_ships_it():
    written = hpl_dat({"device": "gpu", "n": 45312, "nb": 384, "p": 1, "q": 1, "dat": {"device_out": 0}})
    assert [line.split()[0] for line in written.splitlines()[3:]] == ROCHPL.split()
    assert parse_hpl_dat(written)["dialect"] == "rochpl"


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_plan_in_every_dialect(dialect):
    read = parse_hpl_dat(hpl_dat({"n": 12288, "nb": 256, "p": 1, "q": 2}, dialect))
    assert (read["dialect"], read["n"], read["nb"], read["p"], read["q"]) == (
        dialect,
        [12288],
        [256],
        [1],
        [2],
    )


def test_other_parameters_of_a_plan():
    dat = {"bcast": [0, 3], "swap_threshold": 192, "pmap": 1, "output_file": "out/a.txt"}
    read = parse_hpl_dat(hpl_dat({"n": 100, "nb": 8, "p": 1, "q": 1, "dat": dat}))
    assert {key: read[key] for key in dat} == dat
    assert read["nbmin"] == [4]


@given(
    st.lists(st.integers(0, 10**6), min_size=1, max_size=3, unique=True),
    st.lists(st.integers(1, 512), min_size=1, max_size=3, unique=True),
    st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), min_size=1, max_size=3, unique=True),
    st.data(),
)
def test_a_sweep_is_every_combination(ns, nbs, grids, data):
    def plans(combinations):
        return [{"n": n, "nb": nb, "p": p, "q": q} for n, nb, (p, q) in combinations]

    whole = list(itertools.product(ns, nbs, grids))
    read = parse_hpl_dat(hpl_dat(plans(data.draw(st.permutations(whole)))))
    again = itertools.product(read["n"], read["nb"], zip(read["p"], read["q"]))
    assert sorted(again) == sorted(whole)
    if len(whole) > 1:
        lost = data.draw(st.sampled_from(whole))
        rest = [combination for combination in whole if combination != lost]
        if [len(set(values)) for values in zip(*rest)] == [len(ns), len(nbs), len(grids)]:
            n, nb, (p, q) = lost
            with pytest.raises(HplError, match=f"N={n} NB={nb} {p}x{q} is not among"):
                hpl_dat(plans(rest))
        with pytest.raises(HplError, match="2 times among"):
            hpl_dat(plans([*whole, lost]))


def test_a_plan_has_every_line_where_hpl_expects_it():
    ours = hpl_dat({"n": 12288, "nb": 256, "p": 1, "q": 2}).splitlines()
    shipped = SHIPPED.splitlines()
    assert len(ours) == len(shipped) == 31

    def comment(line: str) -> str:
        return " ".join(word for word in line.split() if not word.replace(".", "").isdigit())

    assert [comment(line) for line in ours[2:]] == [comment(line) for line in shipped[2:]]
    assert [ours[i].split()[0] for i in (5, 7, 10, 11)] == ["12288", "256", "1", "2"]


def several(least: int, most: int, fewest: int = 1):
    return st.lists(st.integers(least, most), min_size=fewest, max_size=20)


@st.composite
def parameters(draw):
    grids = draw(st.lists(st.tuples(st.integers(1, 999), st.integers(1, 999)), min_size=1, max_size=20))
    dialect = draw(st.sampled_from(DIALECTS))
    needed = {"depth": [1], "swap": 1, "u": 0, "equilibration": 0} if dialect == "rochpl" else {}
    if dialect == "hpcc":
        needed = {
            "threshold": 16.0,
            "ptrans_n": draw(several(1, 10**6, 0)),
            "ptrans_nb": draw(several(1, 99, 0)),
        }
    return {
        "dialect": dialect,
        "output_file": draw(st.from_regex(r"[A-Za-z0-9._/-]{1,60}", fullmatch=True)),
        "device_out": draw(st.integers(0, 9)),
        "n": draw(several(0, 2**31 - 1)),
        "nb": draw(several(1, 2**31 - 1)),
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
        **needed,
    }


@given(parameters())
def test_there_and_back(values):
    text = render(values)
    assert parse_hpl_dat(text) == values
    # HPL reads with fgets(line, 254)
    assert max(len(line) + 1 for line in text.splitlines()) <= 253


def hpl_reads(line: str, count: int) -> list[str]:
    """The loop of HPL_pdinfo.c over the values of one line: sscanf("%s"), then on by strlen(num) + 1."""
    at, values = 0, []
    for _ in range(count):
        found = re.compile(r"[ \t\n\v\f\r]*([^ \t\n\v\f\r]+)").match(line, min(at, len(line)))
        if not found:
            break
        values.append(found.group(1))
        at += len(values[-1]) + 1
    return values


@given(
    st.lists(st.integers(1, 99999).map(str), min_size=1, max_size=6),
    st.lists(st.sampled_from([" ", "  ", "\t", " \t ", "   "]), min_size=7, max_size=7),
    st.sampled_from(["", " Ns", "\r", "\t# sizes"]),
    st.booleans(),
)
def test_blanks_between_values_count_as_in_hpl(values, blanks, comment, indented):
    line = "".join((blanks[i] if i or indented else "") + value for i, value in enumerate(values)) + comment
    text = SHIPPED.replace("4 # of problems", f"{len(values)} # of problems").replace("29 30 34 35 Ns", line)
    if hpl_reads(line, len(values)) == values:
        assert parse_hpl_dat(text)["n"] == [int(value) for value in values]
    else:
        with pytest.raises(HplError, match=r"line 6: HPL reads .* one blank between them"):
            parse_hpl_dat(text)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("\n", "\r\n"),
        ("16.0 threshold", "  16.0d0"),
        ("16.0 threshold", "1.6e1\tthreshold"),
        ("64 swapping threshold", "\t64"),
        ("2 SWAP (0=bin", "2SWAP (0=bin"),
        ("8 memory", "8.0 memory"),
        (" Ns", ""),
        (" Ns", " Ns\f\u2028 only a line feed ends a line of C"),
        (" memory alignment in double (> 0)\n", ""),
    ],
)
def test_what_hpl_reads_all_the_same(old, new):
    assert old in SHIPPED
    assert parse_hpl_dat(SHIPPED.replace(old, new)) == parse_hpl_dat(SHIPPED)


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
        ("16.0 threshold", "1.6d1 threshold", "line 13: HPL takes 1.6 from '1.6d1'"),
        ("29 30 34 35 Ns", "1e5 30 34 35 Ns", "line 6: HPL takes 1 from '1e5'"),
        ("29 30 34 35 Ns", "29\u00a030 34 35 1 Ns", "line 6: HPL takes 29 from"),
        ("29 30 34 35 Ns", "29,30,34,35 Ns", "line 6: 4 values of Ns expected, 2 found"),
        ("29 30 34 35 Ns", "  29 30 34 35 Ns", "line 6: HPL reads '9' where '30' is meant"),
        ("16.0 threshold", "16.0 " + "x" * 250, "line 13 is longer than 252 bytes"),
        ("HPL.out output file name (if any)", "", "line 3: the output file name is missing"),
        ("2 SWAP", "2\0 SWAP", "line 26: it holds a NUL"),
        ("University of Tennessee", "for rocHPL", "rocHPL needs depth [1], not [0]"),
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
        ({"output_file": "a" * 201}, "1 to 200"),
        ({"n": list(range(21))}, "21 values"),
        ({"nb": []}, "0 values"),
        ({"swap": None}, "swap must be a number"),
        ({"dialect": "linpack"}, "no dialect 'linpack' of HPL.dat; known are netlib, hpcc"),
        ({"dialect": "rochpl", "depth": [1], "u": 1}, "rocHPL needs swap 1"),
        ({"dialect": "hpcc", "threshold": 0}, "hpcc needs a threshold above 0, not 0"),
        ({"dialect": "hpcc", "ptrans_n": [0]}, "ptrans_n must be between 1"),
    ):
        with pytest.raises(HplError) as caught:
            render({**good, **change})
        assert words in str(caught.value)


@pytest.mark.parametrize(
    ("plans", "words"),
    [
        ({"n": 1, "p": 1}, "no nb, q"),
        ([], "a plan or a list of plans is needed, not []"),
        ("plan", "a plan or a list of plans is needed, not 'plan'"),
        ([{"n": 1, "nb": 1, "p": 1, "q": 1}, "x"], "not a plan"),
        ({"n": 1, "nb": 1, "p": 1, "q": 1, "dat": {"NB": 2, "bcasts": 1}}, "unknown in dat: NB, bcasts"),
        ({"n": 1, "nb": 1, "p": 1, "q": 1, "dat": {"ptrans_n": [5]}}, "unknown in dat: ptrans_n"),
        ({"n": 1, "nb": 1, "p": 1, "q": 1, "dat": {"bcast": 6}}, "bcast must be at most 5, not 6"),
        ({"n": [1], "nb": 1, "p": 1, "q": 1}, "n must be a number, not [1]"),
        ([{"n": n, "nb": 8, "p": 1, "q": 1} for n in range(21)], "21 values"),
        (
            [{"n": n, "nb": 8, "p": 1, "q": 1, "dat": {"bcast": n}} for n in (1, 2)],
            "the plans differ in dat: {'bcast': 1} and {'bcast': 2}",
        ),
    ],
)
def test_refused_plans(plans, words):
    with pytest.raises(HplError) as caught:
        hpl_dat(plans)
    assert words in str(caught.value)
