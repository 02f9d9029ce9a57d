"""`vfnb validate`: checks of tasks without a model."""

from __future__ import annotations

from collections.abc import Sequence

from vfnb.cli.flags import read
from vfnb.cli.main import FAILED
from vfnb.runs.resolve import resolve

__all__ = ["run"]

USAGE = "vfnb validate [TASKSET] [@ FILE.toml ...] [flags]"
COMMON = ("-n", "-s", "-c", "--runtime")
SWITCHES = {
    "only_setup": "try setup, and nothing else",
    "only_gold": "leave out the check that an untouched task has not full reward already",
    "dry_run": "print the resolved config; loads no task",
}


def run(words: Sequence[str]) -> int:
    """Run the command; returns the exit status."""
    command = read(words, list(SWITCHES))
    if command.help is not None:
        from vfnb.cli.help import help_text

        purpose = "Check tasks without a model: setup, gold check, reward of an untouched task."
        print(help_text(USAGE, purpose, COMMON, SWITCHES, command))
        return 0
    config = resolve(command.layers)
    if "dry_run" in command.switches:
        from vfnb.runs.config import config_text

        print(config_text(config), end="")
        return 0
    from vfnb.lab.validation_twin import headline
    from vfnb.runs.validating import validate

    report = validate(
        config.make_taskset(),
        runtime=config.runtime,
        only_setup="only_setup" in command.switches,
        noop="only_gold" not in command.switches,
        concurrency=config.concurrency,
        timeouts=config.timeouts,
        scoring=config.scoring,
    )
    for check in report:
        if check.problem is not None:
            print(f"{check.task.name}: {check.problem}")
        elif check.noop_error is not None:
            print(f"{check.task.name}: cannot be scored untouched: {check.noop_error}")
    print(headline(report))
    return FAILED if report.failed else 0
