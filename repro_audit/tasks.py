"""What a worker can be asked to do."""

from repro_audit.records import EnvironmentTask, MeasureTask, RunTask
from repro_audit.script_records import ScriptTask

Task = RunTask | EnvironmentTask | MeasureTask | ScriptTask
