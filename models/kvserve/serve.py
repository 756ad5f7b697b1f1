"""The life of a server process: load, serve, drain, exit."""

from __future__ import annotations

import logging
import signal
import threading
from types import FrameType

import torch
import uvicorn

from kvserve.decoder import Decoder
from kvserve.engine import Engine, EngineState
from kvserve.errors import KvserveError
from kvserve.gate import read_api_keys
from kvserve.loading import load_checkpoint
from kvserve.logs import configure_logging
from kvserve.server import create_app
from kvserve.settings import Settings
from kvserve.tokenizer import Tokenizer

log = logging.getLogger("kvserve.serve")

# How long answers that are complete may take to reach their clients after draining.
_FLUSH_SECONDS = 5


class DrainingServer(uvicorn.Server):
    """A uvicorn server that, on the first SIGTERM or SIGINT, goes on answering until the engine has drained.

    uvicorn itself stops listening at once, so a load balancer would see refused connections instead of 503,
    and raises the signal again at the end, so the exit status would not be 0.
    """

    def __init__(self, config: uvicorn.Config, engine: Engine, drain_timeout: float) -> None:
        super().__init__(config)
        self._engine = engine
        self._drain_timeout = drain_timeout
        self._drainer: threading.Thread | None = None

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Start draining; at a second signal stop at once."""
        if self._drainer is not None:
            self.should_exit = self.force_exit = True
            return
        self._drainer = threading.Thread(
            target=self._drain, args=(signal.Signals(sig).name,), name="kvserve-drain", daemon=True
        )
        self._drainer.start()

    def _drain(self, reason: str) -> None:
        log.info("draining", extra={"signal": reason, "timeout": self._drain_timeout})
        self._engine.drain()
        if not self._engine.wait_idle(self._drain_timeout):
            log.warning("drain timeout: running requests are cut off")
            self._engine.stop()
        self.should_exit = True


def serve(settings: Settings) -> int:
    """Serve until told to stop; returns the exit status.

    Raises ``KvserveError`` for settings or a checkpoint that cannot be used.
    """
    configure_logging()
    settings.check_files()
    api_keys = read_api_keys(settings.api_keys_file) if settings.api_keys_file else None
    if api_keys is None:
        log.warning("no api_keys_file: anyone who can connect may ask")

    def load() -> tuple[Decoder, Tokenizer]:
        # PyTorch counts threads per calling thread, so this belongs in the engine's.
        if settings.threads is not None:
            torch.set_num_threads(settings.threads)
        return load_checkpoint(settings.checkpoint)

    engine = Engine(load, max_seq_len=settings.max_seq_len, queue_size=settings.queue_size)
    app = create_app(engine, model_name=settings.model_name, api_keys=api_keys)
    config = uvicorn.Config(
        app,
        host=settings.host,
        port=settings.port,
        log_config=None,
        access_log=False,
        timeout_graceful_shutdown=_FLUSH_SECONDS,
    )
    server = DrainingServer(config, engine, settings.drain_timeout)

    def stop_on_failure() -> None:
        if engine.wait_loaded() is EngineState.FAILED:
            server.should_exit = True

    engine.start()
    threading.Thread(target=stop_on_failure, name="kvserve-watch", daemon=True).start()
    try:
        server.run()
    finally:
        engine.stop()
    if isinstance(engine.failure, KvserveError):
        raise engine.failure
    return 1 if engine.failure is not None else 0
