import stat
import subprocess

import pytest

from repro_audit import cli
from repro_audit.attestation import PAYLOAD_TYPE, Responsible, pre_authentication_encoding, read_envelopes
from repro_audit.commands.verify import sign_archive
from repro_audit.errors import UsageError
from repro_audit.signing import (
    PASSPHRASE_VARIABLE,
    load_allowed_signers,
    load_public_key,
    load_signer,
    write_key_pair,
)
from repro_audit.verification import verify_archive
from tests.small_archive import small_archive


def test_a_pair_is_written_with_safe_permissions_and_never_over_another(tmp_path):
    public, _ = write_key_pair(tmp_path / "key")
    assert stat.S_IMODE((tmp_path / "key").stat().st_mode) == 0o600
    assert public == tmp_path / "key.pub"
    before = public.read_bytes()
    with pytest.raises(UsageError, match="there already"):
        write_key_pair(tmp_path / "key")
    assert public.read_bytes() == before


def test_a_link_in_the_place_of_the_key_is_not_followed(tmp_path):
    (tmp_path / "key").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UsageError, match="there already"):
        write_key_pair(tmp_path / "key")
    assert not (tmp_path / "elsewhere").exists()


def test_a_key_that_others_can_read_is_not_used(tmp_path):
    write_key_pair(tmp_path / "key")
    (tmp_path / "key").chmod(0o640)
    with pytest.raises(UsageError, match="chmod 600"):
        load_signer(tmp_path / "key")


def test_a_passphrase_is_asked_of_the_environment(tmp_path, monkeypatch):
    monkeypatch.setenv(PASSPHRASE_VARIABLE, "open sesame")
    write_key_pair(tmp_path / "key")
    assert b"ENCRYPTED" in (tmp_path / "key").read_bytes()
    assert load_signer(tmp_path / "key").keyid.startswith("sha256:")
    monkeypatch.setenv(PASSPHRASE_VARIABLE, "wrong")
    with pytest.raises(UsageError, match="passphrase wrong"):
        load_signer(tmp_path / "key")
    monkeypatch.delenv(PASSPHRASE_VARIABLE)
    with pytest.raises(UsageError, match=PASSPHRASE_VARIABLE):
        load_signer(tmp_path / "key")


@pytest.mark.parametrize("content", [b"", b"hello", b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"])
def test_what_is_no_key_is_an_error_that_names_it(tmp_path, content):
    path = tmp_path / "key"
    path.write_bytes(content)
    path.chmod(0o600)
    with pytest.raises(UsageError, match="key"):
        load_signer(path)
    with pytest.raises(UsageError, match="key"):
        load_public_key(path, tmp_path / "archive")


def test_another_kind_of_key_is_refused(tmp_path):
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

    key = ec.generate_private_key(ec.SECP256R1())
    path = tmp_path / "key"
    path.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    path.chmod(0o600)
    with pytest.raises(UsageError, match="another kind of key"):
        load_signer(path)
    path.write_bytes(key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    with pytest.raises(UsageError, match="another kind of key"):
        load_public_key(path, tmp_path / "archive")


def test_a_private_key_in_the_place_of_the_public_one_is_an_error_that_says_which(tmp_path):
    write_key_pair(tmp_path / "key")
    with pytest.raises(UsageError, match=r"key\.pub"):
        load_public_key(tmp_path / "key", tmp_path / "archive")


def test_without_the_extra_the_error_says_how_to_get_it(tmp_path, monkeypatch, capsys):
    import sys

    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.asymmetric.ed25519", None)
    assert cli.main(["keygen", str(tmp_path / "key")]) == 2
    assert "pip install 'repro-audit[sign]'" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_openssl_agrees_with_the_signature(tmp_path):
    """An independent implementation, by the definition of the envelope."""
    import base64

    folder = small_archive(tmp_path / "reports")
    write_key_pair(tmp_path / "key")
    path = sign_archive(folder, load_signer(tmp_path / "key"), Responsible())
    for envelope in read_envelopes(path.read_bytes()):
        message = pre_authentication_encoding(PAYLOAD_TYPE, base64.b64decode(envelope.payload))
        (tmp_path / "message").write_bytes(message)
        (tmp_path / "signature").write_bytes(base64.b64decode(envelope.signatures[0].sig))
        command = ["openssl", "pkeyutl", "-verify", "-pubin", "-inkey", "key.pub", "-rawin", "-in", "message"]
        done = subprocess.run([*command, "-sigfile", "signature"], cwd=tmp_path, capture_output=True, check=False)
        assert done.returncode == 0, done.stderr


@pytest.fixture
def ssh_key(tmp_path):
    path = tmp_path / "id_ed25519"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "ada", "-f", str(path)], check=True)
    return path


def test_an_ssh_key_signs_and_its_owner_is_named(tmp_path, ssh_key):
    folder = small_archive(tmp_path / "reports")
    sign_archive(folder, load_signer(ssh_key), Responsible(name="Ada"))
    signers = tmp_path / "allowed_signers"
    signers.write_text(f"ada@example.org {ssh_key.with_suffix('.pub').read_text()}")
    verified = verify_archive(folder, load_allowed_signers(signers, folder))
    assert verified.faults == ()
    assert verified.signers == (f"ada@example.org, by {signers}",)


def test_an_ssh_key_that_nobody_allowed_or_for_something_else_is_no_signature(tmp_path, ssh_key):
    folder = small_archive(tmp_path / "reports")
    sign_archive(folder, load_signer(ssh_key), Responsible())
    signers = tmp_path / "allowed_signers"
    public = ssh_key.with_suffix(".pub").read_text()
    for line in ("", "# nobody\n", f'ada@example.org namespaces="git" {public}', "ada@example.org ssh-ed25519 AAAA\n"):
        signers.write_text(line)
        verified = verify_archive(folder, load_allowed_signers(signers, folder))
        assert "holds no valid signature by anybody in" in "".join(verified.faults)


def test_an_ed25519_pair_does_not_vouch_for_a_signature_by_ssh(tmp_path, ssh_key):
    folder = small_archive(tmp_path / "reports")
    write_key_pair(tmp_path / "key")
    sign_archive(folder, load_signer(ssh_key), Responsible())
    assert verify_archive(folder, load_public_key(tmp_path / "key.pub", folder)).faults
