"""`vf.evaluate`: check everything that can be checked, match with what is on disk, start, return."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from vfnb import loops
from vfnb.agents import Agent, Harness, ScoringConfig, Timeouts, make_agent
from vfnb.clients import AnyModel
from vfnb.errors import ConfigError
from vfnb.interception import Limits
from vfnb.runs.budget import Budget
from vfnb.runs.config import headline, plain, write_config
from vfnb.runs.live import Live
from vfnb.runs.plan import Unit, plan
from vfnb.runs.remarks import remarks
from vfnb.runs.reuse import take_over
from vfnb.runs.run import Run
from vfnb.runs.saved import saved_config
from vfnb.runs.slots import Slots
from vfnb.runs.source import Source, as_taskset
from vfnb.runs.tree import EvalConfig
from vfnb.runtimes import RuntimeConfig
from vfnb.store import RunStore
from vfnb.tasks import Task
from vfnb.types import SamplingConfig
from vfnb.utils.ids import canonical_json, digest
from vfnb.utils.told import spelled

__all__ = ["Prepared", "default_folder", "evaluate", "prepare", "stable_setting", "start_together"]


@spelled(sampling=SamplingConfig, limits=Limits, timeouts=Timeouts, scoring=ScoringConfig)
def evaluate(
    taskset: Source,
    *,
    model: AnyModel,
    harness: str | Harness[Any] | Callable[..., Any] = "null",
    rollouts: int = 1,
    n: int | None = None,
    concurrency: int = 64,
    sampling: SamplingConfig | dict[str, Any] | None = None,
    runtime: str | RuntimeConfig | dict[str, Any] | None = None,
    limits: Limits | dict[str, Any] | None = None,
    timeouts: Timeouts | dict[str, Any] | None = None,
    scoring: ScoringConfig | dict[str, Any] | None = None,
    retries: int = 0,
    max_tokens: int | None = None,
    max_cost: float | None = None,
    dir: str | Path | None = None,
    resume: bool = True,
    fresh: bool = False,
) -> Run:
    """Run every task `rollouts` times and return at once; `run.wait()` or `await run` waits for the end.

    What an earlier sitting in the same folder has done is taken over: equal rollouts are not run again, and if
    only the scoring changed they are scored anew without a model call. Rollouts that ended by an error or were
    cancelled run again.

    Args:
        taskset: a taskset (object or class), a list of tasks, or the id of an installed taskset.
        model: a model object, or a name that is relayed to `OPENAI_BASE_URL`.
        harness: a registered name, a `Harness`, or an async function of (session, task).
        rollouts: samples per task.
        n: only the first `n` tasks; an infinite taskset needs it, or a bounded view.
        concurrency: rollouts under way at a time.
        sampling: overrides of what the program asks for.
        runtime: where programs run: `"inprocess"`, `"subprocess"` or a config.
        limits: bounds on turns and tokens of one rollout.
        timeouts: seconds per stage.
        scoring: in the agent's box or in a fresh one, and what is not scored; see `vf.ScoringConfig`.
        retries: further attempts of a rollout after an error that may pass.
        max_tokens: bound on tokens of the whole run, earlier sittings included.
        max_cost: bound on its cost in US dollars.
        dir: the run's folder; `./runs/<taskset>-<hash>` by default.
        resume: False refuses a folder that already has rollouts.
        fresh: set an earlier run in the folder aside and run everything.

    Raises:
        ConfigError: something cannot work; the message says what and how to mend it.
        TasksetError: the tasks cannot be loaded, none is selected, or two have one key.
        StoreLocked: another process writes this folder.
    """
    return prepare(**locals()).start()  # the arguments, as they came


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A run that can start: all that can be checked is checked, nothing is written yet."""

    folder: Path
    config: EvalConfig
    tasks: Sequence[Task[Any, Any, Any]]
    units: list[Unit]
    agent: Agent
    budget: Budget
    concurrency: int
    resume: bool
    fresh: bool
    origin: dict[str, Any] = field(default_factory=dict)
    """What the run came from, for its file."""
    keep_cancelled: bool = False
    """Only rollouts that ended by an error run again, not those that were cancelled."""

    def start(self) -> Run:
        """Match with what is on disk, start, return.

        Raises:
            ConfigError: the folder has rollouts and must not be gone on with.
            StoreLocked: another process writes it.
        """
        return start_together([self], self.concurrency)[0]

    def again(self, *, cancelled: bool) -> Prepared:
        """The same once more in its folder: what failed runs again, and what was cancelled if so wished."""
        budget = Budget(self.budget.max_tokens, self.budget.max_cost)
        return replace(self, budget=budget, resume=True, fresh=False, keep_cancelled=not cancelled)

    def placed(self, folder: Path) -> Prepared:
        """The same in another folder."""
        return replace(self, folder=folder, config=self.config.model_copy(update={"dir": str(folder)}))


def start_together(runs: Sequence[Prepared], concurrency: int) -> list[Run]:
    """Start runs that share `concurrency` slots and advance together; none starts if one cannot.

    Raises:
        ConfigError: a folder has rollouts and must not be gone on with.
        StoreLocked: another process writes one of them.
    """
    lives = loops.engine().run(_start(runs, Slots(concurrency)))
    return [
        Run(run.folder, config=plain(run.config), live=live, notes=notes, prepared=run)
        for run, (live, notes) in zip(runs, lives, strict=True)
    ]


def prepare(
    taskset: Source,
    *,
    model: AnyModel,
    harness: str | Harness[Any] | Callable[..., Any],
    rollouts: int,
    n: int | None,
    concurrency: int,
    sampling: SamplingConfig | dict[str, Any] | None,
    runtime: str | RuntimeConfig | dict[str, Any] | None,
    limits: Limits | dict[str, Any] | None,
    timeouts: Timeouts | dict[str, Any] | None,
    scoring: ScoringConfig | dict[str, Any] | None,
    retries: int,
    max_tokens: int | None,
    max_cost: float | None,
    dir: str | Path | None,
    resume: bool,
    fresh: bool,
    tasks: Sequence[Task[Any, Any, Any]] | None = None,
) -> Prepared:
    """Check everything that `evaluate` is given.

    Args:
        tasks: those of the taskset, where they have been made already; then `n` is not looked at.
    """
    counts = {"rollouts": rollouts, "n": n, "concurrency": concurrency, "max_tokens": max_tokens}
    for name, value in counts.items():
        if value is None and name in ("n", "max_tokens"):
            continue
        if not isinstance(value, int) or value < 1:
            raise ConfigError(f"{name}={value!r} must be a whole number, at least 1")
    if max_cost is not None and not (isinstance(max_cost, int | float) and max_cost > 0):
        raise ConfigError(f"max_cost={max_cost!r} must be a number of US dollars above 0")
    if dir is not None and not isinstance(dir, str | Path):
        raise ConfigError(f"dir={dir!r} must be a path")
    source = as_taskset(taskset)
    source = source.take(n) if n is not None else source
    tasks = source.resolve() if tasks is None else tasks
    agent = make_agent(
        harness,
        model=model,
        runtime=runtime,
        sampling=sampling,
        limits=limits,
        timeouts=timeouts,
        scoring=scoring,
        retries=retries,
    )
    agent.client.check()
    for task in tasks:
        agent.check(task)
    config = saved_config(
        source,
        tasks,
        agent,
        rollouts=rollouts,
        concurrency=concurrency,
        max_tokens=max_tokens,
        max_cost=max_cost,
        dir=str(dir) if dir is not None else None,
    )
    return Prepared(
        folder=Path(dir) if dir is not None else default_folder(source.name, agent),
        config=config,
        tasks=tasks,
        units=plan(tasks, agent, rollouts),
        agent=agent,
        budget=Budget(max_tokens, max_cost),
        concurrency=concurrency,
        resume=resume,
        fresh=fresh,
    )


def default_folder(name: str, agent: Agent) -> Path:
    """`./runs/<taskset>-<hash8>`: one folder per taskset, harness, model and setting, whatever the tasks say."""
    plain = re.sub(r"[^\w.-]+", "-", Path(name).name).strip("-.") or "run"
    return Path("runs") / f"{plain}-{digest(name, canonical_json(stable_setting(agent.identity())), size=4)}"


def stable_setting(setting: dict[str, Any]) -> dict[str, Any]:
    """A setting without code: an edited harness function keeps its folder."""
    return {
        key: stable_setting(value) if isinstance(value, dict) else value
        for key, value in setting.items()
        if key != "code"
    }


async def _start(runs: Sequence[Prepared], slots: Slots) -> list[tuple[Live, list[str]]]:
    opened: list[tuple[Live, list[str]]] = []
    try:
        for run in runs:
            opened += [await _open(run, slots)]
        for run, (live, _) in zip(runs, opened, strict=True):
            await live.store.set_meta(state="running", reason="", planned=len(run.units))
    except BaseException:
        for live, _ in opened:
            live.store.close()
        raise
    for live, _ in opened:
        live.start()
    return opened


async def _open(run: Prepared, slots: Slots) -> tuple[Live, list[str]]:
    """Match one run with what is on disk."""
    store = RunStore.create_or_open(run.folder, headline(run.config) | run.origin, fresh=run.fresh)
    try:
        if not run.resume and not run.fresh:
            with store.reader() as reader:
                if reader.trace_ids():
                    raise ConfigError(
                        f"{run.folder} already has rollouts and resume=False; use fresh=True or another dir="
                    )
        write_config(store.config_path, run.config)
        reuse = await take_over(store, run.units, run.agent.scoring, keep_cancelled=run.keep_cancelled)
    except BaseException:
        store.close()
        raise
    run.budget.tokens += reuse.tokens
    run.budget.cost += reuse.cost
    live = Live(
        run.agent,
        store,
        reuse.todo,
        reused=reuse.rows,
        rescored=reuse.rescored,
        version=reuse.version,
        budget=run.budget,
        concurrency=run.concurrency,
        slots=slots,
    )
    return live, [*remarks(run.tasks), *reuse.notes]
