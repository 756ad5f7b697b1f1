"""``python -m kvserve``."""

from kvserve.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
