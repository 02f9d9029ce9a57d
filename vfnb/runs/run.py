"""A run as an object: live while it executes, the same from disk afterwards."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
from collections.abc import Awaitable, Callable, Collection, Generator, Iterator, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from vfnb import loops
from vfnb.errors import ConfigError, RunNotFinished, StoreError
from vfnb.exchange.imports.report import import_report
from vfnb.runs import leaving
from vfnb.runs.config import read_config
from vfnb.runs.live import Live
from vfnb.runs.manifest import COMPARISON, STUDY
from vfnb.runs.rows import stored_rows
from vfnb.runs.snapshot import snapshot
from vfnb.runs.tables import Tables
from vfnb.runs.traces import TraceList
from vfnb.store import CONFIG_NAME, RunReader, RunStore, is_run
from vfnb.utils.told import spelled

if TYPE_CHECKING:
    import networkx as nx

    from vfnb.clients import AnyModel
    from vfnb.exchange.credit import Advantage
    from vfnb.exchange.notes import ExportReport
    from vfnb.exchange.training import SampleList
    from vfnb.lab.figures import Plot
    from vfnb.lab.rescored import Rescored
    from vfnb.lab.rows import Row
    from vfnb.lab.sample import Samples
    from vfnb.lab.views import RunView
    from vfnb.lab.widgets.lab import RewardLab
    from vfnb.lab.widgets.runs import RunTable
    from vfnb.runs.forks import Fork
    from vfnb.runs.source import Source
    from vfnb.runs.start import Prepared
    from vfnb.trace import Trace
    from vfnb.types import SamplingConfig

__all__ = ["Run", "load"]

WAKE_S = 0.2  # how often an awaiting cell looks whether it was interrupted


class Run(Tables):
    """The rollouts of one evaluation.

    Before the end, everything below is a snapshot of what is stored by then (`complete` is False).
    """

    def __init__(
        self,
        dir: Path,
        *,
        config: dict[str, Any] | None = None,
        live: Live | None = None,
        notes: Sequence[str] = (),
        prepared: Prepared | None = None,
        version: int | None = None,
    ) -> None:
        self.dir = dir
        self.config: dict[str, Any] = config if config is not None else read_config(dir / CONFIG_NAME)
        self._live = live
        self._prepared = prepared
        """What it was started from, in the process that started it."""
        self._shown_in: str | None = None
        """The cell that has a view of this run, because it waited for it."""
        self._reader = RunReader(dir)
        self._version = version
        """The score version to show; the newest one if None."""
        self.imported = None if live is not None else import_report(self._reader)
        """Where an imported run comes from and what is not in it (`vfnb.exchange.ImportReport`); else None."""
        self.notes = tuple(
            dict.fromkeys([*notes, *(self.imported.notes if self.imported is not None else ())])
        )
        if live is not None:
            leaving.watch(live)

    @property
    def name(self) -> str:
        """The folder's name."""
        return self.dir.name

    @property
    def complete(self) -> bool:
        """Whether every planned rollout has ended, and none because the run was stopped."""
        live = self._live
        if live is None:
            return self._reader.complete
        return live.done.done() and live.done.exception() is None and not live.reason

    @property
    def traces(self) -> TraceList:
        """The traces, unfinished ones too; each is read when it is looked at."""
        engine = getattr(self._live.agent.client, "engine", None) if self._live else None
        return TraceList(self._reader, self._mark, engine and engine.tokenizer, self._version)

    # Scores

    def use(self, version: int) -> Run:
        """The same run with the scores of one version in rewards, summary, frames, traces, samples and exports.

        Raises:
            ConfigError: there is no such version.
        """
        from vfnb.lab.versions import check_version

        check_version(self._reader, version)
        return Run(
            self.dir,
            config=self.config,
            live=self._live,
            notes=self.notes,
            prepared=self._prepared,
            version=version,
        )

    @spelled()
    def rescore(
        self,
        rewards: Any = None,
        *,
        task: Any = None,
        judges: Any = None,
        weights: Mapping[str, float] | None = None,
        where: str | None = None,
        label: str | None = None,
        partial: bool = False,
    ) -> Rescored:
        """Score the stored rollouts anew: a new version beside the old ones, which stay as they are.

        No model of the run is called and nothing is imported. What is not scored anew keeps its values.

        Args:
            rewards: a function or several (a list, or a dict by name), marked by `@vf.reward` or `@vf.metric` or
                not; they take `trace`, `task` (the stored data) and `state` by name. Also methods of `task`.
            task: a Task or Taskset class, or an object of one: its data class reads the stored data, and without
                `rewards` all its metrics, rewards and judges score, in place of all that there was.
            judges: judges that give a reward; one given n times is asked n times, and the reward is the mean, with
                its standard error as the metric `<name>_se`.
            weights: weights of rewards by name.
            where: SQL over the columns of `frame("traces")`; the other traces keep their scores.
            label: what to call the version.
            partial: also of a run that has not finished.

        Raises:
            RunNotFinished: without `partial`.
            ConfigError: something cannot be scored on stored rollouts, such as a function that takes `runtime`.
            HookError: a function has a parameter that no hook can get.
        """
        from vfnb.runs.rescoring import rescore

        self._finished("scores", partial)
        here = loops.current()
        if here is not None:
            raise RuntimeError(
                f"run.rescore() would block the {here.name} loop; call it in a cell or a thread"
            )
        made = rescore(
            self._reader,
            self._write,
            base=self.version,
            rewards=rewards,
            task=task,
            judges=judges,
            weights=weights,
            where=where,
            label=label,
        )
        if (
            self._live is not None and not self._live.done.done()
        ):  # what ends from now on joins the new version
            self._live.journal.version = made.version
        return made

    def graph(self, task: int | str | None = None) -> nx.DiGraph:
        """The traces of one task as a prefix tree with counts and mean rewards per message (`docs/figures.md`).

        Args:
            task: position of the task, or its key; the first one by default.

        Raises:
            ConfigError: there is no such task.
        """
        from vfnb.lab.run_figures import run_graph

        return run_graph(self._rows(), lambda ids: map(self.traces, ids), task)

    def plot(self, kind: str = "rewards", **options: Any) -> Plot:
        """A figure of the run, `.figure` of which is a plotly figure (`docs/figures.md`).

        Args:
            kind: `rewards` (distributions), `tasks` (tasks by rollouts), `pass_at_k`, `against` (reward and what
                it cost), `time` (where it went), `learning` (in the order of the rollouts) or `graph` (one task's
                traces).
            options: `threshold` of `pass_at_k`; `x` of `against`: `tokens`, `turns`, `cost` or `seconds`; `task` of
                `graph`.

        Raises:
            ConfigError: an unknown kind, option or value, or the run has no such numbers.
        """
        from vfnb.lab.run_figures import plot_run

        return plot_run(kind, self.name, self._rows, self.frame, lambda ids: map(self.traces, ids), **options)

    def view(self) -> RunTable:
        """The rollouts as a table to sort and filter, live while the run goes on; a click opens a trace."""
        from vfnb.lab.widgets.runs import RunTable

        return RunTable(self, self._view)

    def reward_lab(self) -> RewardLab:
        """Other weights and thresholds on the stored rewards, by sliders, and what they would change.

        What it shows is computed from the stored scores alone; `lab.code` is the `run.rescore` that stores it.
        """
        from vfnb.lab.score_table import score_table
        from vfnb.lab.widgets.lab import RewardLab

        return RewardLab(self.name, score_table(self._reader, self.version), self.traces, self.rescore)

    def sample(self, n: int = 3, *, seed: int = 0) -> Samples:
        """Some rollouts to read: prompt, completion, rewards."""
        from vfnb.lab.sample import sample

        return sample(self.traces, n, seed=seed)

    def samples(
        self,
        advantage: Advantage | None = "grpo",
        *,
        agents: Collection[str] | None = None,
        unused_compactions: bool = False,
        partial: bool = False,
    ) -> SampleList:
        """Training samples of all rollouts that ended well: exact tokens, masks, logprobs, group, advantage.

        A list of `vf.Sample`; its `left_out` says which traces are not in it and why, `frame()` is a table of it.

        Args:
            advantage: `grpo` (reward minus the mean of the group), `leave_one_out` (minus that of the others), or
                None.
            agents: roles under training; all by default.
            unused_compactions: include declared compaction attempts whose summary was not used.
            partial: also of a run that has not finished.

        Raises:
            RunNotFinished: without `partial`: the groups are not complete.
            ConfigError: an unknown kind of advantage, or a role that no trace has.
        """
        from vfnb.exchange.training import collect

        self._finished("samples", partial)
        return collect(self.traces, advantage=advantage, agents=agents, unused_compactions=unused_compactions)

    def export(
        self,
        format: str,
        dir: str | Path,
        *,
        skip_invalid: bool = False,
        overwrite: bool = False,
        partial: bool = False,
        **options: Any,
    ) -> ExportReport:
        """Write the run in the form of another program, as a whole or not at all (`docs/training.md`).

        Args:
            format: `prime-rl` (episodes, SFT rows, samples, packed micro-batches, configuration), `sft` (the rows
                alone), `arrow` (token samples), `verifiers` (the episodes alone) or `atif` (trajectories).
            dir: the folder to be made.
            skip_invalid: leave out traces that contradict themselves or cannot be carried; the report lists them.
            overwrite: replace an earlier export.
            partial: also of a run that has not finished.
            options: `env, advantage, agents, seq_len, ranks, pad_to, step, temperature, min_reward, weights,
                images` (`vfnb.exchange.ExportOptions`); `env` is the taskset's name by default.

        Raises:
            RunNotFinished: without `partial`.
            ConfigError: a format, an option or a folder that cannot be.
            ExportRefused: a trace contradicts itself or cannot be carried, or there is nothing to write.
            MissingExtra: pyarrow is not installed.
        """
        from vfnb.exchange.exporting import export
        from vfnb.exchange.options import ExportOptions

        self._finished("exports", partial)
        known = [one.name for one in fields(ExportOptions)]
        for name in options:
            if name not in known:
                raise ConfigError(f"export has no option {name!r}; there are {', '.join(known)}")
        options.setdefault("env", self._env())
        return export(
            self._reader.read_traces(self._reader.trace_ids("superseded = 0"), version=self._version),
            format,
            dir,
            ExportOptions(**options),
            source=self.name,
            skip_invalid=skip_invalid,
            overwrite=overwrite,
        )

    def fork(
        self,
        trace: Trace | str | int,
        node: Any,
        n: int = 8,
        *,
        model: AnyModel | None = None,
        sampling: SamplingConfig | dict[str, Any] | None = None,
        harness: Any = None,
        taskset: Source | None = None,
        **settings: Any,
    ) -> Fork:
        """Run a rollout again `n` times: replayed up to and with one of its messages, live from there.

        The program starts anew in a fresh box and gets the recorded replies, so that its tools run again; then
        the model answers. The forks are a run of their own in `<run>/forks/`, in the group of the trace, and are
        compared with it. The same call later goes on with what is done; a larger `n` adds to it.

        Args:
            trace: a trace of this run, its id (or the beginning), or its position in `run.traces`.
            node: the message, or its index in `trace.nodes`: of a reply, what comes after it is live; of a
                message to the model, the reply to it is.
            n: how many forks.
            model: who answers after the replay; the run's model by default.
            sampling: overrides, over those of the run.
            harness: another one than the run's.
            taskset: where the task comes from; needed for a run that was not started here from objects and whose
                config does not name a taskset that can be loaded.
            settings: `concurrency, runtime, limits, timeouts, scoring, retries, max_tokens, max_cost, fresh`.

        Raises:
            ConfigError: there is no such message, or the task, harness or model is not known here any more.
        """
        from vfnb.runs.forking import fork

        return fork(
            self, trace, node, n, model=model, sampling=sampling, harness=harness, taskset=taskset, **settings
        )

    @property
    def forks(self) -> list[Fork]:
        """The forks of its traces, oldest first."""
        from vfnb.runs.forks import forks_of

        return forks_of(self)

    def _env(self) -> str:
        """The taskset's name: of `package.module:Sums` and `python:Sums` it is `Sums`."""
        taskset = self.config.get("taskset") or {}
        return str(taskset.get("id") or "").rpartition(":")[2] or self.name

    def _finished(self, what: str, partial: bool) -> None:
        if not partial and not self.complete:
            raise RunNotFinished(
                f"run {self.name} has not finished, and {what} of a part may differ from those of the whole; "
                "wait for it, or give partial=True"
            )

    def wait(self, timeout: float | None = None, *, quiet: bool = False) -> Run:
        """Block until the run has ended, with a progress view unless `quiet`. An interrupt cancels the run.

        Raises:
            TimeoutError: it did not end within `timeout` seconds; it goes on.
            StoreError: the run could not be stored.
            RuntimeError: called in an async harness or hook, whose loop the run may need: `await run` there.
        """
        if self._live is None:
            return self
        here = loops.current()
        if here is not None and not self._live.done.done():
            raise RuntimeError(f"run.wait() would block the {here.name} loop; write `await run` instead")
        with self._watched(self._live, quiet=quiet):
            try:
                self._live.done.result(timeout)
            except concurrent.futures.TimeoutError:
                raise TimeoutError(f"run {self.name} has not ended after {timeout:g} s; it goes on") from None
        return self

    def __await__(self) -> Generator[Any, None, Run]:
        return self._wait().__await__()

    async def _wait(self) -> Run:
        if self._live is None:
            return self
        with self._watched(self._live):
            ended = asyncio.wrap_future(self._live.done)
            # ipykernel 7 hands an interrupt to the loop of the cell without waking it: keep it awake.
            while not ended.done():
                await asyncio.wait({ended}, timeout=WAKE_S)
            ended.result()
        return self

    @contextlib.contextmanager
    def _watched(self, live: Live, *, quiet: bool = False) -> Iterator[None]:
        """Show the progress of a wait in its cell; an interrupt of the wait cancels the run."""
        from vfnb.lab.kernel import cell

        progress = self._progress(quiet=quiet).start()
        self._shown_in = None if quiet else cell()
        try:
            yield
        except (KeyboardInterrupt, asyncio.CancelledError):
            live.cancel("interrupted")
            if self._shown_in is not None:  # the prompt is back at once, the view says how it ended
                live.done.add_done_callback(lambda _: progress.stop(0))
            else:
                progress.stop()
            raise
        except BaseException:
            progress.stop()
            raise
        progress.stop()

    def cancel(self, *, wait: bool = True) -> Run:
        """Stop the run: rollouts under way become `cancelled`, finished ones stay.

        In an async harness or hook it does not wait: what it would wait for may need that loop.
        """
        if self._live is not None:
            self._live.cancel("cancelled")
            if wait and loops.current() is None:
                self._live.done.result()
        return self

    def retry(self, what: Literal["errors", "all"] = "errors") -> Run:
        """Run again, in the same folder and with the same settings, what did not end in order.

        Returns this run at once: it is live again.

        Args:
            what: `errors`: rollouts that ended by an error; `all`: also those that were cancelled.

        Raises:
            RunNotFinished: it still runs.
            ConfigError: the run was loaded from disk, and what it was started from is not in this process.
        """
        if what not in ("errors", "all"):
            raise ConfigError(f"retry({what!r}): there is 'errors' and 'all'")
        if self._live is not None and not self._live.done.done():
            raise RunNotFinished(f"run {self.name} has not finished; wait for it or cancel it, then retry")
        if self._prepared is None:
            raise ConfigError(
                f"run {self.name} was loaded from disk; run its cell again, as vf.evaluate(..., "
                f"dir={str(self.dir)!r}): what failed or was cancelled runs again, the rest is taken over"
            )
        again = self._prepared.again(cancelled=what == "all").start()
        self._live, self._prepared, self.notes = again._live, again._prepared, again.notes
        return self

    def close(self) -> None:
        """Close the run's file; only for code that opens very many runs."""
        self._reader.close()

    def _mark(self, trace_id: str, kind: str, text: str) -> None:
        """Store a tag, a note or a label."""
        self._write(lambda store: store.mark(trace_id, kind, text))

    def _write(self, work: Callable[[RunStore], Awaitable[Any]]) -> Any:
        """Write through the run's own store while it runs, else by opening it."""
        live = self._live if self._live is not None and not self._live.done.done() else None
        if live is None and not is_run(self.dir):
            raise StoreError(f"{self.dir} is gone or has no run any more; nothing was written")

        async def put() -> Any:
            store = live.store if live is not None else RunStore.create_or_open(self.dir)
            try:
                return await work(store)
            finally:
                if live is None:
                    store.close()

        return loops.engine().run(put())

    # What displays see

    def _planned(self) -> int:
        return self._live.total if self._live is not None else int(self._reader.meta().get("planned", 0))

    def _rows(self) -> list[Row]:
        live = self._live
        if live is not None and not live.done.done():
            if self._version is None and live.journal.version == live.version:  # nothing was scored anew
                return live.rows
        elif live is not None and self.version == live.version:
            return live.rows
        return stored_rows(self._reader, self._version)

    def _view(self) -> RunView:
        return snapshot(self.name, self.dir, self.config, self._live, self._reader, self.notes, self._rows())

    def _progress(self, *, quiet: bool = False) -> Any:
        from vfnb.lab.progress import Progress

        return Progress(self._view, quiet=quiet)

    def __repr__(self) -> str:
        from vfnb.lab.run_twin import run_repr

        return run_repr(self._view())

    def __str__(self) -> str:
        from vfnb.lab.run_twin import run_text

        return run_text(self._view())

    def _ipython_display_(self) -> None:
        from IPython.display import display

        from vfnb.lab.kernel import cell
        from vfnb.lab.run_twin import run_bundle

        if self._shown_in is not None and self._shown_in == cell():
            return  # the cell waited for it and has its view already
        live = self._live
        if live is None or live.done.done():
            display(run_bundle(self._view()), raw=True)
            return
        progress = self._progress().start()
        live.done.add_done_callback(lambda _: progress.stop(0))


def load(path: str | Path, *, into: str | Path | None = None) -> Run:
    """Open a run: a folder of ours, finished or not, or what another program has left (`docs/importing.md`).

    A run of ours may be one that another process is writing. Run folders of verifiers, ATIF trajectories, jobs of
    Harbor and Inspect logs are converted once and kept in the cache; `run.imported` says what could not be read.

    Args:
        path: the folder or file.
        into: where a converted run is to be kept, instead of the cache.

    The folder of a study gives the `Study`, as `vf.Study.load` does.

    Raises:
        StoreError: it is a run that cannot be read.
        ImportRefused: nothing is there that can be opened, or no record of it can be read.
        ConfigError: `into` has something else in it.
    """
    folder = Path(path)
    if is_run(folder):
        return Run(folder)
    if (folder / STUDY).exists():
        from vfnb.runs.studies import Study

        return Study.load(folder)  # type: ignore[return-value]  # rare, and every other caller gets a Run
    if (folder / COMPARISON).exists():
        raise StoreError(f"{folder} has a run for each harness; open it with vf.Comparison.load")
    from vfnb.exchange.imports import import_run

    return Run(import_run(folder, None if into is None else Path(into)))
