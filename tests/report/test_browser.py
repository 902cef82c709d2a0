"""The HTML report in Debian's chromium; skipped where that is not installed."""

import json
import re

import pytest

from repro_audit.difference import differences
from repro_audit.report.difference_document import difference_document
from repro_audit.report.document import document_of
from repro_audit.report.html import html_of
from tests import sample_reports, sample_scripts, sample_variations
from tests.browser import CHROMIUM, FRAME, visit
from tests.test_difference import script_archive

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")

LONG = "a_name_that_goes_on_" * 12


def pages(tmp_path):
    yield "audit", html_of(document_of(sample_reports.report()))
    yield "long", html_of(document_of(sample_reports.report([sample_reports.completed_case(LONG, (0, 1, 2))])))
    yield "script", html_of(document_of(sample_scripts.failing()))
    yield "vary", html_of(document_of(sample_variations.report()))
    archives = [script_archive(tmp_path / name, name) for name in "12"]
    yield "diff", html_of(difference_document(differences(*archives)))


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    return dict(pages(tmp_path_factory.mktemp("pages")))


KINDS = ["audit", "long", "script", "vary", "diff"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_page_opens_asks_nobody_and_complains_of_nothing(written, kind, tmp_path):
    seen = visit({"/": written[kind]}, tmp_path)
    assert seen.requests == ["/"]
    assert seen.console == []
    words = " ".join(re.sub(r"<(style|title)>.*?</\1>|<[^>]*>", " ", seen.dom, flags=re.DOTALL).split())
    verdict = {"audit": "FINDING", "long": "FINDING", "script": "FINDING", "vary": "FINDING", "diff": "DIFFERENT"}
    assert verdict[kind] in words


def test_the_numbers_are_there(written, tmp_path):
    report = sample_reports.report()
    dom = visit({"/": written["audit"]}, tmp_path).dom
    assert report.summary.statement in dom
    for case in report.cases:
        assert f">{case.case.workload}</td>" in dom
    assert report.result_digest in dom
    assert dom.count("<svg") >= 1
    assert "<polyline" in dom or "<circle" in dom


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("kind", KINDS)
def test_a_page_is_read_without_scrolling_sideways_on_phone_and_desktop(written, kind, width, tmp_path):
    seen = visit({"/": FRAME.format(width=width), "/page": written[kind]}, tmp_path)
    measured = json.loads(re.search(r"<pre>(\{.*?\})</pre>", seen.dom)[1])
    assert measured["width"] == width
    assert measured["scroll"] <= width
    assert measured["font"] >= 12
    assert seen.console == []


# ------------------------------------------------------------------------------------------- these can fail


def test_a_request_would_be_seen(written, tmp_path):
    page = re.sub(r"<meta http-equiv[^>]*>", "", written["audit"])
    assert page != written["audit"]
    seen = visit({"/": page.replace("<main>", '<main><img src="/stolen.png">')}, tmp_path)
    assert "/stolen.png" in seen.requests


def test_what_the_page_forbids_is_not_asked_for_and_is_complained_of(written, tmp_path):
    seen = visit({"/": written["audit"].replace("<main>", '<main><img src="/stolen.png">')}, tmp_path)
    assert seen.requests == ["/"]
    assert any("Content Security Policy" in line for line in seen.console)


def test_a_page_that_is_too_wide_would_be_seen(written, tmp_path):
    wide = written["audit"].replace("<main>", '<main><div style="width:700px">wide</div>')
    seen = visit({"/": FRAME.format(width=390), "/page": wide}, tmp_path)
    assert json.loads(re.search(r"<pre>(\{.*?\})</pre>", seen.dom)[1])["scroll"] > 390
