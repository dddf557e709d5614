"""What tests of training runs as real processes have in common. The program's words are:
PROGRAM MPIRUN [OPTION ...]
"""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from types import MappingProxyType

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))
from reaper import Reaper, is_alive, name_of, state_of  # noqa: E402, F401

PROGRAM, MPIRUN, *OPTIONS = sys.argv[1:]
DONE, BAD_CONFIG, BAD_DATA, DIVERGED, LOST, STOPPED, UNFINISHED = 0, 2, 3, 4, 5, 6, 7
STEPS = 8
TINY = {
    "model.blocks": "2", "model.channels": "8", "model.heads": "2", "model.context": "8",
    "model.vocabulary": "256", "model.dropout": "0.1", "microbatch_size": "2", "microbatches": "6",
    "lanes": "3", "steps": str(STEPS), "log.interval": "1", "evaluate.interval": "4",
    "evaluate.microbatches": "3", "optimizer.warmup_steps": "2", "optimizer.decay_steps": "8",
}
# So long that only a fault or a word ends it.
ENDLESS = {"steps": "1000000", "evaluate.interval": "0"}
# Far below what a test may take, far above what a busy machine needs.
PATIENT = {"bounds.stopped_s": "0.5", "bounds.stuck_s": "20", "bounds.wait_s": "40"}
HASTY = {"bounds.stopped_s": "0.5", "bounds.stuck_s": "6", "bounds.wait_s": "8",
         "bounds.repair_s": "30"}
# A rank stops itself, and nobody minds before a test has done what it wants to do.
PAUSE = "stop@1/4/F#1"
PAUSING = {"bounds.stopped_s": "100", "bounds.stuck_s": "120", "bounds.wait_s": "200"}


class Training(unittest.TestCase):
    def setUp(self):
        self.home = tempfile.TemporaryDirectory(prefix="train")
        self.addCleanup(self.home.cleanup)
        self.reaper = Reaper().__enter__()
        self.addCleanup(self.reaper.__exit__, None, None, None)
        self.folder = Path(self.home.name) / "run"
        self.text = Path(self.home.name) / "text.txt"
        self.text.write_bytes(b"In the beginning was the word, and so on. " * 40)
        kept = {name: value for name, value in os.environ.items() if not name.startswith("RHIZOME_")}
        # One host: the loopback device will do, and no other network is touched.
        self.environment = kept | {"TMPDIR": self.home.name, "OMPI_MCA_btl_tcp_if_include": "lo"}

    def flags(self, **keys):
        given = TINY | {"data.train": str(self.text)} | keys
        return [f"--{name}={value}" for name, value in given.items() if value is not None]

    def start(self, ranks, *words, environment=None, **keys):
        self.output = Path(self.home.name) / "output"
        command = [PROGRAM, "run", "-n", str(ranks), "--folder", str(self.folder), *words,
                   *self.flags(**keys)]
        with open(self.output, "wb") as output:
            return self.reaper.start(command, stdout=output, stderr=output,
                                     env=self.environment | (environment or {}))

    def run_to_end(self, ranks, *words, **keys):
        """(exit code, everything said)."""
        process = self.start(ranks, *words, **keys)
        code = self.reaper.wait(process, 120)
        self.assertEqual(self.reaper.descendants(), [])
        return code, self.said()

    def alone(self, *words, environment=None, **keys):
        return subprocess.run([PROGRAM, "train", *words, *self.flags(**keys)], capture_output=True,
                              text=True, timeout=60, check=False, stdin=subprocess.DEVNULL,
                              env=self.environment | (environment or {}))

    def said(self):
        return self.output.read_text(errors="replace")

    def errors(self):
        return re.findall(r"error: [^\r\n]*", self.said())

    def wait_for_steps(self, count=2):
        self.reaper.until(lambda: re.search(rf"step +{count}/", self.said()),
                          f"step {count}: {self.said()}")

    def recorded(self, name):
        return int(re.search(r"(?m)^pid (\d+)$", (self.folder / "processes" / name).read_text())[1])

    def marker(self):
        return (self.folder / "finished").read_text()

    def digests(self, text):
        found = re.findall(r"(?m)^([0-9a-f]{32})  (\S+#\d+)\r?$", text)
        self.assertGreater(len(found), 20, text)
        return found

    def weights(self, text):
        found = re.search(r"weights +([0-9a-f]{32})", text)
        self.assertIsNotNone(found, text)
        return found[1]

    def metrics(self, event):
        """Of that kind, in order."""
        path = self.folder / "metrics.jsonl"
        lines = path.read_text().splitlines() if path.exists() else []
        return [each for each in map(json.loads, lines) if each["event"] == event]


class CalmEnd(Training):
    """Of runs that have to end like one to which nothing happened."""
    known = {}

    def calm(self, network=MappingProxyType({})):
        """Weights at the end of a run of one process, with these keys of the network."""
        key = tuple(sorted(network.items()))
        if key not in CalmEnd.known:
            alone = self.alone(**network)
            self.assertEqual(alone.returncode, DONE, alone.stderr)
            CalmEnd.known[key] = self.weights(alone.stdout)
        return CalmEnd.known[key]

    def fired(self):
        return sorted(path.name for path in (self.folder / "faults").glob("*"))

    def lost(self):
        return sorted(rank for each in self.metrics("repair") for rank in each["lost"])

    def weights_of_last_state(self):
        """By a run that goes on from it and finds nothing left to do."""
        state = self.folder / "states" / f"step-{STEPS:08}"
        return self.weights(self.alone(**{"from": str(state)}).stdout)

    def assert_calm_end(self, code, lost, errors=(), mute=False, network=MappingProxyType({})):
        """Of a run of all steps that lost these ranks. Mute: what its ranks print nobody passes on."""
        said = self.said()
        self.assertEqual(code, DONE, said)
        self.assertEqual(self.weights_of_last_state() if mute else self.weights(said),
                         self.calm(network), said)
        self.assertEqual([each["step"] for each in self.metrics("step")], list(range(STEPS)), said)
        self.assertEqual(self.lost(), sorted(lost), said)
        self.assertEqual(self.errors(), list(errors), said)
        self.assertEqual(self.marker(), "code 0\nreason all steps were done\n")
        self.assertEqual(self.reaper.descendants(), [])

    def pause(self, ranks=4, faults=PAUSE, environment=None, **keys):
        """Starts a run and waits until rank 1 has stopped itself, as the faults say."""
        keys = PAUSING | {"pipelines": "2x2", "faults": faults} | keys
        process = self.start(ranks, environment=environment, **keys)
        self.wait_for_pause()
        return process

    def wait_for_pause(self):
        self.reaper.until(lambda: "1" in self.fired() and state_of(self.recorded("rank.1")) == "T",
                          f"a pause: {self.said()}")

    def go_on(self, process):
        """Continues rank 1, if it lives; to the run's exit code."""
        pid = self.recorded("rank.1")
        if is_alive(pid):
            os.kill(pid, signal.SIGCONT)
        return self.reaper.wait(process, 120)
