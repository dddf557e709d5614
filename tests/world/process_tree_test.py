"""Proxy, watch and rank, as real processes: who dies with whom, and who with nobody.

    process_tree_test.py STUB
"""

import os
import re
import resource
import signal
import subprocess
import sys
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))
from reaper import Reaper, is_alive, name_of, state_of  # noqa: E402

STUB = sys.argv[1]
LONG_MS = 600_000
STUCK_MS = 2_000  # whoever a busy machine keeps waiting must not look stuck
# A sanitizer would take some signals, and the core file, for itself.
ENVIRONMENT = dict(os.environ, **{f"{name}_OPTIONS": "disable_coredump=0:handle_segv=0:handle_abort=0"
                                  for name in ("ASAN", "TSAN", "UBSAN")})


class Tree:
    def __init__(self, reaper, stopped_ms, stuck_ms):
        self.reaper = reaper
        self.process = reaper.start([STUB, stopped_ms, stuck_ms], stdin=subprocess.PIPE,
                                    stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, bufsize=1,
                                    start_new_session=True, env=ENVIRONMENT)
        self.proxy = self.process.pid
        self.rank, self.watch = map(int, self.process.stdout.readline().split())
        # The rank may be faster than those who start it.
        for pid, name in [(self.proxy, "rhizome-proxy"), (self.watch, "rhizome-watch")]:
            reaper.until(lambda pid=pid, name=name: name_of(pid) == name, name)

    def tell(self, line):
        self.process.stdin.write(line + "\n")

    def ask(self, line):
        self.tell(line)
        return self.process.stdout.readline().strip()

    def code(self):
        return self.reaper.wait(self.process)

    def said(self):
        return self.process.stderr.read()


class ProcessTree(unittest.TestCase):
    def setUp(self):
        self.reaper = Reaper().__enter__()
        self.addCleanup(self.reaper.__exit__, None, None, None)

    def tree(self, stopped_ms=LONG_MS, stuck_ms=2 * LONG_MS):
        return Tree(self.reaper, stopped_ms, stuck_ms)

    def assert_ended(self, tree, code):
        self.assertEqual(tree.code(), code)
        self.reaper.until_nobody_is_left()
        for pid in (tree.rank, tree.watch):
            self.assertFalse(is_alive(pid))

    def test_three_processes_in_two_sessions(self):
        tree = self.tree()
        self.assertEqual(len({tree.proxy, tree.watch, tree.rank}), 3)
        self.assertEqual(os.getsid(tree.watch), tree.watch)
        self.assertEqual(os.getsid(tree.rank), tree.watch)
        self.assertNotEqual(os.getpgid(tree.rank), os.getpgid(tree.proxy))
        tree.tell("exit 0")
        self.assert_ended(tree, 0)

    def test_exit_codes_pass_through(self):
        for code in (0, 3, 7, 255):
            tree = self.tree()
            tree.tell(f"exit {code}")
            self.assert_ended(tree, code)
            self.assertEqual(tree.said(), "")

    def test_deaths_pass_through(self):
        for number in (signal.SIGABRT, signal.SIGSEGV, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL):
            tree = self.tree()
            tree.tell(f"raise {number}")
            self.assert_ended(tree, -number)

    def test_only_the_rank_may_dump_core(self):
        soft, hard = resource.getrlimit(resource.RLIMIT_CORE)
        if hard == 0:
            self.skipTest("core files are forbidden here")
        resource.setrlimit(resource.RLIMIT_CORE, (hard, hard))
        self.addCleanup(resource.setrlimit, resource.RLIMIT_CORE, (soft, hard))
        tree = self.tree()
        self.assertNotEqual(tree.ask("limit"), "0")
        for pid in (tree.proxy, tree.watch):
            limits = Path(f"/proc/{pid}/limits")
            self.reaper.until(lambda limits=limits: re.search(r"Max core file size +0 +0 ",
                                                              limits.read_text()), "no core file")
        tree.tell("exit 0")
        self.assert_ended(tree, 0)

    def test_signals_at_the_proxy_end_nobody(self):
        tree = self.tree()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1,
                       signal.SIGUSR2, signal.SIGTSTP):
            os.killpg(tree.proxy, number)  # as a launcher does
            self.assertEqual(tree.ask("ping"), "pong")
        self.assertEqual(state_of(tree.proxy), "S")
        tree.tell("exit 3")
        self.assert_ended(tree, 3)

    def test_a_killed_proxy_leaves_watch_and_rank_alive(self):
        tree = self.tree()
        os.kill(tree.proxy, signal.SIGKILL)
        self.assertEqual(tree.code(), -signal.SIGKILL)
        self.assertEqual(tree.ask("ping"), "pong")
        self.assertTrue(is_alive(tree.watch))
        tree.tell("exit 0")
        self.reaper.until_nobody_is_left()

    def test_a_rank_dies_with_its_watch(self):
        tree = self.tree()
        os.kill(tree.watch, signal.SIGKILL)
        self.assert_ended(tree, -signal.SIGKILL)

    def test_a_rank_that_is_stopped_is_killed(self):
        tree = self.tree(stopped_ms=300)
        begin = time.monotonic()
        os.kill(tree.rank, signal.SIGSTOP)
        self.assert_ended(tree, -signal.SIGKILL)
        self.assertGreaterEqual(time.monotonic() - begin, 0.3)
        self.assertRegex(tree.said(), rf"\Awarning: process {tree.rank} .*\(stopped .* 0\.3 s\), .*\n\Z")

    def test_a_rank_that_is_continued_lives(self):
        tree = self.tree(stopped_ms=LONG_MS)
        for _ in range(3):
            os.kill(tree.rank, signal.SIGSTOP)
            self.reaper.until(lambda: state_of(tree.rank) == "T", "a stopped rank")
            os.kill(tree.rank, signal.SIGCONT)
            self.assertEqual(tree.ask("ping"), "pong")
        tree.tell("exit 0")
        self.assert_ended(tree, 0)

    def test_a_rank_that_is_stuck_is_killed(self):
        tree = self.tree(stopped_ms=100, stuck_ms=STUCK_MS)
        begin = time.monotonic()
        tree.tell("hang")
        self.assert_ended(tree, -signal.SIGKILL)
        # Its last beat may have been a while ago, if the machine had other things to do.
        self.assertGreaterEqual(time.monotonic() - begin, STUCK_MS / 2000)
        self.assertIn("(stuck ", tree.said())

    def test_a_rank_that_waits_is_not_stuck(self):
        tree = self.tree(stopped_ms=100, stuck_ms=STUCK_MS)
        tree.tell(f"wait {LONG_MS}")
        end = time.monotonic() + 1.5 * STUCK_MS / 1000
        self.reaper.until(lambda: time.monotonic() > end, "time")
        self.assertEqual(tree.ask("ping"), "pong")
        tree.tell("exit 0")
        self.assert_ended(tree, 0)

    def test_nobody_waits_for_ever(self):
        tree = self.tree(stopped_ms=100, stuck_ms=STUCK_MS)
        begin = time.monotonic()
        tree.tell("wait 1000")
        self.assert_ended(tree, -signal.SIGKILL)
        self.assertGreaterEqual(time.monotonic() - begin, 1 + STUCK_MS / 2000)

    def test_the_watch_does_not_wait_for_whoever_should_read_what_it_says(self):
        tree = self.tree(stopped_ms=100, stuck_ms=STUCK_MS)
        # The stub writes nothing to standard error, so this fills the pipe that its watch would use.
        with open(f"/proc/{tree.rank}/fd/2", "wb", buffering=0, opener=lambda path, _: os.open(
                path, os.O_WRONLY | os.O_NONBLOCK)) as pipe:
            while pipe.write(b"x" * 4096):
                pass
        tree.tell("hang")
        self.assert_ended(tree, -signal.SIGKILL)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]])
