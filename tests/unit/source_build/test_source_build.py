"""Keys, steps, reasons and progress of builds from source, without building anything."""

from __future__ import annotations

import copy
import json
import re

import pytest
from ansible_collections.nodesmith.cluster.plugins.module_utils._source_build import (
    BuildError,
    Progress,
    Step,
    compile_steps,
    differences,
    inputs_of,
    key_of,
    last_errors,
    manifest_of,
    os_name,
    parse_manifest,
    steps_of,
    surplus,
)
from hypothesis import given
from hypothesis import strategies as st

PARAMS = {
    "name": "openblas",
    "version": "0.3.33",
    "sha256": "6" * 64,
    "system": "make",
    "configure_options": [],
    "make_options": ["USE_THREAD=0"],
    "install_options": [],
    "steps": None,
    "env": {},
    "target": None,
    "depends": {},
}
TEXT = st.text("abc-=/. {}", max_size=6)
NAMED = st.dictionaries(TEXT, TEXT, max_size=3)
INPUTS = st.fixed_dictionaries(
    {
        "params": st.fixed_dictionaries(
            {
                "name": TEXT,
                "version": TEXT,
                "sha256": TEXT,
                "system": st.just("cmake"),
                "configure_options": st.lists(TEXT, max_size=3),
                "make_options": st.lists(TEXT, max_size=3),
                "install_options": st.lists(TEXT, max_size=3),
                "env": NAMED,
                "target": st.none() | TEXT,
                "depends": NAMED,
            }
        ),
        "patches": st.lists(TEXT, max_size=2),
        "compiler": TEXT,
        "machine": TEXT,
        "os": TEXT,
    }
)


def backwards(value):
    """Return a copy with the keys of all dicts in reverse."""
    if isinstance(value, dict):
        return {key: backwards(item) for key, item in reversed(value.items())}
    return value


@given(INPUTS)
def test_the_order_of_names_does_not_matter(given_inputs):
    inputs = inputs_of(**given_inputs)
    assert key_of(inputs_of(**backwards(given_inputs))) == key_of(inputs)
    assert key_of(json.loads(json.dumps(inputs))) == key_of(inputs)
    assert re.fullmatch("[0-9a-f]{12}", key_of(inputs))


@given(INPUTS, INPUTS)
def test_any_other_input_is_another_key(one, other):
    same = one == other
    first, second = inputs_of(**one), inputs_of(**other)
    assert (key_of(first) == key_of(second)) == same
    assert (differences(first, second) == "") == same
    # with just one of them changed, all others the same
    for name in one["params"]:
        changed = copy.deepcopy(one)
        changed["params"][name] = other["params"][name]
        same = one["params"][name] == other["params"][name]
        assert (key_of(inputs_of(**changed)) == key_of(first)) == same
        if not same:
            label = "source" if name == "sha256" else name
            assert differences(first, inputs_of(**changed)).startswith(f"{label} changed: ")
    for name in ("patches", "compiler", "machine", "os"):
        changed = {**one, name: other[name]}
        assert (key_of(inputs_of(**changed)) == key_of(first)) == (one[name] == other[name])


def test_the_steps_are_in_the_key():
    def key(**change):
        steps = [{"name": "install", "argv": ["cp", "{stage}"], "env": None, **change}]
        params = {**PARAMS, "system": None, "steps": steps, "make_options": []}
        return key_of(inputs_of(params, [], "cc 12", "x86_64", "debian 12"))

    keys = [key(), key(argv=["cp", "-a", "{stage}"]), key(env={"A": 1}), key(name="copy")]
    assert len(set(keys)) == len(keys)
    assert key(env={}) == key(env=None)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ({"a": ["-x", "-y"]}, {"a": ["-x", "-z"]}, "a changed: -y -> -z"),
        ({"a": ["-x", "-y"]}, {"a": ["-y", "-x"]}, "a changed: -x -y -> -y -x"),
        ({"a": ["-x"]}, {"a": ["-x", "-x"]}, "a changed: -x -> -x -x"),
        ({"a": None}, {"a": "ZEN"}, "a changed: nothing -> ZEN"),
        ({"a": {"b": "1", "c": "2"}}, {"a": {"c": "3", "b": "1"}}, "a changed: c=2 -> c=3"),
        ({"gone": 1}, {"come": 2}, "come changed: nothing -> 2; gone changed: 1 -> nothing"),
        (
            {"steps": [{"name": "make", "argv": ["make", "a b"], "env": {}}]},
            {"steps": [{"name": "make", "argv": ["make"], "env": {}}]},
            "steps changed: make: make 'a b' -> make: make",
        ),
    ],
)
def test_differences(old, new, said):
    assert differences(old, new) == said


@given(
    st.dictionaries(
        st.sampled_from(["prefix", "destdir", "stage", "tree", "jobs", "target"]), st.text("{prefix}")
    )
)
def test_values_are_not_searched_for_placeholders(values):
    for name, value in values.items():
        filled = Step("a", [f"x{{{name}}}y", f"${{{name}}}"], {"E": f"{{{name}}}"}).filled(values)
        assert filled.argv == [f"x{value}y", f"${{{name}}}"]
        assert filled.env == {"E": value}


@given(st.text("{}$ abprefix%s\\"))
def test_other_braces_stay(text):
    if "{prefix}" not in text:
        assert Step("a", [text]).filled({"prefix": "/opt"}).argv == [text]


def test_variables_of_make_are_given_to_install():
    make, install = steps_of(
        {**PARAMS, "make_options": ["NO_LAPACK=1", "libs", "-s"], "install_options": ["-k"]}
    )
    assert make.argv[-3:] == ["NO_LAPACK=1", "libs", "-s"]
    assert install.argv == ["make", "PREFIX={prefix}", "NO_LAPACK=1", "-k", "DESTDIR={destdir}", "install"]


@pytest.mark.parametrize(
    "steps",
    [
        [{"name": "a", "argv": [], "env": None}],
        [{"name": "a", "argv": ["x", "{stage}"], "env": None}] * 2,
        [{"name": "a/b", "argv": ["x", "{stage}"], "env": None}],
    ],
)
def test_steps_that_will_not_do(steps):
    with pytest.raises(BuildError, match="will not do"):
        steps_of({**PARAMS, "system": None, "make_options": [], "steps": steps})


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ('ID=debian\nVERSION_ID="12"\nPRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\n', "debian 12"),
        ("# a comment\nID=arch\nBUILD_ID=rolling\nHOME_URL='https://x/'\n", "arch"),
        ("", "linux"),
    ],
)
def test_os_name(text, name):
    assert os_name(text) == name


def test_manifests():
    inputs = inputs_of(PARAMS, [], "cc 12", "x86_64", "debian 12")
    manifest = manifest_of(inputs, prefix="/opt/x", built="2026", steps={"make": 1.5}, files={"b": 2, "a": 1})
    assert (manifest["count"], manifest["bytes"], list(manifest["files"])) == (2, 3, ["a", "b"])
    text = json.dumps(manifest)
    assert parse_manifest(text) == manifest
    for bad in ("", "[]", "{}", "null", text[:-5], text.replace("USE_THREAD=0", "USE_THREAD=1")):
        assert parse_manifest(bad) is None
    for name in ("files", "key", "built", "inputs", "prefix"):
        assert parse_manifest(json.dumps({**manifest, name: None})) is None


@given(st.dictionaries(st.text("ab", min_size=1), st.sampled_from(["2025", "2026"])), st.integers(1, 5))
def test_surplus(others, keep):
    gone = surplus(others, keep)
    stay = set(others) - set(gone)
    assert len(stay) == min(len(others), keep - 1)
    assert all(others[old] <= others[young] for old in gone for young in stay)


# lines as GNU make 4.3, automake 1.16, libtool 2.4, CMake 3.25 and Ninja 1.11 print them
COMPILES = [
    "cc -O2 -c foo.c -o foo.o",
    "gcc -DX='\"a\"' -MT foo.lo -MD -MP -MF .deps/foo.Tpo -c -o foo.lo foo.c",
    "/bin/bash ../libtool  --tag=CC   --mode=compile gcc -DHAVE_CONFIG_H -c -o a.lo a.c",
    "  CC       foo.lo",
    "  PPFC     mpi-f08.lo",
    "as -o start.o start.s",
]
OTHERS = [
    "libtool: compile:  gcc -DHAVE_CONFIG_H -c a.c  -fPIC -DPIC -o .libs/a.o",
    "cc -o hello main.o word.o",
    "  CCLD     libfoo.la",
    "ar -ru libx.a a.o b.o",
    "make[1]: Entering directory '/x'",
    "install -c -m 644 x.h /usr/include",
    "checking whether gcc understands -c and -o together... yes",
]


def test_compile_steps():
    assert compile_steps("\n".join(COMPILES)) == len(COMPILES)
    assert [line for line in OTHERS if compile_steps(line)] == []


def test_progress_by_lines():
    progress = Progress("make", total=4)
    assert progress.report(3.0, 2.0)["estimate"] is None
    for line in [*OTHERS, COMPILES[0], ""]:
        progress.feed(line)
    assert progress.report(3.04, 2.0) == {
        "phase": "make",
        "done": 1,
        "total": 4,
        "elapsed": 3.0,
        "estimate": 6.0,
        "line": COMPILES[0],
    }
    for line in COMPILES:
        progress.feed(line)
    assert (progress.done, progress.total) == (7, None)


@pytest.mark.parametrize(
    ("line", "done", "total"),
    [
        ("[ 12%] Building C object CMakeFiles/x.dir/a.c.o", 12, 100),
        ("[100%] Built target x", 100, 100),
        ("[3/40] Building C object CMakeFiles/x.dir/a.c.o", 3, 40),
        ("[3/40] cc -c a.c -o a.o", 3, 40),
    ],
)
def test_progress_as_the_tool_says(line, done, total):
    progress = Progress("make", total=7, done=2)
    progress.feed(line)
    assert (progress.done, progress.total, progress.line) == (done, total, line)


def test_last_errors():
    log = [
        "checking for strerror... yes",
        "cc -Werror -c error.c -o error.o",
        "a.c:1:5: error: 'x' undeclared",
        *[f"cc -Werror -c b{i}.c -o b{i}.o" for i in range(50)],
        "make: *** [Makefile:5: a.o] Error 1",
        "x" * 1000,
        "",
        "the end",
    ]
    said = last_errors("\n".join(log)).split(" / ")
    assert said == [log[2], log[-4], "x" * 300, "the end"]
