"""The simulated server in a process of its own, so that it never shares the caller's loop or GIL.

with start(by_name(["healthy"])) as running:
    ... requests to running.base_url + "/v1" ...
    stamps = running.truth(request_id)
"""

import json
import select
import subprocess
import sys
import tempfile
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from time import monotonic
from typing import IO, Any

from latscope.documents.scenarios import Scenario, shipped
from latscope.errors import EndpointError, UsageError
from latscope.sim.stamps import Stamps, from_mapping

COMMAND = (sys.executable, "-P", "-m", "latscope.sim", "--stdin")
"""-P: a file in the caller's folder must not shadow a module of the child."""

_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """A server that answers. base_url has no trailing slash and no /v1."""

    base_url: str
    pid: int

    def truth(self, call_id: str) -> Stamps:
        """What the server saw of the exchange with that x-request-id. Raises UsageError when it
        knows none (the last 2,000 are kept)."""
        try:
            return from_mapping(_get(f"{self.base_url}/_latscope/truth/{_quoted(call_id)}"))
        except urllib.error.HTTPError as error:
            error.close()
            raise UsageError(f"the simulator kept no call {call_id!r}") from error

    def truths(self) -> list[Stamps]:
        """Every exchange kept, the oldest first."""
        return [from_mapping(plain) for plain in _get(f"{self.base_url}/_latscope/truth")["calls"]]


@contextmanager
def start(
    scenarios: Iterable[Scenario] | None = None, *, port: int = 0, timeout_s: float = 30
) -> Iterator[Running]:
    """Serves the scenarios (all shipped ones by default) while the block runs; afterwards the
    process has ended and was waited for. Raises EndpointError, with what the server said, when it
    does not answer within timeout_s."""
    chosen = list(shipped().values() if scenarios is None else scenarios)
    plain = [scenario.model_dump(mode="json", by_alias=True) for scenario in chosen]
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(
            [*COMMAND, "--port", str(port)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=said,
        )
        try:
            url = _ready(process, json.dumps(plain), said, timeout_s)
            yield Running(base_url=url, pid=process.pid)
        finally:
            _stop(process)


def _ready(process: subprocess.Popen[bytes], scenarios: str, said: IO[bytes], wait_s: float) -> str:
    """The base URL, once the server has printed it and answers for its health."""
    assert process.stdin is not None
    assert process.stdout is not None
    deadline = monotonic() + wait_s
    try:
        process.stdin.write(scenarios.encode() + b"\n")
        process.stdin.flush()
    except BrokenPipeError:
        raise EndpointError(_why(process, said)) from None
    heard, _, _ = select.select([process.stdout], [], [], max(deadline - monotonic(), 0))
    line = process.stdout.readline() if heard else b""
    if not line:
        raise EndpointError(_why(process, said))
    url: str = json.loads(line)["ready"]
    _get(f"{url}/health")
    return url


def _why(process: subprocess.Popen[bytes], said: IO[bytes]) -> str:
    _stop(process)
    said.seek(0)
    lines = said.read().decode(errors="replace").strip().splitlines()
    return f"the simulated server did not start: {lines[-1] if lines else 'no answer in time'}"


def _stop(process: subprocess.Popen[bytes]) -> None:
    """Ends it by closing its input, by force when that takes over five seconds; no zombie stays."""
    if process.stdin is not None and not process.stdin.closed:
        with suppress(BrokenPipeError):
            process.stdin.close()
    try:
        process.wait(5)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    if process.stdout is not None:
        process.stdout.close()


def _get(url: str) -> Any:
    try:
        with _DIRECT.open(url, timeout=10) as response:
            return json.load(response)
    except urllib.error.HTTPError:
        raise
    except OSError as error:
        raise EndpointError(f"{url}: the simulated server does not answer: {error}") from error


def _quoted(call_id: str) -> str:
    return urllib.parse.quote(call_id, safe="")
