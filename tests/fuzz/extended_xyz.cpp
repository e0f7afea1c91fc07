// Fuzzes the reader of extended XYZ: all frames of a text.
#include "terrace/data/graphs/formats/extended_xyz.h"

#include "tests/fuzz/judge.h"
#include "tests/fuzz/structure_check.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view rest = terrace::text_of(data, size);
  size_t bytes = 0;
  const auto next_frame = [&] { bytes = terrace::data::frame_bytes(rest, true); };
  while (terrace::reads_or_refuses(next_frame) && bytes > 0) {
    TERRACE_CHECK(bytes <= rest.size(), "a frame of {} bytes in {}", bytes, rest.size());
    const std::string_view frame = rest.substr(0, bytes);
    rest.remove_prefix(bytes);
    terrace::reads_or_refuses([&] { terrace::check_structure(terrace::data::parse_extended_xyz(frame), true); });
  }
  return 0;
}
