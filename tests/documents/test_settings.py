"""latscope.toml: which pages are in use, and the user's own numbers in them."""

from pathlib import Path

import pytest

from latscope.documents import settings
from latscope.errors import InputError
from latscope.rules.runbook import Runbook
from tests.documents.test_runbooks import PAGE


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder `pages` with one page, and no page of latscope's own."""
    monkeypatch.setattr("latscope.documents.runbooks._home", lambda: tmp_path / "shipped")
    (tmp_path / "pages").mkdir()
    (tmp_path / "pages" / "a.md").write_text(PAGE)
    return tmp_path


def used(home: Path, text: str = "", dirs: str = '["pages"]') -> tuple[Runbook, ...]:
    file = home / "latscope.toml"
    file.write_text(f"[runbooks]\ndirs = {dirs}\n{text}")
    return settings.pages(settings.read(file))


def refused(home: Path, text: str) -> str:
    with pytest.raises(InputError) as caught:
        used(home, text)
    said = str(caught.value)
    assert said.startswith(f"{home / 'latscope.toml'}: ")
    assert "\n" not in said
    return said.removeprefix(f"{home / 'latscope.toml'}: ")


def test_the_nearest_file_above_is_found(tmp_path: Path) -> None:
    deep = tmp_path / "a" / "b"
    deep.mkdir(parents=True)
    assert settings.found(deep) is None
    (tmp_path / "latscope.toml").write_text("")
    assert settings.found(deep) == (tmp_path / "latscope.toml").resolve()
    (tmp_path / "a" / "latscope.toml").write_text("")
    assert settings.found(deep) == (tmp_path / "a" / "latscope.toml").resolve()


def test_folders_are_from_the_files_own_folder(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("/")
    assert [page.id for page in used(home)] == ["slow-first-token"]
    assert settings.read(home / "latscope.toml").prices.rows == ()


def test_a_page_can_be_switched_off(home: Path) -> None:
    assert used(home, 'off = ["slow-first-token"]') == ()
    assert refused(home, 'off = ["slow-first-tokn"]') == (
        "runbooks.off: no 'slow-first-tokn'; did you mean 'slow-first-token'?"
    )


def test_a_page_of_latscopes_own_can_be_replaced_when_it_is_off(home: Path) -> None:
    (home / "shipped").mkdir()
    (home / "shipped" / "slow.md").write_text(PAGE.replace("severity: critical", "severity: info"))
    with pytest.raises(InputError, match="a second page with the id 'slow-first-token'"):
        used(home)
    (page,) = used(home, 'off = ["slow-first-token"]')
    assert page.severity == "critical"


def test_numbers_are_changed_where_they_stand(home: Path) -> None:
    (page,) = used(
        home,
        """
[runbooks.slow-first-token]
severity = "warning"
symptom.1.above = {baseline = "1.5x", by = "200ms"}
symptom.uncapped.above = 0.2
symptom.uncapped.sure = 0
opens_if.1.near.baseline = "20%"
evidence.queue.if.queue.above = "1s"
evidence.queue.if.1.least = 20
evidence.2.if.2.above.times = 3
done_when.1.if.1.near.by = "5ms"
""",
    )
    assert page.severity == "warning"
    first, second = page.symptom
    assert (first.bound.times, first.bound.by, first.sure) == (1.5, 2e8, 0.95)
    assert (second.bound.value, second.sure) == (0.2, 0)
    assert page.opens_if[0].bound.times == pytest.approx(1.2)
    queue = page.evidence[0].conditions[0]
    assert (queue.bound.value, queue.least) == (1e9, 20)
    second_if = page.evidence[1].conditions[1]
    assert (second_if.bound.times, second_if.bound.by) == (3, 5e7)
    assert page.done_when[0].conditions[0].bound.by == 5e6


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("severty = 1", ".severty: no 'severty'; did you mean 'severity'?"),
        ('severity = "high"', ".severity: must be one of info, warning, critical"),
        ("symptom = 3", ".symptom: must say which number, such as symptom.1.above = 2"),
        ("symptom.9.above = 3", ".symptom.9: names nothing of the page; there is: a number 1 to 2"),
        ("symptom.ttfb.above = 3", ".symptom.ttfb: names nothing of the page; there is: a number"),
        ("symptom.1.below = 3", ".symptom.1.below: no 'below'; there are: above, sure, least"),
        ("symptom.1.above = 3", ".symptom.1.above: the page gives several; change baseline or by"),
        ("symptom.2.above.by = 3", ".symptom.2.above: the page gives one number here; write above"),
        (
            "symptom.1.above.floor = 3",
            ".symptom.1.above.floor: no 'floor'; there are: baseline, by",
        ),
        ('symptom.1.above.by = "x"', ": symptom 1, above, by: no number with a unit; write 500ms"),
        ("symptom.1.above.by = 3", ": symptom 1, above, by: 3 has no unit of time; write 500ms"),
        ("symptom.1.least = 0", ": symptom 1, least: must be greater than or equal to 1"),
        ("evidence.que.if.1.above = 3", ".evidence.que: names nothing of the page; there is: a"),
        ("evidence.queue.when = 3", ".evidence.queue.when: no 'when'; there are: if"),
        ("evidence.unsplit.if.ttft.sure = 0", ".evidence.unsplit.if.ttft: 4 of them; say which"),
        ("cases = 3", ".cases: no 'cases'; there are: severity"),
    ],
)
def test_what_names_nothing_is_told_with_its_key(home: Path, line: str, said: str) -> None:
    text = refused(home, f"\n[runbooks.slow-first-token]\n{line}\n")
    assert text.startswith(f"runbooks.slow-first-token{said}"), text


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[runbooks", "not TOML: "),
        ("[runbook]\n", "no 'runbook'; did you mean 'runbooks'?"),
        ("runbooks = 3\n", "runbooks: must be a table"),
        ("[runbooks]\ndir = []\n", "runbooks.dir: no such key; known: dirs, off"),
        ("[runbooks]\ndirs = 3\n", "runbooks.dirs: must be a list of texts"),
        ("[runbooks]\noff = [3]\n", "runbooks.off: must be a list of texts"),
        ("[runbooks.absent]\n", "runbooks.absent: no 'absent'; there are: none"),
        ("[[prices]]\n", "prices row 1"),
    ],
)
def test_what_cannot_be_meant_is_told(home: Path, text: str, said: str) -> None:
    file = home / "latscope.toml"
    file.write_text(text)
    with pytest.raises(InputError) as caught:
        settings.pages(settings.read(file))
    assert str(caught.value).removeprefix(f"{file}: ").startswith(said)


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read: No such file"):
        settings.read(tmp_path / "latscope.toml")


def test_a_broken_page_is_told_as_the_pages_own_fault(home: Path) -> None:
    (home / "pages" / "a.md").write_text(PAGE.replace("by: 100ms", "by: 100"))
    with pytest.raises(InputError, match=r"pages/a\.md:11: symptom 1, above, by: "):
        used(home, '\n[runbooks.slow-first-token]\nseverity = "info"\n')


def test_prices_are_read_beside_the_runbooks(home: Path) -> None:
    file = home / "latscope.toml"
    file.write_text('[[prices]]\nmodel = "m"\ninput = 1.0\n')
    assert settings.read(file).prices.rows[0].model == "m"
