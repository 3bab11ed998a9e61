"""A gateway that keeps its client awake: `: ping` comments from the start until the model speaks.

    python -m tests.lab.hops.gateway PORT UPSTREAM_PORT [PING]

It answers 200 and starts pinging as soon as it has the request, long before the upstream has said
anything, as gateways do whose clients or load balancers give up on silence.
"""

import asyncio
import contextlib
import sys

from latscope.units import Ns, S
from tests.lab.profile import duration

HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nserver: %b\r\n"
    b"transfer-encoding: chunked\r\n\r\n"
)
NAME = b"lab-gateway"
PING = b": ping\n\n"
LAST = b"0\r\n\r\n"


def framed(data: bytes) -> bytes:
    """Make one chunk of a chunked body."""
    return b"%x\r\n%b\r\n" % (len(data), data)


async def pass_on(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, upstream: int, every_ns: Ns
) -> None:
    """Serve one request of a connection."""
    head = await reader.readuntil(b"\r\n\r\n")
    lines = head.lower().split(b"\r\n")
    sizes = [line.split(b":")[1] for line in lines if line.startswith(b"content-length:")]
    request = head + await reader.readexactly(int(sizes[0]) if sizes else 0)
    writer.write(HEAD % NAME)
    answers, asked = await asyncio.open_connection("127.0.0.1", upstream)
    asked.write(request)
    pinging = asyncio.create_task(ping(writer, every_ns))
    try:
        await answers.readuntil(b"\r\n\r\n")
        while size := int(await answers.readuntil(b"\r\n"), 16):
            data = (await answers.readexactly(size + 2))[:-2]
            pinging.cancel()
            writer.write(framed(data))
            await writer.drain()
    finally:
        pinging.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await pinging
        asked.close()
    writer.write(LAST)
    await writer.drain()


async def ping(writer: asyncio.StreamWriter, every_ns: Ns) -> None:
    """Send a comment now and then."""
    while True:
        writer.write(framed(PING))
        await asyncio.sleep(every_ns / S)


async def serve(port: int, upstream: int, every_ns: Ns) -> None:
    """Serve until killed."""

    async def one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                await pass_on(reader, writer, upstream, every_ns)
        writer.close()

    server = await asyncio.start_server(one, "127.0.0.1", port)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    every = duration(sys.argv[3] if len(sys.argv) > 3 else "50ms")
    asyncio.run(serve(int(sys.argv[1]), int(sys.argv[2]), every))
