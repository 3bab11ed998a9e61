"""Traffic recipes (`latscope.recipe/1`): what is asked of which engine over which way, as data.

A recipe names an engine, and mixes of prompts, links, hops, faults and faces of the server to
combine; its cells say which combinations are run, at which load, and how much each scored call of
a cell counts. The fleet simulator and the lab with its real paths and hops read the same files.
docs/lab.md says what the two halves are for.
"""

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias, TypeVar

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    StringConstraints,
    ValidationError,
    model_validator,
)

from latscope.errors import InputError

SCHEMA: Literal["latscope.recipe/1"] = "latscope.recipe/1"

LOADS = (0.2, 0.5, 0.8, 0.95, 1.1)
"""Shares of what the engine can get done of a mix, at which every mix is run."""

FROZEN = (
    "latscope/attribution/**/*.py",
    "latscope/timeline/**/*.py",
    "latscope/protocols/reported/**/*.py",
)
"""The estimator and its thresholds: half B is drawn anew whenever one of these changes."""

Name: TypeAlias = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9._-]*$")]
Share: TypeAlias = Annotated[float, Field(ge=0, le=1)]


class _Table(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Engine(_Table):
    """Settings under vLLM's names; slowness multiplies the cost of every step of the reference
    model (`latscope.sim.fleet`): a larger model, or a smaller accelerator."""

    max_num_seqs: PositiveInt
    max_num_batched_tokens: PositiveInt
    blocks: PositiveInt = 16_384
    """KV memory, in blocks of 16 tokens."""
    replicas: PositiveInt = 1
    routing: Literal["round-robin", "least-loaded", "prefix-affine"] = "round-robin"
    slowness: PositiveFloat = 1.0


class Mix(_Table):
    """What is asked: median tokens, and the sigma of the lognormal they are drawn from. prefixes:
    how many different ones the calls share, 0 for none; prefix_tokens: their length, on top."""

    name: Name
    prompt: PositiveInt
    prompt_spread: NonNegativeFloat = 0.5
    output: PositiveInt
    output_spread: NonNegativeFloat = 0.4
    prefixes: NonNegativeInt = 0
    prefix_tokens: NonNegativeInt = 0
    pattern: Literal["constant", "poisson", "burst"] = "poisson"


class Link(_Table):
    """The way between client and first hop. rtt_ms: half of it each way; jitter_ms: most a packet
    is late beyond it; loss: share of packets; up_mbit, down_mbit: null for no limit. reused:
    whether calls find a connection open; tls: whether a new one is encrypted: a round trip more."""

    name: Name
    rtt_ms: NonNegativeFloat
    jitter_ms: NonNegativeFloat = 0
    loss: Share = 0
    up_mbit: PositiveFloat | None = None
    down_mbit: PositiveFloat | None = None
    reused: bool = True
    tls: bool = False


class Hop(_Table):
    """A proxy on the way: the name of a case of the lab (`tests/lab`), and what it does to a
    stream. passes: nothing; bursts: haproxy's cork; collected: kept to its end."""

    name: Name
    does: Literal["passes", "bursts", "collected"]


class Fault(_Table):
    """Something that befalls a call on the link, `share` of the calls. hold: packets are kept for
    ms; blackout: they are lost for ms; drop: `packets` of them are. when: as the request leaves, or
    as the first or the last token does."""

    name: Name
    do: Literal["none", "hold", "blackout", "drop"]
    ms: NonNegativeFloat = 0
    packets: NonNegativeInt = 0
    when: Literal["request", "first", "last"] = "first"
    share: Share = 1


class Face(_Table):
    """What the server shows of itself: the API, when its headers leave (with the front end's work,
    as the engine takes the call up, with the first token), the times it reports, its chunks."""

    name: Name
    api: Literal["chat", "completions", "responses", "messages"] = "chat"
    header_policy: Literal["early", "slot", "token"] = "early"
    metrics: Literal["none", "vllm", "llama"] = "none"
    tokens_per_chunk: PositiveInt = 1
    stream: bool = True


class Cell(_Table):
    """One combination, by name. calls: how many are run; weight: how much each counts where the
    calls of all cells are scored together."""

    load: PositiveFloat
    mix: Name
    link: Name
    hop: Name
    fault: Name
    face: Name
    calls: PositiveInt = 300
    weight: PositiveFloat = 1.0


Part = TypeVar("Part", Mix, Link, Hop, Fault, Face)


class Recipe(_Table):
    """half: `a` is for building, `b` for scoring only; seed: of every draw in running it."""

    schema_: Literal["latscope.recipe/1"] = Field(default=SCHEMA, alias="schema")
    name: Name
    half: Literal["a", "b"]
    seed: NonNegativeInt = 0
    story: str = ""
    engine: Engine
    mixes: tuple[Mix, ...] = Field(min_length=1)
    links: tuple[Link, ...] = Field(min_length=1)
    hops: tuple[Hop, ...] = Field(min_length=1)
    faults: tuple[Fault, ...] = Field(min_length=1)
    faces: tuple[Face, ...] = Field(min_length=1)
    cells: tuple[Cell, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _names(self) -> "Recipe":
        for kind, known in self._parts().items():
            if len(set(known)) < len(known):
                raise ValueError(f"two {kind} of one name")
            one = SINGULAR[kind]
            for number, cell in enumerate(self.cells):
                if getattr(cell, one) not in known:
                    raise ValueError(
                        f"cells.{number}: no {one} {getattr(cell, one)!r}; "
                        f"there are: {', '.join(known)}"
                    )
        return self

    def _parts(self) -> dict[str, list[str]]:
        return {kind: [part.name for part in getattr(self, kind)] for kind in SINGULAR}

    def mix(self, cell: Cell) -> Mix:
        return _named(self.mixes, cell.mix)

    def link(self, cell: Cell) -> Link:
        return _named(self.links, cell.link)

    def hop(self, cell: Cell) -> Hop:
        return _named(self.hops, cell.hop)

    def fault(self, cell: Cell) -> Fault:
        return _named(self.faults, cell.fault)

    def face(self, cell: Cell) -> Face:
        return _named(self.faces, cell.face)


SINGULAR: Mapping[str, str] = {
    "mixes": "mix",
    "links": "link",
    "hops": "hop",
    "faults": "fault",
    "faces": "face",
}
"""A recipe's lists of parts, and the field of a cell that names one of each."""


def parse(text: str, where: str) -> Recipe:
    """The recipe a TOML text states; `where` names it in errors.

    Raises InputError, one line: the file, the field, what is wrong."""
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{where}: not TOML: {error}") from error
    return from_mapping(table, where)


def from_mapping(table: Mapping[str, Any], where: str) -> Recipe:
    """The same from a mapping already read."""
    stated = table.get("schema", SCHEMA)
    if stated != SCHEMA:
        raise InputError(f"{where}: schema is {stated!r}; this latscope reads {SCHEMA!r}")
    try:
        return Recipe.model_validate(table)
    except ValidationError as error:
        found = error.errors(include_url=False)
        first = found[0]
        at = ".".join(str(part) for part in first["loc"]) or "recipe"
        more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
        said = first["msg"].removeprefix("Value error, ")
        raise InputError(f"{where}: {at}: {said}{more}") from error


def to_mapping(recipe: Recipe) -> dict[str, Any]:
    """JSON-ready values; `from_mapping` reads them back."""
    return recipe.model_dump(mode="json", by_alias=True)


def read(path: Path) -> Recipe:
    """The recipe in a TOML file."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read: {error}") from error
    return parse(text, str(path))


def frozen(root: Path) -> dict[str, bytes]:
    """The files under a checkout whose content decides half B, by their path in it.

    Raises InputError when there are none: then `root` is no checkout."""
    found = {
        path.relative_to(root).as_posix(): path.read_bytes()
        for pattern in FROZEN
        for path in sorted(root.glob(pattern))
    }
    if not found:
        raise InputError(f"{root}: no checkout of latscope: it has none of {', '.join(FROZEN)}")
    return found


def _named(parts: Sequence[Part], name: str) -> Part:
    return next(part for part in parts if part.name == name)
