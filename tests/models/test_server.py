"""The HTTP API over a real socket."""

from __future__ import annotations

import contextlib
import json
import threading
import time

import httpx
import pytest
import uvicorn
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kvserve.engine import Engine, EngineState
from kvserve.server import create_app

KEYS = {"alice": "sesame", "bob": "s3cret"}
AUTH = {"authorization": "Bearer sesame"}
CHAT = {"messages": [{"role": "user", "content": "hi"}], "temperature": 0}


def eventually(condition, seconds=20.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "this should have happened by now"
        time.sleep(0.01)


@contextlib.contextmanager
def running(load, *, keys=None, **options):
    engine = Engine(load, **options)
    app = create_app(engine, model_name="tiny", api_keys=keys)
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_config=None, timeout_graceful_shutdown=2))
    thread = threading.Thread(target=server.run)
    thread.start()
    engine.start()
    try:
        eventually(lambda: server.started)
        port = server.servers[0].sockets[0].getsockname()[1]
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=30) as client:
            yield client, engine
    finally:
        server.should_exit = True
        engine.stop()
        thread.join()


@pytest.fixture(scope="module")
def client(tiny):
    with running(lambda: tiny, max_seq_len=128) as (client, engine):
        assert engine.wait_loaded(20) is EngineState.READY
        yield client


@pytest.fixture
def braked(brake, tiny):
    with running(lambda: (brake, tiny[1]), queue_size=1) as (client, engine):
        assert engine.wait_loaded(20) is EngineState.READY
        try:
            yield client, engine
        finally:
            brake.go.set()


def events(response) -> list[str]:
    lines = [line for line in response.iter_lines() if line]
    assert all(line.startswith("data: ") for line in lines)
    return [line.removeprefix("data: ") for line in lines]


def stream(client, path, body):
    with client.stream("POST", path, json=body | {"stream": True}) as response:
        assert response.status_code == 200
        assert response.headers["content-type"].startswith("text/event-stream")
        data = events(response)
    assert data[-1] == "[DONE]"
    return [json.loads(event) for event in data[:-1]]


def problem(response, status, **expected):
    assert response.status_code == status, response.text
    error = response.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert {name: error[name] for name in expected} == expected
    assert response.headers["x-request-id"]
    return error["message"]


def test_health_is_503_while_loading(tiny):
    gate = threading.Event()

    def load():
        assert gate.wait(30)
        return tiny

    with running(load) as (client, engine):
        response = client.get("/health")
        assert response.json()["status"] == "loading"
        problem(response, 503, code="loading")
        response = client.post("/v1/completions", json={"prompt": "a"})
        problem(response, 503, code="loading", type="service_unavailable_error")
        assert int(response.headers["retry-after"]) > 0
        gate.set()
        assert engine.wait_loaded(20) is EngineState.READY
        response = client.get("/health")
        assert (response.status_code, response.json()) == (200, {"status": "ok", "model": "tiny"})


def test_a_failed_load_stays_503():
    def load():
        raise MemoryError("no room")

    with running(load) as (client, engine):
        assert engine.wait_loaded(20) is EngineState.FAILED
        problem(client.get("/health"), 503, code="failed")
        problem(client.post("/v1/completions", json={"prompt": "a"}), 503, code="failed")


def test_everything_but_health_wants_a_key(tiny):
    with running(lambda: tiny, keys=KEYS) as (client, engine):
        engine.wait_loaded(20)
        assert client.get("/health").status_code == 200
        for path in ("/v1/models", "/v1/models/tiny", "/docs", "/openapi.json", "/nowhere", "/health/"):
            response = client.get(path)
            problem(response, 401, type="authentication_error", code="missing_api_key")
            assert response.headers["www-authenticate"] == "Bearer"
        for value in (
            "Bearer",
            "Basic sesame",
            "sesame",
            "Bearer sesam",
            "Bearer alice",
            "Bearer sesame2",
        ):
            response = client.post("/v1/completions", json={"prompt": "a"}, headers={"authorization": value})
            assert response.status_code == 401, value
        for key in KEYS.values():
            assert client.get("/v1/models", headers={"authorization": f"Bearer {key}"}).status_code == 200
        assert client.get("/nowhere", headers=AUTH).status_code == 404


def test_models(client):
    listed = client.get("/v1/models").json()
    assert listed["object"] == "list"
    (model,) = listed["data"]
    assert (model["id"], model["object"]) == ("tiny", "model")
    assert isinstance(model["created"], int)
    assert isinstance(model["owned_by"], str)
    assert client.get("/v1/models/tiny").json() == model
    problem(client.get("/v1/models/other"), 404, code="model_not_found", param="model")


def test_completion_and_its_stream(client):
    body = {"model": "tiny", "prompt": "hello", "temperature": 0}
    whole = client.post("/v1/completions", json=body).json()
    assert whole["object"] == "text_completion"
    assert whole["id"].startswith("cmpl-")
    (choice,) = whole["choices"]
    assert (choice["index"], choice["finish_reason"], choice["logprobs"]) == (0, "length", None)
    assert whole["usage"] == {
        "prompt_tokens": 5,
        "completion_tokens": 16,
        "total_tokens": 21,
        "prompt_tokens_details": {"cached_tokens": 0},
    }
    for prompt in (["hello"], list(b"hello"), [list(b"hello")]):
        again = client.post("/v1/completions", json=body | {"prompt": prompt}).json()
        assert again["choices"] == whole["choices"]

    chunks = stream(client, "/v1/completions", body | {"stream_options": {"include_usage": True}})
    assert {chunk["object"] for chunk in chunks} == {"text_completion"}
    assert len({(chunk["id"], chunk["created"], chunk["model"]) for chunk in chunks}) == 1
    *middle, last, usage = chunks
    assert "".join(chunk["choices"][0]["text"] for chunk in [*middle, last]) == choice["text"]
    assert [chunk["choices"][0]["finish_reason"] for chunk in chunks[:-1]] == [None] * len(middle) + [
        "length"
    ]
    assert (usage["choices"], usage["usage"]) == ([], whole["usage"])
    assert all(chunk["usage"] is None for chunk in chunks[:-1])


def test_chat_and_its_stream(client):
    whole = client.post("/v1/chat/completions", json=CHAT).json()
    assert whole["object"] == "chat.completion"
    (choice,) = whole["choices"]
    assert choice["message"]["role"] == "assistant"
    # Without a limit an answer goes on to the end of the context of 128.
    assert whole["usage"]["total_tokens"] == 128
    assert choice["finish_reason"] == "length"

    chunks = stream(client, "/v1/chat/completions", CHAT)
    assert {chunk["object"] for chunk in chunks} == {"chat.completion.chunk"}
    assert chunks[0]["id"].startswith("chatcmpl-")
    assert len({chunk["id"] for chunk in chunks}) == 1
    assert chunks[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert chunks[-1]["choices"][0]["delta"] == {}
    assert chunks[-1]["choices"][0]["finish_reason"] == "length"
    assert "usage" not in chunks[0]
    text = "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in chunks)
    assert text == choice["message"]["content"]

    parts = [{"type": "text", "text": "h"}, {"type": "text", "text": "i"}]
    again = client.post(
        "/v1/chat/completions", json=CHAT | {"messages": [{"role": "user", "content": parts}]}
    )
    assert again.json()["choices"] == whole["choices"]


def test_max_completion_tokens_beats_max_tokens(client):
    body = CHAT | {"max_tokens": 9, "max_completion_tokens": 3}
    assert client.post("/v1/chat/completions", json=body).json()["usage"]["completion_tokens"] == 3


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.text(min_size=1, max_size=8),
    st.lists(st.text(alphabet=[chr(i) for i in range(32, 600)], min_size=1, max_size=1), max_size=4),
    st.integers(0, 1000),
)
def test_streams_equal_whole_answers(client, prompt, stop, seed):
    body = {"prompt": prompt, "seed": seed, "temperature": 1.5, "max_tokens": 24, "stop": stop}
    whole = client.post("/v1/completions", json=body).json()["choices"][0]
    chunks = [chunk["choices"][0] for chunk in stream(client, "/v1/completions", body)]
    assert "".join(chunk["text"] for chunk in chunks) == whole["text"]
    assert chunks[-1]["finish_reason"] == whole["finish_reason"]
    assert not any(s in whole["text"] for s in stop)


def test_stop_strings(client):
    body = {"prompt": "hello", "temperature": 0, "max_tokens": 40}
    text = client.post("/v1/completions", json=body).json()["choices"][0]["text"]
    stop = text[10:12]
    choice = client.post("/v1/completions", json=body | {"stop": stop}).json()["choices"][0]
    assert (choice["text"], choice["finish_reason"]) == (text[: text.index(stop)], "stop")
    assert client.post("/v1/completions", json=body | {"stop": [stop]}).json()["choices"][0] == choice


@pytest.mark.parametrize(
    ("change", "param"),
    [
        ({"temperature": -1}, "temperature"),
        ({"temperature": "hot"}, "temperature"),
        ({"top_p": 0}, "top_p"),
        ({"top_k": -2}, "top_k"),
        ({"seed": 2**64}, "seed"),
        ({"seed": 1.5}, "seed"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": True}, "max_tokens"),
        ({"stop": list("abcde")}, "stop"),
        ({"stop": ""}, "stop"),
        ({"prompt": ""}, "prompt"),
        ({"prompt": []}, "prompt"),
        ({"prompt": [260]}, "prompt"),
        ({"prompt": [-1]}, "prompt"),
        ({"prompt": ["a", "b"]}, "prompt"),
        ({"prompt": {"a": 1}}, "prompt"),
        ({"prompt": None}, "prompt"),
        ({"stream_options": {"include_usage": True}}, "stream_options"),
        ({"n": 2}, "n"),
        ({"best_of": 3}, "best_of"),
        ({"logprobs": 0}, "logprobs"),
        ({"echo": True}, "echo"),
        ({"suffix": "x"}, "suffix"),
        ({"logit_bias": {"5": 1}}, "logit_bias"),
        ({"presence_penalty": 0.5}, "presence_penalty"),
        ({"frequency_penalty": 0.5}, "frequency_penalty"),
        ({"tools": [{"type": "function"}]}, "tools"),
        ({"response_format": {"type": "json_object"}}, "response_format"),
    ],
)
def test_bad_fields_are_named(client, change, param):
    problem(
        client.post("/v1/completions", json={"prompt": "a"} | change),
        400,
        param=param,
        type="invalid_request_error",
    )


def test_values_that_ask_for_nothing_and_unknown_fields_pass(client):
    body = {
        "prompt": "a",
        "max_tokens": 1,
        "n": 1,
        "logprobs": None,
        "logit_bias": {},
        "presence_penalty": 0.0,
        "tools": [],
        "stop": None,
        "seed": None,
        "stream": False,
        "user": "me",
        "of_the_future": {"x": [1]},
    }
    assert client.post("/v1/completions", json=body).status_code == 200


def test_bad_chats_are_named(client):
    def post(**change):
        return client.post("/v1/chat/completions", json=CHAT | change)

    problem(post(messages=[]), 400, param="messages")
    problem(post(messages="hi"), 400, param="messages")
    problem(post(messages=[{"role": "user"}]), 400, param="messages[0].content")
    image = {"type": "image_url", "image_url": {"url": "x"}}
    assert "image_url" in problem(post(messages=[{"role": "user", "content": [image]}]), 400)
    problem(post(logprobs=True), 400, param="logprobs", code="unsupported_parameter")
    problem(post(model="other"), 404, param="model", code="model_not_found")
    message = problem(post(max_tokens=127), 400, param="messages", code="context_length_exceeded")
    n_prompt = client.post("/v1/chat/completions", json=CHAT | {"max_tokens": 1}).json()["usage"][
        "prompt_tokens"
    ]
    assert f"holds 128 tokens, and {n_prompt + 127} are needed" in message


def test_context_overflow_has_true_numbers(client):
    message = problem(
        client.post("/v1/completions", json={"prompt": "a" * 120, "max_tokens": 9}),
        400,
        code="context_length_exceeded",
    )
    assert "holds 128 tokens, and 129 are needed (120 in the prompt, 9 to generate)" in message
    fits = client.post("/v1/completions", json={"prompt": "a" * 120, "max_tokens": 8})
    assert fits.json()["usage"]["total_tokens"] == 128
    # The default of 16 shrinks to what fits.
    assert (
        client.post("/v1/completions", json={"prompt": "a" * 127}).json()["usage"]["completion_tokens"] == 1
    )
    problem(client.post("/v1/completions", json={"prompt": "a" * 128}), 400, code="context_length_exceeded")


def test_what_is_no_request_gets_the_error_shape_too(client):
    problem(client.post("/v1/completions", content=b"{nonsense"), 400)
    problem(client.post("/v1/completions", content=b"[1]", headers={"content-type": "application/json"}), 400)
    problem(
        client.post("/v1/completions", content=b"\xff\xfe", headers={"content-type": "application/json"}), 400
    )
    lone = b'{"prompt": "\\ud800"}'
    problem(client.post("/v1/completions", content=lone, headers={"content-type": "application/json"}), 400)
    problem(client.get("/v1/nothing"), 404)
    problem(client.get("/v1/completions"), 405)


def test_request_ids(client):
    first, second = (client.get("/health").headers["x-request-id"] for _ in range(2))
    assert first != second
    assert client.get("/health", headers={"x-request-id": "abc-1"}).headers["x-request-id"] == "abc-1"
    assert client.get("/health", headers={"x-request-id": 'a"b {}'}).headers["x-request-id"] != 'a"b {}'


def test_a_full_queue_answers_429(braked, brake):
    client, engine = braked
    brake.go.clear()
    results = []
    threads = [
        threading.Thread(target=lambda: results.append(client.post("/v1/completions", json={"prompt": "a"})))
        for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    eventually(lambda: engine._running is not None and len(engine._waiting) == 1)
    response = client.post("/v1/completions", json={"prompt": "a"})
    problem(response, 429, type="rate_limit_error", code="queue_full")
    assert int(response.headers["retry-after"]) > 0
    brake.go.set()
    for thread in threads:
        thread.join()
    assert [r.status_code for r in results] == [200, 200]
    assert client.post("/v1/completions", json={"prompt": "a"}).status_code == 200


@pytest.mark.parametrize("streaming", [True, False])
def test_a_client_that_goes_away_frees_the_engine(braked, brake, streaming):
    client, engine = braked
    brake.go.clear()
    body = {"prompt": "a", "max_tokens": 4000, "stream": streaming}
    url = str(client.base_url) + "/v1/completions"
    if streaming:
        brake.go.set()
        with httpx.Client() as impatient, impatient.stream("POST", url, json=body) as response:
            next(response.iter_lines())
    else:
        with pytest.raises(httpx.ReadTimeout):
            httpx.post(url, json=body, timeout=httpx.Timeout(10, read=0.5))
    eventually(lambda: engine._running is None or engine._running.cancelled)
    brake.go.set()
    assert engine.wait_idle(20)
    # It was called off, not run to its end.
    assert brake.steps < 3000
    assert client.post("/v1/completions", json={"prompt": "a"}).status_code == 200


def test_a_client_that_goes_away_while_waiting_frees_its_place(braked, brake):
    client, engine = braked
    brake.go.clear()
    url = str(client.base_url) + "/v1/completions"
    first = threading.Thread(target=lambda: client.post("/v1/completions", json={"prompt": "a"}))
    first.start()
    eventually(lambda: engine._running is not None)
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(url, json={"prompt": "a"}, timeout=httpx.Timeout(10, read=0.3))
    eventually(lambda: all(handle.cancelled for handle in engine._waiting))
    engine.check_admission()
    brake.go.set()
    first.join()


def test_a_failure_on_the_way_is_an_error_and_the_server_goes_on(brake, tiny):
    calls = []

    class Failing:
        config = brake.config

        def __call__(self, *args, **kwargs):
            calls.append(1)
            if len(calls) in (3, 5):
                raise RuntimeError("a bug")
            return brake(*args, **kwargs)

    with running(lambda: (Failing(), tiny[1])) as (client, engine):
        engine.wait_loaded(20)
        with client.stream("POST", "/v1/completions", json={"prompt": "a", "stream": True}) as response:
            data = events(response)
        assert json.loads(data[-1])["error"]["code"] == "internal_error"
        problem(client.post("/v1/completions", json={"prompt": "a"}), 500, type="server_error")
        assert client.post("/v1/completions", json={"prompt": "a"}).status_code == 200


def test_requests_in_a_crowd_get_their_own_answers(client):
    prompts = [f"prompt {i} {'x' * i}" for i in range(12)]
    alone = [
        client.post("/v1/completions", json={"prompt": p, "seed": i}).json()["choices"]
        for i, p in enumerate(prompts)
    ]
    crowd: dict[int, list] = {}

    def ask(i):
        crowd[i] = client.post("/v1/completions", json={"prompt": prompts[i], "seed": i}).json()["choices"]

    threads = [threading.Thread(target=ask, args=(i,)) for i in range(len(prompts))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [crowd[i] for i in range(len(prompts))] == alone
