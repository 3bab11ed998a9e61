"""Recording a program without changing it: `latscope run` puts this folder on its PYTHONPATH.

Python imports `sitecustomize` from there before the program starts. It installs a finder that
waits for the client libraries: when the *program* imports one, its client classes instrument each
client they make. Nothing is imported for the program's sake before that but this package.
"""

import functools
import sys
from collections.abc import Callable, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

WATCHED: dict[str, tuple[str, ...]] = {
    "openai": ("OpenAI", "AsyncOpenAI"),
    "anthropic": (
        "Anthropic",
        "AsyncAnthropic",
        "AnthropicBedrock",
        "AsyncAnthropicBedrock",
        "AnthropicBedrockMantle",
        "AsyncAnthropicBedrockMantle",
        "AnthropicVertex",
        "AsyncAnthropicVertex",
    ),
    "httpx": ("Client", "AsyncClient"),
    "httpx2": ("Client", "AsyncClient"),
}
"""Client classes by module; subclasses come through their parent's `__init__`."""


def install() -> None:
    """Watches for the client libraries from now on; does at once those already imported."""
    for name in WATCHED:
        if name in sys.modules:
            _prepare(sys.modules[name])
    sys.meta_path.insert(0, _Watch())


class _Watch(MetaPathFinder):
    """Finds nothing itself: lets the finders after it find a watched module, and hears it load."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name not in WATCHED:
            return None
        for finder in sys.meta_path:
            spec = None if finder is self else finder.find_spec(name, path, target)
            if spec is not None:
                _hear(spec)
                return spec
        return None


def _hear(spec: ModuleSpec) -> None:
    loader = spec.loader
    load: Callable[[ModuleType], None] | None = getattr(loader, "exec_module", None)
    if loader is None or load is None:
        return

    def exec_module(module: ModuleType) -> None:
        load(module)
        _prepare(module)

    # On the one loader object, which keeps its class: importlib.resources and others look at it.
    loader.exec_module = exec_module  # type: ignore[method-assign]


def _prepare(module: ModuleType) -> None:
    for name in WATCHED.get(module.__name__, ()):
        made = getattr(module, name, None)
        if isinstance(made, type):
            _instrument_new(made)


def _instrument_new(made: type) -> None:
    init: Callable[..., None] = made.__init__  # type: ignore[misc]

    @functools.wraps(init)
    def wrapped(client: Any, *args: Any, **kwargs: Any) -> None:
        init(client, *args, **kwargs)
        # An SDK's own HTTP client comes first, the SDK's client around it after: `ensure` makes
        # the two one, as it does for a copy that shares its original's.
        _quietly(client)

    made.__init__ = wrapped  # type: ignore[misc]


def _quietly(client: object) -> None:
    try:
        from latscope.middleware.compose import ensure

        ensure(client)
    except Exception as error:
        # The program runs on, unrecorded: what it asked for comes first.
        print(f"latscope: a {type(client).__name__} is not recorded: {error}", file=sys.stderr)
