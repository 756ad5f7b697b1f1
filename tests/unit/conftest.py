"""Runs a module in this process as Ansible does, and hands out its result."""

from __future__ import annotations

import json

import pytest
from ansible.module_utils.testing import patch_module_args


@pytest.fixture
def call(capfd):
    def run(module, check=False, **arguments):
        with patch_module_args({**arguments, "_ansible_check_mode": check}), pytest.raises(SystemExit):
            module.main()
        return json.loads(capfd.readouterr().out)

    return run
