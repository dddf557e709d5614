#!/usr/bin/env python3
"""check_commit.py [--all] [--only TEXT] [--trail NAME]: runs Spin on commit.pml in many configurations.

Some have to hold; the others, with a mutation, have to be refuted, each by the property it is about. So
a model that lost its teeth fails as well. Prints one table, in which s is CPU time with compiling; exit
code 1 when a verdict is not the expected one. --all adds the largest (6 minutes, up to 3.1 GB). --only
runs those whose name contains TEXT. --trail prints how configuration NAME comes to a violation."""

import argparse
import pathlib
import re
import resource
import subprocess
import sys
import tempfile

MODEL = pathlib.Path(__file__).resolve().parent / "commit.pml"
MEMORY_MIB = 1500
MEMORY_ALL_MIB = 12000
DEADLINE_S = 1800  # of one search; CTest has a shorter one for all
CYCLES = "no_endless_run"  # the search for cycles, which has no assertion

# Name, names to define, and the property which has to be among the violated ones (None: all hold).
HOLD = [
    ("no loss", "W=3 F=0"),
    ("3 workers, 1 loss", "W=3 F=1 STEPS=3"),
    ("3 workers, 2 losses", "W=3 F=2 STEPS=3"),
    ("3 workers, 1 owner", "W=3 R=1 F=2 STEPS=3"),
    ("3 workers, keep sums", "W=3 F=2 STEPS=3 KEEP"),
    ("3 workers, 1 owner, keep sums", "W=3 R=1 F=2 STEPS=3 KEEP"),
    ("3 workers, 3 chunks, keep sums", "W=3 C=3 F=2 KEEP"),
    ("3 workers, late notice", "W=3 F=2 STRICT"),
    ("3 workers, 1 owner, late notice", "W=3 R=1 F=2 STRICT"),
    ("3 workers, late notice, keep sums", "W=3 F=2 STRICT KEEP"),
    ("3 workers, every run ends", "W=3 F=2 CYCLES"),
    ("3 workers, 1 owner, every run ends", "W=3 R=1 F=2 CYCLES"),
    ("3 workers, every run ends, keep sums", "W=3 F=2 KEEP CYCLES"),
    ("4 workers, 3 losses", "W=4 F=3"),
    ("4 workers, 3 chunks", "W=4 C=3 F=3 STAY"),
    ("4 workers, 1 owner", "W=4 R=1 F=3"),
    ("4 workers, 3 owners", "W=4 R=3 F=3"),
    ("4 workers, late notice", "W=4 F=3 STRICT"),
    ("4 workers, every run ends", "W=4 F=3 STAY CYCLES"),
    ("4 workers, 2 losses, every run ends", "W=4 F=2 CYCLES"),
    ("4 workers, 2 lanes, keep sums", "W=4 L=2 F=3 KEEP STAY"),
    ("2 owners, 1 loss: no file needed", "W=4 F=1 NEVER_FILE"),
    ("3 owners, 2 losses: no file needed", "W=4 R=3 F=2 NEVER_FILE"),
    ("dead omitted, 1 loss", "W=3 F=1 IGNORE_CODE"),
    ("dead omitted, orphans allowed", "W=4 F=3 IGNORE_CODE ALLOW_ORPHANS"),
    ("dead omitted, orphans, keep sums", "W=3 F=2 KEEP IGNORE_CODE ALLOW_ORPHANS"),
    ("adopted map without survey", "W=4 F=3 MAP_ONLY"),
    ("adopt without agreement, all stay", "W=4 F=3 ADOPT_EARLY STAY"),
]

REFUTED = [
    ("1 owner: 1 loss needs a file", "W=3 R=1 F=1 NEVER_FILE", "no_file_needed"),
    ("2 owners: 2 losses may need one", "W=3 F=2 NEVER_FILE", "no_file_needed"),
    ("sums are indeed kept", "W=3 F=1 KEEP NEVER_KEPT", "nothing_kept"),
    ("owners do let go", "W=3 R=1 F=1 NEVER_MOVED", "nobody_lets_go"),
    ("update before the agreement", "W=3 F=1 UPDATE_EARLY", "c3_committed_state_survives"),
    ("flag without code, 2 losses", "W=3 F=2 IGNORE_CODE", "commit_has_owners"),
    ("vote without all lanes", "W=3 F=0 VOTE_INCOMPLETE", "c2_each_lane_exactly_once"),
    ("a kept lane is added again", "W=3 F=1 KEEP ADD_TWICE", "c2_each_lane_exactly_once"),
    ("commit without agreement", "W=3 F=1 LOCAL_COMMIT", "one_answer_about_commit"),
    ("agreement that is not uniform", "W=3 F=1 NOT_UNIFORM", "c2_each_lane_exactly_once"),
    ("holder mixes k and k + 1", "W=3 F=0 HOLDER_MIXES", "c2_each_lane_exactly_once"),
    ("holders are not repaired", "W=4 F=1 HOLDERS_NOT_REPAIRED", "c2_each_lane_exactly_once"),
    ("adopt without agreement", "W=4 F=2 ADOPT_EARLY", "c3_agreed_owners_have_it"),
    ("let go before the agreement", "W=4 R=1 F=2 LET_GO_EARLY", "c3_agreed_owners_have_it"),
    ("repair without looking what came", "W=3 F=1 REPAIR_INCOMPLETE", "c3_committed_state_survives"),
    ("repair's flag without code", "W=4 R=1 F=2 IGNORE_REPAIR_CODE", "repair_loses_no_chunk"),
    ("repair's end is not uniform", "W=4 R=1 F=2 REPAIR_NOT_UNIFORM", "same_agreements_in_order"),
    ("map that not all adopted, no survey", "W=4 F=2 ADOPT_EARLY STAY MAP_ONLY", "c3_committed_state_survives"),
    ("map of the last commit, no survey", "W=3 F=2 CONFIRMED_OWNERS", "c3_no_copy_is_overlooked"),
    ("survey counts silence as nothing", "W=4 R=1 F=2 LOCAL_SURVEY", "one_map"),
    ("late for an agreement's end, stays", "W=3 F=1 LATE_STAYS", "same_agreements_in_order"),
    ("give up past the agreement", "W=3 F=1 SILENT_GIVE_UP", "same_agreements_in_order"),
    ("give up without revoking", "W=3 F=1 NO_REVOKE", "all_survivors_finish"),
    ("messages of two epochs alike", "W=3 F=1 STALE_MAIL", "one_message_a_slot"),
]

LARGE = [
    ("4 workers, 3 losses, 3 steps", "W=4 F=3 STEPS=3 C=3"),
    ("4 workers, 3 chunks, every run ends", "W=4 F=3 C=3 CYCLES"),
    ("4 workers, 2 lanes, keep sums, BATCH", "W=4 L=2 F=3 KEEP BATCH"),
    ("4 workers, 3 lanes, keep sums", "W=4 L=3 F=3 KEEP STAY"),
    ("4 workers, 4 lanes, keep, 1 loss", "W=4 F=1 KEEP STAY"),
]


def run(command, folder, deadline_s=DEADLINE_S):
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=deadline_s)
    return done.returncode, done.stdout + done.stderr


def build(names, folder, large, *more):
    """Spin writes a search in C. NOREDUCE: all moves share state, so there is nothing to reduce."""
    cycles = "CYCLES" in names
    defines = [f"-D{name}" for name in names if name != "CYCLES"]
    optimize = "-O2" if large else "-O1" if "W=4" in names else "-O0"
    options = [optimize, *more]  # compiling takes longer than most searches
    options += ["-DNP"] if cycles else ["-DSAFETY"]
    options += ["-DNOREDUCE", "-DCOLLAPSE", f"-DMEMLIM={MEMORY_ALL_MIB if large else MEMORY_MIB}"]
    for command in (
        ["spin", "-a", *defines, str(MODEL)],
        ["gcc", "-w", *options, "-o", "pan", "pan.c"],
    ):
        code, text = run(command, folder)
        if code != 0 or "Error" in text:
            raise SystemExit(f"{' '.join(command)}: {text}")
    return cycles


def search(names, refuted, large):
    """States, depth, and the violated properties; None for these when the search was not complete."""
    with tempfile.TemporaryDirectory() as folder:
        cycles = build(names, folder, large)
        command = ["./pan", "-m1000000", "-w27" if large else "-w22", *(["-l"] if cycles else [])]
        _, text = run(command + (["-c0", "-e"] if refuted else []), folder)
    states = re.search(r"(\S+) states, stored", text)
    depth = re.search(r"depth reached (\d+), errors: (\d+)", text)
    complete = states and depth and not re.search(r"max search depth|out of memory|MEMLIM", text)
    violated = sorted(set(re.findall(r"assertion violated (\w+)", text)))
    if "non-progress cycle" in re.sub(r"non-progress cycles\s", "", text):
        violated.append(CYCLES)
    if complete and int(depth[2]) > 0 and not violated:
        violated = ["another"]
    return (
        int(float(states[1])) if states else 0,
        int(depth[1]) if depth else 0,
        violated if complete or violated else None,
    )


def judge(expected, violated):
    """What the search says, and whether that was to be expected."""
    if violated is None:
        return "not finished", False
    if expected is None:
        return ("holds", True) if not violated else ("violates " + " ".join(violated), False)
    if not violated:
        return f"holds, though {expected} should not", False
    good = expected in violated
    return "refuted: " + (expected if good else " ".join(violated)), good


def show_trail(names):
    """A short way to a violation. Numbers of places and masks become words where it is easy."""
    head = MODEL.read_text().partition("byte at[W]")[0]
    places = re.findall(r"#define ([A-Z_]{4,}) (\d+)\b", head)
    words = {number: name.lower() for name, number in places}
    with tempfile.TemporaryDirectory() as folder:
        build(names, folder, False, "-DREACH")
        run(["./pan", "-i", "-m1000000"], folder)
        if not list(pathlib.Path(folder).glob("*.trail")):
            raise SystemExit("no assertion is violated")
        _, text = run(["./pan", "-n", "-r", "commit.pml.trail"], folder)
    for line in text.splitlines():
        if re.match(r"(worker|agreement|opening|pan:)", line.strip()):
            print(re.sub(r"(?<= at )\d+", lambda number: words[number[0]], line.strip()))


def cpu_s():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--trail", metavar="NAME")
    options = parser.parse_args()

    rows = [(name, names, None, False) for name, names in HOLD]
    rows += [(name, names, expected, False) for name, names, expected in REFUTED]
    if options.all:
        rows += [(name, names, None, True) for name, names in LARGE]
    if options.trail:
        show_trail(next(names for name, names, _, _ in rows if name.strip() == options.trail).split())
        return 0

    wrong = 0
    print(f"{'configuration':36} {'defined':42} {'states':>9} {'depth':>5} {'s':>6}  verdict")
    for name, names, expected, large in rows:
        if options.only not in name:
            continue
        before = cpu_s()
        states, depth, violated = search(names.split(), expected is not None, large)
        verdict, good = judge(expected, violated)
        wrong += not good
        print(
            f"{name:36} {names:42} {states:9} {depth:5} {cpu_s() - before:6.1f}  "
            f"{'' if good else 'WRONG: '}{verdict}",
            flush=True,
        )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
