"""What programs print around and instead of a netlib HPL result.

The rows and residual lines are written after published logs of each program, with the values of those
logs; the rest after the printf formats named at each function. MPI's messages are the telling lines of what
Open MPI 4.1.4 and 5.0.11, MPICH 5.0.2 and Intel MPI 2021.19 printed where the failure was provoked.
"""

from __future__ import annotations

RULE = "=" * 80 + "\n"
DASHES = "-" * 80 + "\n"


def ending(passed: int, failed: int = 0, skipped: int = 0, unchecked: int | None = None) -> str:
    """The end of any of them (HPL_pddriver.c)."""
    if unchecked is None:
        checked = [f"{passed:6d} tests completed and passed residual checks,\n"]
        checked.append(f"{failed:6d} tests completed and failed residual checks,\n")
    else:
        checked = [f"{unchecked:6d} tests completed without checking,\n"]
    lines = [*checked, f"{skipped:6d} tests skipped because of illegal input values.\n"]
    total = (unchecked or 0) + passed + failed + skipped
    return (
        f"{RULE}\nFinished {total:6d} tests with the following results:\n"
        + "".join(" " * 9 + line for line in lines)
        + f"{DASHES}\nEnd of Tests.\n{RULE}"
    )


def one_test(header: str, row: str, residual: str, verdict: str = "PASSED") -> str:
    """One test (HPL_pdtest.c); the width of the residual differs from program to program."""
    norm = "||Ax-b||_oo/(eps*(||A||_oo*||x||_oo+||b||_oo)*N)="
    return f"{RULE}{header}\n{DASHES}{row}\n{DASHES}{norm}{residual} ...... {verdict}\n"


def netlib() -> str:
    """HPL 2.3; values of the SCC 2023 benchmarking guide."""
    header = "T/V                N    NB     P     Q               Time                 Gflops"
    row = "WR01C2L8      102144   192     8     8             514.92              1.380e+03"
    return one_test(header, row, "        0.0020152") + ending(1)


def hpcc() -> str:
    """hpccoutf.txt of hpcc 1.5: other benchmarks before, a summary behind (recorded, shortened)."""
    header = "T/V                N    NB     P     Q               Time                 Gflops"
    row = "WR11C2R4         100    32     1     1               0.00              2.933e+00"
    return (
        "########################################################################\n"
        "This is the DARPA/DOE HPC Challenge Benchmark version 1.5.0 October 2012\n"
        "Begin of MPIRandomAccess section.\nFound 0 errors in 4096 locations (passed).\n"
        "End of MPIRandomAccess section.\nBegin of HPL section.\n"
        + one_test(header, row, "        0.0168881")
        + ending(1)
        + "Current time (1796071523) is Mon Nov 30 20:45:23 2026\n\nEnd of HPL section.\n"
        "Begin of Summary section.\nVersionMajor=1\nSuccess=0\nHPL_Tflops=0.0029329\nHPL_time=0.000232421\n"
        "HPL_N=100\nHPL_NB=32\nHPL_nprow=1\nHPL_npcol=1\nEnd of Summary section.\n"
    )


def rochpl(skipped: bool = False) -> str:
    """rocHPL with its progress report on the same terminal (HPL_pdgesv.cpp, HPL_pdtest.cpp, HPL_pdmatgen.cpp;
    written, N and NB of its README for 64 GB).
    """
    if skipped:
        return (
            "HPL ERROR from process # 0, on line 175 of function HPL_pdmatgen:\n"
            ">>> [0,0] Device memory allocation failed for A and b. "
            "Requested 61.3 GiBs total. Test Skiped. <<<\n\n" + ending(0, skipped=1)
        )
    header = "T/V                N    NB     P     Q               Time                 Gflops"
    row = "WC10R2R32      90112   512     1     1              12.00              4.065e+04"
    table = (
        f"{DASHES[:51]}\n   %   | Column    | Step Time (s) | Overall GFLOPS\n"
        f"       |           |               |               \n{DASHES[:51]}\n"
        "  0.6% | 000000512 |    0.2012345  |    3.211e+04   \n"
        " 50.0% | 000045056 |    0.0912345  |    4.211e+04   \n"
    )
    score, check = "Final Score:    4.0650e+04 GFLOPS \n", "Residual Check: PASSED \n"
    test = one_test(header, row, "       0.0003951")
    before, after = test.split(row + "\n")
    return table + before + row + "\n" + score + after + check + ending(1)


def nvidia() -> str:
    """NVIDIA's HPC-Benchmarks; row and residual of a log of two nodes with four GH200 each."""
    header = "T/V                N    NB     P     Q         Time          Gflops (   per GPU)"
    row = "WC0           299008  1024     2     4        52.88       3.370e+05 ( 4.213e+04)"
    progress = " Prog= 2.38%\tN_left= 71424\tTime= 2.74\tTime_left= 112.24\tiGF=  2164.20\tGF=  2164.20\n"
    norms = "||Ax-b||_oo  . . . . . . . . . . . . . . . . . = 0.0000000064268288\n"
    return progress + one_test(header, row, "   0.000550841189") + norms + ending(1)


def intel() -> str:
    """oneMKL 2024.0; a log of 16 processes."""
    header = "T/V                N    NB     P     Q               Time                 Gflops"
    row = "WC00C2R2        1000   192     4     4             218.53            3.05759e-03"
    progress = "node1           : Column=000192 Fraction=0.005 Kernel=    0.00 Mflops=    7.52\n"
    return (
        progress + one_test(header, row, "   5.58840572e-03") + ending(1) + "Done: Thu Mar 21 09:20:01 2024\n"
    )


def zen() -> str:
    """AMD's Zen HPL 2024_10_08; a log of two EPYC with 96 cores each."""
    header = "T/V         SWP           N    NB     P     Q            Time             Gflops"
    row = "WRC07R8C48c 211       523008   384     1     2        12788.60         7.4578e+03"
    return one_test(header, row, "   3.11927170e-03") + ending(1)


GOOD = {
    "netlib": (netlib(), ("WR01C2L8", 102144, 192, 8, 8, 514.92, 1380.0, 0.0020152)),
    "hpcc": (hpcc(), ("WR11C2R4", 100, 32, 1, 1, 0.0, 2.933, 0.0168881)),
    "rochpl": (rochpl(), ("WC10R2R32", 90112, 512, 1, 1, 12.0, 40650.0, 0.0003951)),
    "nvidia": (nvidia(), ("WC0", 299008, 1024, 2, 4, 52.88, 337000.0, 0.000550841189)),
    "intel": (intel(), ("WC00C2R2", 1000, 192, 4, 4, 218.53, 0.00305759, 0.00558840572)),
    "zen": (zen(), ("WRC07R8C48c", 523008, 384, 1, 2, 12788.60, 7457.8, 0.0031192717)),
}
"""Outputs that count, with tv, n, nb, p, q, seconds, gflops and residual of their one row."""

_ENDED = "noticed that process rank 0 with PID 7 on node n1 exited on"
MPI_FAILURES = {
    f"mpirun {_ENDED} signal 9 (Killed).": "out of memory?",
    f"prterun {_ENDED}\nsignal 9 (Killed).": "out of memory?",
    "YOUR APPLICATION TERMINATED WITH THE EXIT STRING: Killed (signal 9)": "out of memory?",
    # written after Slurm's source
    "slurmstepd: error: Detected 1 oom_kill event in StepId=7.0.": "out of memory?",
    f"mpirun {_ENDED} signal 4 (Illegal instruction).": "built for another CPU",
    f"mpirun {_ENDED} signal 11 (Segmentation fault).": "crashed (signal 11)",
    "There are not enough slots available in the system to satisfy the 8\nslots": "fewer slots",
    "ORTE was unable to reliably start one or more daemons.": "check ssh",
    "A daemon failed to report back after being spawned.": "check ssh",
    "[mpiexec@n1] ui_cmd_cb (pmiserv_pmci.c:51): Launch proxy failed.": "check ssh",
    "ORTE has lost communication with a remote daemon.": "a node was lost",
    "prterun was unable to launch it as it could not\naccess an executable:": "is missing",
    "[proxy:0@n1] HYDU_create_process (launch.c:73): execvp error on file /opt/xhpl": "is missing",
    "xhpl: error while loading shared libraries: libopenblas.so.0: cannot": "the library libopenblas.so.0",
    "The user-provided time limit for job execution has been reached:": "time limit",
    "[mpiexec@n1] APPLICATION TIMED OUT, TIMEOUT = 1s": "time limit",
    "I_MPI_JOB_TIMEOUT = 1 second(s): job ending due to application timeout": "time limit",
    "HPL ERROR: CUBLAS initialization failed": "HPL says: CUBLAS initialization failed",
}
"""What MPI or HPL prints where a run ends early, and words of the reason that a person is given."""
