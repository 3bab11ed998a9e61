"""Metrics of one page each: silence that is unsplit, refusals, the window, what a prompt costs.

What they rest on is in the call's own line, save `model_number`, `at_peak`, `broke_early` and the
costs of a thousand tokens, which are told from columns of all calls.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from hashlib import blake2b

from latscope.rules.metrics.calls import TIMES
from latscope.rules.metrics.ends import failed, first_came
from latscope.rules.metrics.metric import Call, Columns, Metric, Value, number
from latscope.rules.metrics.sessions import ALONE, marks
from latscope.rules.prefixes import LEAST, MOST, SPREAD, uncached
from latscope.rules.stats import theil_sen
from latscope.rules.windows import window_of
from latscope.units import MS, S

USAGE = "ask for usage: stream_options={'include_usage': true} where the API needs it"
HOUR = 3600 * S


# -- the silence before the first token, and the prompt behind it ----------------------------------


def _silence(segment: str) -> Callable[[Call], Value]:
    def of(call: Call) -> Value:
        if failed(call) or not first_came(call):
            return None
        shares = {share["name"]: share["ttft_ns"] for share in call["segments"]}
        parts = [shares.get(segment), shares.get("unattributed")]
        known = [ns for ns in parts if ns is not None]
        return float(sum(known)) if len(known) == len(parts) else None

    return of


def _open(call: Call) -> Value:
    """`ttft.unattributed` is bounded by nothing and all of it; this is what was left open."""
    if failed(call) or not first_came(call):
        return None
    shares = {share["name"]: share["ttft_ns"] for share in call["segments"]}
    found = shares.get("unattributed")
    return None if found is None else float(found)


def _per_token(call: Call) -> Value:
    ns, tokens = _silence("prefill")(call), uncached(call)
    return ns / tokens if isinstance(ns, float) and tokens else None


def _fixed_bytes(call: Call) -> Value:
    shape = call.get("request")
    return None if shape is None else float(shape["system_bytes"] + shape["tools_bytes"])


INSTANT = 100 * MS
"""What people take for at once (Miller 1968)."""
TTFT = next(row for row in TIMES if row.name == "ttft")


def _felt(call: Call) -> Value:
    found = TTFT.of(call) if TTFT.of is not None else None
    return max(found, float(INSTANT)) if isinstance(found, float) else None


PROMPT = (
    Metric(
        name="ttft_felt",
        unit="ns",
        means="time to first token; 100 ms where it is shorter, since people take that for at once",
        of=_felt,
        censored=TTFT.censored,
        collect=TTFT.collect,
    ),
    *(
        Metric(
            name=f"ttft.{segment}_or_unsplit",
            unit="ns",
            means=f"time to first token that is {segment}, or that nothing splits",
            of=_silence(segment),
        )
        for segment in ("queue", "prefill", "decode")
    ),
    Metric(
        name="ttft.unsplit",
        unit="ns",
        means="time to first token that nothing splits",
        of=_open,
    ),
    Metric(
        name="prefill_ns_per_token",
        unit="ns",
        means="ttft.prefill_or_unsplit for each prompt token that was not cached",
        of=_per_token,
        collect=USAGE,
    ),
    Metric(
        name="prefill_tokens",
        unit="tokens",
        means="prompt tokens the server read anew: all those it does not say it had cached",
        of=number(uncached),
        collect=USAGE,
    ),
    Metric(
        name="request.fixed_bytes",
        unit="bytes",
        means="bytes of system text and tools together: what is sent with every call",
        of=_fixed_bytes,
    ),
)


# -- how the tokens came ---------------------------------------------------------------------------

FELT = 200 * MS
"""A pause that people notice."""


def _felt_stall(call: Call) -> bool | None:
    if not call["streamed"] or not first_came(call):
        return None
    return any(stall["ns"] >= FELT for stall in call["stalls"])


def _lumpy(columns: Columns) -> Sequence[Value]:
    pairs = zip(columns["streamed"], columns["bunched"], strict=True)
    return [float(bool(lumps)) if streams else None for streams, lumps in pairs]


ARRIVAL = (
    Metric(
        name="felt_stall",
        unit="truth",
        means="whether the stream paused once for 200 ms or more",
        of=number(_felt_stall),
        collect="stream the calls",
    ),
    Metric(
        name="lumpy",
        unit="truth",
        means="whether a streamed answer surely came in lumps (`bunched`)",
        over=_lumpy,
        needs=("streamed", "bunched"),
    ),
)


# -- what a call is billed for ---------------------------------------------------------------------

CACHED_PRICE = 0.1
WRITE_PRICE = 1.25
OUTPUT_PRICE = 3.7
"""What a cached, a cache-written and an output token cost, an input token being 1: the medians of
the models genai-prices 0.2.3 lists (968, 293 and 2,044 of them state one)."""


def _billed(call: Call) -> Value:
    size, made = call["input_tokens"], call["output_tokens"]
    if size is None or made is None:
        return None
    cached, written = call["cached_tokens"] or 0, call.get("cache_write_tokens") or 0
    fresh = max(0, size - cached - written)
    return float(fresh + CACHED_PRICE * cached + WRITE_PRICE * written + OUTPUT_PRICE * made)


BILL = (
    Metric(
        name="billed_tokens",
        unit="tokens",
        means="what the call is billed for, in input tokens: a cached one counts 0.1, a cache-"
        "written one 1.25, an output one 3.7 (the median price list)",
        of=_billed,
        collect=USAGE,
    ),
)


# -- the client, its connections, its retries ------------------------------------------------------


FEW_TOKENS = 8
"""Of fewer tokens nothing can be said of how they came."""


def _behind(call: Call) -> bool | None:
    """Gaps are told of a stream unless nearly every read found its bytes waiting."""
    made = call["output_tokens"]
    if not first_came(call) or failed(call) or "one_read" in call["flags"]:
        return None
    return None if made is None or made < FEW_TOKENS else call["itl"] is None


def _handshake(call: Call) -> Value:
    if failed(call):
        return None
    shares = [share for share in call["segments"] if share["name"] == "network"]
    parts = [part for share in shares for part in share["parts"]]
    return float(sum(part["ns"] for part in parts if part["name"] in ("connect", "tls")))


def _statuses(call: Call) -> set[int | None]:
    return {*(attempt["status"] for attempt in call["attempts"]), call["http_status"]}


def _tried_in_vain(call: Call) -> bool:
    """Retried for another reason than a refusal."""
    return len(call["attempts"]) > 1 and _statuses(call).isdisjoint((429, 503, 529))


CLIENT = (
    Metric(
        name="reader_behind",
        unit="truth",
        means="whether the caller read so late that nearly every read found its bytes waiting",
        of=number(_behind),
    ),
    Metric(name="handshake", unit="ns", means="connecting and TLS together", of=_handshake),
    Metric(
        name="limited",
        unit="truth",
        means="whether any attempt was refused with 429: too many requests, or tokens",
        of=number(lambda call: 429 in _statuses(call)),
    ),
    Metric(
        name="overloaded",
        unit="truth",
        means="whether any attempt was refused with 503 or 529: the server has no room",
        of=number(lambda call: not {503, 529}.isdisjoint(_statuses(call))),
    ),
    Metric(
        name="tried_in_vain",
        unit="truth",
        means="whether it was retried though nothing refused it: other errors, lost connections",
        of=number(_tried_in_vain),
    ),
    Metric(
        name="troubled",
        unit="truth",
        means="whether any attempt was refused, or the call was tried more than once",
        of=number(
            lambda call: (
                len(call["attempts"]) > 1 or not {429, 503, 529}.isdisjoint(_statuses(call))
            )
        ),
    ),
)


# -- the context window ----------------------------------------------------------------------------

WINDOW_WORDS = frozenset({"model_context_window_exceeded"})
"""Anthropic's stop reason."""
SHORT_OF_CAP = 0.98


def _ended_by_window(call: Call) -> bool:
    """The server stopped for length though the cap was not reached."""
    if call["finish_reason"] in WINDOW_WORDS:
        return True
    made, most = call["output_tokens"], call["max_output_tokens"]
    if call["finish_reason"] != "length" or made is None or most is None:
        return False
    return bool(made < SHORT_OF_CAP * most)


def _window_use(call: Call) -> Value:
    if _ended_by_window(call):
        return 1.0
    window = window_of(call["model"]) if call["mode"] == "vendor" else None
    size, made = call["input_tokens"], call["output_tokens"]
    if window is None or size is None or made is None:
        return None
    # More than all of it: then this deployment's window is another than the listed one.
    return (size + made) / window if size + made <= window else None


WINDOW = (
    Metric(
        name="window_use",
        unit="share",
        means="prompt and answer as a share of the model's context window; 1 where it ended the "
        "answer",
        of=_window_use,
        collect=USAGE,
    ),
    Metric(
        name="window_hit",
        unit="truth",
        means="whether the context window ended the answer",
        of=number(lambda c: _ended_by_window(c) if c["status"] == "complete" else None),
    ),
)


# -- of all calls together -------------------------------------------------------------------------


def _model_number(columns: Columns) -> float | None:
    """The same number for the same name, whatever the file: two files' main models can then be
    told apart by a comparison of numbers."""
    names = [name for name in columns["model"] if name is not None]
    if not names:
        return None
    name = Counter(map(str, names)).most_common(1)[0][0]
    return float(int.from_bytes(blake2b(name.encode(), digest_size=4).digest()))


def _at_peak(columns: Columns) -> Sequence[Value]:
    """1 in the third of the hours with the most calls, 0 in the third with the fewest; null in
    between, and where there are fewer than three hours."""
    hours = [
        int(at // HOUR) if isinstance(at, float | int) else None for at in columns["started_ns"]
    ]
    counts = Counter(hour for hour in hours if hour is not None)
    third = len(counts) // 3
    if not third:
        return [None] * len(hours)
    order = sorted(counts, key=lambda hour: (counts[hour], hour))
    quiet, busy = {*order[:third]}, {*order[-third:]}
    return [1.0 if hour in busy else 0.0 if hour in quiet else None for hour in hours]


def _visits_per_hour(columns: Columns) -> float | None:
    """Each kept session stands for as many as its first call does."""
    began, weights = columns["started_ns"], columns["weight"]
    span = float(began[-1] or 0.0) - float(began[0] or 0.0) if began else 0.0
    firsts: dict[str, int] = {}
    for index, mark in enumerate(marks(columns)):
        firsts.setdefault(f"call {index}" if mark.tie == ALONE else f"in {mark.session}", index)
    return sum(float(weights[at] or 1.0) for at in firsts.values()) * HOUR / span if span else None


FRONT = frozenset({"system", "developer", "instructions", "system_prompt", "tools", "functions"})


def _broke_early(columns: Columns) -> Sequence[Value]:
    pairs = zip(columns["break_part"], columns["prefix_kept"], strict=True)
    return [None if kept is None else float(_in_front(part)) for part, kept in pairs]


def _in_front(part: Value) -> bool:
    """Whether a part of the request is system text or tools: of its own, or as a message."""
    return isinstance(part, str) and part.split()[-1] in FRONT


def _ttft_per_1000(columns: Columns) -> float | None:
    pairs = zip(columns["prefill_tokens"], columns["ttft"], strict=True)
    points = [(float(size), float(ns)) for size, ns in pairs if size and ns is not None]
    sizes = [size for size, _ in points]
    if len(points) < LEAST or max(sizes) < SPREAD * min(sizes):
        return None
    chosen = points[:: -(-len(points) // MOST)]
    found = theil_sen([x for x, _ in chosen], [y for _, y in chosen])
    clear = found is not None and found.low is not None and found.low > 0
    return 1000 * found.value if found is not None and clear else None


def _cost_per_1000(columns: Columns) -> float | None:
    """Of the calls whose prompt's price is known, cached part and all."""
    names = ("input_tokens", "cost.uncached_input", "cost.cached_input", "cost.cache_write")
    paid, size = 0.0, 0.0
    for tokens, *parts in zip(*(columns[name] for name in names), strict=True):
        known = [part for part in parts if isinstance(part, int | float)]
        if tokens is not None and len(known) == len(parts):
            paid, size = paid + sum(known), size + float(tokens)
    return 1000 * paid / size if size else None


TOGETHER = (
    Metric(
        name="model_number",
        unit="count",
        means="a number that stands for the name of the model most calls asked",
        whole=_model_number,
        needs=("model",),
    ),
    Metric(
        name="at_peak",
        unit="truth",
        means="whether it began in the busiest third of the file's hours (0: the quietest third)",
        over=_at_peak,
        collect="calls of at least three hours",
    ),
    Metric(
        name="visits_per_hour",
        unit="per_hour",
        means="sessions begun in an hour; a call that nothing ties to others is one of its own",
        whole=_visits_per_hour,
        needs=("session.place", "started_ns", "weight"),
    ),
    Metric(
        name="broke_early",
        unit="truth",
        means="whether the first thing that changed in the prompt lies in system text or tools",
        over=_broke_early,
        needs=("break_part", "prefix_kept"),
    ),
    Metric(
        name="ttft_per_1000",
        unit="ns",
        means="what a thousand more uncached prompt tokens add to the time to first token here",
        whole=_ttft_per_1000,
        needs=("prefill_tokens", "ttft"),
        collect="calls with prompts of unlike length",
    ),
    Metric(
        name="cost_per_1000",
        unit="money",
        means="what a thousand prompt tokens cost here, as cached as they were",
        whole=_cost_per_1000,
        needs=("input_tokens", "cost.uncached_input", "cost.cached_input", "cost.cache_write"),
        collect="give prices: --prices FILE, or latscope[analysis] for a vendor's",
    ),
)

ROWS: tuple[Metric, ...] = (
    *PROMPT, *ARRIVAL, *BILL, *CLIENT, *WINDOW, *TOGETHER,
)  # fmt: skip
