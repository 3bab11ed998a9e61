"""Fixtures of the lab: a machine that can have a path, the hops, and one call through each."""

import os
from collections.abc import Callable, Iterator
from functools import cache

import pytest

from tests.lab import hops, install, kernel, leftovers
from tests.lab.cases import CASES, Told, make_call

REQUIRED = os.environ.get("LATSCOPE_ENGINES_REQUIRED") == "1"


def _absent(reason: str) -> None:
    """Skip, or fail where LATSCOPE_ENGINES_REQUIRED=1 says that nothing may be missing."""
    if REQUIRED:
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)


def need(proxy: str) -> None:
    """Ask for a proxy's program."""
    if proxy in install.INSTALLERS and install.binary(proxy) is None:
        _absent(f"{proxy} is not installed: python -m tests.lab.install {proxy}")


@pytest.fixture(scope="session", autouse=True)
def nothing_left_over() -> Iterator[None]:
    """What a killed run left is cleared away before; this run leaves nothing behind."""
    leftovers.sweep()
    yield
    assert leftovers.mine() == []


@pytest.fixture(scope="session")
def needs_namespaces() -> None:
    """Skip, saying why, where network namespaces and TUN devices cannot be made."""
    reason = kernel.why_not()
    if reason is not None:
        _absent(reason)


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> hops.Certificate:
    """A certificate of 127.0.0.1 the client is told to trust."""
    return hops.certificate(tmp_path_factory.mktemp("certificate"))


@pytest.fixture(scope="session")
def call_through(certificate: hops.Certificate) -> Callable[[str], Told]:
    """The call through a case's hop; made once a session."""

    @cache
    def told(name: str) -> Told:
        need(CASES[name].proxy)
        return make_call(name, certificate)

    return told
