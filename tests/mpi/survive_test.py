#!/usr/bin/env python3
"""Ranks of `rhizome run` die, and the run goes on: its end is bit for bit that of a calm one.

    survive_test.py PROGRAM MPIRUN [OPTION ...]
"""

import os
import re
import resource
import signal
import sys
import unittest
from pathlib import Path
from types import MappingProxyType

from trainings import (DONE, ENDLESS, HASTY, LOST, PATIENT, PAUSE, STOPPED, CalmEnd, is_alive, name_of,
                       state_of)


# Where three workers in one pipeline are faster than two, and lanes can be shared out.
DEEP = {"model.blocks": "4", "microbatches": "8", "lanes": "4"}


class Surviving(CalmEnd):
    def run_with(self, faults, lost, ranks=4, network=MappingProxyType({}), **keys):
        name = re.sub(r"\W", "-", faults)
        self.folder = Path(self.home.name) / name
        keys = PATIENT | {"pipelines": "2x2", "faults": faults} | keys | network
        code, _ = self.run_to_end(ranks, **keys)
        self.assertEqual(self.fired(), sorted(map(str, lost)), self.said())
        self.assert_calm_end(code, lost, network=network)

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

    def test_a_pipeline_that_lost_nobody_keeps_what_it_has_done(self):
        # The other one is stopped at its beginning and found out when this one waits for its sums.
        self.run_with("stop@3/3/F#0", [3], network=DEEP)
        repair, = self.metrics("repair")
        self.assertEqual((repair["rung"], repair["lanes_kept"], repair["steps"]), (2, 2, 3), repair)
        replan, = self.metrics("replan")
        self.assertEqual((replan["rung"], replan["steps"]), (3, 4), replan)
        self.assertGreater(replan["bytes"], 0)

    def test_a_second_loss_while_the_new_shape_is_taken(self):
        for phase in ("report", "decide", "move", "agree", "adopt"):
            with self.subTest(phase=phase):
                self.run_with(f"stop@3/3/F#0,kill@1/4/{phase}", [1, 3], network=DEEP, owners="3")
                self.assertEqual(self.metrics("repair")[0]["rung"], 2)

    def test_a_second_loss_at_the_end_of_the_rest(self):
        # Where the step does not come to while a rank is stopped.
        for place in ("C", "U"):
            with self.subTest(place=place):
                self.run_with(f"stop@3/3/F#0,kill@1/3/{place}", [1, 3], network=DEEP, owners="3")
                self.assertEqual(self.metrics("repair")[0]["lanes_kept"], 2)

    def test_down_to_one(self):
        self.run_with("kill@0/1/F,kill@1/2/C,kill@3/4/B", [0, 1, 3])

    def test_more_losses_than_it_was_ready_for(self):
        # Ready for one; a moment is calm as soon as a step is done.
        few = {"losses.in_a_row": "1", "losses.calm_s": "0", "owners": "all"}
        self.run_with("kill@0/1/F#1,kill@1/3/F#1,kill@3/5/C,kill@2/7/F#1", [0, 1, 2, 3], ranks=5, **few)
        self.assertEqual([each["steps"] for each in self.metrics("renewal")], [2, 4, 6])

    def test_a_loss_while_it_makes_itself_ready(self):
        few = {"losses.in_a_row": "3", "losses.calm_s": "0", "owners": "all"}
        self.run_with("kill@0/1/F#1,kill@1/2/F#1,kill@3/*/renew", [0, 1, 3], ranks=5, **few)
        self.assertEqual([each["steps"] for each in self.metrics("renewal")], [3])

    def test_a_loss_while_communicators_are_made(self):
        # It may take others along inside MPI, or all: then the run is started again.
        self.folder = Path(self.home.name) / "making"
        keys = PATIENT | {"pipelines": "2x2", "owners": "all", "losses.in_a_row": "3", "losses.calm_s": "0",
                          "faults": "kill@0/1/F#1,kill@3/*/renewing"}
        code, said = self.run_to_end(5, **keys)
        self.assertEqual(code, DONE, said)
        self.assertEqual(self.weights(said), self.calm(), said)
        self.assertEqual(self.fired(), ["0", "3"])

    def test_more_losses_in_a_row_than_it_was_ready_for(self):
        reason = r"more losses came in a row than it was ready for"
        for restarts in ("0", "1"):
            with self.subTest(restarts=restarts):
                self.folder = Path(self.home.name) / f"row{restarts}"
                keys = PATIENT | {"pipelines": "2x2", "owners": "all", "losses.in_a_row": "1",
                                  "restarts": restarts, "faults": "kill@1/3/F#1,kill@0/*/adopt"}
                code, said = self.run_to_end(4, **keys)
                self.assertEqual(self.fired(), ["0", "1"])
                end = self.metrics("end")[0]  # told by one who lives, though the first is gone
                self.assertEqual((end["code"], end["steps"]), (LOST, 3))
                self.assertRegex(end["reason"], reason)
                self.assertRegex(said, reason)
                self.assertEqual(code, DONE if restarts == "1" else LOST, said)
                if restarts == "1":
                    self.assertIn("is started again", said)
                    self.assertEqual(self.weights(said), self.calm(), said)

    def test_a_whole_pipeline_at_once(self):
        self.run_with("kill@2/4/F#1,kill@3/4/F#1", [2, 3], owners="3")

    def test_nobody_is_left_and_the_run_is_started_again(self):
        keys = PATIENT | {"pipelines": "3", "save.interval": "2",
                          "faults": "kill@0/5/F#1,kill@1/5/F#1,kill@2/5/F#1"}
        code, said = self.run_to_end(3, **keys)
        self.assertEqual(code, DONE, said)
        self.assertEqual(self.weights(said), self.calm(), said)
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
        self.assertEqual(self.weights(said), self.calm(), said)
        repair, = self.metrics("repair")
        self.assertEqual(repair["rung"], 6)
        self.assertGreater(repair["steps_again"], 0)

    def test_going_back_removes_nothing_that_somebody_may_be_writing(self):
        process = self.start(3, pipelines="3", owners="1", **{"save.interval": "0"}, **ENDLESS, **PATIENT)
        self.wait_for_steps()
        part = self.folder / "states" / ".step-00000001.part"
        part.mkdir(parents=True)
        (part / "of somebody").touch()
        os.kill(self.recorded("rank.1"), signal.SIGKILL)
        self.reaper.until(lambda: self.metrics("repair"), f"the repair: {self.said()}")
        self.assertEqual(self.metrics("repair")[0]["rung"], 6)
        self.assertTrue((part / "of somebody").exists())
        process.send_signal(signal.SIGINT)
        self.assertEqual(self.reaper.wait(process), STOPPED, self.said())
        self.assertFalse(part.exists())  # the next save does it

    def test_a_loss_while_parts_of_the_end_are_done_again(self):
        self.run_with("kill@1/*/end", [1])

    def test_one_who_leaves_by_itself(self):
        for how in ("exit", "abort"):
            with self.subTest(how=how):
                self.run_with(f"{how}@1/4/F#1", [1])

    def test_one_who_is_stopped(self):
        # Its watch kills it then.
        self.run_with("stop@1/4/F#1", [1])

    def test_one_who_is_stopped_in_a_repair(self):
        # Where the others wait for it in an agreement, as long as a repair may take.
        for phase in ("open", "agree"):
            with self.subTest(phase=phase):
                self.run_with(f"kill@1/3/F#1,stop@2/*/{phase}", [1, 2], owners="3")

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

    def kill_above(self, levels, name):
        """Whoever is so far above rank 1."""
        pid = self.recorded("rank.1")
        for _ in range(levels):
            pid = self.parent(pid)
        self.assertEqual(name_of(pid), name)
        os.kill(pid, signal.SIGKILL)
        self.reaper.until(lambda: not is_alive(pid), "its death")

    def test_a_watch_is_killed(self):
        process = self.pause()
        self.kill_above(1, "rhizome-watch")
        self.assert_calm_end(self.go_on(process), [1])

    def test_a_proxy_is_killed(self):
        # The launcher tells the others that its rank is dead, and they go on. It lives, and when they
        # have left it has to see that the run is not its own.
        process = self.pause()
        self.kill_above(2, "rhizome-proxy")
        self.reaper.until(self.lost, f"the repair: {self.said()}")
        self.assertEqual(state_of(self.recorded("rank.1")), "T")
        code = self.go_on(process)
        errors = self.errors()  # mpirun may be gone before it could pass them on
        for error in errors:
            self.assertRegex(error, r"worker 1 leaves .* \(epoch 1 of .* was opened by others: members 0 2 3")
        self.assert_calm_end(code, [1], errors)

    def test_one_who_runs_out_of_memory(self):
        # While it is paused, its limit is lowered to nothing. All that is not small is asked of the
        # system, so the next such wish ends it.
        keys = {"model.channels": "64", "owners": "3", "save.interval": "6"}
        for what, faults, lost in [("step", PAUSE, [1]), ("save", "stop@1/*/save", [1]),
                                   ("repair", "kill@0/3/F#1,stop@1/*/decide", [0, 1])]:
            with self.subTest(what=what):
                self.folder = Path(self.home.name) / what
                process = self.pause(faults=faults, environment={"MALLOC_MMAP_THRESHOLD_": "4096"}, **keys)
                resource.prlimit(self.recorded("rank.1"), resource.RLIMIT_AS, (0, 0))
                code = self.go_on(process)
                errors = self.errors()  # none where a sanitizer says it instead
                for error in errors:
                    self.assertRegex(error, r"\Aerror: out of memory \(")
                self.assert_calm_end(code, lost, errors, network=keys)

    def test_a_sigpipe_to_everybody_is_nothing(self):
        # As one gets it who writes to a rank that has just died.
        process = self.pause()
        for rank in range(4):
            os.kill(self.recorded(f"rank.{rank}"), signal.SIGPIPE)
        self.assert_calm_end(self.go_on(process), [])

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
