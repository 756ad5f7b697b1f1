#!/usr/bin/python
# Copyright: (c) 2026, The nodesmith authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Module that builds a program from its source, once for everything that decides the result."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: source_build
author: The nodesmith authors (@nodesmith)
version_added: 0.1.0
short_description: Build a program from source into a prefix of its own, or take a packed build
description:
  - Unpacks a tarball, patches, configures, makes and installs it into C(<prefix>/<version>-<key>), and
    switches the link C(<prefix>/current) to it.
  - The key is the hash of everything that decides the result. Where a whole build of that key is there,
    nothing is done.
  - A prefix gets its name only when it is whole. A build that was killed is taken up where it was, or begun
    anew when that fails; leftover processes of it are ended first.
  - The steps see C(PATH), C(HOME), C(LC_ALL), C(CC) and O(env) of the environment, and nothing else, so
    that nothing decides the result that is not in the key.
attributes:
  check_mode:
    description:
      - Says what would be built, and why. Where patches or the compiler are not there yet, the key and what
        follows from it are null.
    support: full
  diff_mode:
    description: Shows what went into the newest build against what goes into this one.
    support: full
options:
  name:
    description: Name of the program.
    type: str
    required: true
  version:
    description: Its version, part of the prefix.
    type: str
    required: true
  source:
    description:
      - Tarball on the node, with a single top folder. Only read when there is something to build.
    type: path
    required: true
  sha256:
    description: SHA-256 of O(source). A tarball with another sum is not unpacked.
    type: str
    required: true
  prefix:
    description: Folder for the builds of this program. Made when missing.
    type: path
    required: true
  system:
    description:
      - Build system that the steps follow from. V(autotools) is C(./configure), C(make) and C(make install),
        V(make) is without the first, V(cmake) builds in a folder of its own.
      - Needs an installation that knows C(DESTDIR), and for V(make) C(PREFIX).
    type: str
    choices: [autotools, make, cmake]
  configure_options:
    description: Options of the step C(configure).
    type: list
    elements: str
    default: []
  make_options:
    description:
      - Options of the step C(make). Those of the form C(NAME=value) are given to C(make install) too.
    type: list
    elements: str
    default: []
  install_options:
    description: Options of the step C(install).
    type: list
    elements: str
    default: []
  steps:
    description:
      - Commands to run in the source tree in place of those of a O(system). No shell is between.
      - In O(steps[].argv) and O(steps[].env), and in the options of a O(system), C({prefix}) is the final
        prefix, C({destdir}) an empty folder for C(DESTDIR), C({stage}) the place of the prefix below that,
        C({tree}) the source tree, C({jobs}) and C({target}) the options of that name. All other braces stay,
        and so do those after a dollar sign.
      - Commands that name C({destdir}) or C({stage}) are run again when a killed build is taken up. One of
        them has to.
    type: list
    elements: dict
    suboptions:
      name:
        description: Name, shown as the phase.
        type: str
        required: true
      argv:
        description: Command and its arguments.
        type: list
        elements: str
        required: true
      env:
        description: Variables for this step.
        type: dict
  patches:
    description: Patch files on the node, applied in order with C(patch -p1) and no fuzz.
    type: list
    elements: path
    default: []
  env:
    description: Variables for all steps.
    type: dict
    default: {}
  jobs:
    description: Value of C({jobs}). As many as there are usable CPUs when not given. Not in the key.
    type: int
  target:
    description: CPU that the build is for, as C(ZEN).
    type: str
  compiler:
    description: C compiler. The steps get it as C(CC), and the first line of its C(--version) is in the key.
    type: str
    default: cc
  depends:
    description: Keys of the builds that this one uses, by name. When one of them changes, so does this key.
    type: dict
    default: {}
  user:
    description:
      - Unprivileged user that the steps run as, when the module runs as root. The result belongs to root.
      - The user that the module runs as, when not given.
    type: str
  build_root:
    description: Folder for the folders to build in. Made when missing.
    type: path
    default: /var/tmp/nodesmith-build
  keep_builds:
    description:
      - Builds of this program to keep, the current one included. The oldest ones beyond it are removed.
    type: int
    default: 2
  needs_bytes:
    description: Free bytes that O(build_root) needs. Checked before anything is unpacked.
    type: int
    default: 0
  timeout:
    description: Seconds that the steps may take in all; no limit when not given. A later run goes on.
    type: int
  progress:
    description:
      - File to rewrite, at most twice a second and at the end, with a JSON object of C(phase), C(done) and
        C(total) (null where not known), C(elapsed), C(estimate) (seconds left in this phase, or null) and
        C(line), the last line of the log.
      - The phase is C(unpack), C(patch), the name of a step, C(pack), C(done) or C(failed).
    type: path
  pack:
    description:
      - Existing folder to pack the build into, as C(<name>-<version>-<key>.tar.zst), or C(.tar.gz) where
        there is no zstd. Left alone when it is there.
    type: path
  archive:
    description:
      - Packed build on the node, to be unpacked in place of building. It has to be of the key that this
        node asks for.
    type: path
  archive_sha256:
    description: SHA-256 of O(archive).
    type: str
  key_only:
    description: Only return the key, and whether a build of it is there. Changes nothing.
    type: bool
    default: false
"""

EXAMPLES = r"""
- name: Build OpenBLAS for one microarchitecture
  nodesmith.cluster.source_build:
    name: openblas
    version: 0.3.33
    source: /var/cache/nodesmith/OpenBLAS-0.3.33.tar.gz
    sha256: 6761af1d9f5d353ab4f0b7497be2643313b36c8f31caec0144bfef198e71e6ab
    prefix: /opt/nodesmith/openblas
    system: make
    target: ZEN
    make_options: ["TARGET={target}", USE_THREAD=0, USE_LOCKING=1]
    user: nobody
  register: openblas

- name: Build HPL with it
  nodesmith.cluster.source_build:
    name: hpl
    version: "2.3"
    source: /var/cache/nodesmith/hpl-2.3.tar.gz
    sha256: 32c5c17d22330e6f2337b681aded51637fb6008d3f0eb7c277b163fadd612830
    patches: [/var/cache/nodesmith/hpl-makefile.patch]
    prefix: /opt/nodesmith/hpl
    depends:
      openblas: "{{ openblas.key }}"
    steps:
      - {name: make, argv: [make, arch=node, "TOPdir={tree}", "LAdir={{ openblas.prefix }}"]}
      - {name: install, argv: [install, -D, -t, "{stage}/bin", bin/node/xhpl]}

- name: Take what another node has built
  nodesmith.cluster.source_build:
    name: openblas
    version: 0.3.33
    source: /var/cache/nodesmith/OpenBLAS-0.3.33.tar.gz
    sha256: 6761af1d9f5d353ab4f0b7497be2643313b36c8f31caec0144bfef198e71e6ab
    prefix: /opt/nodesmith/openblas
    system: make
    target: ZEN
    make_options: ["TARGET={target}", USE_THREAD=0, USE_LOCKING=1]
    archive: /var/cache/nodesmith/openblas.tar.zst
    archive_sha256: "{{ hostvars[builder].openblas.archive.sha256 }}"
"""

RETURN = r"""
key:
  description: What names the build, 12 hex digits. Null in check mode when it cannot be known yet.
  returned: always
  type: str
  sample: 4f0c1d2e3b5a
prefix:
  description: Folder of the build. Null when the key is.
  returned: always
  type: str
  sample: /opt/nodesmith/openblas/0.3.33-4f0c1d2e3b5a
current:
  description: The link to it.
  returned: always
  type: str
  sample: /opt/nodesmith/openblas/current
installed:
  description: Whether a whole build of the key is there (after the run, outside of check mode).
  returned: always
  type: bool
built:
  description: Whether it was built, or would be.
  returned: always
  type: bool
unpacked:
  description: Whether it was unpacked from O(archive), or would be.
  returned: always
  type: bool
reason:
  description: Why something was done, or would be.
  returned: always
  type: str
  sample: "configure_options changed: --without-ucx -> --with-ucx"
log:
  description: Log of the build on the node. Null where nothing of this key was built.
  returned: always
  type: str
  sample: /opt/nodesmith/openblas/logs/0.3.33-4f0c1d2e3b5a.log
seconds:
  description: Time that the module took.
  returned: always
  type: float
steps:
  description: The steps of this build, C(name) and C(seconds), those of the run that was killed included.
  returned: always
  type: list
  elements: dict
archive:
  description: C(path), C(sha256) and C(bytes) of the packed build. Null when there is none in O(pack).
  returned: always
  type: dict
inputs:
  description: What is in the key. Null when the key is.
  returned: always
  type: dict
removed:
  description: Older builds that were removed, or would be.
  returned: always
  type: list
  elements: str
"""

import contextlib
import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.nodesmith.cluster.plugins.module_utils._source_build import (
    BuildError,
    check_names,
    steps_of,
)
from ansible_collections.nodesmith.cluster.plugins.module_utils._source_build_node import (
    Build,
    Reporter,
    look,
    not_there_yet,
    remedy,
)


def shown(inputs: Mapping[str, Any]) -> str:
    """Return inputs as text to be compared line by line."""
    return json.dumps(inputs, indent=1, sort_keys=True) + "\n" if inputs else ""


def run(module: AnsibleModule, result: dict[str, Any], report: Reporter) -> None:
    """Do what is asked for, with ``result`` as what is known so far.

    :raises BuildError: it cannot be done
    :raises OSError: likewise
    """
    params = module.params
    check_names(params)
    steps_of(params)
    missing = not_there_yet(params)
    if missing and not module.check_mode:
        raise BuildError(missing)
    if missing:
        result.update(changed=True, reason=f"its key cannot be known yet: {missing}")
        result["unpacked"] = bool(params["archive"])
        result["built"] = not params["archive"]
    else:
        build = Build(params, look(params), report, module.warn)
        plan = build.plan()
        if module.check_mode or params["key_only"] or not plan["changed"]:
            result.update(plan)
        else:
            # so that a failure does not say that something was done
            result.update({name: plan[name] for name in ("key", "prefix", "reason", "inputs")})
            try:
                result.update(build.converge())
            finally:
                result["log"] = build.written_log()
        result["diff"] = {
            "before_header": "newest build",
            "after_header": str(build.final),
            "before": shown(build.inputs if plan["installed"] else build.before),
            "after": shown(build.inputs),
        }
    if params["key_only"]:
        result.update(changed=False, built=False, unpacked=False, removed=[])
        result.pop("diff", None)


def main() -> None:
    """Build, or say what would be built."""
    strings = {"type": "list", "elements": "str", "default": []}
    module = AnsibleModule(
        argument_spec={
            "name": {"type": "str", "required": True},
            "version": {"type": "str", "required": True},
            "source": {"type": "path", "required": True},
            "sha256": {"type": "str", "required": True},
            "prefix": {"type": "path", "required": True},
            "system": {"type": "str", "choices": ["autotools", "make", "cmake"]},
            "configure_options": strings,
            "make_options": strings,
            "install_options": strings,
            "steps": {
                "type": "list",
                "elements": "dict",
                "options": {
                    "name": {"type": "str", "required": True},
                    "argv": {"type": "list", "elements": "str", "required": True},
                    "env": {"type": "dict"},
                },
            },
            "patches": {"type": "list", "elements": "path", "default": []},
            "env": {"type": "dict", "default": {}},
            "jobs": {"type": "int"},
            "target": {"type": "str"},
            "compiler": {"type": "str", "default": "cc"},
            "depends": {"type": "dict", "default": {}},
            "user": {"type": "str"},
            "build_root": {"type": "path", "default": "/var/tmp/nodesmith-build"},  # noqa: S108
            "keep_builds": {"type": "int", "default": 2},
            "needs_bytes": {"type": "int", "default": 0},
            "timeout": {"type": "int"},
            "progress": {"type": "path"},
            "pack": {"type": "path"},
            "archive": {"type": "path"},
            "archive_sha256": {"type": "str"},
            "key_only": {"type": "bool", "default": False},
        },
        mutually_exclusive=[["system", "steps"]],
        required_one_of=[["system", "steps"]],
        required_together=[["archive", "archive_sha256"]],
        supports_check_mode=True,
    )
    begin = time.monotonic()
    report = Reporter(None if module.check_mode or module.params["key_only"] else module.params["progress"])
    result: dict[str, Any] = {
        **dict.fromkeys(("key", "prefix", "log", "archive", "inputs")),
        **dict.fromkeys(("changed", "installed", "built", "unpacked"), False),
        "current": str(Path(module.params["prefix"], "current")),
        "reason": "",
        "steps": [],
        "removed": [],
    }
    failure = None
    try:
        run(module, result, report)
        report.phase("done")
    except BuildError as error:
        failure = str(error)
    except OSError as error:
        failure = f"{module.params['name']} {module.params['version']} cannot be built: {remedy(error)}"
    result["seconds"] = round(time.monotonic() - begin, 3)
    if failure:
        with contextlib.suppress(OSError):
            report.phase("failed", line=failure)
        module.fail_json(msg=failure, **result)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
