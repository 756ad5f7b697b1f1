"""kvserve: a small transformer stack and an OpenAI-compatible inference server."""

__version__ = "0.1.0"
