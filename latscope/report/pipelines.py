"""What a continuous-integration pipeline is told: GitHub annotations, JUnit XML."""

from collections.abc import Sequence
from typing import Literal, TypeAlias
from xml.etree import ElementTree

NOT_XML = dict.fromkeys(
    [*range(0x09), 0x0B, 0x0C, *range(0x0E, 0x20), 0xFFFE, 0xFFFF, *range(0xD800, 0xE000)], "\ufffd"
)

Case: TypeAlias = ElementTree.Element
Kind: TypeAlias = Literal["failure", "error", "skipped", None]
"""How a test case ended; null: well."""


def command(level: str, title: str, message: str) -> str:
    """One GitHub workflow command, escaped as GitHub's own toolkit does."""
    return f"::{level} title={_escaped(title, property_=True)}::{_escaped(message)}"


def _escaped(text: str, *, property_: bool = False) -> str:
    pairs = [("%", "%25"), ("\r", "%0D"), ("\n", "%0A")]
    for char, code in [*pairs, *([(":", "%3A"), (",", "%2C")] if property_ else [])]:
        text = text.replace(char, code)
    return text


def case(
    classname: str, name: str, said: str, kind: Kind, *, message: str = "", type_: str = ""
) -> Case:
    """One test case. said: the whole text; message: its one line (else `said` stands there)."""
    found = ElementTree.Element("testcase", {"classname": _xml(classname), "name": _xml(name)})
    if kind is None:
        ElementTree.SubElement(found, "system-out").text = _xml(said)
    elif kind == "skipped":
        ElementTree.SubElement(found, kind, {"message": _xml(message or said)})
    else:
        about = {"message": _xml(message or said), **({"type": _xml(type_)} if type_ else {})}
        ElementTree.SubElement(found, kind, about).text = _xml(said)
    return found


def suite(name: str, cases: Sequence[Case]) -> str:
    """A JUnit file of one suite."""

    def tally(tag: str) -> str:
        return str(sum(found.find(tag) is not None for found in cases))

    counts = {
        "tests": str(len(cases)),
        "failures": tally("failure"),
        "errors": tally("error"),
        "skipped": tally("skipped"),
    }
    root = ElementTree.Element("testsuites", {"name": name, **counts})
    inner = ElementTree.SubElement(root, "testsuite", {"name": name, **counts})
    inner.extend(cases)
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _xml(text: str) -> str:
    """Without what no XML 1.0 may hold."""
    return text.translate(NOT_XML)
