"""httpx2 clients that record their calls from the start."""

from typing import Any

import httpx2

from latscope.capture.instrument import attach
from latscope.capture.tap import Context, Done, Outgoing


class Client(httpx2.Client):
    """`httpx2.Client`, instrumented; arguments as there, and those of `instrument.attach`."""

    def __init__(
        self,
        *args: Any,
        done: Done,
        outgoing: Outgoing | None = None,
        context: Context | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        attach(self, done=done, outgoing=outgoing, context=context)


class AsyncClient(httpx2.AsyncClient):
    """`httpx2.AsyncClient`, instrumented; arguments as there, and those of `instrument.attach`."""

    def __init__(
        self,
        *args: Any,
        done: Done,
        outgoing: Outgoing | None = None,
        context: Context | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        attach(self, done=done, outgoing=outgoing, context=context)
