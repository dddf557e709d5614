"""The program `rhizome-plan` from outside.

    rhizome_plan_test.py PROGRAM
"""

import os
import re
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree
from pathlib import Path

PROGRAM = sys.argv[1]
SECONDS_MAX = 60


def run(*arguments):
    return subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, timeout=SECONDS_MAX,
                          stdin=subprocess.DEVNULL, env=os.environ, check=False)


class Schedule(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def accept(self, *arguments):
        result = run("schedule", *arguments)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        return result.stdout

    def refuse(self, *arguments, parts=()):
        result = run("schedule", *arguments)
        self.assertEqual(result.returncode, 2, result.stdout + result.stderr)
        self.assertRegex(result.stderr, r"\Aerror: [^\n]*\(.+\), [^\n]+\n\Z")
        for part in parts:
            self.assertIn(part, result.stderr)

    def test_draws_checks_and_times(self):
        shown = self.accept("--style", "1f1b", "--pipelines", "2", "--microbatches", "2")
        self.assertIn("worker 1 | .. F0 B0 -- F1 B1 --\n", shown)
        self.assertIn("without a fault", shown)
        self.assertIn("makespan           9 s", shown)  # 3 (M + S - 1)

    def test_uneven_pipelines_spares_and_cuts_by_hand(self):
        shown = self.accept("--pipelines", "3,2", "--spares", "1", "--layers", "7", "--microbatches", "8",
                            "--lanes", "4", "--show", "summary")
        self.assertIn("workers            6", shown)
        self.assertIn("pipeline 1", shown)
        shown = self.accept("--pipelines", "3", "--layers", "6", "--cut", "0,1-4,5", "--show", "summary")
        self.assertIn("layers 0,1-4,5", shown)

    def test_text_reads_back_and_is_checked(self):
        for style in ["gpipe", "1f1b", "interleaved", "zb-h1", "zb-h2", "evaluation"]:
            with self.subTest(style):
                text = self.accept("--style", style, "--pipelines", "2,2", "--show", "text")
                file = self.folder / "schedule.txt"
                file.write_text(text)
                self.assertEqual(self.accept("--file", str(file), "--show", "text"), text)
                self.assertIn("without a fault", self.accept("--file", str(file)))

    def test_a_schedule_with_a_fault_is_refused_with_its_place(self):
        text = self.accept("--pipelines", "2", "--microbatches", "2", "--show", "text")
        file = self.folder / "schedule.txt"
        file.write_text(text.replace(" SA0:1>1", "", 1))
        self.refuse("--file", str(file), parts=["worker"])
        file.write_text(text.replace("F0:0", "X0:0", 1))
        self.refuse("--file", str(file), parts=["X0:0", "line"])
        file.write_text("")
        self.refuse("--file", str(file))

    def test_a_picture_is_whole_and_well_formed(self):
        file = self.folder / "picture.svg"
        self.accept("--style", "zb-h1", "--svg", str(file))
        root = xml.etree.ElementTree.parse(file).getroot()
        self.assertTrue(root.tag.endswith("svg"))
        self.assertEqual([each.name for each in self.folder.iterdir()], ["picture.svg"])

    def test_a_picture_takes_the_place_of_ordinary_files_only(self):
        target = self.folder / "target"
        target.write_text("mine")
        link = self.folder / "link.svg"
        link.symlink_to(target)
        os.mkfifo(self.folder / "pipe.svg")
        for path in [link, self.folder / "pipe.svg", self.folder]:
            self.refuse("--svg", str(path), parts=["ordinary file"])
        self.assertEqual(target.read_text(), "mine")
        self.accept("--svg", str(target))
        self.assertIn("<svg", target.read_text())

    def test_a_network_can_be_read_back_too(self):
        file = self.folder / "gpt2.txt"
        file.write_text(self.accept("--model.size", "gpt2", "--show", "text"))
        self.refuse("--file", str(file), parts=["--model.size"])
        self.accept("--file", str(file), "--model.size", "gpt2")

    def test_hostile_files_end_soon(self):
        self.refuse("--file", "/dev/zero")
        self.refuse("--file", str(self.folder))
        file = self.folder / "layers.txt"
        text = self.accept("--pipelines", "1", "--microbatches", "1", "--show", "text")
        file.write_text(text.replace("0@0-0", "0@0-2147483645"))
        self.refuse("--file", str(file), parts=["layers"])

    def test_the_critical_path_adds_up(self):
        shown = self.accept("--model.size", "gpt2", "--link_bytes_per_s", "1e6", "--pipelines", "2",
                            "--microbatches", "8", "--show", "summary")
        path = re.search(r"critical path +(.*)", shown)[1]
        makespan = float(re.search(r"makespan +([0-9.e+-]+) s", shown)[1])
        parts = {name: float(seconds) for name, seconds in re.findall(r"([A-Z]+) ([0-9.e+-]+) s", path)}
        self.assertAlmostEqual(sum(parts.values()) / makespan, 1, places=1)
        self.assertGreater(sum(parts[name] for name in parts if name.startswith("S")), 0.9 * makespan)

    def test_a_network_by_name(self):
        shown = self.accept("--model.size", "gpt2", "--pipelines", "4", "--microbatches", "16", "--show", "summary")
        self.assertRegex(shown, r"activations alive  at most 4 \(stage, microbatch\) pairs, [0-9.]+[MG]B")

    def test_large_ones_are_no_trouble(self):
        shown = self.accept("--pipelines", "64", "--microbatches", "512", "--style", "zb-h1")
        self.assertIn("too long to draw", shown)

    def test_bad_input(self):
        for arguments, parts in [
            (["--style", "2f2b"], ["zb-h1"]),
            (["--pipelines", "0"], ["--pipelines"]),
            (["--pipelines", "2,,2"], ["--pipelines"]),
            (["--pipelines", "9", "--layers", "4"], ["layers"]),
            (["--pipelines", "2,2,2", "--microbatches", "4", "--lanes", "2"], ["lanes"]),
            (["--pipelines", "3", "--microbatches", "2", "--lanes", "4"], ["--lanes"]),
            (["--pipelines", "2", "--parts", "2", "--style", "1f1b"], ["--parts"]),
            (["--cut", "0-2,4", "--layers", "5", "--pipelines", "2"], ["--cut"]),
            (["--model.size", "gpt9"], ["gpt9"]),
            (["--micro_batches", "4"], ["--microbatches"]),
            (["--file", "nowhere.txt"], ["nowhere.txt"]),
            (["--layers", "4", "--model.size", "gpt2"], ["--layers"]),
            (["--flops_per_s", "1e12"], ["--model.size"]),
            (["--recompute", "all", "--style", "evaluation"], ["--recompute"]),
            (["--file", "x", "--pipelines", "2"], ["--file"]),
            (["--pipelines", "4096"], ["instructions", "10.0M"]),
            (["--microbatches", "2147483647"], ["instructions"]),
            (["--svg", "/nowhere/picture.svg"], ["/nowhere/picture.svg"]),
        ]:
            with self.subTest(arguments):
                self.refuse(*arguments, parts=parts)

    def test_help_teaches(self):
        for arguments in [["--help"], ["schedule", "--help"]]:
            result = run(*arguments)
            self.assertEqual((result.returncode, result.stderr), (0, ""))
            self.assertIn("example", result.stdout)
            self.assertLessEqual(max(map(len, result.stdout.splitlines())), 100)
        self.assertEqual(run().returncode, 2)
        self.assertEqual(run("shedule").returncode, 2)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]])
