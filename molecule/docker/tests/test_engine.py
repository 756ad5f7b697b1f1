"""The engine, asked through its own client by a person without root."""

from __future__ import annotations

# A program and the libraries it needs: the smallest image that can be made without a registry.
TINY_IMAGE = "tar -ch /bin/echo $(ldd /bin/echo | grep -o '/[^ ]*') 2>/dev/null | docker import - tiny:test"


def test_the_engine_answers_a_member_of_the_group(host):
    assert host.check_output("id -un") == "nodesmith"
    assert host.check_output("docker version --format '{{.Server.Version}}'")


def test_the_engine_starts_at_boot(host):
    service = host.service("docker")
    assert service.is_running
    assert service.is_enabled


def test_a_container_runs(host):
    host.check_output(TINY_IMAGE)
    assert host.check_output("docker run --rm tiny:test /bin/echo hello from inside") == "hello from inside"


def test_images_are_stacked_not_copied(host):
    assert host.check_output("docker info --format '{{.Driver}}'") == "overlay2"
