"""Scenarios: one named behaviour of a server each, read from TOML (`latscope.scenario/1`).

A scenario says how a simulated server spends its time, in milliseconds and tokens; the simulator
plays it. Every field has a default, so a file states only what is special about it. The ones
latscope ships lie in `latscope/sim/scenarios` of the wheel, `fixtures/scenarios` of a checkout.
"""

import tomllib
from collections.abc import Mapping
from difflib import get_close_matches
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

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
    field_validator,
    model_validator,
)
from pydantic_core import ErrorDetails

from latscope.errors import InputError, UsageError

SCHEMA: Literal["latscope.scenario/1"] = "latscope.scenario/1"

DEMO = ("healthy", "long-prompt", "loaded-queue", "buffering-hop", "stall", "blind")
"""The story `latscope demo` tells, in its order."""

HOLDS = 'must be "none", "all", {quantum_ms = N} or {quantum_bytes = N} with N above 0'

HeaderName: TypeAlias = Annotated[
    str, StringConstraints(pattern=r"^[A-Za-z0-9!#$%&'*+.^_`|~-]+$", to_lower=True)
]
HeaderValue: TypeAlias = Annotated[str, StringConstraints(pattern=r"^[\x21-\x7e]([\x20-\x7e]*)$")]
OWN_HEADERS = ("content-length", "content-type", "transfer-encoding", "connection", "x-request-id")
"""Headers the simulator writes itself, whatever the scenario."""


class _Table(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Call(_Table):
    """What the demo asks of this server: the API, how long a prompt, how much it wants back."""

    api: Literal["chat", "completions", "responses", "messages"] = "chat"
    prompt_tokens: PositiveInt = 64
    max_tokens: PositiveInt | None = None
    """The request's output cap; null for none."""
    stream: bool = True


class Stall(_Table):
    """A gap in the stream after `after_token` tokens exist, `ms` long.

    decode: generation itself pauses. hold: tokens go on being made, but none leaves for that long.
    """

    after_token: PositiveInt
    ms: PositiveFloat
    kind: Literal["decode", "hold"] = "decode"


class Quantum(_Table):
    """A hop that passes bytes on only now and then: every `quantum_ms` milliseconds, or in blocks
    of `quantum_bytes` bytes (the rest when the answer ends). Exactly one of them is set."""

    quantum_ms: PositiveFloat | None = None
    quantum_bytes: PositiveInt | None = None


class Scenario(_Table):
    """One server's behaviour. Milliseconds unless the name says otherwise; the defaults are those
    of a mid-size model on an unloaded GPU."""

    schema_: Literal["latscope.scenario/1"] = Field(default=SCHEMA, alias="schema")
    name: Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9._-]*$")]
    """Also the model name a request selects the scenario by; the file's name when not given."""
    title: str = ""
    story: str = ""
    """One sentence: what happens to the call, and why."""
    call: Call = Call()
    seed: int = 0
    """Of the step jitter: one run of a server repeats another exactly, call by call."""

    header_policy: Literal["early", "slot", "token"] = "early"
    """When the response's head leaves: after the frontend's work, when the engine schedules the
    call, or with the first token."""
    headers: Mapping[HeaderName, HeaderValue] = Field(default_factory=dict)
    """Extra response headers; `server` replaces the simulator's own."""
    slots: PositiveInt = 16
    """How many calls the engine runs at once; more wait, first come first served."""

    frontend_ms: NonNegativeFloat = 3
    """The server's own HTTP, templating and tokenising, before the engine has the call."""
    queue_ms: NonNegativeFloat = 0.5
    """Least wait for the engine: the load of others, which is not simulated itself."""
    prefill_base_ms: NonNegativeFloat = 25
    prefill_us_per_token: NonNegativeFloat = 120
    """Microseconds for each prompt token the prefix cache does not hold."""
    prefix_cache: bool = True
    """Prompts share what their first blocks of 64 tokens share with earlier prompts."""
    decode_step_ms: NonNegativeFloat = 15
    step_jitter: Annotated[float, Field(ge=0, le=1)] = 0.1
    """Each step takes decode_step_ms times a factor even in [1 - jitter, 1 + jitter]."""

    output_tokens: PositiveInt = 40
    """Tokens of the visible answer; the request's own cap ends it earlier."""
    hidden_reasoning_tokens: NonNegativeInt = 0
    """Generated before everything else and never sent; they count in usage."""
    reasoning_tokens: NonNegativeInt = 0
    """Reasoning sent as such, before the visible answer."""
    tokens_per_chunk: PositiveInt = 1
    """The first token leaves alone, then so many at a time, each group when its last exists."""
    role_chunk: Literal["early", "with_first"] = "with_first"
    """Whether the envelope before any token (chat's role chunk, message_start) leaves with the
    headers or with the first token; Responses always sends its envelope with the headers."""
    pings_ms: PositiveFloat | None = None
    """Keep-alive after so long a silence, once the headers are out; null for none."""

    stalls: tuple[Stall, ...] = ()
    holds: Literal["none", "all"] | Quantum = "none"
    """What a hop between engine and client does: nothing, keep all to the end, or a quantum."""
    cut_after_token: NonNegativeInt | None = None
    """The connection drops once so many tokens exist."""
    error_in_band_after_token: NonNegativeInt | None = None
    """An error object inside the open stream once so many tokens exist."""
    statuses: tuple[int, ...] = ()
    """HTTP status of each attempt in turn, e.g. [429, 500, 200]; none means always 200. The place
    in the list is the SDK's retry count where it says so, else goes round call by call."""
    retry_after_s: NonNegativeFloat | None = None
    """The Retry-After header of 429, 503 and 529."""
    metrics: Literal["vllm", "llama", "none"] = "vllm"
    """The server's own timings in the answer: vLLM's `metrics`, llama.cpp's `timings`, none."""

    @field_validator("holds", mode="before")
    @classmethod
    def _holds(cls, value: Any) -> Any:
        if value in ("none", "all") or isinstance(value, Quantum):
            return value
        known = ("quantum_ms", "quantum_bytes")
        kinds = {"quantum_ms": (int, float), "quantum_bytes": (int,)}
        given = {k: v for k, v in value.items() if v is not None} if _is_table(value) else {}
        if len(given) != 1 or next(iter(given)) not in known:
            raise ValueError(HOLDS)
        key, size = next(iter(given.items()))
        if isinstance(size, bool) or not isinstance(size, kinds[key]) or size <= 0:
            raise ValueError(HOLDS)
        return given

    @field_validator("statuses")
    @classmethod
    def _statuses(cls, statuses: tuple[int, ...]) -> tuple[int, ...]:
        for status in statuses:
            if status != 200 and not 400 <= status <= 599:
                raise ValueError(f"{status} is neither 200 nor an HTTP error (400 to 599)")
        return statuses

    @field_validator("headers")
    @classmethod
    def _headers(cls, headers: Mapping[str, str]) -> Mapping[str, str]:
        for name in headers:
            if name in OWN_HEADERS:
                raise ValueError(f"{name!r} is the simulator's own; leave it out")
        return headers

    @model_validator(mode="after")
    def _one_end(self) -> "Scenario":
        if self.cut_after_token is not None and self.error_in_band_after_token is not None:
            raise ValueError("give cut_after_token or error_in_band_after_token, not both")
        return self


def parse(text: str, where: str, name: str | None = None) -> Scenario:
    """The scenario a TOML text states; `where` names it in errors, `name` is its default name.

    Raises InputError, one line: the file, the field, what is wrong and what to write instead."""
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{where}: not TOML: {error}") from error
    stated = table.get("schema", SCHEMA)
    if stated != SCHEMA:
        raise InputError(f"{where}: schema is {stated!r}; this latscope reads {SCHEMA!r}")
    if name is not None:
        table.setdefault("name", name)
    return from_mapping(table, where)


def from_mapping(table: Mapping[str, Any], where: str) -> Scenario:
    """The same from a mapping already read (JSON between processes)."""
    try:
        return Scenario.model_validate(table)
    except ValidationError as error:
        found = error.errors(include_url=False)
        more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
        raise InputError(f"{where}: {_complaint(found[0])}{more}") from error


def read(path: Path) -> Scenario:
    """The scenario in a TOML file, named after it when it states no name."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read: {error}") from error
    return parse(text, str(path), path.stem)


def shipped() -> dict[str, Scenario]:
    """The scenarios latscope comes with, by name, those of the demo first."""
    found = [
        parse(entry.read_text(encoding="utf-8"), entry.name, entry.name.removesuffix(".toml"))
        for entry in _home().iterdir()
        if entry.name.endswith(".toml")
    ]
    order = {name: place for place, name in enumerate(DEMO)}
    found.sort(key=lambda scenario: (order.get(scenario.name, len(order)), scenario.name))
    return {scenario.name: scenario for scenario in found}


def by_name(names: tuple[str, ...] | list[str]) -> list[Scenario]:
    """Those of the shipped scenarios, in the order asked; UsageError names an unknown one."""
    known = shipped()
    unknown = [name for name in names if name not in known]
    if unknown:
        raise UsageError(f"no scenario {unknown[0]!r}; there are: {', '.join(known)}")
    return [known[name] for name in names]


def _home() -> Traversable:
    inside = files("latscope") / "sim" / "scenarios"
    if inside.is_dir():
        return inside
    return Path(__file__).resolve().parents[2] / "fixtures" / "scenarios"


def _complaint(error: ErrorDetails) -> str:
    """One validation error as `field: what is wrong; what to do`."""
    path = [str(part) for part in error["loc"]]
    at = ".".join(path) or "scenario"
    if error["type"] != "extra_forbidden":
        found = "" if error["type"] == "missing" or not path else f" (found {error['input']!r:.60})"
        return f"{at}: {error['msg'].removeprefix('Value error, ')}{found}"
    known = _fields(path[:-1])
    near = get_close_matches(path[-1], known, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(known)}"
    return f"{at}: no such field; {hint}"


def _fields(path: list[str]) -> list[str]:
    tables: dict[str, type[BaseModel]] = {"call": Call, "stalls": Stall}
    table = tables[path[0]] if path else Scenario
    return [field.alias or name for name, field in table.model_fields.items()]


def _is_table(value: Any) -> bool:
    return isinstance(value, Mapping)
