"""Stalls: what a silence did to the tokens behind it, and what was seen meanwhile, name it."""

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, get_args

import pytest

from latscope.attribution.quanta import quantum
from latscope.attribution.schedule import beats, schedule
from latscope.attribution.stalls import CAUSES, CONFIDENCE, Cause, Found, find
from latscope.recording import ClientSide, Recording, RttSample, TcpInfo
from latscope.timeline import Timeline, build
from latscope.units import MS
from tests.calls import Chunk, attributed, delta, stream, tokens

STEP = 40.0
N = 60
AT = 20
"""The token the stall comes before."""
RTT = 10.0


def steady(n: int = N, step: float = STEP, start: float = 100.0) -> list[float]:
    return [start + index * step for index in range(n)]


def paused(times: Sequence[float], at: int, ms: float) -> list[float]:
    """The source made everything from `at` on that much later."""
    return [time + ms if index >= at else time for index, time in enumerate(times)]


def kept(times: Sequence[float], at: int, ms: float) -> list[float]:
    """Something kept what came from `at` on for so long, and let it go at once."""
    until = times[at] + ms
    return [max(time, until) if index >= at else time for index, time in enumerate(times)]


def slower(times: Sequence[float], at: int, ms: float, during: float) -> list[float]:
    """The path took that much longer, and after a while no longer did."""
    until = times[at] + during
    late = [time + ms if times[at] <= time < until else time for time in times]
    return [max(late[: index + 1]) for index in range(len(late))]


def arriving(times: Sequence[float], **more: Any) -> Recording:
    chunks: list[Chunk] = [(time, delta(f"t{index} ")) for index, time in enumerate(times)]
    return stream(chunks, **more)


def found(recording: Recording) -> tuple[Found, ...]:
    timeline = build(recording)
    return find(timeline, schedule(timeline.arrivals))


def only(recording: Recording) -> Found:
    (one,) = found(recording)
    return one


def probed(recording: Recording, rtt: Any, every: float = 20.0, until: float = 4000.0) -> Recording:
    """A probe beside the call; rtt: what a round trip sent at that time takes, null when lost."""
    sent = [index * every for index in range(int(until / every))]
    took = [rtt(at) for at in sent]
    samples = [
        RttSample(round(at * MS), None if ms is None else round(ms * MS))
        for at, ms in zip(sent, took, strict=True)
    ]
    return replace(recording, rtt_probe=tuple(samples))


def snapped(recording: Recording, *snaps: tuple[float, int], waited: float = 0.0) -> Recording:
    """Kernel snapshots: (when, segments out of order so far)."""
    infos = [
        TcpInfo(
            at="gap",
            at_ns=round(at * MS),
            rcv_ooopack=count,
            last_data_recv_ns=round(waited * MS),
        )
        for at, count in snaps
    ]
    attempt = recording.attempts[-1]
    return replace(recording, attempts=(replace(attempt, tcp_info=tuple(infos)),))


def hindered(recording: Recording, **kinds: Sequence[tuple[float, float]]) -> Recording:
    """What the client was at: (when, how long)."""
    rows = {
        name: tuple((round(at * MS), round(ms * MS)) for at, ms in spans)
        for name, spans in kinds.items()
    }
    return replace(recording, client=ClientSide(**rows))


# -- what stands out -------------------------------------------------------------------------------


@pytest.mark.parametrize("step", [2.0, 5.0, 15.0, 40.0, 230.0])
@pytest.mark.parametrize("seed", range(5))
def test_a_stream_with_uneven_steps_has_no_stall(step: float, seed: int) -> None:
    draw, at = random.Random(seed), 100.0
    times = [at := at + step * draw.uniform(0.85, 1.15) for _ in range(200)]
    assert found(arriving(times)) == ()


def test_the_silence_before_the_first_token_is_none() -> None:
    assert found(arriving(steady(start=5000))) == ()


@pytest.mark.parametrize("n", [0, 1, 2, 3])
def test_too_few_silences_say_nothing(n: int) -> None:
    assert found(arriving(paused(steady(), 2, 900)[:n])) == ()


def test_many_tokens_in_three_lumps_have_no_step() -> None:
    assert found(arriving([100.0] * 9 + [900.0] * 9 + [2500.0] * 9)) == ()


def test_of_few_silences_one_of_three_times_the_median_stands_out() -> None:
    assert found(arriving(paused(steady(8), 4, 100))) == ()
    assert [one.ns for one in found(arriving(paused(steady(8), 4, 110)))] == [110 * MS]


def test_what_one_step_in_ten_does_is_the_streams_way() -> None:
    """Steps that other people's prefills lengthen are no stalls; a longer one is."""
    times = steady(100)
    for at in range(5, 100, 8):
        times = paused(times, at, 60)
    assert found(arriving(times)) == ()
    assert only(arriving(paused(times, 50, 300))).ns >= 300 * MS


def test_several_tokens_an_event_are_no_stall_and_lengthen_no_step() -> None:
    draw, at = random.Random(3), 100.0
    chunks = [
        (at := at + draw.uniform(34, 46), delta("word " * draw.randrange(1, 6))) for _ in range(100)
    ]
    assert found(stream(chunks)) == ()


def bursts(n: int = 80, seed: int = 4) -> list[float]:
    """Speculative decoding: a step brings one to four events, sent at once."""
    draw = random.Random(seed)
    return [100 + STEP * step for step in range(n) for _ in range(draw.randrange(1, 5))]


def test_speculative_bursts_are_no_stall() -> None:
    assert found(arriving(bursts())) == ()


def test_a_slow_stream_shows_its_stall() -> None:
    one = only(arriving(kept(steady(40, step=230), AT, 400)))
    assert (one.cause, one.ns) == ("hold_or_delay", 400 * MS)


def test_every_stall_is_listed_with_its_place() -> None:
    times = paused(kept(steady(), 10, 300), 40, 500)
    first, second = found(arriving(times))
    assert (first.at_ns, first.end_ns, first.ns) == (460 * MS, 800 * MS, 300 * MS)
    assert (second.at_ns, second.end_ns, second.ns) == (1660 * MS, 2200 * MS, 500 * MS)
    assert [first.cause, second.cause] == ["hold_or_delay", "server_pause"]


# -- shift or catch-up -----------------------------------------------------------------------------


@pytest.mark.parametrize("ms", [40, 90, 300, 600])
def test_tokens_that_stay_late_were_made_late(ms: int) -> None:
    one = only(arriving(paused(steady(), AT, ms)))
    assert (one.cause, one.segment, one.part) == ("server_pause", "decode", "pause")
    assert one.ns == one.cost_ns == ms * MS
    assert one.would_split == ""


@pytest.mark.parametrize("ms", [40, 90, 300, 600])
def test_tokens_that_catch_up_had_been_made(ms: int) -> None:
    """It cost the call nothing: decode went on behind it."""
    one = only(arriving(kept(steady(), AT, ms)))
    assert (one.cause, one.segment, one.part) == ("hold_or_delay", "network", "hold")
    assert (one.ns, one.cost_ns) == (ms * MS, 0)
    assert "probe" in one.would_split


def test_what_is_kept_at_the_end_costs_the_call_what_is_left_of_it() -> None:
    """The last five tokens were kept 300 ms; the last of them, 140 ms."""
    one = only(arriving(kept(steady(), N - 5, 300)))
    assert one.cause == "hold_or_delay"
    assert 140 * MS <= one.cost_ns <= 220 * MS


def test_with_nothing_behind_it_nothing_tells() -> None:
    one = only(arriving(paused(steady(), N - 1, 300)))
    assert (one.cause, one.segment, one.confidence) == ("unsplit", None, 0.0)
    assert one.candidates == ("decode", "network")
    assert one.shift is None


def test_half_caught_up_is_not_split() -> None:
    """Neither stays late nor catches up: half of the lateness stays."""
    late = paused(steady(), AT, 150)
    assert only(arriving(kept(late, AT, 150))).cause == "unsplit"


def test_a_path_that_was_slower_for_a_while_is_no_pause() -> None:
    one = found(arriving(slower(steady(), AT, 300, during=450)))[0]
    assert one.cause == "hold_or_delay"


def test_a_second_pause_soon_after_is_judged_from_where_the_first_left_the_stream() -> None:
    first, second = found(arriving(paused(paused(steady(), AT, 400), AT + 4, 300)))
    assert [first.cause, second.cause] == ["server_pause", "server_pause"]
    assert [first.ns, second.ns] == [400 * MS, 300 * MS]


def test_a_hold_right_behind_a_hold_is_judged_by_itself() -> None:
    times = kept(kept(steady(), AT, 400), AT + 6, 400)
    assert {one.cause for one in found(arriving(times))} == {"hold_or_delay"}


def test_a_step_in_several_writes_is_one() -> None:
    """Writes 3 ms apart, steps 171: they are one beat, or each would count as a step."""
    times = [100 + 171.0 * step + 3 * part for step in range(40) for part in range(step % 3 + 1)]
    assert only(arriving(paused(times, 40, 480))).cause == "server_pause"


def test_a_hold_of_speculative_bursts_catches_up() -> None:
    assert only(arriving(kept(bursts(), 60, 400))).cause == "hold_or_delay"


def test_one_event_of_many_tokens_is_many_steps_where_the_server_counts() -> None:
    """A front end that was late sends what it missed as one event."""
    chunks = tokens(20, start=100, step=STEP)
    chunks.append((100 + 20 * STEP + 320, delta("much ")))
    chunks += [(time + 28 * STEP, data) for time, data in tokens(20, start=100 + STEP, step=STEP)]
    timeline = build(stream(chunks))
    counted = [
        arrival._replace(tokens=9 if index == 20 else 1)
        for index, arrival in enumerate(timeline.arrivals)
    ]
    late = replace(timeline, arrivals=tuple(counted))
    assert [one.cause for one in find(late, schedule(late.arrivals))] == ["hold_or_delay"]
    assert [one.cause for one in find(timeline, schedule(timeline.arrivals))] == ["server_pause"]


# -- the probe -------------------------------------------------------------------------------------

BEGIN = 100 + AT * STEP
"""When the stall's first token was due."""


def held_until(end: float) -> Any:
    """Round trips over a path that lets nothing back until then."""
    return lambda at: max(RTT, end - at) if BEGIN - RTT <= at < end else RTT


def test_a_path_that_was_quick_meanwhile_did_not_keep_them() -> None:
    one = only(probed(arriving(kept(steady(), AT, 300)), lambda _: RTT))
    assert (one.cause, one.part, one.would_split) == ("hold", "hold", "")


def test_a_path_that_was_slow_did() -> None:
    one = only(probed(arriving(kept(steady(), AT, 300)), held_until(BEGIN + 300)))
    assert (one.cause, one.segment, one.part) == ("delay", "network", "transit")


def test_a_path_that_stays_slow_is_no_pause() -> None:
    slow = probed(arriving(paused(steady(), AT, 300)), lambda at: RTT if at < BEGIN else RTT + 300)
    assert only(slow).cause == "delay"


def test_a_pause_with_a_quick_path_is_a_pause() -> None:
    assert only(probed(arriving(paused(steady(), AT, 300)), lambda _: RTT)).cause == "server_pause"


def test_a_path_neither_quick_nor_slow_does_not_tell() -> None:
    """A third of the silence is in the round trips."""
    unsure = probed(arriving(kept(steady(), AT, 300)), lambda _: RTT)
    late = [
        sample._replace(rtt_ns=110 * MS)
        if BEGIN * MS <= sample.sent_ns < (BEGIN + 300) * MS
        else sample
        for sample in unsure.rtt_probe
    ]
    assert only(replace(unsure, rtt_probe=tuple(late))).cause == "hold_or_delay"


def test_a_probe_that_did_not_look_meanwhile_tells_nothing() -> None:
    seen = probed(arriving(kept(steady(), AT, 300)), lambda _: RTT)
    blind = [s for s in seen.rtt_probe if not BEGIN - 100 < s.sent_ns / MS < BEGIN + 310]
    assert only(replace(seen, rtt_probe=tuple(blind))).cause == "hold_or_delay"
    few = replace(seen, rtt_probe=seen.rtt_probe[:5])
    assert only(few).cause == "hold_or_delay"


def test_a_probe_packet_that_never_came_back_was_lost() -> None:
    """Sent in the outage, unanswered long after it: nothing kept it, it is gone."""
    gone = probed(
        arriving(kept(steady(), AT, 300)),
        lambda at: None if BEGIN <= at < BEGIN + 200 else RTT,
    )
    assert (only(gone).cause, only(gone).part) == ("loss", "loss")


def test_a_probe_given_up_while_the_silence_lasted_was_not_lost() -> None:
    """The path kept everything 1.5 s, longer than a probe is waited for."""
    end = BEGIN + 1500

    def rtt(at: float) -> float | None:
        back = held_until(end)(at)
        return None if back > 950 else back

    assert only(probed(arriving(kept(steady(120), AT, 1500)), rtt)).cause == "delay"


def test_a_probe_packet_lost_in_an_earlier_silence_does_not_slow_a_later_one() -> None:
    """What was sent after it came back: it was lost, and was not kept until it was given up."""
    times = kept(kept(steady(), AT, 300), AT + 18, 200)
    lossy = probed(arriving(times), lambda at: None if BEGIN <= at < BEGIN + 200 else RTT)
    first, second = found(lossy)
    assert (first.cause, second.cause) == ("loss", "hold")


def test_a_probe_packet_that_a_later_one_overtook_was_lost() -> None:
    """The stream stayed away so long that it would have been given up before that ended."""
    lossy = probed(
        arriving(kept(steady(), AT, 900)),
        lambda at: None if BEGIN <= at < BEGIN + 100 else RTT,
    )
    assert only(lossy).cause == "loss"


# -- out of order ----------------------------------------------------------------------------------


def test_segments_out_of_order_in_the_silence_are_a_loss() -> None:
    lost = snapped(arriving(kept(steady(), AT, 200)), (100, 0), (BEGIN + 200, 3))
    assert (only(lost).cause, only(lost).segment) == ("loss", "network")


@pytest.mark.parametrize(
    "snaps",
    [
        pytest.param(((100, 0), (500, 3), (BEGIN + 200, 3)), id="before"),
        pytest.param(((100, 3), (BEGIN + 200, 3), (2000, 5)), id="after"),
        pytest.param(((100, 3),), id="one snapshot"),
    ],
)
def test_segments_out_of_order_at_another_time_are_not(snaps: Any) -> None:
    one = snapped(arriving(kept(steady(), AT, 200)), *snaps)
    assert only(one).cause == "hold_or_delay"


def test_a_shift_outweighs_segments_out_of_order() -> None:
    """Something small was lost as well; but the tokens stayed late."""
    both = snapped(arriving(paused(steady(), AT, 300)), (100, 0), (BEGIN + 300, 1))
    assert only(both).cause == "server_pause"


def test_but_not_where_a_catch_up_cannot_be_seen() -> None:
    """Three steps that came together look like one where steps bring one to four events."""
    times = [100 + STEP * step for step in range(40) for _ in range(step % 3 + 1)]
    both = snapped(arriving(paused(times, 60, 300)), (100, 0), (times[60] + 300, 2))
    assert only(both).cause == "loss"


@pytest.mark.parametrize("known", [{"at_ns": None}, {"rcv_ooopack": None}])
def test_a_snapshot_without_time_or_count_is_none(known: Any) -> None:
    one = snapped(arriving(kept(steady(), AT, 200)), (100, 0), (BEGIN + 200, 3))
    first, last = one.attempts[-1].tcp_info
    bare = replace(one.attempts[-1], tcp_info=(first, replace(last, **known)))
    assert only(replace(one, attempts=(bare,))).cause == "hold_or_delay"


def restarted(first: int, later: float, ms: float = 400) -> list[float]:
    """An outage: what comes first is so many tokens, the rest of what is due so much later."""
    times = kept(steady(step=20), AT, ms)
    return [
        time + later if index >= AT + first and time < times[AT] + later else time
        for index, time in enumerate(times)
    ]


def over(times: Sequence[float], rtt: float = 40.0) -> str:
    return found(arriving(times, rtt_us=round(rtt * 1000)))[0].cause


def test_a_stream_that_comes_back_by_the_retransmission_timer_was_lost() -> None:
    """One segment, and the rest a round trip later; a byte more than a segment was no restart."""
    assert over(restarted(6, 42)) == "loss"
    assert over(restarted(6, 82)) == "loss"


@pytest.mark.parametrize(
    "times",
    [
        pytest.param(restarted(6, 0), id="at once"),
        pytest.param(restarted(6, 10), id="too soon"),
        pytest.param(restarted(6, 95), id="too late"),
        pytest.param(restarted(11, 42), id="more than a segment"),
        pytest.param(restarted(18, 42), id="most of it at once"),
        pytest.param(restarted(3, 22, ms=120), id="shorter than any timer"),
        pytest.param(kept(steady(step=20), N - 5, 400), id="nothing behind"),
    ],
)
def test_what_comes_back_otherwise_was_kept(times: list[float]) -> None:
    assert over(times) == "hold_or_delay"


def test_a_full_segment_may_bring_more_than_what_follows_it() -> None:
    """Nine events fill a segment, so that what is left comes behind it; eight do not."""
    assert over(restarted(9, 42, ms=260)) == "loss"
    assert over(restarted(8, 42, ms=260)) == "hold_or_delay"


@pytest.mark.parametrize("at", [60, 62, 66, 67])
def test_steps_of_several_events_a_round_trip_apart_are_no_restart(at: int) -> None:
    """After a pause a step brings a segment, and the next, a round trip later, as many again: the
    stream's own way."""
    times = [100 + STEP * step for step in range(60) for _ in range((2, 4, 1, 3)[step % 4])]
    seen = only(arriving(paused(times, at, 400), rtt_us=round(STEP * 1000)))
    assert (seen.cause, seen.segment) == ("server_pause", "decode")


def test_a_path_that_kept_everything_past_the_timer_was_slow_and_lost_nothing() -> None:
    """The sender's timer ran out meanwhile, and it begins anew all the same; the probe's answers
    came when the tokens did."""
    begin = 100 + AT * 20.0
    times = restarted(6, 42)
    kept_all = probed(
        arriving(times, rtt_us=40_000),
        lambda at: max(RTT, begin + 400 - at) if begin - RTT <= at < begin + 400 else RTT,
    )
    assert over(times) == "loss"
    assert {one.cause for one in found(kept_all)} == {"delay"}


def test_without_a_round_trip_of_some_length_a_restart_cannot_be_seen() -> None:
    assert over(restarted(6, 1.9), rtt=1.9) == "hold_or_delay"
    assert found(arriving(restarted(6, 42), rtt_us=None))[0].cause == "hold_or_delay"


def test_the_aftermath_of_a_slow_path_is_its_too() -> None:
    """The sender waits for acknowledgements once more: a silence of a round trip right behind."""
    times = kept(kept(steady(), AT, 300), AT + 8, 120)
    first, second = found(probed(arriving(times), held_until(BEGIN + 300)))
    assert [first.cause, second.cause] == ["delay", "delay"]
    later = kept(kept(steady(), AT, 300), AT + 30, 120)
    assert [one.cause for one in found(probed(arriving(later), held_until(BEGIN + 300)))] == [
        "delay",
        "hold",
    ]


@pytest.mark.parametrize(
    ("rtt", "cause"),
    [
        pytest.param(120, "delay", id="a round trip long"),
        pytest.param(60, "hold", id="two"),
        pytest.param(None, "hold", id="of unknown length"),
    ],
)
def test_a_sender_that_has_more_than_its_window_after_a_hold_waits_a_round_trip(
    rtt: int | None, cause: str
) -> None:
    times = kept(kept(steady(step=20), AT, 400), AT + 21, 120)
    recording = arriving(times, rtt_us=rtt and rtt * 1000)
    assert [one.cause for one in found(probed(recording, lambda _: RTT))] == ["hold", cause]


def test_a_long_hold_soon_after_a_short_delay_is_no_aftermath() -> None:
    """What a sender waits for is a few round trips at most."""
    times = kept(kept(steady(), AT, 60), AT + 4, 400)
    seen = found(probed(arriving(times, rtt_us=20_000), held_until(BEGIN + 60)))
    assert [one.cause for one in seen] == ["delay", "hold"]


def test_after_a_short_hold_it_does_not() -> None:
    """No timer ran out: its window is what it was."""
    times = kept(kept(steady(step=20), AT, 140), AT + 8, 120)
    recording = arriving(times, rtt_us=120_000)
    assert [one.cause for one in found(probed(recording, lambda _: RTT))] == ["hold", "hold"]


@pytest.mark.parametrize(("rtt", "cause"), [(40, "loss"), (32, "unsplit")])
def test_a_round_trip_behind_a_loss_is_its_aftermath_though_too_short_to_tell(
    rtt: int, cause: str
) -> None:
    """The rest comes a round trip behind the first segment; then nothing for another."""
    first, second = found(arriving(restarted(6, 42), rtt_us=rtt * 1000))
    assert first.cause == "loss"
    assert (second.cause, second.shift) == (cause, None)
    assert second.confidence == (CONFIDENCE["loss"][False] if cause == "loss" else 0)


# -- the client ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kinds", "part"),
    [
        pytest.param({"consumer": [(BEGIN - 40, 340)]}, "consumer", id="consumer"),
        pytest.param({"loop_lag": [(BEGIN - 10, 310)]}, "loop_lag", id="loop"),
        pytest.param({"loop_lag": [(BEGIN - 10, 100), (BEGIN + 210, 90)]}, "loop_lag", id="twice"),
        pytest.param({"gc": [(BEGIN - 10, 310)]}, "loop_lag", id="collector"),
    ],
)
def test_a_client_that_was_busy_meanwhile_is_the_cause(kinds: Any, part: str) -> None:
    one = only(hindered(arriving(kept(steady(), AT, 300)), **kinds))
    assert (one.cause, one.segment, one.part) == ("client", "client", part)
    assert "client" in one.candidates


def test_bytes_that_waited_in_the_kernel_waited_for_the_client() -> None:
    late = snapped(arriving(kept(steady(40, 230), AT, 200)), (4900, 0), waited=150)
    assert only(late).cause == "client"


def test_a_client_busy_for_a_little_of_it_is_not() -> None:
    lag = [(BEGIN + 210, 90), (BEGIN + 230, 60)]
    assert only(hindered(arriving(kept(steady(), AT, 300)), loop_lag=lag)).cause == "hold_or_delay"


@pytest.mark.parametrize("kind", ["loop_lag", "gc", "consumer"])
@pytest.mark.parametrize(("early", "cause"), [(1, "client"), (10, "hold_or_delay")])
def test_a_client_that_was_ready_again_before_the_bytes_came_kept_nothing(
    kind: str, early: float, cause: str
) -> None:
    """Client and server stood still together; the tokens came the way's length later."""
    spans = {kind: [(BEGIN - 10, 310 - early)]}
    assert only(hindered(arriving(kept(steady(), AT, 300)), **spans)).cause == cause


def test_tokens_that_were_not_there_when_the_client_read_were_not_kept_by_it() -> None:
    """Eight were due by then, and one had come."""
    lag = [(BEGIN - 10, 310)]
    late = [
        time + 20 if index > AT and time < BEGIN + 320 else time
        for index, time in enumerate(kept(steady(), AT, 300))
    ]
    assert only(hindered(arriving(late), loop_lag=lag)).cause == "hold_or_delay"


def test_what_the_path_still_had_the_client_did_not_keep() -> None:
    """Both stood still; the probe, which waits by itself, saw the path do so."""
    busy = hindered(arriving(kept(steady(), AT, 300)), loop_lag=[(BEGIN - 10, 310)])
    assert only(probed(busy, held_until(BEGIN + 300))).cause == "delay"
    assert only(probed(busy, lambda _: RTT)).cause == "client"


def test_a_pause_behind_a_busy_client_is_still_a_pause() -> None:
    one = only(hindered(arriving(paused(steady(), AT, 300)), consumer=[(BEGIN - 40, 340)]))
    assert one.cause == "server_pause"
    assert one.candidates == ("decode", "network", "client")


def test_a_consumer_that_pauses_between_reads_shows_without_more() -> None:
    """The reader asked 300 ms late and what had come meanwhile was there."""
    times = kept(steady(), AT, 300)
    asked = {index: time - 0.05 for index, time in enumerate(times) if index >= AT}
    asked = {AT: BEGIN + 300 - 0.05}
    assert only(arriving(times, asked=asked)).cause == "client"


# -- quanta ----------------------------------------------------------------------------------------


def together(groups: Sequence[tuple[float, int]], words: Any = lambda _: 1) -> Timeline:
    """So many events at each of these times."""
    chunks = [(at, delta("w " * words(index))) for at, n in groups for index in range(n)]
    return build(stream(chunks))


def test_a_clock_shows_in_its_period() -> None:
    timeline = together([(100 + 224.0 * tick, 10 + tick % 4) for tick in range(10)])
    seen = quantum(beats(timeline.arrivals))
    assert seen is not None
    assert (seen.what, round(seen.size / MS)) == ("time", 224)


def test_a_count_shows_in_the_tokens() -> None:
    draw, at = random.Random(1), 100.0
    groups = [(at := at + draw.uniform(60, 140), 8) for _ in range(12)]
    seen = quantum(beats(together(groups, lambda index: 1 + index % 5).arrivals))
    assert seen is not None
    assert (seen.what, seen.size) == ("tokens", 8)


def test_a_buffer_shows_in_the_bytes() -> None:
    """Events of unlike sizes: what is alike is how many bytes go at once."""
    draw, at = random.Random(2), 100.0
    chunks: list[Chunk] = []
    held = 0
    for _ in range(300):
        data = delta("word " * draw.randrange(1, 120))
        held += len(data)
        if held >= 4096:
            at, held = at + draw.uniform(60, 240), held - 4096
        chunks.append((at, data))
    seen = quantum(beats(build(stream(chunks)).arrivals))
    assert seen is not None
    assert seen.what == "bytes"
    assert 0.9 * 4096 <= seen.size <= 1.1 * 4096


def test_one_at_a_time_is_no_quantum() -> None:
    assert quantum(beats(together([(100 + 40.0 * tick, 1) for tick in range(50)]).arrivals)) is None
    assert quantum(beats(together([(100.0, 50), (300.0, 50)]).arrivals)) is None


def test_bursts_that_nothing_repeats_are_none() -> None:
    draw, at = random.Random(5), 100.0
    groups = [(at := at + draw.uniform(20, 300), draw.randrange(1, 30)) for _ in range(30)]
    assert quantum(beats(together(groups).arrivals)) is None


def test_without_offsets_bytes_say_nothing() -> None:
    timeline = together([(100 + 224.0 * tick, 10 + tick % 4) for tick in range(10)])
    bare = [arrival._replace(offset=0) for arrival in timeline.arrivals]
    seen = quantum(beats(bare))
    assert seen is not None
    assert seen.what == "time"


def test_a_hold_says_the_quantum_of_its_stream() -> None:
    times = [100 + 224.0 * tick for tick in range(30)]
    groups = [(at, 5 + index % 3) for index, at in enumerate(times)]
    groups[15] = (times[15] + 700, 5)
    groups[16:] = [(max(at, times[15] + 700), n) for at, n in groups[16:]]
    timeline = together(groups)
    (one,) = find(timeline, schedule(timeline.arrivals))
    assert one.quantum is not None
    assert one.quantum.what == "time"
    two = replace(
        timeline,
        arrivals=tuple(
            arrival._replace(choice=index % 2) for index, arrival in enumerate(timeline.arrivals)
        ),
    )
    assert [one.quantum for one in find(two, schedule(two.arrivals))] == [None]


# -- tables ----------------------------------------------------------------------------------------


def test_every_cause_has_its_row() -> None:
    assert set(CAUSES) == set(CONFIDENCE) == set(get_args(Cause))


def test_stalls_are_given_in_the_attributions_words() -> None:
    (one,) = attributed(arriving(paused(steady(), AT, 300))).stalls
    assert (one.at_ns, one.ns, one.cause) == (860 * MS, 300 * MS, "server_pause")
    assert one.confidence == CONFIDENCE["server_pause"][False]


def test_a_probe_makes_a_pause_surer() -> None:
    blind = arriving(paused(steady(), AT, 300))
    assert only(probed(blind, lambda _: RTT)).confidence > only(blind).confidence


def test_a_stream_that_stands_still_at_its_start_has_a_schedule() -> None:
    plan = schedule(build(arriving(paused(steady(), 1, 300))).arrivals)
    assert plan is not None
    assert only(arriving(paused(steady(), 1, 300))).ns == 300 * MS
