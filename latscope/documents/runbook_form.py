"""The front matter of a page as it is written: `latscope.runbook/1`, key for key."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Discriminator, Field, StringConstraints, Tag

from latscope.attribution.model import Mode
from latscope.documents.quantity import Given
from latscope.rules.runbook import Severity, Stat, Verdict

Id: TypeAlias = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$")]
Text: TypeAlias = Annotated[str, StringConstraints(min_length=1)]


class Form(BaseModel):
    model_config = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, coerce_numbers_to_str=True
    )


class BoundForm(Form):
    """What a comparison compares with: exactly one of value, baseline, floor, where and metric."""

    value: Given | None = Field(None, description="The bound itself, in the metric's unit.")
    baseline: Given | None = Field(None, description="1.3x, or 15% with near: of the reference.")
    floor: Given | None = Field(None, description="1.5x, or 15% with near: of the profile's floor.")
    where: Text | None = Field(None, description="The same statistic of these calls of the file.")
    metric: Text | None = Field(None, description="The same statistic of another metric.")
    times: Given | None = Field(None, description="With where, metric or value: 1.5, or 15%.")
    by: Given | None = Field(None, description="And at least so far away from it.")


def _shape(given: Any) -> str:
    return "table" if isinstance(given, Mapping | BoundForm) else "plain"


Comparison: TypeAlias = Annotated[
    Annotated[Given, Tag("plain")] | Annotated[BoundForm, Tag("table")], Discriminator(_shape)
]


COMPARED = ("above", "below", "near", "apart", "is")


class ConditionForm(Form):
    """Exactly one of above, below, near, apart and is."""

    metric: Text
    stat: Stat
    above: Comparison | None = None
    below: Comparison | None = None
    near: BoundForm | None = None
    apart: BoundForm | None = None
    is_: Given | None = Field(None, alias="is")
    where: Text | None = None
    along: Text | None = Field(None, description="For slope: the metric it grows with.")
    sure: Given | None = Field(None, description="90% when not given; 0: the estimate decides.")
    least: Annotated[int, Field(ge=1)] | None = None
    otherwise: str = ""


class CauseForm(Form):
    id: Id
    says: Text
    segment: Text | None = None
    if_: Annotated[tuple[ConditionForm, ...], Field(min_length=1)] = Field(alias="if")
    moves: Text | None = Field(None, description="A metric and a statistic: ttft.queue p50.")
    unless: tuple[Id, ...] = ()
    collect: str = ""


class ActionForm(Form):
    do: Text
    cause: Id | None = None
    where: Text | None = None


class DoneForm(Form):
    text: Text
    if_: Annotated[tuple[ConditionForm, ...], Field(min_length=1)] = Field(alias="if")


CallTable: TypeAlias = Mapping[str, Any]


class CaseForm(Form):
    says: Text
    verdict: Verdict
    calls: Annotated[tuple[CallTable, ...], Field(min_length=1)]
    baseline: tuple[CallTable, ...] = ()
    before: tuple[CallTable, ...] = ()
    segment: Text | None = None
    causes: tuple[Id, ...] = ()
    seed: int = 0


class PageForm(Form):
    """A runbook: symptom -> evidence -> actions -> done when, and the cases that prove it."""

    schema_: Literal["latscope.runbook/1"] = Field(alias="schema")
    id: Id
    title: Text
    severity: Severity
    scope: Literal["group", "file"] = "group"
    modes: Annotated[tuple[Mode, ...], Field(min_length=1)] = ("vendor", "self-hosted", "on-device")
    needs: tuple[Text, ...] = ()
    where: Text | None = None
    opens_if: tuple[ConditionForm, ...] = ()
    symptom: Annotated[tuple[ConditionForm, ...], Field(min_length=1)]
    evidence: tuple[CauseForm, ...] = ()
    actions: tuple[ActionForm, ...] = ()
    done_when: tuple[DoneForm, ...] = ()
    cases: tuple[CaseForm, ...] = ()


def schema() -> dict[str, Any]:
    """JSON Schema of the front matter of a page."""
    described = PageForm.model_json_schema(by_alias=True)
    comparisons = [{"required": [word]} for word in COMPARED]
    described["$defs"]["ConditionForm"]["oneOf"] = comparisons
    against = [{"required": [word]} for word in ("value", "baseline", "floor", "where", "metric")]
    described["$defs"]["BoundForm"]["oneOf"] = against
    described["title"] = "latscope.runbook/1"
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **described}
