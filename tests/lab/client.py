"""An instrumented client: one streamed chat call, as latscope captured it.

    python -m tests.lab.client URL

prints the recording as one line. In the lab's namespaces it runs as a process of its own.
"""

import ssl
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2

from latscope.capture.instrument import attach
from latscope.middleware.pipeline import finish
from latscope.recording import Recording, to_line
from tests.lab import kernel

PATH = "/v1/chat/completions"
BODY: dict[str, Any] = {
    "model": "lab",
    "messages": [{"role": "user", "content": "Where does the time go?"}],
    "stream": True,
    "stream_options": {"include_usage": True},
}
TIMEOUT_S = 60.0


def ask(
    base_url: str,
    *,
    http2: bool = False,
    trust: Path | None = None,
    encoding: str = "identity",
    tags: Mapping[str, str] | None = None,
    content: Iterator[bytes] | None = None,
) -> Recording:
    """Make one call and read it to its end; the recording is what a sink would be given.

    trust: the certificate to believe. content: the request body in parts, in the place of BODY.
    """
    found: list[Recording] = []
    verify = ssl.create_default_context(cafile=str(trust)) if trust else True
    headers = {"accept-encoding": encoding, "content-type": "application/json"}
    sent = {"json": BODY} if content is None else {"content": content}
    with httpx2.Client(http2=http2, verify=verify, timeout=TIMEOUT_S, trust_env=False) as client:
        attach(client, done=found.append)
        with client.stream("POST", base_url + PATH, headers=headers, **sent) as response:
            for _ in response.iter_bytes():
                pass
    (recording,) = found
    finished = finish(recording)
    return replace(finished, tags=dict(tags or {}))


if __name__ == "__main__":
    kernel.go_ahead()
    print(to_line(ask(sys.argv[1])))
