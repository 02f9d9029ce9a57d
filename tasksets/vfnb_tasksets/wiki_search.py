"""Wiki search: questions over a small corpus, with tools that all rollouts share.

What to learn here: a shared toolset. `Taskset.toolsets` gives one `WikiToolset` for a whole run. Its `setup`
builds the index once, a full-text table of SQLite (FTS5) in memory, and `teardown` closes it. Tools raise
`vf.ToolError` for what the model should mend itself: it reads the message and goes on. How often a rollout
searched is counted from its trace.

    run = vf.evaluate("wiki_search", model="my-model")
    run = vf.evaluate(WikiTaskset(tools={"corpus": "my_corpus.jsonl"}, questions="my_questions.jsonl"), model=...)
"""

from __future__ import annotations

import re
import sqlite3
import threading
from collections.abc import Iterator
from typing import Any

import vfnb as vf
from vfnb_tasksets.rows import DATA, rows

__all__ = ["WikiTaskset"]

_BEST = """
SELECT title, snippet(pages, 1, '', '', '...', 16) FROM pages WHERE pages MATCH ? ORDER BY rank LIMIT ?
"""


class WikiToolsConfig(vf.SharedToolsetConfig):
    """Settings of the tools."""

    corpus: str = str(DATA / "wiki.jsonl")
    """JSONL file with `title` and `text` in each row; a dozen short pages come with the package."""
    results: int = 3
    """Most pages of one search."""


class WikiToolset(vf.Toolset[WikiToolsConfig]):
    """Search and read pages."""

    TOOL_PREFIX = "wiki"

    async def setup(self) -> None:
        """Build the index, once for all rollouts."""
        self._index = sqlite3.connect(":memory:", check_same_thread=False)
        self._turn = threading.Lock()  # tools run in threads, and this is one connection
        self._index.execute(
            "CREATE VIRTUAL TABLE pages USING fts5(title, text, tokenize = 'porter unicode61')"
        )
        pages = ((row["title"], row["text"]) for row in rows(self.config.corpus, "title", "text"))
        self._index.executemany("INSERT INTO pages VALUES (?, ?)", pages)

    async def teardown(self) -> None:
        """Close the index."""
        self._index.close()

    @vf.tool
    def search(self, query: str) -> list[str]:
        """Find pages by words; each line has a title and the passage that matches best."""
        words = re.findall(r"\w+", query)
        if not words:
            raise vf.ToolError("the query has no words; name what you look for")
        return [f"{title}: {passage}" for title, passage in self._find(words)]

    @vf.tool
    def read(self, title: str) -> str:
        """The whole text of a page."""
        with self._turn:
            page = self._index.execute("SELECT text FROM pages WHERE title = ?", (title,)).fetchone()
        if page is None:
            raise vf.ToolError(f"there is no page {title!r}; use a title that the search gave")
        return str(page[0])

    def _find(self, words: list[str]) -> list[tuple[str, str]]:
        match = " OR ".join(f'"{word}"' for word in words)  # quoted: no word is an operator
        with self._turn:
            return self._index.execute(_BEST, (match, self.config.results)).fetchall()


class WikiData(vf.TaskData):
    """A question, its answer, and the page that has it."""

    answer: str
    page: str


class WikiTask(vf.Task[WikiData]):
    """Right if the reply has the answer's words."""

    @vf.reward
    async def correct(self, trace: vf.Trace) -> float:
        """1.0 if the answer stands in the reply, as whole words in any case."""
        pattern = rf"(?<!\w){re.escape(self.data.answer)}(?!\w)"
        return float(re.search(pattern, trace.last_reply, re.IGNORECASE) is not None)

    @vf.metric
    async def searches(self, trace: vf.Trace) -> float:
        """Calls of the search tool."""
        asked = [message for message in trace.messages if isinstance(message, vf.AssistantMessage)]
        return float(
            sum(call.name == "wiki_search" for message in asked for call in message.tool_calls or [])
        )


class WikiConfig(vf.TasksetConfig):
    """Settings of the loading."""

    questions: str = str(DATA / "wiki_questions.jsonl")
    """JSONL file with `question`, `answer` and `page` in each row."""
    tools: WikiToolsConfig = WikiToolsConfig()
    """Settings of the tools that all rollouts share."""


class WikiTaskset(vf.Taskset[WikiTask, WikiConfig]):
    """Questions whose answers are in the corpus."""

    system_prompt = "Answer from the wiki. Search first, read the page, then reply with a short answer."

    @classmethod
    def toolsets(cls, config: WikiConfig) -> list[Any]:
        """Tools on the taskset: one toolset for the whole run."""
        return [WikiToolset(config.tools)]

    def load(self) -> Iterator[WikiTask]:
        """One task a row."""
        for row in rows(self.config.questions, "question", "answer", "page"):
            data = WikiData(prompt=row["question"], answer=row["answer"], page=row["page"])
            yield WikiTask(data, self.config.task)
