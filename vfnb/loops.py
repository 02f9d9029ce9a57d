"""The background threads, each with an asyncio loop.

`engine()` runs server, sessions, clients, runtimes and the hand-off to the store; it never runs user code.
`user()` runs harness functions and scripted models, `hooks()` runs setup, finalize, metrics and rewards: a reward
that blocks its loop then delays no agent. Sync user code goes to worker threads. Code on any loop, or on none,
submits work here and waits for it; the caller's loop is never patched.
"""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures
import contextvars
import logging
import os
import queue
import threading
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

__all__ = ["Loop", "at_exit", "current", "engine", "hooks", "on_worker", "user"]

T = TypeVar("T")

_log = logging.getLogger("vfnb.loops")
_IDLE_S = 10.0  # an idle worker thread ends after this


class Loop:
    """One daemon thread with one asyncio loop, started on first use and restarted in a forked child."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def get(self) -> asyncio.AbstractEventLoop:
        """The running loop of this thread."""
        with self._lock:
            if self._loop is None or self._thread is None or not self._thread.is_alive():
                self._start()
            assert self._loop is not None
            return self._loop

    def _start(self) -> None:
        started: concurrent.futures.Future[asyncio.AbstractEventLoop] = concurrent.futures.Future()

        def main() -> None:
            loop = asyncio.new_event_loop()
            asyncio.set_event_loop(loop)
            loop.call_soon(started.set_result, loop)
            while True:
                try:
                    loop.run_forever()
                    break
                except (SystemExit, KeyboardInterrupt) as error:  # asyncio lets these two through
                    _log.warning("a task on the %s loop raised %r; the loop goes on", self.name, error)
            loop.close()

        self._thread = threading.Thread(target=main, name=f"vfnb-{self.name}", daemon=True)
        self._thread.start()
        self._loop = started.result()

    @property
    def inside(self) -> bool:
        """Whether the caller runs on this thread."""
        return threading.current_thread() is self._thread

    def submit(self, work: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
        """Start a coroutine here. Cancelling the future cancels it; what it raises after that is dropped.

        What is no `Exception` (`sys.exit()`, a cancellation that nobody asked for) comes out as a RuntimeError.
        """
        loop = self.get()
        future: concurrent.futures.Future[T] = concurrent.futures.Future()

        def start() -> None:
            task = loop.create_task(_contained(work))
            task.add_done_callback(lambda ended: _settle(future, ended))
            future.add_done_callback(lambda _: _give_up(loop, task, future))

        loop.call_soon_threadsafe(start)
        return future

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine here and block until it ends. An interrupt of the caller cancels it.

        Raises:
            RuntimeError: if called on this very thread, which would wait for itself.
        """
        if self.inside:
            work.close()
            raise RuntimeError(f"blocking call on the {self.name} loop; await it instead")
        future = self.submit(work)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    async def do(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine here and await it from any loop, this one included."""
        if self.inside:
            return await work
        return await asyncio.wrap_future(self.submit(work))

    def call(self, function: Callable[..., object], *args: object) -> None:
        """Call a plain function on this loop soon, without waiting."""
        self.get().call_soon_threadsafe(function, *args)

    def stop(self) -> None:
        """End the thread. For interpreter exit; `get` starts a new one."""
        with self._lock:
            loop, thread = self._loop, self._thread
            self._loop = self._thread = None
        if loop is None or thread is None or not thread.is_alive():
            return
        asyncio.run_coroutine_threadsafe(_cancel_all(), loop)
        thread.join(5)


def _settle(future: concurrent.futures.Future[T], task: asyncio.Task[T]) -> None:
    """Hand a task's outcome to the future that stands for it in other threads."""
    if task.cancelled():
        future.cancel()
        future.set_running_or_notify_cancel()
        return
    error = task.exception()  # looked at even if nobody waits: else asyncio complains on stderr
    if not future.set_running_or_notify_cancel():
        return
    if error is not None:
        future.set_exception(error)
    else:
        future.set_result(task.result())


def _give_up(
    loop: asyncio.AbstractEventLoop, task: asyncio.Task[T], future: concurrent.futures.Future[T]
) -> None:
    if future.cancelled() and not loop.is_closed():
        loop.call_soon_threadsafe(task.cancel)


async def _contained(work: Coroutine[Any, Any, T]) -> T:
    task = asyncio.current_task()
    assert task is not None
    try:
        return await work
    except Exception:
        raise
    except asyncio.CancelledError as error:
        if task.cancelling():
            raise
        raise _tamed(error) from error
    except GeneratorExit as error:
        if error.__traceback__ is None or error.__traceback__.tb_next is None:  # closed from outside
            raise
        raise _tamed(error) from error
    except BaseException as error:
        raise _tamed(error) from error


def _tamed(error: BaseException) -> RuntimeError:
    """An error of user code in place of what would end a thread, a loop or a run."""
    return RuntimeError(f"the function raised {error!r}")


async def _cancel_all() -> None:
    loop = asyncio.get_running_loop()
    tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks, timeout=3)
    loop.call_soon(loop.stop)


_engine = Loop("engine")
_user = Loop("user")
_hooks = Loop("hooks")


def engine() -> Loop:
    """The loop of servers, sessions, clients and runtimes."""
    return _engine


def user() -> Loop:
    """The loop of agent programs that are async functions, and of scripted models."""
    return _user


def hooks() -> Loop:
    """The loop of async hooks: one that blocks holds up other hooks, and no agent's model calls."""
    return _hooks


def current() -> Loop | None:
    """The loop on whose thread the caller runs: blocking here would block all that it serves."""
    return next((loop for loop in (_engine, _user, _hooks) if loop.inside), None)


async def on_worker(function: Callable[..., T], *args: Any, timeout: float | None = None) -> T:
    """Run sync user code in a thread that nobody else uses meanwhile, and await it.

    A thread cannot be killed: after `timeout` seconds the caller goes on and the thread's result is dropped.
    What is no `Exception`, such as `sys.exit()`, comes out as a RuntimeError.

    Raises:
        TimeoutError: if the function takes longer than `timeout`.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()
    context = contextvars.copy_context()

    def deliver(setter: Callable[[Any], None], value: Any) -> None:
        if not done.done():
            setter(value)

    def main() -> None:
        setter: Callable[[Any], None] = done.set_exception
        value: Any
        try:
            result = context.run(function, *args)
        except StopIteration as error:  # a future refuses this one
            value = _tamed(error)
        except Exception as error:
            value = error
        except BaseException as error:
            value = _tamed(error)
            value.__cause__ = error
        else:
            setter, value = done.set_result, result
        if not loop.is_closed():
            loop.call_soon_threadsafe(deliver, setter, value)

    _workers.start(main)
    return await asyncio.wait_for(_plain(done), timeout)


class _Workers:
    """Daemon threads for jobs that may block for ever: as many as there are jobs, reused when idle.

    Starting a thread waits for it, a millisecond or more on a busy machine; handing a job to an idle one does not.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: list[queue.SimpleQueue[Callable[[], None]]] = []

    def start(self, job: Callable[[], None]) -> None:
        with self._lock:
            inbox = self._idle.pop() if self._idle else None
        if inbox is None:
            inbox = queue.SimpleQueue()
            threading.Thread(target=self._serve, args=(inbox,), name="vfnb-worker", daemon=True).start()
        inbox.put(job)

    def _serve(self, inbox: queue.SimpleQueue[Callable[[], None]]) -> None:
        while True:
            try:
                job = inbox.get(timeout=_IDLE_S)
            except queue.Empty:
                with self._lock:
                    if inbox in self._idle:
                        self._idle.remove(inbox)
                        return
                continue  # a job is just being handed over
            job()
            del job  # holds the caller's objects
            with self._lock:
                self._idle.append(inbox)


_workers = _Workers()


async def _plain(future: Awaitable[T]) -> T:
    return await future


def _forget_after_fork() -> None:
    global _workers
    _workers = _Workers()
    for loop in (_engine, _user, _hooks):
        loop._lock = threading.Lock()
        loop._loop = loop._thread = None


def _stop_all() -> None:
    _hooks.stop()
    _user.stop()
    _engine.stop()


def at_exit(function: Callable[[], None]) -> None:
    """Call a function when the interpreter leaves, while threads can still be started.

    Plain `atexit` runs after thread pools have closed; the hook of `threading` is private but stable since 3.9.
    """
    register = getattr(threading, "_register_atexit", atexit.register)
    register(function)


at_exit(_stop_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_after_fork)
