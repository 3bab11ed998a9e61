"""What never leaves the process, even when content is kept: identities and credentials."""

import re

from latscope.protocols.mask.vocabulary import words

NEVER = words(
    """user safety_identifier prompt_cache_key metadata headers extra_headers default_headers
    extra_query default_query cache_salt user_id end_user_id client_metadata"""
)
"""Keys whose values identify a person or carry credentials, whatever they hold."""

_CREDENTIAL_KEY = re.compile(
    r"(?ix) ^token$ | ^pass(?:wd|phrase)$ | password | secret | api[_-]?key | authori[sz]ation"
    r" | credential | cookie | (?:private|access|signing)[_-]?key"
    r" | (?:access|auth|bearer|refresh|\bid|session|security|csrf)[_-]?token"
)
_CREDENTIAL = (
    # Key prefixes of known vendors, bearer tokens, JSON web tokens (with a bound: text may hold
    # any number of starts that never come to their dot).
    r"(?<![A-Za-z0-9])(?:sk|pk|rk|gsk|csk|xai|hf|fw|pplx|nvapi|ghp|gho|glpat|key|tgp)"
    r"[-_][A-Za-z0-9_\-]{16,}"
    r"|(?<![A-Za-z0-9])AIza[A-Za-z0-9_\-]{20,}|(?<![A-Za-z0-9])AKIA[A-Z0-9]{12,}"
    r"|(?<![A-Za-z0-9])eyJ[A-Za-z0-9_\-]{10,1024}+\.[A-Za-z0-9_\-]{10,}(?:\.[A-Za-z0-9_\-]*)?"
    r"|(?i:(?<=bearer ))[A-Za-z0-9._~+/\-]{12,}=*"
    # User and password of a URL, and what its query calls a key.
    r"|(?<=://)[^/\s:@\"]{1,256}+:[^/\s@\"]{1,256}+(?=@)"
    r"|(?<=[?&])(?i:api[_-]?key|(?:access|auth)[_-]?token|token|sig|signature|password|secret)"
    r"=[^&#\s\"]{1,2048}+"
)
_IN_TEXT = re.compile(_CREDENTIAL)
_IN_BYTES = re.compile(_CREDENTIAL.encode())


def is_secret(key: str) -> bool:
    """Whether the value under a request's key must never be kept."""
    return key in NEVER or _CREDENTIAL_KEY.search(key) is not None


def is_secret_in_body(key: bytes) -> bool:
    """The same for a response, where `token` is a word of logprobs, not a credential."""
    return key != b"token" and is_secret(key.decode("utf-8", "replace"))


def scrub(text: str) -> str:
    """`text` with what looks like a credential turned to x."""
    return _IN_TEXT.sub(lambda found: "x" * len(found[0]), text)


def scrub_bytes(data: bytes) -> bytes:
    return _IN_BYTES.sub(lambda found: b"x" * len(found[0]), data)
