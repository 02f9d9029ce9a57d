"""`vfnb validate`: setup and gold checks of tasks, without a model."""

from __future__ import annotations

from collections.abc import Sequence

from vfnb import loops
from vfnb.cli.flags import read
from vfnb.cli.main import FAILED
from vfnb.runs.resolve import resolve

__all__ = ["run"]

USAGE = "vfnb validate [TASKSET] [@ FILE.toml ...] [flags]"
COMMON = ("-n", "-s", "-c", "--runtime")
SWITCHES = {
    "only_setup": "leave out the gold checks",
    "dry_run": "print the resolved config; loads no task",
}


def run(words: Sequence[str]) -> int:
    """Run the command; returns the exit status."""
    command = read(words, list(SWITCHES))
    if command.help is not None:
        from vfnb.cli.help import help_text

        purpose = "Check tasks without a model: setup, then gold check."
        print(help_text(USAGE, purpose, COMMON, SWITCHES, command))
        return 0
    config = resolve(command.layers)
    if "dry_run" in command.switches:
        from vfnb.runs.config import config_text

        print(config_text(config), end="")
        return 0
    from vfnb.runs.validating import validate

    taskset = config.make_taskset()
    only_setup = "only_setup" in command.switches
    checks = loops.engine().run(validate(config, taskset.resolve(), only_setup=only_setup))
    failed = [check for check in checks if check.failed]
    for check in failed:
        print(f"{check.task.name}: {check.error or 'its gold check says False'}")
    gold = sum(check.gold is True for check in checks)
    print(
        f"{taskset.name}: {len(checks)} tasks, {len(failed)} failed"
        + (
            ""
            if only_setup
            else f", {gold} passed their gold check, {len(checks) - gold - len(failed)} have none"
        )
    )
    return FAILED if failed else 0
