"""Makes small audits in processes of their own and kills each at a random instant: `python -m tests.killed_audits`."""

import os
import random
import signal
import sys
import time
from pathlib import Path

from repro_audit.attestation import Responsible
from repro_audit.commands.verify import sign_archive
from repro_audit.signing import load_signer
from tests.small_archive import small_archive


def start(output: Path, key: Path) -> int:
    """Audits and signs in a new process.

    Returns:
        Its process id.
    """
    pid = os.fork()
    if pid:
        return pid
    try:
        sign_archive(small_archive(output), load_signer(key), Responsible(name="Ada"))
    finally:
        os._exit(0)


def kill_at_random_instants(output: Path, key: Path, count: int, seed: int) -> None:
    """Kills as many audits, each in a folder of its own, from their first to a little after their last moment."""
    began = time.monotonic()
    os.waitpid(start(output / "whole", key), 0)
    usual = time.monotonic() - began
    instants = random.Random(seed)
    for number in range(count):
        pid = start(output / f"killed-{number:02d}", key)
        time.sleep(instants.uniform(0.0, 1.2 * usual))
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def at_once(output: Path, key: Path, count: int) -> None:
    """As many audits at the same moment, in one folder."""
    for pid in [start(output / "at-once", key) for _ in range(count)]:
        os.waitpid(pid, 0)


if __name__ == "__main__":
    folder, key_path = map(Path, sys.argv[1:3])
    kill_at_random_instants(folder, key_path, count=50, seed=int(sys.argv[3]))
    at_once(folder, key_path, count=6)
