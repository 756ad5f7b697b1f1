"""What ``make lint``, ``make test`` and ``make test-all`` run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from .layout import Layout
from .playbook import playbook_argv
from .preflight import require_root
from .runner import Check, run_checks
from .setup import setup

# Scenarios mostly wait for package managers and systemd, so two at a time suit two cores.
SCENARIOS_AT_A_TIME = 2
ENGINE = ("docker", "lab-image")


def lint_checks(layout: Layout) -> list[Check]:
    """Return the checks that run nothing but linters."""
    tool = layout.tool
    return [
        Check("yamllint", [tool("yamllint"), "--strict", "."]),
        Check("ansible-lint", [tool("ansible-lint"), "--offline"]),
        Check("ruff", [tool("ruff"), "check"]),
        Check("ruff-format", [tool("ruff"), "format", "--check"]),
        Check("mypy", [tool("mypy"), "plugins/module_utils", "models/kvserve", "scripts"]),
        Check("role-readmes", [tool("python"), "scripts/role_readmes.py", "--check"]),
    ]


def _pytest(layout: Layout, name: str, *arguments: str, needs: tuple[str, ...] = ()) -> Check:
    return Check(name, [layout.tool("python"), "-m", "pytest", *arguments], needs=needs)


def _engine_checks(layout: Layout) -> list[Check]:
    return [
        Check("docker", playbook_argv(layout, "docker", "inventory/local", {})),
        Check("lab-image", playbook_argv(layout, "lab_image", "inventory/local", {}), needs=("docker",)),
    ]


def scenarios(root: Path, *, long: bool) -> list[str]:
    """Return the names of the molecule scenarios; those with a file ``.long`` only when ``long``."""
    folders = sorted(path.parent for path in root.glob("molecule/*/molecule.yml"))
    return [folder.name for folder in folders if long or not (folder / ".long").exists()]


def _molecule(layout: Layout, scenario: str) -> Check:
    # Molecule keys its state by the checkout's name, so an ANSIBLE_HOME of its own keeps each scenario apart.
    # It writes its own ansible.cfg; ours must not shine through.
    return Check(
        f"molecule-{scenario}",
        [layout.tool("molecule"), "test", "-s", scenario],
        env={
            "ANSIBLE_CONFIG": "",
            "ANSIBLE_HOME": str(layout.root / "build" / "molecule" / scenario),
            "MOLECULE_GLOB": "molecule/*/molecule.yml",
        },
        needs=ENGINE,
    )


def _batches(layout: Layout, *, long: bool) -> list[tuple[int, Sequence[Check]]]:
    selection = [] if long else ["-m", "not long"]
    return [
        (1, lint_checks(layout)),
        (1, [_pytest(layout, "unit", "tests/unit"), _pytest(layout, "models", "tests/models")]),
        (1, [Check("sanity", [layout.tool("python"), "scripts/sanity.py"]), *_engine_checks(layout)]),
        (SCENARIOS_AT_A_TIME, [_molecule(layout, name) for name in scenarios(layout.root, long=long)]),
        (1, [_pytest(layout, "integration", *selection, "tests/integration", needs=ENGINE)]),
    ]


def run_lint(layout: Layout) -> int:
    """Run the linters only."""
    setup(layout, dev=True)
    return run_checks(layout, [(1, lint_checks(layout))])


def run_test(layout: Layout) -> int:
    """Run all that CI runs."""
    require_root()
    setup(layout, dev=True)
    return run_checks(layout, _batches(layout, long=False))


def run_test_all(layout: Layout) -> int:
    """Run all that CI runs and what takes too long for it."""
    require_root()
    setup(layout, dev=True)
    return run_checks(layout, _batches(layout, long=True))
