"""The command line: parses, calls a command, turns what went wrong into a message and an exit code."""

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

from repro_audit import __version__
from repro_audit.errors import ReproAuditError
from repro_audit.exit_codes import ExitCode
from repro_audit.interrupts import raise_on_signals
from repro_audit.option_types import (
    COMMAND_KEYS,
    DEFAULT_ISOLATION,
    ISOLATIONS,
    SELECTION_KEYS,
    Default,
    day,
    device,
    positive,
    seconds,
    seed,
    step_range,
)
from repro_audit.pipes import abandon_stdout
from repro_audit.settings import CUBLAS_CHOICES

EXIT_CODES = """\
exit codes:
  0    everything selected was verified
  1    a finding: FAIL, or REFUSED where the workload does not declare it
  2    the command line, a setting or a file is not valid
  3    incomplete: an ERROR, or a canary was not caught
  5    nothing was audited
  130  interrupted; the evidence gathered so far is on disk and says so
"""

VERDICTS = ("PASS", "FAIL", "REFUSED", "ERROR", "SKIP")
"""Those of `records.Verdict`, which `--help` need not load."""


def entry() -> NoReturn:
    """The console script: runs a command and ends the process."""
    code = main()
    # All files are closed and all children gone by now; taking the interpreter apart costs `show` a tenth of its time.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command and returns the exit code; never lets a traceback through."""
    raise_on_signals()
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by whoever started us, who then wants the exit code alone
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115 - for as long as the process lives
    try:
        own, given = _split(_with_signs(sys.argv[1:] if arguments is None else list(arguments)))
        parsed = build_parser().parse_args(own)
        parsed.given = given
        if hasattr(parsed, "keys"):
            from repro_audit.configuration import configure

            configure(parsed, os.environ)
        command: Callable[[argparse.Namespace], int] = parsed.command
        code = command(parsed)
        sys.stdout.flush()
        return code
    except ReproAuditError as error:
        print(f"repro-audit: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("repro-audit: interrupted before anything was gathered", file=sys.stderr)
        return ExitCode.INTERRUPTED
    except BrokenPipeError:
        abandon_stdout()  # whoever read our output has enough
        return ExitCode.VERIFIED
    except OSError as error:
        place = f" ({error.filename})" if error.filename else ""
        print(f"repro-audit: {error.strerror or error}{place}; make room, or check permissions", file=sys.stderr)
        return ExitCode.USAGE
    except Exception as error:  # noqa: BLE001 - a traceback on a user's screen is a bug
        import tempfile
        import traceback

        with tempfile.NamedTemporaryFile("w", prefix="repro-audit-", suffix=".txt", delete=False) as report:
            traceback.print_exc(file=report)
        print(
            f"repro-audit: internal error, {type(error).__name__}: {error}\n"
            f"This is a fault of repro-audit, not of what it audits; please report it with {report.name}",
            file=sys.stderr,
        )
        return ExitCode.INCOMPLETE


def _split(arguments: list[str]) -> tuple[list[str], list[str]]:
    """Parts what is meant for a script, after ``--``, from what is meant for us."""
    if arguments[:1] not in (["script"], ["record"], ["vary"]) or "--" not in arguments:
        return arguments, []
    position = arguments.index("--")
    return arguments[:position], arguments[position + 1 :]


def _with_signs(arguments: list[str]) -> list[str]:
    """Joins ``--vary`` and a list that begins with a minus, which would be taken for an option."""
    joined: list[str] = []
    for word in arguments:
        if joined and joined[-1] == "--vary" and "--" not in joined and word.startswith("-"):
            joined[-1] = f"--vary={word}"
        else:
            joined.append(word)
    return joined


def build_parser() -> argparse.ArgumentParser:
    """The parser of the whole command line."""
    parser = argparse.ArgumentParser(
        prog="repro-audit",
        description="Reproducibility audit for PyTorch: runs workloads twice in strict deterministic mode, "
        "compares every bit, keeps the evidence.",
        epilog=EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"repro-audit {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)

    run = _command(commands, "run", "audit workloads and write evidence", "repro-audit run mlp 'scatter*' --device cpu")
    _add_selection(run)
    _add_running(run)
    run.add_argument(
        "--repeats",
        type=positive,
        default=Default(1),
        metavar="N",
        help="fresh processes to compare with the reference run: rare divergences need many (default: 1)",
    )
    run.add_argument(
        "--quick",
        action="store_true",
        help="only what the verdict rests on: no repeats in default mode and without strict mode's memory fill",
    )
    run.add_argument(
        "--budget",
        type=seconds,
        default=Default(60.0),
        metavar="SECONDS",
        help="what may be spent on each diverged workload, on finding what decides it (default: 60)",
    )
    run.add_argument(
        "--require-device",
        type=device,
        action="append",
        metavar="DEVICE",
        help="as --device, but its absence is an ERROR instead of a SKIP (repeatable)",
    )
    run.add_argument(
        "--output",
        type=Path,
        default=Default(Path("reports")),
        metavar="DIR",
        help="where archives go (default: reports)",
    )
    _add_report_files(run)
    _add_signing(run)
    _add_configuration(run, COMMAND_KEYS["run"])
    run.set_defaults(command=_run)

    inventory = _command(
        commands,
        "inventory",
        "list every op that strict mode would refuse, in a warn_only dry run",
        "repro-audit inventory --workloads my_model.py --device cuda",
    )
    _add_selection(inventory)
    _add_running(inventory)
    _add_report_files(inventory)
    inventory.add_argument("--output", type=Path, metavar="DIR", help="also keep it as YAML in an archive folder there")
    _add_configuration(inventory, COMMAND_KEYS["inventory"])
    inventory.set_defaults(command=_inventory, require_device=[], repeats=1, budget=0.0)

    vary = _command(
        commands,
        "vary",
        "change one condition at a time on purpose, and see which of them the bits depend on",
        "repro-audit vary mlp --device cpu --vary=+all\n"
        "  repro-audit vary --vary=-all,threads=1:4,+hashseed --script train.py -- --epochs 1",
    )
    _add_selection(vary)
    _add_running(vary)
    vary.add_argument(
        "--script", metavar="SCRIPT", help="vary a script, not workloads; what stands after -- is given to it"
    )
    vary.add_argument("-m", dest="run_module", metavar="MODULE", help="vary a module, run as python -m does")
    _add_working_directory(vary)
    vary.add_argument(
        "--vary",
        action="append",
        default=[],
        metavar="ITEMS",
        help="+NAME adds a variation, -NAME leaves it out, NAME=VALUE:VALUE adds it with these values, +all and -all "
        "do so with all; separated by commas (default: all but contention and autotune)",
    )
    vary.add_argument(
        "--repeats",
        type=positive,
        default=Default(1),
        metavar="N",
        help="runs for each variation: what differs rarely needs many (default: 1, and 3 where one differs)",
    )
    vary.add_argument(
        "--output",
        type=Path,
        default=Default(Path("reports")),
        metavar="DIR",
        help="where archives go (default: reports)",
    )
    _add_report_files(vary)
    _add_signing(vary)
    _add_configuration(vary, COMMAND_KEYS["vary"])
    vary.set_defaults(command=_vary, require_device=[], budget=0.0)

    script = _command(
        commands,
        "script",
        "audit a training script as it stands, and name the op where two runs part",
        "repro-audit script train.py -- --epochs 1",
    )
    _add_script(script)
    script.add_argument(
        "--repeats",
        type=positive,
        metavar="N",
        help="fresh processes to compare with the first (default: 5, 3 where a run takes over 3 seconds, 1 over 10)",
    )
    _add_working_directory(script)
    script.add_argument(
        "--steps", type=step_range, metavar="A:B", help="trace only the optimizer steps A to B, counted from 1"
    )
    script.add_argument("--module", dest="module_glob", metavar="GLOB", help="trace only modules such as encoder.*")
    script.add_argument(
        "--budget",
        type=seconds,
        default=Default(600.0),
        metavar="SECONDS",
        help="what may be spent on finding op and cause once two runs differ (default: 600)",
    )
    script.add_argument(
        "--timeout", type=seconds, default=Default(3600.0), metavar="SECONDS", help="limit for one run (default: 3600)"
    )
    script.add_argument(
        "--isolation",
        choices=ISOLATIONS,
        default=Default(DEFAULT_ISOLATION),
        help=f"fork runs from two warm interpreters, or start an interpreter per run (default: {DEFAULT_ISOLATION})",
    )
    script.add_argument(
        "--output",
        type=Path,
        default=Default(Path("reports")),
        metavar="DIR",
        help="where archives go (default: reports)",
    )
    _add_report_files(script)
    _add_signing(script)
    _add_format(script)
    script.add_argument("-q", "--quiet", action="store_true", help="no progress, and one line instead of the report")
    _add_configuration(script, COMMAND_KEYS["script"])
    script.set_defaults(command=_script)

    record = _command(
        commands,
        "record",
        "run a script once and keep what was observed, to compare it later or elsewhere",
        "repro-audit record --output monday -- train.py --epochs 1\n"
        "  torchrun --nproc-per-node 2 --no-python repro-audit record --output job -- train.py",
    )
    _add_script(record)
    record.add_argument(
        "--mode", choices=("strict", "warn_only", "none"), default="strict", help="what is armed (default: strict)"
    )
    record.add_argument(
        "--like", type=Path, metavar="RECORDING", help="look at the whole state at the same steps as that recording did"
    )
    record.add_argument(
        "--output",
        type=Path,
        required=True,
        metavar="DIR",
        help="the folder of the recording; under torchrun each rank makes its own in it",
    )
    _add_configuration(record, ("cublas-workspace",))
    record.set_defaults(command=_record)

    compare = _command(
        commands, "compare", "compare recordings with the first of them", "repro-audit compare monday tuesday"
    )
    compare.add_argument("first", type=Path, metavar="RECORDING", help="a folder that `record` wrote")
    compare.add_argument("others", type=Path, nargs="+", metavar="RECORDING", help="those to compare with it")
    compare.set_defaults(command=_compare)

    listing = _command(commands, "list", "list the workloads", "repro-audit list 'scatter*'")
    _add_selection(listing)
    _add_configuration(listing, SELECTION_KEYS)
    listing.set_defaults(command=_list)

    show = _command(commands, "show", "redraw the table of an archived audit", "repro-audit show reports/<archive>")
    show.add_argument("path", type=Path, metavar="PATH", help="an archive folder or an evidence file")
    _add_format(show)
    show.set_defaults(command=_show)

    reporting = _command(
        commands,
        "report",
        "draw reports from archived evidence",
        "repro-audit report reports/<archive> --html report.html --junit report.xml",
    )
    _add_archive_path(reporting)
    _add_report_files(reporting)
    reporting.set_defaults(command=_report)

    _add_archive_commands(commands)

    environment = _command(
        commands, "env", "print what the runs would run on", "repro-audit env --format yaml > environment.yaml"
    )
    _add_cublas_workspace(environment)
    _add_format(environment)
    _add_configuration(environment, ("cublas-workspace",))
    environment.set_defaults(command=_environment)
    return parser


def _add_archive_commands(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    verify = _command(
        commands,
        "verify",
        "check an archive: files, schema, verdicts, and with a key its signature",
        "repro-audit verify reports/<archive> --key auditor.pub",
    )
    _add_archive_path(verify)
    _add_trusted(verify)
    verify.set_defaults(command=_verify)

    diff = _command(
        commands,
        "diff",
        "two archives side by side: conditions, verdicts, alerts, and where their bits part",
        "repro-audit diff reports/<archive> reports/<another> --format markdown",
    )
    diff.add_argument("first", type=Path, metavar="FIRST", help="an archive folder")
    diff.add_argument("second", type=Path, metavar="SECOND", help="the one to compare with it")
    _add_comparison_format(diff)
    diff.set_defaults(command=_diff)

    reproduce = _command(
        commands,
        "reproduce",
        "make an archived audit again, here, and compare its bits with the archived ones",
        "repro-audit reproduce reports/<archive> --key auditor.pub",
    )
    _add_archive_path(reproduce)
    _add_trusted(reproduce)
    reproduce.add_argument(
        "--workloads",
        type=Path,
        action="append",
        default=[],
        metavar="PATH",
        help="where workloads of your own lie now (repeatable; default: where they lay)",
    )
    reproduce.add_argument(
        "--folder", type=Path, metavar="DIR", help="run a script in this folder (default: where it ran)"
    )
    reproduce.add_argument(
        "--output",
        type=Path,
        default=Default(Path("reports")),
        metavar="DIR",
        help="where the new archive goes (default: reports)",
    )
    _add_comparison_format(reproduce)
    reproduce.add_argument("-q", "--quiet", action="store_true", help="no progress, and the result alone")
    _add_configuration(reproduce, ("output",))
    reproduce.set_defaults(command=_reproduce)

    sign = _command(
        commands,
        "sign",
        "sign an archive that is whole",
        "repro-audit sign reports/<archive> --key auditor --responsible 'Ada Lovelace' --role auditor\n"
        "  repro-audit sign reports/<archive> --key ~/.ssh/id_ed25519",
    )
    _add_archive_path(sign)
    sign.add_argument("--key", type=Path, required=True, metavar="KEY", help="from `keygen`, or an SSH key")
    _add_responsible(sign)
    sign.set_defaults(command=_sign)

    keygen = _command(commands, "keygen", "make a key pair to sign with", "repro-audit keygen ~/auditor")
    keygen.add_argument("path", type=Path, metavar="PATH", help="of the private key; the public one is PATH.pub")
    keygen.set_defaults(command=_keygen)

    archive = _command(commands, "archive", "list archives, look into one, remove old ones", "repro-audit archive list")
    archives = archive.add_subparsers(title="commands", metavar="COMMAND", required=True)
    listing = _command(
        archives,
        "list",
        "list archives, the oldest first",
        "repro-audit archive list --verdict FAIL --workload 'scatter*' --since 2026-01-01",
    )
    _add_reports(listing)
    listing.add_argument("--verdict", type=str.upper, choices=(*VERDICTS, "WAIVED"), help="with a case of that verdict")
    listing.add_argument("--workload", metavar="GLOB", help="with a workload, or a script, of that name")
    listing.add_argument("--device", metavar="GLOB", help="with a case on that device")
    listing.add_argument("--since", type=day, metavar="DAY", help="made on that day (UTC) or later")
    listing.add_argument("--until", type=day, metavar="DAY", help="made on that day or earlier")
    listing.add_argument("--format", choices=("table", "json"), default="table", help="(default: table)")
    _add_configuration(listing, ("output",))
    listing.set_defaults(command=_archive_list)
    showing = _command(
        archives, "show", "tell what an archive holds, file by file", "repro-audit archive show reports/<archive>"
    )
    _add_archive_path(showing)
    showing.set_defaults(command=_archive_show)
    pruning = _command(
        archives,
        "prune",
        "remove all whole archives but the newest",
        "repro-audit archive prune --keep 20 --dry-run",
    )
    _add_reports(pruning)
    pruning.add_argument("--keep", type=positive, required=True, metavar="N", help="how many to keep")
    pruning.add_argument("--dry-run", action="store_true", help="only tell what would be removed")
    _add_configuration(pruning, ("output",))
    pruning.set_defaults(command=_archive_prune)


def _add_report_files(parser: argparse.ArgumentParser) -> None:
    for name, words in (
        ("html", "a page for people, in one file"),
        ("junit", "JUnit XML, a test case for each claim"),
        ("markdown", "Markdown"),
        ("json", "the evidence as JSON"),
    ):
        parser.add_argument(f"--{name}", type=Path, metavar="FILE", help=f"write {words} (- is stdout)")


def _add_trusted(parser: argparse.ArgumentParser) -> None:
    trusted = parser.add_mutually_exclusive_group()
    trusted.add_argument(
        "--key", type=Path, metavar="PUBLIC", help="demand a signature by this Ed25519 key, from its owner"
    )
    trusted.add_argument(
        "--allowed-signers", type=Path, metavar="FILE", help="demand one by an SSH key of this file, see man ssh-keygen"
    )


def _add_comparison_format(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--format",
        choices=("table", "json", "markdown", "html"),
        default="table",
        help="what goes to stdout (default: table)",
    )


def _add_signing(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--sign", type=Path, metavar="KEY", help="sign the archive, see `repro-audit sign --help`")
    _add_responsible(parser)


def _add_archive_path(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("path", type=Path, metavar="PATH", help="an archive folder")


def _add_reports(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--reports",
        dest="output",
        type=Path,
        default=Default(Path("reports")),
        metavar="DIR",
        help="where archives lie (default: reports)",
    )


def _add_responsible(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--responsible", default="", metavar="NAME", help="who answers for it, in the signature")
    parser.add_argument("--role", default="", metavar="ROLE", help="as what")


def _command(
    commands: "argparse._SubParsersAction[argparse.ArgumentParser]", name: str, summary: str, example: str
) -> argparse.ArgumentParser:
    parser = commands.add_parser(
        name,
        help=summary,
        description=f"{summary[0].upper()}{summary[1:]}.",
        epilog=f"example:\n  {example}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(command_name=name)
    return parser


def _add_script(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-m", dest="run_module", metavar="MODULE", help="run a module, as python -m does")
    parser.add_argument("script", nargs="?", metavar="SCRIPT", help="the script; what stands after -- is given to it")
    _add_cublas_workspace(parser)


def _add_working_directory(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--working-directory",
        choices=("copy", "share"),
        default="copy",
        help="give each run of a script its own copy of the current folder, or let all use it as it is (default: copy)",
    )


def _add_selection(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "selection",
        nargs="*",
        metavar="NAME",
        help="names, families or globs of workloads, or module:Class; all where none is given",
    )
    parser.add_argument(
        "--workloads",
        type=Path,
        action="append",
        metavar="PATH",
        help="a file or a folder with workloads of your own (repeatable); without NAME only these are taken",
    )


def _add_configuration(parser: argparse.ArgumentParser, keys: tuple[str, ...]) -> None:
    """Lets these keys of the configuration stand for options that are not given."""
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "--config",
        type=Path,
        metavar="FILE",
        help="configuration, TOML or YAML (default: repro_audit.yaml, or pyproject.toml with [tool.repro_audit], here "
        "or in the nearest folder above)",
    )
    which.add_argument("--no-config", action="store_true", help="read no configuration file")
    parser.set_defaults(keys=keys)


def _add_running(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--device",
        type=device,
        action="append",
        metavar="DEVICE",
        help="cpu, cuda or cuda:N (repeatable; default: cpu, and cuda where there is one)",
    )
    parser.add_argument("--steps", type=positive, default=Default(2), metavar="N", help="steps per repeat (default: 2)")
    parser.add_argument(
        "--seed", type=seed, default=Default(1234), metavar="N", help="seed of every repeat (default: 1234)"
    )
    parser.add_argument(
        "--timeout", type=seconds, default=Default(300.0), metavar="SECONDS", help="limit for one run (default: 300)"
    )
    parser.add_argument(
        "--isolation",
        choices=ISOLATIONS,
        default=Default(DEFAULT_ISOLATION),
        help=f"fork runs from two warm interpreters, or start an interpreter per run (default: {DEFAULT_ISOLATION})",
    )
    _add_cublas_workspace(parser)
    _add_format(parser)
    parser.add_argument("-q", "--quiet", action="store_true", help="no progress, and one line instead of the table")


def _add_cublas_workspace(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--cublas-workspace",
        choices=CUBLAS_CHOICES,
        default=Default(None),
        help="CUBLAS_WORKSPACE_CONFIG of the runs; inherit takes the environment as it stands "
        "(default: the environment's own valid value, else :4096:8)",
    )


def _add_format(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--format", choices=("table", "json", "yaml"), default="table", help="what goes to stdout (default: table)"
    )


# The commands are imported when called: each needs other modules, and `--help` none of them.


def _run(arguments: argparse.Namespace) -> int:
    from repro_audit.commands.run import run

    return run(arguments)


def _inventory(arguments: argparse.Namespace) -> int:
    from repro_audit.commands.run import inventory

    return inventory(arguments)


def _vary(arguments: argparse.Namespace) -> int:
    from repro_audit.commands.vary import vary

    return vary(arguments)


def _script(arguments: argparse.Namespace) -> int:
    from repro_audit.commands.script import script

    return script(arguments)


def _record(arguments: argparse.Namespace) -> int:
    from repro_audit.commands.script import record

    return record(arguments)


def _compare(arguments: argparse.Namespace) -> int:
    from repro_audit.commands.script import compare

    return compare(arguments)


def _list(arguments: argparse.Namespace) -> int:
    from repro_audit.commands.listing import list_workloads

    return list_workloads(arguments)


def _show(arguments: argparse.Namespace) -> int:
    from repro_audit.commands.show import show

    return show(arguments)


def _environment(arguments: argparse.Namespace) -> int:
    from repro_audit.commands.environment import environment

    return environment(arguments)


def _verify(arguments: argparse.Namespace) -> int:
    from repro_audit.commands.verify import verify

    return verify(arguments)


def _diff(arguments: argparse.Namespace) -> int:
    from repro_audit.commands.diff import diff

    return diff(arguments)


def _reproduce(arguments: argparse.Namespace) -> int:
    from repro_audit.commands.reproduce import reproduce

    return reproduce(arguments)


def _sign(arguments: argparse.Namespace) -> int:
    from repro_audit.commands.verify import sign

    return sign(arguments)


def _keygen(arguments: argparse.Namespace) -> int:
    from repro_audit.commands.verify import keygen

    return keygen(arguments)


def _archive_list(arguments: argparse.Namespace) -> int:
    from repro_audit.commands.archives import list_archives

    return list_archives(arguments)


def _archive_show(arguments: argparse.Namespace) -> int:
    from repro_audit.commands.archives import show_archive

    return show_archive(arguments)


def _archive_prune(arguments: argparse.Namespace) -> int:
    from repro_audit.commands.archives import prune

    return prune(arguments)


def _report(arguments: argparse.Namespace) -> int:
    from repro_audit.commands.reports import report

    return report(arguments)
