#!/usr/bin/env python3
"""The world on real MPI processes, which lose one another: world_test.cpp has what each rank does.

    world_test.py [--only CASE ...] [--times N] PROGRAM MPIRUN [OPTION ...]

A run is over when all who live have left word of what they saw. mpirun is not waited for: it was
seen to get stuck in a lock of its own after its ranks had gone.
"""

import argparse
import contextlib
import os
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))
from reaper import Reaper, is_alive, state_of  # noqa: E402

DEADLINE_S = 45
FULL = 0xffffffff


class Case:
    def __init__(self, ranks, saw, dead=(), stopped=(), seeds=(0,), options=None):
        self.ranks, self.saw, self.dead, self.stopped = ranks, saw, dead, stopped
        self.seeds, self.options = seeds, options

    def victims(self, seed):
        return self.dead(seed) if callable(self.dead) else self.dead


def same(words):
    """What each rank must have seen: the same, of which `words` judges."""
    def judge(rank, seen, all_seen):
        return len(set(all_seen)) == 1 and words(seen.split())
    return judge


def exactly(*texts):
    """By rank; the last one is for all further ranks."""
    def judge(rank, seen, all_seen):
        return seen == texts[min(rank, len(texts) - 1)]
    return judge


# With the flags of the dead, or without; "ok" means with.
GIVEN_AND_DEAD = (["ok", "6"], ["peer_lost", "6"], ["peer_lost", "14"])
LOST_BEFORE = f"peer_lost {FULL - 0b101} peer_lost 3 "
CASES = {
    "messages": Case(4, exactly("ok 72 0 reused")),
    "agreements": Case(4, exactly(f"wrong 0 ok {FULL}")),
    "alone": Case(1, exactly(f"wrong 0 ok {FULL}")),
    "rest": Case(2, exactly("rested calm 1 1")),
    "sigpipe": Case(2, exactly(f"ok {FULL}")),
    "receive_from_dead": Case(3, exactly("peer_lost peer_lost peer_lost"), dead=[1]),
    "die_in_transfer": Case(3, lambda rank, seen, all_seen:
                            set(seen.split()) <= {"ok", "peer_lost"}, dead=[1], seeds=(0, 1)),
    "revoke": Case(4, exactly(f"revoked revoked revoked ok {FULL - 0b1111} ok 1")),
    "revoke_in_transfer": Case(3, exactly("fine ok 1"), seeds=(0, 1)),
    "die_before_agreement": Case(3, exactly(LOST_BEFORE + "ok peer_lost 6"), dead=[1]),
    "die_in_agreement": Case(3, same(lambda words: words[:2] in GIVEN_AND_DEAD and
                                     words[2:] == ["peer_lost", "1"]), dead=[1]),
    "any_moment": Case(4, same(lambda words: "timed_out" not in words and "late" not in words),
                       dead=lambda seed: [seed % 4], seeds=(1, 2)),
    "stopped": Case(3, exactly("timed_out timed_out in time"), stopped=[1]),
    "epochs": Case(5, exactly("peer_lost ok epoch 1 of 0 2 3 4 ok peer_lost ok epoch 2 of 0 2 4 ok made 0"),
                   dead=[1, 3]),
    "renewals": Case(5, exactly(" ".join(3 * ["peer_lost ok ok ok"])), dead=[1, 0, 4]),
    "no_fault_tolerance": Case(1, lambda rank, seen, all_seen:
                               seen.startswith("the loss of a worker would end this run (") and
                               "rhizome run" in seen, options=[]),
}
# Not always well, by no fault of ours: docs/MPI.md has the numbers.
MEASURED = {"loss_in_renewal": Case(6, exactly("ok"), dead=[1, 2])}


def seen_by(folder, rank):
    try:
        return (folder / f"saw.{rank}").read_text().strip()
    except FileNotFoundError:
        return None


def fault_of(case, folder, seed, reaper):
    """What is wrong with what the ranks left, if anything."""
    dead = case.victims(seed)
    living = [rank for rank in range(case.ranks) if rank not in (*dead, *case.stopped)]
    for victim in (*dead, *case.stopped):
        if not (folder / f"victim.{victim}").exists():
            return f"rank {victim} was neither killed nor stopped"
        pid = int((folder / f"victim.{victim}").read_text())
        if victim in dead:
            reaper.until(lambda pid=pid: not is_alive(pid), f"the death of rank {victim}")
        elif state_of(pid) != "T":
            return f"rank {victim} is not stopped, but in state {state_of(pid)}"
        if seen_by(folder, victim) is not None:
            return f"rank {victim} came to an end: {seen_by(folder, victim)}"
    all_seen = [seen_by(folder, rank) for rank in living]
    if None in all_seen:
        return f"not all came to an end: {dict(zip(living, all_seen))}"
    for rank, seen in zip(living, all_seen):
        if not case.saw(rank, seen, all_seen):
            return f"rank {rank} of {living} saw {seen!r}, all saw {all_seen}"
    return None


def run(name, case, seed, program, mpirun, options):
    """The fault of one run, with its log; None if there was none."""
    with tempfile.TemporaryDirectory(prefix="world") as home, Reaper() as reaper:
        reaper.leftovers_allowed = True  # mpirun; and who was stopped
        folder = Path(home) / "seen"
        folder.mkdir()
        # One host: the loopback device will do, and no other network is touched.
        environment = dict(os.environ, TMPDIR=home, OMPI_ALLOW_RUN_AS_ROOT="1",
                           OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", OMPI_MCA_btl_tcp_if_include="lo")
        argument = "agreements" if name == "alone" else name
        command = [mpirun, *(options if case.options is None else case.options), "--bind-to", "none",
                   "--map-by", ":OVERSUBSCRIBE", "-n", case.ranks, program, argument, folder, seed]
        with open(Path(home) / "log", "wb") as log:
            process = reaper.start(command, stdout=log, stderr=log, env=environment)
            living = [rank for rank in range(case.ranks)
                      if rank not in (*case.victims(seed), *case.stopped)]
            with contextlib.suppress(AssertionError):
                reaper.until(lambda: process.poll() is not None or
                             all(seen_by(folder, rank) is not None for rank in living),
                             "word of all who live", DEADLINE_S)
            fault = fault_of(case, folder, seed, reaper)
        if fault:
            fault += "\n" + (Path(home) / "log").read_text(errors="replace")
        return fault


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", action="append", choices=CASES | MEASURED)
    parser.add_argument("--times", type=int, default=1)
    parser.add_argument("program")
    parser.add_argument("mpirun")
    parser.add_argument("options", nargs=argparse.REMAINDER)
    given = parser.parse_args()
    bad = 0
    for name in given.only or CASES:
        case = (CASES | MEASURED)[name]
        faults, start = [], time.monotonic()
        seeds = [seed + 1000 * turn for turn in range(given.times) for seed in case.seeds]
        for seed in seeds:
            fault = run(name, case, seed, given.program, given.mpirun, given.options)
            if fault:
                faults.append(f"{name}, seed {seed}: {fault}")
        passed = time.monotonic() - start
        print(f"{name}: {len(seeds) - len(faults)} of {len(seeds)}, {passed / len(seeds):.2f} s each",
              flush=True)
        print("\n".join(faults), end="\n" if faults else "", flush=True)
        bad += len(faults)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
