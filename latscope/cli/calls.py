"""Files of calls for the rules: recordings attributed as `explain` does, attribution lines as they
are, in one pass and one mapping at a time."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from latscope.attribution.model import Mode
from latscope.cli import select
from latscope.cli.baseline import Keep
from latscope.cli.history import History, Key, learnt, rereadable
from latscope.cli.output import LeftOut, Progress
from latscope.documents.prices import Prices
from latscope.documents.series import Series
from latscope.errors import InputError
from latscope.recording import Recording
from latscope.report.figures import counted
from latscope.rules.table import Gathered, gather
from latscope.rules.table import Key as GroupKey

EVERY = 500
"""Calls between two looks of the progress line."""
SERVER = "server."


@dataclass(slots=True, kw_only=True)
class Reader:
    """Mutable: what was left out so far. given: profiles the user brought. prices: laid into each
    call as `money`; null: none asked for."""

    given: dict[Key, Any] = field(default_factory=dict)
    mode: Mode | None = None
    prices: Prices | None = None
    progress: Progress = field(default_factory=Progress)
    known: dict[tuple[str, ...], History] = field(default_factory=dict, repr=False)
    left_out: LeftOut = field(init=False)

    def __post_init__(self) -> None:
        self.left_out = LeftOut(progress=self.progress)

    @property
    def refused(self) -> bool:
        """Whether a whole line could not be read: of another version, or out of range."""
        return self.left_out.refused

    def gathered(
        self,
        files: Sequence[str],
        names: Collection[str],
        wanted: select.Selection,
        *,
        keep: Keep | None = None,
    ) -> Gathered:
        """The calls of the files that are wanted, as columns. keep: is shown each of them.
        InputError when a file cannot be read or holds no call, or when none is wanted."""
        with rereadable(files) as copies:
            series: list[Series] = []
            if any(name.startswith(SERVER) for name in names):
                series = [line for copy in copies for line in _series(copy)]
            history = self._history(copies)
            try:
                found = gather(self.calls(files, wanted, history, keep), names, series=series)
            finally:
                self.progress.end()
        if not found.file.n:
            raise InputError(f"{', '.join(files)}: no call matches what was asked for")
        return found

    def _history(self, files: tuple[str, ...]) -> History:
        """What the files teach, learnt once however often they are gathered from."""
        if files not in self.known:
            self.known[files] = learnt(files, self.given, self.progress)
        return self.known[files]

    def calls(
        self,
        files: Sequence[str],
        wanted: select.Selection,
        history: History,
        keep: Keep | None = None,
    ) -> Iterator[dict[str, Any]]:
        """Each wanted call's mapping. history: what the files' own calls teach."""
        from latscope.documents import lines

        number = 0
        for file in files:
            problems: list[str] = []
            refused: list[str] = []
            for line in lines.read(file, problems=problems, refused=refused):
                if problems or refused:
                    self.left_out.tell(problems, refused)
                number += 1
                if number % EVERY == 0:
                    self.progress.reached(f"{counted(number, 'call')} read")
                call = line if isinstance(line, dict) else self._attributed(line, wanted, history)
                if call is None or not select.chosen(call, wanted):
                    continue
                if keep is not None:
                    keep.offer(call)
                if self.prices is not None:
                    call["money"] = self.prices.money(call)
                yield call
            self.left_out.tell(problems, refused)

    def _attributed(
        self, recording: Recording, wanted: select.Selection, history: History
    ) -> dict[str, Any] | None:
        """Null where it can be told beforehand that the call is not wanted: attributing costs."""
        from latscope.attribution import attribute
        from latscope.attribution.jsonview import to_mapping

        if not select.asked_for(recording, wanted):
            return None
        profile = history.profile_of(recording)
        return to_mapping(attribute(recording, profile=profile, mode=self.mode))


def spoken(key: GroupKey) -> str:
    """Whose calls a group is, in words."""
    model, endpoint = key
    return f"{model or 'an unnamed model'} at {endpoint or 'an unknown endpoint'}"


def _series(file: str) -> Iterator[Series]:
    from latscope.documents import recordings

    yield from recordings.read_series(file, problems=[])
