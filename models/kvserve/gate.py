"""What every HTTP request passes: a request id, the key check, a log line, and an answer even to the
unforeseen.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import re
import time
import uuid
from collections.abc import Mapping
from pathlib import Path

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from kvserve.errors import AuthenticationError, ConfigError, EngineError, RequestError
from kvserve.protocol import error_body

log = logging.getLogger("kvserve.http")

OPEN_PATHS = frozenset({"/health"})
_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,128}")


def read_api_keys(path: str | Path) -> dict[str, str]:
    """Keys by name from a file with one ``name:key`` or ``key`` a line; empty lines and ``#`` comments are
    skipped.

    Raises ``ConfigError`` when the file cannot be read, holds no key, or a key twice. Keys never appear in a
    message.
    """
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"api_keys_file {path} cannot be read: {error}") from error
    keys: dict[str, str] = {}
    for number, raw in enumerate(lines, start=1):
        line = raw.strip()
        if not line or line.startswith("#"):
            continue
        name, colon, key = line.partition(":")
        name, key = (name.strip(), key.strip()) if colon else (f"key{number}", line)
        if not name or not key:
            raise ConfigError(f"api_keys_file {path} line {number} is not `name:key` or `key`")
        if name in keys or key in keys.values():
            raise ConfigError(f"api_keys_file {path} line {number} repeats an earlier name or key")
        keys[name] = key
    if not keys:
        raise ConfigError(
            f"api_keys_file {path} holds no key; add a line, or leave the setting out to serve anyone"
        )
    return keys


class KeyRing:
    """Bearer keys, compared without the time taken telling anything about them."""

    def __init__(self, keys: Mapping[str, str]) -> None:
        self._digests = {name: self._digest(key) for name, key in keys.items()}

    @staticmethod
    def _digest(key: str) -> bytes:
        return hashlib.sha256(key.encode("utf-8", "surrogateescape")).digest()

    def name_of(self, authorization: str | None) -> str:
        """The name of the key in an ``Authorization`` header; raises ``AuthenticationError`` for anything
        else.
        """
        scheme, _, key = (authorization or "").partition(" ")
        if scheme.lower() != "bearer" or not key.strip():
            raise AuthenticationError(
                "no API key; send the header `Authorization: Bearer <key>`", code="missing_api_key"
            )
        digest = self._digest(key.strip())
        # Every key is compared, whether or not one has matched already.
        matches = [name for name, known in self._digests.items() if hmac.compare_digest(known, digest)]
        if not matches:
            raise AuthenticationError("the API key is not valid here", code="invalid_api_key")
        return matches[0]


def error_response(error: RequestError) -> JSONResponse:
    """The HTTP answer for an error, with the headers that its status asks for."""
    headers = {}
    if isinstance(error, AuthenticationError):
        headers["www-authenticate"] = "Bearer"
    if (retry_after := getattr(error, "retry_after", None)) is not None:
        headers["retry-after"] = str(retry_after)
    return JSONResponse(error_body(error), status_code=error.status, headers=headers)


class Gate:
    """ASGI middleware around the whole app."""

    def __init__(self, app: ASGIApp, *, keys: KeyRing | None) -> None:
        self._app = app
        self._keys = keys

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        given = headers.get("x-request-id", "")
        request_id = given if _REQUEST_ID.fullmatch(given) else uuid.uuid4().hex
        scope.setdefault("state", {})["request_id"] = request_id
        started, status, key_name = time.monotonic(), 0, None

        async def send_with_id(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(scope=message)["x-request-id"] = request_id
            await send(message)

        try:
            if self._keys is not None and scope["path"] not in OPEN_PATHS:
                key_name = self._keys.name_of(headers.get("authorization"))
            await self._app(scope, receive, send_with_id)
        except AuthenticationError as error:
            await error_response(error)(scope, receive, send_with_id)
        except Exception:  # the client is owed an answer, and the log the reason
            log.exception("unexpected error", extra={"request_id": request_id})
            if status == 0:
                failure = EngineError("unexpected error; see the server's log", code="internal_error")
                await error_response(failure)(scope, receive, send_with_id)
        finally:
            # Health checks come every few seconds and would bury the rest.
            log.log(
                logging.DEBUG if scope["path"] in OPEN_PATHS else logging.INFO,
                "request",
                extra={
                    "request_id": request_id,
                    "method": scope["method"],
                    "path": scope["path"],
                    "status": status,
                    "seconds": round(time.monotonic() - started, 4),
                    "key": key_name,
                },
            )
