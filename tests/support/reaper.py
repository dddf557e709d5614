"""Processes of a test: every wait has a deadline, and nothing that was started outlives the test.

    with Reaper() as reaper:
        process = reaper.start([PROGRAM, "argument"])
        code = reaper.wait(process)

At the end of the block whatever is left is killed, and the test fails because of it, unless
`reaper.leftovers_allowed` was set. That holds for grandchildren as well, in whatever session and with
whatever parent: this process takes in orphans (PR_SET_CHILD_SUBREAPER), so all are its descendants,
and a test runner that kills this process with all its descendants finds them.
"""

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

DEADLINE_S = 60  # of one wait; far above what a busy machine takes
KILL_S = 20
LOOK_S = 0.005
PR_SET_CHILD_SUBREAPER = 36


class Left(AssertionError):
    """Processes outlived their test."""


def find_processes():
    """(pid, parent, state) of all processes of this host."""
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, parent = entry.read_text().rpartition(")")[2].split()[:2]
        except (OSError, ValueError):
            continue  # ended while we looked
        yield int(entry.parent.name), int(parent), state


def state_of(pid):
    """As in proc(5): R, S, T (stopped), Z (dead, not yet noticed by its parent); "" if there is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""


def is_alive(pid):
    return state_of(pid) not in ("", "Z", "X")


def name_of(pid):
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def shown(pid):
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        words = []
    return f"{pid} {name_of(pid)}: {' '.join(words)}"


class Reaper:
    def __init__(self):
        self.leftovers_allowed = False
        self.started = []

    def __enter__(self):
        if ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
            raise OSError("this process cannot take in orphans")
        # Whoever ends this test early gets the same end of the block. And what is started from here
        # must not begin its life deaf to these signals, as programs in a shell's background do.
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, lambda number, _: sys.exit(128 + number))
        return self

    def __exit__(self, kind, error, trace):
        left = self.kill_all()
        if kind is None and left and not self.leftovers_allowed:
            raise Left("left behind: " + "; ".join(left))

    def start(self, command, **options):
        """As subprocess.Popen; without an input unless one is asked for."""
        options.setdefault("stdin", subprocess.DEVNULL)
        process = subprocess.Popen([str(word) for word in command], **options)
        self.started.append(process)
        return process

    def wait(self, process, seconds=DEADLINE_S):
        """The exit code; negative: the signal. As with Popen.wait, but late is a failed test."""
        try:
            return process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"still there after {seconds} s: {shown(process.pid)}") from None

    def until(self, condition, what, seconds=DEADLINE_S):
        """What `condition` returned when that was not empty, false, zero or None any more."""
        deadline = time.monotonic() + seconds
        while not (result := condition()):
            if time.monotonic() > deadline:
                raise AssertionError(f"not within {seconds} s: {what}")
            time.sleep(LOOK_S)
        return result

    def descendants(self):
        """Those alive."""
        children = {}
        for pid, parent, state in find_processes():
            children.setdefault(parent, []).append((pid, state))
        found, ancestors = [], [os.getpid()]
        for ancestor in ancestors:
            for pid, state in children.get(ancestor, []):
                ancestors.append(pid)
                if state not in ("Z", "X"):
                    found.append(pid)
        return found

    def until_nobody_is_left(self, seconds=DEADLINE_S):
        self.until(lambda: not self.descendants(), "an end of all processes", seconds)

    def kill_all(self):
        """Whoever is killed may leave children, which are ours then: again, until none is left."""
        killed = {}
        deadline = time.monotonic() + KILL_S
        while left := self.descendants():
            if time.monotonic() > deadline:
                raise Left("cannot be killed: " + "; ".join(map(shown, left)))
            for pid in left:
                killed.setdefault(pid, shown(pid))
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(LOOK_S)
        for process in self.started:
            process.wait()
            for stream in (process.stdin, process.stdout, process.stderr):
                if stream:
                    with contextlib.suppress(OSError):
                        stream.close()
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        return list(killed.values())
