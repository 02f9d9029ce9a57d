"""A small software task: repair a repository, leave an answer in a file, be graded by a hidden check.

What to learn here: the stages of a task that works on files. `setup` writes the repository into the runtime and
commits it; the agent works; `finalize` saves what it changed (`vf.capture_patch`) and its answer file before
anything else touches them; the reward then writes the hidden check, runs it and compares what it prints.
`validate` proves a task without a model: the check must fail before the reference repair and pass after it;
`vfnb validate file_swe --runtime subprocess` tries that.

It needs a runtime that runs programs, and git and python3 in it:

    run = vf.evaluate("file_swe", model="my-model", harness="bash", runtime="subprocess")
"""

from __future__ import annotations

import vfnb as vf

__all__ = ["FileSWETaskset"]

PROMPT = """The working folder is a git repository. {issue}

Repair the code in place. Then write the name of the function that was wrong, and nothing else, into answer.txt,
or reply with it."""
COMMIT = "git init -q -b main && git add -A && git -c user.name=base -c user.email=base@localhost commit -q -m base"


class SWEData(vf.TaskData):
    """A broken file, its repair, and the hidden check."""

    file: str
    broken: str
    repaired: str
    answer: str
    check: str
    expected: str


class SWEState(vf.State):
    """What setup tells finalize."""

    base_commit: str = ""


class SWETask(vf.Task[SWEData, SWEState]):
    """Right if the hidden check prints what it should."""

    async def setup(self, trace: vf.Trace, runtime: vf.Runtime) -> None:
        """Make the repository, and note its commit: the agent may commit too."""
        await runtime.write(self.data.file, self.data.broken.encode())
        await runtime.write(".gitignore", b"answer.txt\n__pycache__/\n")
        done = await runtime.run(["sh", "-c", COMMIT])
        if not done.ok:
            raise RuntimeError(f"the repository cannot be made: {done.stderr.strip()}")
        trace.state.base_commit = await vf.resolve_head(runtime)

    async def finalize(self, trace: vf.Trace, runtime: vf.Runtime) -> None:
        """Save the evidence. `capture_patch` puts the patch into `trace.info["patch"]`."""
        await vf.capture_patch(trace, runtime, trace.state.base_commit)
        trace.info["answer"] = await vf.read_answer_file_or_last_reply(runtime, "answer.txt", trace)

    @vf.reward
    async def repaired(self, runtime: vf.Runtime) -> float:
        """1.0 if the hidden check is passed. It is written only now, so the agent cannot have seen it."""
        return float(await self._passes(runtime))

    @vf.reward(weight=0.0)
    async def located(self, trace: vf.Trace) -> float:
        """Whether the right function was named."""
        return float(trace.info["answer"].strip("`(). \n") == self.data.answer)

    @vf.metric
    async def patch_lines(self, trace: vf.Trace) -> float:
        """Lines that were added or removed."""
        lines = (trace.info["patch"] or "").splitlines()
        return float(sum(line[:1] in "+-" and line[:3] not in ("+++", "---") for line in lines if line))

    async def validate(self, runtime: vf.Runtime) -> bool:
        """The check must fail on the broken code and pass on the repaired one."""
        if await self._passes(runtime):
            return False
        await runtime.write(self.data.file, self.data.repaired.encode())
        return await self._passes(runtime)

    async def _passes(self, runtime: vf.Runtime) -> bool:
        await runtime.write("hidden_check.py", self.data.check.encode())
        done = await runtime.run(["python3", "-B", "hidden_check.py"], timeout=30)
        return done.ok and vf.compare_stdout_results(done.stdout, self.data.expected)


class FileSWETaskset(vf.Taskset[SWETask, vf.TasksetConfig]):
    """Two small repositories with a bug each."""

    def load(self) -> list[SWETask]:
        """One task a bug."""
        return [SWETask(data, self.config.task) for data in (_mean(), _slug())]


def _mean() -> SWEData:
    broken = '''"""Statistics."""


def total(values):
    return sum(values)


def mean(values):
    return total(values) // len(values)
'''
    return SWEData(
        name="mean",
        prompt=PROMPT.format(issue="In stats.py, averages come out as whole numbers: 1 and 2 give 1."),
        file="stats.py",
        broken=broken,
        repaired=broken.replace("//", "/"),
        answer="mean",
        check="import stats\nprint(stats.mean([1, 2]), stats.mean([2, 2, 5]), stats.total([1, 2]))\n",
        expected="1.5 3.0 3",
    )


def _slug() -> SWEData:
    broken = '''"""Names for URLs."""

import re


def words(text):
    return re.findall(r"[a-z]+", text.lower())


def slug(text):
    return "-".join(words(text))
'''
    return SWEData(
        name="slug",
        prompt=PROMPT.format(
            issue="In slugs.py, slug('Top 10 Lists') gives 'top-lists': the digits are lost."
        ),
        file="slugs.py",
        broken=broken,
        repaired=broken.replace("[a-z]", "[a-z0-9]"),
        answer="words",
        check="import slugs\nprint(slugs.slug('Top 10 Lists'), slugs.slug('A b'), slugs.words('x2 y'))\n",
        expected="top-10-lists a-b ['x2', 'y']",
    )
