#!/usr/bin/env python3
"""Ranks of `rhizome run` die, and the run goes on: its end is bit for bit that of a calm one.

    survive_test.py PROGRAM MPIRUN [OPTION ...]
"""

import os
import re
import signal
import sys
import unittest
from pathlib import Path

from trainings import (DONE, ENDLESS, HASTY, LOST, PATIENT, STOPPED, Training, is_alive)

STEPS = 8


class Surviving(Training):
    calm = None

    def setUp(self):
        super().setUp()
        if Surviving.calm is None:
            alone = self.alone()
            self.assertEqual(alone.returncode, DONE, alone.stderr)
            Surviving.calm = self.weights(alone.stdout)

    def fired(self):
        return sorted(path.name for path in (self.folder / "faults").glob("*"))

    def assert_calm_end(self, code, lost):
        """Of a run of STEPS steps that lost these ranks."""
        said = self.said()
        self.assertEqual(code, DONE, said)
        self.assertEqual(self.weights(said), Surviving.calm, said)
        self.assertEqual([each["step"] for each in self.metrics("step")], list(range(STEPS)), said)
        self.assertEqual(sorted(rank for each in self.metrics("repair") for rank in each["lost"]),
                         sorted(lost), said)
        self.assertEqual(self.errors(), [], said)
        self.assertEqual(self.marker(), "code 0\nreason all steps were done\n")
        self.assertEqual(self.reaper.descendants(), [])

    def run_with(self, faults, lost, ranks=4, **keys):
        name = re.sub(r"\W", "-", faults)
        self.folder = Path(self.home.name) / name
        keys = PATIENT | {"pipelines": "2x2", "faults": faults} | keys
        code, _ = self.run_to_end(ranks, **keys)
        self.assertEqual(self.fired(), sorted(map(str, lost)), self.said())
        self.assert_calm_end(code, lost)

    def test_a_kill_in_each_phase_of_a_step(self):
        for rank, place in [(0, "F#1"), (1, "B#2"), (2, "SS"), (0, "RS"), (1, "SP"), (2, "RP"),
                            (0, "C"), (2, "U")]:
            with self.subTest(rank=rank, place=place):
                self.run_with(f"kill@{rank}/3/{place}", [rank])
        # Where some hold what they do not own.
        for rank, place in [(0, "SW"), (1, "RW")]:
            with self.subTest(rank=rank, place=place):
                self.run_with(f"kill@{rank}/3/{place}", [rank], ranks=3, pipelines="3x1")

    def test_a_kill_in_an_evaluation(self):
        self.run_with("kill@2/*/evaluation:F", [2])

    def test_the_first_rank(self):
        self.run_with("kill@0/5/F#2", [0])

    def test_a_second_loss_in_each_phase_of_a_repair(self):
        for phase in ("open", "report", "decide", "move", "agree", "adopt"):
            with self.subTest(phase=phase):
                self.run_with(f"kill@1/3/F#1,kill@2/*/{phase}", [1, 2], owners="3")

    def test_down_to_one(self):
        self.run_with("kill@0/1/F,kill@1/2/C,kill@3/4/B", [0, 1, 3])

    def test_a_whole_pipeline_at_once(self):
        self.run_with("kill@2/4/F#1,kill@3/4/F#1", [2, 3], owners="3")

    def test_nobody_is_left_and_the_run_is_started_again(self):
        keys = PATIENT | {"pipelines": "3", "save.interval": "2",
                          "faults": "kill@0/5/F#1,kill@1/5/F#1,kill@2/5/F#1"}
        code, said = self.run_to_end(3, **keys)
        self.assertEqual(code, DONE, said)
        self.assertEqual(self.weights(said), Surviving.calm, said)
        self.assertIn("started again", said)
        # From a state, if one was whole by then.
        self.assertEqual(len(self.metrics("start")), 2, said)
        self.assertEqual(self.fired(), ["0", "1", "2"])

    def test_nobody_is_left_again_and_again(self):
        code, said = self.run_to_end(2, pipelines="2", faults="soak@1/1", restarts="2", **PATIENT)
        self.assertNotEqual(code, DONE, said)
        self.assertEqual(said.count("is started again"), 2, said)
        self.assertIn("lost 3 times in a row without a newer state", said)

    def test_no_copy_is_left_and_all_go_back_to_the_newest_state(self):
        self.folder = Path(self.home.name) / "back"
        keys = PATIENT | {"pipelines": "3", "owners": "1", "save.interval": "2",
                          "faults": "kill@1/6/F#1"}
        code, said = self.run_to_end(3, **keys)
        self.assertEqual(code, DONE, said)
        self.assertEqual(self.weights(said), Surviving.calm, said)
        repair, = self.metrics("repair")
        self.assertEqual(repair["rung"], 6)
        self.assertGreater(repair["steps_again"], 0)

    def test_a_loss_while_parts_of_the_end_are_done_again(self):
        self.run_with("kill@1/*/end", [1])

    def test_one_who_leaves_by_itself(self):
        for how in ("exit", "abort"):
            with self.subTest(how=how):
                self.run_with(f"{how}@1/4/F#1", [1])

    def test_one_who_is_stopped(self):
        # Its watch kills it then.
        self.run_with("stop@1/4/F#1", [1])

    def test_a_kill_from_outside(self):
        process = self.start(4, pipelines="2x2", **ENDLESS, **PATIENT)
        self.wait_for_steps()
        victim = self.recorded("rank.0")
        os.kill(victim, signal.SIGKILL)
        self.reaper.until(lambda: self.metrics("repair"), f"the repair: {self.said()}")
        self.assertFalse(is_alive(victim))
        done = len(self.metrics("step"))
        self.reaper.until(lambda: len(self.metrics("step")) > done + 3, f"more steps: {self.said()}")
        process.send_signal(signal.SIGINT)
        self.assertEqual(self.reaper.wait(process), STOPPED, self.said())
        self.assertEqual(self.reaper.descendants(), [])

    def parent(self, pid):
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])

    def test_a_proxy_or_a_watch_is_killed(self):
        # Either costs its own rank at most.
        for name, above in [("watch", 1), ("proxy", 2)]:
            with self.subTest(killed=name):
                self.folder = Path(self.home.name) / name
                process = self.start(3, pipelines="3", **ENDLESS, **PATIENT)
                self.wait_for_steps()
                pid = self.recorded("rank.1")
                for _ in range(above):
                    pid = self.parent(pid)
                os.kill(pid, signal.SIGKILL)
                self.reaper.until(lambda pid=pid: not is_alive(pid), "its death")
                done = len(self.metrics("step"))
                self.reaper.until(lambda done=done: len(self.metrics("step")) > done + 50,
                                  f"more steps: {self.said()}")
                lost = [rank for each in self.metrics("repair") for rank in each["lost"]]
                self.assertIn(lost, ([], [1]), self.said())
                process.send_signal(signal.SIGINT)
                self.assertEqual(self.reaper.wait(process), STOPPED, self.said())
                self.reaper.until_nobody_is_left()

    def test_a_rank_and_its_watch_that_are_stopped(self):
        # Nobody kills the rank; only the others' patience is left, and they cannot tell who is to
        # blame: each of them leaves, and the run ends without a word.
        process = self.start(3, pipelines="3", restarts="0", **ENDLESS, **HASTY)
        self.wait_for_steps()
        victim = self.recorded("rank.1")
        os.kill(self.parent(victim), signal.SIGSTOP)
        os.kill(victim, signal.SIGSTOP)
        self.assertEqual(self.reaper.wait(process, 120), LOST, self.said())
        self.assertIn("no worker could go on (the others did not answer", self.said())
        self.reaper.until_nobody_is_left()


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]], verbosity=2, defaultTest=os.environ.get("ONLY"))
