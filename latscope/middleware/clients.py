"""httpx2 clients that are instrumented from birth."""

from typing import Any

import httpx2

from latscope.middleware.compose import instrument


class Client(httpx2.Client):
    """An httpx2.Client whose calls are recorded as `latscope.instrument` does by default."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        instrument(self)


class AsyncClient(httpx2.AsyncClient):
    """An httpx2.AsyncClient whose calls are recorded as `latscope.instrument` does by default."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        instrument(self)
