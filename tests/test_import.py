"""What importing latscope costs the program that does: no third-party module."""

import subprocess
import sys

import pytest

LOADED = """
import sys
before = set(sys.modules)
{code}
third = {{name.partition(".")[0] for name in set(sys.modules) - before}}
print(*sorted(third - set(sys.stdlib_module_names)))
"""


def loaded(code: str) -> set[str]:
    """The packages outside the standard library that `code` brings in."""
    ran = subprocess.run(
        [sys.executable, "-c", LOADED.format(code=code)], capture_output=True, text=True, check=True
    )
    return set(ran.stdout.split())


@pytest.mark.parametrize(
    "code",
    [
        "import latscope",
        "import latscope; dir(latscope)",
        "import latscope; latscope.instrument; latscope.tags; latscope.JSONLSink; latscope.flush()",
        "import latscope; latscope.recent()",
        "import latscope; latscope.Recording; latscope.LatscopeError",
    ],
)
def test_names_load_no_third_party_module(code: str) -> None:
    """Nor does using those that need none."""
    assert loaded(code) == {"latscope"}


def test_a_client_of_one_library_brings_no_other_library() -> None:
    """What its user did not import stays out: the other HTTP library, the SDKs, click, rich."""
    code = (
        "import httpx2, latscope; client = httpx2.Client(); before |= set(sys.modules); "
        "latscope.instrument(client)"
    )
    assert loaded(code) <= {"latscope", "pydantic_core", "typing_extensions"}
