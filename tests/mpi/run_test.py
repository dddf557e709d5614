"""Runs as real processes: how they begin and end, and who is left when whom is killed.

    run_test.py STUB MPIRUN [OPTION ...]
"""

import os
import signal
import sys
import unittest
from pathlib import Path

from runs import BAD_CONFIG, DONE, MPIRUN, RANKS, STOPPED, UNFINISHED, Runs, is_alive


class Ending(Runs):
    def test_by_itself(self):
        self.start_and_wait_for_steps()
        for name in ["launcher", "mpirun", *(f"rank.{rank}" for rank in range(RANKS))]:
            self.assertTrue(is_alive(self.recorded(name)), name)
        self.assertEqual(os.getsid(self.recorded("mpirun")), self.recorded("mpirun"))
        self.enough()
        self.assert_launcher_ends(DONE, r"code 0\nreason done after step \d+")
        self.assertRegex(self.said(), r"\Arun folder /\S+/run\n")  # Open MPI may have a word as well
        self.assertNotRegex(self.said(), r"(?m)^(error|warning): ")

    def test_in_order_on_the_first_signal(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            with self.subTest(number=number):
                self.folder = self.folder.with_name(f"run{number}")
                self.start_and_wait_for_steps()
                self.launcher.send_signal(number)
                self.assert_launcher_ends(STOPPED, r"code 6\nreason stopped after step \d+")
                self.assertTrue((self.folder / "stop").exists())
                self.assertEqual(len({self.step(rank) for rank in range(RANKS)}), 1)
                self.assertIn("the run ends after this step", self.said())

    def test_not_by_signals_that_were_ignored_before(self):
        self.start_and_wait_for_steps(preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
        self.launcher.send_signal(signal.SIGHUP)  # as under nohup
        self.wait_for_steps()
        self.enough()
        self.assert_launcher_ends(DONE, r"code 0\nreason done after step \d+")

    def test_at_once_on_the_second_interrupt(self):
        self.start_and_wait_for_steps(fault="deaf")
        self.launcher.send_signal(signal.SIGINT)
        self.wait_until_said("interrupt again")
        self.wait_for_steps()
        self.launcher.send_signal(signal.SIGINT)
        self.assert_launcher_ends(STOPPED, r"code 6\nreason killed on request")
        self.assertIn("the run has ended: killed on request\n", self.said())

    def test_without_a_word(self):
        self.start_and_wait_for_steps(fault="mute")
        self.enough()
        self.assert_launcher_ends(UNFINISHED)
        self.assertIn("error: the run left no word of how it ended", self.said())
        self.assertIn("mpirun: exit code 0", self.said())

    def test_without_a_word_and_with_an_mpirun_that_stays(self):
        self.assert_ends_without_a_word(f'"{MPIRUN}" "$@"\nexec sleep 1000\n')

    def test_of_ranks_that_the_launcher_never_saw_alive(self):
        self.assert_ends_without_a_word(
            f'kill -STOP $PPID\n"{MPIRUN}" "$@"\nkill -CONT $PPID\nexec sleep 1000\n')

    def assert_ends_without_a_word(self, script):
        stays = Path(self.home.name) / "mpirun"
        stays.write_text("#!/bin/sh\n" + script)
        stays.chmod(0o700)
        self.start_and_wait_for_steps(fault="mute", mpirun=stays, grace_ms=500)
        self.enough()
        self.assert_launcher_ends(UNFINISHED)
        self.assertIn("error: the run left no word of how it ended", self.said())

    def test_leftovers_are_killed(self):
        self.start_and_wait_for_steps(fault="linger", grace_ms=500)
        self.enough()
        self.assert_launcher_ends(DONE, r"code 0\nreason done after step \d+")
        self.assertIn("outlive its end (for more than 0.5 s)", self.said())

    def test_before_it_began(self):
        for mpirun, reason in [("/nowhere/mpirun", "No such file"), (self.home.name, "Permission")]:
            with self.subTest(mpirun):
                self.folder = self.folder.with_name("run" + str(len(mpirun)))
                self.start(mpirun=mpirun)
                self.assert_launcher_ends(BAD_CONFIG)
                self.assertRegex(self.said(), rf"\Aerror: mpirun .* \(.*{reason}.*\), .*--mpirun.*\n\Z")

    def test_of_mpirun_alone(self):
        self.start(mpirun="/bin/false")
        self.assert_launcher_ends(UNFINISHED)
        self.assertIn("mpirun: exit code 1", self.said())


class Losses(Runs):
    def test_a_killed_mpirun_ends_nothing(self):
        self.start_and_wait_for_steps()
        os.kill(self.recorded("mpirun"), signal.SIGKILL)
        self.wait_until_said("mpirun is gone (signal 9)")
        self.wait_for_steps(more=20)
        self.enough()
        self.assert_launcher_ends(DONE, r"code 0\nreason done after step \d+")
        self.assertIn("the run has ended: done after step", self.said())  # no rank could say it

    def test_nor_does_a_terminated_one(self):
        self.start_and_wait_for_steps()
        os.kill(self.recorded("mpirun"), signal.SIGTERM)
        self.wait_until_said("mpirun is gone")
        self.wait_for_steps(more=20)
        self.launcher.send_signal(signal.SIGINT)
        self.assert_launcher_ends(STOPPED, r"code 6\nreason stopped after step \d+")

    def test_without_mpirun_and_ranks_there_is_no_end(self):
        self.start_and_wait_for_steps()
        os.kill(self.recorded("mpirun"), signal.SIGKILL)
        self.wait_until_said("mpirun is gone (signal 9)")
        for rank in range(RANKS):
            os.kill(self.recorded(f"rank.{rank}"), signal.SIGKILL)
        self.assert_launcher_ends(UNFINISHED)

    def test_signals_at_the_proxies_end_nothing(self):
        self.start_and_wait_for_steps()
        proxies = self.proxies()
        self.assertEqual(len(proxies), RANKS)
        for proxy in proxies:
            os.kill(proxy, signal.SIGTERM)
        self.wait_for_steps()
        self.assertEqual(self.proxies(), proxies)
        self.enough()
        self.assert_launcher_ends(DONE, r"code 0\nreason done after step \d+")

    def test_a_stopped_rank_is_killed_and_the_others_go_on(self):
        self.start_and_wait_for_steps()
        victim = self.recorded("rank.1")
        os.kill(victim, signal.SIGSTOP)
        self.reaper.until(lambda: not is_alive(victim), "the death of a stopped rank")
        self.wait_for_steps(more=20)
        self.enough()
        self.assert_launcher_ends(DONE, r"code 0\nreason done after step \d+")
        self.assertIn("stopped for more than 0.3 s", self.said())

    def test_a_killed_launcher_ends_nothing_and_stop_ends_the_run(self):
        self.start_and_wait_for_steps()
        self.kill_launcher()
        self.wait_for_steps()
        result = self.run_stop(self.folder)
        self.assertEqual(result.returncode, DONE, result.stderr)
        self.assertRegex(result.stderr, r"\Athe run has ended: stopped after step \d+\n\Z")
        self.reaper.until_nobody_is_left()
        self.assert_marker(r"code 6\nreason stopped after step \d+")


class Stop(Runs):
    def test_in_order(self):
        self.start_and_wait_for_steps()
        result = self.run_stop(self.folder)
        self.assertEqual(result.returncode, DONE, result.stderr)
        self.assert_launcher_ends(STOPPED, r"code 6\nreason stopped after step \d+")
        again = self.run_stop(self.folder)
        self.assertEqual(again.returncode, DONE)
        self.assertRegex(again.stderr, r"\Athe run had ended before: stopped after step \d+\n\Z")

    def test_by_force(self):
        for words in (["--within", "0.5"], ["--now"]):
            with self.subTest(words):
                self.folder = self.folder.with_name("run" + words[0])
                self.start_and_wait_for_steps(fault="deaf")
                result = self.run_stop(self.folder, *words)
                self.assertEqual(result.returncode, DONE, result.stderr)
                self.assertIn("killed: mpirun, rank.0, rank.1, rank.2\n", result.stderr)
                self.assert_launcher_ends(STOPPED, r"code 6\nreason killed on request")

    def test_by_force_without_a_launcher(self):
        self.start_and_wait_for_steps(fault="deaf")
        self.kill_launcher()
        self.assertEqual(self.run_stop(self.folder, "--within=0.5").returncode, DONE)
        self.reaper.until_nobody_is_left()
        self.assert_marker(r"code 6\nreason killed on request")

    def test_of_a_run_that_died_without_a_word(self):
        self.start_and_wait_for_steps(fault="deaf")
        self.kill_everybody()
        result = self.run_stop(self.folder)
        self.assertEqual(result.returncode, UNFINISHED)
        self.assertIn("left no word", result.stderr)

    def test_of_no_run(self):
        for folder, reason in [(self.home.name, "there is no run in it"), ("/nowhere", "is no folder")]:
            result = self.run_stop(folder)
            self.assertEqual(result.returncode, BAD_CONFIG)
            self.assertRegex(result.stderr, rf"\Aerror: run folder {folder} \({reason}\), .*\n\Z")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]])
