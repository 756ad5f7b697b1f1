#!/usr/bin/python
# Copyright: (c) 2026, The nodesmith authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Module: what a node has that HPL can use."""

from __future__ import annotations

DOCUMENTATION = r"""
module: hpl_facts
short_description: What a node has that High Performance Linpack can use
version_added: "0.1.0"
description:
  - Reads memory, cgroup limits, processor topology, clocks, GPUs, networks, and the MPI and BLAS
    installation of a node, without root and without other facts.
  - A figure that the node does not tell is null, never a guess. RV(hpl_facts.sources) says where each one
    came from.
options:
  root:
    description:
      - Root of the C(/proc) and C(/sys) tree to read, for a recorded one.
      - MPI, BLAS and NVIDIA's GPUs are only asked for on the node itself.
    type: path
    default: /
  mpirun:
    description: Name or path of the MPI launcher to look for.
    type: str
    default: mpirun
  blas:
    description:
      - Path of the BLAS library to ask, or of a program that is linked with it, such as C(xhpl).
      - Without it, the OpenBLAS that this collection installs is asked, then the OpenBLAS, BLIS, MKL or Arm
        library that the dynamic linker knows.
      - The library is loaded in a process of its own, where it selects its kernel for this CPU.
    type: str
attributes:
  check_mode:
    description: Can run in check mode and return what it would return without it.
    support: full
  diff_mode:
    description: Returns details on what has changed.
    support: none
    details: Nothing changes.
author:
  - The nodesmith authors (@nodesmith)
"""

EXAMPLES = r"""
- name: Read what each node has
  nodesmith.cluster.hpl_facts:
  register: node

- name: Say how much memory a run may use
  ansible.builtin.debug:
    msg: "{{ node.hpl_facts.memory.usable_bytes }} bytes, from {{ source }}"
  vars:
    source: "{{ node.hpl_facts.sources['memory.usable_bytes'] }}"
"""

RETURN = r"""
hpl_facts:
  description: The facts; also set as the fact C(hpl_facts).
  returned: always
  type: dict
  contains:
    memory:
      description:
        - C(total_bytes), C(available_bytes), C(hugepages_bytes), C(limit_bytes) and C(limit_used_bytes) of
          the tightest memory cgroup (null without a limit), and C(usable_bytes), the least of what is
          available and of what each limit leaves.
      returned: always
      type: dict
      sample: {total_bytes: 25276063744, available_bytes: 24790208512, limit_bytes: 2147483648,
        limit_used_bytes: 41943040, hugepages_bytes: 0, usable_bytes: 2105540608}
    swap_used_bytes:
      description: Bytes in swap.
      returned: always
      type: int
      sample: 0
    cpu:
      description:
        - The processors that the module may use. C(physical_cores) counts cores, not SMT threads, of every
          class; C(usable_cores) those that a plan may fill, which are of one class and no more than the CPU
          quota.
        - C(core_classes) has one entry on an ordinary CPU, and one for each kind of core on a hybrid one;
          the one with C(chosen) is what the figures beside it describe.
        - Clocks are in MHz. C(rpeak_gflops) is at the base clock, or at the maximum where that is unknown;
          C(rpeak_max_gflops) at the maximum.
      returned: always
      type: dict
      sample:
        model: AMD EPYC
        vendor: AuthenticAMD
        physical_cores: 2
        allowed_cpus: 2
        sockets: 1
        numa_nodes: 1
        l3_groups: 1
        threads_per_core: 1
        quota_cpus: null
        core_classes:
          - {name: all, cores: 2, cpus: 0-1, microarchitecture: zen3, base_mhz: 2445.4, max_mhz: null,
            dp_flops_per_cycle: 16, rpeak_gflops: 78.253, chosen: true}
        usable_cores: 2
        cores_per_socket: [2]
        cores_per_l3: [2]
        numa: [{node: 0, cores: 2, memory_bytes: 25276063744}]
        microarchitecture: zen3
        base_mhz: 2445.4
        max_mhz: null
        dp_flops_per_cycle: 16
        rpeak_gflops: 78.253
        rpeak_max_gflops: null
    gpus:
      description:
        - One entry for each GPU, in the order of the driver. An MI250X is two, one for each die (GCD), and
          an MI300X in partitions is one for each of them.
        - C(target) is the gfx target of AMD's and the compute capability of NVIDIA's. A GPU that the module
          may not read is left out, and RV(hpl_facts.sources) says so.
      returned: always
      type: list
      elements: dict
      sample:
        - {vendor: amd, name: MI250X, target: gfx90a, compute_units: 110, memory_bytes: 68702699520,
          numa_node: 3, pci: "0000:c1:00.0"}
    network:
      description:
        - C(interfaces) has the C(name), the C(kind) (ethernet or infiniband) and the speed in Mbit/s,
          C(mbit), of each one that is up and leads out of the node; virtual ones tell no speed.
        - C(fastest_mbit) and C(kind) are those of the fastest.
      returned: always
      type: dict
      sample:
        interfaces:
          - {name: eth0, kind: ethernet, mbit: 10000}
          - {name: "mlx5_0:1", kind: infiniband, mbit: 200000}
        fastest_mbit: 200000
        kind: infiniband
    blas:
      description:
        - C(library) (openblas, blis, mkl or armpl), C(version), C(path), and the C(kernel) and C(threading)
          that it selects here, or null.
      returned: always
      type: dict
      sample: {library: openblas, version: 0.3.30, path: /opt/nodesmith/openblas/current/lib/libopenblas.so,
        kernel: ZEN, threading: pthreads}
    nofile:
      description: Soft limit of open files, null when unlimited.
      returned: always
      type: int
      sample: 1024
    mpi:
      description: C(family) (openmpi, mpich or intelmpi), C(version) and C(path) of the launcher, or null.
      returned: always
      type: dict
      sample: {family: openmpi, version: 4.1.4, path: /usr/bin/mpirun}
    machine:
      description: Machine name, as C(uname -m) prints it.
      returned: always
      type: str
      sample: x86_64
    hostname:
      description: The kernel's host name.
      returned: always
      type: str
      sample: node1
    sources:
      description: Where each figure came from, by its dotted name.
      returned: always
      type: dict
      sample: {memory.total_bytes: /proc/meminfo MemTotal}
ansible_facts:
  description: The same, as a fact of the host.
  returned: always
  type: dict
  contains:
    hpl_facts:
      description: See RV(hpl_facts).
      returned: always
      type: dict
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.nodesmith.cluster.plugins.module_utils._hpl_blas import read_blas
from ansible_collections.nodesmith.cluster.plugins.module_utils._hpl_facts import (
    parse_mpirun_version,
    read_facts,
)
from ansible_collections.nodesmith.cluster.plugins.module_utils._hpl_gpus import (
    NVIDIA_QUERY,
    numa_node,
    parse_nvidia_smi,
    read_amd_gpus,
)
from ansible_collections.nodesmith.cluster.plugins.module_utils._hpl_network import read_network
from ansible_collections.nodesmith.cluster.plugins.module_utils._hpl_process import run
from ansible_collections.nodesmith.cluster.plugins.module_utils._hpl_readings import Readings

RECORDED = "a recorded tree cannot be asked"
NVIDIA_SMI_SECONDS = 60.0  # it waits for the driver, which takes its time to start on a node with many GPUs


def find_mpi(module: AnsibleModule) -> tuple[dict[str, str] | None, str]:
    """Return the launcher's family, version and path (or None), and where that is known from."""
    path = module.get_bin_path(module.params["mpirun"])
    if path is None:
        return None, f"no {module.params['mpirun']} in PATH"
    _rc, out, err = module.run_command([path, "--version"])
    return parse_mpirun_version(out + err, path), f"{path} --version"


def find_nvidia_gpus(module: AnsibleModule, readings: Readings) -> tuple[list[dict[str, Any]], str]:
    """Return what nvidia-smi tells of NVIDIA's GPUs, and where that is known from or why there are none."""
    path = module.get_bin_path("nvidia-smi")
    if path is None:
        return [], "no nvidia-smi in PATH"
    argv = [path, f"--query-gpu={NVIDIA_QUERY}", "--format=csv,noheader,nounits"]
    try:
        outcome = run(argv, timeout=NVIDIA_SMI_SECONDS)
    except OSError as error:
        return [], f"{path}: {error.strerror}"
    if outcome.timed_out:
        return [], f"{path} gave no answer in {NVIDIA_SMI_SECONDS:g} s"
    gpus = parse_nvidia_smi(outcome.stdout)
    for gpu in gpus:
        gpu["numa_node"] = numa_node(readings, f"/sys/bus/pci/devices/{gpu['pci']}")
    words = " ".join((outcome.stdout + outcome.stderr).split())
    return gpus, f"{path} --query-gpu" if gpus else f"{path}: {words[:200]}"


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "root": {"type": "path", "default": "/"},
            "mpirun": {"type": "str", "default": "mpirun"},
            "blas": {"type": "str"},
        },
        supports_check_mode=True,
    )
    root = module.params["root"]
    facts: dict[str, Any] = read_facts(root)
    readings = Readings(root)
    facts["network"] = read_network(readings)
    amd, amd_source = read_amd_gpus(readings)
    if root == "/":
        facts["mpi"], mpi_source = find_mpi(module)
        facts["blas"], blas_source = read_blas(module.params["blas"])
        nvidia, nvidia_source = find_nvidia_gpus(module, readings)
    else:
        facts["mpi"], facts["blas"], nvidia = None, None, []
        mpi_source = blas_source = nvidia_source = RECORDED
    facts["gpus"] = amd + nvidia
    facts["sources"].update(
        readings.sources,
        mpi=mpi_source,
        blas=blas_source,
        gpus=f"AMD: {amd_source}; NVIDIA: {nvidia_source}",
    )
    module.exit_json(changed=False, hpl_facts=facts, ansible_facts={"hpl_facts": facts})


if __name__ == "__main__":
    main()
