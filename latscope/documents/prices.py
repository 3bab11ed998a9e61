"""What calls cost: prices from genai-prices (`latscope[analysis]`), or from the user's own table.

    [[prices]]                      # in latscope.toml, or in a file of its own (--prices FILE)
    model = "llama-3.3-70b*"        # * for anything
    host = "llm.example.com"        # optional: only at this host
    input = 0.60                    # money a million tokens
    cached_input = 0.15
    cache_write = 0.60
    output = 2.40                   # reasoning too
    currency = "USD"                # the default

The user's rows come first, in their order. genai-prices knows a vendor by its address, so a model
of a vendor's name at an address of your own has no price there: what it costs you is not known. A
price that is not known is null, with the reason; a sum of which one part is not known, too.
"""

import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from fnmatch import fnmatchcase
from os import PathLike
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from latscope.errors import InputError

MILLION = 1_000_000
HOUR_NS = 3600 * 10**9
_Price = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class Row(BaseModel):
    """One row of the user's table: money a million tokens; null: not known."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    model: Annotated[str, Field(min_length=1)]
    host: str | None = None
    input: _Price | None = None
    cached_input: _Price | None = None
    cache_write: _Price | None = None
    output: _Price | None = None
    currency: Annotated[str, Field(min_length=1, max_length=8)] = "USD"


_adapter = TypeAdapter(list[Row])


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """Money a token; null where not known. source: whose figures."""

    input: float | None
    cached_input: float | None
    cache_write: float | None
    output: float | None
    currency: str
    source: str


@dataclass(frozen=True, slots=True)
class Prices:
    """rows: the user's, in order. Mutable inside: rates looked up before."""

    rows: tuple[Row, ...] = ()
    source: str = ""
    known: dict[Any, Rates | str] = field(default_factory=dict, repr=False)
    steps: dict[Any, tuple[int, ...]] = field(default_factory=dict, repr=False)
    """Lengths of prompt from which on another price holds."""

    def money(self, call: Mapping[str, Any]) -> dict[str, Any]:
        """The `money` of a call (a mapping of `latscope.attribution/1`): total, uncached_input,
        cached_input, cache_write, output, and of it reasoning and visible, in `currency`; `rates`,
        money a token; `source`. What is not known is null, and `why` says why the total is."""
        rates = self._rates(call)
        return _unknown(rates) if isinstance(rates, str) else _money(call, rates)

    def _rates(self, call: Mapping[str, Any]) -> Rates | str:
        model, endpoint = call.get("model"), call.get("endpoint") or ""
        if not model:
            return "the model is not known"
        host = urlsplit(endpoint).hostname or ""
        for row in self.rows:
            if fnmatchcase(model, row.model) and (row.host is None or row.host == host):
                return _of_row(row, self.source)
        hour = (call.get("request") or {}).get("cache_ttl_ns") == HOUR_NS
        tier = (call.get("service_tier") or {}).get("served")
        day = str(call.get("started_at", ""))[:10]
        size = call.get("input_tokens") or 0
        key = (model, host, day, tier, hour)
        if key not in self.steps:
            self.steps[key] = _steps(call, tier)
        place = (*key, sum((size > at) + (size >= at) for at in self.steps[key]))
        if place not in self.known:
            self.known[place] = _listed(call, tier, hour, size)
        return self.known[place]


def read(path: str | PathLike[str]) -> Prices:
    """The prices in a file's `[[prices]]`. InputError, with file and row, for what cannot be
    meant, or when there are none."""
    try:
        table = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InputError(f"{path}: not TOML: {error}") from error
    if "prices" not in table:
        raise InputError(f'{path}: holds no prices; a row begins with [[prices]] and model = "..."')
    return of_table(table["prices"], str(path))


def of_table(table: object, path: str) -> Prices:
    """The prices in a parsed `prices`; path: the file, for messages."""
    try:
        rows = _adapter.validate_python(table)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        place, *rest = (*first["loc"], "")
        at = f"prices row {place + 1}" if isinstance(place, int) else "prices"
        inner = "".join(f" {step}" for step in rest if step)
        raise InputError(f"{path}: {at}{inner}: {first['msg']}") from error
    return Prices(rows=tuple(rows), source=path)


def _of_row(row: Row, source: str) -> Rates:
    def each(price: float | None) -> float | None:
        return None if price is None else price / MILLION

    return Rates(
        input=each(row.input),
        cached_input=each(row.cached_input),
        cache_write=each(row.cache_write),
        output=each(row.output),
        currency=row.currency,
        source=source,
    )


# -- genai-prices ----------------------------------------------------------------------------------


def _listed(call: Mapping[str, Any], tier: str | None, hour: bool, size: int) -> Rates | str:
    """The vendor's rates for a prompt of `size` tokens, each by what genai-prices makes of a prompt
    that is all of one kind; hour: what is written to the cache is kept an hour."""
    try:
        import genai_prices
    except ImportError:
        return "needs latscope[analysis], or a table of prices"
    whole, asked = max(size, 1), _asked(call, tier)
    model = str(call["model"])

    def cost(side: str, tokens: int, **kind: int) -> float:
        usage = genai_prices.Usage(input_tokens=whole, **kind)
        found = genai_prices.calc_price(usage, model, **asked)
        return float(getattr(found, side)) / tokens

    written = {"cache_write_tokens": whole}
    if hour:
        written["cache_write_1h_tokens"] = whole
    try:
        price = genai_prices.calc_price(genai_prices.Usage(), model, **asked).model_price
        rates: dict[str, tuple[str, Callable[[], float]]] = {
            "input": ("input_mtok", lambda: cost("input_price", whole)),
            "cached_input": (
                "cache_read_mtok",
                lambda: cost("input_price", whole, cache_read_tokens=whole),
            ),
            "cache_write": ("cache_write_mtok", lambda: cost("input_price", whole, **written)),
            "output": ("output_mtok", lambda: cost("output_price", 1, output_tokens=1)),
        }
        told = {
            name: rate() if getattr(price, listed, None) is not None else None
            for name, (listed, rate) in rates.items()
        }
    except LookupError:
        host = urlsplit(str(call.get("endpoint") or "")).hostname or "this address"
        return f"no list price of {model} at {host}; give one with --prices"
    return Rates(**told, currency="USD", source=f"genai-prices {_version()}")


def _asked(call: Mapping[str, Any], tier: str | None) -> dict[str, Any]:
    asked: dict[str, Any] = {
        "provider_api_url": str(call.get("endpoint") or ""),
        "genai_request_timestamp": _began(call),
    }
    return asked if tier is None else {**asked, "price_context": {"service_tier": tier}}


def _steps(call: Mapping[str, Any], tier: str | None) -> tuple[int, ...]:
    """Where the price of a model changes with the prompt's length."""
    try:
        import genai_prices

        usage = genai_prices.Usage()
        price = genai_prices.calc_price(usage, str(call["model"]), **_asked(call, tier)).model_price
    except (ImportError, LookupError):
        return ()
    names = ("input_mtok", "cache_read_mtok", "cache_write_mtok", "output_mtok")
    tiers = (getattr(getattr(price, name, None), "tiers", ()) for name in names)
    return tuple(sorted({int(tier.start) for each in tiers for tier in each}))


def _version() -> str:
    from importlib.metadata import version

    return version("genai-prices")


def _began(call: Mapping[str, Any]) -> datetime | None:
    """When the call was made: prices change."""
    try:
        return datetime.fromisoformat(str(call.get("started_at")))
    except ValueError:
        return None


# -- one call --------------------------------------------------------------------------------------


def _unknown(why: str) -> dict[str, Any]:
    parts = dict.fromkeys(("total", *PARTS, "reasoning", "visible"))
    return {**parts, "currency": None, "source": None, "rates": None, "why": why}


PARTS = ("uncached_input", "cached_input", "cache_write", "output")
"""They add up to the total; reasoning and visible add up to the output."""


def _money(call: Mapping[str, Any], rates: Rates) -> dict[str, Any]:
    size, made = call.get("input_tokens"), call.get("output_tokens")
    read, written = call.get("cached_tokens"), call.get("cache_write_tokens") or 0
    if read is None and rates.cached_input in (None, rates.input):
        read = 0  # no discount here that could have been given
    fresh = None if size is None or read is None else max(0, size - read - written)
    parts = {
        "uncached_input": _times(fresh, rates.input),
        "cached_input": _times(read, rates.cached_input),
        "cache_write": _times(written, rates.cache_write),
        "output": _times(made, rates.output),
    }
    thought = call.get("reasoning_tokens")
    reasoning = _times(thought, rates.output)
    visible = None if thought is None or made is None else _times(made - thought, rates.output)
    unknown = [name for name in PARTS if parts[name] is None]
    return {
        "total": None if unknown else sum(value or 0.0 for value in parts.values()),
        **parts,
        "reasoning": reasoning,
        "visible": visible,
        "currency": rates.currency,
        "source": rates.source,
        "rates": {
            "input": rates.input,
            "cached_input": rates.cached_input,
            "cache_write": rates.cache_write,
            "output": rates.output,
        },
        "why": _why(unknown, size, read, made),
    }


def _times(tokens: int | None, rate: float | None) -> float | None:
    """Nothing of a kind costs nothing, whatever its price."""
    if tokens == 0:
        return 0.0
    return None if tokens is None or rate is None else tokens * rate


def _why(unknown: Sequence[str], size: int | None, read: int | None, made: int | None) -> str:
    if not unknown:
        return ""
    if size is None or made is None:
        return "the answer states no usage"
    if read is None:
        return "the answer does not state how many tokens came from the cache"
    return f"no price of: {', '.join(name.replace('_', ' ') for name in unknown)}"
