import pytest

from latscope.errors import UsageError
from latscope.probe.targets import VENDORS, key, target


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("http://127.0.0.1:8000", "http://127.0.0.1:8000/v1/chat/completions"),
        ("http://127.0.0.1:8000/", "http://127.0.0.1:8000/v1/chat/completions"),
        ("http://127.0.0.1:8000/v1", "http://127.0.0.1:8000/v1/chat/completions"),
        ("http://127.0.0.1:8000/v1/", "http://127.0.0.1:8000/v1/chat/completions"),
        ("http://h/v1/chat/completions", "http://h/v1/chat/completions"),
        ("http://h/v1/completions", "http://h/v1/completions"),
        ("http://h/v1/messages", "http://h/v1/messages"),
        ("http://h/v1/responses", "http://h/v1/responses"),
        ("https://h/serving", "https://h/serving/v1/chat/completions"),
        ("https://h/v1beta/openai", "https://h/v1beta/openai/chat/completions"),
        ("localhost:8000", "http://localhost:8000/v1/chat/completions"),
        ("127.0.0.1:8000", "http://127.0.0.1:8000/v1/chat/completions"),
        ("models.example.org", "https://models.example.org/v1/chat/completions"),
        ("http://[::1]:8000", "http://[::1]:8000/v1/chat/completions"),
        ("openai", "https://api.openai.com/v1/chat/completions"),
        ("Anthropic", "https://api.anthropic.com/v1/messages"),
        ("perplexity", "https://api.perplexity.ai/chat/completions"),
        ("https://api.groq.com", "https://api.groq.com/openai/v1/chat/completions"),
        ("https://openrouter.ai/", "https://openrouter.ai/api/v1/chat/completions"),
        ("ollama", "http://127.0.0.1:11434/v1/chat/completions"),
    ],
)
def test_a_word_names_an_address(text: str, url: str) -> None:
    """With or without /v1, with or without the API's own path, or a vendor's name."""
    assert target(text).url == url


def test_a_vendors_url_is_that_vendor() -> None:
    """Its key and spellings go with its host, over TLS only: a key is not for anyone else."""
    assert target("https://api.openai.com").key_variable == "OPENAI_API_KEY"
    assert target("https://api.anthropic.com").api == "messages"
    assert target("http://api.openai.com").key_variable is None
    assert target("https://api.openai.com.evil.example").key_variable is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("opnai", "did you mean openai"),
        ("what is this", "Give a URL"),
        ("ftp://h", "no http or https URL"),
        ("http://", "no http or https URL"),
        ("http://h:port", "no port"),
        ("http://h:99999", "no port"),
    ],
)
def test_what_names_none_is_wrong_usage(text: str, said: str) -> None:
    """One line that says what would do."""
    with pytest.raises(UsageError, match=said):
        target(text)


def test_credentials_in_a_url_are_refused_and_not_repeated() -> None:
    """They would end up in recordings and logs."""
    with pytest.raises(UsageError) as caught:
        target("https://user:very-secret@h/v1")
    assert "secret" not in str(caught.value)


def test_options_win() -> None:
    """--api and --key-env over the vendor's own; an unknown API is refused."""
    found = target("openai", api="responses", key_variable="MINE")
    assert (found.url, found.key_variable) == ("https://api.openai.com/v1/responses", "MINE")
    with pytest.raises(UsageError, match="unknown API"):
        target("openai", api="chats")


def test_keys_come_from_the_environment() -> None:
    """Missing, the variable is named; odd, it is not shown; none wanted, none read."""
    openai = target("openai")
    assert key(openai, {"OPENAI_API_KEY": " sk-1 "}) == "sk-1"
    assert key(target("vllm"), {"OPENAI_API_KEY": "sk-1"}) is None
    with pytest.raises(UsageError, match="OPENAI_API_KEY"):
        key(openai, {})
    with pytest.raises(UsageError) as caught:
        key(openai, {"OPENAI_API_KEY": "sk-1\nsk-2"})
    assert "sk-1" not in str(caught.value)


@pytest.mark.parametrize("name", VENDORS)
def test_every_vendor_is_reached_safely(name: str) -> None:
    """A key never travels in the clear: a row with a key is https."""
    row = VENDORS[name]
    assert row.base_url.startswith("https://") or row.key_variable is None
    assert not row.base_url.endswith("/")


@pytest.mark.parametrize(
    ("text", "api", "url"),
    [
        ("ollama", "ollama", "http://127.0.0.1:11434/api/chat"),
        ("lmstudio", "lmstudio", "http://127.0.0.1:1234/api/v1/chat"),
        ("http://h:11434", "ollama", "http://h:11434/api/chat"),
        ("http://h:11434/api/chat", None, "http://h:11434/api/chat"),
        ("http://h:1234/proxy/api/v1/chat", None, "http://h:1234/proxy/api/v1/chat"),
    ],
)
def test_native_apis_lie_beside_v1(text: str, api: str | None, url: str) -> None:
    """The list of models is asked of `/v1` all the same: both servers have it."""
    found = target(text, api=api)
    assert found.url == url
    assert found.base_url.endswith("/v1")
