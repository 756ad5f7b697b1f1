"""Which campaigns count as finished."""

from __future__ import annotations

import json

import pytest
from ansible_collections.nodesmith.cluster.plugins.module_utils._hpl_campaigns import finished
from ansible_collections.nodesmith.cluster.plugins.module_utils._hpl_values import HplError


def campaign(root, name, text):
    folder = root / name
    folder.mkdir()
    if text is not None:
        (folder / "report.json").write_text(text)


def test_only_whole_campaigns_of_the_plan_count_and_the_newest_is_last(tmp_path):
    campaign(tmp_path, "20260102T000000Z-abc", json.dumps({"gflops": 2.0}))
    campaign(tmp_path, "20260101T000000Z-abc", json.dumps({"gflops": 1.0}))
    campaign(tmp_path, "20260103T000000Z-abc", None)
    campaign(tmp_path, "20260104T000000Z-xabc", json.dumps({"gflops": 9.0}))
    found = finished(str(tmp_path), "abc")
    assert [entry["report"]["gflops"] for entry in found] == [1.0, 2.0]
    assert found[-1]["path"] == str(tmp_path / "20260102T000000Z-abc")


def test_a_missing_folder_has_none(tmp_path):
    assert finished(str(tmp_path / "none"), "abc") == []


@pytest.mark.parametrize("text", ["", "[]", "{"])
def test_a_damaged_report_is_named_with_the_remedy(tmp_path, text):
    campaign(tmp_path, "20260101T000000Z-abc", text)
    with pytest.raises(HplError, match=r"report\.json .*remove its folder"):
        finished(str(tmp_path), "abc")
