"""The hook on the SDK's class: it leaves as it came, and yields to other tools."""

from typing import Any

import pytest

from latscope.capture import sdk
from latscope.capture.instrument import attach, detach
from latscope.capture.recorder import CURRENT
from latscope.recording import Recording
from tests.capture import bodies, clients, styles
from tests.capture.scripted import serving


@pytest.fixture
def recordings() -> list[Recording]:
    return []


def test_the_hook_leaves_with_the_last_client(recordings: list[Recording]) -> None:
    """Two clients hooked: the SDK's own method is back when both are gone, not before."""
    import openai

    first, second = (clients.make("openai", "http://localhost") for _ in range(2))
    base = sdk.base_of(first)
    assert base is not None
    bare = base.__dict__["request"]
    attach(first, done=recordings.append)
    attach(second, done=recordings.append)
    assert base.__dict__["request"] is not bare
    detach(first)
    assert base.__dict__["request"] is not bare
    detach(second)
    detach(second)
    assert base.__dict__["request"] is bare
    assert isinstance(first, openai.OpenAI)
    first.close()
    second.close()


def test_a_hook_that_others_wrapped_stays_and_is_idle(recordings: list[Recording]) -> None:
    """Another tool patched over ours: taking ours out would lose theirs; it does nothing more.
    The tool leaves and puts ours back: hooking again still makes one call of a call."""
    replies = [bodies.chat(), bodies.chat()]
    with serving(*replies) as server, clients.make("openai", server.url) as client:
        base: Any = sdk.base_of(client)
        bare = base.__dict__["request"]
        attach(client, done=recordings.append)
        ours = base.__dict__["request"]

        def theirs(self: Any, *args: Any, **kwargs: Any) -> Any:
            return ours(self, *args, **kwargs)

        base.request = theirs
        detach(client)
        assert base.__dict__["request"] is theirs
        client.chat.completions.create(**styles.CHAT)
        assert recordings == []
        base.request = ours
        sdk.unhook(base, client._client)
        assert base.__dict__["request"] is bare
        base.request = ours
        attach(client, done=recordings.append)
        client.chat.completions.create(**styles.CHAT)
        assert len(recordings) == 1
        detach(client)
        assert base.__dict__["request"] is bare


def test_a_call_inside_a_call_is_its_own(recordings: list[Recording]) -> None:
    """An SDK call made while another is under way (here: by a request hook) is not its attempt."""
    import openai

    with serving(bodies.chat(), bodies.chat()) as server:
        nested: list[Any] = []

        def ask_first(request: Any) -> None:
            if not nested:
                nested.append(request)
                client.chat.completions.create(**styles.CHAT)

        http = clients.library_of(openai).Client(event_hooks={"request": [ask_first]})
        client: Any = openai.OpenAI(api_key=clients.KEY, base_url=server.url, http_client=http)
        attach(client, done=recordings.append)
        client.chat.completions.create(**styles.CHAT)
        client.close()
    inner, outer = recordings
    assert [len(r.attempts) for r in recordings] == [1, 1]
    assert (inner.in_flight, outer.in_flight) == (1, 0)


def test_an_sdk_whose_tap_fails_is_not_felt(
    recordings: list[Recording], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The hook cannot open a call: the SDK's answer comes all the same."""

    def fail(*_: object) -> None:
        raise RuntimeError

    with serving(bodies.chat()) as server, clients.make("openai", server.url) as client:
        attach(client, done=recordings.append)
        monkeypatch.setattr(sdk, "tap_of", fail)
        assert client.chat.completions.create(**styles.CHAT).id == "chatcmpl-1"


async def test_clients_that_are_not_tapped_pass_through_the_hook(
    recordings: list[Recording],
) -> None:
    """The hook sits on the class: other clients of it are not recorded."""
    with serving(bodies.chat(), bodies.chat(), bodies.chat()) as server:
        async with (
            clients.make("openai-async", server.url) as tapped,
            clients.make("openai-async", server.url) as other,
        ):
            attach(tapped, done=recordings.append)
            await other.chat.completions.create(**styles.CHAT)
            assert recordings == []
            await tapped.chat.completions.create(**styles.CHAT)
            detach(tapped)
    assert len(recordings) == 1


def test_no_call_is_current_outside_the_sdk(recordings: list[Recording]) -> None:
    """Between chunks, and after, the caller's context holds no call."""
    with serving(bodies.chat_stream()) as server, clients.make("openai", server.url) as client:
        attach(client, done=recordings.append)
        for _ in client.chat.completions.create(**styles.CHAT, stream=True):
            assert CURRENT.get() is None
    assert CURRENT.get() is None
