"""Real SDKs read every scenario in every API: what they give back is what the server generated."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import anthropic
import httpx2
import openai
import pytest

from latscope.documents.scenarios import shipped
from latscope.sim.process import Running
from tests.sim.client import quick

PROMPT = "Tell of the quay in the evening."
SAID: Any = [{"role": "user", "content": PROMPT}]
BROKEN = (openai.APIError, anthropic.APIError, httpx2.RemoteProtocolError, RuntimeError)
"""What the SDKs raise when a stream is cut, or carries an error; openai's Responses helper raises
RuntimeError, as the response never completed."""
WHOLE = ("healthy", "blind", "visible-reasoning", "llama", "rate-limited", "cut", "error-in-band")
"""Scenarios that differ when the answer comes in one body; the others shape the stream."""


def chat(client: openai.OpenAI, model: str) -> str:
    usage: Any = {"include_usage": True}
    text, counted = "", 0
    for chunk in client.chat.completions.create(
        model=model, messages=SAID, stream=True, stream_options=usage
    ):
        text += "".join(choice.delta.content or "" for choice in chunk.choices)
        counted = chunk.usage.completion_tokens if chunk.usage else counted
    assert counted == tokens_of(model)
    return text


def chat_helper(client: openai.OpenAI, model: str) -> str:
    with client.chat.completions.stream(model=model, messages=SAID) as stream:
        completion = stream.get_final_completion()
    assert completion.choices[0].finish_reason == "stop"
    return completion.choices[0].message.content or ""


def completions(client: openai.OpenAI, model: str) -> str:
    stream = client.completions.create(model=model, prompt=PROMPT, stream=True)
    return "".join(choice.text for chunk in stream for choice in chunk.choices)


def responses(client: openai.OpenAI, model: str) -> str:
    text = ""
    with client.responses.stream(model=model, input=PROMPT) as stream:
        for event in stream:
            text += event.delta if event.type == "response.output_text.delta" else ""
        final = stream.get_final_response()
    assert final.output_text == text
    assert final.status == "completed"
    assert final.usage is not None
    assert final.usage.output_tokens == tokens_of(model)
    return text


def messages(client: anthropic.Anthropic, model: str) -> str:
    with client.messages.stream(model=model, messages=SAID, max_tokens=500) as stream:
        text = "".join(stream.text_stream)
        final = stream.get_final_message()
    assert final.usage.output_tokens == tokens_of(model)
    assert final.stop_reason == "end_turn"
    return text


def whole_chat(client: openai.OpenAI, model: str) -> str:
    answer = client.chat.completions.create(model=model, messages=SAID)
    return answer.choices[0].message.content or ""


def whole_completions(client: openai.OpenAI, model: str) -> str:
    return client.completions.create(model=model, prompt=PROMPT).choices[0].text


def whole_responses(client: openai.OpenAI, model: str) -> str:
    return client.responses.create(model=model, input=PROMPT).output_text


def whole_messages(client: anthropic.Anthropic, model: str) -> str:
    answer = client.messages.create(model=model, messages=SAID, max_tokens=500)
    return "".join(block.text for block in answer.content if block.type == "text")


OPENAI: dict[str, Callable[[openai.OpenAI, str], str]] = {
    each.__name__: each
    for each in (
        chat,
        chat_helper,
        completions,
        responses,
        whole_chat,
        whole_completions,
        whole_responses,
    )
}
ANTHROPIC: dict[str, Callable[[anthropic.Anthropic, str], str]] = {
    each.__name__: each for each in (messages, whole_messages)
}


def cases(ways: Iterable[str]) -> list[tuple[str, str]]:
    return [
        (way, model)
        for way in sorted(ways)
        for model in (WHOLE if way.startswith("whole") else sorted(shipped()))
    ]


def tokens_of(model: str) -> int:
    scenario = quick(shipped()[model])
    return scenario.hidden_reasoning_tokens + scenario.reasoning_tokens + scenario.output_tokens


def words_of(model: str, way: str) -> int:
    """How many words the visible answer has; completions show their reasoning as text."""
    scenario = quick(shipped()[model])
    shown = scenario.output_tokens
    return shown + (scenario.reasoning_tokens if "completions" in way else 0)


@pytest.fixture(scope="module")
def openai_client(running: Running) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{running.base_url}/v1", api_key="none") as client:
        yield client


@pytest.fixture(scope="module")
def anthropic_client(running: Running) -> Iterator[anthropic.Anthropic]:
    with anthropic.Anthropic(base_url=running.base_url, api_key="none") as client:
        yield client


def check(read: Callable[[Any, str], str], client: Any, model: str) -> None:
    scenario = shipped()[model]
    if scenario.cut_after_token is not None or scenario.error_in_band_after_token is not None:
        with pytest.raises(BROKEN):
            read(client.with_options(max_retries=0), model)
        return
    text = read(client, model)
    joined = words_of(model, read.__name__)
    # Where reasoning and answer are one text, the first word of the answer joins the last of it.
    seam = int(scenario.reasoning_tokens > 0 and "completions" in read.__name__)
    assert len(text.split()) == joined - seam


@pytest.mark.parametrize(("way", "model"), cases(OPENAI))
def test_the_openai_sdk_reads_every_scenario(
    openai_client: openai.OpenAI, way: str, model: str
) -> None:
    check(OPENAI[way], openai_client, model)


@pytest.mark.parametrize(("way", "model"), cases(ANTHROPIC))
def test_the_anthropic_sdk_reads_every_scenario(
    anthropic_client: anthropic.Anthropic, way: str, model: str
) -> None:
    check(ANTHROPIC[way], anthropic_client, model)


def test_the_sdks_list_the_scenarios(
    openai_client: openai.OpenAI, anthropic_client: anthropic.Anthropic
) -> None:
    ids = {model.id for model in openai_client.models.list()}
    assert set(shipped()) <= ids == {model.id for model in anthropic_client.models.list()}


def test_the_sdks_know_the_errors(
    openai_client: openai.OpenAI, anthropic_client: anthropic.Anthropic
) -> None:
    """An unknown model is NotFoundError in both."""
    with pytest.raises(openai.NotFoundError, match="does not exist"):
        whole_chat(openai_client, "nothing-like-it")
    with pytest.raises(anthropic.NotFoundError, match="does not exist"):
        whole_messages(anthropic_client, "nothing-like-it")
