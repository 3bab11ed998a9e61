"""Fixtures that run the real engines, one of each for a whole test session."""

import os
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest

from tests.engines import install, servers


def need(engine: str) -> None:
    """Skip without the engine, or fail where LATSCOPE_ENGINES_REQUIRED=1 says it must be there."""
    if install.installed(engine):
        return
    reason = f"{engine} is not installed: python tests/engines/install.py {engine}"
    if os.environ.get("LATSCOPE_ENGINES_REQUIRED") == "1":
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def vllm_server() -> Iterator[servers.Server]:
    """vLLM on the CPU, with per-request figures."""
    need("vllm")
    with servers.vllm() as server:
        yield server


@pytest.fixture(scope="session")
def llama_server() -> Iterator[servers.Server]:
    """llama.cpp's own server."""
    need("llama")
    with servers.llama() as server:
        yield server


@pytest.fixture(scope="session")
def nginx_server(llama_server: servers.Server) -> Iterator[servers.Server]:
    """nginx in front of llama.cpp, as it should be set up: HTTP/1.1, streams pass."""
    need("nginx")
    with servers.nginx(urlsplit(llama_server.base_url).port or 80) as server:
        yield server
