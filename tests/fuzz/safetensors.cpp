// Fuzzes the reader of safetensors headers, which must place every tensor inside the file.
#include "terrace/checkpoint/safetensors_header.h"
#include "tests/fuzz/judge.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span bytes(reinterpret_cast<const std::byte*>(data), size);
  terrace::checkpoint::SafetensorsHeader header;
  if (!terrace::reads_or_refuses([&] { header = terrace::checkpoint::parse_safetensors(bytes, "fuzzed"); })) return 0;
  for (const auto& entry : header.entries) {
    uint64_t expected = c10::elementSize(entry.type);
    for (const int64_t extent : entry.shape) expected *= static_cast<uint64_t>(extent);
    TERRACE_CHECK(entry.begin <= entry.end && entry.end <= size && entry.end - entry.begin == expected,
                  "'{}' lies at {} to {} of {}", entry.name, entry.begin, entry.end, size);
    TERRACE_CHECK(header.find(entry.name) != nullptr, "'{}' is not found", entry.name);
  }
  return 0;
}
