"""Names of attributes and metrics, as constants of our own.

GenAI names follow the conventions of the repository open-telemetry/semantic-conventions-genai
(status Development, as of late 2026); the Python package of constants still holds the names of
before, and marks them as moved. HTTP names are the stable ones. What no convention has is
`latscope.*`: times in seconds, as numbers.
"""

SCOPE = "latscope"
"""Name of our tracer and our meter."""

# -- GenAI -----------------------------------------------------------------------------------------

OPERATION = "gen_ai.operation.name"
PROVIDER = "gen_ai.provider.name"
CONVERSATION = "gen_ai.conversation.id"
OUTPUT_TYPE = "gen_ai.output.type"
REQUEST_MODEL = "gen_ai.request.model"
REQUEST_STREAM = "gen_ai.request.stream"
REQUEST_CHOICES = "gen_ai.request.choice.count"
REQUEST_MAX_TOKENS = "gen_ai.request.max_tokens"
REQUEST_PREVIOUS = "gen_ai.request.previous_response.id"
REQUEST_REASONING = "gen_ai.request.reasoning.level"
RESPONSE_MODEL = "gen_ai.response.model"
RESPONSE_ID = "gen_ai.response.id"
RESPONSE_FINISH = "gen_ai.response.finish_reasons"
RESPONSE_FIRST_CHUNK = "gen_ai.response.time_to_first_chunk"
USAGE_INPUT = "gen_ai.usage.input_tokens"
USAGE_OUTPUT = "gen_ai.usage.output_tokens"
USAGE_CACHE_READ = "gen_ai.usage.cache_read.input_tokens"
USAGE_CACHE_WRITE = "gen_ai.usage.cache_write.input_tokens"
USAGE_REASONING = "gen_ai.usage.reasoning.output_tokens"
INPUT_MESSAGES = "gen_ai.input.messages"
OUTPUT_MESSAGES = "gen_ai.output.messages"
INSTRUCTIONS = "gen_ai.system_instructions"
TOOLS = "gen_ai.tool.definitions"
MODALITY = "gen_ai.token.modality"
ERROR = "error.type"
SERVER = "server.address"
PORT = "server.port"
OPENAI_TIER_REQUESTED = "openai.request.service_tier"
OPENAI_TIER_SERVED = "openai.response.service_tier"
OPENAI_FINGERPRINT = "openai.response.system_fingerprint"

REQUEST_NUMBERS = {
    "temperature": "gen_ai.request.temperature",
    "top_p": "gen_ai.request.top_p",
    "frequency_penalty": "gen_ai.request.frequency_penalty",
    "presence_penalty": "gen_ai.request.presence_penalty",
}
REQUEST_INTEGERS = {"top_k": "gen_ai.request.top_k", "seed": "gen_ai.request.seed"}

# -- HTTP ------------------------------------------------------------------------------------------

HTTP_METHOD = "http.request.method"
HTTP_STATUS = "http.response.status_code"
HTTP_RESEND = "http.request.resend_count"
HTTP_SENT = "http.request.body.size"
URL = "url.full"
PROTOCOL_VERSION = "network.protocol.version"
PEER = "network.peer.address"
PEER_PORT = "network.peer.port"

# -- ours ------------------------------------------------------------------------------------------

CALL_ID = "latscope.call_id"
STATUS = "latscope.status"
SEGMENT = "latscope.segment"
PART = "latscope.part"
PROVENANCE = "latscope.provenance"
CANDIDATES = "latscope.candidates"
EVIDENCE = "latscope.evidence"
WOULD_SPLIT = "latscope.would_split"
PLACE = "latscope.place"
"""`measured`: the piece begins where its span does; `order`: only its length and its place among
the others are known, and its span begins where the one before ends."""
DURATION = "latscope.duration"
BOUND_LOW = "latscope.duration_min"
BOUND_HIGH = "latscope.duration_max"
TTFT = "latscope.ttft"
TAGS = "latscope.tags."

# -- metrics ---------------------------------------------------------------------------------------

M_DURATION = "gen_ai.client.inference.duration"
M_FIRST_CHUNK = "gen_ai.client.inference.time_to_first_chunk"
M_CHUNK = "gen_ai.client.inference.time_per_output_chunk"
M_USAGE = "gen_ai.client.inference.usage."
M_INPUT = "gen_ai.client.inference.operation.input_tokens"
M_OUTPUT = "gen_ai.client.inference.operation.output_tokens"

M_SEGMENT = "latscope.segment.duration"
M_TTFT_SEGMENT = "latscope.ttft.segment.duration"
M_TTFT = "latscope.ttft"
M_STALL = "latscope.stall.duration"
M_EXCESS = "latscope.load_excess"
M_CACHED = "latscope.cached_share"
M_RETRIES = "latscope.retries"

SECONDS = tuple(round(0.01 * 2**n, 2) for n in range(14))
"""The conventions' advice for durations: 10 ms, doubling, to 81.92 s."""
FINE_SECONDS = (0.001, 0.0025, 0.005, *SECONDS)
"""For pieces of a call: network and client pieces lie below the conventions' first bucket."""
TOKENS = tuple(4**n for n in range(14))
"""Powers of four from 1 to 67,108,864."""
SHARES = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 1.0)

# -- names of before, and names of backends: only where `aliases` is on ----------------------------

OLD_SYSTEM = "gen_ai.system"
OLD_CACHE_WRITE = "gen_ai.usage.cache_creation.input_tokens"
OLD_TOKEN_TYPE = "gen_ai.token.type"
OLD_DURATION = "gen_ai.client.operation.duration"
OLD_FIRST_CHUNK = "gen_ai.client.operation.time_to_first_chunk"
OLD_CHUNK = "gen_ai.client.operation.time_per_output_chunk"
OLD_USAGE = "gen_ai.client.token.usage"

SIGNOZ_TTFT = "gen_ai.server.ttft"
LANGFUSE_START = "langfuse.observation.completion_start_time"
OPENINFERENCE_KIND = "openinference.span.kind"
OPENINFERENCE_FIRST = "First Token Stream Event"
LLM_MODEL = "llm.model_name"
LLM_PROVIDER = "llm.provider"
LLM_PARAMETERS = "llm.invocation_parameters"
LLM_PROMPT = "llm.token_count.prompt"
LLM_COMPLETION = "llm.token_count.completion"
LLM_TOTAL = "llm.token_count.total"
LLM_CACHE_READ = "llm.token_count.prompt_details.cache_read"
LLM_CACHE_WRITE = "llm.token_count.prompt_details.cache_write"
LLM_REASONING = "llm.token_count.completion_details.reasoning"
SESSION = "session.id"

MOST_EVENTS = 128
"""Events a span may hold: the SDK's own limit, past which it drops the earliest."""
MOST_PIECES = 128
"""Children for pieces a call may have; past it the shortest are left out, and counted."""
