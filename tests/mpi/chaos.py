#!/usr/bin/env python3
"""Kills ranks of `rhizome run` by the hundred and compares every end with a calm one.

    chaos.py matrix PROGRAM MPIRUN     each place of a step and of a repair, in several layouts; two at once, a
                                       whole pipeline, all but one, second and third losses within a repair
    chaos.py soak   PROGRAM MPIRUN     random kills, each run down to one rank
    chaos.py storm  PROGRAM MPIRUN     mpirun killed first, then ranks 30 to 400 ms apart, from outside
        [--kills N] [--runs N] [--seed N]

Prints a table: runs, losses by rung, and the time from a kill to the next useful instruction. Exit status 1 if any
run hung, did not come to its end, or ended with other weights.
"""

import argparse
import json
import os
import random
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))
from reaper import Reaper, is_alive  # noqa: E402

DEADLINE_S = 240
KEYS = {
    "model.blocks": 4, "model.channels": 8, "model.heads": 2, "model.context": 8, "model.vocabulary": 256,
    "model.dropout": 0.1, "microbatch_size": 2, "microbatches": 8, "lanes": 4, "steps": 8, "log.interval": 1,
    "evaluate.interval": 4, "evaluate.microbatches": 3, "optimizer.warmup_steps": 2, "optimizer.decay_steps": 8,
    "bounds.stopped_s": 0.5, "bounds.stuck_s": 20, "bounds.wait_s": 40,
}
LAYOUTS = [  # ranks and keys
    (2, {"pipelines": "2"}), (2, {"pipelines": "1,1"}), (3, {"pipelines": "3", "style": "zb-h1"}),
    (3, {"pipelines": "2,1"}), (4, {"pipelines": "2x2"}), (4, {"pipelines": "4", "style": "zb-h2"}),
    (4, {"pipelines": "2", "parts": "2", "style": "interleaved"}), (5, {"pipelines": "3,2", "style": "gpipe"}),
    (4, {"pipelines": "4x1"}), (6, {"pipelines": "2x3", "owners": "3"}), (6, {"pipelines": "3x2", "owners": "3"}),
]
STEP = ["F#1", "B#1", "I#1", "W#1", "SA", "RA", "SG", "RG", "SS", "RS", "SP", "RP", "C", "U", "SW", "RW",
        "evaluation:F", "evaluation:SP", "save", "end"]
REPAIR = ["open", "report", "decide", "move", "agree", "adopt"]


class Place:
    """Of all runs: where they are, what a calm one comes to."""

    def __init__(self, program, mpirun, home):
        self.program, self.mpirun, self.home = program, mpirun, Path(home)
        self.text = self.home / "text"
        self.text.write_bytes(b"In the beginning was the word, and so on. " * 40)
        kept = {name: value for name, value in os.environ.items() if not name.startswith("RHIZOME_")}
        self.environment = kept | {"TMPDIR": str(home), "OMPI_MCA_btl_tcp_if_include": "lo"}
        self.calm = {}
        self.runs = 0

    def flags(self, keys):
        return [f"--{name}={value}" for name, value in ({"data.train": self.text} | KEYS | keys).items()]

    def calm_state(self, keys):
        """The last one of a run of one process."""
        folder = self.home / f"calm{keys['steps']}"
        if not folder.exists():
            subprocess.run([self.program, "train", "--folder", folder, *self.flags({"steps": keys["steps"]})],
                           check=True, capture_output=True, env=self.environment)
        return folder / "states" / f"step-{keys['steps']:08}"

    def weights(self, keys):
        """Of one process, for these steps."""
        steps = keys.get("steps", KEYS["steps"])
        if steps not in self.calm:
            done = subprocess.run([self.program, "train", *self.flags({"steps": steps})], check=True,
                                  capture_output=True, text=True, env=self.environment)
            self.calm[steps] = re.search(r"weights +([0-9a-f]{32})", done.stdout)[1]
        return self.calm[steps]


class Run:
    def __init__(self, place, ranks, keys):
        place.runs += 1
        self.place, self.ranks, self.keys = place, ranks, keys
        self.folder = place.home / f"run{place.runs}"
        self.log = place.home / "log"
        self.faults = []
        self.killed = {}  # from outside: when, by rank
        self.took_s = 0

    def start(self, reaper):
        command = [self.place.program, "run", "-n", self.ranks, "--folder", self.folder, "--mpirun",
                   self.place.mpirun, *self.place.flags(self.keys)]
        self.log_file = open(self.log, "wb")
        return reaper.start(command, stdout=self.log_file, stderr=self.log_file, env=self.place.environment)

    def go(self, meanwhile=lambda run, process: None):
        began = time.monotonic()
        with Reaper() as reaper:
            process = self.start(reaper)
            try:
                meanwhile(self, process)
                self.code = reaper.wait(process, DEADLINE_S)
            except AssertionError as error:
                self.faults.append(f"hung: {error}")
                reaper.leftovers_allowed = True
                self.code = None
            self.log_file.close()
        self.took_s = time.monotonic() - began
        self.judge()
        return self

    def metrics(self, event):
        path = self.folder / "metrics.jsonl"
        lines = path.read_text().splitlines() if path.exists() else []
        return [each for each in map(json.loads, lines) if each["event"] == event]

    def fired(self):
        """By rank: when, in microseconds since 1970."""
        return self.killed | {int(path.name): int(re.search(r"at (\d+) us", path.read_text())[1])
                              for path in (self.folder / "faults").glob("*")}

    def stopped(self):
        """Ranks that their watches killed, some time later."""
        return {int(path.name) for path in (self.folder / "faults").glob("*")
                if path.read_text().startswith("stop")}

    def judge(self):
        said = self.log.read_text(errors="replace")
        self.repairs = self.metrics("repair")
        if self.code != 0:
            self.faults.append(f"exit code {self.code}")
        weights = re.findall(r"weights +([0-9a-f]{32})", said)
        if weights and weights[-1] != self.place.weights(self.keys):
            self.faults.append("other weights")
        if not weights:  # what ranks print is lost with mpirun
            calm = self.place.calm_state(self.keys)
            diff = subprocess.run([Path(self.place.program).with_name("rhizome-state"), "diff", calm,
                                   self.folder / "states" / calm.name], capture_output=True, text=True, check=False)
            if diff.returncode != 0:
                self.faults.append("another state: " + diff.stdout + diff.stderr)
        steps = [each["step"] for each in self.metrics("step")]
        back = any(each["steps_again"] for each in self.repairs) or len(self.metrics("start")) > 1
        if not back and steps != list(range(int(self.keys.get("steps", KEYS["steps"])))):
            self.faults.append(f"steps {steps}")
        if self.faults:
            self.faults.append(said[-3000:])

    def latencies_ms(self):
        """From each kill to the end of the repair that names its victim."""
        fired = {rank: when for rank, when in self.fired().items() if rank not in self.stopped()}
        return [(each["time_us"] - max(fired[rank] for rank in each["lost"])) / 1e3
                for each in self.repairs if each["lost"] and all(rank in fired for rank in each["lost"])]


class Table:
    def __init__(self):
        self.rows = {}
        self.bad = []

    def add(self, name, run):
        self.rows.setdefault(name, []).append(run)
        if run.faults:
            self.bad.append((name, run))
            print(f"FAILED {name}: {run.keys}: " + "\n".join(run.faults), flush=True)

    def show(self):
        print(f"\n{'':34} {'runs':>5} {'losses':>6} {'rung 2':>6} {'rung 3':>6} {'rung 6':>6} {'again':>6} {'starts':>6}"
              f" {'p50 ms':>7} {'p90 ms':>7} {'p99 ms':>7}")
        everything = [run for runs in self.rows.values() for run in runs]
        for name, runs in [*self.rows.items(), ("all", everything)]:
            repairs = [each for run in runs for each in run.repairs]
            lost = sum(len(each["lost"]) for each in repairs)
            rungs = [sum(each["rung"] == rung for each in repairs) for rung in (2, 3, 6)]
            again = sum(each["attempts"] - 1 for each in repairs)
            starts = sum(len(run.metrics("start")) for run in runs) - len(runs)
            times = sorted(time for run in runs for time in run.latencies_ms())
            quantiles = [statistics.quantiles(times, n=100, method="inclusive")[q - 1] if len(times) > 1 else
                         (times or [float("nan")])[0] for q in (50, 90, 99)]
            print(f"{name:34} {len(runs):5} {lost:6} " + " ".join(f"{count:6}" for count in rungs) + f" {again:6} {starts:6} " +
                  " ".join(f"{value:7.1f}" for value in quantiles))
        print(f"{len(everything) - len(self.bad)} of {len(everything)} came to the end of a calm run")
        return 1 if self.bad else 0


def name_of(keys):
    return " ".join(f"{value}" if name == "pipelines" else f"{name}={value}" for name, value in keys.items()
                    if name not in ("faults", "steps"))


def matrix(place, table, given):
    def one(ranks, keys, faults, victims):
        run = Run(place, ranks, keys | {"faults": faults}).go()
        missing = set(victims) - set(run.fired())
        return run, missing

    for ranks, keys in LAYOUTS:
        for number, what in enumerate(STEP):
            step = "*" if what[0].islower() or what.startswith("evaluation") else "3"
            # Not every worker has every instruction; one that has it is found by trying.
            for turn in range(ranks):
                victim = (number + turn) % ranks
                run, missing = one(ranks, keys, f"kill@{victim}/{step}/{what}", [victim])
                if not missing or run.faults:
                    table.add(name_of(keys), run)
                    break
            else:
                print(f"{name_of(keys)}: no worker comes to {what}", flush=True)
    for ranks, keys in [(4, {"pipelines": "2x2", "owners": "4"}), (5, {"pipelines": "2,2,1", "owners": "4"})]:
        for phase in REPAIR:
            for faults, victims in [(f"kill@1/3/F#1,kill@2/*/{phase}", [1, 2]),
                                    (f"kill@1/3/F#1,kill@0/*/{phase}", [0, 1]),
                                    (f"kill@1/3/B#1,kill@2/*/{phase},kill@3/*/{phase}", [1, 2, 3])]:
                run, missing = one(ranks, keys, faults, victims)
                if missing:
                    run.faults.append(f"{faults}: {missing} did not die")
                table.add("in a repair, " + name_of(keys), run)
    # What is left of a step is done in what is left of the shape; the new shape comes after it.
    for ranks, keys in [(4, {"pipelines": "2x2", "owners": "4"}), (5, {"pipelines": "2,2,1", "owners": "4"})]:
        last = ranks - 1
        # The step comes to these places only when nobody is stopped any more.
        for step, where in [(3, what) for what in ("C", "U")] + [(4, phase) for phase in REPAIR[1:]]:
            run, missing = one(ranks, keys, f"stop@{last}/3/F#0,kill@1/{step}/{where}", [last, 1])
            if missing:
                run.faults.append(f"{where}: {missing} did not die")
            if not run.repairs or run.repairs[0]["rung"] != 2:
                run.faults.append("nothing was kept")
            table.add("after lanes were kept, " + name_of(keys), run)
    for what, ranks, keys, victims in [
            ("two at once", 4, {"pipelines": "2x2", "owners": "3"}, [1, 2]),
            ("a whole pipeline", 4, {"pipelines": "2x2", "owners": "3"}, [2, 3]),
            ("all holders of a stage", 6, {"pipelines": "2x3", "owners": "3"}, [0, 3]),
            ("all but one", 4, {"pipelines": "2x2", "owners": "4"}, [0, 1, 2]),
            ("more than there are copies", 4, {"pipelines": "2x2", "owners": "2", "save.interval": "2"}, [0, 2]),
            ("everybody", 3, {"pipelines": "3", "save.interval": "2"}, [0, 1, 2])]:
        run, missing = one(ranks, keys, ",".join(f"kill@{victim}/5/F#1" for victim in victims), victims)
        if missing:
            run.faults.append(f"{missing} did not die")
        table.add(what, run)


def soak(place, table, given):
    kills = 0
    seed = given.seed
    while kills < given.kills:
        run = Run(place, 8, {"pipelines": "2x4", "owners": "2", "steps": 60, "evaluate.interval": 20,
                             "save.interval": 10, "faults": f"soak@{seed}/0.0008"}).go()
        kills += len(run.fired())
        table.add("8 ranks, 2x4, 60 steps", run)
        seed += 1


def storm(place, table, given):
    draw = random.Random(given.seed)

    def kill_them(run, process):
        deadline = time.monotonic() + 20
        while not run.metrics("step") and time.monotonic() < deadline:
            time.sleep(0.01)
        pids = {path.name: int(re.search(r"(?m)^pid (\d+)$", path.read_text())[1])
                for path in (run.folder / "processes").glob("*")}
        os.kill(pids["mpirun"], signal.SIGKILL)
        ranks = [name for name in pids if name.startswith("rank.")]
        draw.shuffle(ranks)
        for name in ranks[:draw.randint(1, len(ranks) - 1)]:
            time.sleep(draw.uniform(0.03, 0.4))
            if is_alive(pids[name]):
                run.killed[int(name.removeprefix("rank."))] = time.time_ns() // 1000
                os.kill(pids[name], signal.SIGKILL)

    for _ in range(given.runs):
        run = Run(place, 8, {"pipelines": "2x4", "owners": "2", "steps": 1200, "evaluate.interval": 0,
                             "save.interval": 100, "log.interval": 1000})
        run.go(kill_them)
        table.add("8 ranks, mpirun first", run)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("matrix", "soak", "storm"))
    parser.add_argument("program")
    parser.add_argument("mpirun")
    parser.add_argument("--kills", type=int, default=2500)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    table = Table()
    with tempfile.TemporaryDirectory(prefix="chaos") as home:
        place = Place(given.program, given.mpirun, home)
        began = time.monotonic()
        {"matrix": matrix, "soak": soak, "storm": storm}[given.what](place, table, given)
        code = table.show()
        print(f"{time.monotonic() - began:.0f} s, load {os.getloadavg()[0]:.1f}, seed {given.seed}")
    return code


if __name__ == "__main__":
    sys.exit(main())
