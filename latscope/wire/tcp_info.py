"""The kernel's view of a connection, as getsockopt gives it: Linux's TCP_INFO, macOS's
TCP_CONNECTION_INFO.

Offsets are those of struct tcp_info in Linux's include/uapi/linux/tcp.h and of struct
tcp_connection_info in xnu's bsd/netinet/tcp.h. Both structs only ever grow at their end, and a
kernel gives as much as it knows (or as the caller's buffer holds), so the length says which fields
are there. Windows has the like (SIO_TCP_INFO), but Python's sockets cannot ask for it.
"""

import struct
import sys
from collections.abc import Callable, Mapping

from latscope.recording import TcpInfo
from latscope.units import MS, US, Ns

_U32, _U64 = struct.Struct("=I"), struct.Struct("=Q")
_UNKNOWN = (None, 0, 0xFFFFFFFF)
"""No round trip takes no time: 0 is a connection without a sample, as ~0 is for the minimum."""


def decode(
    raw: bytes, at: str, at_ns: Ns | None = None, *, system: str = sys.platform
) -> TcpInfo | None:
    """The fields of `raw` that matter to a reader; null when it is too short to hold a round trip,
    or from a system whose layout is not known here.

    at, at_ns: the moment the snapshot belongs to. system: whose kernel gave it, as `sys.platform`
    names it. A field the kernel did not give or has no sample for is null. rtt and rttvar mean
    little without each other, so they are known or unknown together.
    """
    layout = LAYOUTS.get(system)
    return None if layout is None else layout(raw, at, at_ns)


def _linux(raw: bytes, at: str, at_ns: Ns | None) -> TcpInfo | None:
    # tcpi_rtt, tcpi_rttvar: microseconds, smoothed; since before 2.6.
    rtt, rttvar = _number(raw, 68), _number(raw, 72)
    if rtt is None or rttvar is None:
        return None
    sampled = rtt not in _UNKNOWN
    min_rtt = _number(raw, 148)  # tcpi_min_rtt: over a window of minutes; Linux 4.6
    return TcpInfo(
        at=at,
        at_ns=at_ns,
        rtt_ns=rtt * US if sampled else None,
        rttvar_ns=rttvar * US if sampled else None,
        min_rtt_ns=None if min_rtt in _UNKNOWN else _times(min_rtt, US),
        rcv_ooopack=_number(raw, 224),  # tcpi_rcv_ooopack; Linux 5.4
        last_data_recv_ns=_times(_number(raw, 52), MS),  # tcpi_last_data_recv: milliseconds
        total_retrans=_number(raw, 100),  # tcpi_total_retrans: segments, the SYN included
        notsent_bytes=_number(raw, 144),  # tcpi_notsent_bytes; Linux 4.6
        busy_ns=_times(_number(raw, 168, _U64), US),  # tcpi_busy_time: microseconds; Linux 4.10
    )


def _macos(raw: bytes, at: str, at_ns: Ns | None) -> TcpInfo | None:
    # tcpi_srtt, tcpi_rttvar: whole milliseconds, cut off; so a shorter round trip is unknown.
    rtt, rttvar = _number(raw, 44), _number(raw, 48)
    if rtt is None or rttvar is None:
        return None
    sampled = rtt not in _UNKNOWN
    return TcpInfo(
        at=at,
        at_ns=at_ns,
        rtt_ns=rtt * MS if sampled else None,
        rttvar_ns=rttvar * MS if sampled else None,
        rcv_ooopack=_segments(_number(raw, 96, _U64), _number(raw, 16)),
        total_retrans=_number(raw, 104, _U64),  # tcpi_txretransmitpackets
    )


def _segments(size: int | None, largest: int | None) -> int | None:
    """tcpi_rxoutoforderbytes as the fewest segments of tcpi_maxseg bytes that can hold them."""
    return None if size is None or not largest else -(-size // largest)


LAYOUTS: Mapping[str, Callable[[bytes, str, Ns | None], TcpInfo | None]] = {
    "linux": _linux,
    "darwin": _macos,
}


def _number(raw: bytes, offset: int, kind: struct.Struct = _U32) -> int | None:
    if len(raw) < offset + kind.size:
        return None
    value: int = kind.unpack_from(raw, offset)[0]
    return value


def _times(value: int | None, unit: Ns) -> Ns | None:
    return None if value is None else value * unit
