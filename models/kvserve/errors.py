"""What kvserve raises: each message says which value, which limit, and what to do."""

from __future__ import annotations


class KvserveError(Exception):
    """Base of every error that a person, and not a programmer, can mend."""


class ConfigError(KvserveError):
    """A model configuration or a server setting is invalid."""


class CheckpointError(KvserveError):
    """A checkpoint cannot be read, or is not what its configuration says."""


class CacheError(KvserveError):
    """A KV cache was asked to hold what it cannot."""


class RequestError(KvserveError):
    """A request is invalid; the HTTP answer is 400 unless a subclass says otherwise.

    ``param`` names the field at fault and ``code`` is the machine-readable reason, as in OpenAI's error
    object.
    """

    status = 400
    type = "invalid_request_error"

    def __init__(self, message: str, *, param: str | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.param = param
        self.code = code


class UnknownModelError(RequestError):
    """The request names a model that is not served here."""

    status = 404


class AuthenticationError(RequestError):
    """No key, or not one of ours."""

    status = 401
    type = "authentication_error"


class QueueFullError(RequestError):
    """The queue is at its bound; ``retry_after`` is the advice in whole seconds."""

    status = 429
    type = "rate_limit_error"
    retry_after = 1


class UnavailableError(RequestError):
    """The engine is loading, draining, or stopped."""

    status = 503
    type = "service_unavailable_error"
    retry_after = 5


class EngineError(RequestError):
    """Generation failed for a reason that is not the client's."""

    status = 500
    type = "server_error"
