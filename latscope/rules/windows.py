"""How many tokens fit into a vendor's model: prompt, reasoning and answer together.

Read on 2026-11-30 from genai-prices 0.2.3, which keeps the vendors' own figures. A model that no
row names is unknown, and so is one behind an address that is no vendor's: there the window is what
whoever serves it has configured.
"""

import re

READ = "2026-11-30"

BEGIN = r"(?:^|[/.])"
"""Platforms that resell a model put their own name in front."""

ROWS: tuple[tuple[str, int], ...] = (
    (r"gpt-3\.5-turbo", 16_385),
    (r"gpt-4-32k", 32_000),
    (r"gpt-4(?:-0\d{3})?$", 8_192),
    (r"gpt-4-(?:turbo|vision|1106|0125)", 128_000),
    (r"(?:chat)?gpt-4o(?!.*(?:audio|realtime|transcribe|tts))", 128_000),
    (r"gpt-4\.1", 1_000_000),
    (r"gpt-5\.3(?!-codex)", 128_000),
    (r"gpt-5\.[4-6](?!-mini|-nano)", 1_050_000),
    (r"gpt-5", 400_000),
    (r"gpt-6", 1_050_000),
    (r"o1-(?:mini|preview)", 128_000),
    (r"o[134](?:$|-)", 200_000),
    (r"claude-(?:opus-(?:4-[678]|5)|sonnet-(?:4-6|5)|haiku-5|fable|mythos)", 1_000_000),
    (r"claude-(?!v1|instant)", 200_000),
    (r"gemini-(?:1\.5-flash|[234])(?!.*(?:tts|live|image|audio))", 1_000_000),
    (r"grok-2", 32_768),
    (r"grok-3", 131_072),
    (r"grok-4-(?:1-)?fast", 2_000_000),
    (r"grok-(?:4-0709|code-fast)", 256_000),
    (r"grok-4\.[23]", 1_000_000),
    (r"grok-4\.[5-7]", 500_000),
)
"""(beginning of a model's name, tokens); the first that fits."""

_TESTS = tuple((re.compile(BEGIN + pattern), tokens) for pattern, tokens in ROWS)


def window_of(model: str | None) -> int | None:
    """The window of a vendor's model, by its name; null for one that is not listed."""
    if model is None:
        return None
    return next((tokens for test, tokens in _TESTS if test.search(model)), None)
