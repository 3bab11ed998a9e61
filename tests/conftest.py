"""For the whole suite."""

import gc


def pytest_collection_finish() -> None:
    """What collecting thousands of tests left behind lives to the end. Set aside, it costs nothing
    each time a test has the collector run to see what is left of a stream."""
    gc.collect()
    gc.freeze()
