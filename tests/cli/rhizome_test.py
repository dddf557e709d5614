"""The program `rhizome` from outside: what it prints, where, and with which exit code it ends.

    rhizome_test.py PROGRAM README [SANITIZERS]
"""

import os
import pty
import re
import resource
import struct
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

PROGRAM, README = sys.argv[1:3]
SANITIZED = len(sys.argv) > 3 and sys.argv[3] != ""
plain_build_only = unittest.skipIf(SANITIZED, "a sanitizer takes memory and address space of its own")
SECONDS_MAX = 60

TINY = {
    "model.blocks": "1", "model.channels": "8", "model.heads": "2", "model.context": "8",
    "model.vocabulary": "256", "microbatch_size": "2", "microbatches": "4", "lanes": "2",
    "steps": "6", "log.interval": "2", "evaluate.interval": "3",
}


def environment(**extra):
    kept = {name: value for name, value in os.environ.items() if not name.startswith("RHIZOME_")}
    return kept | extra


class Rhizome(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.text = self.file("text.txt", b"In the beginning was the word, and so on. " * 40)

    def file(self, name, content):
        path = Path(self.folder.name) / name
        path.write_bytes(content)
        return str(path)

    def tokens(self, name, tokens, magic=20240520, version=1, count=None):
        header = [magic, version, len(tokens) if count is None else count] + [0] * 253
        return self.file(name, struct.pack("<256i", *header) + struct.pack(f"<{len(tokens)}H", *tokens))

    def run_program(self, *arguments, **extra):
        return subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, timeout=SECONDS_MAX,
                              stdin=subprocess.DEVNULL, env=environment(**extra), check=False)

    def train(self, extra_environment=None, **keys):
        """Underscores of a keyword stand for dots: optimizer__clip_norm is optimizer.clip_norm."""
        given = TINY | {"data.train": self.text}
        given |= {name.replace("__", "."): value for name, value in keys.items()}
        flags = [f"--{name}={value}" for name, value in given.items() if value is not None]
        return self.run_program("train", *flags, **(extra_environment or {}))

    def weights(self, result):
        self.assertEqual(result.returncode, 0, result.stderr)
        return re.search(r"^ +weights +([0-9a-f]{32})$", result.stdout, re.MULTILINE)[1]

    def assert_refused(self, result, code, *parts):
        """One line on standard error: problem (reason), hint. And nothing was trained."""
        self.assertEqual(result.returncode, code, result.stdout + result.stderr)
        self.assertRegex(result.stderr, r"\Aerror: [^\n]+\n\Z")
        self.assertRegex(result.stderr, r"\(.+\), ")
        self.assertNotRegex(result.stdout, r"(?m)^step ")
        for part in parts:
            self.assertIn(part, result.stderr)


class Training(Rhizome):
    def test_prints_configuration_progress_and_table(self):
        result = self.train()
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stderr, "")
        steps = re.findall(r"^step (\d+)/6  loss [\d.]+ .* tokens/s  ETA ", result.stdout, re.MULTILINE)
        self.assertEqual(steps, ["1", "2", "4", "6"])
        evaluations = re.findall(r"^step (\d)/6  validation loss [\d.]+$", result.stdout, re.MULTILINE)
        self.assertEqual(evaluations, ["3", "6"])
        for row in ["steps", "samples", "training loss", "validation loss", "time", "weights"]:
            self.assertRegex(result.stdout, rf"(?m)^  {row} ")

    def test_a_pipe_gets_no_control_characters(self):
        self.assertNotRegex(self.train().stdout, r"[\x00-\x09\x0b-\x1f\x7f]")

    def test_a_terminal_gets_a_line_that_changes(self):
        try:
            master, terminal = pty.openpty()
        except OSError as error:
            self.skipTest(f"there are no terminals here ({error})")
        flags = [f"--{name}={value}" for name, value in (TINY | {"log.interval": "100"}).items()]
        with subprocess.Popen([PROGRAM, "train", f"--data.train={self.text}", *flags], stdout=terminal,
                              stdin=subprocess.DEVNULL, env=environment()) as process:
            os.close(terminal)
            shown = b""
            try:
                while part := os.read(master, 65536):
                    shown += part
            except OSError:  # how Linux says that the other side is closed
                pass
            self.assertEqual(process.wait(SECONDS_MAX), 0)
        os.close(master)
        self.assertIn(b"\r\x1b[K", shown)

    def test_layout_keys_do_not_change_the_weights(self):
        for device, others in [("cpu", []), ("reference", [{"threads": "3"}])]:
            weights = self.weights(self.train(device=device))
            for keys in [{"recompute": "all"}, {"evaluate__interval": "1"}, {"evaluate__interval": "0"},
                         {"log__interval": "1"}, *others]:
                with self.subTest(device=device, keys=keys):
                    self.assertEqual(self.weights(self.train(device=device, **keys)), weights)

    def test_a_path_is_layout_and_its_content_is_mathematics(self):
        weights = self.weights(self.train())
        copy = self.file("copy.txt", Path(self.text).read_bytes())
        self.assertEqual(self.weights(self.train(data__train=copy)), weights)
        other = self.file("other.txt", Path(self.text).read_bytes().replace(b"word", b"verb"))
        result = self.train(data__train=other)
        self.assertNotEqual(self.weights(result), weights)
        digest = r"(?m)^mathematics  ([0-9a-f]{32})$"
        self.assertNotEqual(re.search(digest, result.stdout)[1], re.search(digest, self.train().stdout)[1])

    def test_mathematics_keys_change_the_weights(self):
        weights = self.weights(self.train())
        for keys in [{"seed": "2"}, {"lanes": "4"}, {"model__dropout": "0.1"}, {"precision": "fp64"},
                     {"model__tied": "false"}, {"optimizer__clip_norm": "0.01"}]:
            with self.subTest(keys):
                self.assertNotEqual(self.weights(self.train(**keys)), weights)

    def test_what_it_prints_first_is_a_configuration_file_for_the_same_run(self):
        first = self.train(model__dropout="0.1", optimizer__learning_rate="0.002")
        printed = first.stdout.split("\nnetwork ")[0]
        again = self.run_program("train", "--config", self.file("again.conf", printed.encode()))
        self.assertEqual(self.weights(again), self.weights(first))

    def test_more_steps_continue_fewer(self):
        short = self.train(steps="3", optimizer__decay_steps="6")
        long = self.train(steps="6", optimizer__decay_steps="6")
        line = re.search(r"(?m)^step [12]/3  (loss .*?)  \S+ tokens/s", short.stdout)[1]
        self.assertIn(line, long.stdout)
        self.assertNotEqual(self.weights(short), self.weights(long))

    def test_the_environment_counts_and_flags_win_over_it(self):
        by_flag = self.weights(self.train(seed="7"))
        self.assertEqual(self.weights(self.train({"RHIZOME_SEED": "7"})), by_flag)
        self.assertEqual(self.weights(self.train({"RHIZOME_SEED": "8"}, seed="7")), by_flag)

    def test_token_files_train_like_the_same_text(self):
        tokens = self.tokens("text.bin", Path(self.text).read_bytes())
        result = self.train(data__format="tokens", data__train=tokens)
        self.assertEqual(self.weights(result), self.weights(self.train()))

    def test_a_reader_that_stops_reading_does_no_harm(self):
        flags = [f"--{name}={value}" for name, value in (TINY | {"steps": "500"}).items()]
        command = " ".join([PROGRAM, "train", f"--data.train={self.text}", *flags])
        # The reader is gone before the first step; PIPESTATUS is how the program itself ended.
        result = subprocess.run(["bash", "-c", command + " | true; echo ${PIPESTATUS[0]}"],
                                capture_output=True, text=True, timeout=SECONDS_MAX, env=environment(),
                                check=False)
        self.assertEqual((result.stdout, result.stderr), ("0\n", ""))

    def test_closed_descriptors_do_no_harm(self):
        flags = " ".join(f"--{name}={value}" for name, value in TINY.items())
        before = Path(self.text).read_bytes()
        result = subprocess.run(["bash", "-c", f"{PROGRAM} train --data.train={self.text} {flags} <&- >&- 2>&-"],
                                timeout=SECONDS_MAX, env=environment(), check=False)
        self.assertEqual(result.returncode, 0)
        self.assertEqual(Path(self.text).read_bytes(), before)

    @plain_build_only
    def test_attention_over_many_positions_takes_little_memory(self):
        text = self.file("long.txt", b"abcdefgh" * 2000)
        result = self.train(data__train=text, model__context="12000", microbatch_size="1", microbatches="1",
                            lanes="1", data__validation_share="0", steps="1", threads="2")
        self.assertEqual(result.returncode, 0, result.stderr)
        peak_kb = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
        self.assertLess(peak_kb, 300_000)  # one T x T matrix alone would be 576 MB


    @plain_build_only
    def test_memory_is_as_planned(self):
        before = 0
        for precision in ["fp32", "bf16"]:  # which keeps two rounded factors besides
            with self.subTest(precision):
                result = self.train(model__channels="512", precision=precision, steps="1", device="cpu")
                self.assertEqual(result.returncode, 0, result.stderr)
                found = re.search(r"(?m)^  memory +([0-9.]+)MB at most in this process, ([0-9.]+)MB planned",
                                  result.stdout)
                taken, planned = float(found[1]), float(found[2])
                self.assertGreater(planned, 60)
                runtime = 30  # of libraries and code, in megabytes
                self.assertLess(abs(taken - planned), 0.1 * planned + runtime)
                self.assertGreater(planned, before)
                before = planned + 5


class Profile(Rhizome):
    def profile(self, *arguments):
        flags = [f"--{name.replace('__', '.')}={value}" for name, value in TINY.items()
                 if name.startswith(("model", "microbatch"))]
        return self.run_program("profile", *flags, *arguments)

    def test_a_table_of_the_layers(self):
        result = self.profile()
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertTrue(result.stdout.startswith("rhizome costs 1\n# "))
        rows = [line.split() for line in result.stdout.splitlines()[1:] if not line.startswith("#")]
        self.assertEqual([row[0] for row in rows][0::len(rows) - 1], ["embedding", "head"])
        for row in rows:
            self.assertEqual(len(row), 9)
            self.assertTrue(all(float(cost) > 0 for cost in row[1:4]), row)

    def test_a_run_takes_it(self):
        table = f"{self.folder.name}/costs"
        result = self.profile("--output", table)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertIn(table, result.stdout)
        plain, measured = self.train(), self.train(costs=table)
        self.assertEqual(measured.returncode, 0, measured.stderr)
        self.assertIn(f"costs = {table}\n", measured.stdout)
        self.assertEqual(self.weights(measured), self.weights(plain))

    def test_what_does_not_fit_is_refused(self):
        table = f"{self.folder.name}/costs"
        self.profile("--output", table)
        self.assert_refused(self.train(costs=table, microbatch_size="1"), 2, "costs", "wire_bytes", "rhizome profile")
        self.assert_refused(self.train(costs=self.file("text", b"no costs")), 2, "costs", "line 1")
        self.assert_refused(self.train(costs="nowhere"), 2, "costs=nowhere", "cannot be read")
        os.mkfifo(f"{self.folder.name}/pipe")
        self.assert_refused(self.train(costs=f"{self.folder.name}/pipe"), 2, "no ordinary file")
        self.assert_refused(self.profile("--device", "paced"), 2, "device=paced")
        self.assert_refused(self.profile("--output", "nowhere/costs"), 2, "--output")
        self.assert_refused(self.profile("--model.heads", "3"), 2, "model.heads")


class BadInput(Rhizome):
    def test_keys(self):
        for keys, parts in [
            ({"model__block": "1"}, ["--model.block", "model.blocks"]),
            ({"steps": ""}, ["steps"]),
            ({"steps": "-1"}, ["steps"]),
            ({"steps": "1e3"}, ["steps", "1000"]),
            ({"optimizer__learning_rate": "nan"}, ["optimizer.learning_rate"]),
            ({"model__dropout": "1.5"}, ["model.dropout"]),
            ({"lanes": "3"}, ["lanes=3", "microbatches=4"]),
            ({"model__heads": "3"}, ["model.heads=3"]),
            ({"data__train": None}, ["data.train"]),
        ]:
            with self.subTest(keys):
                self.assert_refused(self.train(**keys), 2, *parts)

    def test_a_key_given_twice(self):
        self.assert_refused(self.run_program("train", "--seed=1", "--seed=2", f"--data.train={self.text}"),
                            2, "seed")

    def test_an_unknown_variable(self):
        self.assert_refused(self.train({"RHIZOME_SEDE": "1"}), 2, "RHIZOME_SEDE", "RHIZOME_SEED")

    def test_a_configuration_file_that_is_not_there(self):
        self.assert_refused(self.run_program("train", "--config", "nowhere.conf"), 2, "nowhere.conf")

    def test_an_unknown_command(self):
        self.assert_refused(self.run_program("trian"), 2, "trian", "train")

    def test_data_files(self):
        folder = self.folder.name
        for name, content in [("empty.txt", b""), ("short.txt", b"12345678"),
                              ("header.bin", b"\x00" * 100)]:
            self.file(name, content)
        self.tokens("magic.bin", range(200), magic=1)
        self.tokens("version.bin", range(200), version=2)
        self.tokens("truncated.bin", range(200), count=300)
        self.tokens("longer.bin", range(200), count=100)
        self.tokens("outside.bin", list(range(200)) + [256] + list(range(50)))
        for name, file_format, parts in [
            ("missing.txt", "bytes", []),
            ("", "bytes", []),
            ("empty.txt", "bytes", ["empty"]),
            ("short.txt", "bytes", ["8", "9"]),
            ("header.bin", "tokens", []),
            ("magic.bin", "tokens", ["20240520"]),
            ("version.bin", "tokens", ["version"]),
            ("truncated.bin", "tokens", ["truncated", "300", "1424"]),
            ("longer.bin", "tokens", ["100", "1424"]),
            ("outside.bin", "tokens", ["200", "256"]),
            ("none_*.bin", "tokens", []),
        ]:
            with self.subTest(name):
                path = os.path.join(folder, name)
                result = self.train(data__train=path, data__format=file_format)
                self.assert_refused(result, 3, path, *parts)

    def test_a_validation_set_smaller_than_a_batch(self):
        small = self.file("small.txt", b"0123456789")
        self.assert_refused(self.train(data__validation=small), 3, "validation set", "microbatch_size=2")

    def test_a_model_larger_than_the_machine(self):
        result = self.train(model__blocks="400", model__channels="16384", model__heads="8")
        self.assert_refused(result, 2, "the run needs at least", "of memory", "recompute=all")

    def test_more_than_counters_hold(self):
        self.assert_refused(self.train(microbatches="2147483647", lanes="1", microbatch_size="4",
                                       model__context="1"), 2, "microbatches=2147483647", "sampler")
        self.assert_refused(self.train(model__vocabulary="65536", model__channels="65535", model__heads="1",
                                       chunk_elements="4"), 2, "chunk_elements=4", "take at least 8")
        self.assert_refused(self.train(data__train=self.file("few.txt", b"0123456789"), steps="2147483647",
                                       data__validation_share="0", microbatches="64"), 2, "steps=", "passes")

    @plain_build_only
    def test_more_threads_than_the_system_gives(self):
        result = subprocess.run(["bash", "-c", 'ulimit -v 3000000; exec "$@"', "-", PROGRAM, "train", *(
            f"--{name}={value}" for name, value in TINY.items()), f"--data.train={self.text}", "--threads=1024"],
            capture_output=True, text=True, timeout=SECONDS_MAX, env=environment(), check=False)
        self.assert_refused(result, 2, "threads=1024")

    def test_a_file_name_cannot_break_the_line_of_its_error(self):
        self.file("empty\nfile.txt", b"")
        self.assert_refused(self.train(data__train=self.folder.name + "/empty*"), 3, "empty\\x0afile.txt")

    def test_divergence(self):
        result = self.train(optimizer__learning_rate="1e30", optimizer__final_learning_rate="1e30",
                            optimizer__clip_norm="0")
        self.assertEqual(result.returncode, 4, result.stdout + result.stderr)
        self.assertRegex(result.stderr, r"\Aerror: training diverged .*\(.+\), .*learning_rate.*\n\Z")
        self.assertIn("\n  steps   ", result.stdout)  # the table comes all the same

    def test_divergence_in_the_last_update(self):
        for share in ["0.1", "0"]:
            result = self.train(optimizer__learning_rate="1e39", steps="1", data__validation_share=share)
            self.assertEqual(result.returncode, 4, result.stdout + result.stderr)
            self.assertRegex(result.stderr, r"\Aerror: training diverged .*\n\Z")


class Help(Rhizome):
    def test_teaches(self):
        for arguments, parts in [(["--help"], ["train", "exit codes", "example"]),
                                 (["train", "--help"], ["model.blocks", "RHIZOME_", "gpt2-xl"]),
                                 (["profile", "--help"], ["--costs", "example"])]:
            result = self.run_program(*arguments)
            self.assertEqual((result.returncode, result.stderr), (0, ""))
            for part in parts:
                self.assertIn(part, result.stdout)
            self.assertLessEqual(max(map(len, result.stdout.splitlines())), 100)

    def test_no_command_gives_the_help_as_an_error(self):
        result = self.run_program()
        self.assertEqual((result.returncode, result.stdout), (2, ""))
        self.assertIn("usage", result.stderr)

    def test_exit_codes_of_the_help_are_those_of_the_readme(self):
        listed = re.findall(r"(?m)^  (\d)  ", self.run_program("--help").stdout)
        self.assertEqual(re.findall(r"(?m)^\| (\d+) \| ", Path(README).read_text()), listed)
        self.assertEqual(listed, [str(code) for code in range(10)])


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]])
