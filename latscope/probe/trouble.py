"""What went wrong with a call, in one line: what, where, what to do.

The table is read from the top; the first row that applies has the word. Nothing here shows a key:
answers to a refused key are not quoted, since some quote the key.
"""

import json
import re
import socket
import ssl
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from difflib import get_close_matches
from urllib.parse import urlsplit

import httpx2

from latscope.attribution.model import Attribution
from latscope.probe.requests import Ask, cap_name
from latscope.probe.run import Result

QUOTE = 160
"""Characters quoted of a server's own message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One call, as the rows see it."""

    result: Result
    call: Attribution | None
    timeout_s: float
    message: str = field(default="", repr=False)

    @property
    def ask(self) -> Ask:
        return self.result.ask

    @property
    def where(self) -> str:
        return self.ask.target.url

    @property
    def host(self) -> str:
        return urlsplit(self.ask.target.base_url).netloc

    @property
    def phase(self) -> str | None:
        return self.call.error.phase if self.call and self.call.error else None


def trouble(result: Result, call: Attribution | None, timeout_s: float) -> str | None:
    """The line, without the key whatever the server wrote; null when the call completed."""
    ask = result.ask
    case = Case(result=result, call=call, timeout_s=timeout_s, message=_message(result.head))
    said = next((line for row in ROWS if (line := row(case)) is not None), None)
    if said is not None:
        for secret in _secrets(ask):
            said = said.replace(secret, "(key)")
    return None if said is None else " ".join(said.split())


def _secrets(ask: Ask) -> list[str]:
    """The key, and whatever else was given in a header, whole and without its scheme's name."""
    given = [ask.key or "", *(part for _, value in ask.headers for part in (value, *value.split()))]
    return sorted({text for text in given if len(text) >= 8}, key=len, reverse=True)


def unknown_model(result: Result) -> bool:
    """Whether the server says that it does not have the model."""
    if result.status not in (400, 404, 422):
        return False
    if b"model_not_found" in result.head:
        return True
    message = _message(result.head).lower()
    about = result.ask.model.lower() in message or '"param":"model"' in result.head.decode(
        "utf-8", "replace"
    ).replace(" ", "")
    lacks = re.search(r"not (exist|found|support|available)|unknown|invalid|no such", message)
    return "model" in message and bool(about and lacks)


def offered(names: list[str], model: str, most: int = 12) -> str:
    """The models on offer, the ones spelled most like the wanted one first; empty without any."""
    if not names:
        return ""
    near = get_close_matches(model, names, n=most, cutoff=0.4)
    ordered = [*near, *(name for name in names if name not in near)]
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"models on offer: {', '.join(ordered[:most])}{more}"


def eaten(call: Attribution) -> bool:
    """Whether reasoning used up the whole output cap before any visible token."""
    return (
        call.status == "complete"
        and call.finish_reason in ("length", "max_tokens", "max_output_tokens", "incomplete")
        and call.first_visible_token_ns is None
        and bool(call.reasoning_tokens)
    )


def eaten_line(call: Attribution, ask: Ask) -> str:
    return (
        f"reasoning used all {call.reasoning_tokens} tokens of the cap, so no visible token came:"
        f" raise --max-tokens ({cap_name(ask)} was {ask.max_tokens}), or ask for less reasoning"
        """ with --extra-body '{"reasoning_effort": "low"}'"""
    )


def _undecodable(case: Case) -> str | None:
    if not isinstance(case.result.error, httpx2.DecodingError):
        return None
    return (
        f"{case.where} answered with a body that is not in the encoding its headers name:"
        " see the server or a proxy on the way, or ask for none with -H 'Accept-Encoding: identity'"
    )


def _interrupted(case: Case) -> str | None:
    if case.call is None or case.call.status != "cancelled":
        return None
    return f"{case.where}: the call was interrupted"


def _unresolvable(case: Case) -> str | None:
    if not _caused_by(case.result.error, socket.gaierror):
        return None
    host = urlsplit(case.ask.target.base_url).hostname
    return f"cannot resolve the host {host}: check its spelling and this machine's DNS"


def _tls(case: Case) -> str | None:
    error = _cause(case.result.error, ssl.SSLError)
    if error is None:
        return None
    reason = getattr(error, "verify_message", "") or getattr(error, "reason", "") or "handshake"
    return (
        f"TLS to {case.host} failed ({reason}): check the certificate, or use http:// if the"
        " server does not speak TLS"
    )


def _refused(case: Case) -> str | None:
    if not isinstance(case.result.error, httpx2.ConnectError):
        return None
    if _caused_by(case.result.error, ConnectionRefusedError):
        return f"{case.host} refused the connection: is the server running, on that port?"
    return f"cannot connect to {case.host} ({_brief(case.result.error)}): check the address"


def _timed_out(case: Case) -> str | None:
    error = case.result.error
    if not isinstance(error, httpx2.TimeoutException):
        return None
    return (
        f"{case.where} was silent for {case.timeout_s:g} s while waiting for"
        f" {_waited_for(case)}: see whether it is overloaded, or raise --timeout"
    )


def _waited_for(case: Case) -> str:
    phase = case.phase or _phase_by_type(case)
    return PHASE_WORDS.get(phase, phase)


def _phase_by_type(case: Case) -> str:
    by_type: tuple[tuple[type[Exception], str], ...] = (
        (httpx2.PoolTimeout, "pool_wait"),
        (httpx2.ConnectTimeout, "connect"),
        (httpx2.WriteTimeout, "upload"),
    )
    for kind, phase in by_type:
        if isinstance(case.result.error, kind):
            return phase
    return "headers" if case.result.status is None else "first_token"


def _refused_key(case: Case) -> str | None:
    if case.result.status not in (401, 403):
        return None
    variable = case.ask.target.key_variable
    hint = f"check the key in {variable}" if variable else "name the key's variable with --key-env"
    return f"{case.where} answered {case.result.status}, the key was refused: {hint}"


def _limited(case: Case) -> str | None:
    if case.result.status not in (429, 529):
        return None
    wait = case.result.retry_after
    when = f"it asks to wait {wait}{' s' if wait.isdigit() else ''}" if wait else "no retry-after"
    return (
        f"{case.where} answered {case.result.status}, too many requests ({when}):"
        " wait, or lower --rate, --concurrency or --max-tokens"
    )


def _no_model(case: Case) -> str | None:
    if not unknown_model(case.result):
        return None
    return f"{case.host} has no model {case.ask.model!r}: give another with --model"


def _wrong_path(case: Case) -> str | None:
    if case.result.status not in (404, 405):
        return None
    return (
        f"{case.where} answered {case.result.status}: check the URL's path"
        f" and --api (now {case.ask.target.api})"
    )


def _redirected(case: Case) -> str | None:
    if case.result.status is None or not 300 <= case.result.status < 400:
        return None
    to = (case.result.location or "elsewhere").split("?", 1)[0]
    return f"{case.where} answered {case.result.status}, moved to {to}: probe that address"


def _other_status(case: Case) -> str | None:
    status = case.result.status
    if status is None or status < 400:
        return None
    said = f": {case.message[:QUOTE]}" if case.message else ""
    do = "see the server's log" if status >= 500 else "change the request accordingly"
    return f"{case.where} answered {status}{said} ({do})"


def _html(case: Case) -> str | None:
    start = case.result.head.lstrip()[:15].lower()
    if "html" not in case.result.content_type and not start.startswith((b"<!doctype", b"<html")):
        return None
    return (
        f"{case.where} answered with a web page instead of the API: a login page or proxy stands"
        " in between, or the URL is not the API's"
    )


def _empty(case: Case) -> str | None:
    if case.result.error is not None or case.result.status is None or case.result.head:
        return None
    return f"{case.where} answered {case.result.status} with an empty body: check the server's log"


def _cut(case: Case) -> str | None:
    if case.result.error is None and not (case.call and case.call.status == "cut"):
        return None
    if case.result.status is None:
        why = _brief(case.result.error) if case.result.error else "no answer"
        plain = case.ask.target.base_url.startswith("http://")
        tls = ", or use https:// if it speaks TLS" if plain else ""
        return (
            f"{case.where} dropped the connection before answering ({why}):"
            f" see the server's log{tls}"
        )
    return (
        f"{case.where} ended the stream before its terminal event: the server or a proxy dropped"
        " the connection; see their logs and timeouts"
    )


def _in_band(case: Case) -> str | None:
    if case.call is None or case.call.status != "error":
        return None
    kind = case.call.error.type if case.call.error else "error"
    if kind == "unexpected_body":
        return (
            f"{case.where} answered {case.result.status} with a body that is no"
            f" {case.ask.target.api} answer: check the URL's path and --api"
        )
    said = f": {case.message[:QUOTE]}" if case.message else ""
    return f"{case.where} answered 200, then an error inside the answer, {kind}{said}"


ROWS: tuple[Callable[[Case], str | None], ...] = (
    _undecodable,
    _interrupted,
    _unresolvable,
    _tls,
    _refused,
    _timed_out,
    _refused_key,
    _limited,
    _no_model,
    _wrong_path,
    _redirected,
    _other_status,
    _html,
    _empty,
    _cut,
    _in_band,
)

PHASE_WORDS = {
    "pool_wait": "a free connection",
    "connect": "the connection",
    "tls": "the TLS handshake",
    "upload": "the request to be taken",
    "headers": "the response headers",
    "first_token": "the first token",
    "stream": "the next part of the stream",
}


def _message(head: bytes) -> str:
    """The error message of a JSON answer; empty when there is none to be found."""
    text = head.decode("utf-8", "replace")
    for candidate in (text, *re.findall(r"(?m)^data: ?(\{.*error.*\})\r?$", text)):
        try:
            parsed = json.loads(candidate)
        except ValueError:
            continue
        found = _message_in(parsed)
        if found:
            return found
    return ""


def _message_in(parsed: object) -> str:
    if not isinstance(parsed, dict):
        return ""
    error = parsed.get("error", parsed)
    if isinstance(error, str):
        return error
    if not isinstance(error, dict):
        return ""
    said = error.get("message") or error.get("detail") or ""
    return said if isinstance(said, str) else json.dumps(said)


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """The error and all that led to it, groups of several included."""
    waiting, seen = [error], set[int]()
    while waiting:
        current = waiting.pop()
        if current is None or id(current) in seen:
            continue
        seen.add(id(current))
        yield current
        waiting += [current.__cause__, current.__context__]
        if isinstance(current, BaseExceptionGroup):
            waiting += current.exceptions


def _cause(error: BaseException | None, kind: type[BaseException]) -> BaseException | None:
    return next((found for found in _chain(error) if isinstance(found, kind)), None)


def _caused_by(error: BaseException | None, kind: type[BaseException]) -> bool:
    return _cause(error, kind) is not None


def _brief(error: BaseException) -> str:
    return str(error)[:QUOTE] or type(error).__name__
