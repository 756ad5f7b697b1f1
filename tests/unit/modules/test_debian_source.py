"""debian_source: with apt on signed repositories made here, with a fake apt, and with the real mirror."""

from __future__ import annotations

import hashlib
import itertools
import os
import subprocess
import tarfile
from pathlib import Path

import pytest
from ansible_collections.nodesmith.cluster.plugins.modules import debian_source
from ansible_collections.nodesmith.cluster.plugins.modules.debian_source import (
    as_source_entries,
    existing,
    version_key,
)

KEYS = {"changed", "path", "version", "sha256"}

ONE_LINE = """\
# deb is the word
deb http://mirror.example/debian bookworm main contrib
deb [signed-by=/usr/share/keyrings/x.gpg arch=amd64] http://deb.example/debian bookworm main
  deb\t[trusted=yes] http://flat.example/x ./
#deb http://off.example/debian bookworm main
deb-src http://mirror.example/debian bookworm main
"""
DEB822 = """\
# the mirror
Types: deb
URIs: http://deb.example/debian
Suites: bookworm bookworm-updates
Components: main
Signed-By: /usr/share/keyrings/x.gpg

types: deb deb-src
URIs: http://other.example/deb
Suites: ./
Enabled: no
Signed-By:
 -----BEGIN PGP PUBLIC KEY BLOCK-----
 .
 Types: no field of this one
 -----END PGP PUBLIC KEY BLOCK-----
"""


def test_one_line_entries():
    text = as_source_entries(ONE_LINE, deb822=False)
    changed = [
        pair for pair in zip(ONE_LINE.splitlines(), text.splitlines(), strict=True) if pair[0] != pair[1]
    ]
    assert [old.replace("deb", "deb-src", 1) for old, _new in changed] == [new for _old, new in changed]
    assert len(changed) == 3
    assert as_source_entries(text, deb822=False) == text


def test_deb822_entries():
    text = as_source_entries(DEB822, deb822=True)
    changed = [
        pair for pair in zip(DEB822.splitlines(), text.splitlines(), strict=True) if pair[0] != pair[1]
    ]
    assert changed == [("Types: deb", "Types: deb-src"), ("types: deb deb-src", "Types: deb-src")]


VERSIONS = [
    "1",
    "1.0",
    "1.0.1",
    "1.0~rc1",
    "1.0~rc1.1",
    "1.0~",
    "1.0a",
    "1.0+dfsg",
    "1.0+dfsg1",
    "1.0.",
    "1.10",
    "2",
]
VERSIONS += [
    "1.2",
    "01.2",
    "4.1.4",
    "4.1.4~b",
    "4.1.10",
    "5.0.0rc2",
    "5.0.0",
    "20230101",
    "1.0+git20230101.a1b2c3",
]


def test_versions_as_dpkg_compares_them():
    ours = sorted(VERSIONS, key=version_key)
    for one, two in itertools.pairwise(ours):
        relation = "eq" if version_key(one) == version_key(two) else "lt"
        assert subprocess.run(["dpkg", "--compare-versions", one, relation, two], check=False).returncode == 0


def test_existing_takes_the_newest_and_nothing_else(tmp_path):
    assert existing(tmp_path, "x") is None
    names = ["x_1.10.orig.tar.gz", "x_1.9.orig.tar.xz", "x_1.10~rc1.orig.tar.bz2", "x_2.orig.tar.gz.asc"]
    names += [
        "x_3.orig-docs.tar.gz",
        "x_4.tar.xz",
        "xx_5.orig.tar.gz",
        "x_6.orig.tar.gz.FAILED",
        "x_7.dsc",
        "x.y_8.orig.tar.gz",
    ]
    for age, name in enumerate(names):
        (tmp_path / name).write_text(name)
        os.utime(tmp_path / name, (1000 + age, 1000 + age))
    assert existing(tmp_path, "x") == (tmp_path / "x_1.10.orig.tar.gz", "1.10")


@pytest.fixture(scope="module")
def key(tmp_path_factory):
    """A signing key in a GnuPG home of its own: the home, the public key armoured, and as a keyring."""
    home = tmp_path_factory.mktemp("gnupg")
    home.chmod(0o700)
    gpg = ["gpg", "--homedir", home, "--batch", "--quiet"]
    subprocess.run([*gpg, "--passphrase", "", "--quick-generate-key", "repository", "ed25519"], check=True)
    armoured = subprocess.run(
        [*gpg, "--armor", "--export"], check=True, capture_output=True, text=True
    ).stdout
    (home / "public.gpg").write_bytes(
        subprocess.run([*gpg, "--export"], check=True, capture_output=True).stdout
    )
    (home / "public.gpg").chmod(0o644)
    yield gpg, armoured, home / "public.gpg"
    subprocess.run(["gpgconf", "--homedir", home, "--kill", "gpg-agent"], check=True)


def digest(path):
    return f" {hashlib.sha256(path.read_bytes()).hexdigest()} {path.stat().st_size} "


def make_repository(folder, name, tarball, gpg):
    """Make a signed flat repository with the source package ``name``, which is ``tarball`` alone."""
    folder.mkdir()
    (folder / "README").write_text("upstream\n")
    with tarfile.open(folder / tarball, "w:gz") as tar:
        tar.add(folder / "README", arcname=f"{name}-1.2/README")
    fields = "Format: 1.0\nBinary: x\nArchitecture: any\nVersion: 1.2-3\nMaintainer: N <n@example.org>\n"
    dsc = folder / f"{name}_1.2-3.dsc"
    dsc.write_text(f"{fields}Source: {name}\nChecksums-Sha256:\n{digest(folder / tarball)}{tarball}\n")
    listed = "".join(f"\n{digest(path)}{path.name}" for path in (dsc, folder / tarball))
    (folder / "Sources").write_text(f"Package: {name}\n{fields}Directory: .\nChecksums-Sha256:{listed}\n")
    (folder / "Release").write_text(
        f"Date: Sat, 01 Jan 2022 00:00:00 UTC\nSHA256:\n{digest(folder / 'Sources')}Sources\n"
    )
    subprocess.run([*gpg, "--clearsign", "--output", folder / "InRelease", folder / "Release"], check=True)
    for path in folder.iterdir():
        path.chmod(0o644)
    return folder


@pytest.fixture
def apt(key, tmp_path, monkeypatch):
    """An apt whose sources are a folder of this test."""
    (tmp_path / "parts").mkdir()
    (tmp_path / "apt.conf").write_text(
        f'Dir::Etc::sourcelist "{tmp_path}/sources.list";\nDir::Etc::sourceparts "{tmp_path}/parts";\n'
        f'Dir::Etc::trusted "/dev/null";\nDir::Etc::trustedparts "/dev/null";\n'
        f'Dir::State "{tmp_path}/state";\n'
    )
    monkeypatch.setenv("APT_CONFIG", str(tmp_path / "apt.conf"))
    (tmp_path / "dest").mkdir()
    make_repository(tmp_path / "repository", "tiny", "tiny_1.2.orig.tar.gz", key[0])
    return tmp_path


def one_line(apt, key):
    (apt / "sources.list").write_text(f"deb [signed-by={key[2]} arch=amd64] file:{apt}/repository ./\n")


def deb822_keyring(apt, key):
    (apt / "parts" / "a.sources").write_text(
        f"Types: deb\nURIs: file:{apt}/repository\nSuites: ./\nSigned-By: {key[2]}\n"
    )


def deb822_key(apt, key):
    lines = "".join(f" {line or '.'}\n" for line in key[1].splitlines())
    (apt / "parts" / "a.sources").write_text(
        f"Types: deb\nURIs: file:{apt}/repository\nSuites: ./\nSigned-By:\n{lines}"
    )


@pytest.mark.parametrize("write", [one_line, deb822_keyring, deb822_key])
def test_apt_fetches_what_its_sources_sign(call, apt, key, write):
    write(apt, key)
    arguments = {"name": "tiny", "dest": str(apt / "dest")}
    predicted = call(debian_source, check=True, **arguments)
    assert set(predicted) - {"invocation"} == KEYS
    assert (predicted["changed"], predicted["path"], predicted["version"], predicted["sha256"]) == (
        True,
        None,
        None,
        None,
    )
    result = call(debian_source, **arguments)
    assert not Path(result["path"]).is_symlink()
    tarball = apt / "repository" / "tiny_1.2.orig.tar.gz"
    assert (result["changed"], result["version"]) == (True, "1.2")
    assert Path(result["path"]).read_bytes() == tarball.read_bytes()
    assert result["sha256"] == hashlib.sha256(tarball.read_bytes()).hexdigest()
    assert [path.name for path in (apt / "dest").iterdir()] == [tarball.name]
    for check in (False, True):
        again = call(debian_source, check=check, **arguments)
        assert {name: again[name] for name in KEYS} == {
            **{name: result[name] for name in KEYS},
            "changed": False,
        }


def refused(call, apt, name="tiny"):
    result = call(debian_source, name=name, dest=str(apt / "dest"))
    assert result["failed"]
    assert list((apt / "dest").iterdir()) == []
    return result["msg"]


def test_a_repository_that_nobody_signed_for(call, apt):
    (apt / "sources.list").write_text(f"deb file:{apt}/repository ./\n")
    assert "is not signed" in refused(call, apt)


def test_a_tarball_that_is_not_the_signed_one(call, apt, key):
    one_line(apt, key)
    tarball = apt / "repository" / "tiny_1.2.orig.tar.gz"
    tarball.write_bytes(bytes(reversed(tarball.read_bytes())))
    message = refused(call, apt)
    assert "apt could not fetch the source package tiny: E: " in message
    assert "Does this machine reach the mirror" in message


def test_a_package_that_is_not_there(call, apt, key):
    one_line(apt, key)
    assert "E: Unable to find a source package for absent" in refused(call, apt, "absent")


def test_a_package_of_the_distribution_itself(call, apt, key):
    make_repository(apt / "native", "own", "own_1.2-3.tar.gz", key[0])
    (apt / "sources.list").write_text(f"deb [signed-by={key[2]}] file:{apt}/native ./\n")
    assert "own has no upstream tarball own_VERSION.orig.tar.*: apt fetched own_1.2-3.tar.gz" in refused(
        call, apt, "own"
    )


def test_no_sources(call, apt):
    assert f"apt has no sources here, neither {apt}/sources.list nor files in {apt}/parts" in refused(
        call, apt
    )


@pytest.mark.parametrize("name", ["", "x", "-h", "../x", "Hpcc", "hpcc=1.5"])
def test_no_name(call, tmp_path, name):
    result = call(debian_source, name=name, dest=str(tmp_path))
    assert result["failed"]
    assert "cannot be a source package" in result["msg"]


def test_no_folder(call, tmp_path):
    assert (
        "dest does not exist: make it first"
        in call(debian_source, name="hpcc", dest=str(tmp_path / "dest"))["msg"]
    )


def test_a_download_that_breaks_off_leaves_nothing(call, tmp_path, monkeypatch):
    """apt writes a tarball in place: what an apt that was killed leaves must not pass for one."""
    fake = tmp_path / "bin" / "apt-get"
    fake.parent.mkdir()
    fake.write_text(
        '#!/bin/sh\ncase "$*" in *--tar-only*) ;; *) exit 0 ;; esac\n'
        'echo half > hpcc_1.5.0.orig.tar.gz\necho "E: broken pipe" >&2\nexit 100\n'
    )
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{fake.parent}:{os.environ['PATH']}")
    (tmp_path / "dest").mkdir()
    result = call(debian_source, name="hpcc", dest=str(tmp_path / "dest"))
    assert "apt could not fetch the source package hpcc: E: broken pipe" in result["msg"]
    assert list((tmp_path / "dest").iterdir()) == []


def test_hpcc_from_the_mirror(call, tmp_path):
    """The tarball is HPL's as upstream packs it, through the sources of this very machine."""
    before = {path: path.stat().st_mtime_ns for path in Path("/etc/apt").rglob("*")}
    result = call(debian_source, name="hpcc", dest=str(tmp_path))
    assert result["changed"]
    with tarfile.open(result["path"]) as tar:
        names = tar.getnames()
    assert f"hpcc-{result['version']}/hpl/testing/ptest/HPL_pdinfo.c" in names
    assert before == {path: path.stat().st_mtime_ns for path in Path("/etc/apt").rglob("*")}
