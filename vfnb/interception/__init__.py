"""Catch every model call of a rollout: server, session, in-process transport, pool."""

from vfnb.interception.completion import Completion
from vfnb.interception.faults import CallCancelled, SessionClosed, SessionStopped
from vfnb.interception.hooks import Hooks
from vfnb.interception.inprocess import InProcessTransport
from vfnb.interception.journal import Journal
from vfnb.interception.limits import Limits
from vfnb.interception.pool import Endpoint, ServerPool
from vfnb.interception.server import Server
from vfnb.interception.session import Pending, Session
from vfnb.interception.settings import Settings

__all__ = [
    "CallCancelled",
    "Completion",
    "Endpoint",
    "Hooks",
    "InProcessTransport",
    "Journal",
    "Limits",
    "Pending",
    "Server",
    "ServerPool",
    "Session",
    "SessionClosed",
    "SessionStopped",
    "Settings",
]
