"""The columns of every frame, in one table: names, types, meaning.

`vf.schema(level)` shows it. Names are stable, units are in the name (`_s` seconds, `tokens_` tokens), times
are UTC.
"""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Literal, NamedTuple

from vfnb.errors import ConfigError

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["DTYPES", "LEVELS", "SCHEMA", "Column", "Kind", "Level", "columns_of", "nearest", "schema"]

SCHEMA = 1
"""Version of this table, in `frame.attrs["schema"]`; it grows when a column changes its name or meaning."""

Kind = Literal["text", "int", "float", "bool", "time"]
Level = Literal["runs", "episodes", "traces", "branches", "messages", "calls", "tokens", "errors", "judges"]

DTYPES: dict[str, str] = {
    "text": "string",
    "int": "Int64",
    "float": "float64",
    "bool": "boolean",
    "time": "datetime64[ns, UTC]",
}
"""pandas dtype by kind; missing values are `pd.NA` (`NaN` for floats, `NaT` for times)."""


class Column(NamedTuple):
    """One column. In `where=` a time is unix seconds and a bool is 0 or 1."""

    name: str
    kind: Kind
    doc: str


def _table(text: str) -> tuple[Column, ...]:
    columns = []
    for line in filter(None, text.splitlines()):
        name, kind, doc = line.split(None, 2)
        columns.append(Column(name, kind, doc))  # type: ignore[arg-type]
    return tuple(columns)


_CONTEXT = """
trace       text   id of the trace
task        text   key of its task
rollout     int    sample index within the task
state       text   running, completed, stopped, error, cancelled, dropped; interrupted if its process died
ok          bool   the trace's stamp
reward      float  weighted sum of the trace's rewards in the chosen version
"""
_BROKEN = "unreadable  text   why this trace could not be read (then the row has nothing else)\n"

LEVELS: dict[str, tuple[Column, ...]] = {
    "runs": _table("""
run         text   name of the run's folder
dir         text   the folder
state       text   running, finished, stopped; interrupted if its process died
created     time   when the run was made
tasks       int    stored tasks
episodes    int    episodes
traces      int    traces, superseded attempts apart
finished    int    traces that have ended
running     int    traces under way
failed      int    traces that ended in an error
reward      float  mean reward of the scored traces
scored      int    traces with a reward
tokens_in   int    prompt tokens of all calls
tokens_out  int    sampled tokens of all calls
cost        float  US dollars where known
version     int    the newest score version
"""),
    "episodes": _table("""
episode     text   id of the episode
group       text   episodes of one group share a task
env         text   name of its environment
started     time   when it started
ended       time   when it ended
time_s      float  seconds from start to end
traces      int    its traces, superseded attempts apart
failed      int    of these, ended in an error
reward      float  mean reward of its scored traces
"""),
    "traces": _table(
        _CONTEXT
        + """
episode     text   id of its episode
group       text   id of its group
role        text   the agent's role in the episode
task_idx    int    index of the task
task_name   text   name of the task
attempt     int    0 for the first try
superseded  bool   a later attempt replaced it
stop        text   name of the stop that ended it
dropped     text   why it was dropped
error       text   class of the error that ended it
error_boundary  text  part of the system that failed
error_message   text  the error's text
errors      int    errors along the way, the last one included
calls       int    model calls
turns       int    calls with a complete reply
nodes       int    messages in the graph
branches    int    branches of the graph
tokens_in   int    prompt tokens, summed over calls
tokens_out  int    sampled tokens, each once
tokens_cached     int  prompt tokens that the provider had cached
tokens_reasoning  int  sampled tokens that were reasoning
cost        float  US dollars, if known
model       text   the model that served the first call
started     time   when it started
ended       time   when it ended
time_s      float  seconds from start to end
boot_s      float  seconds of the boot stage
setup_s     float  seconds of the setup stage
agent_s     float  seconds of the agent stage
finalize_s  float  seconds of the finalize stage
scoring_s   float  seconds of the scoring stage
tags        text   its tags, joined by commas
notes       text   its notes, a line each
rollout_hash  text  what the rollout depends on
score_hash    text  what its scores depend on
"""
    ),
    "branches": _table(
        _CONTEXT
        + """
branch      int    position in the trace
first_node  int    the first node that it owns (its id)
leaf        int    its last node
cause       text   why it forked
fork_index  int    message at which it left the older history
messages    int    messages from root to leaf
turns       int    sampled messages on it
tokens      int    tokens from root to leaf
trainable_tokens  int  sampled tokens that this branch owns
diff        text   what differs at the fork
linked_to   int    node of another branch that it came from: a summary, or the tool call of a subagent
returned_to  int   node of another branch that carries a subagent's last reply
"""
        + _BROKEN
    ),
    "messages": _table(
        _CONTEXT
        + """
node        int    number of the message in the graph
parent      int    number of the message before it, -1 for a root
call        int    call that added it
role        text   system, user, assistant, tool or a provider's own
sampled     bool   whether the model produced it
partial     bool   it repeats the text of a cut stream
text        text   its text parts, joined
reasoning   text   its plain reasoning
tool_calls  int    tool calls it asks for
tool_call_id  text  the call that it answers
chars       int    characters of text
tokens      int    tokens it adds, if known
"""
        + _BROKEN
    ),
    "judges": _table(
        _CONTEXT
        + """
call        int    number of the judge's call in its trace
judge       text   name of the judge
model       text   model asked for
served_model  text  model that answered
endpoint    text   its URL, or the kind of client
started     time   when it had its turn
time_s      float  seconds to the answer, retries included
tries       int    tries, the last one included
prompt      text   what it was asked, long texts shortened
reply       text   what it said, long texts shortened
verdict     text   what was read from the reply, as JSON
tokens_in   int    prompt tokens
tokens_out  int    sampled tokens
cost        float  US dollars, if known
error       text   class of the error, if there is no verdict
error_message  text  its text
"""
    ),
    "calls": _table(
        _CONTEXT
        + """
call        int    number of the call
id          text   the provider's id
dialect     text   wire format
model       text   model asked for
served_model  text  model that answered
started     time   when the request came
time_s      float  seconds to the end of the answer
ttft_s      float  seconds to the first token
status      int    HTTP status that the program got
finish_reason  text  why the model stopped
stream      bool   whether it was streamed
delivered   bool   whether the program got the end of the answer
retry_of    int    the failed call that it repeats
prompt_node  int   last message of the prompt
reply_node  int    the sampled message
tokens_in   int    prompt tokens
tokens_out  int    sampled tokens
tokens_cached     int  prompt tokens that the provider had cached
tokens_reasoning  int  sampled tokens that were reasoning
cost        float  US dollars, if known
error       text   class of the error
error_message  text  its text
"""
        + _BROKEN
    ),
    "tokens": _table(
        _CONTEXT
        + """
node        int    message that the token belongs to
position    int    position in that message's tokens
token       int    token id
sampled     bool   whether the model sampled it
logprob     float  log-probability of a sampled token
"""
        + _BROKEN
    ),
    "errors": _table(
        _CONTEXT
        + """
seq         int    position in the trace's errors
type        text   class of the error
boundary    text   part of the system that failed
stage       text   stage of the rollout
status      int    HTTP status, if there was one
message     text   the error's text
at          time   when
traceback   text   innermost frames
"""
    ),
}
"""Columns by level, in the order of the frame."""

CONTEXT = tuple(column.name for column in _table(_CONTEXT))
"""The columns of the trace that every deeper level repeats."""


def nearest(name: str, known: list[str]) -> str:
    """A hint with the nearest known name, or with all of them."""
    close = difflib.get_close_matches(name, known, 1)
    return f"did you mean {close[0]!r}?" if close else f"there are: {', '.join(known)}"


def columns_of(level: str) -> tuple[Column, ...]:
    """The columns of a level.

    Raises:
        ConfigError: there is no such level.
    """
    if level not in LEVELS:
        raise ConfigError(f"no frame level {level!r}; {nearest(level, list(LEVELS))}")
    return LEVELS[level]


def schema(level: str) -> pd.DataFrame:
    """The columns of a frame level as a table: `dtype` and `meaning` by column name.

    Raises:
        ConfigError: there is no such level.
    """
    import pandas as pd

    rows = columns_of(level)
    return pd.DataFrame(
        {"dtype": [DTYPES[column.kind] for column in rows], "meaning": [column.doc for column in rows]},
        index=pd.Index([column.name for column in rows], name="column"),
    )
