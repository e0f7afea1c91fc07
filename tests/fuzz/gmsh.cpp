// Fuzzes the reader of meshes of Gmsh.
#include "terrace/data/graphs/formats/gmsh.h"

#include "tests/fuzz/judge.h"
#include "tests/fuzz/structure_check.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text = terrace::text_of(data, size);
  terrace::reads_or_refuses([&] { terrace::check_structure(terrace::data::parse_gmsh(text), true); });
  return 0;
}
