// Preparing more structures takes no more memory than their offsets.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>

#include "tests/data/graph_files.h"
#include "tests/data/peak_memory.h"

namespace terrace::data {
namespace {

constexpr int atoms_of_large = 200;

// Writes `count` structures of 200 atoms with forces, about 8 KiB of text each.
void write_large_structures(const std::string& path, int64_t count) {
  std::ofstream file(path);
  for (int64_t i = 0; i < count; ++i) {
    file << atoms_of_large << "\nenergy=" << i << " Properties=species:S:1:pos:R:3:forces:R:3\n";
    for (int atom = 0; atom < atoms_of_large; ++atom) {
      file << fmt::format("C {} {} {} 0.125 0.25 {}\n", 1.5 * atom, 0.25 * (atom % 7), 0.001, 0.5 * atom);
    }
  }
}

// Peak resident memory of a process that prepares so many structures.
int64_t peak_of_preparing_graphs(int64_t count) {
  const TemporaryFolder folder;
  write_large_structures(folder / "in.xyz", count);
  return peak_memory_of([&] {
    const PrepareResult result = prepare_graphs({folder / "in.xyz"}, folder / "p", {}, 1);
    return result.json.at("structures") == count;
  });
}

TEST(GraphMemory, DoesNotGrowWithTheStructures) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers keep freed memory";
#endif
  const int64_t few = peak_of_preparing_graphs(1000), many = peak_of_preparing_graphs(5000);
  // The 4000 further structures have 39 MB of positions and forces, and 27 MB of text.
  EXPECT_LT(many - few, int64_t{8} << 20) << few << " bytes for 1000 structures, " << many << " for 5000";
}

}  // namespace
}  // namespace terrace::data
