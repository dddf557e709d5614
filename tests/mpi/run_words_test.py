"""The folder of a run of real processes: who owns it, who takes it over, and words for saves.

    run_words_test.py STUB MPIRUN [OPTION ...]
"""

import os
import signal
import subprocess
import sys
import unittest

from runs import BAD_CONFIG, DONE, GRACE_MS, RANKS, STOPPED, STUB, UNFINISHED, Runs


class OneOwner(Runs):
    def assert_refused(self, who):
        """A second run in the folder; the first does not notice."""
        for words in (["launch", self.folder, GRACE_MS, "/bin/false"], ["alone", self.folder, "none"]):
            result = self.run_stub(*words)
            self.assertEqual(result.returncode, BAD_CONFIG)
            self.assertRegex(result.stderr,
                             rf"\Aerror: run folder {self.folder} \(a run is going on in it: {who} pid "
                             rf"\d+ on host \S+\), wait for its end, stop it with `rhizome stop "
                             rf"{self.folder}`, or name another folder\n\Z")
        self.wait_for_steps()

    def assert_taken_over(self, former):
        """By a run that trains to its end; what was there stays, and texts of former ends."""
        (self.folder / "states" / "step-00000001").mkdir(parents=True, exist_ok=True)
        self.start_again()
        self.assertFalse((self.folder / "stop").exists())
        self.assertFalse((self.folder / "finished").exists())
        self.enough()
        self.assert_launcher_ends(DONE, r"code 0\nreason done after step \d+")
        self.assertEqual(self.states(), ["step-00000001"])
        texts = [path.read_text() for path in (self.folder / "former").glob("*/finished")]
        self.assertEqual(len(texts), len(former), texts)
        for text, pattern in zip(sorted(texts), former):
            self.assertRegex(text, rf"\A{pattern}\n\Z")

    def test_while_the_launcher_lives_and_afterwards(self):
        self.start_and_wait_for_steps()
        self.assert_refused("launcher")
        self.launcher.send_signal(signal.SIGINT)
        self.assert_launcher_ends(STOPPED, r"code 6\nreason stopped after step \d+")
        stopped = r"code 6\nreason stopped after step \d+"
        self.assert_taken_over([stopped])
        self.assert_taken_over([r"code 0\nreason done after step \d+", stopped])

    def test_while_ranks_live_without_a_launcher_and_when_all_are_dead(self):
        self.start_and_wait_for_steps()
        self.kill_launcher()
        self.assert_refused("mpirun")
        os.kill(self.recorded("mpirun"), signal.SIGKILL)
        for rank in range(RANKS - 1):
            self.kill_rank(rank)
        self.assert_refused(f"rank.{RANKS - 1}")
        self.kill_everybody()
        self.assert_taken_over([])

    def test_of_a_rank_that_comes_when_another_run_has_the_folder(self):
        self.start_and_wait_for_steps()
        former = (self.folder / "lock").read_text().removeprefix("run ").strip()
        self.kill_everybody()
        self.start_again()
        records = {path.name: path.read_text() for path in (self.folder / "processes").iterdir()}
        late = self.run_stub("rank", self.folder, former, "none")
        self.assertEqual(late.returncode, BAD_CONFIG, late.stderr)
        self.assertRegex(late.stderr, rf"(?m)^error: run folder {self.folder} \(another run has it by now\), ")
        self.wait_for_steps()
        self.assertEqual({path.name: path.read_text() for path in (self.folder / "processes").iterdir()},
                         records)
        self.enough()
        self.assert_launcher_ends(DONE, r"code 0\nreason done after step \d+")


class Saving(Runs):
    def test_by_command(self):
        self.start_and_wait_for_steps()
        for count in (1, 2):
            result = self.run_stub("save", self.folder)
            self.assertEqual(result.returncode, DONE, result.stderr)
            self.assertEqual(len(self.states()), count)
            newest = int(self.states()[-1].removeprefix("step-"))
            self.assertEqual(result.stderr, f"{self.folder}/states has a state of {newest} steps\n")
            self.wait_for_steps(more=10)
            self.assertEqual(len(self.states()), count)  # and not once more
        self.enough()
        self.assert_launcher_ends(DONE, r"code 0\nreason done after step \d+")
        result = self.run_stub("save", self.folder)
        self.assertEqual(result.returncode, UNFINISHED)
        self.assertRegex(result.stderr, r"\Aerror: the run has ended \(done after step \d+\), nothing")
        self.assertFalse((self.folder / "save").exists())

    def test_by_a_signal_to_the_launcher_is_heard_once(self):
        self.start_and_wait_for_steps()
        for count in (1, 2):
            self.launcher.send_signal(signal.SIGUSR1)
            self.reaper.until(lambda: len(self.states()) >= count, "a state")
            self.wait_for_steps(more=10)
            self.assertEqual(len(self.states()), count)
        self.assertEqual(self.said().count("a state is saved after this step"), 2)
        self.launcher.send_signal(signal.SIGINT)
        self.assert_launcher_ends(STOPPED, r"code 6\nreason stopped after step \d+")

    def test_of_a_run_that_does_not_listen(self):
        self.start_and_wait_for_steps()
        self.kill_rank(0)
        self.wait_for_steps()
        result = self.run_stub("save", self.folder, "--within=0.3")
        self.assertEqual(result.returncode, UNFINISHED)
        self.assertIn("the run has not heard of it yet", result.stderr)
        self.enough()
        self.assert_launcher_ends(DONE, r"code 0\nreason done after step \d+")

    def test_of_a_run_that_ends_meanwhile(self):
        self.start_and_wait_for_steps()
        self.kill_rank(0)
        saver = self.reaper.start([STUB, "save", self.folder], stderr=subprocess.PIPE, text=True)
        self.reaper.until((self.folder / "save").exists, "the save word")
        self.enough()
        self.assertEqual(self.reaper.wait(saver), UNFINISHED)
        self.assertRegex(saver.stderr.read(), r"\Aerror: the run has ended \(done .*\), without a newer state")
        self.assertFalse((self.folder / "save").exists())
        self.assert_launcher_ends(DONE, r"code 0\nreason done after step \d+")

    def test_of_a_dead_run_and_of_none(self):
        self.start_and_wait_for_steps()
        self.kill_everybody()
        result = self.run_stub("save", self.folder)
        self.assertEqual(result.returncode, UNFINISHED)
        self.assertIn("it left no word of how", result.stderr)
        self.assertFalse((self.folder / "save").exists())
        self.assertEqual(self.run_stub("save", self.home.name).returncode, BAD_CONFIG)


class Alone(Runs):
    def start_alone(self, fault="none", **options):
        with open(self.log, "wb") as log:
            self.launcher = self.reaper.start([STUB, "alone", self.folder, fault], stdout=log, stderr=log,
                                              **options)
        self.reaper.until(lambda: self.recorded("rank.0") == self.launcher.pid, "a run in the folder")
        self.wait_for_more_steps()

    def wait_for_more_steps(self, more=3):
        goal = self.step(0) + more
        self.reaper.until(lambda: self.step(0) >= goal, f"{more} more steps: {self.said()}")

    def test_ends_in_order_on_the_first_signal(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            with self.subTest(number=number):
                self.start_alone()  # each takes the folder of the one before over
                self.assertEqual(self.recorded("rank.0"), self.launcher.pid)
                self.launcher.send_signal(number)
                self.assert_launcher_ends(STOPPED, r"code 6\nreason stopped after step \d+")
                self.assertTrue((self.folder / "stop").exists())
                self.assertRegex(self.said(), r"\Athe run ends after this step; interrupt again to kill it\n"
                                              r"the run has ended: stopped after step \d+\n\Z")
        self.assertEqual(len(list((self.folder / "former").iterdir())), 2)

    def test_is_killed_by_the_second_interrupt(self):
        self.start_alone(fault="deaf")
        self.launcher.send_signal(signal.SIGINT)
        self.wait_until_said("interrupt again")
        self.wait_for_more_steps()
        self.launcher.send_signal(signal.SIGINT)
        self.assert_launcher_ends(-signal.SIGINT)

    def test_is_not_killed_by_further_terminations(self):
        self.start_alone(fault="deaf")
        for _ in range(3):
            self.launcher.send_signal(signal.SIGTERM)
            self.wait_for_more_steps()
        self.enough()
        self.assert_launcher_ends(DONE, r"code 0\nreason done after step \d+")

    def test_keeps_ignoring_what_was_ignored_before(self):
        self.start_alone(preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
        self.launcher.send_signal(signal.SIGHUP)  # as under nohup
        self.wait_for_more_steps()
        self.enough()
        self.assert_launcher_ends(DONE, r"code 0\nreason done after step \d+")
        self.assertEqual(self.said(), "")

    def test_saves_once_for_a_signal_and_once_for_a_command(self):
        self.start_alone()
        self.launcher.send_signal(signal.SIGUSR1)
        self.reaper.until(self.states, "a state")
        self.wait_for_more_steps(10)
        self.assertEqual(len(self.states()), 1)
        result = self.run_stub("save", self.folder)
        self.assertEqual(result.returncode, DONE, result.stderr)
        self.wait_for_more_steps(10)
        self.assertEqual(len(self.states()), 2)
        self.assertEqual(self.run_stop(self.folder).returncode, DONE)
        self.assert_launcher_ends(STOPPED, r"code 6\nreason stopped after step \d+")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]])
