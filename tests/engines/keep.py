"""Turn raw captures (record.py) into the recordings the unit tests run on.

    python -m tests.engines.keep FOLDER [--out fixtures/recordings]

One file a capture, one line a file. The bodies are kept whole: the models have random weights, so
they say nothing; the requests are reduced to their skeletons, and of the headers those stay that
every recording keeps.
"""

import argparse
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from latscope.protocols.mask.head import mask_headers
from latscope.protocols.mask.request import skeleton
from latscope.recording import (
    Attempt,
    Clock,
    Connection,
    Mark,
    Read,
    Recording,
    Target,
    to_line,
)
from tests.engines.install import LLAMA, VLLM

PORTS = {"vllm": 8000, "llama": 8080}
VERSIONS = {"vllm": VLLM, "llama": LLAMA}


def attempt_of(capture: dict[str, Any], port: int) -> Attempt:
    stamps, body, reads = capture["stamps"], b"", []
    for asked, got, text in capture["reads"]:
        data = text.encode("latin-1")
        body += data
        reads.append(Read(asked, got, len(data), len(body)))
    end = reads[-1].got_ns if reads else stamps["headers"]
    marks = (
        Mark("entry", 0),
        Mark("connect.started", 0),
        Mark("connect.complete", stamps["connected"]),
        Mark("request.started", stamps["connected"]),
        Mark("request.headers", stamps["connected"]),  # head and body leave in one write
        Mark("request.sent", stamps["sent"]),
        Mark("headers", stamps["headers"]),
        Mark("body.end", end),
    )
    headers = [(name.lower(), value) for name, value in capture["headers"]]
    return Attempt(
        marks=marks,
        connection=Connection(
            id=1, reused=False, http="HTTP/1.1", tls=False, peer=f"127.0.0.1:{port}"
        ),
        status=capture["status"],
        headers=mask_headers(tuple(headers), ()),
        reads=tuple(reads),
        body=body,
    )


def recording_of(capture: dict[str, Any], name: str) -> Recording:
    engine, request = name.split("-")[0], capture["request"]
    port = PORTS[engine]
    attempt = attempt_of(capture, port)
    return Recording(
        call_id=f"{name}-{capture['captured_at'][:10]}",
        started_at=capture["captured_at"],
        target=Target(scheme="http", host="127.0.0.1", port=port, path=request["path"]),
        marks=(Mark("entry", 0), Mark("end", attempt.mark("body.end") or 0)),
        attempts=(attempt,),
        sdk="socket",
        tags={"engine": engine, "version": VERSIONS[engine], "case": name.partition("-")[2]},
        request=skeleton(request.get("body") or {}),
        request_bytes=len(json.dumps(request.get("body") or {})),
        in_flight=0,
        clock=Clock(name="perf_counter", zero_ns=0),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--out", type=Path, default=Path("fixtures/recordings"))
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    for path in sorted(options.folder.glob("*.json")):
        recording = recording_of(json.loads(path.read_text()), path.stem)
        (options.out / f"{path.stem}.jsonl").write_text(to_line(recording) + "\n")
    print(f"{len(list(options.folder.glob('*.json')))} recordings, {datetime.now(UTC):%Y-%m-%d}")


if __name__ == "__main__":
    main()
