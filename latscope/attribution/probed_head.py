"""What a probed endpoint's response head means: when it leaves, and before which wait."""

from statistics import median

from latscope.attribution.arms import PREFILL, Arms, differences, first, head
from latscope.attribution.profile import HeaderPolicy

TOGETHER = 0.1
"""Of the time to the first token: a head this close to it came with it. Of its growth with the
prompt: a head that grows no more came before the prompt was read, one that lacks no more after."""
LONG_BEFORE = 0.5
"""Of that time: a head this far before the first token left before it was computed."""
DELAYED = 0.5
"""Of an unloaded call's time: a call of the crowd that took so much longer has waited."""
BEFORE_HEAD, AFTER_HEAD = 0.8, 0.5
"""Shares of such a wait that lie before the head: the server held it while the call waited for a
slot, or sent it first and let the call wait then."""

SIGNATURES: dict[str, HeaderPolicy] = {"llama.cpp": "slot", "vllm": "early"}
"""Engines whose source says when their head leaves: where an unloaded run cannot tell."""


def header_policy(arms: Arms) -> HeaderPolicy:
    """When the head leaves: with the first token, or long before it; of the latter, before the wait
    for a slot or at its end, as calls sent at once or the engine's name tell."""
    calls = arms.of(*PREFILL, "again")
    shares = [one.gap_ns / one.first_ns for one in calls if one.gap_ns is not None and one.first_ns]
    long = [one.gap_ns / one.first_ns for one in arms.of("long") if one.gap_ns and one.first_ns]
    if len(shares) < 4:
        return "unknown"
    grows, late = _growth(arms), median(long or shares)
    if max(median(shares), late) <= TOGETHER or (grows > 1 - TOGETHER and late < LONG_BEFORE):
        return "token"
    if not long or late < LONG_BEFORE or grows > TOGETHER:
        return "unknown"
    known = SIGNATURES.get(calls[0].engine)
    # While slots are free, a head that waits for one looks early: the source knows better.
    return "slot" if known == "slot" else _under_load(arms) or known or "early"


def _growth(arms: Arms) -> float:
    """How much later the head of a long prompt comes than that of a short one, as a share of how
    much later its first token does; 0 where nothing tells."""
    pairs = arms.together("long", "short")
    heads, firsts = differences(pairs, head), differences(pairs, first)
    later = median(firsts) if firsts else 0.0
    return median(heads) / later if heads and later > 0 else 0.0


def _under_load(arms: Arms) -> HeaderPolicy | None:
    """What calls sent at once show; null when none of them waited, or it lies in between."""
    alone = [one for one in arms.of("middle") if one.gap_ns is not None]
    if not alone:
        return None
    usual = median(one.first_ns or 0 for one in alone)
    usual_head = median(one.head_ns or 0 for one in alone)
    before = [
        (one.head_ns - usual_head) / (one.first_ns - usual)
        for one in arms.of("crowd")
        if one.first_ns is not None and one.head_ns is not None
        if one.first_ns - usual > DELAYED * usual > 0
    ]
    if len(before) < 3:
        return None
    share = median(before)
    if share >= BEFORE_HEAD:
        return "slot"
    return "early" if share <= AFTER_HEAD else None
