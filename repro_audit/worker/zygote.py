"""A warm interpreter: has imported PyTorch, does no tensor work, and forks a child per task."""

import contextlib
import ctypes
import gc
import importlib
import linecache
import os
import selectors
import signal
import socket
import sys
from pathlib import Path
from typing import NoReturn

import msgspec

# Imported here, once, so that no child has to: strict mode and the first optimizer pull these in.
import torch
import torch._inductor.config
import torch.optim
import torch.utils.data

from repro_audit.tasks import Task
from repro_audit.worker.hugepages import collapse_private_memory
from repro_audit.worker.perform import perform_and_exit

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
"""Source: linux/prctl.h."""


class Zygote:
    """Serves tasks from the parent's socket until it closes.

    Never touches CUDA and never starts a thread pool: a fork after either gives children that fail or hang
    (https://docs.pytorch.org/docs/stable/notes/multiprocessing.html).
    """

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._children: dict[int, socket.socket] = {}
        self._selector = selectors.DefaultSelector()

    def serve(self) -> None:
        """Announces readiness, then forks until the parent's end closes."""
        _prctl(PR_SET_CHILD_SUBREAPER, 1)  # what a workload leaves behind becomes ours to kill
        wakeup_read, wakeup_write = socket.socketpair()
        wakeup_read.setblocking(False)
        wakeup_write.setblocking(False)
        signal.set_wakeup_fd(wakeup_write.fileno())
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self._selector.register(self._control, selectors.EVENT_READ)
        self._selector.register(wakeup_read, selectors.EVENT_READ)
        _warm()
        gc.collect()
        collapse_private_memory()
        gc.freeze()  # a collection in a child would otherwise touch, and so copy, every page of this process
        self._control.sendall(b"ready\n")
        while True:
            for key, _ in self._selector.select():
                if key.fileobj is self._control:
                    if not self._accept(wakeup_read, wakeup_write):
                        self._end()
                elif key.fileobj is wakeup_read:
                    with contextlib.suppress(BlockingIOError):
                        wakeup_read.recv(4096)
                else:
                    self._obey(key.data)
            self._reap()

    def _accept(self, *own_sockets: socket.socket) -> bool:
        """Takes one task and forks for it; False where the parent is gone."""
        request, descriptors, _, _ = socket.recv_fds(self._control, 1 << 16, 4)
        if not request:
            return False
        while not request.endswith(b"\n"):
            request += self._control.recv(1 << 16)
        task = msgspec.json.decode(request, type=Task)
        stdout, stderr, status, stdin = descriptors
        status_socket = socket.socket(fileno=status)
        pid = os.fork()
        if pid == 0:
            for inherited in (self._control, status_socket, *own_sockets, *self._children.values()):
                inherited.close()
            self._selector.close()
            _become_child(task, stdin, stdout, stderr)
        for descriptor in (stdin, stdout, stderr):
            os.close(descriptor)
        self._children[pid] = status_socket
        self._selector.register(status_socket, selectors.EVENT_READ, pid)
        with contextlib.suppress(OSError):
            status_socket.sendall(f"started {pid}\n".encode())
        return True

    def _obey(self, pid: int) -> None:
        """Carries out an order about a child; a closed socket means that nobody waits for it any more."""
        status = self._children.get(pid)
        if status is None:
            return
        try:
            orders = status.recv(64).split()
        except OSError:
            orders = []
        if b"abort" in orders:
            _kill(pid, signal.SIGABRT)
        if b"kill" in orders or not orders:
            _kill_group(pid)

    def _reap(self) -> None:
        while True:
            try:
                pid, wait_status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            status = self._children.pop(pid, None)
            if status is None:
                continue  # an orphan of a workload
            _kill_group(pid)
            if not self._children:
                _kill_orphans()
            code = os.waitstatus_to_exitcode(wait_status)
            with contextlib.suppress(OSError):
                status.sendall((f"exited {code}\n" if code >= 0 else f"killed {-code}\n").encode())
            self._selector.unregister(status)
            status.close()

    def _end(self) -> NoReturn:
        for pid in self._children:
            _kill_group(pid)
        _kill_orphans()
        os._exit(0)


def _warm() -> None:
    """Does once what every child would do: none of it is tensor work, draws a number, or depends on a task."""
    with contextlib.suppress(ImportError):
        importlib.import_module("torch.profiler._cupti_monitor")  # the first optimizer step of PyTorch 2.13 does
    for module in (torch.random, torch.cuda, torch.cuda.random):
        # Seeding notes where it was called from, lest CUDA be initialised later, and reads these sources for it.
        linecache.getlines(str(module.__file__))


def _become_child(task: Task, stdin: int, stdout: int, stderr: int) -> NoReturn:
    """Turns the fresh fork into a process of its own and performs the task there."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    os.setsid()
    for number, descriptor in enumerate((stdin, stdout, stderr)):
        os.dup2(descriptor, number)
        os.close(descriptor)
    with contextlib.suppress(OSError):
        # Where memory runs out, the workload is to go, not the audit.
        Path("/proc/self/oom_score_adj").write_text("1000")
    perform_and_exit(task)


def _kill(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def _kill_group(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def _kill_orphans() -> None:
    """Kills processes that a workload detached from its group, and that were handed to this process."""
    try:
        children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    except OSError:
        return
    for child in children:
        _kill(int(child), signal.SIGKILL)


def _prctl(option: int, value: int) -> None:
    """Asks Linux for a process setting; elsewhere there is no such call, and the closing socket has to do."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)
