"""Audits that are killed, run out of disk, or run at once: nothing half-written looks whole, nothing is lost."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from repro_audit import cli
from repro_audit.archive import Archive
from repro_audit.archive_index import entry_of
from repro_audit.attestation import Responsible
from repro_audit.checksums import FILE_NAME as SUMS
from repro_audit.commands.verify import sign_archive
from repro_audit.errors import UsageError
from repro_audit.report import evidence
from repro_audit.signing import load_public_key, load_signer, write_key_pair
from repro_audit.verification import verify_archive
from tests.small_archive import small_archive


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
    """The folder of fifty killed audits and of six that ran at once, and the key that they were signed with."""
    folder = tmp_path_factory.mktemp("killed")
    key = folder / "key"
    write_key_pair(key)
    command = [sys.executable, "-m", "tests.killed_audits", str(folder), str(key), "20261203"]
    subprocess.run(command, cwd=Path(__file__).parent.parent, check=True, timeout=300)
    return folder, key


def archives(folder):
    return sorted(path for place in folder.glob("killed-*") for path in place.iterdir())


def test_the_instants_were_all_over_the_audit(killed):
    folder, _ = killed
    assert len(list(folder.glob("killed-*"))) <= 50
    reached = [
        ("record" if any(path.glob("runs/*/*.json")) else "folder")
        + ("+evidence" if (path / evidence.FILE_NAME).exists() else "")
        + ("+sums" if (path / SUMS).exists() else "")
        for path in archives(folder)
    ]
    assert {"record", "record+evidence+sums"} <= set(reached), reached


def test_no_half_written_archive_looks_whole(killed, capsys):
    folder, key = killed
    for path in archives(folder):
        trust = load_public_key(key.with_name("key.pub"), path)
        verified = verify_archive(path, None)
        if verified.faults:
            assert entry_of(path).is_whole == (path / SUMS).exists()
            assert cli.main(["verify", str(path)]) in (1, 2)
            continue
        # Whole: signed, or killed before the signature; with the key there is no doubt which.
        signed = not verify_archive(path, trust).faults
        assert signed == (path / "attestations.intoto.jsonl").exists()


def test_what_was_found_by_then_is_not_lost(killed):
    folder, key = killed
    for path in archives(folder):
        for record in path.glob("runs/*/*.json"):
            # The last one may be cut off where the kill met it; those before it are whole.
            newest = max(path.glob("runs/*/*.json"), key=lambda one: one.stat().st_mtime_ns)
            if record != newest:
                assert json.loads(record.read_text())["run"]
        if (path / evidence.FILE_NAME).exists():
            assert evidence.load(path).summary.complete
        if (path / SUMS).exists() and verify_archive(path, None).faults:
            sign_archive(path, load_signer(key), Responsible())  # a signature that was cut off can be made again
            assert verify_archive(path, None).faults == ()


def test_audits_at_the_same_moment_do_not_meet(killed):
    folder, key = killed
    made = sorted((folder / "at-once").iterdir())
    assert len(made) == 6
    for path in made:
        verified = verify_archive(path, load_public_key(key.with_name("key.pub"), path))
        assert verified.faults == ()
        assert verified.report.volatile.audit == path.name


@pytest.fixture
def disk(tmp_path):
    """Mounts a disk of a few bytes; only root may."""
    mounted = []

    def mount(size, options=""):
        place = tmp_path / f"disk-{len(mounted)}"
        place.mkdir()
        command = ["mount", "-t", "tmpfs", "-o", f"size={size}{options}", "tmpfs", str(place)]
        if not hasattr(os, "geteuid") or os.geteuid() or subprocess.run(command, capture_output=True).returncode:
            pytest.skip("disks cannot be mounted here")
        mounted.append(place)
        return place

    yield mount
    for place in mounted:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


def test_a_full_disk_costs_no_evidence_and_leaves_nothing_that_looks_whole(disk, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    places = set()
    for kibibytes in (4, 12, 24, 40, 60, 90, 2000):
        folder = small_archive(disk(f"{kibibytes}k"))
        err = capsys.readouterr().err
        if not verify_archive(folder, None).faults:
            places.add("there")
            continue
        assert not entry_of(folder).is_whole
        if "was written to" in err:
            places.add("elsewhere")
            refuge = Path(err.split("was written to ")[1].split(" instead")[0])
            assert evidence.load(refuge).summary.counts
        else:
            assert "cannot be sealed" in err
            places.add("unsealed")
            assert evidence.load(folder)
    assert {"there", "elsewhere"} <= places


def test_a_read_only_disk_is_told_before_anything_runs(disk, capsys):
    place = disk("1m", ",ro")
    with pytest.raises(UsageError, match=r"cannot make the archive folder .* --output"):
        small_archive(place)
    assert cli.main(["run", "cumsum", "--output", str(place / "reports")]) == 2
    assert "Read-only file system" in capsys.readouterr().err
    assert not list(place.iterdir())


def test_an_archive_of_an_audit_that_never_ran_is_none(tmp_path):
    assert not entry_of(Archive(tmp_path).folder).is_whole
