// Fuzzes the reader of point sets in .npz files, and of the .npz files themselves.
#include "terrace/data/graphs/formats/point_sets.h"

#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "terrace/data/graphs/structures/structure_problems.h"
#include "tests/fuzz/judge.h"
#include "tests/fuzz/structure_check.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using terrace::data::PointSets;
  std::vector<terrace::data::NamedArray> arrays;
  const auto read = [&] {
    const terrace::data::NpzArchive archive(std::as_bytes(std::span(data, size)), "fuzzed.npz");
    arrays = npz_arrays(archive);
  };
  if (!terrace::reads_or_refuses(read)) return 0;
  std::optional<PointSets> sets;
  if (!terrace::reads_or_refuses([&] { sets.emplace(std::move(arrays)); })) return 0;
  for (int64_t graph = 0; graph < sets->graphs(); ++graph) {
    const terrace::data::Structure structure = sets->structure(graph);
    terrace::check_structure(structure, false);
    problems_of(structure, {});
  }
  return 0;
}
