"""Logs as JSON lines."""

from __future__ import annotations

import datetime
import json
import logging
import sys

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "color_message", "taskName"}


class JSONFormatter(logging.Formatter):
    """One object a line: time (UTC), level, logger, message, and whatever was passed as ``extra``."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as one line of JSON."""
        when = datetime.datetime.fromtimestamp(record.created, datetime.timezone.utc)
        entry = {
            "time": when.isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        entry |= {name: value for name, value in vars(record).items() if name not in _STANDARD}
        if record.exc_info:
            entry["traceback"] = self.formatException(record.exc_info)
        return json.dumps(entry, ensure_ascii=False, default=str)


def configure_logging() -> None:
    """Send everything from INFO up to stderr as JSON lines."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JSONFormatter())
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
