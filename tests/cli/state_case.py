"""What tests of the program `rhizome-state` have in common. Their arguments:

    PROGRAM RHIZOME STATE_STUB SAFETENSORS_STUB LOGITS_STUB
"""

import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

PROGRAM, RHIZOME, STATE_STUB, SAFETENSORS_STUB, LOGITS_STUB = sys.argv[1:6]
SECONDS_MAX = 60
DONE, BAD_CONFIG, BAD_DATA, DIFFERENT = 0, 2, 3, 9


def environment():
    return {name: value for name, value in os.environ.items() if not name.startswith("RHIZOME_")}


def call(*words, cwd):
    return subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=SECONDS_MAX,
                          stdin=subprocess.DEVNULL, env=environment(), cwd=cwd, check=False)


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def run_program(self, *arguments):
        return call(PROGRAM, *arguments, cwd=self.folder)

    def accept(self, *arguments, code=DONE):
        result = self.run_program(*arguments)
        self.assertEqual(result.returncode, code, result.stdout + result.stderr)
        self.assertNotIn("error", result.stderr)
        return result.stdout

    def json(self, *arguments, code=DONE):
        return json.loads(self.accept(*arguments, "--json", code=code))

    def refuse(self, *arguments, code, parts=()):
        before = self.tree()
        result = self.run_program(*arguments)
        self.assertEqual(result.returncode, code, result.stdout + result.stderr)
        self.assertEqual(result.stdout, "")
        last = result.stderr.splitlines()[-1]
        self.assertRegex(last, r"\Aerror: .*\(.+\), .+\Z")
        self.assertEqual(result.stderr.count("error: "), 1)
        for part in parts:
            self.assertIn(part, last)
        self.assertEqual(self.tree(), before)

    def tree(self):
        return sorted(str(path) for path in self.folder.rglob("*"))

    def write_state(self, steps, writers=2, run="run"):
        result = call(STATE_STUB, "write", f"{run}/states", steps, writers, cwd=self.folder)
        self.assertEqual(result.returncode, 0, result.stdout)
        path = result.stdout.strip()
        return path, call(STATE_STUB, "verify", path, cwd=self.folder).stdout.split()[1]

    def damage(self, path, at=-9):
        """Turns a byte around; near the end of a share are values."""
        content = bytearray((self.folder / path).read_bytes())
        content[at] ^= 0x10
        (self.folder / path).write_bytes(content)

    def make_gpt(self, name="gpt.safetensors"):
        result = call(SAFETENSORS_STUB, "gpt", name, "tied", "f32", "formula", cwd=self.folder)
        self.assertEqual(result.returncode, 0, result.stderr)
        return name
