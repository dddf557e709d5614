#!/usr/bin/env python3
"""tools/tidy lets a good tree pass and names what is wrong with each of several bad ones."""

import pathlib
import re
import runpy
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]

GOOD = {
    "CMakeLists.txt": """
        # rhizome_module(core USES engine)   a comment is no call
        rhizome_module(core SOURCES digest.cpp USES OWNS rhizome_xxhash)
        rhizome_module(data SOURCES sampler.cpp USES core)
        rhizome_module(device SOURCES tensor.cpp USES core)
        rhizome_module(model SOURCES gpt.cpp USES device)
        rhizome_module(schedule SOURCES draw.cpp USES core)
        rhizome_module(world SOURCES mpi.cpp USES core OWNS rhizome_mpi)
        rhizome_module(engine SOURCES trainer.cpp USES model data schedule world)
    """,
    "src/core/digest.cpp": '#include <xxhash.h>\n#include "core/error.hpp"\n',
    "src/data/sampler.cpp": '#include "core/error.hpp"\n// #include "engine/trainer.hpp"\n',
    "src/device/tensor.cpp": "#include <cuda_runtime.h>\n",
    "src/model/gpt.cpp": '#include "core/error.hpp"\n#include "device/tensor.hpp"\n',
    "src/schedule/draw.cpp": '#include <vector>\n#include "core/ids.hpp"\n',
    "src/world/mpi.cpp": "#include <mpi.h>\n#include <mpi-ext.h>\n",
    "src/engine/trainer.cpp": '#include "model/gpt.hpp"\n#include "data/sampler.hpp"\n',
    "tests/unit/core_test.cpp": '#include <gtest/gtest.h>\n#include "support/numbers.hpp"\n',
    "tests/mpi/survives_test.cpp": "#include <mpi.h>\n",
}


def tidy(tree, check):
    """Exit status and output of tools/tidy over a tree given as {path: text}."""
    with tempfile.TemporaryDirectory() as folder:
        for name, text in tree.items():
            path = pathlib.Path(folder) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        return run("--only", check, "--root", folder)


def run(*arguments):
    result = subprocess.run([sys.executable, str(ROOT / "tools" / "tidy"), *arguments],
                            capture_output=True, text=True, check=False, timeout=60)
    return result.returncode, result.stdout + result.stderr


class Arrows(unittest.TestCase):
    def accept(self, tree):
        status, output = tidy(tree, "arrows")
        self.assertEqual(status, 0, output)

    def reject(self, tree, *words):
        status, output = tidy(tree, "arrows")
        self.assertEqual(status, 1, output)
        for word in words:
            self.assertIn(word, output)

    def test_a_good_tree_passes(self):
        self.accept(GOOD)

    def test_this_tree_passes(self):
        status, output = run("--only", "arrows")
        self.assertEqual(status, 0, output)

    def test_schedule_may_not_include_engine(self):
        self.reject({**GOOD, "src/schedule/draw.cpp": '\n#include "engine/trainer.hpp"\n'},
                    "src/schedule/draw.cpp:2", "engine/trainer.hpp")

    def test_core_may_not_include_data(self):
        self.reject({**GOOD, "src/core/digest.cpp": '#include "data/sampler.hpp"\n'},
                    "src/core/digest.cpp:1", "data/sampler.hpp")

    def test_state_knows_no_world(self):
        self.reject({"src/state/writer.cpp": '#include "world/world.hpp"\n'}, "world/world.hpp")

    def test_the_arrow_is_taken_transitively(self):
        self.accept({"src/recover/decide.cpp": '#include "core/ids.hpp"\n#include "schedule/a.hpp"\n'})
        self.accept({"src/sim/world.cpp": '#include "engine/a.hpp"\n#include "recover/a.hpp"\n'})

    def test_a_comment_between_does_not_move_the_line(self):
        self.reject({"src/core/a.hpp": '/* two\n   lines */ // and\n#include "cli/a.hpp"\n'},
                    "src/core/a.hpp:3")

    def test_an_include_names_its_room(self):
        self.reject({**GOOD, "src/core/digest.cpp": '#include "error.hpp"\n'}, "names no room")

    def test_a_folder_outside_of_the_table_is_no_room(self):
        self.reject({**GOOD, "src/utils/misc.cpp": ""}, "src/utils/misc.cpp")

    def test_mpi_stays_in_world(self):
        self.reject({**GOOD, "src/engine/trainer.cpp": "#include <mpi.h>\n"},
                    "src/engine/trainer.cpp:1", "src/world")

    def test_every_third_party_header_has_a_home(self):
        for header, path in {
            "cuda_runtime.h": "src/model/a.cpp",
            "cublas_v2.h": "src/engine/a.cpp",
            "nccl.h": "src/device/a.cpp",
            "hdf5.h": "src/core/a.cpp",
            "oneapi/dnnl/dnnl.hpp": "src/model/a.cpp",
            "boost/program_options.hpp": "src/engine/a.cpp",
            "xxhash.h": "src/data/a.cpp",
            "gtest/gtest.h": "src/core/a.cpp",
            "mpi-ext.h": "tests/unit/a_test.cpp",
        }.items():
            with self.subTest(header=header):
                self.reject({path: f"#include <{header}>\n"}, path, header)

    def test_uses_obeys_the_table(self):
        self.reject({**GOOD, "CMakeLists.txt": "\nrhizome_module(schedule SOURCES a.cpp\n USES core world)\n"},
                    "CMakeLists.txt:2", "schedule USES world")

    def test_uses_covers_what_is_included(self):
        text = GOOD["CMakeLists.txt"].replace("USES model data schedule world", "USES model")
        self.reject({**GOOD, "CMakeLists.txt": text}, "src/engine/trainer.cpp:2", "does not reach data")


class Text(unittest.TestCase):
    def test_clean_text_passes(self):
        status, output = tidy({"docs/PAGE.md": "# Title\n\nText.\n"}, "text")
        self.assertEqual(status, 0, output)

    def test_trailing_white_space_is_named(self):
        status, output = tidy({"docs/PAGE.md": "# Title \n"}, "text")
        self.assertEqual(status, 1, output)
        self.assertIn("docs/PAGE.md:1", output)

    def test_a_missing_last_newline_is_named(self):
        status, output = tidy({"src/core/a.cpp": "int a;"}, "text")
        self.assertEqual(status, 1, output)
        self.assertIn("src/core/a.cpp", output)

    def test_a_long_file_is_only_a_warning(self):
        status, output = tidy({"src/core/a.cpp": "int a;\n" * 500}, "text")
        self.assertEqual(status, 0, output)
        self.assertIn("500 lines", output)


class Architecture(unittest.TestCase):
    def test_the_page_and_the_tool_have_the_same_arrows(self):
        rooms = runpy.run_path(str(ROOT / "tools" / "tidy"))["ROOMS"]
        page = (ROOT / "ARCHITECTURE.md").read_text()
        rows = re.findall(r"^\| \[?`(\w+)`\]? \| [^|]* \| ([^|]*) \|$", page, re.MULTILINE)
        self.assertEqual({name for name, _ in rows}, set(rooms) - {"kernels"})
        for place, (name, uses) in enumerate(rows):
            if uses == "what each needs":  # programs: everything
                continue
            above = [other for other, _ in rows[:place] if other != "core"]
            said = above if uses == "all above" else [] if uses == "nothing" else uses.split(", ")
            self.assertEqual(set(said), set(rooms[name]), name)


if __name__ == "__main__":
    unittest.main()
