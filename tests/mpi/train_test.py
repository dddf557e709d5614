#!/usr/bin/env python3
"""`rhizome run` with ranks that train: one result, clear errors, and an end in every case.

    train_test.py PROGRAM MPIRUN [OPTION ...]
"""

import os
import re
import signal
import subprocess
import sys
import unittest
from pathlib import Path

from trainings import (BAD_CONFIG, BAD_DATA, DIVERGED, DONE, ENDLESS, MPIRUN, OPTIONS, PROGRAM,
                       STOPPED, Training, is_alive)


class OneResult(Training):
    def test_of_several_ranks_is_that_of_one_process(self):
        alone = self.alone("--digest")
        self.assertEqual(alone.returncode, DONE, alone.stderr)
        for name, ranks, layout in [("a", 4, {"pipelines": "2x2"}),
                                    ("b", 5, {"pipelines": "3,2", "style": "zb-h1", "owners": "all"}),
                                    ("c", 3, {"pipelines": "3", "cut": "1,4", "recompute": "all"}),
                                    ("d", 2, {"pipelines": "2", "device": "paced",
                                              "pace.flops_per_s": "1e8"})]:
            with self.subTest(layout=layout):
                self.folder = Path(self.home.name) / name
                code, said = self.run_to_end(ranks, "--digest", **layout)
                self.assertEqual(code, DONE, said)
                self.assertEqual(self.digests(said), self.digests(alone.stdout))
                self.assertEqual(self.weights(said), self.weights(alone.stdout))
                self.assertEqual(self.marker(), "code 0\nreason all steps were done\n")
                self.assertEqual(re.findall(r"step +8/8  loss \S+", said),
                                 re.findall(r"step +8/8  loss \S+", alone.stdout))

    def test_comes_with_spares_named(self):
        code, said = self.run_to_end(4, pipelines="1,1")
        self.assertEqual(code, DONE, said)
        self.assertRegex(said, r"warning: .*spares: 2, 3")

    def test_is_printed_in_lines_where_nobody_watches(self):
        code, said = self.run_to_end(2, pipelines="2")
        self.assertEqual(code, DONE, said)
        self.assertNotIn("\x1b", said)
        self.assertEqual(len(re.findall(r"(?m)^step +\d/8  loss", said)), 8, said)


class BadInput(Training):
    def expect_error(self, code, pattern, ranks, **keys):
        found, said = self.run_to_end(ranks, **keys)
        self.assertEqual(found, code, said)
        self.assertEqual(len(self.errors()), 1, said)
        self.assertRegex(self.errors()[0], pattern)

    def test_more_stages_than_layers(self):
        self.expect_error(BAD_CONFIG, r"stages=6 .*5 layers", 6, pipelines="6")

    def test_more_pipelines_than_lanes(self):
        self.expect_error(BAD_CONFIG, r"pipelines=4x1 .*lanes=3", 4, pipelines="4x1")

    def test_fewer_ranks_than_the_shape_needs(self):
        self.expect_error(BAD_CONFIG, r"--ranks=3 .*pipelines=2x2 needs 4", 3, pipelines="2x2")

    def test_a_cut_that_does_not_fit(self):
        self.expect_error(BAD_CONFIG, r"cut=", 2, pipelines="2", cut="1,2")

    def test_data_that_are_not_there(self):
        self.expect_error(BAD_DATA, r"nowhere\.txt", 3, pipelines="3",
                          **{"data.train": str(self.text.with_name("nowhere.txt"))})

    def test_bounds_out_of_order(self):
        self.expect_error(BAD_CONFIG, r"bounds\.stopped_s=50.*bounds\.stuck_s", 2,
                          **{"bounds.stopped_s": "50", "bounds.stuck_s": "20"})

    def test_diverging_is_said_once(self):
        self.expect_error(DIVERGED, r"training diverged", 3, pipelines="3",
                          **{"optimizer.learning_rate": "1e30", "optimizer.clip_norm": "0"})
        self.assertRegex(self.marker(), r"\Acode 4\n")

    def test_an_mpi_that_was_started_without_ulfm(self):
        log = Path(self.home.name) / "log"
        with open(log, "wb") as output:
            process = self.reaper.start(
                [MPIRUN, "--bind-to", "none", "--map-by", ":OVERSUBSCRIBE", "-n", "2", PROGRAM, "train",
                 *self.flags(pipelines="2")], stdout=output, stderr=output,
                env=self.environment | {"OMPI_ALLOW_RUN_AS_ROOT": "1",
                                        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"})
            self.reaper.wait(process)
        self.reaper.until_nobody_is_left()
        self.assertRegex(log.read_text(), r"error: .*ULFM|error: .*ulfm")

    def test_a_scheduler_that_meant_several_tasks(self):
        found = self.alone(environment={"SLURM_NTASKS": "4"})
        self.assertEqual(found.returncode, BAD_CONFIG)
        self.assertRegex(found.stderr, r"error: SLURM_NTASKS=4 .*rhizome run")
        self.assertEqual(self.alone(environment={"SLURM_NTASKS": "1"}).returncode, DONE)

    def test_a_scheduler_that_contradicts_mpi_is_named_once(self):
        # As under srun, where no mpirun has said how many there are.
        self.output = Path(self.home.name) / "output"
        with open(self.output, "wb") as output:
            process = self.reaper.start(
                [MPIRUN, *OPTIONS, "--bind-to", "none", "--map-by", ":OVERSUBSCRIBE", "-n", "2",
                 "env", "-u", "OMPI_COMM_WORLD_SIZE", PROGRAM, "train", *self.flags(pipelines="2")],
                stdout=output, stderr=output,
                env=self.environment | {"OMPI_ALLOW_RUN_AS_ROOT": "1", "SLURM_NTASKS": "7",
                                        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"})
            self.assertEqual(self.reaper.wait(process), DONE, self.said())
        self.reaper.until_nobody_is_left()
        self.assertEqual(self.said().count("SLURM_NTASKS=7 does not fit the 2 workers"), 1, self.said())

    def test_a_scheduler_is_passed_over_where_mpirun_is_nearer(self):
        process = self.start(2, pipelines="2", environment={"SLURM_NTASKS": "7",
                                                            "SLURM_STEP_NUM_TASKS": "7"})
        self.assertEqual(self.reaper.wait(process), DONE, self.said())
        self.assertIn("1 pipeline, 2 workers", self.said())
        self.assertNotIn("SLURM", self.said())


class Ending(Training):
    def test_when_asked(self):
        process = self.start(3, pipelines="3", **ENDLESS)
        self.wait_for_steps()
        process.send_signal(signal.SIGINT)
        self.assertEqual(self.reaper.wait(process), STOPPED, self.said())
        self.assertRegex(self.marker(), r"\Acode 6\nreason stopped after \d+ steps")
        self.assertEqual(self.reaper.descendants(), [])

    def test_when_mpirun_dies(self):
        process = self.start(2, pipelines="2", steps="3000")
        self.wait_for_steps()
        os.kill(self.recorded("mpirun"), signal.SIGKILL)
        self.assertEqual(self.reaper.wait(process), DONE, self.said())
        self.assertEqual(self.marker(), "code 0\nreason all steps were done\n")
        self.assertIn("mpirun is gone (signal 9)", self.said())
        self.assertEqual(self.reaper.descendants(), [])


class Folder(Training):
    """Of runs that `rhizome run` did not start."""

    def start_alone(self, **keys):
        self.output = Path(self.home.name) / "output"
        with open(self.output, "wb") as output:
            return self.reaper.start([PROGRAM, "train", "--folder", str(self.folder), *self.flags(**keys)],
                                     stdout=output, stderr=output, env=self.environment)

    def test_of_one_process_is_ended_in_order_and_then_taken_over(self):
        process = self.start_alone(**ENDLESS)
        self.wait_for_steps()
        self.assertEqual(self.recorded("rank.0"), process.pid)
        second = self.alone("--folder", str(self.folder))
        self.assertEqual(second.returncode, BAD_CONFIG)
        self.assertRegex(second.stderr, r"\Aerror: run folder .* \(a run is going on in it: rank\.0 pid ")
        process.send_signal(signal.SIGTERM)
        self.assertEqual(self.reaper.wait(process), STOPPED, self.said())
        self.assertRegex(self.marker(), r"\Acode 6\nreason stopped after \d+ steps")
        self.assertEqual(self.said().count("the run has ended: stopped after"), 1, self.said())
        newest = self.states()[-1]
        third = self.start_alone(**ENDLESS)
        self.reaper.until(lambda: f"goes on from {self.folder}/states/{newest}" in self.said(), "its states")
        third.send_signal(signal.SIGINT)
        self.assertEqual(self.reaper.wait(third), STOPPED, self.said())
        self.assertGreater(self.states()[-1], newest)

    def states(self):
        return sorted(path.name for path in (self.folder / "states").glob("step-*"))

    def wait_for_more_steps(self, more=10):
        def last():
            return int(re.findall(r"step +(\d+)/", self.said())[-1])
        goal = last() + more
        self.reaper.until(lambda: last() >= goal, f"{more} more steps: {self.said()}")

    def assert_saves_when_asked(self, process):
        """By signal and by command, each time once; with no other saves."""
        self.wait_for_steps()
        process.send_signal(signal.SIGUSR1)
        self.reaper.until(self.states, "a state")
        self.wait_for_more_steps()
        self.assertEqual(len(self.states()), 1)
        saved = subprocess.run([PROGRAM, "save", str(self.folder)], capture_output=True, text=True,
                               timeout=60, check=False)
        self.assertEqual(saved.returncode, DONE, saved.stderr)
        self.wait_for_more_steps()
        self.assertEqual(len(self.states()), 2)
        self.assertEqual(saved.stderr, f"{self.folder}/states has a state of "
                                       f"{int(self.states()[-1].removeprefix('step-'))} steps\n")
        process.send_signal(signal.SIGINT)
        self.assertEqual(self.reaper.wait(process), STOPPED, self.said())

    def test_of_one_process_gets_states_when_asked(self):
        self.assert_saves_when_asked(self.start_alone(**ENDLESS, **{"save.interval": "0"}))

    def test_of_several_ranks_gets_states_when_asked(self):
        self.assert_saves_when_asked(self.start(2, pipelines="2", **ENDLESS, **{"save.interval": "0"}))

    def test_of_one_process_has_its_mistakes_said_once(self):
        for keys, code in (({"data.train": "/nowhere"}, BAD_DATA),
                           ({"optimizer.learning_rate": "1e30", "optimizer.clip_norm": "0"}, DIVERGED)):
            found = self.alone("--folder", str(self.folder), **keys)
            self.assertEqual(found.returncode, code, found.stderr)
            self.assertRegex(found.stderr, r"\Aerror: [^\n]*\n\Z")
            self.assertRegex(self.marker(), rf"\Acode {code}\n")

    def start_with_mpirun(self, ranks, **keys):
        self.output = Path(self.home.name) / "output"
        with open(self.output, "wb") as output:
            return self.reaper.start(
                [MPIRUN, *OPTIONS, "--bind-to", "none", "--map-by", ":OVERSUBSCRIBE", "-n", str(ranks),
                 PROGRAM, "train", "--folder", str(self.folder), *self.flags(**keys)],
                stdout=output, stderr=output,
                env=self.environment | {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"})

    def test_of_a_plain_mpirun_is_made_by_its_first_rank(self):
        process = self.start_with_mpirun(2, pipelines="2", **ENDLESS)
        self.wait_for_steps()
        for rank in range(2):
            self.assertTrue(is_alive(self.recorded(f"rank.{rank}")))
        second = self.alone("--folder", str(self.folder))
        self.assertEqual(second.returncode, BAD_CONFIG)
        self.assertIn("(a run is going on in it: rank.0 pid ", second.stderr)
        (self.folder / "stop").touch()
        self.reaper.wait(process)
        self.reaper.until_nobody_is_left()
        self.assertRegex(self.marker(), r"\Acode 6\nreason stopped after \d+ steps")
        steps = int(self.states()[-1].removeprefix("step-")) + 3
        again = self.start_with_mpirun(2, pipelines="2", steps=str(steps))
        self.assertEqual(self.reaper.wait(again), DONE, self.said())
        self.assertEqual(self.marker(), "code 0\nreason all steps were done\n")
        self.assertIn("goes on from", self.said())

    def test_that_a_plain_mpirun_cannot_have_is_said_once(self):
        alone = self.start_alone(**ENDLESS)
        self.wait_for_steps()
        process = self.start_with_mpirun(2, pipelines="2")
        self.assertNotEqual(self.reaper.wait(process), DONE)
        self.assertEqual(len(self.errors()), 1, self.said())
        self.assertIn("(a run is going on in it: rank.0 pid", self.errors()[0])
        alone.send_signal(signal.SIGINT)
        self.assertEqual(self.reaper.wait(alone), STOPPED)
        self.reaper.until_nobody_is_left()


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]], verbosity=2)
