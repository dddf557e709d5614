#!/usr/bin/env python3
"""States of this project as the rest of the world sees them: whole tensors by h5py, every file by
h5dump; and files that h5py has changed, with headers that are right, are refused for what they are.

    read_with_h5py_test.py STUB   (the program of state_stub.cpp)
"""

import pathlib
import shutil
import subprocess
import sys
import tempfile

import h5py
import numpy

STUB = pathlib.Path(sys.argv[1]).resolve()
STEPS = 500
VALUES = ("parameter", "first_moment", "second_moment")
# As in tests/support/sample_state.hpp.
TENSORS = {
    "embedding/token": ((11, 5), "f4"),
    "block.0/attention.weight": ((3, 4, 5), "f8"),
    "block.0/attention.bias": ((7,), "f4"),
    "block.0/filter": ((2, 3, 2, 4), "f4"),
    "head/norm": ((16,), "f8"),
}
CHUNK = 16


def stub(*words):
    done = subprocess.run(
        [STUB, *map(str, words)], capture_output=True, text=True, timeout=60, check=False
    )
    return done.returncode, done.stdout


def expected(name, value):
    shape, dtype = TENSORS[name]
    place = list(TENSORS).index(name)
    first = STEPS * 10000 + place * 1000 + VALUES.index(value) * 300 + 0.5
    return (first + numpy.arange(numpy.prod(shape))).astype(dtype).reshape(shape)


def write(folder, writers):
    code, said = stub("write", folder, STEPS, writers)
    assert code == 0, said
    return pathlib.Path(said.strip())


def check_index(state):
    with h5py.File(state / "index.h5") as index:
        assert index.attrs["steps"] == STEPS
        assert index.attrs["format"] == b"rhizome state index"
        assert index["mathematics"].asstr()[()] == "layers = 2\nseed = 7\n"
        assert "ä, or not" in index["history"].asstr()[()]
        assert {f"{layer}/{name}" for layer in index["tensors"] for name in index["tensors"][layer]} == set(
            TENSORS
        )
        for name, (shape, dtype) in TENSORS.items():
            tensor = index["tensors"][name]
            assert tuple(tensor.attrs["shape"]) == shape
            assert list(TENSORS)[tensor.attrs["order"]] == name
            for value in VALUES:
                found = tensor[value]
                assert found.shape == shape and found.dtype == dtype, (name, value)
                assert found[...].tobytes() == expected(name, value).tobytes(), (name, value)


def check_shares(state):
    """docs/STATE.md, without the index: chunks put together by hand."""
    whole = {
        (name, value): numpy.full(numpy.prod(shape), numpy.nan, dtype)
        for name, (shape, dtype) in TENSORS.items()
        for value in VALUES
    }
    for path in sorted(state.glob("share-*.h5")):
        with h5py.File(path) as share:
            for layer in share["tensors"]:
                for name, tensor in share["tensors"][layer].items():
                    for value in VALUES:
                        to, at = whole[f"{layer}/{name}", value], 0
                        for chunk in tensor["chunks"][...]:
                            piece = to[chunk * CHUNK : (chunk + 1) * CHUNK]
                            piece[...] = tensor[value][at : at + len(piece)]
                            at += len(piece)
                        assert at == len(tensor[value])
    for (name, value), found in whole.items():
        assert found.tobytes() == expected(name, value).tobytes(), (name, value)


def check_header(path):
    """Its numbers say where the values are."""
    lines = dict(line.rsplit(" ", 1) for line in path.read_bytes()[:512].decode().split("\n") if line)
    values = []
    with h5py.File(path) as share:
        share["tensors"].visititems(
            lambda name, item: values.append((item.id.get_offset(), item.id.get_storage_size()))
            if name.endswith(VALUES)
            else None
        )
    end = int(lines["structure"])
    for offset, size in sorted(values):
        assert offset == end, (path, offset, end)
        end += size
    assert end == int(lines["bytes"]) == path.stat().st_size


def check_h5dump(state):
    h5dump = shutil.which("h5dump")
    if not h5dump:
        print("h5dump is not here, so it was not tried")
        return
    for path in state.glob("*.h5"):
        done = subprocess.run([h5dump, path], capture_output=True, timeout=60, check=False)
        assert done.returncode == 0, (path, done.stderr)


def forgeries():
    """(what is done to an open share, what must be said of it)"""
    name = "tensors/embedding/token"

    def again(key, **options):
        def change(share):
            old = share[name][key]
            data, dtype = old[...], old.dtype
            del share[name][key]
            options.setdefault("dtype", dtype)
            share[name].create_dataset(key, data=data, **options)

        return change

    def link(key, target):
        def change(share):
            del share[name][key]
            share[name][key] = target

        return change

    def virtual(share):
        layout = h5py.VirtualLayout(shape=share[name]["parameter"].shape, dtype="f4")
        layout[...] = h5py.VirtualSource("elsewhere.h5", "x", shape=layout.shape)
        del share[name]["parameter"]
        share[name].create_virtual_dataset("parameter", layout)

    def external(share):
        length = share[name]["parameter"].shape
        del share[name]["parameter"]
        share[name].create_dataset("parameter", shape=length, dtype="f4", external="/etc/passwd")

    def compact(share):
        old = share[name]["chunks"][...]
        del share[name]["chunks"]
        properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        properties.set_layout(h5py.h5d.COMPACT)
        space = h5py.h5s.create_simple(old.shape)
        made = h5py.h5d.create(share[name].id, b"chunks", h5py.h5t.STD_I32LE, space, properties)
        made.write(h5py.h5s.ALL, h5py.h5s.ALL, old)

    def group(share):
        del share[name]["parameter"]
        share[name].create_group("parameter")

    def changed(key, to):
        def change(share):
            share[name][key][...] = to

        return change

    yield "soft link", link("parameter", h5py.SoftLink(f"/{name}/first_moment")), "link to elsewhere"
    yield "external link", link("parameter", h5py.ExternalLink("x.h5", "/x")), "link to elsewhere"
    yield "soft group", lambda share: share.move(name, "tensors/embedding/x") or share[
        "tensors"
    ].__setitem__("embedding/token", h5py.SoftLink("/tensors/embedding/x")), "link to elsewhere"
    yield "virtual", virtual, "not in one piece"
    yield "external file", external, "not in one piece"
    yield "compact", compact, "not in one piece"
    yield "pieces", again("parameter", chunks=(4,)), "not in one piece"
    yield "compressed", again("digests", compression="gzip"), "not in one piece"
    yield "may grow", again("chunks", maxshape=(None,), chunks=(1,)), "not in one piece"
    yield "big endian", again("chunks", dtype=">i4"), "another type"
    yield "wide", again("chunks", dtype="i8"), "another type"
    yield "double", again("parameter", dtype="f8"), "another type"
    yield "whole numbers", again("parameter", dtype="i8"), "another type"
    yield "moved", again("parameter"), "not where it should be"
    yield "a group", group, "refuses dataset parameter"
    yield "descending", changed("chunks", [3, 1]), "not ascending"
    yield "twice", changed("chunks", [1, 1]), "not ascending"
    yield "beyond", changed("chunks", [1, 4]), "not ascending"
    yield "negative", changed("chunks", [-1, 1]), "not ascending"
    yield "more", lambda share: share[name].create_group("x"), "other parts"
    yield "more tensors", lambda share: share["tensors/block.0"].create_group("x"), "the state has not"
    yield "more layers", lambda share: share["tensors"].create_group("x"), "the state has not"
    yield "more at the top", lambda share: share.create_group("x"), "the state has not"
    yield "missing values", lambda share: share[name].__delitem__("second_moment"), "other parts"
    yield "missing digests", lambda share: share[name].__delitem__("digests"), "other parts"
    yield "renamed values", lambda share: share[name].move("parameter", "x"), "no dataset parameter"
    yield "no tensors", lambda share: share.__delitem__("tensors"), "no group tensors"
    yield "version", lambda share: share.attrs.modify("version", numpy.int32(2)), "version"
    yield "format", lambda share: share.attrs.modify("format", "x"), ""
    yield "steps", lambda share: share.attrs.create("steps", 500, dtype="i8"), "steps has another type"
    yield "many steps", lambda share: share.attrs.create("steps", [1, 2], dtype="i4"), "more than one"
    yield "no writer", lambda share: share.attrs.__delitem__("writer"), "attribute writer"


def check_forgeries(folder):
    state = write(folder, 2)
    path = state / "share-00001.h5"
    whole = path.read_bytes()
    for what, change, reason in forgeries():
        path.write_bytes(whole)
        with h5py.File(path, "r+") as share:
            change(share)
        code, said = stub("seal", path)
        assert code == 0, (what, said)
        code, said = stub("verify", state)
        assert code == 1, (what, code, said)
        line = said.splitlines()[0]
        assert line.startswith("share-00001.h5: structure: ") and reason in line, (what, said)
    path.write_bytes(whole)
    assert stub("verify", state)[0] == 0


def main():
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        for writers in (1, 3, 20):
            state = write(folder / f"of {writers}", writers)
            # A folder that was moved still reads.
            state = state.parent.rename(folder / f"moved {writers}") / state.name
            check_index(state)
            check_shares(state)
            for path in state.glob("share-*.h5"):
                check_header(path)
            check_h5dump(state)
        # What is missing shows.
        (state / "share-00000.h5").unlink()
        with h5py.File(state / "index.h5") as index:
            assert numpy.isnan(index["tensors/embedding/token/parameter"][0, 0])
        check_forgeries(folder / "forged")
    print("fine")


main()
