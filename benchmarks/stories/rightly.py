"""Which runbooks are right of which cause. Written down before half B was drawn.

`right` must be open, with one of its segments: the cause itself. `also` may be open, with one of
its segments: what the cause brings about and the page truly describes. Anything else that is open
is wrong. A segment counts with its parts (`queue` allows `queue.rate_limit`).

A larger model's steps are longer: a call waits longer for the step under way, its prompt takes
longer to read, and other prompts hold its tokens up for longer, so all three are true of a swap.
A job of long prompts by day holds up who waits for the engine too: in twelve weeks of half A the
others' mean wait grew from 4 to 14 ms to 23 to 160 ms (listed since the second draw).

Where a client cannot tell two owners apart, the unsplit group is right, and so is the owner the
truth has; the other owner alone is not.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from latscope.rules.finding import Finding

Segments: TypeAlias = tuple[str | None, ...]

WAIT: Segments = ("queue",)
READING: Segments = ("prefill",)
REFUSED: Segments = ("queue.rate_limit", "queue", "client.retry", "client")
MADE: Segments = ("decode",)
KEPT: Segments = ("network",)
OURS: Segments = ("client",)
ANY: Segments = ()

HYGIENE: Mapping[str, Segments] = {"cold-start-after-idle": ("prefill", "network.connect")}
"""True of every week here: a vendor's cache forgets over night, and connections close. Of severity
info, so that no exit code comes of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rightly:
    right: Mapping[str, Segments]
    also: Mapping[str, Segments] = field(default_factory=dict)


RIGHTLY: Mapping[str, Rightly] = {
    "healthy week": Rightly(right={}),
    "quota hit": Rightly(
        right={"retry-storm-and-rate-limits": REFUSED},
        also={"slow-first-token": REFUSED},
    ),
    "prompt growth": Rightly(
        right={"slow-first-token": READING},
        also={
            "bill-up-traffic-flat": ("history", "template", "prompt"),
            "prompt-grows-with-the-window": ANY,
            "long-prompt-neighbour": MADE,
            "stalls-mid-generation": MADE,
        },
    ),
    "template reorder": Rightly(
        right={"slow-first-token": READING},
        also={"bill-up-traffic-flat": ("cache",)},
    ),
    "buffering hop": Rightly(
        right={"buffered-stream": KEPT},
        also={"slow-first-token": KEPT, "stalls-mid-generation": KEPT, "total-duration-only": ANY},
    ),
    "decode pause": Rightly(right={"stalls-mid-generation": MADE}),
    "retry storm": Rightly(
        right={"retry-storm-and-rate-limits": REFUSED},
        also={"slow-first-token": REFUSED},
    ),
    "client overload": Rightly(
        right={"client-saturation": OURS},
        also={"slow-first-token": OURS, "stalls-mid-generation": OURS},
    ),
    "model swap": Rightly(
        right={"model-swapped-while-ttft-moved": (*WAIT, *READING)},
        also={"slow-first-token": (*WAIT, *READING), "stalls-mid-generation": MADE},
    ),
    "cache TTL expiry": Rightly(
        right={"cache-past-ttl": READING},
        also={"slow-first-token": READING, "bill-up-traffic-flat": ("cache",)},
    ),
    "long-prompt neighbour": Rightly(
        right={"long-prompt-neighbour": MADE},
        also={"stalls-mid-generation": MADE, "slow-first-token": WAIT},
    ),
    "busier platform": Rightly(
        right={"slow-first-token": WAIT},
        also={"stalls-mid-generation": MADE},
    ),
}


def fits(segment: str | None, allowed: Segments) -> bool:
    """Whether a true owner is named, alone or in a group that is said to be unsplit."""
    if allowed == ANY:
        return True
    owners = [] if segment is None else segment.split(" | ")
    return any(owner in allowed or owner.partition(".")[0] in allowed for owner in owners)


def is_right(finding: Finding, story: str) -> bool:
    """Whether it is the cause's own runbook, open, with a segment that is true."""
    allowed = RIGHTLY[story].right.get(finding.runbook)
    return finding.verdict == "open" and allowed is not None and fits(finding.segment, allowed)


def is_wrong(finding: Finding, story: str | None) -> bool:
    """Whether it is open and not true of the story (null: of a week nothing is wrong in)."""
    if finding.verdict != "open":
        return False
    known = RIGHTLY[story] if story is not None else Rightly(right={})
    for allowed in (known.right, known.also, HYGIENE):
        if finding.runbook in allowed and fits(finding.segment, allowed[finding.runbook]):
            return False
    return True
