"""A profile out of an endpoint's own calls: floor, decode step, header policy, and whether to
believe them."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from math import hypot, sqrt
from statistics import median

from latscope.attribution.ahead import join_of
from latscope.attribution.changes import newest_regime, quantile
from latscope.attribution.excess import errors_of, time_of
from latscope.attribution.fit import floor_terms, step_terms
from latscope.attribution.guards import (
    Fit,
    crowded,
    guards_of,
    noise_of,
    rank_correlation,
    scatter_limit,
)
from latscope.attribution.intervals import residuals
from latscope.attribution.observe import Observation, observe
from latscope.attribution.profile import (
    Anchor,
    Floor,
    Guard,
    HeaderPolicy,
    Profile,
    SelfTest,
    StepFloor,
    Terms,
)
from latscope.errors import InputError
from latscope.recording import Recording
from latscope.units import DAY, MS, Ns, rfc3339

NEWEST = 5_000
"""Calls a profile is learnt from, at most; older ones say less of today."""
WINDOW_S = 7 * DAY
GOOD_S = 7 * DAY
"""How long a profile is believed after its newest call."""
TAU = 0.05
BELOW = 10
"""Calls below the floor that are enough to place it: with many, the quantile goes down."""
LOWEST_TAU = 0.01
APART = 50
"""Below so many calls, one of them moves the floor: it is then judged by a floor without it."""
FOLDS = 10
STEP = 0.9
"""Of an unloaded decode step, what any first token takes at least: a prompt's step reads the same
weights. A little less than all, for steps that are not measured better."""
BLUR = 0.1
"""In how many steps a floor without a crowd of idle calls is blurred."""
CALM = 0.4
"""Quantile of the calls at which they count as calm, not as the quickest."""
LUCK = 2.0
"""Standard errors by which calm calls must differ for it not to be luck."""
HALF = 8
"""Short and long prompts, at least, to tell what grows with the prompt."""
Key = tuple[str, str, str]


def learn(
    calls: Iterable[Recording], *, endpoint: str | None = None, model: str | None = None
) -> Profile:
    """What the calls of one endpoint and model show of it. endpoint, model: only its calls.

    Raises InputError when none of the calls teaches anything, or when they are of several
    endpoints or models (it names them); MissingExtra without `latscope[analysis]`."""
    rows = [row for call in calls if (row := observe(call)) is not None]
    rows = [row for row in rows if endpoint in (None, row.key[0]) and model in (None, row.key[1])]
    return learn_from(rows)


def learn_from(observations: Iterable[Observation]) -> Profile:
    """What observations of one (endpoint, model, api) show of it. Raises as `learn` does."""
    rows = sorted(observations, key=lambda row: row.at_s)
    key = _only_key(rows)
    rows = [row for row in rows if row.at_s >= rows[-1].at_s - WINDOW_S][-NEWEST:]
    policy = header_policy(rows)
    anchor: Anchor = "headers" if policy == "early" else "sent"
    timed = _on_time([row for row in rows if time_of(row, anchor) is not None])
    step = _step_floor(timed)
    fit, used = _newest(timed, anchor, step)
    return _profile(key, policy, anchor, rows[-1].at_s, timed, used, fit, step)


def _on_time(rows: Sequence[Observation]) -> Sequence[Observation]:
    """Those whose first token came by itself, where tokens come one at a time as a rule."""
    if 2 * sum(1 for row in rows if row.step_ns) < len(rows):
        return rows
    return [row for row in rows if not row.kept]


def learn_apart(observations: Sequence[Observation]) -> list[Profile | None]:
    """For each observation of one endpoint a profile it had no part in (null: there is none). From
    `APART` on it is one for all, since a single call then no longer moves it; below, the calls are
    dealt into at most ten lots and each lot gets the profile of the others."""
    if len(observations) >= APART:
        return [learn_from(observations)] * len(observations)
    lots: list[Profile | None] = []
    for lot in range(min(FOLDS, len(observations))):
        others = [row for at, row in enumerate(observations) if at % FOLDS != lot]
        lots.append(learn_from(others) if others else None)
    return [lots[at % FOLDS] for at in range(len(observations))]


def _only_key(rows: Sequence[Observation]) -> Key:
    keys = sorted({row.key for row in rows})
    if not keys:
        raise InputError(
            "no call to learn from: a profile needs complete streamed calls whose usage states the"
            " prompt's tokens (stream_options.include_usage)"
        )
    if len(keys) > 1:
        named = ", ".join(f"{model or 'no model'} at {endpoint}" for endpoint, model, _ in keys)
        raise InputError(f"calls of {len(keys)} endpoints or models: {named}; choose one of them")
    return keys[0]


# -- header policy --------------------------------------------------------------------------------

MOSTLY = 0.8


def header_policy(rows: Sequence[Observation]) -> HeaderPolicy:
    """What the response head means here. `token`: nearly all calls had their first token with it.
    `slot`: the head waits as long as the call does, the rest does not. `early`: the head comes at
    once, whatever the prompt and the load."""
    both = [
        (row.head_ns, row.headers_ns, row.sent_ns)
        for row in rows
        if row.head_ns is not None
        and row.headers_ns is not None
        and row.sent_ns
        and not row.censored
    ]
    if len(both) < 3:
        return "unknown"
    with_it = [gap <= max(2 * MS, 0.05 * whole) for _, gap, whole in both]
    if sum(with_it) >= MOSTLY * len(both):
        return "token"
    if rows[-1].server == "llama.cpp":
        return "slot"
    quick = [head <= max(5 * MS, 0.5 * gap) for head, gap, _ in both]
    if sum(quick) >= MOSTLY * len(both):
        return "early"
    return "slot" if _waits(both) else "unknown"


def _waits(both: Sequence[tuple[Ns, Ns, Ns]]) -> bool:
    """Whether the time to the head goes with the whole time to the first token, rank by rank."""
    by_whole = sorted(both, key=lambda row: row[2])
    return rank_correlation([float(head) for head, _, _ in by_whole]) > MOSTLY


# -- floors ---------------------------------------------------------------------------------------


def tau_of(n: int) -> float:
    """The quantile a floor of n calls is: 5 %, or as low as leaves a few calls below it."""
    return max(0.5 / n, LOWEST_TAU, min(TAU, BELOW / n))


def _fit(rows: Sequence[Observation], anchor: Anchor, step: float, chunk: int | None) -> Fit:
    """A call left before its first token took longer than was seen of it; that tells nothing of a
    floor unless it waited beyond it, so these join once there is one."""
    done = [row for row in rows if not row.censored] or list(rows)
    fit = _fit_of(done, anchor, step, chunk)
    left = [
        row
        for row in rows
        if row.censored and (time_of(row, anchor) or 0) > fit.terms.at(row.uncached, row.cached)
    ]
    if not left or len(done) == len(rows):
        return fit
    terms = _terms([*done, *left], anchor, step, fit.terms.chunk_tokens)
    return replace(fit, terms=terms)


def _fit_of(rows: Sequence[Observation], anchor: Anchor, step: float, chunk: int | None) -> Fit:
    return Fit(
        terms=_terms(rows, anchor, step, chunk),
        tau=tau_of(len(rows)),
        uncached=[row.uncached for row in rows],
        cached=[row.cached for row in rows],
        times=[float(time_of(row, anchor) or 0) for row in rows],
        step_ns=step,
    )


def _terms(rows: Sequence[Observation], anchor: Anchor, step: float, chunk: int | None) -> Terms:
    return floor_terms(
        [row.uncached for row in rows],
        [row.cached for row in rows],
        [float(time_of(row, anchor) or 0) for row in rows],
        [row.weight for row in rows],
        tau_of(len(rows)),
        chunk,
        least=STEP * step,
    )


def _newest(
    rows: Sequence[Observation], anchor: Anchor, step: StepFloor | None
) -> tuple[Fit, Sequence[Observation]]:
    """The fit of the newest regime, and its calls: those since the floor last moved."""
    unloaded = step.base_ns if step else 0.0
    used = list(rows)
    while True:
        fit = _fit(used, anchor, unloaded, None)
        kept = [row for row in used if not row.censored] or used
        start = _regime(fit)
        if not start:
            break
        since = kept[start].at_s
        used = [row for row in used if row.at_s >= since]
    middle = len(kept) // 2
    if middle >= 8:
        chunk = fit.terms.chunk_tokens
        first, second = (
            _terms(half, anchor, unloaded, chunk) for half in (kept[:middle], kept[middle:])
        )
        fit = replace(fit, halves=(first, second))
    return fit, used


def _regime(fit: Fit) -> int:
    """Where the newest regime begins among the fit's calls. The longer half of the prompts show a
    floor that moved whether its base did or its slope."""
    middle = median(fit.uncached)
    long = [at for at, u in enumerate(fit.uncached) if u >= middle]
    residuals, floors = fit.residuals, fit.floors
    noise = noise_of(residuals, fit.tau)
    apart = max(3 * noise, scatter_limit(fit), 0.1 * median(floors))
    start = newest_regime([residuals[at] for at in long], apart)
    return long[start] if start else 0


def _step_floor(rows: Sequence[Observation]) -> StepFloor | None:
    known = [(row.context, float(row.step_ns), row.weight) for row in rows if row.step_ns]
    if not known:
        return None
    contexts, steps, weights = ([row[at] for row in known] for at in range(3))
    tau = max(tau_of(len(known)), 0.5 / len(known))
    base, slope = step_terms([int(c) for c in contexts], steps, weights, tau)
    apart = [step - base - slope * context for context, step, _ in known]
    return StepFloor(
        base_ns=base, per_context_ns=slope, n=len(known), noise_ns=noise_of(apart, tau)
    )


# -- the profile ----------------------------------------------------------------------------------


def _profile(
    key: Key,
    policy: HeaderPolicy,
    anchor: Anchor,
    newest_s: float,
    rows: Sequence[Observation],
    used: Sequence[Observation],
    fit: Fit,
    step: StepFloor | None,
) -> Profile:
    noise = noise_of(fit.residuals, fit.tau)
    join = join_of(_steps(used), fit.uncached, fit.residuals, noise)
    guards = _told(guards_of(fit, noise, join), rows, used)
    failed = next((guard for guard in guards if not guard.passed), None)
    floor = Floor(
        terms=fit.terms,
        anchor=anchor,
        n=len(used),
        noise_ns=_blur(fit, noise),
        tokens=(min(fit.uncached), max(fit.uncached)),
        join_ns=join,
        growth=_growth(fit),
    )
    chunks = [row.tokens_per_chunk for row in used if row.tokens_per_chunk is not None]
    spread = [row.jitter2 for row in used if row.jitter2 is not None]
    heads = [row.head_ns for row in used if row.head_ns is not None]
    profile = Profile(
        endpoint=key[0],
        model=key[1],
        api=key[2] or None,
        provenance="inferred",
        made_at=rfc3339(newest_s),
        expires_at=rfc3339(newest_s + GOOD_S),
        n=len(used),
        floor=floor if failed is None else None,
        step=step,
        headers=policy,
        rtt_ns=min((row.rtt_ns for row in used if row.rtt_ns is not None), default=None),
        tokens_per_chunk=round(median(chunks), 3) if chunks else None,
        guards=guards,
        refused=None if failed is None else f"{failed.name}: {failed.detail}",
        jitter_ns=round(sqrt(max(0.0, median(spread)))) if spread else 0,
        self_test=_self_test(used, fit),
        head_ns=round(quantile(heads, TAU)) if heads else None,
        excess_ns=_excess(fit) if failed is None else None,
    )
    stated = (pair for row in used for pair in errors_of(row, profile).items())
    return replace(profile, residuals=residuals(stated))


def _told(
    guards: Sequence[Guard], rows: Sequence[Observation], used: Sequence[Observation]
) -> tuple[Guard, ...]:
    """The guards, the first of them saying what was left out of the count and why."""
    count, *others = guards
    said = count.detail
    if len(used) < len(rows):
        said += f" since {rfc3339(used[0].at_s)}, when the floor moved"
        said += f" ({len(rows) - len(used)} older ones left out)"
    left = sum(1 for row in used if row.censored)
    if left:
        said += f", {left} left before their first token"
    return (replace(count, detail=said), *others)


def _growth(fit: Fit) -> float:
    """By what share what a prompt itself takes is more in the calmer calls than in the quickest:
    waiting adds the same to short prompts and long ones, an uneven machine adds more to long ones.
    0 where it may be luck."""
    own = [floor - fit.terms.base_ns for floor in fit.floors]
    middle = median(own)
    rows = list(zip(own, fit.residuals, strict=True))
    long, short = ([(o, r) for o, r in rows if (o > middle) is more] for more in (True, False))
    if min(len(short), len(long)) < HALF:
        return 0.0
    (low, luck), (high, other) = (_calm([r for _, r in some]) for some in (short, long))
    apart = median(o for o, _ in long) - median(o for o, _ in short)
    grown = high - max(0.0, low)
    return round(grown / apart, 4) if grown >= LUCK * hypot(luck, other) else 0.0


def _calm(residuals: Sequence[float]) -> tuple[float, float]:
    """What a calm call takes above the floor, and its standard error."""
    step = sqrt(CALM * (1 - CALM) / len(residuals))
    below, at, above = (quantile(residuals, CALM + by) for by in (-step, 0.0, step))
    return at, (above - below) / 2


def _blur(fit: Fit, noise: Ns) -> Ns:
    """How well the floor is known: as its idle calls scatter, where there is a crowd of them. Where
    nearly every call found company, the quickest had some, too, and waited a part of a step."""
    return noise if crowded(fit, noise) else max(noise, round(BLUR * fit.step_ns))


def _steps(rows: Sequence[Observation]) -> list[float]:
    """The engine's steps: a call's time a token, for as many tokens as one step makes."""
    return [row.step_ns * max(1.0, row.tokens_per_chunk or 1.0) for row in rows if row.step_ns]


def _excess(fit: Fit) -> tuple[Ns, Ns]:
    above = [max(0.0, r) for r in fit.residuals]
    return round(median(above)), round(quantile(above, 0.95))


def _self_test(rows: Sequence[Observation], fit: Fit) -> SelfTest:
    gaps = [row.headers_ns / max(1, row.uncached) for row in rows if row.headers_ns is not None]
    return SelfTest(
        head_gap_ns=round(median(gaps)) if gaps else None,
        ttft_ns=round(median(fit.times)),
        tolerance=0.5,
        n=len(rows),
    )
