import contextlib
import gc
import importlib
from collections.abc import Iterator

import anthropic  # noqa: F401 - loaded before the freeze
import openai  # noqa: F401
import pytest

from latscope.capture import sdk


@pytest.fixture(scope="session", autouse=True)
def cheap_collections() -> Iterator[None]:
    """The SDKs' many classes leave the collector's sight: these tests run it often."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture(autouse=True)
def time_to_drain(monkeypatch: pytest.MonkeyPatch) -> None:
    """openai gives the rest of a stream a tenth of a second; on a busy machine that is luck."""
    with contextlib.suppress(ImportError):
        cleanup = importlib.import_module("openai._streaming_cleanup")
        monkeypatch.setattr(cleanup, "_DRAIN_TIMEOUT", 20.0, raising=False)


class Nobody:
    """A client that was never hooked."""


@pytest.fixture(autouse=True)
def no_hook_is_left() -> Iterator[None]:
    """A hook that a test forgot would make the next test's SDK calls hooked ones."""
    yield
    for base, (_, _, hooked) in list(sdk._HOOKED.items()):
        hooked.clear()
        sdk.unhook(base, Nobody())
