#!/usr/bin/env python3
"""Every layout has the bits of one process: layout_test.cpp says what is compared.

    layout_test.py pairs|all DEVICE PROGRAM MPIRUN [OPTION ...]
"""

import os
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))
from reaper import Reaper  # noqa: E402

RANKS = (1, 4, 5, 6, 8)
PRODUCT = 8 * 5 * 3 * 2 * 2
DEADLINE_S = {"pairs": 200, "all": 1500}


def verdict_of(which, device, ranks, program, mpirun, options, folder):
    environment = dict(os.environ, TMPDIR=folder, OMPI_ALLOW_RUN_AS_ROOT="1",
                       OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    command = [mpirun, *options, "--mca", "btl_tcp_if_include", "lo", "--bind-to", "none",
               "--map-by", ":OVERSUBSCRIBE", "-n", str(ranks), program, which, device, folder]
    verdict = Path(folder) / f"verdict.{ranks}"
    log = Path(folder) / f"log.{ranks}"
    with Reaper() as reaper:
        reaper.leftovers_allowed = True  # mpirun may outlive its ranks
        with open(log, "wb") as output:
            process = reaper.start(command, env=environment, stdout=output, stderr=output)
            deadline = time.monotonic() + DEADLINE_S[which]
            while not verdict.exists() and process.poll() is None and time.monotonic() < deadline:
                time.sleep(0.05)
    if verdict.exists():
        return verdict.read_text()
    return f"no verdict; the ranks said:\n{log.read_text(errors='replace')}"


def main(which, device, program, mpirun, *options):
    total = 0
    for ranks in RANKS:
        started = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="layout") as folder:
            verdict = verdict_of(which, device, ranks, program, mpirun, options, folder)
        if not verdict.startswith("arrangements "):
            print(f"{ranks} ranks: {verdict}")
            return 1
        count = int(verdict.split()[1])
        print(f"{ranks} ranks: {count} arrangements, {time.monotonic() - started:.1f} s", flush=True)
        total += count
        if count == 0:
            return 1
    print(f"{total} arrangements have the bits of one process")
    # As many as there are, or a layout was left out.
    return 0 if total >= 40 and (which == "pairs" or total == PRODUCT) else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
