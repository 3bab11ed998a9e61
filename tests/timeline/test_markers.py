"""Markers: which events prove the server's state, and from whom a comment proves anything."""

from collections.abc import Sequence

import pytest

from latscope.timeline import build
from latscope.units import MS
from tests.calls import DONE, Chunk, delta, finish, sse, stream

KEEP_ALIVE = b": keep-alive\n\n"
PING = b":\n\n"
END: list[Chunk] = [(900, delta("a")), (901, finish()), (902, DONE)]


def marked(
    chunks: Sequence[Chunk],
    *,
    host: str = "127.0.0.1",
    server: str = "uvicorn",
    path: str = "/v1/chat/completions",
) -> list[tuple[float, str]]:
    """(ms, milestone) of each marker of a streamed call."""
    headers = (("server", server),) if server else ()
    made = stream([*chunks, *END], host=host, response_headers=headers, path=path)
    return [(marker.at.latest / MS, marker.milestone) for marker in build(made).markers]


def progress(processed: int) -> bytes:
    choice = {"index": 0, "delta": {"role": "assistant", "content": None}}
    told = {"total": 9, "cache": 0, "processed": processed, "time_ms": 1}
    return sse({"object": "chat.completion.chunk", "choices": [choice], "prompt_progress": told})


@pytest.mark.parametrize("host", ["api.deepseek.com", "deepseek.com", "API.DeepSeek.com"])
def test_deepseeks_keep_alives_say_that_it_waits(host: str) -> None:
    found = marked([(100, KEEP_ALIVE), (200, KEEP_ALIVE)], host=host, server="")
    assert found == [(100, "waiting"), (200, "waiting")]


def test_deepseeks_keep_alives_after_data_prove_nothing() -> None:
    """They were seen after a whole answer, too; another comment is not one of them."""
    chunks = [(100, b": hello\n\n"), (200, delta(role="assistant")), (300, KEEP_ALIVE)]
    assert marked(chunks, host="api.deepseek.com") == []


@pytest.mark.parametrize(
    ("host", "server"),
    [
        ("127.0.0.1", "uvicorn"),  # vLLM: idle, whatever the phase
        ("notdeepseek.com", ""),
        ("deepseek.com.evil.example", ""),
        ("127.0.0.1", "llama.cpp"),  # its pings are empty: somebody else sent this one
        ("openrouter.ai", "cloudflare"),
    ],
)
def test_keep_alives_of_others_prove_nothing(host: str, server: str) -> None:
    chunks = [(100, KEEP_ALIVE), (200, b": OPENROUTER PROCESSING\n\n"), (300, b": ping\n\n")]
    assert marked(chunks, host=host, server=server) == []


@pytest.mark.parametrize("server", ["llama.cpp", "llama.cpp/b11434", "LLAMA.CPP"])
def test_llamas_pings_say_that_its_slot_runs(server: str) -> None:
    """They begin after the slot has; a role chunk before them changes nothing."""
    found = marked([(100, PING), (200, delta(role="assistant")), (300, PING)], server=server)
    assert found == [(100, "scheduled"), (300, "scheduled")]


@pytest.mark.parametrize("server", ["uvicorn", "", "nginx"])
def test_empty_comments_of_others_prove_nothing(server: str) -> None:
    assert marked([(100, PING)], server=server) == []


def test_an_events_own_milestone_counts_whoever_sends_it() -> None:
    found = marked([(100, progress(0)), (200, progress(5)), (300, progress(9))], server="nginx")
    assert found == [(100, "scheduled"), (200, "scheduled"), (300, "prefilled")]


def test_states_go_forward_only() -> None:
    """What would say that a prompt already begun was still waiting is left out."""
    chunks = [(100, progress(9)), (200, progress(0)), (300, progress(9))]
    assert marked(chunks) == [(100, "prefilled"), (300, "prefilled")]


def test_nothing_after_the_first_token() -> None:
    """A tool loop's second prompt is not the one the first token waited for."""
    chunks = [(100, progress(0)), (200, delta("a")), (300, progress(0)), (400, PING)]
    assert marked(chunks, server="llama.cpp") == [(100, "scheduled")]


def test_a_marker_that_found_its_bytes_waiting_came_some_time_before() -> None:
    """It proves its state at some time in the interval, no later than its end."""
    made = stream([(100, progress(0)), (200, progress(5)), *END], at_once=frozenset({1}))
    spans = [marker.at for marker in build(made).markers]
    assert (spans[0].latest, spans[1].earliest, spans[1].latest) == (100 * MS, 100 * MS, 200 * MS)


def test_no_body_no_markers() -> None:
    made = stream([], status=None, headers=None, error="httpx.ReadError")
    assert build(made).markers == ()
    assert build(stream([])).markers == ()
