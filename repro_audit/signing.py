"""Keys: Ed25519 pairs of our own through `cryptography`, and SSH keys through ``ssh-keygen``.

`cryptography` comes with the extra ``sign``; nothing else of the tool needs it.
"""

import base64
import hashlib
import os
import re
import stat
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from repro_audit.attestation import Signer, Trust
from repro_audit.errors import UsageError
from repro_audit.settings import PASSPHRASE_VARIABLE

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey


SSH_NAMESPACE = "repro-audit"
"""What SSH signatures are made for: one made for something else, an e-mail or a commit, is none for an archive."""

MAXIMUM_KEY_BYTES = 1 << 20
SSH_SECONDS = 60.0

_BEGIN, _END = "-----BEGIN SSH SIGNATURE-----", "-----END SSH SIGNATURE-----"


@dataclass(frozen=True, kw_only=True)
class Ed25519Signer:
    """Signs with a private key that was read from a PEM file."""

    key: "Ed25519PrivateKey"

    @property
    def keyid(self) -> str:
        """``sha256:<hex>`` of the public key's 32 bytes."""
        return key_id(self.key.public_key())

    def sign(self, message: bytes) -> bytes:
        """The signature of a message: 64 bytes, by RFC 8032."""
        return self.key.sign(message)


@dataclass(frozen=True, kw_only=True)
class PublicKeyTrust:
    """Trusts one public key."""

    key: "Ed25519PublicKey"
    path: Path

    @property
    def name(self) -> str:
        """The key, for messages."""
        return f"the key {self.path} ({key_id(self.key)})"

    def signer_of(self, message: bytes, signatures: Sequence[tuple[str, bytes]]) -> str | None:
        """The key, where it signed the message."""
        from cryptography.exceptions import InvalidSignature

        for _, signature in signatures:
            try:
                self.key.verify(signature, message)
            except InvalidSignature:
                continue
            return self.name
        return None


@dataclass(frozen=True, kw_only=True)
class SshSigner:
    """Signs by ``ssh-keygen -Y sign``: with a key file, or through an agent with the public one of a pair."""

    path: Path

    @property
    def keyid(self) -> str:
        """The fingerprint as ``ssh-keygen -l`` prints it."""
        return _ssh_keygen(["-l", "-f", str(self.path)], b"").decode(errors="replace").split()[1]

    def sign(self, message: bytes) -> bytes:
        """The signature of a message, as the blob that an SSH signature file wraps."""
        with tempfile.TemporaryDirectory(prefix="repro-audit-sign-") as folder:
            file = Path(folder) / "message"
            file.write_bytes(message)
            _ssh_keygen(["-Y", "sign", "-q", "-n", SSH_NAMESPACE, "-f", str(self.path), str(file)], None)
            armored = file.with_name("message.sig").read_text(encoding="ascii")
        return base64.b64decode(armored.replace(_BEGIN, "").replace(_END, ""))


@dataclass(frozen=True, kw_only=True)
class AllowedSigners:
    """Trusts who is named in an allowed-signers file, see ``man ssh-keygen``."""

    path: Path

    @property
    def name(self) -> str:
        """The file, for messages."""
        return f"anybody in {self.path}"

    def signer_of(self, message: bytes, signatures: Sequence[tuple[str, bytes]]) -> str | None:
        """The principal whose key signed the message."""
        for _, signature in signatures:
            lines = re.sub("(.{70})", "\\1\n", base64.b64encode(signature).decode()).rstrip("\n")
            with tempfile.TemporaryDirectory(prefix="repro-audit-verify-") as folder:
                file = Path(folder) / "signature"
                file.write_text(f"{_BEGIN}\n{lines}\n{_END}\n", encoding="ascii")
                where = ["-f", str(self.path), "-s", str(file)]
                with suppress(_RefusedError):
                    found = _ssh_keygen(["-Y", "find-principals", *where], message)
                    for principal in found.decode(errors="replace").splitlines():
                        with suppress(_RefusedError):
                            _ssh_keygen(["-Y", "verify", "-n", SSH_NAMESPACE, "-I", principal, *where], message)
                            return f"{principal}, by {self.path}"
        return None


class _RefusedError(Exception):
    """``ssh-keygen`` said no."""


def _ssh_keygen(arguments: list[str], message: bytes | None) -> bytes:
    """Runs ``ssh-keygen``.

    Args:
        message: Its stdin; None leaves it the terminal, where it may ask for a passphrase.
    """
    try:
        done = subprocess.run(
            ["ssh-keygen", *arguments],
            input=message,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE if message is not None else None,
            timeout=SSH_SECONDS if message is not None else None,
            check=False,
        )
    except FileNotFoundError as error:
        raise UsageError("SSH keys need ssh-keygen, which is not installed; install OpenSSH 8.2 or newer") from error
    except subprocess.TimeoutExpired as error:
        raise UsageError(f"ssh-keygen gave no answer in {SSH_SECONDS:g} s") from error
    if done.returncode:
        if arguments[:2] in (["-Y", "find-principals"], ["-Y", "verify"]):
            raise _RefusedError
        said = (done.stderr or b"").decode(errors="replace").strip() or "see above"
        raise UsageError(f"ssh-keygen did not sign: {said}")
    return done.stdout


def load_signer(path: Path) -> Signer:
    """The signer whose key a file holds: a PEM of our own, or an SSH key.

    Raises:
        UsageError: There is no private Ed25519 key in it that can be used, or others may read it.
    """
    content = _key_bytes(path)
    if content.startswith((b"-----BEGIN OPENSSH PRIVATE KEY", b"ssh-", b"ecdsa-", b"sk-")):
        return SshSigner(path=path)
    if b"PRIVATE KEY" not in content:
        raise UsageError(f"{path} holds no private key; name the one that `repro-audit keygen` wrote, or an SSH key")
    if path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise UsageError(f"{path} can be read by others; keep a private key to yourself: chmod 600 {path}")
    with _cryptography():
        from cryptography.exceptions import UnsupportedAlgorithm
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
        from cryptography.hazmat.primitives.serialization import load_pem_private_key

        passphrase = os.environ.get(PASSPHRASE_VARIABLE, "").encode() or None
        encrypted = b"ENCRYPTED" in content
        if encrypted and passphrase is None:
            raise UsageError(f"{path} is encrypted; give its passphrase in {PASSPHRASE_VARIABLE}")
        try:
            key = load_pem_private_key(content, passphrase if encrypted else None)
        except (ValueError, TypeError, UnsupportedAlgorithm) as error:
            raise UsageError(
                f"{path} cannot be read as a private key; is it damaged, or the passphrase wrong?"
            ) from error
        if not isinstance(key, Ed25519PrivateKey):
            raise UsageError(f"{path} holds another kind of key than Ed25519; make one with: repro-audit keygen")
        return Ed25519Signer(key=key)


def load_public_key(path: Path, archive: Path) -> Trust:
    """The trust in a public key.

    Args:
        archive: Where no key may come from.

    Raises:
        UsageError: There is no Ed25519 public key in the file, or it lies in the archive.
    """
    _outside(path, archive)
    content = _key_bytes(path)
    if b"PRIVATE KEY" in content:
        raise UsageError(f"{path} is a private key; verify with the public one, {path}.pub")
    with _cryptography():
        from cryptography.exceptions import UnsupportedAlgorithm
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
        from cryptography.hazmat.primitives.serialization import load_pem_public_key

        try:
            key = load_pem_public_key(content)
        except (ValueError, TypeError, UnsupportedAlgorithm) as error:
            raise UsageError(
                f"{path} holds no public key in PEM; name the .pub file that `repro-audit keygen` wrote "
                "(for SSH keys: --allowed-signers)"
            ) from error
        if not isinstance(key, Ed25519PublicKey):
            raise UsageError(f"{path} holds another kind of key than Ed25519")
        return PublicKeyTrust(key=key, path=path)


def load_allowed_signers(path: Path, archive: Path) -> Trust:
    """The trust in an allowed-signers file.

    Raises:
        UsageError: It cannot be read, or lies in the archive.
    """
    _outside(path, archive)
    _key_bytes(path)
    return AllowedSigners(path=path)


def _outside(path: Path, archive: Path) -> None:
    if path.resolve().is_relative_to(archive.resolve()):
        raise UsageError(f"{path} lies in the archive that it is to vouch for; take the key from its owner")


def _key_bytes(path: Path) -> bytes:
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise UsageError(f"{path} is no regular file; name a key")
        with path.open("rb") as file:
            content = file.read(MAXIMUM_KEY_BYTES + 1)
    except OSError as error:
        raise UsageError(f"cannot read the key {path}: {error.strerror or error}; check the path") from error
    if len(content) > MAXIMUM_KEY_BYTES:
        raise UsageError(f"{path} is too large to be a key")
    return content


def write_key_pair(path: Path) -> tuple[Path, str]:
    """Writes a new pair: the private key, for its owner's eyes alone, and beside it ``<path>.pub``.

    The private key is encrypted where `PASSPHRASE_VARIABLE` holds a passphrase.

    Returns:
        The path of the public key, and its `key_id`.

    Raises:
        UsageError: One of the files is there already, or cannot be written.
    """
    with _cryptography():
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
        from cryptography.hazmat.primitives.serialization import (
            BestAvailableEncryption,
            Encoding,
            NoEncryption,
            PrivateFormat,
            PublicFormat,
        )

        passphrase = os.environ.get(PASSPHRASE_VARIABLE, "").encode()
        key = Ed25519PrivateKey.generate()
        encryption = BestAvailableEncryption(passphrase) if passphrase else NoEncryption()
        private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption)
        public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    public_path = path.with_name(f"{path.name}.pub")
    for one in (path, public_path):
        if one.exists() or one.is_symlink():
            raise UsageError(f"{one} is there already; a key that was used to sign must not be lost. Name another path")
    try:
        for one, content, mode in ((path, private, 0o600), (public_path, public, 0o644)):
            descriptor = os.open(one, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0), mode)
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
    except OSError as error:
        raise UsageError(
            f"cannot write {error.filename}: {error.strerror}; name a place that can be written"
        ) from error
    return public_path, key_id(key.public_key())


def key_id(key: "Ed25519PublicKey") -> str:
    """``sha256:<hex>`` of the public key's 32 bytes."""
    return f"sha256:{hashlib.sha256(key.public_bytes_raw()).hexdigest()}"


@contextmanager
def _cryptography() -> Iterator[None]:
    try:
        yield
    except ImportError as error:
        raise UsageError(
            "Ed25519 keys need the package cryptography; install it with: pip install 'repro-audit[sign]'"
        ) from error
