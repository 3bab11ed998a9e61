"""What a reader must know of how the connection came about, in fixed words: flags."""

import re

from latscope.recording import Attempt, Recording
from latscope.units import MS, Ns, S

TCP_PEER = re.compile(r"(\[.+\]|[0-9.]+):[0-9]+")
"""Address and port; a Unix socket's peer is a path."""

RESOLVER_STEP: Ns = 5 * S
"""How long resolvers wait for a name server before they ask again, or the next one (resolv.conf(5),
`timeout`)."""

STEP_SLACK: Ns = 300 * MS
"""What the answer that came at last, and the TCP handshake, may take beyond the steps."""


def connection_flags(recording: Recording) -> list[str]:
    """`connection_unseen`, `resolver_step` and `address_failed` of any attempt, `no_tcp_info` of
    the last one."""
    held = {
        "connection_unseen": any(a.connection and a.connection.unseen for a in recording.attempts),
        "resolver_step": any(map(_resolver_step, recording.attempts)),
        "address_failed": any(map(_address_failed, recording.attempts)),
        "no_tcp_info": any(map(_no_tcp_info, recording.attempts[-1:])),
    }
    return [flag for flag, holds in held.items() if holds]


def left_running(recording: Recording) -> bool:
    """HTTP/2, and the caller is gone: neither httpcore nor httpcore2 resets the stream."""
    connection = recording.attempts[-1].connection if recording.attempts else None
    return connection is not None and connection.http == "HTTP/2"


def _resolver_step(attempt: Attempt) -> bool:
    """Connecting took just over a whole number of resolver steps, though a round trip is short.

    A lost SYN makes whole seconds too (1, 3, 7, 15), but the kernel counts it.
    """
    first = next((info for info in attempt.tcp_info if info.at == "connect"), None)
    if first is None or first.rtt_ns is None or first.rtt_ns > STEP_SLACK or first.total_retrans:
        return False
    steps = (divmod(took, RESOLVER_STEP) for took in _connects(attempt))
    return any(count > 0 and beyond <= STEP_SLACK for count, beyond in steps)


def _connects(attempt: Attempt) -> list[Ns]:
    """How long each connecting took that succeeded."""
    found, since = [], None
    for name, ns in attempt.marks:
        if name == "connect.started":
            since = ns
        elif name == "connect.complete" and since is not None:
            found.append(ns - since)
    return found


def _address_failed(attempt: Attempt) -> bool:
    """Connecting failed, and later in the same attempt succeeded."""
    names = [mark.name for mark in attempt.marks]
    failed = names.index("connect.failed") if "connect.failed" in names else len(names)
    return "connect.complete" in names[failed:]


def _no_tcp_info(attempt: Attempt) -> bool:
    """Answered over TCP, and the kernel said nothing of the connection."""
    peer = attempt.connection.peer if attempt.connection else None
    answered = attempt.status is not None and peer is not None and TCP_PEER.fullmatch(peer)
    return bool(answered) and not attempt.tcp_info
