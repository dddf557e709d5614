#!/usr/bin/env python3
"""States of real runs: resumed in any layout, killed at any point of a save.

    save_test.py PROGRAM KILL_AT
"""

import contextlib
import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))
from reaper import Reaper  # noqa: E402

PROGRAM, KILL_AT = sys.argv[1:]
DONE, BAD_CONFIG, BAD_DATA, LOST, STOPPED, UNFINISHED, UNSAVED = 0, 2, 3, 5, 6, 7, 8
STEPS = 8
TINY = {
    "model.blocks": "2", "model.channels": "8", "model.heads": "2", "model.context": "8",
    "model.vocabulary": "256", "model.dropout": "0.1", "microbatch_size": "2", "microbatches": "6",
    "lanes": "3", "steps": str(STEPS), "log.interval": "1", "evaluate.interval": "4",
    "evaluate.microbatches": "3", "optimizer.warmup_steps": "2", "optimizer.decay_steps": "8",
    "save.interval": "3", "chunk_elements": "700",
    "bounds.stopped_s": "5", "bounds.stuck_s": "30", "bounds.wait_s": "60",
}
LAYOUTS = [
    (1, {}),
    (2, {"pipelines": "2"}),
    (3, {"pipelines": "3", "owners": "all"}),
    (4, {"pipelines": "2x2", "style": "zb-h1"}),
    (5, {"pipelines": "3,2", "owners": "1"}),
    (3, {"pipelines": "2", "recompute": "all"}),  # and a spare
]
POINTS = 50


class Saving(unittest.TestCase):
    calm = None

    def setUp(self):
        self.home = tempfile.TemporaryDirectory(prefix="save")
        self.addCleanup(self.home.cleanup)
        self.reaper = Reaper().__enter__()
        self.addCleanup(self.reaper.__exit__, None, None, None)
        self.text = Path(self.home.name) / "text.txt"
        self.text.write_bytes(b"In the beginning was the word, and so on. " * 40)
        kept = {name: value for name, value in os.environ.items() if not name.startswith("RHIZOME_")}
        # One host: the loopback device will do, and no other network is touched.
        self.environment = kept | {"TMPDIR": self.home.name, "OMPI_MCA_btl_tcp_if_include": "lo"}
        self.folder = Path(self.home.name) / "run"

    def run_to_end(self, ranks, environment=None, **keys):
        """(exit code, everything said); alone for one rank."""
        given = TINY | {"data.train": str(self.text)} | keys
        how = ["train"] if ranks == 1 else ["run", "-n", str(ranks)]
        output = Path(self.home.name) / "output"
        with open(output, "wb") as file:
            process = self.reaper.start(
                [PROGRAM, *how, "--folder", str(self.folder),
                 *(f"--{name}={value}" for name, value in given.items())],
                stdout=file, stderr=file, env=self.environment | (environment or {}))
        code = self.reaper.wait(process, 120)
        self.reaper.until_nobody_is_left()
        return code, output.read_text(errors="replace")

    def weights(self, said):
        found = re.search(r"weights +([0-9a-f]{32})", said)
        self.assertTrue(found, said)
        return found[1]

    def calm_weights(self):
        """Of a run that nothing happened to, alone."""
        if Saving.calm is None:
            folder, self.folder = self.folder, self.folder.with_name("calm")
            code, said = self.run_to_end(1)
            self.assertEqual(code, DONE, said)
            Saving.calm = self.weights(said)
            self.folder = folder
        return Saving.calm

    def states(self):
        """Steps of those under a final name, ascending."""
        return sorted(int(path.name.removeprefix("step-")) for path in (self.folder / "states").glob("step-*"))

    def assert_goes_on_to_the_calm_end(self, ranks, **layout):
        newest = self.states()[-1:]
        code, said = self.run_to_end(ranks, **layout)
        self.assertEqual(code, DONE, said)
        self.assertEqual(re.findall(r"goes on from \S*/step-0*(\d+)", said), [str(n) for n in newest])
        self.assertNotIn("warning: state", said)
        self.assertEqual(self.weights(said), self.calm_weights())
        self.assertEqual(self.states()[-1], STEPS)


class Resuming(Saving):
    def test_after_any_step_in_any_layout(self):
        for stop in range(1, STEPS):
            ranks, layout = LAYOUTS[stop % len(LAYOUTS)]
            later_ranks, later = LAYOUTS[(stop * 2 + 1) % len(LAYOUTS)]
            with self.subTest(stop=stop, first=layout, then=later):
                self.folder = self.folder.with_name(f"run{stop}")
                code, said = self.run_to_end(ranks, steps=str(stop), **layout)
                self.assertEqual(code, DONE, said)
                self.assert_goes_on_to_the_calm_end(later_ranks, **later)

    def test_of_a_run_that_was_done_trains_nothing(self):
        self.run_to_end(2, pipelines="2")
        code, said = self.run_to_end(1)
        self.assertEqual(code, DONE, said)
        self.assertNotRegex(said, r"step +\d+/8  loss")
        self.assertEqual(self.weights(said), self.calm_weights())

    def test_with_other_mathematics_is_refused(self):
        self.run_to_end(1, steps="2")
        for ranks in (1, 2):
            code, said = self.run_to_end(ranks, **{"optimizer.beta1": "0.8"})
            self.assertEqual(code, BAD_CONFIG, said)
            self.assertEqual(len(re.findall(r"(?m)^error: ", said)), 1, said)
            self.assertIn("optimizer.beta1 = 0.9, here 0.8", said)
        self.text.write_bytes(b"Something else altogether, which is no beginning. " * 40)
        code, said = self.run_to_end(1)
        self.assertEqual(code, BAD_CONFIG, said)
        self.assertIn("other training data", said)
        self.assertEqual(self.states(), [2])

    def test_passes_over_damaged_states_and_names_them(self):
        self.run_to_end(2, pipelines="2")
        self.assertEqual(self.states()[-1], STEPS)
        share = self.folder / "states" / f"step-{STEPS:08}" / "share-00001.h5"
        bytes_ = bytearray(share.read_bytes())
        bytes_[-5] ^= 1
        share.write_bytes(bytes_)
        older = self.states()[-2]
        for ranks, layout in ((3, {"pipelines": "3"}), (1, {})):
            code, said = self.run_to_end(ranks, **layout)
            self.assertEqual(code, DONE, said)
            if ranks == 3:
                self.assertRegex(said, r"warning: .*share-00001\.h5.*older state")
                self.assertIn(f"goes on from {self.folder}/states/step-{older:08}", said)
            self.assertEqual(self.weights(said), self.calm_weights())

    def test_where_all_states_are_damaged_is_refused(self):
        self.run_to_end(1, steps="2")
        (self.folder / "states" / "step-00000002" / "index.h5").write_bytes(b"no index")
        for ranks in (1, 2):
            code, said = self.run_to_end(ranks)
            self.assertEqual(code, BAD_DATA, said)
            self.assertEqual(len(re.findall(r"(?m)^error: ", said)), 1, said)
        self.assertEqual(self.states(), [2])

    def test_leaves_damaged_states_of_later_steps_out_of_the_count(self):
        self.run_to_end(1, steps="3")
        self.run_to_end(1)
        damaged = self.folder / "states" / f"step-{STEPS:08}" / "share-00000.h5"
        bytes_ = bytearray(damaged.read_bytes())
        bytes_[-5] ^= 1
        damaged.write_bytes(bytes_)
        code, said = self.run_to_end(1, steps="7", **{"save.keep": "1", "save.interval": "0"})
        self.assertEqual(code, DONE, said)
        self.assertEqual(self.states(), [7, STEPS])

    def test_under_a_name_of_other_steps_is_damage(self):
        self.run_to_end(1)
        states = self.folder / "states"
        older, newest = self.states()[-2:]
        (states / f"step-{newest:08}").rename(states / f"step-{newest - 1:08}")
        code, said = self.run_to_end(1)
        self.assertEqual(code, DONE, said)
        self.assertRegex(said, r"warning: .*name says 7.*older state")
        self.assertIn(f"goes on from {states}/step-{older:08}", said)
        self.assertEqual(self.weights(said), self.calm_weights())

    def test_of_a_newer_format_is_refused_and_left_alone(self):
        self.run_to_end(1)
        index = self.folder / "states" / f"step-{STEPS:08}" / "index.h5"
        newer = index.read_bytes().replace(b"rhizome state index 1", b"rhizome state index 2", 1)
        index.write_bytes(newer)
        for ranks in (1, 2):
            code, said = self.run_to_end(ranks)
            self.assertEqual(code, BAD_DATA, said)
            self.assertEqual(len(re.findall(r"(?m)^error: ", said)), 1, said)
            self.assertIn("written by a newer rhizome", said)
        self.assertEqual(index.read_bytes(), newer)

    def test_beyond_the_last_step_is_refused(self):
        self.run_to_end(1)
        code, said = self.run_to_end(1, steps="5")
        self.assertEqual(code, BAD_CONFIG, said)
        self.assertIn("take more steps", said)


class Killed(Saving):
    def kill_at(self, count, whom, rank, log=""):
        return {"LD_PRELOAD": KILL_AT, "KILL_AT_COUNT": str(count), "KILL_AT_WHOM": whom,
                "KILL_AT_RANK": str(rank), "KILL_AT_RUN": str(self.folder), "KILL_AT_LOG": log}

    def operations(self, rank):
        """On files of states, by that rank of two in a run that nothing happens to."""
        log = Path(self.home.name) / f"log{rank}"
        self.folder = self.folder.with_name(f"counted{rank}")
        code, said = self.run_to_end(2, self.kill_at(0, "self", rank, str(log)), pipelines="2")
        self.assertEqual(code, DONE, said)
        return len(log.read_text().splitlines())

    def kill_and_go_on(self, points, whom, rank, codes):
        resumed = set()
        for number, point in enumerate(points):
            with self.subTest(point=point, whom=whom, rank=rank):
                self.folder = self.folder.with_name(f"{whom}{rank}.{point}")
                code, said = self.run_to_end(2, self.kill_at(point, whom, rank), pipelines="2",
                                             restarts="0")
                self.assertIn(code, codes, said)
                if code == DONE:  # somebody was left and went on
                    self.assertEqual(self.weights(said), self.calm_weights())
                    continue
                self.assertNotRegex(said, r"weights +[0-9a-f]{32}")  # it did not come to its end
                resumed.update(self.states()[-1:] or [0])
                ranks, layout = LAYOUTS[0 if number % 5 else number // 5 % len(LAYOUTS)]
                self.assert_goes_on_to_the_calm_end(ranks, **layout)
        return resumed

    def test_wholly_at_points_of_all_saves(self):
        total = self.operations(0)
        self.assertGreater(total, POINTS)
        points = [1 + i * (total - 1) // (POINTS - 1) for i in range(POINTS)]
        resumed = self.kill_and_go_on(points, "all", 0, {UNFINISHED, LOST})
        self.assertGreaterEqual(len(resumed), 3)  # before the first state, after it, after the second

    def test_one_writer_alone(self):
        total = self.operations(1)
        points = [1 + i * (total - 1) // 9 for i in range(10)]
        self.kill_and_go_on(points, "self", 1, {DONE})


class Trouble(Saving):
    def test_of_a_file_where_states_should_be_is_told_before_the_first_step(self):
        self.folder.mkdir()
        (self.folder / "states").write_text("not a folder")
        (self.folder / "lock").touch()
        for ranks in (1, 2):
            code, said = self.run_to_end(ranks)
            self.assertEqual(code, BAD_DATA, said)
            self.assertIn("states (is no folder)", said)

    def mount_small_disk(self, place):
        place.mkdir()
        command = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", place]
        mounted = subprocess.run(command, capture_output=True, text=True, check=False)
        if mounted.returncode != 0:
            self.skipTest(f"no file system can be mounted here: {mounted.stderr.strip()}")
        self.addCleanup(subprocess.run, ["umount", place], check=True)

    def test_of_a_full_disk_fails_saves_and_leaves_older_states_and_the_run_alone(self):
        disk = Path(self.home.name) / "disk"
        self.mount_small_disk(disk)
        self.folder = disk / "run"
        self.run_to_end(1, steps="2")
        filling = disk / "filling"
        with contextlib.suppress(OSError), open(filling, "wb") as file:
            while True:
                file.write(bytes(4096))
                file.flush()
        with contextlib.suppress(OSError):  # a page for words, none for states
            os.truncate(filling, filling.stat().st_size - 16384)
        for ranks, layout in ((2, {"pipelines": "2"}), (1, {})):
            code, said = self.run_to_end(ranks, **layout)
            self.assertEqual(code, UNSAVED, said)
            self.assertRegex(said, "warning: state .*was not saved.*No space left")
            self.assertRegex(said, "step 8/8  loss")  # trained to its end
            self.assertIn("it goes on after step 2", said)
            self.assertEqual(self.weights(said), self.calm_weights())
            self.assertEqual(self.states(), [2])
        filling.unlink()
        self.assert_goes_on_to_the_calm_end(2, pipelines="2")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]])
