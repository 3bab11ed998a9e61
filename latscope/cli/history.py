"""What a file's own calls teach of their endpoints, so that each can be split by the others.

Read once for the history and once for the answer. A call is never judged by a floor it helped to
fit while there are few; a profile given by the user comes before anything learnt here.
"""

import io
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import get_args

import click

from latscope.attribution.model import Mode
from latscope.attribution.observe import Observation, endpoint_of, observe
from latscope.attribution.profile import Profile
from latscope.cli.output import Progress, say
from latscope.errors import InputError, MissingExtra
from latscope.recording import Recording
from latscope.report.figures import counted

LEAST = 20
"""Calls of one endpoint and model below which nothing is learnt from them."""
MOST = 2_000
"""Calls a history is learnt from: of a longer file, so many spread evenly over it."""

Key = tuple[str, str]

profile_option = click.option(
    "--profile",
    "profile_files",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="What is known of an endpoint (latscope calibrate -o); may be given several times.",
)
MODES: tuple[Mode, ...] = get_args(Mode)
mode_option = click.option(
    "--mode", type=click.Choice(MODES), help="Whose servers, where the host does not tell."
)
"""Of a command that attributes recordings, as is `profile_option`."""


@dataclass(slots=True, kw_only=True)
class History:
    """given: profiles the user brought, by (endpoint, model). own: by call id, the profile of the
    other calls; common: by (endpoint, model), for calls not looked at. refused: why an endpoint's
    floor was not believed."""

    given: dict[Key, Profile] = field(default_factory=dict)
    own: dict[str, Profile] = field(default_factory=dict)
    common: dict[Key, Profile] = field(default_factory=dict)
    refused: dict[Key, str] = field(default_factory=dict)

    def profile_of(self, recording: Recording) -> Profile | None:
        """What is known of the call's endpoint and model; null when nothing is. A call that was
        looked at is split by the others' profile, or by none."""
        if recording.call_id in self.own:
            return self.own[recording.call_id]
        if not self.given and not self.common:
            return None
        endpoint = endpoint_of(recording)
        model = str((recording.request or {}).get("model") or "")
        for known in (self.given, self.common):
            same = [profile for (at, _), profile in known.items() if at == endpoint]
            if same:
                named = [profile for profile in same if profile.model == model]
                return (named or same)[0]
        return None


@contextmanager
def rereadable(files: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Names to read the files by a first time, stdin's content under that of a temporary copy;
    `-` itself can then be read as if it never had been."""
    if "-" not in files:
        yield tuple(files)
        return
    stdin = sys.stdin
    with tempfile.NamedTemporaryFile(prefix="latscope-", suffix=".jsonl") as copy:
        shutil.copyfileobj(stdin.buffer, copy)
        copy.flush()
        copy.seek(0)
        sys.stdin = io.TextIOWrapper(copy.file)
        try:
            yield tuple(copy.name if file == "-" else file for file in files)
        finally:
            sys.stdin.detach()
            sys.stdin = stdin


def profiles(paths: Iterable[Path]) -> dict[Key, Profile]:
    """Profile files by what they are of; of two of the same the later counts."""
    from latscope.documents.profiles import read

    found: dict[Key, Profile] = {}
    for path in paths:
        profile = read(path)
        found[profile.endpoint, profile.model] = profile
    return found


def learnt(files: Sequence[str], given: dict[Key, Profile], progress: Progress) -> History:
    """The history of the calls in `files`. Without `latscope[analysis]` nothing is learnt, and that
    is said once; a file that cannot be read is left to the second reading to tell."""
    from latscope.attribution.learn import learn_apart

    history = History(given=dict(given))
    rows = [
        (call_id, row) for call_id, row in _observed(files, progress) if row.key[:2] not in given
    ]
    groups: dict[tuple[str, str, str], list[tuple[str, Observation]]] = {}
    for call_id, row in rows:
        groups.setdefault(row.key, []).append((call_id, row))
    for key, group in groups.items():
        if len(group) < LEAST:
            continue
        try:
            found = learn_apart([row for _, row in group])
        except MissingExtra as error:
            say(f"{error}; calls whose server states no times stay unsplit")
            return history
        _take(history, key[:2], group, found)
    return history


def _take(
    history: History,
    key: Key,
    group: Sequence[tuple[str, Observation]],
    found: Sequence[Profile | None],
) -> None:
    for (call_id, _), profile in zip(group, found, strict=True):
        if profile is not None:
            history.own[call_id] = profile
    last = found[-1]
    if last is not None:
        history.common[key] = last
        if last.refused is not None:
            history.refused[key] = last.refused


def _observed(files: Sequence[str], progress: Progress) -> Iterator[tuple[str, Observation]]:
    from latscope.documents import lines

    for file in files:
        every = 1
        try:
            for number, recording in enumerate(lines.read_recordings(file)):
                if number >= MOST * every:
                    every *= 2
                if number % every:
                    continue
                if number and number % 100 == 0:
                    progress.reached(f"{counted(number, 'call')} looked at for their history")
                row = observe(recording)
                if row is not None:
                    yield recording.call_id, row
        except InputError:
            continue
