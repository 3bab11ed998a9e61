"""What `latscope probe` was asked for: its options as an ask, a load and prompts."""

import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from math import isfinite
from pathlib import Path
from typing import Any

import click

from latscope.errors import InputError, UsageError
from latscope.probe import prompts, targets
from latscope.probe.requests import Ask
from latscope.probe.run import Load


class Sizes(click.ParamType[tuple[int, ...]]):
    """One whole number from 1, or several with commas between."""

    name = "N[,N...]"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, ...]:
        try:
            sizes = tuple(int(part) for part in str(value).split(","))
        except ValueError:
            self.fail(f"{value!r} is not a whole number, nor several with commas between")
        if min(sizes) < 1:
            self.fail(f"{value!r}: each must be at least 1")
        return sizes


def ask_of(target: str, given: Mapping[str, Any]) -> Ask:
    """The ask for TARGET."""
    return _ask(
        target,
        given,
        model=given["model"],
        api=given["api"],
        key=given["key_env"],
        header=given["header"],
    )


def second_ask_of(target: str, given: Mapping[str, Any]) -> Ask:
    """The ask for TARGET2: as the first, but for the model, API, key and headers of its own. What
    one target is trusted with, a key in a header too, never goes to another unasked."""
    return _ask(
        target,
        given,
        model=given["model2"] or given["model"],
        api=given["api2"] or given["api"],
        key=given["key_env2"],
        header=given["header2"],
    )


def _ask(
    target: str,
    given: Mapping[str, Any],
    *,
    model: str,
    api: str | None,
    key: str | None,
    header: Sequence[str],
) -> Ask:
    if not model.strip():
        raise UsageError("--model is empty: name the model to ask")
    found = targets.target(target, api=api, key_variable=key)
    return Ask(
        target=found,
        model=model,
        max_tokens=given["max_tokens"],
        stream=not given["no_stream"],
        extra=extra_of(given["extra_body"]),
        headers=tuple(header_of(text) for text in header),
        key=targets.key(found, os.environ),
    )


def load_of(given: Mapping[str, Any]) -> Load:
    for name in ("rate", "timeout"):
        if given[name] is not None and not isfinite(given[name]):
            raise UsageError(f"--{name} needs a finite number")
    if given["rate"] is not None and given["concurrency"] > 1:
        raise UsageError("give --rate (open loop) or --concurrency (closed loop), not both")
    return Load(
        calls=given["calls"],
        warm_up=not given["no_warm_up"],
        concurrency=given["concurrency"],
        rate=given["rate"],
        timeout_s=given["timeout"],
        traced=given["receive_spans"] is not None,
    )


def prompts_of(given: Mapping[str, Any]) -> Callable[[int], str]:
    """The prompt of a call by its number: of several sizes each in its turn."""
    chosen = [name for name in ("prompt", "prompt_file", "prompt_tokens") if given[name]]
    if len(chosen) > 1:
        raise UsageError("give one of --prompt, --prompt-file and --prompt-tokens")
    texts = _texts(given)
    if not all(text.strip() for text in texts):
        raise UsageError("the prompt is empty")
    send: Callable[[str], str] = str if given["reuse_prompt"] else prompts.fresh
    return lambda number: send(texts[max(0, number - 1) % len(texts)])


def _texts(given: Mapping[str, Any]) -> list[str]:
    if given["prompt_tokens"]:
        return [prompts.filler(size, given["seed"]) for size in given["prompt_tokens"]]
    if given["prompt_file"]:
        try:
            return [Path(given["prompt_file"]).read_text(encoding="utf-8")]
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"{given['prompt_file']}: cannot be read as text: {error}") from error
    if given["prompt"] == "-":
        return [sys.stdin.read()]
    return [prompts.DEFAULT if given["prompt"] is None else str(given["prompt"])]


def extra_of(text: str | None) -> dict[str, Any]:
    """`--extra-body` as the mapping it must be."""
    try:
        extra = json.loads(text) if text else {}
    except ValueError as error:
        raise UsageError(f"--extra-body is no JSON: {error}") from error
    if not isinstance(extra, dict):
        raise UsageError("--extra-body must be a JSON object, like '{\"temperature\": 0}'")
    return extra


def header_of(text: str) -> tuple[str, str]:
    """`-H 'Name: value'` as name and value; the message of a bad one repeats nothing of it."""
    name, colon, value = text.partition(":")
    name, value = name.strip(), value.strip()
    sound = name.isascii() and value.isascii() and (name + value).isprintable()
    if not colon or not name or " " in name or not sound:
        # It may be a secret, before a missing colon too.
        raise UsageError("-H needs 'Name: value' in plain ASCII")
    if name.lower() in ("content-length", "transfer-encoding", "connection"):
        raise UsageError(f"-H: {name} is not for the user to set; leave it out")
    return name, value
