"""What can go wrong with the tool or its use; what a workload does wrong is a result, never one of these.

ReproAuditError
├── UsageError       bad command line, setting or environment: exit code 2
├── WorkloadError    a workload cannot be found or read, before anything ran: exit code 2
├── EvidenceError    an evidence file is absent, damaged, hostile or of another schema: exit code 2
└── LaunchError      an interpreter for the runs could not be started: exit code 3
"""


class ReproAuditError(Exception):
    """Root of all errors that the tool reports; each message names the thing and says what to do."""

    exit_code = 2


class UsageError(ReproAuditError):
    """The command line, a setting or the environment is not valid."""


class WorkloadError(ReproAuditError):
    """A workload cannot be found, or its file cannot be read as one."""


class EvidenceError(ReproAuditError):
    """An evidence file cannot be trusted as one."""


class LaunchError(ReproAuditError):
    """An interpreter for the runs could not be started or answered nonsense."""

    exit_code = 3
