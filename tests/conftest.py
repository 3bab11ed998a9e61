"""For the whole suite."""

import gc

import hypothesis  # noqa: F401 - when first imported it looks for who holds what


def pytest_collection_finish() -> None:
    """What collecting thousands of tests left behind lives to the end. Set aside, it costs nothing
    each time a test has the collector run to see what is left of a stream. (No search for holders
    finds what was set aside: whoever looks at its import has to be imported before.)"""
    gc.collect()
    gc.freeze()
