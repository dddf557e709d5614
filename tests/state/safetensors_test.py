#!/usr/bin/env python3
"""The reference implementation of safetensors reads what is written here, and the other way round; an
exported GPT, read by Hugging Face's names, computes what docs/MATHEMATICS.md says.

    safetensors_test.py STUB    tests/state/safetensors_stub.cpp
"""

import json
import pathlib
import struct
import subprocess
import sys
import tempfile
import unittest

import numpy as np
import safetensors
from safetensors.numpy import load_file, save_file

TESTS = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS / "golden"), str(TESTS / "state")]
import gpt2_by_names  # noqa: E402
import gpt_numpy  # noqa: E402

STUB = sys.argv.pop(1)
TOKENS = (np.arange(3 * 5).reshape(3, 5) ** 2 * 7 + 3) % 11


def metadata(path):
    with safetensors.safe_open(path, "numpy") as file:
        return file.metadata()


def header(path):
    content = pathlib.Path(path).read_bytes()
    (size,) = struct.unpack("<Q", content[:8])
    return size, json.loads(content[8 : 8 + size])


class Test(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, name):
        return f"{self.folder}/{name}.safetensors"

    def stub(self, *words, code=0):
        done = subprocess.run([STUB, *map(str, words)], capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, code, done.stderr)
        return done.stderr

    def assert_same(self, a, b):
        """Names, types, shapes and all bits, also of what is no number."""
        self.assertEqual(a.keys(), b.keys())
        for name, value in a.items():
            self.assertEqual((value.dtype, value.shape), (b[name].dtype, b[name].shape), name)
            self.assertEqual(value.tobytes(), b[name].tobytes(), name)


class Format(Test):
    def tensors(self):
        random = np.random.default_rng(7)
        return {
            "matrix": random.standard_normal((7, 5)).astype(np.float32),
            "four": random.standard_normal((2, 3, 4, 5)),
            "scalar": np.array(3.5, np.float32),
            "empty": np.zeros((3, 0), np.float64),
            "strange bits": random.integers(0, 2**32, 100, np.uint32).view(np.float32),
            "a/b.c \u00e9\u4e2d \"quoted\" \\": np.array([-0.0, np.nan, np.inf]),
            "five": np.ones((1, 2, 1, 2, 1), np.float32),
        }

    def test_what_the_reference_writes_is_read_and_what_is_written_it_reads(self):
        for extra in (None, {"format": "pt", "text": "two\nlines \u00e9 \u0000 \"q\""}):
            with self.subTest(metadata=extra):
                a, b = self.path(f"a{bool(extra)}"), self.path(f"b{bool(extra)}")
                save_file(self.tensors(), a, extra)
                self.stub("copy", a, b)
                self.assert_same(load_file(b), self.tensors())
                self.assertEqual(metadata(b), extra)
                self.assertEqual(header(b)[0] % 8, 0)

    def test_a_file_of_no_tensors(self):
        save_file({}, self.path("a"))
        self.stub("copy", self.path("a"), self.path("b"))
        self.assertEqual(load_file(self.path("b")), {})

    def test_types_that_are_not_read_are_named(self):
        for dtype, name in ((np.float16, "F16"), (np.int64, "I64"), (np.bool_, "BOOL"), (np.uint8, "U8")):
            a = self.path(name)
            save_file({"x": np.ones(3, dtype)}, a)
            self.assertIn(f"tensor x has dtype {name}, which is not read here", self.stub("copy", a, a + "2", code=3))

    def test_both_refuse_a_damaged_header(self):
        save_file({"x": np.ones(3, np.float32), "y": np.ones(2, np.float32)}, self.path("a"))
        good = pathlib.Path(self.path("a")).read_bytes()
        for what, bad in {
            "cut": good[:-1],
            "longer": good + b"x",
            "overlap": good.replace(b"[12,20]", b"[11,19]"),
            "size": good.replace(b"[3]", b"[4]"),
            "type": good.replace(b'"F32"', b'"F99"', 1),
            "no json": good.replace(b'{"', b'{{', 1),
        }.items():
            with self.subTest(what):
                self.assertNotEqual(bad, good)
                pathlib.Path(self.path("bad")).write_bytes(bad)
                with self.assertRaises(safetensors.SafetensorError):
                    load_file(self.path("bad"))
                self.assertIn("safetensors file", self.stub("copy", self.path("bad"), self.path("out"), code=3))


class Gpt(Test):
    def run_of(self, tied):
        return gpt_numpy.Run(microbatches=4, lanes=2, dropout=0.0, tied=tied)

    def expected(self, tied, values):
        run = self.run_of(tied)
        make = gpt_numpy.initial_parameters if values == "initial" else gpt_numpy.formula_parameters
        return gpt_numpy.logits(make(run), TOKENS, run.heads)

    def test_an_exported_model_has_the_logits_of_the_definition(self):
        for tied in (True, False):
            for dtype, tolerance in (("f32", 1e-4), ("f64", 1e-10)):
                for values in ("initial", "formula"):
                    with self.subTest(tied=tied, dtype=dtype, values=values):
                        path = self.path(f"{tied}{dtype}{values}")
                        self.stub("gpt", path, "tied" if tied else "untied", dtype, values)
                        expected = self.expected(tied, values)
                        self.assertGreater(np.ptp(expected), 0.05)
                        got = gpt2_by_names.logits(path, TOKENS, 2)
                        np.testing.assert_allclose(got, expected, rtol=0, atol=tolerance)
                        self.assertEqual("lm_head.weight" in load_file(path), not tied)
                        self.assertEqual(metadata(path)["format"], "pt")

    def test_a_model_from_elsewhere_comes_back_with_the_same_bits(self):
        self.stub("gpt", self.path("a"), "untied", "f32", "formula")
        w = load_file(self.path("a"))
        buffers = {f"h.{n}.attn.bias": np.tril(np.ones((1, 1, 5, 5), np.uint8)) for n in range(2)}
        short = {name.removeprefix("transformer."): value for name, value in w.items()}
        # As the reference implementation orders them, without what this project's export adds.
        save_file(short | buffers, self.path("b"), {"format": "pt"})
        self.assertIn("does not say how many attention heads it has",
                      self.stub("again", self.path("b"), self.path("c"), code=3))
        self.stub("again", self.path("b"), self.path("c"), 2)
        self.assert_same(load_file(self.path("c")), w)
        self.stub("again", self.path("c"), self.path("d"))
        self.assertEqual(pathlib.Path(self.path("c")).read_bytes(), pathlib.Path(self.path("d")).read_bytes())

    def test_a_head_that_is_the_embedding_is_tied(self):
        self.stub("gpt", self.path("a"), "tied", "f32", "formula")
        w = load_file(self.path("a"))
        save_file(w | {"lm_head.weight": w["transformer.wte.weight"].copy()}, self.path("b"))
        self.stub("again", self.path("b"), self.path("c"), 2)
        self.assert_same(load_file(self.path("c")), w)


if __name__ == "__main__":
    unittest.main(verbosity=2)
