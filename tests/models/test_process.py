"""The command: settings, messages, and the life of a server process."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time

import httpx
import pytest

from kvserve.cli import main
from kvserve.errors import ConfigError
from kvserve.gate import read_api_keys
from kvserve.settings import load_settings


def kvserve(*args, **options):
    return subprocess.run(
        [sys.executable, "-m", "kvserve", *map(str, args)],
        capture_output=True,
        text=True,
        timeout=120,
        **options,
    )


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Server:
    """A ``kvserve serve`` process."""

    def __init__(self, *args):
        self.port = free_port()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "kvserve", "serve", "--port", str(self.port), *map(str, args)],
            stderr=subprocess.PIPE,
            text=True,
        )
        self.log: list[str] = []
        self._reader = threading.Thread(target=lambda: self.log.extend(self.process.stderr))
        self._reader.start()
        self.client = httpx.Client(base_url=f"http://127.0.0.1:{self.port}", timeout=60)

    def health(self) -> int | None:
        try:
            return self.client.get("/health").status_code
        except httpx.TransportError:
            return None

    def wait_for(self, status, seconds=90):
        end = time.monotonic() + seconds
        while (found := self.health()) != status:
            assert self.process.poll() is None, "".join(self.log)
            assert time.monotonic() < end, f"/health is {found}"
            time.sleep(0.02)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self._reader.join()
        self.process.stderr.close()
        self.client.close()


@pytest.fixture
def keys(tmp_path):
    path = tmp_path / "keys"
    path.write_text("# who may ask\nalice:sesame\n\nplain-key\n")
    return path


def test_help_imports_neither_torch_nor_the_server():
    code = "import sys, kvserve.cli as c\ntry: c.main(['serve', '--help'])\nexcept SystemExit: pass\n"
    code += "print(sorted({'torch', 'fastapi', 'numpy', 'gguf'} & set(sys.modules)))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "--check-config" in result.stdout
    assert result.stdout.endswith("[]\n")


def test_info(tiny_gguf, capsys):
    assert main(["info", "--checkpoint", str(tiny_gguf), "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["n_layers"] == 2
    assert facts["kv_bytes_per_token_fp32"] == 2 * 2 * 2 * 16 * 4
    assert main(["info", "--checkpoint", str(tiny_gguf)]) == 0
    assert "kv_bytes_full_context_fp32  2,097,152" in capsys.readouterr().out


def test_generate(tiny_gguf, capsys):
    def run(*args):
        assert main(["generate", "--checkpoint", str(tiny_gguf), "--max-tokens", "12", *args]) == 0
        return capsys.readouterr().out

    text = run("--prompt", "abc")
    assert text == run("--prompt", "abc")
    assert run("--prompt", "abc", "--stop", text[4]) == text[: text.index(text[4])] + "\n"
    sampled = run("--chat", "hi", "--temperature", "1.5", "--seed", "4", "--top-k", "50", "--top-p", "0.9")
    assert sampled == run(
        "--chat", "hi", "--temperature", "1.5", "--seed", "4", "--top-k", "50", "--top-p", "0.9"
    )


def test_errors_are_one_line_and_status_2(tmp_path):
    result = kvserve("generate", "--checkpoint", tmp_path / "none.gguf", "--prompt", "x")
    assert result.returncode == 2
    assert result.stderr.count("\n") == 1
    assert "none.gguf is not a file" in result.stderr
    assert kvserve("serve").returncode == 2


def test_settings_file_under_flags(tmp_path, tiny_gguf, keys, capsys):
    config = tmp_path / "kvserve.toml"
    config.write_text(
        f'checkpoint = "{tiny_gguf}"\napi_keys_file = "{keys}"\n'
        "port = 9001\nqueue_size = 3\ndrain_timeout = 5\n"
    )
    assert main(["serve", "--config", str(config), "--port", "9002", "--check-config"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["port"], shown["queue_size"], shown["model_name"]) == (9002, 3, "tiny")
    assert "sesame" not in json.dumps(shown)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("prot = 1", "unknown keys prot; known are checkpoint"),
        ("port = 'x'", "port is 'x'; it must be a whole number"),
        ("port = true", "port is True"),
        ("port = 70000", "port is 70000; it must be 1 to 65535"),
        ("queue_size = -1", "queue_size is -1; it must be at least 0"),
        ("threads = 100000", "threads is 100000; it must be 1 to"),
        ("drain_timeout = -1.0", "drain_timeout is -1.0"),
        ("drain_timeout = nan", "drain_timeout is nan"),
        ("checkpoint = ''", "checkpoint is empty"),
        ("port = ", "is not valid TOML"),
    ],
)
def test_bad_settings_are_named(tmp_path, text, message):
    path = tmp_path / "c.toml"
    path.write_text(text)
    overrides = {} if "checkpoint" in text else {"checkpoint": "x.gguf"}
    with pytest.raises(ConfigError, match=message):
        load_settings(path, overrides)


def test_a_checkpoint_is_needed(tmp_path):
    with pytest.raises(ConfigError, match="no checkpoint"):
        load_settings(None, {})
    with pytest.raises(ConfigError, match="cannot be read"):
        load_settings(tmp_path / "none.toml", {})


def test_key_files(tmp_path, keys):
    assert read_api_keys(keys) == {"alice": "sesame", "key4": "plain-key"}
    for text, message in (
        ("# nobody\n", "holds no key"),
        ("a:\n", "line 1 is not"),
        ("a:k\nb:k\n", "line 2 repeats"),
    ):
        keys.write_text(text)
        with pytest.raises(ConfigError, match=message) as caught:
            read_api_keys(keys)
        assert "k\n" not in str(caught.value)
    with pytest.raises(ConfigError, match="cannot be read"):
        read_api_keys(tmp_path / "none")


def test_sigterm_drains(tiny_gguf, keys):
    auth = {"authorization": "Bearer plain-key"}
    with Server(
        "--checkpoint", tiny_gguf, "--api-keys-file", keys, "--drain-timeout", "60", "--threads", "1"
    ) as server:
        server.wait_for(200)
        body = {"prompt": "a secret", "max_tokens": 3000, "temperature": 0, "stream": True}
        with server.client.stream("POST", "/v1/completions", json=body, headers=auth) as response:
            assert response.status_code == 200
            lines = response.iter_lines()
            next(lines)
            server.process.send_signal(signal.SIGTERM)
            server.wait_for(503)
            refused = server.client.post("/v1/completions", json={"prompt": "a"}, headers=auth)
            assert (refused.status_code, refused.json()["error"]["code"]) == (503, "draining")
            rest = [line for line in lines if line]
        assert rest[-1] == "data: [DONE]"
        assert json.loads(rest[-2].removeprefix("data: "))["choices"][0]["finish_reason"] == "length"
        assert server.process.wait(30) == 0
    entries = [json.loads(line) for line in server.log]
    assert any(entry["message"] == "draining" and entry["signal"] == "SIGTERM" for entry in entries)
    (asked,) = [
        entry for entry in entries if entry.get("status") == 200 and entry["path"] == "/v1/completions"
    ]
    assert asked["key"] == "key4"
    assert asked["request_id"]
    assert not any("secret" in line or "plain-key" in line for line in server.log)


def test_the_drain_timeout_cuts_off_and_says_so(tiny_gguf):
    with Server("--checkpoint", tiny_gguf, "--drain-timeout", "0.2", "--threads", "1") as server:
        server.wait_for(200)
        # sampled, it might end on its own before the time is over
        body = {"prompt": "a secret", "max_tokens": 3000, "temperature": 0, "stream": True}
        with server.client.stream("POST", "/v1/completions", json=body) as response:
            lines = response.iter_lines()
            next(lines)
            server.process.send_signal(signal.SIGTERM)
            rest = [line for line in lines if line]
        assert json.loads(rest[-1].removeprefix("data: "))["error"]["type"] == "service_unavailable_error"
        assert server.process.wait(30) == 0


def test_a_checkpoint_that_cannot_be_loaded_ends_the_server(tmp_path, tiny_gguf):
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(tiny_gguf.read_bytes()[:5000])
    with Server("--checkpoint", broken) as server:
        assert server.process.wait(60) == 2
    assert "is not a complete GGUF file" in server.log[-1]


def test_the_wheel_builds(tmp_path):
    models = os.environ["PYTHONPATH"].split(os.pathsep)[0]
    subprocess.run(
        [
            sys.executable,
            "-m",
            "pip",
            "wheel",
            "--quiet",
            "--no-deps",
            "--no-build-isolation",
            "-w",
            tmp_path,
            models,
        ],
        check=True,
    )
    assert [path.name for path in tmp_path.glob("*.whl")] == ["kvserve-0.1.0-py3-none-any.whl"]
