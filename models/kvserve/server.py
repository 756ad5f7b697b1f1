"""The OpenAI-compatible HTTP app."""

from __future__ import annotations

import asyncio
import contextlib
import time
import uuid
from collections.abc import AsyncIterator, Mapping

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response, StreamingResponse
from starlette.exceptions import HTTPException

from kvserve import __version__
from kvserve.engine import Engine, EngineState, Handle
from kvserve.errors import RequestError, UnknownModelError
from kvserve.gate import Gate, KeyRing, error_response
from kvserve.generate import GenerationRequest
from kvserve.protocol import (
    JSON,
    ChatRequest,
    ChatShape,
    CompletionRequest,
    CompletionShape,
    GenerationFields,
    error_body,
    sse,
    usage_body,
)

DEFAULT_COMPLETION_TOKENS = 16


def create_app(engine: Engine, *, model_name: str, api_keys: Mapping[str, str] | None = None) -> FastAPI:
    """The app over ``engine``, which may still be loading. ``api_keys`` (name to key) None lets anyone in."""
    app = FastAPI(title="kvserve", version=__version__)
    app.add_middleware(Gate, keys=KeyRing(api_keys) if api_keys is not None else None)
    created = int(time.time())
    model = {"id": model_name, "object": "model", "created": created, "owned_by": "kvserve"}

    def check_model(name: str | None) -> None:
        if name is not None and name != model_name:
            raise UnknownModelError(
                f"the model {name!r} does not exist; this server has {model_name!r}",
                param="model",
                code="model_not_found",
            )

    @app.exception_handler(RequestError)
    async def on_request_error(_: Request, error: RequestError) -> Response:
        return error_response(error)

    @app.exception_handler(RequestValidationError)
    async def on_invalid_body(_: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        field = next((str(part) for part in first["loc"][1:2] if isinstance(part, str)), None)
        where = ".".join(str(part) for part in first["loc"][1:]) or "body"
        return error_response(RequestError(f"{where}: {first['msg']}", param=field))

    @app.exception_handler(HTTPException)
    async def on_http_error(request: Request, error: HTTPException) -> Response:
        body = error_body(RequestError(f"{request.method} {request.url.path}: {error.detail}"))
        return JSONResponse(body, status_code=error.status_code, headers=error.headers)

    @app.get("/health")
    async def health() -> Response:
        """200 when requests are taken, 503 while loading and while draining."""
        state = engine.state
        if state is EngineState.READY:
            return JSONResponse({"status": "ok", "model": model_name})
        problem = RequestError(f"the server is {state.value}", code=state.value)
        problem.type = "service_unavailable_error"
        return JSONResponse(
            {"status": state.value, "model": model_name, **error_body(problem)}, status_code=503
        )

    @app.get("/v1/models")
    async def models() -> JSON:
        """The one model that is served."""
        return {"object": "list", "data": [model]}

    @app.get("/v1/models/{name:path}")
    async def one_model(name: str) -> JSON:
        """The model of that name."""
        check_model(name)
        return model

    @app.post("/v1/completions")
    async def completions(body: CompletionRequest, request: Request) -> Response:
        """Continue a prompt."""
        check_model(body.model)
        body.check_supported()
        engine.check_admission()
        prompt = body.single_prompt()
        ids = await asyncio.to_thread(engine.tokenizer.encode, prompt) if isinstance(prompt, str) else prompt
        max_tokens = body.max_tokens
        if max_tokens is None:
            max_tokens = max(1, min(DEFAULT_COMPLETION_TOKENS, engine.max_seq_len - len(ids)))
        return await respond(CompletionShape(), body, ids, max_tokens, request)

    @app.post("/v1/chat/completions")
    async def chat_completions(body: ChatRequest, request: Request) -> Response:
        """Answer the last message of a chat."""
        check_model(body.model)
        body.check_supported()
        engine.check_admission()
        tokenizer, messages = engine.tokenizer, body.plain_messages()
        # The template writes the opening token itself where the model wants one.
        ids = await asyncio.to_thread(
            lambda: tokenizer.encode(tokenizer.render_chat(messages), add_bos=False)
        )
        max_tokens = body.max_tokens if body.max_completion_tokens is None else body.max_completion_tokens
        try:
            return await respond(ChatShape(), body, ids, max_tokens, request)
        except RequestError as error:
            if error.param == "prompt":
                error.param = "messages"
            raise

    async def respond(
        shape: CompletionShape,
        body: GenerationFields,
        ids: list[int],
        max_tokens: int | None,
        request: Request,
    ) -> Response:
        handle = engine.submit(
            GenerationRequest(tuple(ids), max_tokens=max_tokens, stop=body.stops(), sampling=body.sampling())
        )
        head = {"id": f"{shape.prefix}-{uuid.uuid4().hex}", "created": int(time.time()), "model": model_name}
        if body.stream:
            events = stream(shape, handle, head | {"object": shape.chunk_object}, body.wants_usage, request)
            return StreamingResponse(
                events,
                media_type="text/event-stream",
                # nginx would otherwise gather the stream before passing it on.
                headers={"cache-control": "no-cache", "x-accel-buffering": "no"},
            )
        return await whole(shape, handle, head | {"object": shape.object}, request)

    return app


async def whole(shape: CompletionShape, handle: Handle, head: JSON, request: Request) -> Response:
    """The answer in one piece."""
    text, n_tokens, reason = [], 0, None
    async with cancelled_on_disconnect(handle, request):
        async for piece in handle:
            text.append(piece.text)
            n_tokens, reason = piece.n_tokens, piece.finish_reason
    if reason is None:
        return Response(status_code=499)  # the client has gone; nobody reads this
    usage = usage_body(len(handle.request.prompt_ids), n_tokens)
    return JSONResponse(head | {"choices": [shape.whole("".join(text), reason)], "usage": usage})


async def stream(
    shape: CompletionShape, handle: Handle, head: JSON, with_usage: bool, request: Request
) -> AsyncIterator[str]:
    """The answer as server-sent events, ended by ``[DONE]``; a failure on the way is an event with an
    ``error``.
    """

    def chunk(*choices: JSON, usage: JSON | None = None) -> str:
        body = head | {"choices": list(choices)}
        return sse(body | {"usage": usage} if with_usage else body)

    n_tokens = 0
    async with cancelled_on_disconnect(handle, request):
        for choice in shape.opening():
            yield chunk(choice)
        try:
            async for piece in handle:
                n_tokens = piece.n_tokens
                if piece.text:
                    yield chunk(shape.text(piece.text))
                if piece.finish_reason is not None:
                    yield chunk(shape.closing(piece.finish_reason))
        except RequestError as error:
            yield sse(error_body(error))
            return
        if handle.cancelled:
            return
        if with_usage:
            yield chunk(usage=usage_body(len(handle.request.prompt_ids), n_tokens))
        yield sse("[DONE]")


@contextlib.asynccontextmanager
async def cancelled_on_disconnect(handle: Handle, request: Request) -> AsyncIterator[None]:
    """Cancel ``handle`` when the client goes away, and on leaving the block for whatever reason."""

    async def watch() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass
        handle.cancel()

    watcher = asyncio.create_task(watch())
    try:
        yield
    finally:
        watcher.cancel()
        handle.cancel()
