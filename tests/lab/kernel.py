"""Network namespaces and TUN devices, by the system calls that make them (root, Linux).

Both are anonymous: a namespace lives as long as a process is in it or a descriptor of it is open, a
device as long as its descriptor. When the relay is gone nothing is left to remove.
"""

import contextlib
import ctypes
import fcntl
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

Ns = int  # not latscope.units: this file is also run as a script, to try

CLONE_NEWNET = 0x40000000
PR_SET_TIMERSLACK = 29
TUNSETIFF = 0x400454CA
IFF_TUN, IFF_NO_PI = 0x1, 0x1000
SIOCGIFFLAGS, SIOCSIFFLAGS = 0x8913, 0x8914
SIOCSIFADDR, SIOCSIFNETMASK = 0x8916, 0x891C
IFF_UP = 0x1
TUN = "/dev/net/tun"
NETMASK = "255.255.255.252"


def why_not() -> str | None:
    """Say why this machine cannot have a path; null when it can."""
    if sys.platform != "linux":
        return "network namespaces are Linux's"
    if os.geteuid() != 0:
        return "making network namespaces takes root"
    if shutil.which("nsenter") is None:
        return "nsenter (util-linux) is not on PATH"
    command = [sys.executable, __file__]
    tried = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    if tried.returncode == 0:
        return None
    lines = tried.stderr.strip().splitlines() or ["no reason given"]
    return f"a namespace with a TUN device cannot be made here: {lines[-1]}"


def new_namespace() -> int:
    """Move this process into a new network namespace, loopback up; give its descriptor."""
    _checked("unshare", ctypes.c_int(CLONE_NEWNET))
    _up("lo")
    return os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)


def enter(namespace: int) -> None:
    """Move this process into the namespace of that descriptor (os.setns is Python 3.12's)."""
    _checked("setns", ctypes.c_int(namespace), ctypes.c_int(CLONE_NEWNET))


def make_tun(name: str, address: str) -> int:
    """Make a TUN device with that address in the present namespace; give its descriptor."""
    device = os.open(TUN, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    fcntl.ioctl(device, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TUN | IFF_NO_PI))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as handle:
        for request, value in ((SIOCSIFADDR, address), (SIOCSIFNETMASK, NETMASK)):
            where = struct.pack("HH4s8x", socket.AF_INET, 0, socket.inet_aton(value))
            fcntl.ioctl(handle, request, struct.pack("16s16s8x", name.encode(), where))
    _up(name)
    return device


def congestion(algorithm: str) -> None:
    """Choose the TCP congestion control of the present namespace."""
    Path("/proc/sys/net/ipv4/tcp_congestion_control").write_text(algorithm)


def sharp_timers() -> None:
    """Wake when asked, not up to 50 us later."""
    _checked("prctl", ctypes.c_int(PR_SET_TIMERSLACK), ctypes.c_ulong(1))


def go_ahead(pid: int = 0) -> None:
    """Have a process (this thread) run before ordinary ones, where that is allowed: what waits for
    a busy machine's other work is no truth about anything else."""
    with contextlib.suppress(OSError, AttributeError):
        os.sched_setscheduler(pid, os.SCHED_RR, os.sched_param(1))


@contextlib.contextmanager
def ahead() -> Iterator[None]:
    """Run this thread before ordinary processes for the length of the block."""
    go_ahead()
    try:
        yield
    finally:
        with contextlib.suppress(OSError, AttributeError):
            os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))


def starved_ns(*pids: int) -> Ns:
    """Sum up how long these processes' threads could have run and had to wait for a core."""
    total = 0
    for pid in pids:
        for file in Path("/proc").glob(f"{pid}/task/*/schedstat"):
            with contextlib.suppress(OSError):
                total += int(file.read_text().split()[1])
    return total


def carries_data(packet: bytes) -> bool:
    """Tell whether an IPv4 packet is TCP and brings payload: what a lost segment is about."""
    if len(packet) < 40 or packet[0] >> 4 != 4 or packet[9] != socket.IPPROTO_TCP:
        return False
    head = (packet[0] & 15) * 4
    return len(packet) >= head + 20 and len(packet) > head + (packet[head + 12] >> 4) * 4


def segment(packet: bytes) -> tuple[int, int, int, int]:
    """Give both ports, the sequence number and the payload's length of a TCP packet."""
    head = (packet[0] & 15) * 4
    source, target, sequence = struct.unpack_from("!HHI", packet, head)
    return source, target, sequence, len(packet) - head - (packet[head + 12] >> 4) * 4


def listening(pid: int, namespace: str) -> bool:
    """Tell whether that process is in the namespace (a path) and anything listens on TCP there."""
    try:
        if os.stat(f"/proc/{pid}/ns/net").st_ino != os.stat(namespace).st_ino:
            return False  # on its way: it would show us the ports of this machine
        rows = Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]
    except OSError:
        return False
    return any(row.split()[3] == "0A" for row in rows)


def end_inhabitants(namespace: int) -> None:
    """Kill every process in that namespace, this one aside."""
    inode = os.fstat(namespace).st_ino
    for place in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if (place / "ns/net").stat().st_ino == inode and int(place.name) != os.getpid():
                os.kill(int(place.name), signal.SIGKILL)


def _up(name: str) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as handle:
        blank = struct.pack("16s24x", name.encode())
        (flags,) = struct.unpack_from("H", fcntl.ioctl(handle, SIOCGIFFLAGS, blank), 16)
        fcntl.ioctl(handle, SIOCSIFFLAGS, struct.pack("16sH22x", name.encode(), flags | IFF_UP))


def _checked(function: str, *arguments: object) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if getattr(libc, function)(*arguments) < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{function}: {os.strerror(number)}")


if __name__ == "__main__":
    new_namespace()
    os.close(make_tun("try", "10.77.0.1"))
