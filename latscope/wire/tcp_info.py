"""The kernel's view of a connection: struct tcp_info, as getsockopt with TCP_INFO gives it.

Offsets are those of Linux's include/uapi/linux/tcp.h. The struct only ever grows at its end, and a
kernel gives as much as it knows (or as the caller's buffer holds), so its length says which fields
are there.
"""

import struct

from latscope.recording import TcpInfo
from latscope.units import US

# tcpi_rtt and tcpi_rttvar: microseconds, smoothed; since before 2.6.
_RTT, _RTTVAR = 68, 72
# tcpi_min_rtt: microseconds, the minimum over a window of seconds to minutes; Linux 4.6.
_MIN_RTT = 148
# tcpi_rcv_ooopack: segments received out of order; Linux 5.4.
_RCV_OOOPACK = 224

_U32 = struct.Struct("=I")
_UNKNOWN = (0, 0xFFFFFFFF)
"""No round trip takes no time: 0 is a connection without a sample, as ~0 is for the minimum."""


def decode(raw: bytes, at: str) -> TcpInfo | None:
    """The fields of `raw` that matter to a reader; null when it is too short to hold a round trip.

    at: the mark the snapshot belongs to. A field the kernel did not give or has no sample for is
    null. rtt and rttvar mean little without each other, so they are known or unknown together.
    """
    rtt, rttvar = _u32(raw, _RTT), _u32(raw, _RTTVAR)
    if rtt is None or rttvar is None:
        return None
    min_rtt = _u32(raw, _MIN_RTT)
    sampled = rtt not in _UNKNOWN
    return TcpInfo(
        at=at,
        rtt_ns=rtt * US if sampled else None,
        rttvar_ns=rttvar * US if sampled else None,
        min_rtt_ns=None if min_rtt is None or min_rtt in _UNKNOWN else min_rtt * US,
        rcv_ooopack=_u32(raw, _RCV_OOOPACK),
    )


def _u32(raw: bytes, offset: int) -> int | None:
    if len(raw) < offset + _U32.size:
        return None
    value: int = _U32.unpack_from(raw, offset)[0]
    return value
