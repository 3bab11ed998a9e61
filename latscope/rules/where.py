"""`--where`: a small fixed grammar over the fields of an attribution. Nothing is evaluated.

    expression = term {"or" term}
    term       = factor {"and" factor}
    factor     = "not" factor | "(" expression ")" | field operator value
    operator   = "=" | "!=" | "<" | "<=" | ">" | ">=" | "~"          (~: contains, any case)
    field      = a name of latscope.attribution/1 (dotted inside), tags.NAME, or a segment's name
    value      = word, "quoted text", number, duration (20us 100ms 1.5s), true, false, null

A segment's name (`queue`), `ttft` and `wall` stand for their nanoseconds, so `queue > 100ms` works.
A comparison with a field that is null is false, save `= null` and `!=`. What could never hold, such
as a number compared with a word, is refused.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import isfinite
from operator import ge, gt, le, lt
from typing import Any, TypeAlias

from latscope.attribution.jsonview import value_at
from latscope.errors import UsageError
from latscope.rules.fields import PLAIN, Kind, check_field, kind_of

Test: TypeAlias = Callable[[Mapping[str, Any]], bool]
"""Says whether an attribution's mapping (`attribution.jsonview`) is wanted."""


@dataclass(frozen=True, slots=True)
class Words:
    """The names a test may use. check: what is wrong with one, null when nothing; kind: of one that
    is right; value: what a mapping says of it."""

    check: Callable[[str], str | None]
    kind: Callable[[str], Kind]
    value: Callable[[Mapping[str, Any], str], Any]


FIELDS = Words(check_field, kind_of, value_at)
"""The fields of `latscope.attribution/1`."""

TOKEN = re.compile(
    r"""\s*(?:
        (?P<quoted>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
      | (?P<operator><=|>=|!=|=|<|>|~)
      | (?P<paren>[()])
      | (?P<word>[^\s()=<>!~"']+)
    )""",
    re.VERBOSE,
)
DURATION = re.compile(r"(-?\d+(?:\.\d+)?)(ns|us|µs|ms|s|min|m|h)")
SCALE = {"ns": 1, "us": 1e3, "µs": 1e3, "ms": 1e6, "s": 1e9, "m": 6e10, "min": 6e10, "h": 3.6e12}
DEEPEST = 50
"""Levels of `(` and `not`; people need three."""
ORDERED = {"<": lt, "<=": le, ">": gt, ">=": ge}


@dataclass(frozen=True, slots=True)
class Token:
    kind: str
    text: str
    at: int


def parse(text: str, words: Words = FIELDS) -> Test:
    """The test a `--where` text states; UsageError with the place where it stops making sense."""
    return parsed(text, words)[0]


def parsed(text: str, words: Words = FIELDS) -> tuple[Test, tuple[str, ...]]:
    """As `parse`, and the names the test uses, each once."""
    parser = _Parser(text, words)
    test = parser.expression()
    if parser.here.kind != "end":
        raise parser.wrong("expected 'and', 'or' or the end")
    return test, tuple(dict.fromkeys(parser.used))


class _Parser:
    def __init__(self, text: str, words: Words) -> None:
        self.text = text
        self.words = words
        self.used: list[str] = []
        self.tokens = _tokens(text)
        self.place = 0
        self.depth = 0

    @property
    def here(self) -> Token:
        return self.tokens[self.place]

    def wrong(self, what: str, at: int | None = None) -> UsageError:
        at = self.here.at if at is None else at
        return UsageError(f"--where: {what} at character {at + 1} of {_quoted(self.text)}")

    def take(self) -> Token:
        token = self.here
        self.place += 1
        return token

    def keyword(self, word: str) -> bool:
        if self.here.kind == "word" and self.here.text.lower() == word:
            self.place += 1
            return True
        return False

    def expression(self) -> Test:
        tests = [self.term()]
        while self.keyword("or"):
            tests.append(self.term())
        return tests[0] if len(tests) == 1 else lambda call: any(test(call) for test in tests)

    def term(self) -> Test:
        tests = [self.factor()]
        while self.keyword("and"):
            tests.append(self.factor())
        return tests[0] if len(tests) == 1 else lambda call: all(test(call) for test in tests)

    def factor(self) -> Test:
        if self.depth == DEEPEST:
            raise self.wrong(f"more than {DEEPEST} levels of '(' and 'not'")
        self.depth += 1
        test = self.level()
        self.depth -= 1
        return test

    def level(self) -> Test:
        if self.keyword("not"):
            inner = self.factor()
            return lambda call: not inner(call)
        if self.here.text == "(" and self.here.kind == "paren":
            self.take()
            inner = self.expression()
            if self.here.text != ")" or self.here.kind != "paren":
                raise self.wrong("expected ')'")
            self.take()
            return inner
        return self.comparison()

    def comparison(self) -> Test:
        if self.here.kind != "word":
            raise self.wrong("expected a field")
        field = self.take()
        problem = self.words.check(field.text)
        if problem is not None:
            raise self.wrong(problem, field.at)
        if self.here.kind != "operator":
            raise self.wrong("expected one of = != < <= > >= ~")
        operator = self.take()
        if self.here.kind not in ("word", "quoted"):
            raise self.wrong("expected a value")
        token = self.take()
        wanted = _value(token)
        problem = _never(field.text, self.words.kind(field.text), operator.text, wanted)
        if problem is not None:
            raise self.wrong(problem, token.at)
        self.used.append(field.text)
        return _comparison(field.text, operator.text, wanted, self.words.value)


def _never(field: str, kind: Kind, operator: str, wanted: Any) -> str | None:
    """Why such a comparison could hold for no call; null when it could."""
    number = isinstance(wanted, int | float) and not isinstance(wanted, bool)
    if operator in ORDERED and kind not in ("number", "text"):
        return f"{operator} needs a field with an order; {field} has none"
    if operator in ORDERED and kind == "text" and not isinstance(wanted, int | float | str):
        return f"{operator} needs a text"
    sized = operator in ORDERED or isinstance(wanted, str | bool)
    if kind == "number" and operator != "~" and sized and not number:
        return f"{field} {operator} needs a number or a duration, such as 500ms or 1.5s,"
    if operator in ("=", "!=") and kind not in PLAIN and wanted is not None:
        return f"{operator} needs one value, and {field} holds several; try ~, or a field of it,"
    return None


def _quoted(text: str) -> str:
    """The text a person typed, cut where it is long."""
    return repr(text) if len(text) <= 120 else f"{text[:117]!r}..."


def _tokens(text: str) -> list[Token]:
    tokens: list[Token] = []
    at = 0
    while text[at:].strip():
        match = TOKEN.match(text, at)
        if match is None or match.lastgroup is None:
            place = at + len(text[at:]) - len(text[at:].lstrip())
            raise UsageError(f"--where: cannot read from character {place + 1} of {_quoted(text)}")
        tokens.append(Token(match.lastgroup, match[match.lastgroup], match.start(match.lastgroup)))
        at = match.end()
    return [*tokens, Token("end", "", len(text))]


def _value(token: Token) -> Any:
    if token.kind == "quoted":
        return re.sub(r"\\(.)", r"\1", token.text[1:-1])
    words = {"true": True, "false": False, "null": None}
    if token.text.lower() in words:
        return words[token.text.lower()]
    duration = DURATION.fullmatch(token.text)
    if duration is not None:
        return float(duration[1]) * SCALE[duration[2]]
    try:
        number = float(token.text)
    except ValueError:
        return token.text
    return number if isfinite(number) else token.text


def _comparison(
    field: str, operator: str, wanted: Any, value: Callable[[Mapping[str, Any], str], Any]
) -> Test:
    if operator == "=":
        return lambda call: _equal(value(call, field), wanted)
    if operator == "!=":
        return lambda call: not _equal(value(call, field), wanted)
    if operator == "~":
        needle = _spelled(wanted).lower()
        return lambda call: needle in _spelled(value(call, field)).lower()
    compare = ORDERED[operator]

    def ordered(call: Mapping[str, Any]) -> bool:
        found = value(call, field)
        if isinstance(found, bool) or found is None:
            return False
        if isinstance(found, int | float) and isinstance(wanted, int | float):
            return bool(compare(found, wanted))
        return isinstance(found, str) and bool(compare(found, _spelled(wanted)))

    return ordered


def _equal(value: Any, wanted: Any) -> bool:
    if isinstance(value, bool) or value is None or wanted is None or isinstance(wanted, bool):
        return value is wanted
    if isinstance(value, int | float) and isinstance(wanted, int | float):
        return value == wanted
    return _spelled(value) == _spelled(wanted)


def _spelled(value: Any) -> str:
    """A value as a person would type it: whole numbers without a point."""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if isinstance(value, Mapping | list):
        return " ".join(_spelled(item) for item in _items(value))
    return "" if value is None else str(value)


def _items(value: Any) -> list[Any]:
    return list(value.values()) if isinstance(value, Mapping) else list(value)
