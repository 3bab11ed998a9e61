from collections.abc import Iterator

import pytest

from latscope.middleware import compose

from .server import serving


@pytest.fixture(scope="session")
def url() -> Iterator[str]:
    with serving() as base:
        yield f"{base}/chat/completions"


@pytest.fixture(autouse=True)
def _no_leftovers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test begins with an empty ring and no file from the environment."""
    monkeypatch.delenv("LATSCOPE_FILE", raising=False)
    compose.recent()
    compose._ring.clear()
