"""`vfnb eval`: a run from a command line, to its end."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from vfnb.cli.flags import read
from vfnb.cli.main import FAILED, INTERRUPTED, STOPPED
from vfnb.runs.resolve import resolve

if TYPE_CHECKING:
    from vfnb.runs.run import Run

__all__ = ["run"]

USAGE = "vfnb eval [TASKSET] [@ FILE.toml ...] [flags]"
COMMON = ("-m", "-n", "-s", "-r", "-c", "--")
SWITCHES = {
    "dry_run": "check everything and print the resolved config; calls no model",
    "quiet": "no progress line",
}


def run(words: Sequence[str]) -> int:
    """Run the command; returns the exit status."""
    command = read(words, list(SWITCHES))
    if command.help is not None:
        from vfnb.cli.help import help_text

        purpose = "Run a taskset with a model and print rewards and errors."
        print(help_text(USAGE, purpose, COMMON, SWITCHES, command))
        return 0
    config = resolve(command.layers)
    if "dry_run" in command.switches:
        from vfnb.runs.config import config_text

        if config.model is not None and config.model.dialect is not None:
            config.model.client()  # refuses a dialect that there is not
        print(config_text(config), end="")
        return 0
    live = config.evaluate()
    try:
        live.wait(quiet="quiet" in command.switches)
    except KeyboardInterrupt:
        live.cancel()
        done, total = live.summary.scored, live.summary.n
        print(
            f"interrupted: {done} of {total} rollouts are done and stored in {live.dir}; the same command goes on",
            file=sys.stderr,
        )
        return INTERRUPTED
    print(live)
    return _verdict(live)


def _verdict(live: Run) -> int:
    summary = live.summary
    if summary.failed and not summary.ok:
        cause = summary.errors[0]
        print(
            f"vfnb eval: no rollout succeeded: {cause.type}: {cause.message.splitlines()[0]}", file=sys.stderr
        )
        return FAILED
    return 0 if live.complete else STOPPED
