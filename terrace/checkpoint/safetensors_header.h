// The safetensors file format: a JSON header with names, types, shapes and offsets, then the tensors' bytes without
// gaps. Format: https://huggingface.co/docs/safetensors (8 bytes of header length, little-endian; header; data). This
// file needs only torch's names of types, so that the fuzzer of this reader links none of torch's operations.
#pragma once

#include <c10/core/ScalarType.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace terrace::checkpoint {

// The format's name of a type ("BF16"). It is a broken invariant if the format has no such type.
std::string_view safetensors_type(at::ScalarType type);

// The type with this name, or at::ScalarType::Undefined for an unknown name.
at::ScalarType scalar_type(std::string_view word);

struct SafetensorsEntry {
  std::string name;
  at::ScalarType type = at::kFloat;
  std::vector<int64_t> shape;
  uint64_t begin = 0;  // bytes from the start of the file
  uint64_t end = 0;
};

struct SafetensorsHeader {
  std::map<std::string, std::string> metadata;
  std::vector<SafetensorsEntry> entries;  // in the order of their bytes

  const SafetensorsEntry* find(std::string_view name) const;  // null where there is none
};

// Checks all numbers before it allocates memory: the header's length against the file, types, shapes against offsets,
// and that the tensors cover the rest of the file exactly once. Throws UserError with `file_name` and the problem.
SafetensorsHeader parse_safetensors(std::span<const std::byte> file, std::string_view file_name);

}  // namespace terrace::checkpoint
