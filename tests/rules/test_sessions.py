"""Which calls belong together."""

from dataclasses import replace
from hashlib import blake2b
from itertools import accumulate
from typing import Any

from latscope.rules.sessions import Place, Step, follows, placed, siblings, step_of
from latscope.units import S
from tests.rules.made import call


def step(number: int, **more: Any) -> Step:
    """A call that begins `number` seconds in and lasts half a second."""
    given: dict[str, Any] = {"id": f"c{number}", "at_ns": number * S, "wall_ns": S // 2, **more}
    return Step(**given)


def hashes(words: str) -> str:
    """Of blocks that hold these letters: each over all before it."""
    texts = accumulate(words)
    return "".join(blake2b(text.encode(), digest_size=8).hexdigest() for text in texts)


def places(*steps: Step) -> list[tuple[str | None, str, int]]:
    return [(place.session, place.tie, place.turn) for place in placed(steps)]


def prompt(turns: int, words: str) -> dict[str, Any]:
    """A prompt with so many questions answered before its own: 100 bytes each, like the answers."""
    return {
        "hashes": hashes(words),
        "messages": 2 + 2 * turns,
        "history": 200 * turns,
        "last": 100,
    }


def test_calls_of_one_conversation_are_a_session_and_each_call_a_turn() -> None:
    found = places(step(0, conversation="a"), step(1, conversation="b"), step(2, conversation="a"))
    assert found == [("a", "conversation", 0), ("b", "conversation", 0), ("a", "conversation", 1)]


def test_the_order_of_the_calls_given_does_not_matter() -> None:
    first, second = step(0, conversation="a"), step(1, conversation="a")
    assert [place.turn for place in placed([second, first])] == [1, 0]


def test_an_answer_that_is_continued_makes_a_chain() -> None:
    """Also when the call that made the first answer is not in the file."""
    chain = (step(0, response="r1"), step(1, response="r2", before="r1"), step(2, before="r2"))
    assert places(*chain) == [("r1", "response chain", turn) for turn in range(3)]
    assert places(step(0, before="r0"), step(1, before="r0"))[1] == ("r0", "response chain", 1)


def test_the_same_answer_twice_ties_nothing() -> None:
    """A gateway's cache hands out one answer to many."""
    assert places(step(0, response="r1"), step(1, response="r1"))[1] == (None, "nothing", 0)


def test_calls_of_one_trace_or_turn_are_one_turn() -> None:
    assert places(step(0, trace="t"), step(1, trace="t"), step(2, trace="u")) == [
        ("t", "trace", 0),
        ("t", "trace", 0),
        ("u", "trace", 0),
    ]
    assert places(step(0, turn="x"), step(1, turn="x")) == [("x", "turn", 0), ("x", "turn", 0)]


def test_the_turns_of_a_conversation_are_its_traces() -> None:
    found = places(*(step(at, conversation="a", trace=f"t{at // 2}") for at in range(4)))
    assert found == [("a", "conversation", turn) for turn in (0, 0, 1, 1)]


def test_a_trace_around_two_conversations_does_not_make_them_one() -> None:
    found = places(
        *(step(at, conversation=name, trace="t") for at, name in enumerate("abab")),
        step(9, trace="t"),
    )
    assert [session for session, _, _ in found] == ["a", "b", "a", "b", "a"]


def test_a_call_that_gives_results_back_goes_on_with_its_turn() -> None:
    found = places(
        step(0, conversation="a"),
        step(1, conversation="a", results=2),
        step(2, conversation="a"),
    )
    assert [turn for _, _, turn in found] == [0, 0, 1]


def test_a_call_that_overlaps_is_of_the_same_turn() -> None:
    found = places(
        step(0, conversation="a", wall_ns=3 * S),
        step(1, conversation="a"),
        step(2, conversation="a"),
        step(4, conversation="a"),
    )
    assert [turn for _, _, turn in found] == [0, 0, 0, 1]


def test_a_prompt_that_holds_another_and_more_continues_it() -> None:
    found = places(
        step(0, **prompt(0, "sqx")), step(1, **prompt(1, "sqaby")), step(2, **prompt(2, "sqabcdz"))
    )
    assert found == [("c0", "shared prefix", turn) for turn in range(3)]


def test_of_two_that_could_be_continued_the_longer_one_is() -> None:
    """Two conversations with the same first question, told apart by the second."""
    found = places(
        step(0, **prompt(0, "sqx")),
        step(1, **prompt(1, "sqaby")),
        step(2, **prompt(1, "sqefz")),
        step(3, **prompt(2, "sqefghw")),
    )
    assert found[3][0] == found[2][0]


def test_prompts_that_only_share_a_template_are_not_tied() -> None:
    assert places(step(0, **prompt(0, "sqx")), step(1, **prompt(0, "sqy"))) == [
        (None, "nothing", 0),
        (None, "nothing", 0),
    ]


def test_a_prompt_is_not_continued_before_its_answer_is_there() -> None:
    first = step(0, **prompt(0, "sqx"), wall_ns=5 * S)
    assert places(first, step(1, **prompt(1, "sqaby")))[1] == (None, "nothing", 0)


def test_another_model_does_not_continue_it_nor_does_a_prompt_without_sizes() -> None:
    first, second = step(0, **prompt(0, "sqx")), step(1, **prompt(1, "sqaby"))
    assert placed([first, replace(second, place=("other", None))])[1].session is None
    assert placed([first, replace(second, messages=None)])[1].session is None
    assert placed([first, replace(second, history=0)])[1].session is None


def test_of_many_prompts_that_end_alike_only_the_latest_are_looked_at() -> None:
    first = [step(at, **prompt(0, "sqx")) for at in range(70)]
    found = placed([*first, step(99, **prompt(1, "sqaby"))])
    assert (found[-1].session, found[69].session, found[0].session) == ("c69", "c69", None)


def test_what_follows_what() -> None:
    before = step(0, response="r", **prompt(0, "sqx"))
    assert follows(step(1, before="r"), before)
    assert follows(step(1, results=1), before)
    assert follows(step(1, **prompt(1, "sqaby")), before)
    assert not follows(step(1, **prompt(0, "sqy")), before)
    assert not follows(step(1), step(0))


def test_siblings_ask_the_same_of_different_input() -> None:
    one = step(0, **prompt(0, "sqx"))
    assert siblings(step(1, **prompt(0, "sqy")), one)
    assert not siblings(step(1, **prompt(0, "tqy")), one)
    assert not siblings(step(1, **prompt(1, "sqy")), one)
    assert not siblings(step(1, results=1, **prompt(0, "sqy")), one)
    assert not siblings(step(1, messages=2), one)
    assert not siblings(step(1), step(0))
    assert not siblings(step(1, place=("other", None), **prompt(0, "sqy")), one)


def test_a_step_is_read_from_a_call() -> None:
    found = step_of(
        call(
            "c1", 3 * S, session="a", turn="t", e2e=2 * S, request__history_bytes=10, tool_results=1
        )
    )
    assert (found.id, found.conversation, found.turn, found.wall_ns) == ("c1", "a", "t", 2 * S)
    assert (found.history, found.results, found.end_ns - found.at_ns) == (10, 1, 2 * S)
    bare = step_of({"call_id": "x", "started_at": "1970-01-01T00:00:01.000002Z"})
    assert (bare.at_ns, bare.wall_ns, bare.messages) == (1_000_002_000, 0, None)


def test_no_calls_no_places() -> None:
    assert placed([]) == []
    assert placed([step(0)]) == [Place(session=None, tie="nothing", turn=0)]
