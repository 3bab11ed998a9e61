"""One request, and what is made of every way a collector may treat it."""

import socket
import ssl
import subprocess
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.any_pb2 import Any as Packed
from google.protobuf.duration_pb2 import Duration
from google.rpc import error_details_pb2, status_pb2  # type: ignore[import-untyped]

from latscope.errors import InputError
from latscope.export.otlp.settings import Way, way
from latscope.export.otlp.transport import MOST_ANSWER, Answer, transport
from tests.export.otlp.collector import (
    Failure,
    Reply,
    collecting,
    collecting_grpc,
    partial_spans,
)


def to(url: str, **environment: str) -> Way:
    return way(
        "traces",
        url=url,
        protocol=None,
        headers=("x-key=v",),
        environment={f"OTEL_EXPORTER_OTLP_{k}": v for k, v in environment.items()},
    )


def sent(way: Way, body: bytes = b"") -> Answer:
    made = transport(way)
    try:
        return made.send(body)
    finally:
        made.close()


def over_http(reply: Reply, **environment: str) -> Answer:
    with collecting([reply]) as collector:
        return sent(to(collector.url, **environment))


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return int(listening.getsockname()[1])


def test_a_request_is_what_the_protocol_wants() -> None:
    with collecting() as collector:
        answer = sent(to(collector.url, COMPRESSION="gzip"))
    assert answer == Answer(became="taken")
    (headers,) = collector.headers
    assert headers["content-type"] == "application/x-protobuf"
    assert headers["content-encoding"] == "gzip"
    assert headers["x-key"] == "v"
    assert headers["user-agent"].startswith("latscope/")
    assert collector.paths == ["/v1/traces"]


def test_a_partial_success_is_counted_and_told() -> None:
    answer = over_http(Reply(body=partial_spans(3, "too old")))
    assert answer == Answer(became="taken", rejected=3, said="too old")


def test_an_answer_that_is_no_protobuf_refuses_nothing() -> None:
    assert over_http(Reply(body=b"\xff\xff\xff")) == Answer(became="taken")


@pytest.mark.parametrize("status", [429, 502, 503, 504])
def test_what_may_be_repeated_states_when(status: int) -> None:
    reply = Reply(status=status, headers=(("retry-after", "7"),))
    answer = over_http(reply)
    assert (answer.became, answer.after_s) == ("later", 7.0)


def test_retry_after_may_be_a_date() -> None:
    at = format_datetime(datetime.now(UTC) + timedelta(seconds=100))
    answer = over_http(Reply(status=503, headers=(("retry-after", at),)))
    assert answer.after_s is not None
    assert 90 < answer.after_s <= 100


@pytest.mark.parametrize("text", ["soon", "-3", "", "1e9", "Tomorrow, 1 Jan"])
def test_a_retry_after_that_is_none_is_passed_over(text: str) -> None:
    assert over_http(Reply(status=503, headers=(("retry-after", text),))).after_s is None


@pytest.mark.parametrize(
    ("status", "became"),
    [
        (400, "refused"),
        (422, "refused"),
        (500, "refused"),
        (413, "larger"),
        (401, "never"),
        (403, "never"),
        (404, "never"),
        (302, "never"),
    ],
)
def test_other_answers_are_not_repeated(status: int, became: str) -> None:
    assert over_http(Reply(status=status, headers=(("location", "/"),))).became == became


def test_the_collectors_words_are_kept_short() -> None:
    status = status_pb2.Status(code=3, message="no such tenant " + "x" * 1000)
    kind = (("content-type", "application/x-protobuf"),)
    answer = over_http(Reply(status=400, headers=kind, body=status.SerializeToString()))
    assert answer.said.startswith("400 Bad Request: no such tenant")
    assert len(answer.said) < 400


def test_a_page_of_html_is_not_quoted() -> None:
    assert over_http(Reply(status=502, body=b"<html>...")).said == "502 Bad Gateway"


def test_a_collector_that_says_nothing_is_left() -> None:
    answer = over_http(Reply(how="hang"), TIMEOUT="0.2")
    assert answer == Answer(became="later", said="no answer in 0.2 s")


def test_a_reset_may_be_repeated() -> None:
    assert over_http(Reply(how="reset")).became == "later"


def test_an_endless_answer_is_left() -> None:
    with collecting([Reply(status=400, how="endless")]) as collector:
        answer = sent(to(collector.url))
    assert answer.became == "refused"
    assert len(answer.said) < 400
    assert MOST_ANSWER <= collector.endless < 1000 * MOST_ANSWER  # what sockets hold, and no more


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_nobody_there_is_away(protocol: Any) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    made = way("traces", url=url, protocol=protocol, headers=(), environment={})
    assert sent(made).became == "away"


def test_a_port_that_speaks_grpc_only_is_told_as_that() -> None:
    with collecting_grpc() as collector:
        answer = sent(to(collector.url))
    assert answer.became in ("never", "away")


def test_certificates_that_are_none_are_told(tmp_path: Path) -> None:
    file = tmp_path / "ca.pem"
    file.write_text("no certificate")
    with pytest.raises(InputError, match="certificates for https://host:4318/v1/traces"):
        transport(to("https://host:4318", CERTIFICATE=str(file)))


@pytest.fixture(scope="module", name="certificate")
def made_certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a key and a certificate of its own authority, for both ends."""
    path = tmp_path_factory.mktemp("tls")
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    command += ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"]
    command += ["-keyout", str(path / "key.pem"), "-out", str(path / "cert.pem")]
    try:
        subprocess.run(command, check=True, capture_output=True)
    except FileNotFoundError:
        pytest.skip("no openssl to make a certificate with")
    return path


@pytest.mark.parametrize("protocol", ["http/protobuf", "grpc"])
def test_both_ends_show_a_certificate_where_the_variables_name_them(
    protocol: str, certificate: Path
) -> None:
    cert, key = str(certificate / "cert.pem"), str(certificate / "key.pem")
    server_side = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=cert)
    server_side.verify_mode = ssl.CERT_REQUIRED
    server_side.load_cert_chain(cert, key)
    ours = {"CLIENT_CERTIFICATE": cert, "CLIENT_KEY": key, "PROTOCOL": protocol}
    by_grpc = protocol == "grpc"
    with collecting_grpc(tls=certificate) if by_grpc else collecting(tls=server_side) as collector:
        assert sent(to(collector.url, CERTIFICATE=cert, **ours)) == Answer(became="taken")
        assert sent(to(collector.url, **ours)).became in ("away", "later")  # an unknown authority
        bare = sent(to(collector.url, CERTIFICATE=cert, PROTOCOL=protocol))  # and unknown here
        assert bare.became in ("away", "later")
    assert len(collector.came) == 1


# -- gRPC ------------------------------------------------------------------------------------------


def over_grpc(reply: Failure | bytes, **environment: str) -> Answer:
    with collecting_grpc([reply]) as collector:
        return sent(to(collector.url, PROTOCOL="grpc", **environment))


def retry_info(seconds: int) -> bytes:
    info = error_details_pb2.RetryInfo(retry_delay=Duration(seconds=seconds))
    packed = Packed()
    packed.Pack(info)
    return bytes(status_pb2.Status(code=8, details=[packed]).SerializeToString())


def test_grpc_carries_headers_and_partial_success() -> None:
    with collecting_grpc([partial_spans(2, "too many")]) as collector:
        answer = sent(to(collector.url, PROTOCOL="grpc", COMPRESSION="gzip"))
    assert answer == Answer(became="taken", rejected=2, said="too many")
    assert collector.headers[0]["x-key"] == "v"
    assert len(collector.came) == 1


@pytest.mark.parametrize(
    ("code", "became"),
    [
        ("UNAVAILABLE", "later"),
        ("ABORTED", "later"),
        ("DEADLINE_EXCEEDED", "later"),
        ("RESOURCE_EXHAUSTED", "larger"),
        ("INVALID_ARGUMENT", "refused"),
        ("UNAUTHENTICATED", "never"),
        ("UNIMPLEMENTED", "never"),
    ],
)
def test_grpc_codes_are_what_the_protocol_makes_of_them(code: str, became: str) -> None:
    assert over_grpc(Failure(code=code, said="why")).became == became


def test_grpc_may_state_when_to_come_back() -> None:
    reply = Failure(code="RESOURCE_EXHAUSTED", details=retry_info(9))
    answer = over_grpc(reply)
    assert (answer.became, answer.after_s) == ("later", 9.0)


def test_details_that_are_none_are_passed_over() -> None:
    reply = Failure(code="UNAVAILABLE", said="busy", details=b"\xff\xff")
    assert over_grpc(reply) == Answer(became="later", said="UNAVAILABLE: busy")
