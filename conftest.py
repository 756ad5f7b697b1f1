"""Lets tests import ``ansible_collections.nodesmith.cluster`` straight from this checkout."""

from __future__ import annotations

from pathlib import Path

from ansible.utils.collection_loader._collection_finder import _AnsibleCollectionFinder

_AnsibleCollectionFinder(paths=[str(Path(__file__).parent / ".ansible" / "collections")])._install()
