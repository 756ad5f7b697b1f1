"""kvserve as systemd runs it and as a client meets it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

URL = "http://models-node1:8000"
QUESTION = {
    "model": "smollm2-135m-instruct",
    "messages": [{"role": "user", "content": "What is the capital of France? Answer in one short sentence."}],
    "temperature": 0,
    "max_tokens": 24,
}
# The node has Python and no curl. Prints status and body.
CLIENT = """\
import sys, urllib.error, urllib.request
url, key, body = sys.argv[1:]
request = urllib.request.Request(url, body.encode() or None, {"Content-Type": "application/json"})
if key:
    request.add_header("Authorization", "Bearer " + key)
try:
    reply = urllib.request.urlopen(request, timeout=60)
except urllib.error.HTTPError as error:
    reply = error
print(reply.status, reply.read().decode())
"""


def call(host, path, key="", body=None):
    text = json.dumps(body) if body else ""
    status, reply = host.check_output("python3 -c %s %s %s %s", CLIENT, URL + path, key, text).split(" ", 1)
    return int(status), json.loads(reply)


@pytest.fixture
def key():
    return Path(os.environ["MOLECULE_EPHEMERAL_DIRECTORY"], "api_key").read_text().strip()


def test_the_unit_runs_now_and_at_boot(host):
    service = host.service("kvserve")
    assert service.is_running
    assert service.is_enabled


def test_it_does_not_run_as_root(host):
    pid = host.service("kvserve").systemd_properties["MainPID"]
    assert host.check_output(f"ps -o user= -p {pid}") == "kvserve"
    with host.sudo():
        status = host.file(f"/proc/{pid}/status").content_string
    assert "CapEff:\t0000000000000000" in status
    assert "NoNewPrivs:\t1" in status


def test_systemd_restarted_it_after_it_was_killed(host):
    assert int(host.service("kvserve").systemd_properties["NRestarts"]) >= 1


def test_only_the_service_reads_the_keys(host, key):
    with host.sudo():
        file = host.file("/etc/kvserve/api_keys")
        assert (file.mode, file.user, file.group) == (0o640, "root", "kvserve")
        assert file.content_string == f"molecule:{key}\n"
        # the key itself on a command line would end up in sudo's journal
        found = host.run("cut -d: -f2 /etc/kvserve/api_keys | grep -rlF -f - /etc /opt /var/lib /var/log")
    assert found.stdout.split() == ["/etc/kvserve/api_keys"]
    assert not host.run("cat /etc/kvserve/api_keys").succeeded


def test_the_service_cannot_write_its_own_program(host):
    with host.sudo("kvserve"):
        assert not host.run("touch /opt/nodesmith/kvserve/current/x").succeeded
        assert not host.run("touch /var/lib/kvserve/checkpoints/x").succeeded


def test_health_needs_no_key(host):
    assert call(host, "/health") == (200, {"status": "ok", "model": "smollm2-135m-instruct"})


@pytest.mark.parametrize("wrong", ["", "guess"])
def test_without_the_key_it_is_401(host, wrong):
    status, body = call(host, "/v1/chat/completions", wrong, QUESTION)
    assert status == 401
    assert body["error"]["message"]


def test_it_knows_the_capital_of_france(host, key):
    status, body = call(host, "/v1/chat/completions", key, QUESTION)
    assert status == 200, body
    assert "Paris" in body["choices"][0]["message"]["content"]
    assert body["usage"]["completion_tokens"] > 0
