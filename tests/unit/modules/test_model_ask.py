"""model_ask against real HTTP servers: good ones, bad ones and silent ones."""

from __future__ import annotations

import json
import socket
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from ansible_collections.nodesmith.cluster.plugins.modules import model_ask

KEYS = {"changed", "completion", "tokens", "seconds", "tokens_per_second"}


def completion(content, tokens=7):
    message = {"role": "assistant", "content": content}
    return {"choices": [{"message": message}], "usage": {"completion_tokens": tokens}}


@contextmanager
def serving(status, body):
    """Answer every POST with ``status`` and ``body`` (bytes, or what becomes JSON)."""
    seen = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            text = self.rfile.read(int(self.headers["Content-Length"]))
            seen.append((self.path, dict(self.headers), json.loads(text)))
            answer = body if isinstance(body, bytes) else json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *arguments):
            """Say nothing."""

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/v1", seen
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def talking(words):
    """Take one connection, read, say ``words`` and hang up; say nothing at all when they are None."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer():
            connection, _address = listener.accept()
            with connection:
                if words is not None:
                    connection.recv(65536)
                    connection.sendall(words)
                else:
                    while connection.recv(65536):
                        pass

        thread = threading.Thread(target=answer)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
        thread.join()


@pytest.fixture
def ask(call):
    def run(url, **arguments):
        return call(model_ask, **{"url": url, "model": "m", "question": "Capital?", **arguments})

    return run


@pytest.mark.parametrize("check", [False, True])
def test_a_good_answer(ask, check):
    with serving(200, completion(" It is Paris. ")) as (url, seen):
        result = ask(url + "/", api_key="s3cret", expect="Paris", max_tokens=5, check=check)
    assert set(result) - {"invocation"} == KEYS
    assert (result["changed"], result["completion"], result["tokens"]) == (False, "It is Paris.", 7)
    assert result["seconds"] >= 0
    assert result["tokens_per_second"] > 0
    ((path, headers, body),) = seen
    assert path == "/v1/chat/completions"
    assert headers["Authorization"] == "Bearer s3cret"
    assert body == {
        "model": "m",
        "messages": [{"role": "user", "content": "Capital?"}],
        "max_tokens": 5,
        "temperature": 0,
    }
    assert "s3cret" not in json.dumps(result)


def test_no_key_no_header(ask):
    with serving(200, completion("yes")) as (url, seen):
        assert ask(url)["completion"] == "yes"
    assert "Authorization" not in seen[0][1]


@pytest.mark.parametrize(
    ("status", "remedy"),
    [(401, "api_key"), (404, "/v1"), (429, "ask again later"), (503, "health check"), (500, "boom")],
)
def test_refused(ask, status, remedy):
    with serving(status, {"error": {"message": "boom"}}) as (url, _seen):
        result = ask(url, api_key="s3cret")
    assert result["failed"]
    assert f"/v1/chat/completions answered {status}: " in result["msg"]
    assert "boom" in result["msg"]
    assert remedy in result["msg"]


def test_a_wrong_answer(ask):
    with serving(200, completion("London.")) as (url, _seen):
        result = ask(url, expect="Paris")
    assert "to 'Capital?' the model m answered 'London.'; expected was 'Paris'" in result["msg"]


@pytest.mark.parametrize("content", ["", "  \n"])
def test_an_empty_answer_is_none(ask, content):
    with serving(200, completion(content, 0)) as (url, _seen):
        assert "answered ''; expected was 'something'" in ask(url)["msg"]


@pytest.mark.parametrize(
    "body",
    [
        b"<html>hello</html>",
        b"\xff\xfe",
        b"",
        [],
        {"choices": []},
        {"choices": [{"text": "Paris"}], "usage": {"completion_tokens": 1}},
        {"choices": [{"message": {"content": "Paris"}}]},
        completion(None),
        completion("Paris", "seven"),
        completion("Paris", None),
    ],
)
def test_garbage(ask, body):
    with serving(200, body) as (url, _seen):
        result = ask(url)
    assert f"{url}/chat/completions did not give a chat completion: " in result["msg"]
    assert "OpenAI-compatible" in result["msg"]


@pytest.mark.parametrize(
    "words", [b"", b"SSH-2.0-OpenSSH_9.2\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{"]
)
def test_something_else_or_half_an_answer(ask, words):
    with talking(words) as url:
        result = ask(url)
    assert "did not answer" in result["msg"]
    assert "Does the service run" in result["msg"]


def test_silence(ask):
    with talking(None) as url:
        result = ask(url, timeout=1)
    assert "s of 1 s: " in result["msg"]
    assert "timed out" in result["msg"]


def test_nobody_there(ask):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    assert "Connection refused" in ask(f"http://127.0.0.1:{port}/v1")["msg"]
    assert "unknown url type: 'no-scheme/chat/completions'" in ask("no-scheme")["msg"]


@pytest.mark.parametrize("option", ["timeout", "max_tokens"])
def test_no_time_or_no_tokens(ask, option):
    assert ask("http://127.0.0.1:1/v1", **{option: 0})["msg"] == f"{option} is 0: it must be at least 1"
