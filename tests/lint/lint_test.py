"""Each rule of tools/lint fires on a broken snippet and on nothing else, and is silent on a good tree."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
sys.dont_write_bytecode = True
sys.path.insert(0, str(SOURCE / "tools"))
from lint_rules import comments, documents, includes, layout, names, sizes  # noqa: E402
from lint_rules.sizes import cpp_functions  # noqa: E402
from lint_rules.tree import Tree  # noqa: E402

GOOD = {
    "CMakeLists.txt": "# The build.\nterrace_room(base)\nterrace_room(config ROOMS base)\nterrace_room(mesh)\n"
                      "terrace_room(observe)\nterrace_room(ops TORCH ROOMS base config LINK fmt::fmt)\n"
                      "terrace_room(planned_models FOLDERS models/*/cost ROOMS mesh)\n"
                      "terrace_room(models TORCH ROOMS ops mesh planned_models)\nterrace_room(parallel TORCH ROOMS models)\n",
    "terrace/base/error.h": "// Errors.\n#pragma once\n",
    "terrace/config/config.h": "// Settings.\n#pragma once\n#include \"terrace/base/error.h\"\n",
    "terrace/mesh/param_mark.h": "// Marks.\n#pragma once\n",
    "terrace/mesh/mesh.h": "// Ranks.\n#pragma once\n",
    "terrace/observe/metrics.h": "// Metrics.\n#pragma once\n",
    "terrace/ops/linear.h": "// Linear.\n#pragma once\n#include <ATen/core/Tensor.h>\n",
    "terrace/ops/kernels.cu": "// Kernels.\n#include <cuda_runtime.h>\n#include <ATen/cuda/CUDAContext.h>\n",
    "terrace/ops/linear.cpp": "// Linear, forward: y = x * w, where w is [out, in]; see (1).\n"
                              "#include \"terrace/base/error.h\"\n#include \"terrace/config/config.h\"\n"
                              "#include \"terrace/observe/metrics.h\"\n\n"
                              "void run(Library& library, ProcessList process_group) {\n"
                              "  auto file = library.handle();  // a library's own name is not ours\n"
                              "  library->process(file);\n"
                              "  // Kept for the last piece; the others are gone.\n"
                              "}\n",
    "terrace/models/model.h": "// Models.\n#pragma once\n#include \"terrace/mesh/param_mark.h\"\n",
    "terrace/models/gpt/cost/cost.h": "// Cost.\n#pragma once\n#include \"terrace/mesh/mesh.h\"\n",
    "terrace/models/gpt/model.h": "// GPT.\n#pragma once\n#include \"terrace/models/model.h\"\n",
    "terrace/parallel/apply.h": "// Cuts.\n#pragma once\n#include \"terrace/models/model.h\"\n",
    "tests/ops/linear_test.cpp": "// Linear against a sum by hand.\nTEST(Linear, AddsUp) {}\n",
    "tests/house/doc_commands.txt": "# Commands.\nfirst: true\nrun: terrace plan tiny.toml --json\nLinear.AddsUp: terrace doctor\n",
    "tests/house/CMakeLists.txt": "# House.\nhouse_test(lint COMMAND true)\n",
    "README.md": "# terrace\n## Use\n| a | b |\n| --- | --- |\n| a row of another document | names no test |\n"
                 "```sh\n# first\nterrace plan tiny.toml \\\n  --json\n$ terrace doctor\n```\n```text\nnot a command\n```\n",
    "docs/proofs.md": "# Proofs\n## Operations\n| what | test |\n| --- | --- |\n| linear | `Linear.AddsUp` |\n\n## The house\n"
                      "| what | test |\n| --- | --- |\n| rules | `house.lint`, `tests/ops/linear_test.cpp`, `Linear.*` |\n",
    "docs/plan.md": "# Plan\nSee [the rules](../README.md#use), [both](plan.md 'Plan'), [here](#plan), [the folder](../tests), [start](/README.md),\n"
                    "[elsewhere](ht" "tps://example.org/absent.md) and [mail](mailto:a@b.c); `[code](absent.md)` is none.\n"
                    "```\n[nor](absent.md)\n```\n[ref]: ../README.md\n",
    "tools/setup": "#!/usr/bin/env bash\n# Installs.\necho done\n",
}

LONG_BODY = "".join(f"  f({n});\n" for n in range(80))
OPS = "// Linear.\n"


def lines(count):
    return "// Long.\n" + "int x;\n" * (count - 1)


# (rule, file, its text, line of the finding)
BROKEN = [
    ("include-room", "terrace/mesh/mesh.cpp", '// M.\n#include "terrace/ops/linear.h"\n', 2),
    ("include-room", "terrace/ops/linear.cpp", OPS + '#include "terrace/mesh/mesh.h"\n', 2),
    ("include-room", "terrace/ops/linear.cpp", OPS + '#include "terrace/base/absent.h"\n', 2),
    ("include-room", "terrace/ops/linear.cpp", OPS + '#include "cli/train.h"\n', 2),
    ("include-room", "terrace/base/error.h", '// E.\n#pragma once\n#include "terrace/config/config.h"\n', 3),
    ("include-room", "terrace/config/config.h", '// C.\n#pragma once\n#include "terrace/observe/metrics.h"\n', 3),
    ("include-room", "terrace/models/model.h", '// M.\n#pragma once\n#include "terrace/mesh/mesh.h"\n', 3),
    ("include-room", "terrace/parallel/apply.h", '// P.\n#pragma once\n#include "terrace/models/gpt/model.h"\n', 3),
    ("torch-free", "terrace/mesh/mesh.h", "// M.\n#pragma once\n#include <ATen/core/Tensor.h>\n", 3),
    ("torch-free", "terrace/models/gpt/cost/cost.h", "// C.\n#pragma once\n#include <c10/core/ScalarType.h>\n", 3),
    ("backend-file", "terrace/ops/linear.cpp", OPS + "#include <cuda_runtime.h>\n", 2),
    ("backend-file", "terrace/ops/linear.cpp", OPS + "#include <c10/cuda/CUDAStream.h>\n", 2),
    ("backend-file", "terrace/ops/linear.cpp", OPS + "#include <mpi.h>\n", 2),
    ("whole-torch", "tests/ops/linear_test.cpp", "// L.\n#include <torch/torch.h>\nTEST(Linear, AddsUp) {}\n", 2),
    ("communicator", "terrace/models/model.h", "// M.\n#pragma once\nvoid run(comm::Group& group);\n", 3),
    ("file-size", "terrace/ops/linear.cpp", lines(501), 501),
    ("function-size", "terrace/ops/linear.cpp", OPS + "void f(int n) {\n" + LONG_BODY + "}\n", 2),
    ("function-size", "tools/plan.py", "# P.\ndef f(n):\n" + "    n += 1\n" * 80, 2),
    ("function-size", "tools/setup", "#!/usr/bin/env bash\n# S.\nf() {\n" + "  true\n" * 80 + "}\n", 3),
    ("first-line", "terrace/ops/linear.cpp", "#include <vector>\n", 1),
    ("first-line", "tools/setup", "#!/usr/bin/env bash\necho\n", 1),
    ("banned-name", "terrace/ops/linear_utils.h", "// L.\n#pragma once\n", 1),
    ("banned-name", "terrace/ops/process.h", "// L.\n#pragma once\n", 1),
    ("banned-name", "terrace/ops/linear.cpp", OPS + "class StepManager {};\n", 2),
    ("banned-name", "terrace/ops/linear.cpp", OPS + "void process(int n);\n", 2),
    ("banned-name", "terrace/ops/linear.cpp", OPS + "int data2 = 0;\n", 2),
    ("banned-name", "terrace/ops/linear.cpp", OPS + "const File& handle = open();\n", 2),
    ("banned-name", "tools/plan.py", "# P.\nmisc_sizes = 3\n", 2),
    ("stage-name", "terrace/ops/linear_v2.h", "// L.\n#pragma once\n", 1),
    ("stage-name", "terrace/ops/new_linear.h", "// L.\n#pragma once\n", 1),
    ("commented-out-code", "terrace/ops/linear.cpp", OPS + "// return x + 1;\n", 2),
    ("commented-out-code", "terrace/ops/linear.cpp", OPS + "//   layers[i] = make_layer(i);\n", 2),
    ("commented-out-code", "terrace/ops/linear.cpp", OPS + "// int width = 3;\n", 2),
    ("commented-out-code", "terrace/ops/linear.cpp", OPS + "// #include <vector>\n", 2),
    ("commented-out-code", "tools/plan.py", "# P.\n# print(3)\n", 2),
    ("commented-out-code", "tools/setup", "#!/usr/bin/env bash\n# S.\n# echo \"$x\"\n", 3),
    ("commented-out-code", "CMakeLists.txt", GOOD["CMakeLists.txt"] + "# set(x 3)\n", 10),
    ("note-to-self", "terrace/ops/linear.cpp", OPS + "// TO" + "DO: the bias\n", 2),
    ("half-sentence", "terrace/ops/linear.cpp", OPS + "\n// Of a row.\nint x;\n", 3),
    ("half-sentence", "terrace/mesh/mesh.h", "// What a mesh is.\n#pragma once\n", 1),
    ("half-sentence", "tools/plan.py", "# P.\n\n# The same for rows.\nx = 1\n", 3),
    ("machine-path", "tools/plan.py", "# P.\nfolder = '/ro" + "ot/data'\n", 2),
    ("machine-path", "README.md", GOOD["README.md"] + "see /ho" + "me/someone\n", 15),
    ("host-name", "tools/setup", "#!/usr/bin/env bash\n# S.\ncurl ht" + "tps://example.org/x\n", 3),
    ("host-name", "tools/plan.py", "# P.\nsource = 'ht" + "tp://www.w3.org/TR'  # unlike the name space of SVG\n", 2),
    ("pragma-once", "terrace/ops/linear.h", "// L.\n", 2),
    ("backend-ifdef", "terrace/ops/linear.cpp", OPS + "#ifdef USE_CUDA\nint x;\n#endif\n", 2),
    ("backend-ifdef", "terrace/ops/linear.h", "// L.\n#pragma once\ninline int f(int n) {\n#ifdef USE_MPI\n  n = 1;\n#endif\n  return n;\n}\n", 4),
    ("room", "terrace/extra/extra.h", "// Extra.\n#pragma once\n", 1),
    ("room", "terrace/mesh/mesh.cpp", "// Mesh.\n", 1),
    ("room", "CMakeLists.txt", GOOD["CMakeLists.txt"] + "terrace_room(search)\n", 10),
    ("proof-row", "docs/proofs.md", GOOD["docs/proofs.md"].replace("`Linear.AddsUp`", "yes"), 5),
    ("proof-row", "docs/proofs.md", GOOD["docs/proofs.md"].replace("`Linear.AddsUp`", "`Linear.Absent`"), 5),
    ("proof-row", "docs/proofs.md", GOOD["docs/proofs.md"].replace("`house.lint`", "`house.absent`"), 10),
    ("proof-row", "docs/proofs.md", "# Proofs\nA table is to come.\n", 1),
    ("dead-link", "docs/plan.md", "# Plan\n\nSee [the rules](README.md).\n", 3),
    ("dead-link", "docs/plan.md", "# Plan\n[a](../README.md) and ![b](<picture.png> \"B\")\n", 2),
    ("dead-link", "docs/plan.md", "# Plan\n[rules]: ../RULES.md\n", 2),
    ("dead-link", "docs/plan.md", "# Plan\n[out](../../outside.md)\n", 2),
    ("dead-link", "README.md", GOOD["README.md"] + "[p](docs/plans.md#plan)\n", 15),
    ("dead-link", "README.md", GOOD["README.md"] + "[p](docs/plan.md#plans)\n", 15),
    ("dead-link", "docs/plan.md", "# Plan\n[a](#plans)\n", 2),
    ("doc-command", "docs/plan.md", "```sh\nterrace plan unheard.toml\n```\n", 2),
    ("doc-command", "tests/house/doc_commands.txt", GOOD["tests/house/doc_commands.txt"] + "run: terrace gone\n", 5),
    ("doc-command", "tests/house/doc_commands.txt", "run: terrace plan tiny.toml --json\nLinear.Absent: terrace doctor\n", 2),
]


def findings_of(files, empty_folder=None):
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        for path, text in files.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text)
        if empty_folder:
            (root / empty_folder).mkdir(parents=True)
        tree = Tree(root)
        return [f for rule in (includes, sizes, names, comments, layout, documents) for f in rule.check(tree)]


class Lint(unittest.TestCase):
    def test_is_silent_on_a_good_tree(self):
        self.assertEqual([str(f) for f in findings_of(GOOD)], [])

    def test_each_rule_fires_where_it_is_broken_and_no_other_does(self):
        for rule, path, text, line in BROKEN:
            with self.subTest(rule=rule, path=path, text=text[-60:]):
                # A room that gets a .cpp needs a test: what is broken is to be the only thing that is.
                files = GOOD | {"tests/mesh/mesh_test.cpp": "// Mesh.\n"} if path == "terrace/mesh/mesh.cpp" and rule != "room" else GOOD
                found = {(f.rule, f.path, f.line) for f in findings_of(files | {path: text})}
                self.assertEqual(found, {(rule, path, line)})

    def test_finds_an_empty_folder(self):
        found = [(f.rule, f.path) for f in findings_of(GOOD, "docs/pictures")]
        self.assertEqual(found, [("empty-folder", "docs/pictures")])

    def test_finds_that_the_table_of_proofs_is_missing(self):
        found = [(f.rule, f.path, f.line) for f in findings_of({path: text for path, text in GOOD.items() if path != "docs/proofs.md"})]
        self.assertEqual(found, [("proof-row", "docs/proofs.md", 1)])

    def test_counts_functions_as_a_reader_does(self):
        code = ("namespace a {\nstruct S : T {\n  S(int x) : x_{x}, y_{1} {\n    run([&] { return 1; });\n  }\n  int x_ = {3};\n};\n"
                "const int list[] = {f(1), 2};\nauto f() -> std::vector<int> {\n  if (x) {\n  }\n}\n"
                "template <class T>\nbool operator==(const T& a, const T& b) {\n  return true;\n}\n}\n")
        self.assertEqual([name for name, _, _ in cpp_functions(code)], ["S", "f", "operator=="])

    def test_the_program_names_file_line_rule_and_remedy_and_exits_with_1(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "terrace/ops/linear.h"
            path.parent.mkdir(parents=True)
            path.write_text("// L.\n\nint   x;\n")
            (pathlib.Path(folder) / ".clang-format").write_text("BasedOnStyle: Google\n")
            result = subprocess.run([sys.executable, SOURCE / "tools/lint", "--root", folder], capture_output=True, text=True)
        self.assertEqual(result.returncode, 1)
        self.assertIn("terrace/ops/linear.h:2: pragma-once: add #pragma once", result.stdout)
        self.assertIn("terrace/ops/linear.h:3: format: run clang-format -i terrace/ops/linear.h", result.stdout)


if __name__ == "__main__":
    unittest.main()
