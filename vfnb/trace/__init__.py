"""The message graph and the trace: what one rollout said, sampled and scored."""

from vfnb.trace.branches import Branch
from vfnb.trace.calls import ErrorInfo, ModelCall, Rewrite, decode_call, encode_call, error_info
from vfnb.trace.causes import CAUSES, Fork
from vfnb.trace.graph import Counters, MessageGraph, Node
from vfnb.trace.identity import Identity, address, content, decode_content, identity, same
from vfnb.trace.judging import JudgeCall
from vfnb.trace.links import LINKS, Link
from vfnb.trace.nodes import MessageNode, NodeList
from vfnb.trace.pack import Packed, pack, unpack
from vfnb.trace.records import SCHEMA_VERSION, Delta, NodeRecord, TokenRecord, trace_from_records
from vfnb.trace.rewrites import Rewritten
from vfnb.trace.samples import Sample
from vfnb.trace.trace import END_STATES, Reward, Span, TaskInfo, Trace

__all__ = [
    "CAUSES",
    "END_STATES",
    "LINKS",
    "SCHEMA_VERSION",
    "Branch",
    "Counters",
    "Delta",
    "ErrorInfo",
    "Fork",
    "Identity",
    "JudgeCall",
    "Link",
    "MessageGraph",
    "MessageNode",
    "ModelCall",
    "Node",
    "NodeList",
    "NodeRecord",
    "Packed",
    "Reward",
    "Rewrite",
    "Rewritten",
    "Sample",
    "Span",
    "TaskInfo",
    "TokenRecord",
    "TokenTurn",
    "Trace",
    "address",
    "content",
    "decode_call",
    "decode_content",
    "encode_call",
    "error_info",
    "identity",
    "pack",
    "same",
    "trace_from_records",
    "unpack",
]


def __getattr__(name: str) -> object:
    """`TokenTurn` needs numpy: loaded when it is asked for."""
    if name == "TokenTurn":
        from vfnb.trace.tokens import TokenTurn

        return TokenTurn
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
