"""Notebook magics, after `%load_ext vfnb`: sugar over the Python names, nothing more.

`%%harness NAME`  the cell is the body of `async def NAME(session, task)`; it returns the answer
`%%reward NAME [--weight W] [--on RUN]`  the cell is the body of a reward over `trace` (and `task`, `state`,
`runtime` if it has them); it scores at once the stored traces of a run: the one named, or the newest finished one
`%vf [NAME]`  the runs of this notebook, or one object's text
"""

from __future__ import annotations

import ast
import keyword
import shlex
from types import ModuleType
from typing import TYPE_CHECKING, Any

from IPython.core.error import UsageError

from vfnb.agents import harness
from vfnb.runs import Comparison, Run
from vfnb.tasks import reward

if TYPE_CHECKING:
    from collections.abc import Sequence

    from IPython.core.interactiveshell import InteractiveShell

__all__ = ["NotebookMagics", "load"]

_REWARD = ("trace", "task", "state", "runtime")  # what a reward may ask for


class NotebookMagics:
    """The magics of one notebook."""

    def __init__(self, shell: InteractiveShell) -> None:
        self._shell = shell

    def harness(self, line: str, cell: str) -> Any:
        """`%%harness NAME`: a harness from its body; `session` and `task` are at hand."""
        name = self._free(_name(line.split(), "%%harness NAME"))
        function = self._define(name, ("session", "task"), cell, is_async=True)
        made = harness(function)
        self._shell.user_ns[name] = made
        return made

    def reward(self, line: str, cell: str) -> Any:
        """`%%reward NAME [--weight W] [--on RUN]`: a reward from its body, scored at once on a finished run."""
        words, options = _options(line, ("--weight", "--on"), "%%reward NAME [--weight W] [--on RUN]")
        name = self._free(_name(words, "%%reward NAME [--weight W] [--on RUN]"))
        body = ast.parse(cell)
        used = {node.id for node in ast.walk(body) if isinstance(node, ast.Name)}
        waits = any(isinstance(node, ast.Await | ast.AsyncFor | ast.AsyncWith) for node in ast.walk(body))
        wanted = tuple(word for word in _REWARD if word == "trace" or word in used)
        function = reward(weight=_number(options.get("--weight", "1")))(
            self._define(name, wanted, cell, is_async=waits)
        )
        self._shell.user_ns[name] = function
        run = self._run(options.get("--on"))
        if run is None:
            return f"{name} is defined; no finished run in this notebook to score with it"
        return run.rescore(rewards=[function])

    def runs(self, line: str) -> Any:
        """`%vf`: the runs of this notebook; `%vf NAME`: one object's text."""
        name = line.strip()
        if name:
            if name not in self._shell.user_ns:
                raise UsageError(f"%vf: there is no {name!r} in this notebook; {_known(self._named())}")
            print(self._shell.user_ns[name])
            return None
        for found, value in self._named():
            print(f"{found}: {value!r}")
        if not self._named():
            print("no runs in this notebook yet: run = vf.evaluate(taskset, model=...)")
        return None

    # the notebook

    def _named(self) -> list[tuple[str, Run | Comparison]]:
        """Runs by their names in the notebook, oldest first; IPython's own `_` and `_12` are left out."""
        return [
            (name, value)
            for name, value in list(self._shell.user_ns.items())
            if isinstance(value, Run | Comparison) and not name.startswith("_")
        ]

    def _run(self, name: str | None) -> Run | None:
        runs = {found: value for found, value in self._named() if isinstance(value, Run)}
        if name is not None:
            if name not in runs:
                raise UsageError(f"--on {name}: there is no run {name!r}; {_known(list(runs.items()))}")
            return runs[name]
        return next((run for run in reversed(runs.values()) if run.complete), None)

    def _free(self, name: str) -> str:
        """
        Raises:
            UsageError: a module or a run has this name.
        """
        value = self._shell.user_ns.get(name)
        if isinstance(value, ModuleType | Run | Comparison):
            what = "module" if isinstance(value, ModuleType) else "run"
            raise UsageError(f"{name} is a {what} here, which the cell would replace; take another name")
        return name

    def _define(self, name: str, parameters: Sequence[str], cell: str, *, is_async: bool) -> Any:
        """A function with the cell as its body, among the notebook's names."""
        source = f"{'async ' if is_async else ''}def {name}({', '.join(parameters)}):\n{_indented(cell)}"
        file = self._shell.compile.cache(source, self._shell.execution_count)
        namespace = self._shell.user_ns
        exec(compile(source, file, "exec"), namespace)  # the user's own cell
        return namespace[name]


def _indented(cell: str) -> str:
    """The cell one level deeper; lines inside texts of several lines stay as they are.

    Raises:
        UsageError: there is nothing in it.
    """
    tree = ast.parse(cell)
    if not tree.body:
        raise UsageError("the cell is empty; write the body of the function, with a return")
    inside = {
        line
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant | ast.JoinedStr) and node.end_lineno
        for line in range(node.lineno + 1, node.end_lineno + 1)
    }
    lines = cell.split("\n")
    return "\n".join(
        line if number in inside or not line.strip() else f"    {line}"
        for number, line in enumerate(lines, 1)
    )


def _name(words: Sequence[str], usage: str) -> str:
    if len(words) != 1 or not words[0].isidentifier() or keyword.iskeyword(words[0]):
        raise UsageError(f"usage: {usage}")
    return words[0]


def _options(line: str, names: Sequence[str], usage: str) -> tuple[list[str], dict[str, str]]:
    words, options = [], {}
    try:
        rest = iter(shlex.split(line))
    except ValueError as error:
        raise UsageError(f"{error}; usage: {usage}") from None
    for word in rest:
        if word.startswith("--"):
            value = next(rest, None)
            if word not in names or value is None:
                raise UsageError(f"usage: {usage}")
            options[word] = value
        else:
            words.append(word)
    return words, options


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise UsageError(f"--weight {text}: not a number") from None


def _known(named: Sequence[tuple[str, object]]) -> str:
    return f"there are {', '.join(name for name, _ in named)}" if named else "there are no runs"


def load(shell: InteractiveShell) -> None:
    """Make the magics known to a notebook."""
    magics = NotebookMagics(shell)
    shell.register_magic_function(magics.harness, "cell", "harness")
    shell.register_magic_function(magics.reward, "cell", "reward")
    shell.register_magic_function(magics.runs, "line", "vf")
