"""The program `rhizome-state` from outside, on states that a helper writes. Arguments: state_case.py."""

import fcntl
import os
import shutil
import subprocess
import sys
import unittest

from state_case import BAD_CONFIG, BAD_DATA, DIFFERENT, DONE, PROGRAM, SECONDS_MAX, Case

VERBS = ["ls", "show", "verify", "diff", "history", "merge", "prune", "export", "import"]


class Looking(Case):
    def test_ls_marks_the_newest_whole_and_names_what_is_wrong(self):
        for steps in [100, 20, 300]:
            self.write_state(steps)
        (self.folder / "run/states/step-00000300/share-00001.h5").unlink()
        (self.folder / "run/states/.step-00000400.part").mkdir()
        shown = self.accept("ls", "run")
        self.assertLess(shown.index(" 20 "), shown.index(" 100 "))
        self.assertRegex(shown, r"(?m)^ +100 .* whole, newest$")
        self.assertRegex(shown, r"(?m)^ +300 .* damaged: share-00001.h5: file: is missing$")
        self.assertIn(".step-00000400.part", shown)
        for path in ["run", "run/", "run/states"]:
            listed = self.json("ls", path)
            self.assertEqual([state["steps"] for state in listed["states"]], [20, 100, 300])
            self.assertEqual([state["whole"] for state in listed["states"]], [True, True, False])
            self.assertEqual([state["newest"] for state in listed["states"]], [False, True, False])
            self.assertEqual(len(listed["leftovers"]), 1)
            files = (self.folder / "run/states/step-00000020").iterdir()
            self.assertEqual(listed["states"][0]["bytes"], sum(file.stat().st_size for file in files))

    def test_show_tells_what_a_state_says_of_itself(self):
        path, _ = self.write_state(20, writers=3)
        shown = self.accept("show", path)
        for part in ["20 steps, 160 samples, 0.16 passes over 1000", "  seed = 7", "reference, x86-64-v3",
                     "0123456789abcdef0123456789abcdef", "head/weight is embedding/token"]:
            self.assertIn(part, shown)
        self.assertRegex(shown, r"(?m)^block.0/filter +\(2, 3, 2, 4\) +f32 +48 +3 +0-2$")
        said = self.json("show", "run")
        self.assertEqual(said["path"], path)
        self.assertEqual(said["mathematics"], {"layers": "2", "seed": "7"})
        self.assertEqual(said["ties"], {"head/weight": "embedding/token"})
        self.assertEqual(said["parameters"], sum(tensor["elements"] for tensor in said["tensors"]))
        self.assertEqual(said["tensors"][4], {"name": "head/norm", "shape": [16], "type": "f64", "elements": 16,
                                              "chunks": 1, "writers": [0]})

    def test_show_of_a_tensor_has_numbers_about_its_values(self):
        self.write_state(2)
        said = self.json("show", "run", "block.0/attention.bias")
        values = [2 * 10000 + 2 * 1000 + 300 + element + 0.5 for element in range(7)]
        moment = said["values"]["first_moment"]
        self.assertEqual((moment["least"], moment["largest"], moment["non_finite"]), (values[0], values[-1], 0))
        self.assertAlmostEqual(moment["mean"], sum(values) / 7, places=6)
        self.assertAlmostEqual(moment["rms"], (sum(value**2 for value in values) / 7) ** 0.5, places=6)
        self.assertEqual(moment["first"], values)
        self.assertEqual(self.json("show", "run", "head/weight")["tensor"]["name"], "embedding/token")
        self.assertIn("22300.5 22301.5", self.accept("show", "run", "block.0/attention.bias"))

    def test_verify_shows_the_weights_of_what_is_whole(self):
        path, weights = self.write_state(20)
        self.assertIn(f"weights  {weights}", self.accept("verify", path))
        self.assertEqual(self.json("verify", "run")["states"][0]["weights"], weights)

    def test_verify_finds_a_turned_bit_in_a_run(self):
        self.write_state(20)
        path, _ = self.write_state(30)
        self.damage(f"{path}/share-00001.h5")
        shown = self.accept("verify", "run", code=BAD_DATA)
        self.assertRegex(shown, r"damaged: share-00001.h5: \S+#\d+ \w+: ")
        said = self.json("verify", "run", code=BAD_DATA)
        self.assertEqual([state["whole"] for state in said["states"]], [True, False])
        self.assertFalse(said["whole"])
        # Values are not looked at by ls.
        self.assertTrue(self.json("ls", "run")["states"][1]["whole"])

    def test_history_lists_events(self):
        self.write_state(20)
        self.assertRegex(self.accept("history", "run"), r"(?m)^  2026-11-30T05:48:35Z +20  saved ")
        self.assertEqual([event["kind"] for event in self.json("history", "run")["history"]], ["started", "saved"])

    def test_the_newest_whole_state_of_a_run_is_named(self):
        path, _ = self.write_state(20)
        self.write_state(30)
        (self.folder / "run/states/step-00000030/index.h5").write_bytes(b"")
        result = self.run_program("show", "run")
        self.assertEqual(result.returncode, DONE)
        self.assertRegex(result.stderr, r"\Awarning: state run/states/step-00000030 \(.*\), an older one is tried\n"
                                        rf"state {path}, the newest whole one\n\Z")

    def test_nobody_listening_is_no_error(self):
        path, _ = self.write_state(20)
        reader, writer = os.pipe()
        os.close(reader)
        result = subprocess.run([PROGRAM, "show", path], stdout=writer, stderr=subprocess.PIPE, cwd=self.folder,
                                timeout=SECONDS_MAX, check=False)
        os.close(writer)
        self.assertEqual((result.returncode, result.stderr), (DONE, b""))

    @unittest.skipUnless(os.path.exists("/dev/full"), "there is no /dev/full")
    def test_no_room_for_the_answer_is_an_error(self):
        path, _ = self.write_state(20)
        for words in [["show", path], ["--help"]]:
            with open("/dev/full", "wb") as full:
                result = subprocess.run([PROGRAM, *words], stdout=full, stderr=subprocess.PIPE, cwd=self.folder,
                                        timeout=SECONDS_MAX, check=False)
            self.assertEqual(result.returncode, BAD_CONFIG)
            self.assertRegex(result.stderr.decode(), r"\Aerror: the output \(.+\), make room, .+\n\Z")


class Comparing(Case):
    def test_equal_states_of_different_writers(self):
        a, _ = self.write_state(20, writers=1, run="one")
        b, _ = self.write_state(20, writers=4, run="four")
        self.assertIn("equal, bit for bit", self.accept("diff", a, b))
        said = self.json("diff", a, b)
        self.assertEqual((said["equal"], said["values"], said["values_read"]), (True, 3 * 186, 0))

    def test_different_states(self):
        self.write_state(20)
        self.write_state(21)
        words = ["diff", "run/states/step-00000020", "run/states/step-00000021"]
        self.assertIn("the values differ", self.accept(*words, code=DIFFERENT))
        said = self.json(*words, "--only", "parameter", code=DIFFERENT)
        self.assertEqual(len(said["tensors"]), 5)
        self.assertEqual({tensor["value"] for tensor in said["tensors"]}, {"parameter"})
        bias = said["tensors"][2]
        self.assertEqual((bias["name"], bias["differing"], bias["largest_absolute"], bias["first_at"]),
                         ("block.0/attention.bias", 7, 10000, 0))
        self.assertAlmostEqual(bias["largest_relative"], 10000 / 212000.5)
        self.assertIn({"name": "trained steps", "a": "20", "b": "21"}, said["facts"])
        self.accept(*words, "--tolerance", "10000")
        self.accept(*words, "--tolerance=9999", code=DIFFERENT)


class Writing(Case):
    def test_a_merged_state_is_the_same_in_one_share(self):
        path, weights = self.write_state(20, writers=4)
        self.accept("merge", path, "merged")
        self.assertEqual(sorted(file.name for file in (self.folder / "merged").iterdir()),
                         ["index.h5", "share-00000.h5"])
        self.assertIn(weights, self.accept("verify", "merged"))
        self.assertEqual(self.json("diff", path, "merged")["facts"], [])
        self.assertEqual(self.tree(), sorted(set(self.tree())))
        self.assertFalse([name for name in os.listdir(self.folder) if name.startswith(".")])
        self.refuse("merge", path, "merged", code=BAD_CONFIG, parts=["is there already"])

    def test_a_damaged_state_is_not_merged(self):
        path, _ = self.write_state(20)
        self.damage(f"{path}/share-00000.h5")
        self.refuse("merge", path, "merged", code=BAD_DATA, parts=["share-00000.h5"])
        self.refuse("export", path, "raw.safetensors", "--raw", code=BAD_DATA, parts=["share-00000.h5"])

    def test_prune_keeps_by_a_rule(self):
        for steps in [10, 15, 20, 25, 30]:
            self.write_state(steps)
        before = self.tree()
        words = ["prune", "run", "--keep", "1", "--keep-every", "20"]
        told = self.json(*words, "--dry-run")
        self.assertEqual([state["steps"] for state in told["removed"]], [10, 15, 25])
        self.assertEqual(self.tree(), before)
        done = self.json(*words)
        self.assertEqual([state["steps"] for state in done["kept"]], [20, 30])
        self.assertEqual(sorted(os.listdir(self.folder / "run/states")), ["step-00000020", "step-00000030"])
        self.assertTrue(self.json("verify", "run")["whole"])

    def test_prune_does_not_count_on_damaged_states(self):
        for steps in [10, 20, 30]:
            self.write_state(steps)
        (self.folder / "run/states/step-00000030/index.h5").unlink()
        shown = self.accept("prune", "run", "--keep=1")
        self.assertRegex(shown, r"(?m)^ +10 .* removed$")
        self.assertRegex(shown, r"(?m)^ +20 .* kept$")
        self.assertRegex(shown, r"(?m)^ +30 .* left alone: damaged ")
        self.assertEqual(sorted(os.listdir(self.folder / "run/states")), ["step-00000020", "step-00000030"])

    def test_prune_leaves_a_run_that_goes_on_alone(self):
        for steps in [10, 20]:
            self.write_state(steps)
        (self.folder / "run/processes").mkdir()
        lock = self.folder / "run/lock"
        with lock.open("w") as held:
            fcntl.flock(held, fcntl.LOCK_SH)
            for path in ["run", "run/states"]:
                self.refuse("prune", path, "--keep=1", code=BAD_CONFIG, parts=["the run goes on"])
            self.accept("prune", "run", "--keep=1", "--dry-run")
        self.accept("prune", "run", "--keep=1")
        self.assertEqual(os.listdir(self.folder / "run/states"), ["step-00000020"])

    def test_a_raw_file_gives_all_of_a_state_back(self):
        path, weights = self.write_state(20, writers=3)
        self.accept("export", path, "raw.safetensors", "--raw")
        self.accept("import", "raw.safetensors", "back")
        self.assertIn(weights, self.accept("verify", "back"))
        self.accept("merge", path, "merged")
        back, merged = self.json("show", "back"), self.json("show", "merged")
        self.assertEqual({**back, "path": ""}, {**merged, "path": ""})
        self.assertEqual(self.json("history", "back")["history"], self.json("history", path)["history"])
        self.refuse("import", "raw.safetensors", "again", "--seed", "3", code=BAD_CONFIG, parts=["--seed=3"])

    def test_a_gpt_goes_there_and_back(self):
        self.accept("import", self.make_gpt(), "gpt")
        said = self.json("show", "gpt")
        self.assertEqual((said["steps"], said["mathematics"]["model.channels"], said["mathematics"]["data.format"]),
                         (0, "8", "tokens"))
        self.assertEqual(self.json("show", "gpt", "final_norm/weight")["values"]["second_moment"]["largest"], 0)
        self.accept("export", "gpt", "again.safetensors")
        self.accept("import", "again.safetensors", "again", "--seed", "7")
        compared = self.json("diff", "gpt", "again")
        self.assertTrue(compared["equal"])
        self.assertEqual(compared["facts"], [{"name": "seed", "a": said["mathematics"]["seed"], "b": "7"}])

    def test_keys_of_an_import_must_fit_its_file(self):
        self.make_gpt()
        for words, parts in [(["--model.blocks", "7"], ["--model.blocks", "model.blocks = 2"]),
                             (["--precision", "fp64"], ["--precision", "fp32"]),
                             (["--heads", "3"], ["heads"]),
                             (["--lanes", "3"], ["lanes"]),
                             (["--config", "nowhere.conf"], ["nowhere.conf"]),
                             (["--sead", "3"], ["--seed"])]:
            with self.subTest(words):
                result = self.run_program("import", "gpt.safetensors", "gpt", *words)
                self.assertIn(result.returncode, [BAD_CONFIG, BAD_DATA], result.stderr)
                self.assertRegex(result.stderr, r"\Aerror: [^\n]*\(.+\), [^\n]+\n\Z")
                for part in parts:
                    self.assertIn(part, result.stderr)
                self.assertEqual(os.listdir(self.folder), ["gpt.safetensors"])


class BadInput(Case):
    def test_paths_that_are_no_states(self):
        self.write_state(20)
        (self.folder / "empty").mkdir()
        (self.folder / "text").write_text("no state")
        for verb, words in [("ls", []), ("show", []), ("verify", []), ("history", []), ("prune", []),
                            ("diff", ["run"]), ("merge", ["out"]), ("export", ["out"])]:
            for path in ["nowhere", "empty", "text", "run/states/step-00000020/index.h5"]:
                with self.subTest((verb, path)):
                    self.refuse(verb, path, *words, code=BAD_DATA, parts=[path])
        self.refuse("import", "nowhere", "out", code=BAD_DATA, parts=["nowhere"])
        self.refuse("import", "text", "out", code=BAD_DATA, parts=["text"])
        self.refuse("import", "run", "out", code=BAD_DATA, parts=["run"])

    def test_files_that_are_something_else(self):
        path, _ = self.write_state(20)
        index = self.folder / path / "index.h5"
        whole = index.read_bytes()
        share = (self.folder / path / "share-00000.h5").read_bytes()
        for content in [b"", b"foreign" * 300, whole[:-100], share, whole.replace(b"state index 1", b"state index 2", 1)]:
            index.write_bytes(content)
            for words in [["show", path], ["history", path], ["diff", path, path], ["merge", path, "out"]]:
                self.refuse(*words, code=BAD_DATA, parts=["index.h5"])
            self.assertFalse(self.json("ls", "run")["states"][0]["whole"])
            self.assertFalse(self.json("verify", "run", code=BAD_DATA)["whole"])
            self.refuse("show", "run", code=BAD_DATA, parts=["no state in it is whole"])

    def test_a_verb_that_takes_a_run_refuses_a_state(self):
        path, _ = self.write_state(20)
        self.refuse("ls", path, code=BAD_CONFIG, parts=["is one state"])
        self.refuse("prune", path, code=BAD_CONFIG, parts=["is one state"])

    def test_flags_and_values(self):
        self.write_state(20)
        for words, parts in [(["shwo", "run"], ["`rhizome-state show`"]), (["ls"], ["ls RUN"]),
                             (["diff", "run"], ["diff A B"]), (["ls", "run", "run"], ["one too many"]),
                             (["diff", "run", "run", "--tolerance", "-1"], ["--tolerance=-1"]),
                             (["diff", "run", "run", "--tolerance", "nan"], ["--tolerance=nan"]),
                             (["diff", "run", "run", "--only", "moments"], ["parameter|first_moment"]),
                             (["prune", "run", "--keep", "0"], ["--keep=0"]),
                             (["prune", "run", "--keep", "many"], ["--keep=many"]),
                             (["show", "run", "head/waight"], ["head/weight?"]),
                             (["ls", "run", "--jsn"], ["--json"]),
                             (["merge", "run", "nowhere/out"], ["nowhere"]),
                             (["merge", "run", "run/states/step-00000020/in"], ["lies within a state"])]:
            with self.subTest(words):
                self.refuse(*words, code=BAD_CONFIG, parts=parts)

    def test_what_cannot_be_written_leaves_nothing(self):
        path, _ = self.write_state(20)
        for words in [["merge", path, "/proc/out"], ["export", path, "/proc/out", "--raw"]]:
            self.refuse(*words, code=BAD_CONFIG, parts=["/proc/out (cannot be written: "])

    def test_a_control_character_in_a_name_stays_in_its_line(self):
        path, _ = self.write_state(20)
        shutil.move(self.folder / path, self.folder / "a\nb\x1b[1m")
        shown = self.accept("show", "a\nb\x1b[1m")
        self.assertIn(r"a\x0ab\x1b[1m", shown)
        self.refuse("show", "c\nd", code=BAD_DATA, parts=[r"c\x0ad"])


class Help(Case):
    def test_teaches(self):
        for words in [["--help"], ["-h"], *([verb, "--help"] for verb in VERBS)]:
            with self.subTest(words):
                shown = self.accept(*words)
                self.assertIn("usage", shown)
                self.assertIn("example", shown)
                self.assertLessEqual(max(map(len, shown.splitlines())), 100)
        for verb in VERBS:
            self.assertIn(f"rhizome-state {verb} ", self.accept("--help"))
            self.assertIn("--json: {", self.accept(verb, "--help").replace("--json of a state: {", "--json: {"))

    def test_no_verb_gives_the_help_as_an_error(self):
        result = self.run_program()
        self.assertEqual((result.returncode, result.stdout), (BAD_CONFIG, ""))
        self.assertIn("usage", result.stderr)

    def test_the_version_is_one_line(self):
        self.assertRegex(self.accept("--version"), r"\Arhizome \d+\.\d+\.\d+\n\Z")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]])
