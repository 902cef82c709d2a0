"""The script that every audit of a script has to catch, or it cannot be trusted."""

import hashlib
from collections.abc import Mapping
from pathlib import Path

from repro_audit.interpreter import Interpreter
from repro_audit.plan import Zygote
from repro_audit.recording_compare import compare_recordings
from repro_audit.records import Mode
from repro_audit.script_launch import run_recorded
from repro_audit.script_records import Script, ScriptTask

CANARY = Path(__file__).parent / "canaries" / "scripts" / "unseeded_training.py"


def canary_is_caught(pair: Mapping[Zygote, Interpreter], scratch: Path, timeout_seconds: float) -> bool:
    """Whether two runs of a script that seeds nothing are told apart.

    Args:
        scratch: An existing folder; holds the two recordings.
    """
    script = Script(
        name=CANARY.name,
        path=str(CANARY),
        is_module=False,
        arguments=(),
        sha256=f"sha256:{hashlib.sha256(CANARY.read_bytes()).hexdigest()}",
    )
    recorded = []
    for zygote in Zygote:
        folder = scratch / f"canary-{zygote.value}"
        folder.mkdir()
        task = ScriptTask(
            run=folder.name,
            script=script,
            executed_path=script.path,
            working_directory=str(folder),
            copied_from=str(folder),
            mode=Mode.STRICT,
            folder=str(folder),
            record_path=str(folder / "record.json"),
            schedule=None,
        )
        recorded.append(run_recorded(pair[zygote], task, timeout_seconds, None).recorded)
    divergence = compare_recordings(*recorded).divergence
    return divergence is not None and divergence.first is not None and divergence.second is not None
