"""Record the hops' signatures as fixtures.

    python -m tests.lab.record [--out fixtures/recordings] [CASE ...]

One file a case of cases.py, `hop-PROXY-CONFIG-stream.jsonl`: a masked recording as a sink would be
given it, with the truth in it.
"""

import argparse
import tempfile
from pathlib import Path

from latscope.recording import to_line
from tests.lab import hops, leftovers
from tests.lab.cases import CASES, make_call

OUT = hops.ROOT / "fixtures" / "recordings"


def main() -> None:
    """Record the cases named, or all that are kept."""
    parser = argparse.ArgumentParser(prog="python -m tests.lab.record")
    parser.add_argument("case", nargs="*", help=", ".join(CASES))
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    leftovers.sweep()
    with tempfile.TemporaryDirectory() as folder:
        certificate = hops.certificate(Path(folder))
        for name in options.case or [name for name in CASES if CASES[name].kept]:
            told = make_call(name, certificate)
            file = options.out / f"hop-{name}-stream.jsonl"
            file.write_text(to_line(told.recording) + "\n", encoding="utf-8")
            print(file, flush=True)


if __name__ == "__main__":
    main()
