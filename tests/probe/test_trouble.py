"""Rows that no test over real sockets reaches; those are in tests/cli/test_bad_input.py."""

import httpx2
import pytest

from latscope.probe.requests import Ask
from latscope.probe.run import Result
from latscope.probe.targets import target
from latscope.probe.trouble import offered, trouble, unknown_model


def result(status: int | None = None, head: bytes = b"", error: Exception | None = None) -> Result:
    ask = Ask(target=target("http://127.0.0.1:9"), model="tiny", max_tokens=7, key="sk-canary-1")
    return Result(
        number=1,
        ask=ask,
        request_id="r",
        recording=None,
        status=status,
        head=head,
        error=error,
    )


@pytest.mark.parametrize(
    ("failed", "line"),
    [
        (httpx2.PoolTimeout("x"), "while waiting for a free connection"),
        (httpx2.ConnectTimeout("x"), "while waiting for the connection:"),
        (httpx2.WriteTimeout("x"), "while waiting for the request to be taken"),
        (httpx2.ReadTimeout("x"), "while waiting for the response headers"),
        (httpx2.ConnectError("odd"), "cannot connect to 127.0.0.1:9 (odd)"),
        (httpx2.ReadError(""), "before answering (ReadError)"),
    ],
)
def test_an_error_without_a_recording_is_named_by_its_type(failed: Exception, line: str) -> None:
    """Capture may have failed; the error itself still says what was waiting."""
    said = trouble(result(error=failed), None, 3.0)
    assert said is not None
    assert line in said


@pytest.mark.parametrize(
    ("status", "head", "line"),
    [
        (529, b"", "answered 529, too many requests"),
        (405, b"", "answered 405: check the URL's path"),
        (418, b'{"error": "sk-canary-1 is no teapot"}', "answered 418: (key) is no teapot"),
        (418, b'{"error": {"detail": ["a", 1]}}', 'answered 418: ["a", 1] (change'),
        (418, b'{"error": 7}', "answered 418 (change"),
        (418, b"[1]", "answered 418 (change"),
    ],
)
def test_a_status_is_one_line_without_the_key(status: int, head: bytes, line: str) -> None:
    """Whatever shape the error has, and even when the server repeats the key."""
    said = trouble(result(status, head), None, 3.0)
    assert said is not None
    assert line in said
    assert "canary" not in said


@pytest.mark.parametrize(
    ("status", "head", "unknown"),
    [
        (404, b'{"error": {"message": "The model `tiny` does not exist."}}', True),
        (404, b'{"error": {"message": "model \'tiny\' not found"}}', True),
        (400, b'{"error": {"message": "invalid model ID", "param": "model"}}', True),
        (404, b'{"error": {"code": "model_not_found"}}', True),
        (404, b'{"detail": "Not Found"}', False),
        (400, b'{"error": {"message": "tiny prompt is invalid"}}', False),
        (500, b'{"error": {"message": "The model `tiny` does not exist."}}', False),
    ],
)
def test_an_unknown_model_is_told_from_a_wrong_path(
    status: int, head: bytes, unknown: bool
) -> None:
    """Both are 404 at most servers."""
    assert unknown_model(result(status, head)) is unknown


def test_a_long_list_of_models_is_cut() -> None:
    """The nearest names first, then the number of the rest; nothing where there is nothing."""
    names = [f"m{n}" for n in range(20)]
    assert offered(names, "m19", 3) == "models on offer: m19, m9, m1 and 17 more"
    assert offered([], "m") == ""
