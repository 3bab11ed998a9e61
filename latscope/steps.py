"""Long work as a generator of short steps: it yields wherever others may have their turn, and
returns what it made. The worker that shares the interpreter with the caller goes step by step;
everyone else runs it at once (`finish`)."""

from collections.abc import Generator
from typing import TypeAlias, TypeVar

T = TypeVar("T")

Steps: TypeAlias = Generator[None, None, T]


def finish(steps: Steps[T]) -> T:
    """All steps at once."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            made: T = end.value
            return made
