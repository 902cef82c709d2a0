import re
from xml.etree import ElementTree

from repro_audit.report.svg import export_svg
from tests import sample_reports


def test_the_picture_shows_the_table_and_is_well_formed():
    picture = ElementTree.fromstring(export_svg(sample_reports.report()))
    words = " ".join("".join(picture.itertext()).replace("\N{NO-BREAK SPACE}", " ").split())
    assert "worst" in words
    assert "REFUSED" in words


def test_the_picture_fetches_nothing():
    picture = export_svg(sample_reports.report())
    assert "@font-face" not in picture
    assert not re.search(r"""(?:url\(|href=|src=)\s*["']?https?:""", picture)


def test_a_name_cannot_bring_markup_into_the_picture():
    hostile = "</text><script>alert(1)</script>"
    assert "<script" not in export_svg(sample_reports.report([sample_reports.completed_case(hostile)]))


def test_the_same_report_gives_the_same_picture():
    assert export_svg(sample_reports.report()) == export_svg(sample_reports.report())
