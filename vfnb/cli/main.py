"""Which command, and what becomes of its errors: a line on stderr and an exit status."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from vfnb.errors import VfnbError

__all__ = ["FAILED", "INTERRUPTED", "MISUSED", "STOPPED", "eval_main", "main", "validate_main"]

FAILED = 1
"""Exit status: no rollout succeeded, or a check failed."""
MISUSED = 2
"""Exit status: something cannot work as it was asked for; no model was called."""
STOPPED = 3
"""Exit status: the run stopped before its end, because its budget is used up."""
INTERRUPTED = 130
"""Exit status: Ctrl-C."""

HELP = """\
usage: vfnb COMMAND ...

  vfnb eval TASKSET -m MODEL    run a taskset with a model, print rewards and errors
  vfnb validate TASKSET         run the tasks' setup and gold checks, without a model
  vfnb export RUN FORMAT DIR    a finished run for prime-rl, as rows for fine-tuning, or as a token table
  vfnb harness list|install     which agent programs there are; install one on this machine

`vfnb COMMAND --help` lists flags, `vfnb COMMAND TASKSET --help` also those of a taskset.
Settings also come from files: `vfnb eval @ run.toml`. Version: `vfnb --version`.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """The command `vfnb`; returns the exit status."""
    words = list(sys.argv[1:] if argv is None else argv)
    command, rest = (words[0], words[1:]) if words else ("--help", [])
    if command == "eval":
        return eval_main(rest)
    if command == "validate":
        return validate_main(rest)
    if command in ("harness", "export"):
        return _guarded(command, rest)
    if command in ("-h", "--help", "help"):
        print(HELP, end="")
        return 0
    if command in ("-V", "--version"):
        from vfnb import __version__

        print(f"vfnb {__version__}")
        return 0
    return _misused(
        "vfnb", f"no command {command!r}; there are eval, validate, export, harness; see vfnb --help"
    )


def eval_main(argv: Sequence[str] | None = None) -> int:
    """The command `vfnb eval`, also `vf-eval` and `vf-run`."""
    return _guarded("eval", argv)


def validate_main(argv: Sequence[str] | None = None) -> int:
    """The command `vfnb validate`, also `vf-validate`."""
    return _guarded("validate", argv)


def _guarded(command: str, argv: Sequence[str] | None) -> int:
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        if command == "eval":
            from vfnb.cli.evaluate import run
        elif command == "harness":
            from vfnb.cli.harness import run
        elif command == "export":
            from vfnb.cli.export import run
        else:
            from vfnb.cli.validate import run
        return run(words)
    except VfnbError as error:
        return _misused(f"vfnb {command}", str(error))
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:  # whoever read the output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _misused(command: str, message: str) -> int:
    print("\n".join(f"{command}: {line}" for line in message.splitlines()), file=sys.stderr)
    return MISUSED
