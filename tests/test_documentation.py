"""What docs/evidence.md says is so."""

import base64
import json
import re
import subprocess
import sys
import typing
from pathlib import Path

import msgspec
import pytest

from repro_audit.attestation import Responsible
from repro_audit.commands.verify import sign_archive
from repro_audit.records import AuditReport, RunRecord
from repro_audit.report import evidence
from repro_audit.script_records import ScriptReport
from repro_audit.signing import load_signer, write_key_pair
from repro_audit.variation_records import VariationReport
from tests import sample_reports
from tests.fakes import FakeLauncher, Unseeded, refused_op
from tests.small_archive import small_archive

PAGE = (Path(__file__).parent.parent / "docs" / "evidence.md").read_text()

RECOMPUTE, UNWRAP = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)

COMMANDS = re.findall(r"^(?:openssl|ssh-keygen) .*$", PAGE, re.MULTILINE)


def records(*roots):
    """The records that these hold, at any depth."""
    found = {}

    def walk(hint):
        if isinstance(hint, type) and issubclass(hint, msgspec.Struct) and hint.__name__ not in found:
            found[hint.__name__] = hint.__struct_fields__
            for name, inner in typing.get_type_hints(hint).items():
                if name in hint.__struct_fields__:
                    walk(inner)
        for inner in typing.get_args(hint):
            walk(inner)

    for root in roots:
        walk(root)
    return found


def test_every_field_of_every_record_has_its_line_and_nothing_else_has():
    said = {}
    for section in re.split(r"^### ", PAGE, flags=re.MULTILINE)[1:]:
        name = section.partition("\n")[0]
        said[name] = re.findall(r"^\| `(\w+)` \| (.+) \|$", section, re.MULTILINE)
    written = records(AuditReport, ScriptReport, VariationReport, RunRecord)
    assert said.keys() == written.keys()
    for name, fields in written.items():
        names = [field for field, _ in said[name] if field not in ("outcome",) or field in fields]
        assert names == list(fields), name
        assert all(len(meaning) > 3 for _, meaning in said[name]), name


def test_links_in_the_page_lead_somewhere():
    anchors = {
        re.sub(r"[^\w\- ]", "", line).strip().lower().replace(" ", "-") for line in re.findall(r"^#+ (.*)$", PAGE, re.M)
    }
    for target in re.findall(r"\]\(#([^)]*)\)", PAGE):
        assert target in anchors, target
    for target in re.findall(r"\]\((?!https?:|#)([^)#]*)", PAGE):
        assert (Path(__file__).parent.parent / "docs" / target).exists(), target


@pytest.mark.parametrize("behaviour", [None, Unseeded(), refused_op])
def test_the_digest_of_the_result_can_be_computed_without_us(behaviour, tmp_path):
    folder = small_archive(tmp_path, FakeLauncher({"one": behaviour} if behaviour else {}))
    assert recomputed(folder / evidence.FILE_NAME) == evidence.load(folder).result_digest


def test_so_can_that_of_evidence_with_everything_in_it(tmp_path):
    report = sample_reports.report()
    assert recomputed(evidence.save(report, tmp_path)) == report.result_digest


def recomputed(path):
    """What twenty lines say that know nothing of this package."""
    command = [sys.executable, "-I", "-c", RECOMPUTE, str(path)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def test_the_twenty_lines_are_no_more_and_notice_a_change(tmp_path):
    assert len([line for line in RECOMPUTE.splitlines() if line.strip()]) <= 20
    folder = small_archive(tmp_path)
    path = folder / evidence.FILE_NAME
    expected = evidence.load(folder).result_digest
    path.write_text(path.read_text().replace("verdict: PASS", "verdict: FAIL", 1))
    assert recomputed(path) != expected


def unwrapped(folder, place):
    path = folder / "attestations.intoto.jsonl"
    subprocess.run([sys.executable, "-I", "-c", UNWRAP, str(path)], cwd=place, check=True)
    return [json.loads(base64.b64decode(json.loads(line)["payload"])) for line in path.read_text().splitlines()]


def test_a_signature_can_be_checked_by_hand(tmp_path):
    folder = small_archive(tmp_path / "reports")
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", "ssh"], cwd=tmp_path, check=True)
    (tmp_path / "allowed_signers").write_text("ada@example.org " + (tmp_path / "ssh.pub").read_text())
    write_key_pair(tmp_path / "auditor")
    with_openssl, with_ssh = COMMANDS
    for key, command, message in (("auditor", with_openssl, "message-0"), ("ssh", with_ssh, "message-0")):
        sign_archive(folder, load_signer(tmp_path / key), Responsible(name="Ada", role="auditor"))
        first, second = unwrapped(folder, tmp_path)
        assert subprocess.run(["sh", "-c", command], cwd=tmp_path, capture_output=True).returncode == 0, command
        (tmp_path / message).write_bytes((tmp_path / message).read_bytes() + b" ")
        assert subprocess.run(["sh", "-c", command], cwd=tmp_path, capture_output=True).returncode != 0
        assert first["predicateType"].endswith("test-result/v0.1")
        assert second["predicateType"] in PAGE
        assert {one["name"] for one in first["subject"]} >= {"evidence.yaml"}


def test_checksums_can_be_checked_by_hand(tmp_path):
    folder = small_archive(tmp_path)
    command = re.search(r"&& (sha256sum .*)$", PAGE, re.MULTILINE)[1]
    assert subprocess.run(["sh", "-c", command], cwd=folder, capture_output=True).returncode == 0
    (folder / evidence.FILE_NAME).write_text("")
    assert subprocess.run(["sh", "-c", command], cwd=folder, capture_output=True).returncode != 0
