"""struct tcp_info by its length, against the header's layout and a real connection."""

import ctypes
import socket
import sys

import pytest

from latscope.recording import TcpInfo
from latscope.wire.tcp_info import decode

U8, U32, U64 = ctypes.c_uint8, ctypes.c_uint32, ctypes.c_uint64


class Struct(ctypes.Structure):
    """linux/tcp.h in C's own layout rules: the offsets come out, they are not written down."""

    _fields_ = (
        *((f"byte{n}", U8) for n in range(8)),
        *((name, U32) for name in ("rto", "ato", "snd_mss", "rcv_mss")),
        *((name, U32) for name in ("unacked", "sacked", "lost", "retrans", "fackets")),
        *((name, U32) for name in ("data_sent", "ack_sent", "data_recv", "ack_recv")),
        *((name, U32) for name in ("pmtu", "rcv_ssthresh", "rtt", "rttvar", "snd_ssthresh")),
        *((name, U32) for name in ("snd_cwnd", "advmss", "reordering")),
        *((name, U32) for name in ("rcv_rtt", "rcv_space", "total_retrans")),
        *((name, U64) for name in ("pacing", "max_pacing", "bytes_acked", "bytes_received")),
        *((name, U32) for name in ("segs_out", "segs_in", "notsent_bytes", "min_rtt")),
        *((name, U32) for name in ("data_segs_in", "data_segs_out")),
        *((name, U64) for name in ("delivery_rate", "busy", "rwnd_limited", "sndbuf_limited")),
        *((name, U32) for name in ("delivered", "delivered_ce")),
        *((name, U64) for name in ("bytes_sent", "bytes_retrans")),
        *((name, U32) for name in ("dsack_dups", "reord_seen", "rcv_ooopack", "snd_wnd")),
    )


def raw(length: int, **fields: int) -> bytes:
    """A struct as a kernel of that length gives it: longer than known, or cut short."""
    return (bytes(Struct(**fields)) + bytes(48))[:length]


FIELDS = {"rtt": 1500, "rttvar": 700, "min_rtt": 900, "rcv_ooopack": 3}
LENGTHS = [
    (280, (1_500_000, 700_000, 900_000, 3)),
    (232, (1_500_000, 700_000, 900_000, 3)),
    (228, (1_500_000, 700_000, 900_000, 3)),
    (227, (1_500_000, 700_000, 900_000, None)),
    (192, (1_500_000, 700_000, 900_000, None)),
    (152, (1_500_000, 700_000, 900_000, None)),
    (151, (1_500_000, 700_000, None, None)),
    (104, (1_500_000, 700_000, None, None)),
    (76, (1_500_000, 700_000, None, None)),
]


@pytest.mark.parametrize(("length", "figures"), LENGTHS)
def test_the_length_says_which_fields_are_there(
    length: int, figures: tuple[int | None, ...]
) -> None:
    """Longer structs of later kernels and shorter ones of earlier read alike; times are ns."""
    info = decode(raw(length, **FIELDS), "connect", 7, system="linux")
    assert info is not None
    assert (info.at, info.at_ns) == ("connect", 7)
    assert (info.rtt_ns, info.rttvar_ns, info.min_rtt_ns, info.rcv_ooopack) == figures


@pytest.mark.parametrize("length", [0, 1, 8, 71, 72, 75])
def test_a_buffer_without_a_round_trip_is_nothing(length: int) -> None:
    """Null, and no error."""
    assert decode(raw(length, **FIELDS), "end", system="linux") is None


UNKNOWN = [
    ({"min_rtt": 0xFFFFFFFF, "rtt": 5, "rttvar": 0}, (5000, 0, None)),
    ({"min_rtt": 0, "rtt": 0, "rttvar": 250_000}, (None, None, None)),
    ({"min_rtt": 7, "rtt": 0xFFFFFFFF}, (None, None, 7000)),
]


@pytest.mark.parametrize(("fields", "figures"), UNKNOWN)
def test_what_the_kernel_does_not_know_is_null(
    fields: dict[str, int], figures: tuple[int | None, ...]
) -> None:
    """~0 is no minimum yet, 0 no sample; neither is printed as a time."""
    info = decode(raw(200, **fields), "end", system="linux")
    assert info is not None
    assert (info.rtt_ns, info.rttvar_ns, info.min_rtt_ns) == figures


SENDING = {"total_retrans": 2, "notsent_bytes": 4096, "busy": 90_000, "data_recv": 12}


@pytest.mark.parametrize(
    ("length", "figures"),
    [
        (232, (2, 4096, 90_000_000, 12_000_000)),
        (176, (2, 4096, 90_000_000, 12_000_000)),
        (175, (2, 4096, None, 12_000_000)),
        (147, (2, None, None, 12_000_000)),
        (103, (None, None, None, 12_000_000)),
    ],
)
def test_what_was_sent_and_when_data_last_came(
    length: int, figures: tuple[int | None, ...]
) -> None:
    """Segments sent again, bytes not sent yet, the time spent sending (from microseconds), and how
    long ago data came (from milliseconds); 0 is a figure here, not an unknown."""
    info = decode(raw(length, **SENDING), "sent", system="linux")
    assert info is not None
    found = (info.total_retrans, info.notsent_bytes, info.busy_ns, info.last_data_recv_ns)
    assert found == figures
    none = decode(raw(232), "sent", system="linux")
    assert none is not None
    assert (none.total_retrans, none.notsent_bytes, none.busy_ns) == (0, 0, 0)


class Connection(ctypes.Structure):
    """xnu's struct tcp_connection_info."""

    _fields_ = (
        *((f"byte{n}", U8) for n in range(4)),
        *((name, U32) for name in ("options", "flags", "rto", "maxseg", "snd_ssthresh")),
        *((name, U32) for name in ("snd_cwnd", "snd_wnd", "snd_sbbytes", "rcv_wnd", "rttcur")),
        *((name, U32) for name in ("srtt", "rttvar", "tfo")),
        *((name, U64) for name in ("txpackets", "txbytes", "txretransmitbytes", "rxpackets")),
        *((name, U64) for name in ("rxbytes", "rxoutoforderbytes", "txretransmitpackets")),
    )


MAC = {"srtt": 31, "rttvar": 2, "maxseg": 1400, "rxoutoforderbytes": 1401}


@pytest.mark.parametrize(
    ("fields", "length", "info"),
    [
        (
            MAC | {"txretransmitpackets": 4},
            112,
            TcpInfo(
                at="gap",
                at_ns=9,
                rtt_ns=31_000_000,
                rttvar_ns=2_000_000,
                rcv_ooopack=2,
                total_retrans=4,
            ),
        ),
        (MAC, 100, TcpInfo(at="gap", at_ns=9, rtt_ns=31_000_000, rttvar_ns=2_000_000)),
        (
            {"srtt": 0, "maxseg": 0, "rxoutoforderbytes": 5},
            112,
            TcpInfo(at="gap", at_ns=9, total_retrans=0),
        ),
        (MAC, 51, None),
    ],
)
def test_macos_counts_milliseconds_and_bytes(
    fields: dict[str, int], length: int, info: TcpInfo | None
) -> None:
    """What is out of order becomes the fewest segments; under a millisecond is unknown."""
    assert decode(bytes(Connection(**fields))[:length], "gap", 9, system="darwin") == info


def test_another_system_tells_nothing() -> None:
    """No layout known, no guess made."""
    assert decode(raw(232, **FIELDS), "end", system="win32") is None


@pytest.mark.skipif(sys.platform != "linux", reason="struct tcp_info is Linux's")
def test_a_real_connection_has_a_round_trip() -> None:
    """After an exchange over loopback the kernel has samples, and nothing came out of order."""
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as client,
        server.accept()[0] as peer,
    ):
        client.sendall(b"ping")
        assert peer.recv(4) == b"ping"
        peer.sendall(b"pong")
        assert client.recv(4) == b"pong"
        given = client.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 280)
    info = decode(given, "headers")
    assert info is not None
    assert info.rtt_ns is not None
    assert info.rttvar_ns is not None
    assert 0 < info.rtt_ns < 60_000_000_000
    assert info.rtt_ns % 1000 == info.rttvar_ns % 1000 == 0
    if len(given) >= 228:
        assert info.min_rtt_ns is not None
        assert 0 < info.min_rtt_ns < 60_000_000_000
        assert info.rcv_ooopack == 0
