// Structures as text, the crystals of a Debian package, and Python's cases, for the tests of graphs.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "terrace/data/graphs/prepare_graphs.h"
#include "tests/data/test_corpus.h"

namespace terrace::data {

inline std::string run_graph_cases(const TemporaryFolder& folder, const std::vector<std::string>& arguments) {
  std::vector<std::string> all = {tests::source_dir().string() + "/tests/data/graph_cases.py"};
  all.insert(all.end(), arguments.begin(), arguments.end());
  return run_python(
      folder, "import runpy, sys\nsys.argv = sys.argv[1:]\nrunpy.run_path(sys.argv[0], run_name='__main__')\n", all);
}

// The path of what a tool of tools/ fetches from a Debian package, which is done once; "" where it cannot be fetched.
inline std::string fetched_graphs(const std::string& tool, const std::string& name) {
  const std::filesystem::path path = tests::source_dir() / ".deps" / name;
  if (std::filesystem::exists(path)) return path.string();
  const std::string command = (tests::source_dir() / "tools" / tool).string() + " '" + path.string() + "' >/dev/null";
  return std::system(command.c_str()) == 0 ? path.string() : "";
}

// The folder of the 510 crystals, and the file of the 11,204 molecules.
inline std::string fetched_crystals() { return fetched_graphs("crystals", "crystals"); }
inline std::string fetched_molecules() { return fetched_graphs("molecules", "molecules.xyz"); }

using GraphFlags = std::map<std::string, std::vector<std::string>>;

inline PrepareResult prepare_graphs(const std::vector<std::string>& inputs, const std::string& output,
                                    const GraphFlags& flags = {}, int64_t threads = 2) {
  return GraphsPreparation().prepare(
      {.inputs = inputs, .output = output, .overwrite = true, .threads = threads, .flags = flags});
}

// Returns the message with which the inputs are refused; nothing may be left of the output.
inline std::string refused_graphs(const TemporaryFolder& folder, const std::vector<std::string>& inputs,
                                  const GraphFlags& flags = {}) {
  std::filesystem::create_directories(folder.path() / "refused");
  const std::string message = user_error([&] { prepare_graphs(inputs, folder / "refused/p", flags); });
  EXPECT_TRUE(std::filesystem::is_empty(folder.path() / "refused")) << message;
  return message;
}

}  // namespace terrace::data
