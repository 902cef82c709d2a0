import copy

import jsonschema
import msgspec
import pytest
import yaml

from repro_audit.report import evidence
from repro_audit.schema import PATH, evidence_schema, schema_text
from tests import sample_reports, sample_scripts, sample_variations

REPORTS = {
    "audit": sample_reports.report,
    "inventory": lambda: sample_reports.inventory([sample_reports.inventoried_case("put")]),
    "script": sample_scripts.failing,
    "varied workloads": sample_variations.report,
    "varied script": sample_variations.of_script,
}


@pytest.fixture(scope="module")
def validator():
    schema = msgspec.json.decode(PATH.read_bytes())
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def test_the_published_schema_is_that_of_the_records():
    """Where records changed on purpose, write `schema_text()` to `PATH` again."""
    assert PATH.read_text(encoding="utf-8") == schema_text()
    assert evidence_schema()["$schema"] == "https://json-schema.org/draft/2020-12/schema"


@pytest.mark.parametrize("name", REPORTS)
def test_all_evidence_is_valid_by_it(validator, name):
    validator.validate(yaml.safe_load(evidence.to_yaml(REPORTS[name]())))


@pytest.mark.parametrize("name", REPORTS)
def test_evidence_with_something_left_out_added_or_of_another_type_is_not(validator, name):
    sound = yaml.safe_load(evidence.to_yaml(REPORTS[name]()))
    for change in (
        lambda data: data.pop("summary"),
        lambda data: data.update(more=1),
        lambda data: data["summary"].update(exit_code="0"),
        lambda data: data["environment"]["devices"].append({"name": 1}),
    ):
        data = copy.deepcopy(sound)
        change(data)
        assert not validator.is_valid(data)
