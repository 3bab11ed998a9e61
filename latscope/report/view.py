"""One call as plain data for a picture: strips, rows on a time axis, notes. No widths, no colours.

A *strip* is a whole (the call, the time to its first token) cut into the segments' shares in the
order a call passes them. A *row* is one segment, part or unsplit stretch with its bars where they
lie on the call's axis.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from latscope.attribution.model import (
    Attribution,
    Piece,
    Segment,
    SegmentShare,
)
from latscope.recording import SegmentTruth
from latscope.report.figures import Figure
from latscope.report.notes import Note, headline, notes
from latscope.units import Ns

ORDER: tuple[Segment, ...] = ("client", "network", "queue", "prefill", "unattributed", "decode")
"""Rows, in the order a call passes them; unsplit time below those it may belong to."""

LAID: tuple[Segment, ...] = ("client", "network", "unattributed", "queue", "prefill", "decode")
"""Strips: unsplit time stands where most of it lies, before what is known of the server."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """A stretch on the axis. placed: false when only its length is known, not its place."""

    start_ns: Ns
    end_ns: Ns
    placed: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """name: segment, part or candidate set as spoken; candidates: whose colours the bars take."""

    name: str
    part: bool
    candidates: tuple[Segment, ...]
    bars: tuple[Bar, ...]
    figure: Figure
    provenance: str | None
    truth_ns: Ns | None = None

    @property
    def held(self) -> bool | None:
        """Whether the truth lies inside the hard bounds; null when there is no truth."""
        if self.truth_ns is None:
            return None
        return self.figure.low_ns <= self.truth_ns <= self.figure.high_ns


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    candidates: tuple[Segment, ...]
    ns: Ns


@dataclass(frozen=True, slots=True, kw_only=True)
class Strip:
    name: str
    shares: tuple[Share, ...]
    ns: Ns


@dataclass(frozen=True, slots=True, kw_only=True)
class CallView:
    title: str
    endpoint: str
    facts: tuple[str, ...]
    ok: bool
    wall_ns: Ns
    resolution_ns: Ns
    strips: tuple[Strip, ...]
    rows: tuple[Row, ...]
    notes: tuple[Note, ...]
    provenances: tuple[str, ...]
    """Those the rows carry, for the legend."""
    has_truth: bool


def call_view(attribution: Attribution) -> CallView:
    rows = tuple(_rows(attribution))
    used = {row.provenance for row in rows}
    title = " · ".join(text for text in (attribution.model, attribution.api) if text)
    return CallView(
        title=title or "unknown model",
        endpoint=attribution.endpoint,
        facts=headline(attribution),
        ok=attribution.status == "complete",
        wall_ns=attribution.wall_ns,
        resolution_ns=max(1, attribution.instrument.bound_ns),
        strips=tuple(_strips(attribution)),
        rows=rows,
        notes=tuple(notes(attribution)),
        provenances=tuple(name for name in _PROVENANCE_ORDER if name in used),
        has_truth=attribution.truth is not None,
    )


_PROVENANCE_ORDER = ("measured", "reported", "probed", "inferred", "bound")


def _strips(attribution: Attribution) -> Iterable[Strip]:
    yield _strip("call", _by_candidates(attribution.pieces))
    truth = attribution.truth
    if truth is not None:
        yield _strip("truth", _truth_shares(truth.segments))
    if attribution.first_token_ns is None:
        return
    yield _strip("TTFT", _to_first_token(attribution))
    if truth is not None and truth.ttft is not None:
        yield _strip("truth", _truth_shares(truth.ttft))


def _strip(name: str, shares: Iterable[Share]) -> Strip:
    laid = tuple(sorted(shares, key=lambda share: LAID.index(_owner(share.candidates))))
    return Strip(name=name, shares=laid, ns=sum(share.ns for share in laid))


def _owner(candidates: tuple[Segment, ...]) -> Segment:
    return candidates[0] if len(candidates) == 1 else "unattributed"


def _by_candidates(pieces: Iterable[Piece]) -> list[Share]:
    sums: dict[tuple[Segment, ...], Ns] = {}
    for piece in pieces:
        sums[piece.candidates] = sums.get(piece.candidates, 0) + piece.ns
    return [Share(candidates=names, ns=ns) for names, ns in sums.items() if ns > 0]


def _to_first_token(attribution: Attribution) -> list[Share]:
    """The second split; without its own pieces, the segments' shares of it."""
    if attribution.ttft_pieces is not None:
        return _by_candidates(attribution.ttft_pieces)
    return [
        Share(candidates=(share.name,), ns=share.ttft_ns)
        for share in attribution.segments
        if share.ttft_ns
    ]


def _truth_shares(shares: Iterable[SegmentTruth]) -> list[Share]:
    return [Share(candidates=(name,), ns=ns) for name, ns in _truth_sums(shares).items() if ns > 0]


def _truth_sums(shares: Iterable[SegmentTruth]) -> dict[Segment, Ns]:
    sums: dict[Segment, Ns] = {}
    for share in shares:
        segment = _as_segment(share.name)
        sums[segment] = sums.get(segment, 0) + share.ns
    return sums


def _as_segment(name: str) -> Segment:
    for segment in ORDER:
        if name == segment or name.startswith(f"{segment}."):
            return segment
    return "unattributed"


def _rows(attribution: Attribution) -> Iterable[Row]:
    placed = _placed(attribution.pieces)
    shares = {share.name: share for share in attribution.segments}
    resolution = max(1, attribution.instrument.bound_ns)
    truth = attribution.truth
    sums = None if truth is None else _truth_sums(truth.segments)
    for name in ORDER:
        if name == "unattributed":
            yield from _unsplit_rows(attribution, placed, resolution)
            continue
        share = shares[name]
        yield Row(
            name=name,
            part=False,
            candidates=(name,),
            bars=_bars(placed, (name,)),
            figure=_figure(share, resolution),
            provenance=None if share.bounds_ns[1] == 0 else share.provenance,
            truth_ns=None if sums is None else sums.get(name, 0),
        )
        yield from _part_rows(share, placed, resolution)


def _part_rows(share: SegmentShare, placed: "_Placed", resolution: Ns) -> Iterable[Row]:
    for part in share.parts:
        low, high = part.bounds_ns
        if high == 0:
            continue
        yield Row(
            name=f"{share.name}.{part.name}",
            part=True,
            candidates=(share.name,),
            bars=_bars(placed, (share.name,), part.name),
            figure=Figure(ns=part.ns, low_ns=low, high_ns=high, resolution_ns=resolution),
            provenance=part.provenance,
        )


def unsplit_sums(attribution: Attribution) -> dict[tuple[Segment, ...], Ns]:
    """Each candidate set's time, then what is left of `unattributed` without any candidates."""
    sums: dict[tuple[Segment, ...], Ns] = {}
    for item in attribution.unsplit:
        sums[item.candidates] = sums.get(item.candidates, 0) + item.ns
    total = next(share.ns for share in attribution.segments if share.name == "unattributed")
    rest = total - sum(sums.values())
    if rest > 0:
        sums[("unattributed",)] = sums.get(("unattributed",), 0) + rest
    return sums


def _unsplit_rows(attribution: Attribution, placed: "_Placed", resolution: Ns) -> Iterable[Row]:
    """One row a candidate set."""
    for candidates, ns in unsplit_sums(attribution).items():
        if ns > 0:
            yield Row(
                name=" | ".join(candidates),
                part=False,
                candidates=candidates,
                bars=_bars(placed, candidates),
                figure=Figure(ns=ns, low_ns=ns, high_ns=ns, resolution_ns=resolution),
                provenance="bound",
            )


def _figure(share: SegmentShare, resolution: Ns) -> Figure:
    low, high = share.bounds_ns
    return Figure(ns=share.ns, low_ns=low, high_ns=high, resolution_ns=resolution)


_Placed = list[tuple[Piece, Bar]]


def _placed(pieces: Iterable[Piece]) -> _Placed:
    """Each piece with its bar; one without a place is put where the piece before it ends."""
    placed: _Placed = []
    cursor = 0
    for piece in pieces:
        start = cursor if piece.at_ns is None else piece.at_ns
        cursor = start + piece.ns
        placed.append((piece, Bar(start_ns=start, end_ns=cursor, placed=piece.at_ns is not None)))
    return placed


def _bars(
    placed: _Placed, candidates: tuple[Segment, ...], part: str | None = None
) -> tuple[Bar, ...]:
    return tuple(
        bar
        for piece, bar in placed
        if piece.candidates == candidates and piece.ns > 0 and part in (None, piece.part)
    )
