"""What a network stream tells of the connection under it; whatever it does not tell is unknown.

Streams differ by library (sync, anyio, trio, TLS in TLS) and some hide their socket. A question
that fails is an answer not given, never an error.
"""

import socket
import sys
from typing import Any, NamedTuple

TCP_INFO: int | None = getattr(socket, "TCP_INFO", None) if sys.platform == "linux" else None
TCP_INFO_BYTES = 280
"""Room for the structure as Linux 6 has it; an older kernel fills less."""


class Link(NamedTuple):
    """One connection, as long as it lives."""

    id: int
    tls: bool | None
    peer: str | None
    sock: Any


def link(stream: Any, id: int) -> Link:
    """Asks a network stream of httpcore for what it knows."""
    try:
        tls: bool | None = stream.get_extra_info("ssl_object") is not None
    except Exception:
        tls = None
    return Link(id, tls, _peer(stream), socket_of(stream))


def socket_of(stream: Any) -> Any:
    """The socket under a network stream, or null."""
    try:
        return stream.get_extra_info("socket")
    except Exception:
        return None


def tcp_info(sock: Any) -> bytes | None:
    """The kernel's TCP_INFO, undecoded; null for anything that is not an open TCP socket."""
    if sock is None or TCP_INFO is None:
        return None
    try:
        raw = sock.getsockopt(socket.IPPROTO_TCP, TCP_INFO, TCP_INFO_BYTES)
    except Exception:
        return None
    return raw if isinstance(raw, bytes) else None


def _peer(stream: Any) -> str | None:
    try:
        address = stream.get_extra_info("server_addr")
    except Exception:
        return None
    if isinstance(address, tuple) and len(address) >= 2:
        host, port = str(address[0]), address[1]
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    return str(address) if address else None
