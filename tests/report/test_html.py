import re
from html.parser import HTMLParser

import msgspec
import pytest

from repro_audit.finish import finish
from repro_audit.records import Configuration, Waiver
from repro_audit.report.document import VERDICT_WORDS, document_of
from repro_audit.report.html import TEMPLATES, html_of
from repro_audit.report.reproduction_document import WORDS as REPRODUCTION_WORDS
from tests import sample_reports, sample_scripts, sample_variations
from tests.sample_reports import completed_case, refused_case
from tests.sample_scripts import loss, observation, recorded

VOID = {"meta", "link", "img", "br"}


class Balance(HTMLParser):
    """Notes elements that are not closed, and every attribute that could fetch something."""

    def __init__(self):
        super().__init__()
        self.open = []
        self.tags = set()
        self.addresses = []

    def handle_starttag(self, tag, attributes):
        self.tags.add(tag)
        self.addresses += [value for name, value in attributes if name in ("src", "href", "action", "data")]
        assert not any(name.startswith("on") for name, _ in attributes)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags.add(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def parsed(page):
    parser = Balance()
    parser.feed(page)
    parser.close()
    assert parser.open == []
    return parser


@pytest.mark.parametrize(
    "report",
    [sample_reports.report(), sample_scripts.failing(), sample_variations.report(), sample_variations.of_script()],
)
def test_a_page_is_well_formed_and_holds_all_it_needs(report):
    page = html_of(document_of(report))
    found = parsed(page)
    assert not found.tags & {"script", "iframe", "object", "embed", "form", "base"}
    assert found.addresses == ["data:,"]
    assert not re.search(r"url\(|@import|https?://(?!www\.w3\.org/2000/svg)", re.sub(r">[^<]*<", "><", page))
    assert "default-src 'none'" in page


def test_names_and_messages_cannot_bring_markup():
    hostile = "</td><script>alert(1)</script>\"'><img src=x onerror=y>{{ 7*7 }}"
    case = msgspec.structs.replace(refused_case("mlp"), reason=hostile)
    case = msgspec.structs.replace(case, case=msgspec.structs.replace(case.case, workload=hostile))
    page = html_of(document_of(sample_reports.report([case, completed_case(hostile, (0, 1, 2))])))
    assert not parsed(page).tags & {"script", "img"}
    assert "{{ 7*7 }}" in page


def test_the_verdict_comes_first():
    page = html_of(document_of(sample_reports.report()))
    assert page.index("<strong>FINDING</strong>") < page.index("<table>")
    assert "<strong>VERIFIED</strong>" in html_of(document_of(sample_reports.report([completed_case()])))


def test_repeats_that_agree_are_one_figure_and_those_that_part_are_more():
    alike, parting = (
        html_of(document_of(sample_reports.report([completed_case(weights=weights)])))
        for weights in ((0,) * 3, (0, 1, 2))
    )
    assert alike.count("<svg") == 1
    assert parting.count("<svg") > 1
    assert "leaves that differ from those of the first repeat" in parting


def test_a_waived_finding_is_shown_as_such_and_not_as_pass():
    waiver = Waiver(workload="put", device="cpu", op="*", reason="known", who="Ada", until="2999-01-01")
    page = html_of(document_of(finish(sample_reports.report([refused_case("put")]), waivers=[waiver])))
    assert 'class="WAIVED"' in page
    assert 'class="PASS"' not in page
    assert "Ada" in page


def test_the_configuration_is_shown_with_where_it_came_from():
    configuration = Configuration(
        file="/home/user/pyproject.toml", sha256="sha256:0", values={"seed": "7"}, origins={"seed": "environment"}
    )
    page = html_of(document_of(finish(sample_reports.report([completed_case()]), configuration)))
    row = '<td class="seed">seed</td><td class="">7</td><td class="environment">environment</td>'
    assert row in page
    assert "/home/user/pyproject.toml" in page


def test_the_runs_of_a_script_are_drawn_from_its_recordings(tmp_path):
    (tmp_path / "recordings").mkdir()
    recordings = [
        recorded(
            tmp_path / "recordings" / name, {"a": [loss("1"), observation(), loss(last), observation(value=last)]}
        ).recording
        for name, last in (("strict-a", "2"), ("strict-b1", "3"))
    ]
    report = msgspec.structs.replace(sample_scripts.failing(), recordings=tuple(recordings))
    page = html_of(document_of(report, tmp_path))
    assert page.count("<svg") == 3
    assert "loss of 2 repeats over 2 steps" in page
    assert html_of(document_of(report)).count("<svg") == 0
    assert html_of(document_of(report, tmp_path / "elsewhere")).count("<svg") == 0


def test_every_verdict_in_a_word_has_its_colour():
    style = (TEMPLATES / "document.html.j2").read_text()
    words = [*VERDICT_WORDS.values(), "INVENTORY", "SAME", "DIFFERENT", *REPRODUCTION_WORDS.values()]
    for word in words:
        assert re.search(rf"\.{word.split()[0].lower()}\b[^}}]*--tone", style), word
