# Copyright: (c) 2026, The nodesmith authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How a plan is started: host files, and the command lines of Open MPI, MPICH, Intel MPI and Slurm."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ._hpl_values import HplError, as_count

_HOST_LINE = {
    "openmpi": "{address} slots={slots}\n",
    "mpich": "{address}:{slots}\n",
    "intelmpi": "{address}:{slots}\n",
    "slurm": "{name}\n",
}
"""One line a host; Slurm's, which it knows by their names, are one a rank."""
LAUNCH_OPTIONS = (
    "launcher",
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
_DOMAINS = {"l3": "l3cache", "numa": "numa", "socket": "socket"}
"""What a plan's layout gives to a rank, in the words of hwloc, which Open MPI and hydra share."""
_BINDS = ("core", "none", *_DOMAINS.values())


@dataclass(frozen=True)
class _Part:
    """Hosts in a row whose ranks are started alike: threads, CPUs they may use (None: all), environment."""

    ranks: int
    threads: int
    cpus: str | None
    env: Mapping[str, Any]
    hosts: Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class _Job:
    """What a launcher needs to know. ``bind`` is core, none or a domain that each rank stays in."""

    parts: Sequence[_Part]
    command: Sequence[str]
    bind: str
    family: str
    mpi: Mapping[str, Any]
    options: Mapping[str, Any]

    def variables(self, part: _Part) -> dict[str, Any]:
        threads = {"OMP_NUM_THREADS": part.threads, "OPENBLAS_NUM_THREADS": part.threads}
        return {**threads, **part.env, **(self.options.get("env") or {})}

    def program(self, part: _Part) -> list[str]:
        # no launcher has one option that all versions take for a list of CPUs that differs by host
        return [*(["taskset", "-c", part.cpus] if part.cpus else []), *self.command]


def hostfile(plan: Mapping[str, Any], family: str = "openmpi") -> str:
    """Return the host file of ``plan``: for ``openmpi``, ``mpich`` or ``intelmpi`` a line a host with its
    slots, for ``slurm`` a line a rank with the host's name (SLURM_HOSTFILE of srun --distribution=arbitrary).
    Hosts without slots are left out.

    Raises HplError for another family, when ``plan`` has no hosts with slots, and for an IPv6 address where
    the format has no way to write one.
    """
    if family not in _HOST_LINE:
        raise HplError(
            f"no host file format for the MPI family {family!r}; known are {', '.join(_HOST_LINE)}"
        )
    hosts = _hosts(plan)
    if not hosts:
        raise HplError("not a plan: it has no hosts with slots")
    text = ""
    for host in hosts:
        name, address, slots = str(host.get("name") or host["address"]), str(host["address"]), host["slots"]
        if family != "slurm" and ":" in address:
            # Open MPI 4 refuses it with and without brackets, hydra ends the name at the first colon; PRRTE
            # wants no brackets
            version = str((plan.get("mpi") or {}).get("version") or "")
            if family != "openmpi" or not re.match(r"[5-9]|\d\d", version):
                raise HplError(_no_ipv6(family, name, address))
            address = address.strip("[]")
        line = _HOST_LINE[family].format(name=name, address=address, slots=slots)
        text += line * slots if family == "slurm" else line
    return text


def mpirun_argv(plan: Mapping[str, Any], program: str | Sequence[str], **options: Any) -> list[str]:
    """Return the argument list that runs ``program`` (a path, or a list with its arguments) on the hosts of
    ``plan``, rank by rank in their order.

    The MPI is that of ``plan["mpi"]``: Open MPI 4 or 5, MPICH or Intel MPI. Hosts whose ranks differ in
    threads, CPUs or environment become one part of the command line each. Options, all with a default:

    - ``launcher``: ``mpirun``, that of the MPI, or ``srun``, Slurm's (with PMIx for Open MPI, else PMI-2);
    - ``mpirun``: program to call; default the path in ``plan["mpi"]``, else the launcher's name;
    - ``mpi_version``: Open MPI's version, ``"4.1.4"`` or ``5``; default that in ``plan["mpi"]``. Its major
      number decides the spelling: version 5 has PRRTE in place of ORTE;
    - ``hostfile``: path of the file that hostfile() wrote; without it every rank runs on this node, or where
      Slurm's allocation is;
    - ``interface``: network for MPI and its daemons, an interface name or a CIDR (``10.1.0.0/16``), or
      several with commas; MPICH and Intel MPI take one name;
    - ``bind``: ``core`` (each rank to its own cores, within one domain where the plan's layout is ``l3``,
      ``numa`` or ``socket``), ``l3cache``, ``numa`` or ``socket`` (the same, dealt over these domains), or
      ``none`` (where nodes share cores, as containers of one host do);
    - ``cma``: False where the kernel refuses process_vm_readv between ranks, as it does in unprivileged
      containers;
    - ``timeout``: seconds after which the launcher itself ends the job;
    - ``env``: variables for the ranks; OMP_NUM_THREADS and OPENBLAS_NUM_THREADS come from the plan;
    - ``ssh_args``: arguments for ssh to the other nodes;
    - ``allow_root``: True to let root run it; ``oversubscribe``: True to allow more ranks than slots. Only
      Open MPI and, for the second, Slurm need to be told.

    Raises HplError for an unknown option or value, for an MPI that is not known, and for what its launcher
    cannot be told.
    """
    unknown = sorted(set(options) - set(LAUNCH_OPTIONS))
    if unknown:
        raise HplError(f"unknown option {', '.join(unknown)}; known are {', '.join(LAUNCH_OPTIONS)}")
    for name in ("cma", "allow_root", "oversubscribe"):
        if not isinstance(options.get(name, False), bool):
            raise HplError(f"{name} must be true or false, not {options[name]!r:.40}")
    bind, launcher = options.get("bind", "core"), options.get("launcher", "mpirun")
    if bind not in _BINDS:
        raise HplError(f"bind must be {', '.join(_BINDS[:-1])} or {_BINDS[-1]}, not {bind!r:.40}")
    if launcher not in ("mpirun", "srun"):
        raise HplError(f"launcher must be mpirun or srun, not {launcher!r:.40}")
    if not isinstance(plan, Mapping) or not plan.get("ranks"):
        raise HplError("not a plan: it has no ranks")
    command = [program] if isinstance(program, str) else [str(word) for word in program]
    if not command or not command[0]:
        raise HplError("no program to run")
    mpi = plan.get("mpi") or {}
    family = "openmpi" if options.get("mpi_version") is not None else mpi.get("family") or "openmpi"
    if family not in _LAUNCHERS:
        raise HplError(f"cannot start {family}: known are Open MPI 4 and 5, MPICH and Intel MPI")
    parts = _parts(plan)
    if bind == "core":
        bind = _DOMAINS.get(plan.get("layout", ""), bind)
    # cores of a rank are one number for the whole job, in Open MPI (PE=n) as in hydra (core:n), and start
    # with the first core of the node, which a list of CPUs may leave out
    if len({part.threads for part in parts}) > 1 or any(part.cpus for part in parts):
        bind = "none"
    job = _Job(parts, command, bind, family, mpi, options)
    return _srun(job) if launcher == "srun" else _LAUNCHERS[family](job)


def _hosts(plan: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    hosts = plan.get("hosts") if isinstance(plan, Mapping) else None
    return [host for host in hosts or [] if host["slots"]]


def _parts(plan: Mapping[str, Any]) -> list[_Part]:
    usual = as_count("threads_per_rank", plan.get("threads_per_rank", 1))

    def alike(host: Mapping[str, Any]) -> tuple[int, str | None, dict[str, Any]]:
        return as_count("threads", host.get("threads") or usual), host.get("cpus"), host.get("env") or {}

    parts = [
        _Part(sum(host["slots"] for host in hosts), threads, cpus, env, hosts)
        for (threads, cpus, env), hosts in (
            (kind, list(group)) for kind, group in itertools.groupby(_hosts(plan), alike)
        )
    ]
    if len(parts) > 1:
        return parts
    first = parts[0] if parts else _Part(0, usual, None, {}, [])
    return [_Part(plan["ranks"], first.threads, first.cpus, first.env, [])]


def _openmpi(job: _Job) -> list[str]:
    options, major = job.options, _major(job)
    argv = [str(options.get("mpirun") or job.mpi.get("path") or "mpirun")]
    for index, part in enumerate(job.parts):
        argv += [*([":"] if index else []), "-n", str(part.ranks)]
        if not index:
            argv += _openmpi_options(job, major)
        if part.hosts:
            # without it, version 5 fills a node beyond its slots when it may oversubscribe
            argv += ["--host", ",".join(_host_and_slots(host) for host in part.hosts)]
        for name, value in job.variables(part).items():
            argv += ["-x", f"{name}={value}"]
        argv += job.program(part)
    return argv


def _openmpi_options(job: _Job, major: int) -> list[str]:
    options = job.options
    argv = ["--allow-run-as-root"] if options.get("allow_root") else []
    if options.get("hostfile"):
        argv += ["--hostfile", str(options["hostfile"])]
    argv += _placement(major, job)
    if options.get("timeout") is not None:
        argv += ["--timeout", str(as_count("timeout", options["timeout"]))]
    if options.get("interface"):
        interface = str(options["interface"])
        daemons = ["--mca", "oob_tcp_if_include"] if major == 4 else ["--prtemca", "prte_if_include"]
        argv += ["--mca", "btl_tcp_if_include", interface, *daemons, interface]
    if options.get("ssh_args"):
        daemon_ssh = ["--mca", "plm_rsh_args"] if major == 4 else ["--prtemca", "plm_ssh_args"]
        argv += [*daemon_ssh, str(options["ssh_args"])]
    if options.get("cma") is False:
        argv += ["--mca", *_without_cma(major)]
    return argv


def _placement(major: int, job: _Job) -> list[str]:
    """Where ranks go: filled node by node in the order of the host file, so that slots per node are as
    planned.

    A domain keeps the cores of a rank together, where ``slot:PE=n`` counts on into the next one. Unlike
    ``ppr:1:l3cache`` it also serves a host with fewer slots than domains.
    """
    modifiers = []
    threads = job.parts[0].threads
    if threads > 1 and job.bind != "none":
        modifiers.append(f"PE={threads}")
    if job.options.get("oversubscribe"):
        modifiers.append("OVERSUBSCRIBE")
    # version 4 separates modifiers with commas, PRRTE with colons
    policy = job.bind if job.bind in _DOMAINS.values() else "slot"
    policy += ":" + ("," if major == 4 else ":").join(modifiers) if modifiers else ""
    return ["--map-by", policy, "--bind-to", "none" if job.bind == "none" else "core"]


def _major(job: _Job) -> int:
    version = job.options.get("mpi_version")
    found = version if version is not None else job.mpi.get("version")
    if found is None:
        raise HplError("the version of Open MPI is unknown: the nodes tell none, so set mpi_version")
    matched = re.match(r"\d+", str(found))
    if not matched or int(matched.group()) not in (4, 5):
        raise HplError(f"Open MPI {found!s:.40} is not supported: its version must be 4 or 5")
    return int(matched.group())


def _without_cma(major: int) -> tuple[str, str]:
    return ("btl_vader_single_copy_mechanism", "none") if major == 4 else ("smsc", "^cma")


def _hydra(job: _Job) -> list[str]:
    """mpiexec of MPICH and of Intel MPI."""
    options, variable = job.options, _HYDRA_VARIABLES[job.family]
    settings: dict[str, Any] = {}
    if options.get("timeout") is not None:
        settings[variable["timeout"]] = as_count("timeout", options["timeout"])
    if options.get("ssh_args"):
        settings[variable["ssh_args"]] = options["ssh_args"]
    argv = [*_with(settings), str(options.get("mpirun") or job.mpi.get("path") or "mpiexec")]
    if options.get("hostfile"):
        argv += ["-f", str(options["hostfile"])]
    if options.get("interface"):
        interface = str(options["interface"])
        if "/" in interface or "," in interface:
            raise HplError(f"{job.family} takes the name of one interface, not {interface!r:.80}")
        argv += ["-iface", interface]
    local = {} if options.get("cma", True) else {variable["cma"]: 0}
    if job.family == "intelmpi":
        local |= _intel_pinning(job)
    else:
        argv += ["-bind-to", "none" if job.bind == "none" else f"core:{job.parts[0].threads}"]
        argv += ["-map-by", job.bind] if job.bind in _DOMAINS.values() else []
    for index, part in enumerate(job.parts):
        argv += [*([":"] if index else []), "-n", str(part.ranks)]
        for name, value in {**local, **job.variables(part)}.items():
            argv += ["-env", name, str(value)]
        argv += job.program(part)
    return argv


def _intel_pinning(job: _Job) -> dict[str, Any]:
    """Intel MPI has no -bind-to: it binds each rank to a domain, which I_MPI_PIN_DOMAIN describes."""
    if job.bind == "none":
        return {"I_MPI_PIN": 0}
    domain = {"l3cache": "cache3", "numa": "numa", "socket": "socket"}.get(job.bind, "omp:compact")
    return {"I_MPI_PIN_DOMAIN": domain, "I_MPI_PIN_CELL": "core"}


def _srun(job: _Job) -> list[str]:
    """srun hands its own environment to the ranks, so that their variables and Open MPI's go there."""
    if len(job.parts) > 1:
        raise HplError("srun starts every rank alike: plan with one threads_per_rank, on nodes of one kind")
    options, part = job.options, job.parts[0]
    settings: dict[str, Any] = {}
    if options.get("interface") or options.get("cma") is False:
        if job.family != "openmpi":
            raise HplError(f"interface and cma are not known for {job.family} under srun: leave them out")
        if options.get("interface"):
            settings["OMPI_MCA_btl_tcp_if_include"] = options["interface"]
        if options.get("cma") is False:
            name, value = _without_cma(_major(job))
            settings[f"OMPI_MCA_{name}"] = value
    settings |= job.variables(part)
    if options.get("hostfile"):
        settings["SLURM_HOSTFILE"] = options["hostfile"]
    argv = [*_with(settings), str(options.get("mpirun") or "srun")]
    argv += ["--mpi=pmix" if job.family == "openmpi" else "--mpi=pmi2", "-n", str(part.ranks)]
    argv.append(f"--cpus-per-task={part.threads}")
    argv.append(f"--distribution={'arbitrary' if options.get('hostfile') else 'block'}")
    argv.append(f"--cpu-bind={'none' if job.bind == 'none' else 'cores'}")
    if options.get("timeout") is not None:
        minutes, seconds = divmod(as_count("timeout", options["timeout"]), 60)
        argv.append(f"--time={minutes}:{seconds:02d}")
    if options.get("oversubscribe"):
        argv.append("--overcommit")
    return [*argv, *job.program(part)]


_LAUNCHERS = {"openmpi": _openmpi, "mpich": _hydra, "intelmpi": _hydra}
_HYDRA_VARIABLES = {
    "mpich": {
        "timeout": "MPIEXEC_TIMEOUT",
        "ssh_args": "HYDRA_LAUNCHER_EXTRA_ARGS",
        "cma": "MPIR_CVAR_CH4_CMA_ENABLE",
    },
    "intelmpi": {
        "timeout": "I_MPI_JOB_TIMEOUT",
        "ssh_args": "I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS",
        "cma": "I_MPI_SHM_CMA",
    },
}


def _with(settings: Mapping[str, Any]) -> list[str]:
    """The start of a command that runs with ``settings`` in its environment."""
    return ["env", *(f"{name}={value}" for name, value in settings.items())] if settings else []


def _host_and_slots(host: Mapping[str, Any]) -> str:
    address = str(host["address"])
    if ":" in address:
        raise HplError(_no_ipv6("openmpi", str(host.get("name") or address), address))
    return f"{address}:{host['slots']}"


def _no_ipv6(family: str, name: str, address: str) -> str:
    return (
        f"{name}: {family} has no way to write the IPv6 address {address} here; "
        "give the host a name or an IPv4 address in ansible_host"
    )
