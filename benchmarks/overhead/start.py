"""What `import latscope` costs a program that does it."""

import subprocess
import sys
import time
from statistics import median

PAIRS = 20
THIRD = (
    "import sys; before = set(sys.modules); import latscope; "
    "found = {name.partition('.')[0] for name in set(sys.modules) - before}; "
    "print(*sorted(found - set(sys.stdlib_module_names) - {'latscope'}))"
)


def ran_ms(code: str) -> float:
    """Wall time of an interpreter that runs `code`."""
    began = time.perf_counter_ns()
    subprocess.run([sys.executable, "-c", code], check=True)
    return (time.perf_counter_ns() - began) / 1e6


def measured() -> dict[str, object]:
    ran_ms("import latscope")  # written to the cache of compiled modules
    pairs = [(ran_ms("pass"), ran_ms("import latscope")) for _ in range(PAIRS)]
    third = subprocess.run(
        [sys.executable, "-c", THIRD], check=True, capture_output=True, text=True
    )
    return {
        "import_ms": round(median(ours - empty for empty, ours in pairs), 2),
        "import_third_party": third.stdout.split(),
    }
