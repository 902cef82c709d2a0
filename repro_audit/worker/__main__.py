"""The worker's entry: ``zygote DESCRIPTOR`` forks a child per task, ``once TASK`` performs one task itself.

With ``fixed-addresses`` in front it starts itself once more, with an address layout that is the same each time.
"""

import os
import socket
import sys

import msgspec

from repro_audit.interpreter import FIXED_ADDRESSES, worker_command
from repro_audit.tasks import Task
from repro_audit.worker.personality import hold_addresses


def main() -> None:
    """Runs the worker named on the command line."""
    match sys.argv[1:]:
        case [first, *rest] if first == FIXED_ADDRESSES:
            hold_addresses()  # where the system denies it, the run's own conditions say so
            os.execv(sys.executable, worker_command(*rest))
        case ["zygote", descriptor]:
            from repro_audit.worker.zygote import Zygote

            Zygote(socket.socket(fileno=int(descriptor))).serve()
        case ["once", text]:
            from repro_audit.worker.perform import perform_and_exit

            perform_and_exit(msgspec.json.decode(text, type=Task))
        case _:
            sys.exit("usage: python -m repro_audit.worker zygote DESCRIPTOR | once TASK; started by repro-audit itself")


if __name__ == "__main__":
    main()
