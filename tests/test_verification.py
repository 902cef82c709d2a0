"""What an attacker, a bad disk or a careless hand does to an archive, and what `verify` says."""

import hashlib
import json
import shutil
from pathlib import Path

import msgspec
import pytest

from repro_audit import cli
from repro_audit.attestation import FILE_NAME as ATTESTATIONS
from repro_audit.attestation import Responsible
from repro_audit.checksums import FILE_NAME as SUMS
from repro_audit.checksums import checksum_faults, file_digests, seal
from repro_audit.commands.verify import sign_archive
from repro_audit.errors import EvidenceError
from repro_audit.finish import finish
from repro_audit.report import evidence
from repro_audit.signing import load_public_key, load_signer, write_key_pair
from repro_audit.verification import verify_archive
from tests.fakes import FakeLauncher, Unseeded
from tests.small_archive import small_archive


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    folder = tmp_path_factory.mktemp("keys")
    return write_key_pair(folder / "key")[0].with_name("key"), write_key_pair(folder / "other")[0].with_name("other")


@pytest.fixture(scope="module")
def original(tmp_path_factory, keys):
    folder = small_archive(tmp_path_factory.mktemp("original"))
    sign_archive(folder, load_signer(keys[0]), Responsible(name="Ada Lovelace", role="auditor"))
    return folder


@pytest.fixture
def signed(original, tmp_path):
    """A copy to do harm to, under its own name."""
    return Path(shutil.copytree(original, tmp_path / original.name))


@pytest.fixture
def trust(keys, signed):
    return load_public_key(keys[0].with_name("key.pub"), signed)


def faults(folder, trust=None):
    return "\n".join(verify_archive(folder, trust).faults)


def test_what_nobody_touched_is_verified_and_says_by_whom_it_was_signed(signed, trust):
    verified = verify_archive(signed, trust)
    assert verified.faults == ()
    assert "key.pub (sha256:" in verified.signers[0]
    assert verified.report == evidence.load(signed)


def test_every_flipped_byte_of_every_file_is_found(signed):
    """All bytes by their checksum; what becomes of a fault there is shown for some bytes of each file below."""
    digests = file_digests(signed)
    for name in digests:
        content = bytearray((signed / name).read_bytes())
        for position in range(len(content)):
            content[position] ^= 1 << position % 8
            changed = {**digests, name: hashlib.sha256(content).hexdigest()}
            assert list(checksum_faults(signed, changed)) == [f"{name} has another digest than SHA256SUMS names"]
            content[position] ^= 1 << position % 8
    sums = signed / SUMS
    content = bytearray(sums.read_bytes())
    for position in range(len(content)):
        content[position] ^= 1 << position % 8
        sums.write_bytes(content)
        assert list(checksum_faults(signed, digests)), position
        content[position] ^= 1 << position % 8


def test_a_flipped_byte_anywhere_fails_the_whole_and_is_named(signed, trust):
    for path in sorted(path for path in signed.rglob("*") if path.is_file()):
        content = path.read_bytes()
        for position in range(0, len(content), len(content) // 3 + 1):
            path.write_bytes(content[:position] + bytes([content[position] ^ 4]) + content[position + 1 :])
            assert path.name in faults(signed, trust), (path, position)
        path.write_bytes(content)
    assert faults(signed, trust) == ""


def test_every_dropped_file_is_missed_even_where_the_checksums_were_written_again(signed, trust):
    for path in sorted(path for path in signed.rglob("*") if path.is_file()):
        content = path.read_bytes()
        path.unlink()
        assert faults(signed, trust), path
        if path.name != SUMS:
            sums = (signed / SUMS).read_bytes()
            seal(signed)
            assert faults(signed, trust), path
            (signed / SUMS).write_bytes(sums)
        path.write_bytes(content)
    assert faults(signed, trust) == ""


def test_an_added_file_is_noticed_even_where_the_checksums_were_written_again(signed, trust):
    (signed / "runs" / "readme.txt").write_text("trust me")
    assert "runs/readme.txt was added" in faults(signed)
    seal(signed)
    assert (
        faults(signed)
        == f"{ATTESTATIONS} is about other files than those that lie here, or about other contents of them"
    )
    (signed / ATTESTATIONS).unlink()
    seal(signed)
    assert "it is not signed" in faults(signed, trust)


@pytest.mark.parametrize("target", ["/etc/hostname", "evidence.yaml"])
def test_a_link_is_no_file_of_an_archive(signed, target):
    (signed / "link").symlink_to(target)
    with pytest.raises(EvidenceError, match="neither a file nor a folder"):
        verify_archive(signed, None)


def test_swapped_records_of_two_runs_are_noticed_even_where_the_checksums_were_written_again(signed):
    first, second = sorted(signed.glob("runs/one.*/strict-*.json"))
    one, other = first.read_bytes(), second.read_bytes()
    first.write_bytes(other)
    second.write_bytes(one)
    assert "strict-a.json has another digest" in faults(signed)
    (signed / ATTESTATIONS).unlink()
    seal(signed)
    assert faults(signed) == ""  # each says of itself which run it is
    for path, content, name in ((first, other, "strict-a"), (second, one, "strict-b1")):
        record = json.loads(content)
        record["run"]["name"] = name
        path.write_text(json.dumps(record))
    seal(signed)
    assert "the record of run strict-a of one/cpu tells otherwise than the evidence" in faults(signed)


def test_changed_evidence_is_noticed_even_where_everything_else_was_made_to_fit(tmp_path):
    """A FAIL that was made a PASS, with runs that agree, and their checksums, would be a PASS; the records tell."""
    folder = small_archive(tmp_path, FakeLauncher({"one": Unseeded()}))
    report = evidence.load(folder)
    good = next(result for result in report.cases if result.case.workload == "two")
    forged = msgspec.structs.replace(good, case=report.cases[0].case)
    evidence.save(finish(msgspec.structs.replace(report, cases=(forged, good))), folder)
    seal(folder)
    assert "the record of run strict-a of one/cpu tells otherwise than the evidence" in faults(folder)


def test_a_stripped_or_replaced_signature_is_noticed(signed, trust, keys):
    (signed / ATTESTATIONS).unlink()
    seal(signed)
    assert faults(signed) == ""
    assert "it is not signed" in faults(signed, trust)
    sign_archive(signed, load_signer(keys[1]), Responsible())
    assert faults(signed) == ""
    assert "holds no valid signature by the key" in faults(signed, trust)
    sign_archive(signed, load_signer(keys[0]), Responsible())
    assert faults(signed, trust) == ""


def test_a_signature_of_another_archive_is_none_of_this_one(signed, trust, keys, tmp_path):
    other = small_archive(tmp_path)
    sign_archive(other, load_signer(keys[0]), Responsible())
    shutil.copy(other / ATTESTATIONS, signed / ATTESTATIONS)
    seal(signed)
    assert f"{ATTESTATIONS} is about other files" in faults(signed, trust)


def test_one_of_two_statements_is_not_enough(signed, trust):
    path = signed / ATTESTATIONS
    path.write_bytes(path.read_bytes().splitlines(keepends=True)[0])
    seal(signed)
    assert "holds no two statements" in faults(signed, trust)


def test_an_old_archive_under_a_new_name_is_noticed(signed, trust):
    renamed = signed.rename(signed.with_name("2036-01-02T030405Z-c0ffee"))
    assert f"the archive was written as {signed.name}" in faults(renamed, trust)


def test_an_archive_without_checksums_or_evidence_is_not_whole(signed):
    (signed / SUMS).unlink()
    assert "SHA256SUMS is missing" in faults(signed)
    (signed / "evidence.yaml").unlink()
    assert "evidence.yaml does not exist" in faults(signed)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b'{"payloadType": 1}\n',
        b"[" * 100_000,
        b"\xff\n",
        b'{"payloadType":"x","payload":"","signatures":[]}\n',
    ],
)
def test_hostile_attestations_and_records_are_faults_and_no_crash(signed, trust, content):
    (signed / ATTESTATIONS).write_bytes(content)
    record = next(signed.glob("runs/*/*.json"))
    record.write_bytes(content)
    seal(signed)
    told = faults(signed, trust)
    assert ATTESTATIONS in told
    assert f"{record.relative_to(signed)} is no record of a run" in told


def test_the_command_says_what_holds_and_exits_with_0(signed, keys, capsys):
    assert cli.main(["verify", str(signed / "evidence.yaml"), "--key", f"{keys[0]}.pub"]) == 0
    told = capsys.readouterr().out
    assert f"verified: {signed}" in told
    assert "signature:  valid, by the key" in told
    assert cli.main(["verify", str(signed)]) == 0
    assert "integrity only: a signature is there, but no key was given" in capsys.readouterr().out


def test_the_command_says_what_does_not_hold_and_exits_with_1(signed, keys, capsys):
    (signed / "runs" / "more").write_text("")
    assert cli.main(["verify", str(signed), "--key", f"{keys[1]}.pub"]) == 1
    told = capsys.readouterr().out
    assert "NOT VERIFIED" in told
    assert "runs/more was added" in told
    assert "holds no valid signature" in told


def test_a_key_from_the_archive_itself_is_not_taken(signed, keys, capsys):
    shutil.copy(f"{keys[0]}.pub", signed / "key.pub")
    assert cli.main(["verify", str(signed), "--key", str(signed / "key.pub")]) == 2
    assert "lies in the archive that it is to vouch for" in capsys.readouterr().err


def test_what_is_not_whole_is_not_signed(signed, keys, capsys):
    (signed / "more").write_text("")
    assert cli.main(["sign", str(signed), "--key", str(keys[0])]) == 2
    assert "cannot be signed: more was added" in capsys.readouterr().err


def test_a_signature_that_was_cut_off_can_be_made_again(signed, trust, keys):
    (signed / ATTESTATIONS).write_bytes(b"half of")
    assert faults(signed, trust)
    sign_archive(signed, load_signer(keys[0]), Responsible())
    assert faults(signed, trust) == ""
