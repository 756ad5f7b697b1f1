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
  - Reads memory, cgroup limits, processor topology, clocks and the MPI installation of a node, without root
    and without other facts.
  - A figure that the node does not tell is null, never a guess. RV(hpl_facts.sources) says where each one
    came from.
options:
  root:
    description:
      - Root of the C(/proc) and C(/sys) tree to read, for a recorded one.
      - MPI is only looked for on the node itself.
    type: path
    default: /
  mpirun:
    description: Name or path of the MPI launcher to look for.
    type: str
    default: mpirun
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
        - The processors that the module may use. C(physical_cores) counts cores, not SMT threads, and no
          more than the CPU quota; clocks are in MHz; C(rpeak_gflops) is at the base clock, or at the
          maximum where that is unknown.
      returned: always
      type: dict
      sample: {model: AMD EPYC, vendor: AuthenticAMD, microarchitecture: zen3, physical_cores: 2,
        allowed_cpus: 2, sockets: 1, numa_nodes: 1, l3_groups: 1, threads_per_core: 1, quota_cpus: null,
        base_mhz: 2445.4, max_mhz: null, dp_flops_per_cycle: 16, rpeak_gflops: 78.253}
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
from ansible_collections.nodesmith.cluster.plugins.module_utils._hpl_facts import (
    parse_mpirun_version,
    read_facts,
)


def find_mpi(module: AnsibleModule) -> tuple[dict[str, str] | None, str]:
    """Return the launcher's family, version and path (or None), and where that is known from."""
    path = module.get_bin_path(module.params["mpirun"])
    if path is None:
        return None, f"no {module.params['mpirun']} in PATH"
    _rc, out, err = module.run_command([path, "--version"])
    return parse_mpirun_version(out + err, path), f"{path} --version"


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "root": {"type": "path", "default": "/"},
            "mpirun": {"type": "str", "default": "mpirun"},
        },
        supports_check_mode=True,
    )
    root = module.params["root"]
    facts: dict[str, Any] = read_facts(root)
    facts["mpi"], facts["sources"]["mpi"] = (
        find_mpi(module) if root == "/" else (None, "a recorded tree has no MPI")
    )
    module.exit_json(changed=False, hpl_facts=facts, ansible_facts={"hpl_facts": facts})


if __name__ == "__main__":
    main()
