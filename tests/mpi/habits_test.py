#!/usr/bin/env python3
"""What every rank of `rhizome run` does so that Open MPI survives a loss: docs/MPI.md has a table.

    habits_test.py PROGRAM MPIRUN [OPTION ...]
"""

import itertools
import os
import re
import signal
import sys
import time
import unittest
from pathlib import Path

from trainings import (DONE, MPIRUN, OPTIONS, PAUSE, PAUSING, PROGRAM, CalmEnd, is_alive, state_of)

ESTABLISHED = "01"
ORPHAN_S = 3  # by itself Open MPI ends a rank about a second after its launcher


def sockets_of(pid):
    """(own port, other port) of each TCP connection of that process."""
    inodes = set()
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        try:
            found = re.fullmatch(r"socket:\[(\d+)\]", os.readlink(entry))
        except FileNotFoundError:
            continue  # closed while we looked
        if found:
            inodes.add(found[1])
    ports = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            words = line.split()
            if words[3] == ESTABLISHED and words[9] in inodes:
                ports.add(tuple(int(words[place].rpartition(":")[2], 16) for place in (1, 2)))
    return ports


class Habits(CalmEnd):
    def pids(self, ranks):
        return [self.recorded(f"rank.{rank}") for rank in range(ranks)]

    def test_mpirun_ends_and_later_a_rank_dies(self):
        # Killed, it just is no longer there; told to end, it kills all that it started.
        for number in (signal.SIGKILL, signal.SIGTERM):
            with self.subTest(number=number):
                self.folder = Path(self.home.name) / f"run{number}"
                process = self.pause(faults=f"{PAUSE},kill@2/6/F#1")
                ranks = self.pids(4)
                mpirun = self.recorded("mpirun")
                os.kill(mpirun, number)
                self.reaper.until(lambda mpirun=mpirun: not is_alive(mpirun), "the end of mpirun")
                end = time.monotonic() + ORPHAN_S
                self.reaper.until(lambda end=end: time.monotonic() > end, "time")
                self.assertEqual([pid for pid in ranks if not is_alive(pid)], [], self.said())
                code = self.go_on(process)
                self.assertEqual(self.fired(), ["1", "2"], self.said())
                self.assert_calm_end(code, [2], mute=True)

    def test_everybody_has_met_everybody(self):
        # Two workers who train and four spares, who have nothing to say to each other.
        process = self.pause(6, pipelines="1,1")
        ranks = self.pids(6)
        sockets = [sockets_of(pid) for pid in ranks]
        apart = [(one, other) for one, other in itertools.combinations(range(6), 2)
                 if not any((there, here) in sockets[other] for here, there in sockets[one])]
        self.assert_calm_end(self.go_on(process), [])
        self.assertEqual(apart, [])

    def test_ranks_leave_without_a_goodbye(self):
        # By itself MPI_Finalize waits for all ranks and for the launcher.
        options = list(OPTIONS)
        place = options.index("async_mpi_finalize")
        del options[place - 1:place + 2]
        keys = PAUSING | {"pipelines": "2x2", "faults": f"{PAUSE},kill@2/6/F#1"}
        self.output = Path(self.home.name) / "output"
        with open(self.output, "wb") as output:
            mpirun = self.reaper.start(
                [MPIRUN, *options, "--bind-to", "none", "--map-by", ":OVERSUBSCRIBE", "-n", "4",
                 PROGRAM, "train", "--folder", str(self.folder), *self.flags(**keys)],
                stdout=output, stderr=output,
                env=self.environment | {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"})
        self.wait_for_pause()
        ranks = self.pids(4)
        mpirun.send_signal(signal.SIGSTOP)
        self.reaper.until(lambda: state_of(mpirun.pid) == "T", "a stopped mpirun")
        os.kill(ranks[1], signal.SIGCONT)
        self.reaper.until(lambda: not any(map(is_alive, ranks)), f"an end of all ranks: {self.said()}")
        self.assertEqual(state_of(mpirun.pid), "T")
        mpirun.kill()
        self.reaper.until_nobody_is_left()
        self.assert_calm_end(DONE, [2], mute=True)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]], verbosity=2, defaultTest=os.environ.get("ONLY"))
