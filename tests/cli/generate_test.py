"""`rhizome generate` from outside: the text of a GPT, in files that are written here and in states of runs.

    generate_test.py PROGRAM
"""

import json
import os
import random
import struct
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

try:
    import numpy as np
    import safetensors.numpy  # noqa: F401: gpt2_by_names needs it
except ImportError:
    np = None

PROGRAM = sys.argv[1]
SECONDS_MAX = 60
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "state"))

TINY = {"blocks": 2, "channels": 8, "heads": 2, "context": 12, "vocabulary": 256}


def environment(**extra):
    kept = {name: value for name, value in os.environ.items() if not name.startswith("RHIZOME_")}
    return kept | extra


def gpt2_tensors(blocks, channels, context, vocabulary, **_):
    """Names and shapes as Hugging Face's libraries have them; the head is tied."""
    c = channels
    yield "transformer.wte.weight", (vocabulary, c)
    yield "transformer.wpe.weight", (context, c)
    for block in range(blocks):
        name = f"transformer.h.{block}"
        for tensor, shape in [("ln_1.weight", (c,)), ("ln_1.bias", (c,)),
                              ("attn.c_attn.weight", (c, 3 * c)), ("attn.c_attn.bias", (3 * c,)),
                              ("attn.c_proj.weight", (c, c)), ("attn.c_proj.bias", (c,)),
                              ("ln_2.weight", (c,)), ("ln_2.bias", (c,)),
                              ("mlp.c_fc.weight", (c, 4 * c)), ("mlp.c_fc.bias", (4 * c,)),
                              ("mlp.c_proj.weight", (4 * c, c)), ("mlp.c_proj.bias", (c,))]:
            yield f"{name}.{tensor}", shape
    yield "transformer.ln_f.weight", (c,)
    yield "transformer.ln_f.bias", (c,)


def gpt2_file(model, metadata, nan=False):
    """The bytes of a safetensors file with lively weights."""
    numbers = random.Random(7)
    header, data = {"__metadata__": metadata} if metadata else {}, b""
    for name, shape in gpt2_tensors(**model):
        count = 1
        for extent in shape:
            count *= extent
        values = struct.pack(f"<{count}f", *(float("nan") if nan else numbers.uniform(-1, 1)
                                             for _ in range(count)))
        header[name] = {"dtype": "F32", "shape": list(shape), "data_offsets": [len(data), len(data) + len(values)]}
        data += values
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + data


class Generate(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.file = self.model_file("tiny.safetensors")

    def path(self, name):
        return str(Path(self.folder.name) / name)

    def model_file(self, name, nan=False, metadata=True, **model):
        model = TINY | model
        says = {"rhizome.heads": str(model["heads"])} if metadata else None
        Path(self.path(name)).write_bytes(gpt2_file(model, says, nan))
        return self.path(name)

    def run_program(self, *arguments):
        return subprocess.run([PROGRAM, *arguments], capture_output=True, timeout=SECONDS_MAX,
                              stdin=subprocess.DEVNULL, env=environment(), check=False)

    def generate(self, *arguments, **flags):
        """What is written, without the last new line."""
        words = [f"--{name.replace('_', '-')}={value}" for name, value in flags.items()]
        result = self.run_program("generate", *(arguments or [self.file]), *words)
        self.assertEqual((result.returncode, result.stderr), (0, b""))
        self.assertTrue(result.stdout.endswith(b"\n"))
        return result.stdout[:-1]

    def ids(self, *arguments, **flags):
        return [int(word) for word in self.generate(*arguments, **flags).split(b" ")]

    def assert_refused(self, arguments, code, *parts):
        """One line on standard error: problem (reason), hint. And nothing was written."""
        result = self.run_program("generate", *arguments)
        said = result.stderr.decode()
        self.assertEqual((result.returncode, result.stdout), (code, b""), said)
        self.assertRegex(said, r"\Aerror: [^\n]+\n\Z")
        self.assertRegex(said, r"\(.+\), ")
        for part in parts:
            self.assertIn(part, said)


class Text(Generate):
    def test_has_as_many_bytes_as_were_asked_for(self):
        for tokens in [1, 7, 40]:
            self.assertEqual(len(self.generate(prompt="And God said", tokens=tokens)), tokens)
        self.assertEqual(len(self.generate()), 200)

    def test_is_that_of_the_seed(self):
        text = self.generate(prompt="And", seed=3)
        self.assertEqual(self.generate(prompt="And", seed=3), text)
        self.assertNotEqual(self.generate(prompt="And", seed=4), text)
        self.assertNotEqual(self.generate(prompt="and", seed=3), text)
        self.assertNotEqual(self.generate(prompt="And", seed=3, temperature=2), text)

    def test_does_not_depend_on_threads(self):
        self.assertEqual(self.generate(prompt="And", threads=3), self.generate(prompt="And"))

    def test_begins_like_a_longer_one_which_goes_on_from_it(self):
        whole = self.ids(prompt_ids="65,66", tokens=30)
        self.assertEqual(self.ids(prompt_ids="65,66", tokens=11), whole[:11])
        begun = ",".join(map(str, [65, 66] + whole[:11]))
        self.assertEqual(self.ids(prompt_ids=begun, tokens=19), whole[11:])

    def test_of_the_top_one_is_that_of_temperature_zero(self):
        greedy = self.generate(prompt="And", temperature=0)
        self.assertEqual(self.generate(prompt="And", top_k=1, temperature=50, seed=9), greedy)
        self.assertEqual(self.generate(prompt="And", temperature=0, seed=2), greedy)
        self.assertNotEqual(self.generate(prompt="And", top_k=2, temperature=50), greedy)

    def test_begins_with_a_new_line_if_there_is_no_prompt(self):
        text = self.generate(prompt="\n")
        self.assertEqual(self.generate(), text)
        self.assertEqual(self.generate(prompt=""), text)
        self.assertNotEqual(self.generate(prompt=" "), text)

    def test_is_written_as_bytes_or_as_numbers_as_the_prompt_was_given(self):
        text = self.generate(prompt="Aé")
        self.assertEqual(self.ids(prompt_ids="65,195,169"), list(text))
        self.assertTrue(any(byte > 127 for byte in text), "not put to the test")

    def test_ends_quietly_when_its_reader_has_gone(self):
        command = f"{PROGRAM} generate {self.file} --tokens 1000000 | head -c 5 | wc -c; echo ${{PIPESTATUS[0]}}"
        result = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=SECONDS_MAX,
                                env=environment(), check=False)
        self.assertEqual((result.stdout.split(), result.stderr), (["5", "0"], ""))

    def test_comes_token_by_token(self):
        with subprocess.Popen([PROGRAM, "generate", self.file, "--tokens=1000000"], stdout=subprocess.PIPE,
                              env=environment()) as process:
            self.assertEqual(len(process.stdout.read(3)), 3)
            self.assertIsNone(process.poll(), "it waited for the whole text")
            process.kill()

    @unittest.skipIf(np is None, "there is no NumPy with safetensors")
    def test_is_what_another_implementation_makes_of_the_file(self):
        import gpt2_by_names
        for model in [{}, {"vocabulary": 300, "blocks": 1, "heads": 4}]:
            model = TINY | model
            file = self.model_file("other.safetensors", **model)
            for first in [3, 77, 140]:
                text = [first]
                for token in self.ids(file, prompt_ids=first, temperature=0, tokens=20):
                    logits = gpt2_by_names.logits(file, [text[-model["context"]:]], model["heads"])
                    self.assertEqual(token, logits[0, -1].argmax(), text)
                    text.append(token)
            self.assertGreater(len(set(text)), 2)


class States(Generate):
    """Of a run, whose folder and training are like those of `rhizome run`."""

    def setUp(self):
        super().setUp()
        self.run_folder = self.path("run")
        os.makedirs(self.run_folder + "/processes")
        # As long as no even number, so that it begins at every place of a window.
        Path(self.path("text")).write_bytes(b"In the beginning was the word, and so on.\n\n" * 40)

    def train(self, **keys):
        given = {"data.train": self.path("text"), "model.blocks": 1, "model.channels": 16, "model.heads": 2,
                 "model.context": 16, "microbatches": 4, "lanes": 2, "steps": 40, "save.interval": 20,
                 "optimizer.learning_rate": 0.01, "optimizer.decay_steps": 40}
        given |= {name.replace("__", "."): value for name, value in keys.items()}
        result = self.run_program("train", "--folder", self.run_folder,
                                  *(f"--{name}={value}" for name, value in given.items()))
        self.assertEqual(result.returncode, 0, result.stderr)

    def state(self, steps):
        return f"{self.run_folder}/states/step-{steps:08}"

    def test_speak_as_they_were_trained(self):
        self.train(model__channels=32, steps=200, optimizer__decay_steps=200, optimizer__warmup_steps=10,
                   save__interval=0)
        said = self.generate(self.run_folder, prompt="In the beg", tokens=57, temperature=0)
        self.assertEqual(said, b"inning was the word, and so on.\n\nIn the beginning was the")

    def test_of_a_run_are_found_by_its_folder_the_newest_first(self):
        self.train()
        newest = self.generate(self.state(40), prompt="and")
        older = self.generate(self.state(20), prompt="and")
        self.assertNotEqual(newest, older)
        self.assertEqual(self.generate(self.run_folder, prompt="and"), newest)
        self.assertEqual(self.generate(self.run_folder + "/", prompt="and"), newest)
        for name in ["index.h5", "share-00000.h5"]:
            with self.subTest(name):
                path = Path(self.state(40)) / name
                whole = path.read_bytes()
                path.write_bytes(whole[:-1000])
                result = self.run_program("generate", self.run_folder, "--prompt=and")
                self.assertEqual((result.returncode, result.stdout), (0, older + b"\n"))
                self.assertIn(b"an older state is tried", result.stderr)
                self.assertIn(self.state(40).encode(), result.stderr)
                self.assert_refused([self.state(40)], 3, self.state(40))
                path.write_bytes(whole)

    def test_of_two_layouts_say_the_same(self):
        self.train()
        said = self.generate(self.run_folder, prompt="and")
        self.run_folder = self.path("second")
        os.makedirs(self.run_folder + "/processes")
        self.train(threads=2, recompute="all")
        self.assertEqual(self.generate(self.run_folder, prompt="and"), said)

    def test_of_double_precision_and_of_token_files(self):
        text = Path(self.path("text")).read_bytes()
        header = struct.pack("<256i", 20240520, 1, len(text), *[0] * 253)
        Path(self.path("tokens")).write_bytes(header + struct.pack(f"<{len(text)}H", *text))
        self.train(data__format="tokens", data__train=self.path("tokens"), precision="fp64")
        self.assert_refused([self.run_folder, "--prompt=and"], 2, "--prompt-ids 1,2,3")
        self.assertEqual(len(self.ids(self.run_folder, prompt_ids="97,110,100", tokens=5)), 5)


class BadInput(Generate):
    def test_places(self):
        empty = self.path("empty")
        os.mkdir(empty)
        Path(self.path("text.txt")).write_bytes(b"text")
        for place, parts in [
            (self.path("nothing"), ["nothing of that name", "safetensors"]),
            (self.path("nothing.safetensors"), ["nothing of that name"]),
            (empty, ["neither a state nor a folder that has some"]),
            (self.path("text.txt"), ["is no folder and no *.safetensors file"]),
            ("/dev/null", ["is no folder"]),
        ]:
            with self.subTest(place):
                self.assert_refused([place], 3, place, *parts)

    def test_files(self):
        whole = Path(self.file).read_bytes()
        for name, content in [("empty", b""), ("cut", whole[:-1]), ("noise", b"\xff" * 100)]:
            path = self.path(name + ".safetensors")
            Path(path).write_bytes(content)
            with self.subTest(name):
                self.assert_refused([path], 3, path)
        os.mkdir(self.path("folder.safetensors"))
        self.assert_refused([self.path("folder.safetensors")], 3, "neither a state")

    def test_a_file_that_does_not_say_how_many_heads_it_has(self):
        silent = self.model_file("silent.safetensors", metadata=False)
        self.assert_refused([silent], 3, "attention heads")
        self.assert_refused([silent, "--heads=3"], 3, "3 attention heads")
        self.assertEqual(self.generate(silent, heads=2, prompt="A"), self.generate(prompt="A"))
        self.assertNotEqual(self.generate(silent, heads=4, prompt="A"), self.generate(prompt="A"))
        self.assert_refused([self.file, "--heads=4"], 3, "2 attention heads")

    def test_prompts_that_the_network_does_not_know(self):
        numbers = self.model_file("numbers.safetensors", vocabulary=300)
        self.assert_refused([numbers, "--prompt=And"], 2, numbers, "--prompt-ids 1,2,3")
        self.assert_refused([numbers], 2, "--prompt-ids 1,2,3")
        self.assert_refused([numbers, "--prompt-ids=299,300"], 2, "token 300", "vocabulary of 300")
        self.assert_refused([self.file, "--prompt-ids=256"], 2, "token 256", "vocabulary of 256")
        self.assertEqual(len(self.ids(numbers, prompt_ids="299", tokens=3)), 3)

    def test_weights_that_give_no_numbers(self):
        self.assert_refused([self.model_file("nan.safetensors", nan=True)], 3, "not finite")

    def test_flags(self):
        self.assert_refused([], 2, "name a state")
        self.assert_refused([self.file, "--tokens=0"], 2, "--tokens=0", "1..1000000")
        self.assert_refused([self.file, "--temperature=-1"], 2, "--temperature=-1")
        self.assert_refused([self.file, "--promt=A"], 2, "did you mean --prompt?")

    def test_a_full_disk(self):
        with open("/dev/full", "wb") as full:
            result = subprocess.run([PROGRAM, "generate", self.file], stdout=full, stderr=subprocess.PIPE,
                                    text=True, timeout=SECONDS_MAX, env=environment(), check=False)
        self.assertEqual(result.returncode, 2)
        self.assertIn("No space left on device", result.stderr)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]])
