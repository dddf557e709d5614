#!/usr/bin/env python3
"""ulfm_survives_test.py PROGRAM MPIRUN [OPTION ...]: starts PROGRAM with three ranks on this host and
judges it by the files that its ranks leave. Nothing that was started outlives this script."""

import ctypes
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

DEADLINE_S = 45  # above the ranks' own, below CTest's
PR_SET_CHILD_SUBREAPER = 36


def children():
    """Direct children of this process. As the subreaper it is given every orphan further down."""
    found = []
    for entry in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            state, parent = entry.read_text().rpartition(")")[2].split()[:2]
        except OSError:
            continue  # ended while we looked
        if int(parent) == os.getpid() and state != "Z":
            found.append(int(entry.parent.name))
    return found


def reap_everything():
    """Kills what is left, generation by generation: a dead child's children become ours."""
    left = 0
    for _ in range(100):
        remaining = children()
        for pid in remaining:
            os.kill(pid, signal.SIGKILL)
        left += len(remaining)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return left
        time.sleep(0.02)
    raise SystemExit("processes of the test cannot be ended")


def verdict(folder, ended):
    if not ended:
        return f"mpirun did not end within {DEADLINE_S} s"
    if not (folder / "victim").exists():
        return "rank 0 was never killed"
    for rank in (1, 2):
        marker = folder / f"survivor.{rank}"
        if not marker.exists() or marker.read_text() != "2\n":
            return f"rank {rank} did not get to the end"
    return None


def main(program, mpirun, *options):
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    # Open MPI runs as root only when told so twice. Its files go where they are cleared away.
    with tempfile.TemporaryDirectory(prefix="ulfm") as name:
        folder = pathlib.Path(name)
        environment = dict(os.environ, TMPDIR=name, OMPI_ALLOW_RUN_AS_ROOT="1",
                           OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
        # One host: the loopback device will do, and no other network is touched.
        command = [mpirun, *options, "--mca", "btl_tcp_if_include", "lo", "--bind-to", "none",
                   "--map-by", ":OVERSUBSCRIBE", "-n", "3", program, name]
        with open(folder / "log", "wb") as log:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log,
                                       stderr=subprocess.STDOUT, env=environment,
                                       start_new_session=True)
            try:
                process.wait(DEADLINE_S)
            except subprocess.TimeoutExpired:
                pass
            ended = process.returncode is not None
            left = reap_everything()
        problem = verdict(folder, ended)
        if left and not problem:
            print(f"{left} process(es) outlived mpirun and were ended")
        if problem:
            print(" ".join(command))
            print((folder / "log").read_text(errors="replace"))
            print(f"ulfm_survives_test: {problem}")
            return 1
    print("rank 0 died; ranks 1 and 2 revoked, agreed, shrank and went on")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
