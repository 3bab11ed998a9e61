"""What servers state of their own timings, and which part of a call each figure covers.

One table, a row a field. The same name means different intervals at different servers
(`time_to_first_token` starts at arrival here, at scheduling there), so a row states the interval
as the server's source has it, and what part of the call that fills. A figure fills that part and
no more; whether it is believed is for the attribution to say.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from latscope.protocols.events import Covers, Reported
from latscope.protocols.fields import as_int, dig
from latscope.units import MS, US, Ns


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One timing field of one server.

    source, field, covers: as in `Reported`; where: the objects the field lies in, outermost first;
    unit: ns of one unit of the field; resolution: how coarsely the server measures (a whole number
    is never finer than its unit); interval: what it really covers; absent: when the server leaves
    it out; only_from: a neighbouring count and the least it must be for the figure to mean
    anything.
    """

    source: str
    where: tuple[str, ...]
    field: str
    unit: Ns
    covers: Covers
    interval: str
    absent: str
    resolution: Ns = 1
    only_from: tuple[str, int] | None = None


_VLLM_ABSENT = (
    "without --enable-per-request-metrics; on a chat or completions stream without usage; for n > 1"
    " or several prompts; on /v1/messages; on a stream cut before its end"
)
_LLAMA_ABSENT = "on a stream cut before its end; on /v1/messages; on a Responses body"

TABLE: tuple[Row, ...] = (
    # vLLM 0.32 entrypoints/generate/base: chat and completions at the top of the trailing usage
    # chunk or body, Responses inside the response object of its last event.
    Row(
        source="vllm.metrics",
        where=("metrics",),
        field="queue_time_ms",
        unit=MS,
        covers="queue.engine",
        interval="engine core has drained its input queue -> first scheduled; without HTTP,"
        " templating and tokenising, without the wait for the step running then; with the fetch"
        " of a remote KV cache",
        absent=_VLLM_ABSENT,
    ),
    Row(
        source="vllm.metrics",
        where=("metrics",),
        field="time_to_first_token_ms",
        unit=MS,
        covers="prefill",
        interval="first scheduled -> first token: prefill, in spite of its name; with preemption",
        absent=_VLLM_ABSENT,
    ),
    Row(
        source="vllm.metrics",
        where=("metrics",),
        field="generation_time_ms",
        unit=MS,
        covers="decode",
        interval="first token -> last token; with preemption",
        absent=_VLLM_ABSENT + "; zero for one token",
    ),
    # llama.cpp tools/server server_slot_stats (b11434): microsecond stamps, printed in ms. Chat
    # and completions at the top of the last chunk or body, Responses beside the response object.
    Row(
        source="llama.timings",
        where=("timings",),
        field="prompt_ms",
        unit=MS,
        covers="prefill",
        interval="slot starts the prompt -> its last batch is evaluated, which is when the first"
        " token is sampled; the wait for a slot is in no field",
        absent=_LLAMA_ABSENT,
        resolution=US,
    ),
    Row(
        source="llama.timings",
        where=("timings",),
        field="predicted_ms",
        unit=MS,
        covers="decode",
        interval="first token -> last token (predicted_n - 1 steps: the first token comes out of"
        " the prompt's last batch)",
        absent=_LLAMA_ABSENT + "; for one token it is a floor of 1 us, not a time",
        resolution=US,
        only_from=("predicted_n", 2),
    ),
)

_FIRST_KEYS = frozenset((*row.where, row.field)[0] for row in TABLE)


def read(mapping: Mapping[str, Any]) -> tuple[Reported, ...]:
    """Every figure of the table found in `mapping` (a chunk, a body, a response object).

    A value that is zero, negative, not finite or no number gives no figure: servers write 0 for
    what they did not measure.
    """
    if _FIRST_KEYS.isdisjoint(mapping):  # nearly every chunk of a stream
        return ()
    return tuple(figure for row in TABLE if (figure := _figure(row, mapping)) is not None)


def _figure(row: Row, mapping: Mapping[str, Any]) -> Reported | None:
    value = dig(mapping, *row.where, row.field)
    ns = _ns(value, row.unit)
    if ns is None or not _counts(row, mapping):
        return None
    resolution = row.unit if isinstance(value, int) else row.resolution
    return Reported(
        source=row.source, field=row.field, covers=row.covers, ns=ns, resolution_ns=resolution
    )


def _ns(value: object, unit: Ns) -> Ns | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    scaled = value * unit
    if isinstance(scaled, float) and not math.isfinite(scaled):
        return None
    ns = round(scaled)
    return ns if ns > 0 else None


def _counts(row: Row, mapping: Mapping[str, Any]) -> bool:
    if row.only_from is None:
        return True
    name, least = row.only_from
    count = as_int(dig(mapping, *row.where, name))
    return count is None or count >= least
