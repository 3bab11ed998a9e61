"""Writes latscope/capture/httpx.py from httpx2.py, or checks that it is what would be written.

python tests/capture/twin.py --write | --check
"""

import re
import sys
from pathlib import Path

CAPTURE = Path(__file__).parents[2] / "latscope" / "capture"
SOURCE, TWIN = CAPTURE / "httpx2.py", CAPTURE / "httpx.py"
NOTE = """
`latscope/capture/httpx.py` is this file with the library's name replaced: edit this one, then run
`python tests/capture/twin.py --write`.
"""
TWIN_NOTE = """
Generated from `latscope/capture/httpx2.py` by `tests/capture/twin.py --write`: edit that one.
"""


def twin_of(source: str) -> str:
    """The source for httpx, given the one for httpx2."""
    head, note, rest = source.partition(NOTE)
    if not note:
        raise ValueError("the note on the twin is gone from the source's docstring")

    def renamed(text: str) -> str:
        return re.sub(r"\bhttpx2\b", "httpx", text)

    return renamed(head) + TWIN_NOTE + renamed(rest)


def main(arguments: list[str]) -> int:
    wanted = twin_of(SOURCE.read_text(encoding="utf-8"))
    if arguments == ["--write"]:
        TWIN.write_text(wanted, encoding="utf-8")
        return 0
    if arguments != ["--check"]:
        print(__doc__, file=sys.stderr)
        return 2
    if TWIN.exists() and TWIN.read_text(encoding="utf-8") == wanted:
        return 0
    print(f"{TWIN} is not what twin.py would write; run it with --write", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
