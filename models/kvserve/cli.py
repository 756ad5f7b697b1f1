"""The ``kvserve`` command."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from kvserve import __version__
from kvserve.errors import KvserveError

# Torch and FastAPI take seconds to import: each command imports what it needs, so --help does not wait for
# them.


def _serve(args: argparse.Namespace) -> int:
    from kvserve.settings import load_settings

    names = (
        "checkpoint",
        "model_name",
        "host",
        "port",
        "api_keys_file",
        "max_seq_len",
        "queue_size",
        "threads",
        "drain_timeout",
    )
    settings = load_settings(args.config, {name: getattr(args, name) for name in names})
    if args.check_config:
        settings.check_files()
        print(json.dumps(settings.as_dict(), indent=2))
        return 0
    _let_idle_threads_sleep()
    from kvserve.serve import serve

    return serve(settings)


def _let_idle_threads_sleep() -> None:
    """Tell OpenMP, before torch loads it, not to spin while it waits.

    Spinning threads fight the HTTP thread, and anything else on the node, for the cores: with one busy
    neighbour on two cores a decode step was measured ten times as slow.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")


def _generate(args: argparse.Namespace) -> int:
    _let_idle_threads_sleep()
    from kvserve.cache import KVCache
    from kvserve.generate import GenerationRequest, generate
    from kvserve.loading import load_checkpoint
    from kvserve.sampling import SamplingParams

    sampling = SamplingParams(args.temperature, args.top_k, args.top_p, args.seed)
    model, tokenizer = load_checkpoint(args.checkpoint)
    if args.chat is not None:
        prompt = tokenizer.render_chat([{"role": "user", "content": args.chat}])
        ids = tokenizer.encode(prompt, add_bos=False)
    else:
        ids = tokenizer.encode(args.prompt)
    request = GenerationRequest(tuple(ids), args.max_tokens, tuple(args.stop), sampling)
    cache = KVCache(model.config, max_seq_len=args.max_seq_len)
    for piece in generate(model, tokenizer, request, cache):
        print(piece.text, end="", flush=True)
    print()
    return 0


def _info(args: argparse.Namespace) -> int:
    from kvserve.gguf import GGUFFile

    config = GGUFFile(args.checkpoint).config()
    per_token = config.kv_bytes_per_token()
    facts = {
        "checkpoint": args.checkpoint,
        "file_bytes": Path(args.checkpoint).stat().st_size,
        **{name: getattr(config, name) for name in config.__dataclass_fields__ if name != "eos_ids"},
        "eos_ids": sorted(config.eos_ids),
        "parameters": config.n_params,
        "weight_bytes_fp32": 4 * config.n_params,
        "kv_bytes_per_token_fp32": per_token,
        "kv_bytes_full_context_fp32": per_token * config.max_seq_len,
    }
    if args.json:
        print(json.dumps(facts, indent=2))
    else:
        width = max(map(len, facts))
        for name, value in facts.items():
            print(f"{name:<{width}}  {value:,}" if type(value) is int else f"{name:<{width}}  {value}")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="kvserve", description="Transformer inference with an OpenAI-compatible API."
    )
    parser.add_argument("--version", action="version", version=f"kvserve {__version__}")
    commands = parser.add_subparsers(dest="command", required=True)

    serve = commands.add_parser("serve", help="serve a checkpoint over HTTP")
    serve.add_argument("--config", metavar="FILE", help="settings in TOML; the flags below win over it")
    serve.add_argument("--checkpoint", metavar="FILE", help="GGUF file")
    serve.add_argument(
        "--model-name", metavar="NAME", help="name that clients ask for (default: the file's stem)"
    )
    serve.add_argument("--host", metavar="ADDRESS", help="address to listen on (default: 127.0.0.1)")
    serve.add_argument("--port", type=int, help="port to listen on (default: 8000)")
    serve.add_argument("--api-keys-file", metavar="FILE", help="bearer keys, one `name:key` or `key` a line")
    serve.add_argument("--max-seq-len", type=int, metavar="N", help="longest context (default: the model's)")
    serve.add_argument("--queue-size", type=int, metavar="N", help="requests that may wait (default: 64)")
    serve.add_argument(
        "--threads", type=int, metavar="N", help="threads that compute (default: PyTorch's choice)"
    )
    serve.add_argument(
        "--drain-timeout",
        type=float,
        metavar="SECONDS",
        help="what running requests get after SIGTERM (default: 30)",
    )
    serve.add_argument("--check-config", action="store_true", help="check the settings, print them, and exit")
    serve.set_defaults(run=_serve)

    generate = commands.add_parser("generate", help="continue a prompt or answer a message")
    generate.add_argument("--checkpoint", metavar="FILE", required=True, help="GGUF file")
    source = generate.add_mutually_exclusive_group(required=True)
    source.add_argument("--prompt", metavar="TEXT", help="text to continue")
    source.add_argument("--chat", metavar="TEXT", help="message to answer, through the chat template")
    generate.add_argument("--max-tokens", type=int, default=128, metavar="N", help="default: 128")
    generate.add_argument(
        "--temperature", type=float, default=0.0, metavar="T", help="0, the default, is greedy"
    )
    generate.add_argument("--top-k", type=int, default=0, metavar="K", help="0, the default, is off")
    generate.add_argument("--top-p", type=float, default=1.0, metavar="P", help="1, the default, is off")
    generate.add_argument("--seed", type=int, metavar="N", help="repeatable sampling")
    generate.add_argument(
        "--stop", action="append", default=[], metavar="TEXT", help="stop before it; repeatable"
    )
    generate.add_argument(
        "--max-seq-len", type=int, metavar="N", help="longest context (default: the model's)"
    )
    generate.set_defaults(run=_generate)

    info = commands.add_parser("info", help="what a checkpoint holds and what it needs")
    info.add_argument("--checkpoint", metavar="FILE", required=True, help="GGUF file")
    info.add_argument("--json", action="store_true", help="as JSON")
    info.set_defaults(run=_info)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status, 2 for what the user can mend."""
    args = _parser().parse_args(argv)
    try:
        status: int = args.run(args)
    except KvserveError as error:
        print(f"kvserve: error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    return status
