"""What Python runs first under `latscope run`; then whatever sitecustomize it would have run."""

import os
import sys
from importlib.machinery import PathFinder
from importlib.util import module_from_spec


def _record() -> None:
    try:
        from latscope.cli.startup import install
    except ImportError as error:
        print(f"latscope: nothing is recorded in {sys.executable}: {error}", file=sys.stderr)
        return
    install()


def _run_the_next() -> None:
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [path for path in sys.path if os.path.abspath(path) != here]
    spec = PathFinder.find_spec("sitecustomize", sys.path)
    if spec is None or spec.loader is None:
        return
    module = module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


_record()
_run_the_next()
