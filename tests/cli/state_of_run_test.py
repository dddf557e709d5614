"""The program `rhizome-state` on states of trained runs, and what becomes of them. Arguments: state_case.py."""

import json
import re
import shutil
import sys
import unittest
from pathlib import Path

from state_case import DIFFERENT, LOGITS_STUB, RHIZOME, Case, call

try:
    import numpy as np
    import safetensors.numpy  # noqa: F401: gpt2_by_names needs it
except ImportError:
    np = None

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "state"))


class OfARun(Case):
    KEYS = {"data.train": "book.txt", "model.blocks": 1, "model.channels": 16, "model.heads": 2, "model.context": 16,
            "microbatch_size": 2, "microbatches": 2, "lanes": 2, "steps": 4}

    def train(self, run, **keys):
        """Keys with __ for their dots. Returns the weights that its last table shows."""
        (self.folder / "book.txt").write_text("the quick brown fox jumps over the lazy dog\n" * 100)
        given = self.KEYS | {name.replace("__", "."): value for name, value in keys.items()}
        result = call(RHIZOME, "train", "--folder", run, *(f"--{name}={value}" for name, value in given.items()),
                      cwd=self.folder)
        self.assertEqual(result.returncode, 0, result.stderr)
        return re.search(r"weights +([0-9a-f]{32})", result.stdout + result.stderr)[1]

    def test_verify_shows_the_weights_of_its_last_table(self):
        weights = self.train("run", save__interval=2)
        said = self.json("verify", "run")
        self.assertEqual(len(said["states"]), 2)
        self.assertEqual(said["states"][-1]["weights"], weights)
        self.assertEqual(self.json("history", "run")["history"][0]["kind"], "started")

    def test_an_imported_state_is_one_to_begin_with(self):
        self.train("run")
        self.accept("export", "run", "model.safetensors")
        self.accept("import", "model.safetensors", "begin")
        self.assertTrue(self.json("diff", "run", "begin", "--only", "parameter")["equal"])
        again = self.train("second", **{"from": "begin"})
        self.assertEqual(self.json("verify", "second")["states"][-1]["weights"], again)
        self.json("diff", "run", "second", code=DIFFERENT)

    def test_a_run_goes_on_from_the_newest_whole_state_of_another(self):
        weights = self.train("whole")
        self.train("first", steps=3, optimizer__decay_steps=4, save__interval=2)
        self.damage("first/states/step-00000003/share-00000.h5")
        before = self.tree()
        for given in ["first", "first/states", "first/states/step-00000002"]:
            with self.subTest(given):
                self.assertEqual(self.train("second", **{"from": given}), weights)
                events = self.json("history", "second")["history"]
                self.assertIn("first/states/step-00000002", events[-1]["text"])
                self.assertEqual(events[-1]["kind"], "resumed")
                shutil.rmtree(self.folder / "second")
                self.assertEqual(self.tree(), before)

    def test_trained_exported_and_imported_is_the_same(self):
        self.train("run")
        self.accept("export", "run", "all.safetensors", "--raw")
        self.accept("import", "all.safetensors", "back")
        self.assertTrue(self.json("diff", "run", "back")["equal"])
        self.accept("export", "run", "model.safetensors")
        self.accept("export", "back", "again.safetensors")
        self.assertEqual(*((self.folder / name).read_bytes() for name in ["model.safetensors", "again.safetensors"]))

    @unittest.skipIf(np is None, "there is no NumPy with safetensors")
    def test_numpy_makes_of_the_exported_file_what_training_made_of_the_weights(self):
        import gpt2_by_names
        text = b"And God said, Let"  # one window: every sample of every step
        (self.folder / "window.txt").write_bytes(text)
        for tied in ["true", "false"]:
            run = f"run-{tied}"
            self.train(run, data__train="window.txt", model__blocks=2, model__tied=tied, steps=21, save__interval=20,
                       optimizer__learning_rate=0.01, data__validation_share=0)
            state, file = f"{run}/states/step-00000020", f"{tied}.safetensors"
            self.accept("export", state, file)
            logits = gpt2_by_names.logits(self.folder / file, [list(text[:-1])], 2)[0]
            for length in [1, 7, 16]:
                said = call(LOGITS_STUB, state, *text[:length], cwd=self.folder)
                self.assertEqual(said.returncode, 0, said.stderr)
                ours = [float(line) for line in said.stdout.split()]
                np.testing.assert_allclose(logits[length - 1], ours, rtol=0, atol=1e-4)
            right = logits[np.arange(16), list(text[1:])]
            loss = np.mean(np.log(np.exp(logits).sum(-1)) - right)
            self.assertLess(loss, 4)
            events = [json.loads(line) for line in (self.folder / run / "metrics.jsonl").read_text().splitlines()]
            trained = [event["loss"] for event in events if event["event"] == "step" and event["step"] == 20]
            np.testing.assert_allclose(trained, [loss], rtol=0, atol=1e-5)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]])
