"""``repro-audit env``: what the runs would run on."""

import os
import tempfile
from argparse import Namespace
from pathlib import Path

from repro_audit.cold_interpreter import ColdInterpreter
from repro_audit.commands.printing import print_data
from repro_audit.commands.terminal import console
from repro_audit.exit_codes import ExitCode
from repro_audit.launch import ProcessLauncher
from repro_audit.plan import Zygote
from repro_audit.records import EnvironmentTask
from repro_audit.report.environment_block import print_environment
from repro_audit.settings import require_current_folder, resolve_cublas_workspace, worker_environment
from repro_audit.system import parent_environment

TIMEOUT_SECONDS = 300.0


def environment(arguments: Namespace) -> int:
    """Asks one worker, and prints what it and this process see."""
    require_current_folder()
    cublas_workspace = resolve_cublas_workspace(arguments.cublas_workspace, os.environ)
    with tempfile.TemporaryDirectory(prefix="repro-audit-environment-") as scratch:
        interpreter = ColdInterpreter(worker_environment(os.environ, cublas_workspace))
        launcher = ProcessLauncher({Zygote.A: interpreter}, TIMEOUT_SECONDS)
        worker = launcher.environment(EnvironmentTask(record_path=str(Path(scratch) / "environment.json")))
    seen = parent_environment(worker, ())
    if arguments.format == "table":
        print_environment(seen, console())
    else:
        print_data(seen, arguments.format)
    return ExitCode.VERIFIED
