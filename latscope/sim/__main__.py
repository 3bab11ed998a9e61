"""`python -m latscope.sim [--port N] [FILE ...]`: serves scenarios on the loopback interface.

The first line on stdout is `{"ready": "http://127.0.0.1:PORT"}`. With --stdin the scenarios come
as one JSON line, and the server stops when standard input ends: it never outlives its parent.
"""

import argparse
import json
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path

from latscope.documents import scenarios
from latscope.documents.scenarios import Scenario
from latscope.errors import LatscopeError
from latscope.sim.server import serve


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m latscope.sim", description=__doc__)
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE", help="scenario TOML files")
    parser.add_argument("--host", default="127.0.0.1", help="a loopback address")
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument(
        "--stdin", action="store_true", help="scenarios as a JSON line; stop at EOF"
    )
    given = parser.parse_args(arguments)
    try:
        chosen = _from_stdin() if given.stdin else _from_files(given.files)
        stopper = _stop_at_eof if given.stdin else None
        serve(given.host, given.port, chosen, _say_ready, stopper)
    except LatscopeError as error:
        print(f"latscope: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return 130
    return 0


def _from_files(paths: list[Path]) -> list[Scenario]:
    return [scenarios.read(path) for path in paths] or list(scenarios.shipped().values())


def _from_stdin() -> list[Scenario]:
    given = json.loads(sys.stdin.readline())
    return [scenarios.from_mapping(plain, "standard input") for plain in given]


def _stop_at_eof(stop: Callable[[], None]) -> None:
    def wait() -> None:
        while os.read(sys.stdin.fileno(), 4096):  # unbuffered: no lock is held at shutdown
            pass
        stop()

    threading.Thread(target=wait, daemon=True, name="stop at end of input").start()


def _say_ready(url: str) -> None:
    print(json.dumps({"ready": url}), flush=True)


if __name__ == "__main__":
    sys.exit(main())
