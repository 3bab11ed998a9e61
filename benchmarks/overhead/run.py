"""The runs: every tool beside a bare client of its own environment, in turns."""

import json
import random
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from typing import NamedTuple

from latscope.rules.censored import ranks

HERE = Path(__file__).parent


class Tool(NamedTuple):
    name: str
    interpreter: Path
    sdks: tuple[str, ...]


class Cost(NamedTuple):
    """Medians over the rounds, us a chunk: the bare client's, and what the tool added to the bare
    run beside it. sure_us: how far the two additions' 90 % intervals reach at most."""

    bare_us: float
    thread_us: float
    process_us: float
    rounds: int
    thread_sure_us: float
    process_sure_us: float

    @property
    def ratio(self) -> float:
        """The caller's thread with the tool over without."""
        return (self.bare_us + self.thread_us) / self.bare_us


class Child:
    """A process that answers each line with one."""

    def __init__(self, command: Sequence[str | Path]) -> None:
        self.process = subprocess.Popen(
            [str(word) for word in command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.said = self._read()

    def ask(self, line: str) -> str:
        assert self.process.stdin is not None
        print(line, file=self.process.stdin, flush=True)
        return self._read()

    def end(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(20)

    def _read(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"a measured process ended: {self.process.args!r}")
        return line


@contextmanager
def serving() -> Iterator[int]:
    """The scripted server in a process of its own; its port."""
    server = Child([sys.executable, HERE / "server.py"])
    try:
        yield int(server.said)
    finally:
        server.end()


def compare(
    tools: Sequence[Tool],
    sdk: str,
    style: str,
    *,
    port: int,
    rounds: int,
    calls: int,
    model: str,
    seed: int,
) -> dict[str, Cost]:
    """What each tool that serves the SDK costs. In every round each tool has its turn, in an order
    of chance, and beside it, before or after, the bare client."""
    dice = random.Random(f"{seed} {sdk} {style}")
    found: dict[str, list[tuple[float, float, float]]] = {}
    with ExitStack() as stack:
        pairs: dict[str, tuple[Child, Child]] = {}
        for tool in tools:
            if sdk in tool.sdks:
                command = [tool.interpreter, HERE / "subject.py"]
                pair = [
                    Child([*command, name, sdk, style, str(port)]) for name in ("bare", tool.name)
                ]
                for child in pair:
                    stack.callback(child.end)
                    child.ask(f"2 {model}")  # imports, connections and caches are not measured
                pairs[tool.name] = (pair[0], pair[1])
        for number in range(rounds):
            for name in dice.sample(sorted(pairs), len(pairs)):
                found.setdefault(name, []).append(_turn(pairs[name], f"{calls} {model}", number))
    return {name: _cost(rows) for name, rows in found.items()}


def _turn(pair: tuple[Child, Child], line: str, number: int) -> tuple[float, float, float]:
    bare, watched = pair
    first, second = (bare, watched) if number % 2 else (watched, bare)
    told = {child: json.loads(child.ask(line)) for child in (first, second)}
    chunks = told[bare]["chunks"]
    if told[watched]["chunks"] != chunks:
        raise SystemExit(f"{watched.process.args!r}: {told[watched]['chunks']} of {chunks} chunks")
    each = {
        child: (row["thread_us"] / chunks, row["process_us"] / chunks)
        for child, row in told.items()
    }
    thread, process = (w - b for w, b in zip(each[watched], each[bare], strict=True))
    return each[bare][0], thread, process


def _cost(rows: Sequence[tuple[float, float, float]]) -> Cost:
    columns = [sorted(column) for column in zip(*rows, strict=True)]
    (bare, _), thread, process = map(_middle, columns)
    return Cost(bare, thread[0], process[0], len(rows), thread[1], process[1])


def _middle(ordered: Sequence[float]) -> tuple[float, float]:
    """The median, and how far the ends of its 90 % interval lie from it at most."""
    n, middle = len(ordered), median(ordered)
    low, high = ranks(n, 0.5, 0.05)
    return middle, max(middle - ordered[(low or 1) - 1], ordered[(high or n) - 1] - middle)
