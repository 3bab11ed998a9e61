"""What truly happened to a call, from the upstream's stamps, beside what latscope claims of it.

The upstream is the server: what it stamped is on the clock the recording's zero is a reading of.
"""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from latscope.attribution import Attribution, Piece, attribute
from latscope.recording import Recording, Truth, to_line
from latscope.sim.stamps import Stamps
from latscope.sim.truth import truth
from latscope.units import MS, Ns
from tests.lab import leftovers
from tests.sim.client import body_of, data_of, frames, read_at

SOURCE = "lab: the upstream's own stamps, on the client's monotonic clock"
PATIENCE_S = 20.0


def stamps_of(file: Path, count: int = 1) -> dict[str, Any]:
    """Give the stamps of the last of `count` answered calls, once they are all written."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        text = file.read_text(encoding="utf-8") if file.exists() else ""
        lines = [line for line in text.splitlines(keepends=True) if line.endswith("\n")]
        if len(lines) >= count:
            return dict(json.loads(lines[count - 1]))
        if time.monotonic() > deadline:
            raise TimeoutError(f"the upstream wrote {len(lines)} of {count} calls")
        time.sleep(0.01)


def token_ends(recording: Recording) -> list[int]:
    """Find the body offsets just past the events that carry a token, by this file's own reading."""
    return [end for frame, end in frames(body_of(recording)) if _carries_token(frame)]


def token_reads(recording: Recording) -> list[Ns]:
    """Give when each token's last byte was read."""
    return [read_at(recording, end) for end in token_ends(recording)]


def bursts(stamps: list[Ns], apart: Ns = 20 * MS) -> list[list[Ns]]:
    """Group arrivals that came together: less than `apart` after the one before."""
    found: list[list[Ns]] = []
    for at in stamps:
        if found and at - found[-1][-1] < apart:
            found[-1].append(at)
        else:
            found.append([at])
    return found


def since_zero(recording: Recording, ns: Ns) -> Ns:
    """Lay a stamp of the host's clock on the call's axis."""
    assert recording.clock is not None
    return ns - recording.clock.zero_ns


def lags(recording: Recording, stamps: dict[str, Any]) -> list[Ns]:
    """Say how long each token took from the upstream's send to the client's read."""
    sent = [since_zero(recording, ns) for ns in stamps["tokens"]]
    return [got - ns for got, ns in zip(token_reads(recording), sent, strict=True)]


def truth_of(recording: Recording, stamps: dict[str, Any]) -> Truth:
    """Give the call's true partition."""
    ends = token_ends(recording)
    done = [end for frame, end in frames(body_of(recording)) if frame == b"data: [DONE]"]
    whole = truth(
        Stamps(
            id=recording.call_id,
            scenario="lab",
            api="chat",
            stream=True,
            status=200,
            received_ns=stamps["received_ns"],
            scheduled_ns=stamps["scheduled_ns"],
            tokens=list(stamps["tokens"]),
            first_sent=0,
            first_token_end=ends[0],
            terminal_end=done[0],
        ),
        recording,
    )
    return Truth(segments=whole.segments, ttft=whole.ttft, source=SOURCE)


def violations(recording: Recording) -> list[str]:
    """List each true figure that lies outside the hard bounds; nothing is forgiven. The recording
    of a violation is kept, and the last entry says where: it is the bug report."""
    assert recording.truth is not None
    found = attribute(recording)
    wrong = [*_outside(found, found.pieces, "call"), *_outside(found, found.ttft_pieces, "ttft")]
    return [*wrong, f"kept as {_keep(recording)}"] if wrong else []


def _keep(recording: Recording) -> Path:
    leftovers.KEPT.mkdir(exist_ok=True)
    file = leftovers.KEPT / f"{recording.call_id}.jsonl"
    file.write_text(to_line(recording) + "\n", encoding="utf-8")
    return file


def _outside(found: Attribution, pieces: tuple[Piece, ...] | None, of: str) -> Iterator[str]:
    assert found.truth is not None
    for part in (found.truth.segments if of == "call" else found.truth.ttft) or ():
        least = sum(p.ns for p in pieces or () if p.sure and p.owner == part.name)
        most = sum(p.ns for p in pieces or () if part.name in p.candidates)
        if part.name != "unattributed" and not least <= part.ns <= most:
            yield (
                f"{of} {part.name}: {part.ns / MS:.3f} ms is not in "
                f"[{least / MS:.3f}, {most / MS:.3f}]"
            )


def _carries_token(frame: bytes) -> bool:
    choices = data_of(frame).get("choices") or [{}]
    return bool(choices[0].get("delta", {}).get("content"))
