"""One thread that owns the model, and a bounded queue before it."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from enum import Enum

from kvserve.cache import KVCache
from kvserve.config import ModelConfig
from kvserve.decoder import Decoder
from kvserve.errors import EngineError, KvserveError, QueueFullError, RequestError, UnavailableError
from kvserve.generate import GenerationRequest, Piece, check_fits, generate
from kvserve.tokenizer import Tokenizer

log = logging.getLogger("kvserve.engine")


class EngineState(Enum):
    """Where an engine is in its life; only a ``READY`` one takes requests."""

    LOADING = "loading"
    READY = "ready"
    DRAINING = "draining"
    STOPPED = "stopped"
    FAILED = "failed"


class Handle:
    """One submitted request: iterate over it, with ``for`` or ``async for``, to get its pieces; once.

    Iteration ends after the last piece, or at once after :meth:`cancel`; it raises ``RequestError`` when the
    answer could not be finished.
    """

    def __init__(self, request: GenerationRequest) -> None:
        self.request = request
        self._given_up = threading.Event()
        self._changed = threading.Condition()
        self._items: deque[Piece | RequestError | None] = deque()
        self._wake: Callable[[], None] = lambda: None

    @property
    def cancelled(self) -> bool:
        """Whether nobody waits for the answer any more."""
        return self._given_up.is_set()

    def cancel(self) -> None:
        """Give the request up; the engine stops within one step. Harmless at any moment."""
        self._give_up(None)

    def fail(self, error: RequestError) -> None:
        """For the engine: give the request up and raise ``error`` in its reader."""
        self._give_up(error)

    def put(self, item: Piece | RequestError | None) -> None:
        """For the engine: hand over a piece, an error, or None for the end."""
        with self._changed:
            if not self.cancelled:
                self._items.append(item)
                self._notify()

    def _give_up(self, last: RequestError | None) -> None:
        with self._changed:
            if not self.cancelled:
                self._given_up.set()
                self._items.clear()
                self._items.append(last)
                self._notify()

    def _notify(self) -> None:
        self._changed.notify_all()
        self._wake()

    def __iter__(self) -> Iterator[Piece]:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._items)
                item = self._items.popleft()
            if isinstance(item, RequestError):
                raise item
            if item is None:
                return
            yield item

    async def __aiter__(self) -> AsyncIterator[Piece]:
        loop, ready = asyncio.get_running_loop(), asyncio.Event()

        def wake() -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(ready.set)

        with self._changed:
            self._wake = wake
        while True:
            with self._changed:
                items = tuple(self._items)
                self._items.clear()
                ready.clear()
            for item in items:
                if isinstance(item, RequestError):
                    raise item
                if item is None:
                    return
                yield item
            if not items:
                await ready.wait()


class Engine:
    """Loads a model in a thread of its own and answers requests there, one at a time, in order of arrival.

    ``load`` runs in that thread, so the state is ``LOADING`` until it returns. ``max_seq_len`` None means the
    model's; ``queue_size`` requests may wait besides the one that runs.
    """

    def __init__(
        self,
        load: Callable[[], tuple[Decoder, Tokenizer]],
        *,
        max_seq_len: int | None = None,
        queue_size: int = 64,
    ) -> None:
        self._load = load
        self._max_seq_len = max_seq_len
        self._queue_size = queue_size
        self._changed = threading.Condition()
        self._state = EngineState.LOADING
        self._waiting: deque[Handle] = deque()
        self._running: Handle | None = None
        self._tokenizer: Tokenizer | None = None
        self._config: ModelConfig | None = None
        self.failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="kvserve-engine")

    def start(self) -> None:
        """Start loading; returns at once."""
        self._thread.start()

    @property
    def state(self) -> EngineState:
        """The state now."""
        return self._state

    @property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer; raises ``UnavailableError`` before it is loaded."""
        if self._tokenizer is None:
            raise self._unavailable()
        return self._tokenizer

    @property
    def max_seq_len(self) -> int:
        """Positions that one request may fill; raises ``UnavailableError`` before the model is loaded."""
        if self._config is None:
            raise self._unavailable()
        return self._max_seq_len or self._config.max_seq_len

    def check_admission(self) -> None:
        """Raise what :meth:`submit` would raise now for any request: ask this before tokenising."""
        with self._changed:
            if self._state is not EngineState.READY:
                raise self._unavailable()
            waiting = sum(not handle.cancelled for handle in self._waiting) + (self._running is not None)
            if waiting > self._queue_size:
                raise QueueFullError(
                    f"{self._queue_size} requests are waiting already; try again later", code="queue_full"
                )

    def submit(self, request: GenerationRequest) -> Handle:
        """Queue ``request``.

        Raises ``RequestError`` when it can never run, ``QueueFullError`` when too many wait,
        ``UnavailableError`` unless the engine is ready.
        """
        self.check_admission()
        check_fits(request, self.max_seq_len, self._config.vocab_size if self._config else 0)
        handle = Handle(request)
        with self._changed:
            self.check_admission()
            self._waiting.append(handle)
            self._changed.notify_all()
        return handle

    def drain(self) -> None:
        """Refuse new requests from now on; those accepted go on. Safe in a signal handler's thread."""
        with self._changed:
            if self._state in (EngineState.LOADING, EngineState.READY):
                self._state = EngineState.DRAINING
            self._changed.notify_all()

    def wait_idle(self, timeout: float) -> bool:
        """Wait up to ``timeout`` seconds until nothing runs or waits; returns whether that came."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._waiting and self._running is None, timeout)

    def wait_loaded(self, timeout: float | None = None) -> EngineState:
        """Wait until the state is no longer ``LOADING``, or ``timeout`` seconds; returns the state."""
        with self._changed:
            self._changed.wait_for(lambda: self._state is not EngineState.LOADING, timeout)
            return self._state

    def stop(self) -> None:
        """Cancel what is left, end the thread, and wait for it."""
        with self._changed:
            left = [*self._waiting, *([self._running] if self._running else [])]
            self._waiting.clear()
            if self._state is not EngineState.FAILED:
                self._state = EngineState.STOPPED
            self._changed.notify_all()
        for handle in left:
            handle.fail(self._unavailable())
        if self._thread.is_alive() and threading.current_thread() is not self._thread:
            self._thread.join()

    def _unavailable(self) -> UnavailableError:
        reason = {
            EngineState.LOADING: "the model is still loading; try again later",
            EngineState.FAILED: "the model could not be loaded; see the server's log",
        }.get(self._state, "the server is shutting down; ask another one")
        return UnavailableError(reason, code=self._state.value)

    def _run(self) -> None:
        started = time.monotonic()
        try:
            model, tokenizer = self._load()
            cache = KVCache(model.config, max_seq_len=self._max_seq_len)
        except Exception as error:  # whatever it was, the server must learn that there is no model
            self.failure = error
            if not isinstance(error, KvserveError):
                log.exception("loading failed")
            with self._changed:
                self._state = EngineState.FAILED
                self._changed.notify_all()
            return
        with self._changed:
            self._config, self._tokenizer = model.config, tokenizer
            if self._state is EngineState.LOADING:
                self._state = EngineState.READY
            self._changed.notify_all()
        log.info("model loaded", extra={"seconds": round(time.monotonic() - started, 2)})
        while (handle := self._next()) is not None:
            self._answer(handle, model, tokenizer, cache)

    def _next(self) -> Handle | None:
        with self._changed:
            self._running = None
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._waiting or self._state is EngineState.STOPPED)
            if self._state is EngineState.STOPPED:
                return None
            self._running = self._waiting.popleft()
            return self._running

    @staticmethod
    def _answer(handle: Handle, model: Decoder, tokenizer: Tokenizer, cache: KVCache) -> None:
        cache.truncate(0)
        try:
            for piece in generate(
                model, tokenizer, handle.request, cache, cancelled=lambda: handle.cancelled
            ):
                handle.put(piece)
            handle.put(None)
        except RequestError as error:
            handle.put(error)
        except Exception:  # one bad request must not take the engine down
            log.exception("generation failed")
            handle.put(EngineError("generation failed; see the server's log", code="internal_error"))
