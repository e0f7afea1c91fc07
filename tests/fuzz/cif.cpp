// Fuzzes the reader of crystals of CIF.
#include "terrace/data/graphs/formats/cif.h"

#include <vector>

#include "tests/fuzz/judge.h"
#include "tests/fuzz/structure_check.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::vector<terrace::data::CifBlock> blocks;
  if (!terrace::reads_or_refuses([&] { blocks = terrace::data::parse_cif(terrace::text_of(data, size)); })) return 0;
  for (const terrace::data::CifBlock& block : blocks) {
    terrace::reads_or_refuses([&] { terrace::check_structure(terrace::data::crystal_of(block), true); });
  }
  return 0;
}
