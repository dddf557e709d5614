"""The program `rhizome-plan` from outside.

    rhizome_plan_test.py PROGRAM
"""

import json
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

    def test_measured_costs(self):
        file = self.folder / "costs"
        file.write_text("rhizome costs 1\nfirst 1 2 3 0.5 100 1000 10 20\nlast 2 2 2 0.25 50 0 30 40\n")
        shown = self.accept("--costs", str(file), "--pipelines", "1", "--microbatches", "1", "--show", "summary")
        self.assertIn("makespan           12.8 s", shown)  # 3 s forward, 9 s backward, 0.75 s of update
        self.assertIn("pair, 1.1kB", shown)
        slower = self.accept("--costs", str(file), "--pipelines", "2", "--microbatches", "1", "--owners", "1",
                             "--link_bytes_per_s", "100", "--show", "summary")
        self.assertIn("SA 10 s", slower)
        self.refuse("--costs", str(file), "--model.size", "gpt2", parts=["--costs", "2 layers"])
        self.refuse("--costs", str(file), "--flops_per_s", "1e9", parts=["--flops_per_s"])
        self.refuse("--costs", str(file), "--layers", "3", parts=["--layers"])
        self.refuse("--costs", str(self.folder), parts=["--costs"])
        plan = self.folder / "schedule.txt"
        plan.write_text(self.accept("--costs", str(file), "--pipelines", "2", "--show", "text"))
        self.assertIn("without a fault", self.accept("--costs", str(file), "--file", str(plan)))
        # What rounding loses beside the rest still comes after what it needs.
        file.write_text("rhizome costs 1\na 1e5 1e5 1e5 0 10 1 1 1\n" +
                        "".join(f"{name} 1e-9 1e-9 1e-9 0 10 1 1 1\n" for name in "bcd"))
        for style in ["gpipe", "1f1b", "zb-h1", "zb-h2"]:
            self.accept("--costs", str(file), "--style", style, "--pipelines", "2", "--cut", "0,1-3")
            self.accept("--costs", str(file), "--style", style, "--pipelines", "4")
        self.refuse("--costs", str(file), "--file", str(plan), parts=["--costs", "has 4"])
        file.write_text("rhizome costs 1\nfirst 1 2 3\n")
        self.refuse("--costs", str(file), parts=["line 2", "update_s"])

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
        for arguments in [["--help"], ["schedule", "--help"], ["timeline", "--help"]]:
            result = run(*arguments)
            self.assertEqual((result.returncode, result.stderr), (0, ""))
            self.assertIn("example", result.stdout)
            self.assertLessEqual(max(map(len, result.stdout.splitlines())), 100)
        self.assertEqual(run().returncode, 2)
        self.assertEqual(run("shedule").returncode, 2)


def span(worker, category, name, begin, end, **arguments):
    """An event of docs/WATCHING.md."""
    return {"name": name, "cat": category, "ph": "X", "pid": worker + 1, "tid": 1, "ts": begin,
            "dur": end - begin, "args": {**arguments, "step": 4}}


def timeline(worker, origin, events, members=(0, 1)):
    return {"otherData": {"format": "rhizome timeline", "version": 1, "first_step": 4, "last_step": 4,
                          "origin_ns": origin, "members": list(members), "left_out": [[worker, 0]]},
            "traceEvents": events}


class Timeline(unittest.TestCase):
    """Of a run of two workers, written by hand. The second began 100 microseconds later."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.run = Path(folder.name)
        (self.run / "timeline").mkdir()
        self.write(0, 10**18, [
            span(0, "step", "step 4", 0, 1000),
            span(0, "compute", "F0:0", 0, 250, kind="F", stage=0, microbatch=0),
            span(0, "wait", "for 1", 250, 750, **{"for": "message", "peer": 1}),
            span(0, "compute", "B0:0", 750, 1000, kind="B", stage=0, microbatch=0)])
        self.write(1, 10**18 + 100_000, [
            span(1, "step", "step 4", 0, 800),
            span(1, "compute", "F1:0", 200, 400, kind="F", stage=1, microbatch=0),
            span(1, "compute", "B1:0", 400, 600, kind="B", stage=1, microbatch=0),
            span(1, "exchange", "C", 600, 800, kind="C")])

    def write(self, worker, origin, events):
        (self.run / "timeline" / f"worker-{worker:05}.json").write_text(
            json.dumps(timeline(worker, origin, events), indent=1))

    def accept(self, *arguments, warnings=0):
        result = run("timeline", str(self.run), *arguments)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(len(result.stderr.splitlines()), warnings, result.stderr)
        return result

    def refuse(self, *arguments, code=2, parts=()):
        result = run("timeline", *arguments)
        self.assertEqual(result.returncode, code, result.stdout + result.stderr)
        self.assertRegex(result.stderr, r"\Aerror: [^\n]*\(.+\), [^\n]+\n\Z")
        for part in parts:
            self.assertIn(part, result.stderr)

    def test_shows_where_the_time_went(self):
        shown = self.accept().stdout
        self.assertIn("steps 4 to 4 of 2 workers", shown)
        rows = {line.split()[0]: line for line in shown.splitlines()[2:]}
        self.assertRegex(rows["0"], r" 25\.0 % +25\.0 % +0\.0 % +50\.0 % +0\.0 % +50\.0 %  worker 1 \(500 µs\)$")
        self.assertRegex(rows["1"], r" 25\.0 % +25\.0 % +25\.0 % +0\.0 % +25\.0 % +50\.0 %$")

    def test_puts_the_workers_together_on_one_clock(self):
        for _ in range(2):  # again, in its place
            self.accept()
            whole = json.loads((self.run / "timeline.json").read_text())
            spans = {(each["pid"], each["name"]): each["ts"] for each in whole["traceEvents"] if each["ph"] == "X"}
            self.assertEqual(len(spans), 8)
            self.assertEqual(spans[1, "F0:0"], 0)
            self.assertEqual(spans[2, "F1:0"], 300)
            self.assertEqual(whole["otherData"]["origin_ns"], 10**18)

    def test_a_picture_is_well_formed_and_as_wide_as_asked_for(self):
        file = self.run / "picture.svg"
        self.accept("--svg", str(file), "--width=800")
        root = xml.etree.ElementTree.parse(file).getroot()
        self.assertTrue(root.get("viewBox").startswith("0 0 800 "))
        titles = [each.text for each in root.iter() if each.tag.endswith("title")]
        self.assertIn("F1:0 of step 4, 0.3 ms to 0.5 ms", titles)

    def test_what_cannot_be_read_is_left_out_and_named(self):
        (self.run / "timeline" / "worker-00001.json").write_text("{")
        result = self.accept(warnings=1)
        self.assertIn("worker-00001.json (is no JSON", result.stderr)
        self.assertIn("of 1 worker\n", result.stdout)
        (self.run / "timeline" / "worker-00001.json").unlink()
        self.assertIn("worker-00001.json (is missing)", self.accept(warnings=1).stderr)
        (self.run / "timeline" / "worker-00000.json").write_text("[]")
        self.refuse(str(self.run), code=3, parts=["worker-00000.json"])

    def test_hostile_files_end_soon(self):
        file = self.run / "timeline" / "worker-00000.json"
        for content in ["", "[" * 10**6, '{"otherData": {}}', "\0" * 1000]:
            file.write_text(content)
            self.accept(warnings=1)
        file.unlink()
        os.mkfifo(file)
        self.accept(warnings=1)
        self.write(1, 2**62, [span(1, "other", "<&\x1b>", 0, 9e12), span(1, "step", "<&>", 9e12, 9.1e12)])
        svg = self.run / "picture.svg"
        self.accept("--svg", str(svg), warnings=1)
        xml.etree.ElementTree.parse(svg)

    def test_bad_input(self):
        empty = self.run / "empty"
        empty.mkdir()
        for arguments, parts in [
            ([], ["which run"]),
            (["--svg", "x"], ["which run"]),
            ([str(empty)], ["has no timeline"]),
            (["/nowhere"], ["has no timeline"]),
            ([str(self.run), "more"], ["more"]),
            ([str(self.run), "--width", "20"], ["--width=20", "600..20000"]),
            ([str(self.run), "--width", "wide"], ["--width=wide"]),
            ([str(self.run), "--hight", "3"], ["--hight"]),
            ([str(self.run), "--svg", "/nowhere/picture.svg"], ["/nowhere/picture.svg"]),
        ]:
            with self.subTest(arguments):
                self.refuse(*arguments, parts=parts)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]])
