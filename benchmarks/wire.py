"""What the event-stream decoder costs per event, and whether that grows with the stream.

Streams of 500 and of 16,000 chat chunks are decoded in turn in one run, every event in a read of
its own and all of them in one read. Both sizes decode as many events a repeat; figures are medians
of processor time, so that other work on the machine counts as little as it can. The frames are
kept, as they are when a call is attributed.

Prints one readable line a way of reading, appends one JSON line to results/wire.jsonl, and exits 1
when an event of the long stream costs more than 1.3 times one of the short.
"""

import json
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

from benchmarks.setting import commit, machine
from latscope.wire.frames import Frame
from latscope.wire.sse import SSEDecoder

SMALL, LARGE = 500, 16_000
REPEATS = 21
MAX_RATIO = 1.3
RESULTS = Path(__file__).parent / "results" / "wire.jsonl"


def event(n: int) -> bytes:
    """A chunk as vLLM sends it."""
    return (
        b'data: {"id":"chatcmpl-0123456789abcdef","object":"chat.completion.chunk",'
        b'"created":1700000000,"model":"tiny","choices":[{"index":0,"delta":'
        b'{"content":" token%d"},"logprobs":null,"finish_reason":null}]}\n\n' % n
    )


def a_read_each(events: list[bytes]) -> list[bytes]:
    return events


def one_read(events: list[bytes]) -> list[bytes]:
    return [b"".join(events)]


def decode(reads: list[bytes]) -> list[Frame]:
    decoder = SSEDecoder()
    frames: list[Frame] = []
    for ns, data in enumerate(reads):
        frames += decoder.feed(data, ns)
    return frames + decoder.close()


def cost_us(events: list[bytes], cut: Callable[[list[bytes]], list[bytes]]) -> float:
    """Processor time per event, in microseconds, over as many streams as make LARGE events."""
    reads, streams = cut(events), LARGE // len(events)
    spent = 0
    for _ in range(streams):
        started = time.process_time_ns()
        frames = decode(reads)
        spent += time.process_time_ns() - started
        if len(frames) != len(events):
            raise SystemExit(f"{len(frames)} frames of {len(events)} events")
    return spent / (streams * len(events)) / 1000


def measure(cut: Callable[[list[bytes]], list[bytes]]) -> dict[str, float]:
    events = [event(n) for n in range(LARGE)]
    pairs = [(cost_us(events[:SMALL], cut), cost_us(events, cut)) for _ in range(REPEATS)]
    small, large = median(pair[0] for pair in pairs), median(pair[1] for pair in pairs)
    return {
        f"us_per_event_{SMALL}": round(small, 3),
        f"us_per_event_{LARGE}": round(large, 3),
        "ratio": round(large / small, 3),
    }


def main() -> int:
    figures = {cut.__name__: measure(cut) for cut in (a_read_each, one_read)}
    line = {
        "schema": "latscope.benchmark/1",
        "name": "wire",
        "commit": commit(),
        "machine": machine(),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "repeats": REPEATS,
        **figures,
    }
    RESULTS.parent.mkdir(exist_ok=True)
    with RESULTS.open("a", encoding="utf-8") as results:
        results.write(json.dumps(line) + "\n")
    for name, row in figures.items():
        small, large = row[f"us_per_event_{SMALL}"], row[f"us_per_event_{LARGE}"]
        print(
            f"{name.replace('_', ' '):12} {small:.2f} us an event of {SMALL}, "
            f"{large:.2f} us of {LARGE}: ratio {row['ratio']:.2f} (at most {MAX_RATIO})"
        )
    return 1 if any(row["ratio"] > MAX_RATIO for row in figures.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
