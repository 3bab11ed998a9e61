"""Where signals go: options before a signal's variable before the common one."""

from pathlib import Path
from typing import Any

import pytest

from latscope.errors import InputError, UsageError
from latscope.export.otlp.settings import Way, wants_delta, way

COMMON = "OTEL_EXPORTER_OTLP_"


def asked(signal: Any = "traces", /, **how: Any) -> Way:
    given: dict[str, Any] = {
        "url": "http://host:4318",
        "protocol": None,
        "headers": (),
        "environment": {},
    }
    return way(signal, **(given | how))


def of(**variables: str) -> Way:
    """With the variables alone."""
    return asked(url=None, environment={f"{COMMON}{k}": v for k, v in variables.items()})


@pytest.mark.parametrize(
    ("url", "protocol", "wanted"),
    [
        ("http://host:4318", None, "http://host:4318/v1/traces"),
        ("http://host:4318/", None, "http://host:4318/v1/traces"),
        ("host:4318", None, "http://host:4318/v1/traces"),
        ("https://vendor.example/otlp", None, "https://vendor.example/otlp/v1/traces"),
        ("http://host:4318/v1/traces", None, "http://host:4318/v1/traces"),
        ("http://host:4318/v1/metrics", None, "http://host:4318/v1/traces"),
        ("http://host:4317", None, "http://host:4317"),
        ("http://host:4318", "grpc", "http://host:4318"),
        ("http://host:4317", "http", "http://host:4317/v1/traces"),
        ("https://host", "grpc", "https://host:443"),
        ("http://[::1]", "grpc", "http://[::1]:4317"),
    ],
)
def test_an_address_gets_the_signals_path_and_the_protocol_its_port_tells(
    url: str, protocol: str | None, wanted: str
) -> None:
    assert asked(url=url, protocol=protocol).url == wanted


def test_a_signals_own_endpoint_is_taken_as_it_is() -> None:
    own = of(ENDPOINT="http://common:4318", TRACES_ENDPOINT="http://own:4318/spans")
    assert own.url == "http://own:4318/spans"
    assert of(ENDPOINT="http://common:4318").url == "http://common:4318/v1/traces"


def test_the_option_comes_before_both_variables() -> None:
    environment = {f"{COMMON}TRACES_ENDPOINT": "http://own:4318/spans"}
    assert asked(environment=environment).url == "http://host:4318/v1/traces"


def test_headers_are_merged_and_decoded() -> None:
    found = asked(
        environment={
            f"{COMMON}HEADERS": "Authorization=Basic%20abc,x-a=1",
            f"{COMMON}TRACES_HEADERS": "x-a=2",
        },
        headers=("x-b=3%20",),
    )
    assert dict(found.headers) == {"authorization": "Basic abc", "x-a": "2", "x-b": "3%20"}


def test_no_header_is_shown() -> None:
    assert "secret" not in repr(asked(headers=("api-key=secret",)))


@pytest.mark.parametrize("text", ["secret", "=secret", "a b=secret", "a=se\ncret", "ä=secret"])
def test_a_bad_header_is_refused_without_repeating_it(text: str) -> None:
    with pytest.raises(UsageError) as refused:
        asked(headers=(text,))
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    "url", ["ftp://host", "http://", "http://host:99999", "http://host:0", "http://u:p@h", "h/?k=v"]
)
def test_an_address_that_is_none_or_holds_a_secret_is_refused(url: str) -> None:
    with pytest.raises(UsageError, match="--otlp"):
        asked(url=url)


def test_without_an_address_the_option_and_the_variable_are_named() -> None:
    with pytest.raises(UsageError, match=r"--otlp .*OTEL_EXPORTER_OTLP_ENDPOINT"):
        asked(url=None)


def test_the_other_settings_come_from_their_variables(tmp_path: Path) -> None:
    file = tmp_path / "ca.pem"
    file.write_text("x")
    found = of(
        ENDPOINT="https://host:4317",
        PROTOCOL="http/protobuf",
        TIMEOUT="2.5",
        COMPRESSION="gzip",
        CERTIFICATE=str(file),
        TRACES_CLIENT_KEY=str(file),
    )
    assert found.protocol == "http"
    assert found.timeout_s == 2.5
    assert found.gzip
    assert found.certificate == found.client_key == file
    assert found.secure


def test_an_address_without_scheme_is_secure_only_where_that_is_asked_for() -> None:
    assert not of(ENDPOINT="host:4317").secure
    assert of(ENDPOINT="host:4317", INSECURE="false").secure


@pytest.mark.parametrize(
    "variables",
    [{"PROTOCOL": "http/json"}, {"TIMEOUT": "soon"}, {"TIMEOUT": "-1"}, {"COMPRESSION": "zip"}],
)
def test_what_is_not_spoken_is_named(variables: dict[str, str]) -> None:
    (name,) = variables
    with pytest.raises(UsageError, match=COMMON + name):
        of(ENDPOINT="http://host:4318", **variables)


def test_a_certificate_that_is_not_there_is_named() -> None:
    with pytest.raises(InputError, match=r"OTEL_EXPORTER_OTLP_CERTIFICATE: /nowhere"):
        of(ENDPOINT="https://host:4318", CERTIFICATE="/nowhere/ca.pem")


def test_temporality_follows_the_preference() -> None:
    name = f"{COMMON}METRICS_TEMPORALITY_PREFERENCE"
    assert not wants_delta({})
    assert not wants_delta({name: "cumulative"})
    assert wants_delta({name: "Delta"})
    with pytest.raises(UsageError, match=name):
        wants_delta({name: "sideways"})
