// The safetensors file format: a JSON header with names, types, shapes and offsets, then the tensors' bytes without
// gaps. Format: https://huggingface.co/docs/safetensors (8 bytes of header length, little-endian; header; data). Of
// torch only the names of types are needed here, so that the fuzzer of this reader links none of its operations.
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

// The format's word for a type ("BF16"); a type that it has none for breaks an invariant.
std::string_view safetensors_type(at::ScalarType type);

// The way back: at::ScalarType::Undefined for a word that is not known.
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

// Checks everything before it takes memory: the header's length against the file, types, shapes against offsets, and
// that the tensors cover the rest of the file once. Throws UserError with `file_name` and what is wrong.
SafetensorsHeader parse_safetensors(std::span<const std::byte> file, std::string_view file_name);

}  // namespace terrace::checkpoint
