"""The public names are a decided list."""

import latscope

PUBLIC = {
    "AsyncClient",
    "Attribution",
    "Client",
    "JSONLSink",
    "LatscopeError",
    "Profile",
    "Recording",
    "Timeline",
    "attribute",
    "check",
    "flush",
    "instrument",
    "learn",
    "pause",
    "read",
    "recent",
    "resume",
    "tags",
    "turn",
    "uninstrument",
}


def test_the_public_names_are_these_and_each_resolves() -> None:
    """To the thing of that name in the module that defines it. What else there is (sinks,
    transports, framework middleware) is imported from its module."""
    assert set(latscope.__all__) == PUBLIC | {"__version__"} == set(dir(latscope))
    for name in PUBLIC:
        assert getattr(latscope, name).__name__ == name
    assert isinstance(latscope.__version__, str)


def test_an_unknown_name_is_an_attribute_error() -> None:
    assert not hasattr(latscope, "attributes")
