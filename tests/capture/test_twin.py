"""The httpx file is the httpx2 file with the name replaced."""

from pathlib import Path

import pytest

from tests.capture import twin


def test_the_twin_has_not_drifted() -> None:
    """latscope/capture/httpx.py is what twin.py would write now."""
    assert twin.TWIN.read_text(encoding="utf-8") == twin.twin_of(
        twin.SOURCE.read_text(encoding="utf-8")
    )
    assert twin.main(["--check"]) == 0


def test_a_drift_fails_the_check(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A changed or absent twin makes --check fail; --write mends it; anything else is misuse."""
    copy = tmp_path / "httpx.py"
    monkeypatch.setattr(twin, "TWIN", copy)
    assert twin.main(["--check"]) == 1
    copy.write_text("import httpx\n", encoding="utf-8")
    assert twin.main(["--check"]) == 1
    assert twin.main(["--write"]) == 0
    assert twin.main(["--check"]) == 0
    assert twin.main([]) == 2
    assert "--write" in capsys.readouterr().err


def test_a_source_without_its_note_is_refused() -> None:
    """The docstring's note is what tells the twin's readers where to edit."""
    with pytest.raises(ValueError, match="note"):
        twin.twin_of('"""Transports."""\n')
