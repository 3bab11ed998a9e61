"""What vendors say of their prompt caches: how long a prompt must be, and how long it is kept.

Read on 2026-11-29 from the vendors' own pages (named in `source`), in their words for models. A
model that no row names is unknown: nothing is said of it. Platforms that resell a model keep its
name in the model's name (`anthropic.claude-...-v1:0`), so that its row is found; the vendors state
the same least lengths there.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from latscope.units import Ns, S

READ = "2026-11-29"
ANTHROPIC = "https://platform.claude.com/docs/en/build-with-claude/prompt-caching"
OPENAI = "https://developers.openai.com/api/docs/guides/prompt-caching"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """minimum: prompt tokens below which nothing is cached. explicit: only what the request marks
    is cached. ttl_ns: how long after its last use an entry is sure to be kept, or typically kept,
    where the request names no other lifetime."""

    minimum: int
    explicit: bool
    ttl_ns: Ns
    source: str


FIVE_MINUTES: Ns = 300 * S

CLAUDE: Mapping[tuple[str, int, int], int] = {
    **dict.fromkeys(
        [("opus", 5, 5), ("opus", 5, 0), ("fable", 5, 1), ("fable", 5, 0), ("mythos", 5, 1),
         ("mythos", 5, 0)], 512,
    ),
    **dict.fromkeys(
        [("opus", 4, 8), ("sonnet", 5, 0), ("sonnet", 4, 6), ("sonnet", 4, 5), ("opus", 4, 1),
         ("opus", 4, 0), ("sonnet", 4, 0), ("sonnet", 3, 7)], 1024,
    ),
    **dict.fromkeys([("opus", 4, 7), ("haiku", 3, 5), ("haiku", 3, 0)], 2048),
    **dict.fromkeys([("opus", 4, 6), ("opus", 4, 5), ("haiku", 4, 5)], 4096),
}  # fmt: skip
"""(family, version) -> least tokens, by Anthropic's page; every breakpoint counts all before it."""

NEW_FIRST = re.compile(r"(opus|sonnet|haiku|fable|mythos)-(\d{1,2})(?:-(\d{1,2})(?!\d))?")
OLD_FIRST = re.compile(r"claude-(\d)(?:-(\d)(?!\d))?-(opus|sonnet|haiku)")
GPT = re.compile(r"(?:^|/)gpt-(\d{1,2})(?:-(\d{1,2})(?!\d))?")
CACHING = re.compile(r"(?:^|/)(?:chatgpt-|gpt-(?:4o|4-1|[5-9])|o[1-9])")
"""gpt-4o and newer."""

LATER = Rule(minimum=1024, explicit=False, ttl_ns=1800 * S, source=OPENAI)
"""GPT-5.6 and later: 30 minutes at least after the last write or use."""
EARLIER = Rule(minimum=1024, explicit=False, ttl_ns=600 * S, source=OPENAI)
"""Before: kept for 5 to 10 minutes without use (up to 24 hours where the retention asked for says
so). The least length depends on settings of the request; 1,024 is the least of it."""


def rule_of(model: str | None) -> Rule | None:
    """The rule of a model by its name; null where none is known."""
    if model is None:
        return None
    name = model.lower().replace(".", "-")
    return _claude(name) if "claude" in name else _gpt(name)


def _claude(name: str) -> Rule | None:
    if (old := OLD_FIRST.search(name)) is not None:
        version = (old[3], int(old[1]), int(old[2] or 0))
    elif (new := NEW_FIRST.search(name)) is not None:
        version = (new[1], int(new[2]), int(new[3] or 0))
    else:
        return None
    minimum = CLAUDE.get(version)
    if minimum is None:
        return None
    return Rule(minimum=minimum, explicit=True, ttl_ns=FIVE_MINUTES, source=ANTHROPIC)


def _gpt(name: str) -> Rule | None:
    if CACHING.search(name) is None:
        return None
    version = GPT.search(name)
    later = version is not None and (int(version[1]), int(version[2] or 0)) >= (5, 6)
    return LATER if later else EARLIER
