# Copyright: (c) 2026, The nodesmith authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How a plan is started: the host file and the command line of Open MPI 4 and 5."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ._hpl_values import HplError, as_count

_HOST_LINE = {
    "openmpi": "{address} slots={slots}",
    "mpich": "{address}:{slots}",
}
LAUNCH_OPTIONS = (
    "mpirun",
    "mpi_version",
    "hostfile",
    "interface",
    "bind",
    "cma",
    "timeout",
    "env",
    "ssh_args",
    "allow_root",
    "oversubscribe",
)


def hostfile(plan: Mapping[str, Any], family: str = "openmpi") -> str:
    """Return the host file of ``plan``: one line a host with its slots, for ``openmpi`` or ``mpich``.

    Raises HplError for another family, or when ``plan`` has no hosts.
    """
    if family not in _HOST_LINE:
        raise HplError(
            f"no host file format for the MPI family {family!r}; known are {', '.join(_HOST_LINE)}"
        )
    hosts = plan.get("hosts") if isinstance(plan, Mapping) else None
    if not hosts:
        raise HplError("not a plan: it has no hosts")
    return "".join(
        _HOST_LINE[family].format(address=host["address"], slots=host["slots"]) + "\n" for host in hosts
    )


def mpirun_argv(plan: Mapping[str, Any], program: str | Sequence[str], **options: Any) -> list[str]:
    """Return the argument list that runs ``program`` (a path, or a list with its arguments) on the hosts of
    ``plan``.

    Options, all with a default:

    - ``mpirun``: program to call; default the path in ``plan["mpi"]``, else ``mpirun``;
    - ``mpi_version``: Open MPI's version, ``"4.1.4"`` or ``5``; default that in ``plan["mpi"]``. Its major
      number decides the spelling: version 5 has PRRTE in place of ORTE;
    - ``hostfile``: path of the file that hostfile() wrote; without it every rank runs on this node;
    - ``interface``: network for MPI and its daemons, an interface name or a CIDR (``10.1.0.0/16``), or
      several with commas;
    - ``bind``: ``core`` (each rank to its own cores) or ``none`` (where nodes share cores, as containers of
      one host do);
    - ``cma``: False where the kernel refuses process_vm_readv between ranks, as it does in unprivileged
      containers;
    - ``timeout``: seconds after which mpirun itself ends the job;
    - ``env``: variables for the ranks; OMP_NUM_THREADS and OPENBLAS_NUM_THREADS come from the plan;
    - ``ssh_args``: arguments for ssh to the other nodes;
    - ``allow_root``: True to let root run it; ``oversubscribe``: True to allow more ranks than slots.

    Raises HplError for an unknown option or value, or an MPI that is not Open MPI 4 or 5.
    """
    unknown = sorted(set(options) - set(LAUNCH_OPTIONS))
    if unknown:
        raise HplError(f"unknown option {', '.join(unknown)}; known are {', '.join(LAUNCH_OPTIONS)}")
    for name in ("cma", "allow_root", "oversubscribe"):
        if not isinstance(options.get(name, False), bool):
            raise HplError(f"{name} must be true or false, not {options[name]!r:.40}")
    if not isinstance(plan, Mapping) or not plan.get("ranks"):
        raise HplError("not a plan: it has no ranks")
    command = [program] if isinstance(program, str) else [str(word) for word in program]
    if not command or not command[0]:
        raise HplError("no program to run")
    mpi = plan.get("mpi") or {}
    major = _major(options.get("mpi_version"), mpi)
    threads = as_count("threads_per_rank", plan.get("threads_per_rank", 1))

    argv = [str(options.get("mpirun") or mpi.get("path") or "mpirun"), "-n", str(plan["ranks"])]
    if options.get("allow_root"):
        argv.append("--allow-run-as-root")
    if options.get("hostfile"):
        argv += ["--hostfile", str(options["hostfile"])]
    argv += _placement(major, threads, options)
    if options.get("timeout") is not None:
        argv += ["--timeout", str(as_count("timeout", options["timeout"]))]
    if options.get("interface"):
        argv += _network(major, str(options["interface"]))
    if options.get("ssh_args"):
        daemon_ssh = ["--mca", "plm_rsh_args"] if major == 4 else ["--prtemca", "plm_ssh_args"]
        argv += [*daemon_ssh, str(options["ssh_args"])]
    if options.get("cma") is False:
        argv += (
            ["--mca", "btl_vader_single_copy_mechanism", "none"] if major == 4 else ["--mca", "smsc", "^cma"]
        )
    variables = {"OMP_NUM_THREADS": threads, "OPENBLAS_NUM_THREADS": threads, **(options.get("env") or {})}
    for name, value in variables.items():
        argv += ["-x", f"{name}={value}"]
    return argv + command


def _major(version: Any, mpi: Mapping[str, Any]) -> int:
    family = mpi.get("family")
    if version is None and family not in (None, "openmpi"):
        raise HplError(f"cannot start {family}: the launch command is written for Open MPI 4 and 5")
    found = version if version is not None else mpi.get("version")
    if found is None:
        raise HplError("the version of Open MPI is unknown: the nodes tell none, so set mpi_version")
    matched = re.match(r"\d+", str(found))
    if not matched or int(matched.group()) not in (4, 5):
        raise HplError(f"Open MPI {found!s:.40} is not supported: its version must be 4 or 5")
    return int(matched.group())


def _placement(major: int, threads: int, options: Mapping[str, Any]) -> list[str]:
    """Where ranks go: filled node by node in the order of the host file, so that slots per node are as
    planned.
    """
    bind = options.get("bind", "core")
    if bind not in ("core", "none"):
        raise HplError(f"bind must be core or none, not {bind!r:.40}")
    modifiers = []
    if threads > 1 and bind == "core":
        modifiers.append(f"PE={threads}")
    if options.get("oversubscribe"):
        modifiers.append("OVERSUBSCRIBE")
    # version 4 separates modifiers with commas, PRRTE with colons
    policy = "slot" + (":" + ("," if major == 4 else ":").join(modifiers) if modifiers else "")
    return ["--map-by", policy, "--bind-to", bind]


def _network(major: int, interface: str) -> list[str]:
    daemons = ["--mca", "oob_tcp_if_include"] if major == 4 else ["--prtemca", "prte_if_include"]
    return ["--mca", "btl_tcp_if_include", interface, *daemons, interface]
