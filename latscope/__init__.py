"""latscope: where each millisecond of an LLM request went, and how sure that is.

import latscope
client = latscope.instrument(AsyncOpenAI())
for call in latscope.read("calls.jsonl"): print(latscope.attribute(call).dominant)

Names resolve on first use, so `import latscope` itself loads no third-party module.
"""

TYPE_CHECKING = False  # as `typing` has it, which would be most of what an import costs

__version__ = "0.1.0"

_HOME = {
    "AsyncClient": "latscope.middleware.clients",
    "Attribution": "latscope.attribution.model",
    "Client": "latscope.middleware.clients",
    "JSONLSink": "latscope.export.jsonl",
    "LatscopeError": "latscope.errors",
    "Profile": "latscope.attribution.profile",
    "Recording": "latscope.recording",
    "Timeline": "latscope.timeline",
    "attribute": "latscope.attribution",
    "check": "latscope.documents.checking",
    "flush": "latscope.middleware",
    "instrument": "latscope.middleware",
    "learn": "latscope.attribution.learn",
    "pause": "latscope.middleware",
    "read": "latscope.documents.recordings",
    "recent": "latscope.middleware",
    "resume": "latscope.middleware",
    "tags": "latscope.middleware",
    "turn": "latscope.middleware",
    "uninstrument": "latscope.middleware",
}

__all__ = sorted([*_HOME, "__version__"])


def __getattr__(name: str) -> object:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'latscope' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(home), name)


def __dir__() -> list[str]:
    return __all__


if TYPE_CHECKING:
    from latscope.attribution import attribute as attribute
    from latscope.attribution.learn import learn as learn
    from latscope.attribution.model import Attribution as Attribution
    from latscope.attribution.profile import Profile as Profile
    from latscope.documents.checking import check as check
    from latscope.documents.recordings import read as read
    from latscope.errors import LatscopeError as LatscopeError
    from latscope.export.jsonl import JSONLSink as JSONLSink
    from latscope.middleware import flush as flush
    from latscope.middleware import instrument as instrument
    from latscope.middleware import pause as pause
    from latscope.middleware import recent as recent
    from latscope.middleware import resume as resume
    from latscope.middleware import tags as tags
    from latscope.middleware import turn as turn
    from latscope.middleware import uninstrument as uninstrument
    from latscope.middleware.clients import AsyncClient as AsyncClient
    from latscope.middleware.clients import Client as Client
    from latscope.recording import Recording as Recording
    from latscope.timeline import Timeline as Timeline
