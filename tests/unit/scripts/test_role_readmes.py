from __future__ import annotations

import role_readmes
import yaml

SPEC = yaml.safe_load("""
main:
  short_description: Set up a tool
  description:
    - One paragraph.
    - Another.
  options:
    tool_mode:
      type: str
      choices: [a|b, c]
      default: c
      description: How it works.
    tool_users:
      type: list
      elements: dict
      required: true
      description: [Who., And how.]
      options:
        name: {type: str, required: true, description: Login.}
    tool_enabled: {type: bool, default: false, description: On or off.}
check:
  short_description: Look only.
""")


def test_every_option_has_its_row():
    text = role_readmes.render("tool", SPEC)
    for row in (
        r"| `tool_mode` | str | `c` | How it works. One of `a\|b`, `c`. |",
        "| `tool_users` | list of dict | **required** | Who. And how. |",
        "| `tool_users.name` | str | **required** | Login. |",
        "| `tool_enabled` | bool | `false` | On or off. |",
    ):
        assert row in text.splitlines()
    assert "Set up a tool.\n\nOne paragraph.\n\nAnother.\n" in text
    assert "## Entry point `check`\n\nLook only.\n" in text


def test_the_examples_are_plays():
    blocks = [part.split("```")[0] for part in role_readmes.render("tool", SPEC).split("```yaml\n")[1:]]
    main, check = (yaml.safe_load(block) for block in blocks)
    assert main == [
        {"hosts": "all", "roles": [{"role": "nodesmith.cluster.tool", "vars": {"tool_users": []}}]}
    ]
    include = {"name": "nodesmith.cluster.tool", "tasks_from": "check"}
    assert check == [{"hosts": "all", "tasks": [{"ansible.builtin.include_role": include}]}]
