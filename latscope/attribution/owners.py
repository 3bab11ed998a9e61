"""Who owns a segment and which lever moves it: one table, by mode (`explain --owners`)."""

import re
from dataclasses import dataclass

from latscope.attribution.model import Mode, Segment
from latscope.timeline.build import MODEL_SERVERS


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """A row. part: empty for the whole segment; a part may have an owner of its own."""

    segment: Segment
    part: str = ""
    vendor: str
    self_hosted: str
    on_device: str
    lever: str

    def of(self, mode: Mode) -> str:
        if mode == "vendor":
            return self.vendor
        return self.self_hosted if mode == "self-hosted" else self.on_device


OWNERS_TABLE: tuple[Owner, ...] = (
    Owner(
        segment="queue",
        vendor="the vendor's serving platform",
        self_hosted="your serving platform",
        on_device="the runtime on the device",
        lever="shape concurrency, ask for a priority tier, level the load",
    ),
    Owner(
        segment="queue",
        part="rate_limit",
        vendor="you and the vendor's quota",
        self_hosted="you and your own limits",
        on_device="the runtime on the device",
        lever="lower max_tokens (it is reserved at admission), spread the calls, raise the quota",
    ),
    Owner(
        segment="queue",
        part="frontend",
        vendor="the vendor's serving platform",
        self_hosted="your model server's HTTP front end",
        on_device="the runtime's HTTP front end",
        lever="more front-end processes, smaller requests",
    ),
    Owner(
        segment="prefill",
        vendor="the vendor's model serving process",
        self_hosted="your model serving process",
        on_device="the device's compute",
        lever="shorten the prompt, raise prefix-cache hits",
    ),
    Owner(
        segment="decode",
        vendor="the vendor's model serving process",
        self_hosted="your model serving process",
        on_device="the device's memory bandwidth",
        lever="cap max_tokens; speculative decoding on the server",
    ),
    Owner(
        segment="network",
        vendor="your infrastructure and the vendor's edge",
        self_hosted="your infrastructure",
        on_device="the loopback path",
        lever="a nearby ingress, connection reuse, proxies that do not buffer",
    ),
    Owner(
        segment="client",
        vendor="you: the calling process",
        self_hosted="you: the calling process",
        on_device="you: the calling process",
        lever="pool limits, event-loop hygiene",
    ),
    Owner(
        segment="client",
        part="pool_wait",
        vendor="you: the calling process",
        self_hosted="you: the calling process",
        on_device="you: the calling process",
        lever="reuse one client (its first call pays for its set-up), raise pool limits",
    ),
    Owner(
        segment="unattributed",
        vendor="-",
        self_hosted="-",
        on_device="-",
        lever="the evidence that would split it",
    ),
)

PROVIDERS: tuple[tuple[str, str], ...] = (
    ("openai.azure.com", "azure.ai.openai"),
    ("api.openai.com", "openai"),
    ("api.anthropic.com", "anthropic"),
    ("api.groq.com", "groq"),
    ("api.together.xyz", "together"),
    ("api.together.ai", "together"),
    ("api.fireworks.ai", "fireworks"),
    ("openrouter.ai", "openrouter"),
    ("api.mistral.ai", "mistral_ai"),
    ("api.deepseek.com", "deepseek"),
    ("api.x.ai", "x_ai"),
    ("api.cerebras.ai", "cerebras"),
    ("api.sambanova.ai", "sambanova"),
    ("api.perplexity.ai", "perplexity"),
    ("generativelanguage.googleapis.com", "gcp.gemini"),
    ("googleapis.com", "gcp.vertex_ai"),
    ("amazonaws.com", "aws.bedrock"),
    ("api.aws", "aws.bedrock"),
    ("services.ai.azure.com", "azure.ai.inference"),
    ("integrate.api.nvidia.com", "nvidia"),
    ("api.cohere.com", "cohere"),
    ("api.moonshot.ai", "moonshot_ai"),
)
"""Host endings and the provider's name, in OpenTelemetry's words where it has one."""
_ENDINGS = tuple(f".{ending}" for ending, _ in PROVIDERS)

LOOPBACK = re.compile(r"localhost|127\.\d+\.\d+\.\d+|\[?::1\]?|.*\.localhost")
INSIDE = re.compile(
    r"(10|192\.168|172\.(1[6-9]|2\d|3[01]))\..*|.*\.(local|internal|lan|svc|home\.arpa)|[^.:]+"
)
DEVICE_SERVERS = frozenset({"llama.cpp", "ollama", "lmstudio"})


def provider_of(host: str, fingerprint: str | None, server: str | None) -> str | None:
    """The vendor a host belongs to, else the engine its answer names, else null."""
    inside = f".{host}"
    if inside.endswith(_ENDINGS):
        return next(name for ending, name in PROVIDERS if inside.endswith(f".{ending}"))
    if fingerprint and fingerprint.startswith("vllm"):
        return "vllm"
    return server if server in DEVICE_SERVERS or server == "latscope-sim" else None


def mode_of(host: str, server: str | None) -> Mode:
    """vendor, self-hosted or on-device: from the host and what the server calls itself."""
    if LOOPBACK.fullmatch(host):
        return "on-device" if server in DEVICE_SERVERS else "self-hosted"
    if INSIDE.fullmatch(host):
        return "self-hosted"
    known = provider_of(host, None, None) is not None
    return "self-hosted" if server in MODEL_SERVERS and not known else "vendor"


_ROWS = {(row.segment, row.part): row for row in OWNERS_TABLE}


def owner_of(segment: Segment, mode: Mode, part: str = "") -> Owner:
    """The row of the part when it has one of its own, else the segment's."""
    return _ROWS.get((segment, part)) or _ROWS[segment, ""]
