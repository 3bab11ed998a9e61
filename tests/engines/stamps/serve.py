"""Start vLLM with its stamps: `with stamped_vllm(folder) as server: ...`."""

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.engines import install, servers
from tests.engines.stamps.lines import FOLDER

ROOT = install.HERE.parents[1]
HERE = "tests.engines.stamps"
SEATS = 2
"""Requests the engine runs at once: a third one waits."""


@contextlib.contextmanager
def stamped_vllm(folder: Path, extra_args: Sequence[str] = ()) -> Iterator[servers.Server]:
    """Run vLLM with two seats; its stamps go to files in `folder`."""
    arguments = ["--middleware", f"{HERE}.front.StampedFront"]
    arguments += ["--scheduler-cls", f"{HERE}.engine.StampedScheduler"]
    arguments += ["--max-num-seqs", str(SEATS), *extra_args]
    env = {"PYTHONPATH": str(ROOT), FOLDER: str(folder)}
    with servers.vllm(extra_args=arguments, extra_env=env) as server:
        yield server
