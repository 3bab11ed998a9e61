"""`latscope run` around servers and programs of several processes: every call once, lines whole."""

import json
import os
import signal
import socket
import sys
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from .server import CANARY, REQUEST
from .test_run import records, run, start

ENOUGH = 300
"""Requests after which a worker that has served none counts as one that never will."""

# One client, made when the module is imported: before the fork where the server preloads.
CLIENT = f"""
import asyncio, os, sys
import httpx2, openai

URL = os.environ["UPSTREAM"]
sdk = openai.OpenAI(base_url=URL.removesuffix("/chat/completions"), api_key="none")
plain = httpx2.Client()
with httpx2.Client() as first:  # closed: a connection kept open must not be shared by a fork
    first.post(URL, json={REQUEST!r})


def ask():
    stream = sdk.chat.completions.create(**{REQUEST!r})
    return f"{{os.getpid()}} {{''.join(c.choices[0].delta.content or '' for c in stream)}}"
"""

ASGI = f"""{CLIENT}
aplain = httpx2.AsyncClient()


async def app(scope, receive, send):
    if scope["type"] != "http":
        return
    said = await asyncio.to_thread(ask)
    await aplain.post(URL, json={REQUEST!r})
    await send({{"type": "http.response.start", "status": 200, "headers": []}})
    await send({{"type": "http.response.body", "body": said.encode()}})
"""

WSGI = f"""{CLIENT}
def app(environ, start_response):
    said = ask()
    plain.post(URL, json={REQUEST!r})
    start_response("200 OK", [])
    return [said.encode()]
"""


@contextmanager
def listening() -> Iterator[socket.socket]:
    """A listening socket the program inherits: no port is guessed."""
    with socket.create_server(("127.0.0.1", 0), backlog=128) as found:
        found.set_inheritable(True)
        yield found


def ask(port: int) -> str:
    """Which process answered."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=60) as response:
        pid, _, said = response.read().decode().partition(" ")
    assert CANARY in said
    return str(pid)


def ask_until(port: int, processes: int) -> int:
    """How many requests it took until that many processes had answered, eight at a time."""
    answered: set[str] = set()
    made = 0
    with ThreadPoolExecutor(8) as pool:
        while len(answered) < processes or made < 16:
            assert made < ENOUGH, f"only {answered} answered"
            answered.update(pool.map(ask, [port] * 8))
            made += 8
    return made


SERVERS: dict[str, tuple[str, Callable[[int], Sequence[object]], int, int]] = {
    "uvicorn": (ASGI, lambda fd: ("uvicorn", "app:app", "--fd", fd), 1, 1),
    "uvicorn, two workers": (
        ASGI,
        lambda fd: ("uvicorn", "app:app", "--fd", fd, "--workers", 2),
        2,
        2,
    ),
    "gunicorn, two workers": (
        WSGI,
        lambda fd: ("gunicorn", "app:app", "-b", f"fd://{fd}", "--workers", 2),
        2,
        2,
    ),
    "gunicorn, preloaded": (
        WSGI,
        lambda fd: ("gunicorn", "app:app", "-b", f"fd://{fd}", "--workers", 2, "--preload"),
        2,
        1,
    ),
    "gunicorn, threads": (
        WSGI,
        lambda fd: ("gunicorn", "app:app", "-b", f"fd://{fd}", "--threads", 4, "--preload"),
        1,
        1,
    ),
}
"""Server: its application, its command given the socket, its processes that serve, and how often
the module, which makes a call of its own, is imported."""


@pytest.mark.parametrize("name", SERVERS)
def test_a_servers_calls_are_recorded_once(name: str, url: str, tmp_path: Path) -> None:
    """Of every worker, and those made before the fork; stopped as a deployment stops it."""
    app, command, processes, imports = SERVERS[name]
    (tmp_path / "app.py").write_text(app)
    path = tmp_path / "calls.jsonl"
    environment = {**os.environ, "UPSTREAM": url, "PYTHONPATH": str(tmp_path)}
    with listening() as sock:
        port = sock.getsockname()[1]
        server = [sys.executable, "-m", *map(str, command(sock.fileno()))]
        with start(
            ["-o", path, "--", *server], env=environment, pass_fds=[sock.fileno()]
        ) as process:
            try:
                made = ask_until(port, processes)
            finally:
                process.send_signal(signal.SIGTERM)
                _, err = process.communicate(timeout=60)
    found = records(path)
    assert len(found) == 2 * made + imports, err
    assert f"latscope: {len(found)} calls recorded in {path}\n" in err
    assert len({record["call_id"] for record in found}) == len(found)
    begun = [record["start"] for record in found]
    assert begun.count("sdk") == made
    assert not [record["broken"] for record in found if "broken" in record]


PROGRAM = f"""{CLIENT}
if __name__ == "__main__":
    print(ask().count("{CANARY}"))
"""


@pytest.mark.parametrize(
    "command",
    [["app.py"], ["-m", "app"], ["-m", "package"], ["-X", "dev", "-W", "ignore", "app.py"]],
)
def test_however_a_program_is_started(command: list[str], url: str, tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(PROGRAM)
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__main__.py").write_text(PROGRAM)
    path = tmp_path / "calls.jsonl"
    file = [str(tmp_path / part) if part.endswith(".py") else part for part in command]
    ran = run("-o", path, "--", sys.executable, *file, UPSTREAM=url, PYTHONPATH=str(tmp_path))
    assert (ran.returncode, ran.stdout) == (0, "1\n"), ran.stderr
    assert len(records(path)) == 2


POOL = f"""{CLIENT}
import multiprocessing

def work(number):
    return ask()

def alone():
    ask()
    plain.post(URL, json={REQUEST!r})

if __name__ == "__main__":
    context = multiprocessing.get_context(sys.argv[1])
    with context.Pool(2) as pool:
        pool.map(work, range(8), chunksize=1)
        pool.close()
        pool.join()
    process = context.Process(target=alone)
    process.start()
    process.join()
    ask()
"""


@pytest.mark.parametrize(("method", "imports"), [("fork", 1), ("spawn", 4), ("forkserver", 4)])
def test_processes_of_multiprocessing_are_recorded(
    method: str, imports: int, url: str, tmp_path: Path
) -> None:
    """Of a pool and alone, forked with the client in them or started anew. (A process started anew
    imports the program, which makes a call: two of the pool, one alone, and the program itself.)"""
    (tmp_path / "app.py").write_text(POOL)
    path = tmp_path / "calls.jsonl"
    ran = run("-o", path, "--", sys.executable, tmp_path / "app.py", method, UPSTREAM=url)
    assert ran.returncode == 0, ran.stderr
    found = records(path)
    assert len({record["call_id"] for record in found}) == len(found)
    asked = [record for record in found if record["start"] == "sdk"]
    assert (len(asked), len(found) - len(asked)) == (10, imports + 1)


FORK = f"""{CLIENT}
for number in range(3):
    pid = os.fork()
    if pid == 0:
        ask()
        sys.exit(0)
    os.waitpid(pid, 0)
ask()
"""


def test_a_child_that_is_forked_and_exits_is_recorded(url: str, tmp_path: Path) -> None:
    path = tmp_path / "calls.jsonl"
    (tmp_path / "app.py").write_text(FORK)
    ran = run("-o", path, "--", sys.executable, tmp_path / "app.py", UPSTREAM=url)
    assert ran.returncode == 0, ran.stderr
    assert len(records(path)) == 5


def test_only_calls_are_counted(url: str, tmp_path: Path) -> None:
    """A line about an inbound request, of the ASGI middleware, is none."""
    app = f"""{CLIENT}
from latscope.middleware.asgi import TurnMiddleware

async def inner(scope, receive, send):
    await asyncio.to_thread(ask)

async def nothing(*_):
    pass

asyncio.run(TurnMiddleware(inner)({{"type": "http"}}, nothing, nothing))
"""
    path = tmp_path / "calls.jsonl"
    ran = run("-o", path, "--", sys.executable, "-c", app, UPSTREAM=url)
    assert ran.stderr == f"latscope: 2 calls recorded in {path}\n"
    lines = [json.loads(line)["schema"] for line in path.read_text().splitlines()]
    assert sorted(lines) == ["latscope.inbound/1", *["latscope.recording/1"] * 2]
