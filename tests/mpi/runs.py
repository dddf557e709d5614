"""What tests of runs as real processes have in common. Ranks are those of run_stub.cpp; launcher,
`stop` and `save` are the product's. The program's words are: STUB MPIRUN [OPTION ...]
"""

import os
import re
import signal
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))
from reaper import Reaper, is_alive, name_of  # noqa: E402

STUB, MPIRUN, *OPTIONS = sys.argv[1:]
RANKS = 3
DONE, BAD_CONFIG, STOPPED, UNFINISHED = 0, 2, 6, 7
GRACE_MS = 60_000


class Runs(unittest.TestCase):
    def setUp(self):
        self.home = tempfile.TemporaryDirectory(prefix="run")
        self.addCleanup(self.home.cleanup)
        self.reaper = Reaper().__enter__()
        self.addCleanup(self.reaper.__exit__, None, None, None)
        self.folder = Path(self.home.name) / "run"
        self.log = Path(self.home.name) / "log"
        # One host: the loopback device will do, and no other network is touched.
        self.environment = dict(os.environ, TMPDIR=self.home.name, OMPI_ALLOW_RUN_AS_ROOT="1",
                                OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", OMPI_MCA_btl_tcp_if_include="lo")

    def start(self, fault="none", grace_ms=GRACE_MS, mpirun=MPIRUN, **options):
        command = [mpirun, *OPTIONS, "--bind-to", "none", "--map-by", ":OVERSUBSCRIBE", "-n", RANKS,
                   STUB, "rank", self.folder, "RUN", fault]
        with open(self.log, "wb") as log:
            self.launcher = self.reaper.start([STUB, "launch", self.folder, grace_ms, *command],
                                              stdout=log, stderr=log, env=self.environment, **options)

    def start_and_wait_for_steps(self, **options):
        self.start(**options)
        self.wait_for_steps()

    def wait_for_steps(self, more=3):
        """Of every rank that lives."""
        goals = {rank: self.step(rank) + more for rank in range(RANKS)
                 if not self.recorded(f"rank.{rank}") or is_alive(self.recorded(f"rank.{rank}"))}
        self.reaper.until(lambda: all(self.step(rank) >= goal for rank, goal in goals.items()),
                          f"{more} more steps: {self.said()}")

    def step(self, rank):
        try:
            return int((self.folder / f"step.{rank}").read_text())
        except FileNotFoundError:
            return 0

    def recorded(self, name):
        try:
            return int(re.search(r"(?m)^pid (\d+)$", (self.folder / "processes" / name).read_text())[1])
        except FileNotFoundError:
            return 0

    def proxies(self):
        return [pid for pid in self.reaper.descendants() if name_of(pid) == "rhizome-proxy"]

    def said(self):
        return self.log.read_text(errors="replace")

    def wait_until_said(self, text):
        self.reaper.until(lambda: text in self.said(), f"`{text}` in the log")

    def enough(self):
        (self.folder / "enough").touch()

    def run_stop(self, *words):
        return self.run_stub("stop", *words)

    def run_stub(self, *words):
        return subprocess.run([STUB, *map(str, words)], capture_output=True, text=True, timeout=60,
                              check=False)

    def kill_launcher(self):
        self.launcher.kill()
        self.reaper.wait(self.launcher)

    def kill_rank(self, rank):
        pid = self.recorded(f"rank.{rank}")
        os.kill(pid, signal.SIGKILL)
        self.reaper.until(lambda: not is_alive(pid), "the death of a rank")

    def kill_everybody(self):
        for pid in self.reaper.descendants():
            os.kill(pid, signal.SIGKILL)
        self.reaper.until_nobody_is_left()

    def start_again(self):
        """Where a run was; the next one counts its steps from its own beginning."""
        for name in ("enough", *(f"step.{rank}" for rank in range(RANKS))):
            (self.folder / name).unlink(missing_ok=True)
        self.start()
        self.reaper.until(lambda: self.recorded("launcher") == self.launcher.pid, "the next run's launcher")
        self.wait_for_steps()

    def states(self):
        return sorted(path.name for path in (self.folder / "states").glob("step-*"))

    def assert_launcher_ends(self, code, marker=None):
        """With that code; nobody is left; `marker` is a pattern for the run's last word."""
        self.assertEqual(self.reaper.wait(self.launcher), code, self.said())
        self.assertEqual(self.reaper.descendants(), [])
        self.assert_marker(marker)

    def assert_marker(self, pattern):
        marker = self.folder / "finished"
        if pattern is None:
            self.assertFalse(marker.exists())
        else:
            self.assertRegex(marker.read_text(), rf"\A{pattern}\n\Z")
