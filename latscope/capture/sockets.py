"""What a network stream tells of the connection under it; whatever it does not tell is unknown.

Streams differ by library (sync, anyio, trio, TLS in TLS) and some hide their socket. A question
that fails is an answer not given, never an error.
"""

import socket
import struct
import sys
from typing import Any, NamedTuple

from latscope.units import US, Ns

OPTIONS: dict[str, int] = {"linux": 11, "darwin": 0x106}
"""TCP_INFO; TCP_CONNECTION_INFO. Windows has no socket option for it."""
TCP_INFO: int | None = OPTIONS.get(sys.platform)
TCP_INFO_BYTES = 280
"""Room for the structure as Linux 6 has it; an older kernel fills less."""

_MIN_RTT = struct.Struct("=148xI")
"""tcpi_min_rtt of Linux, in microseconds; the other fields are for `wire.tcp_info` to read."""


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


def min_rtt(raw: bytes) -> Ns | None:
    """The smallest round trip in what `tcp_info` gave, where the kernel states one."""
    if sys.platform != "linux" or len(raw) < _MIN_RTT.size:
        return None
    value: int = _MIN_RTT.unpack_from(raw)[0]
    return None if value in (0, 0xFFFFFFFF) else value * US


def stream_of(transport: Any, request: Any) -> Any:
    """The network stream of the pooled connection that httpcore gave a request, before any answer
    names it; null where the transport is built in another way."""
    try:
        for each in list(transport._pool._requests):
            if each.request.extensions is request.extensions:
                connection = each.connection
                while not hasattr(connection, "_network_stream"):
                    connection = connection._connection
                return connection._network_stream
    except Exception:
        return None
    return None


def _peer(stream: Any) -> str | None:
    try:
        address = stream.get_extra_info("server_addr")
    except Exception:
        return None
    if isinstance(address, tuple) and len(address) >= 2:
        host, port = str(address[0]), address[1]
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    return str(address) if address else None
