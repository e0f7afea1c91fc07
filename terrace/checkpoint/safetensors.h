// The safetensors file format: a JSON header with names, types, shapes and offsets, then the tensors' bytes without
// gaps. Format: https://huggingface.co/docs/safetensors (8 bytes of header length, little-endian; header; data).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "terrace/base/file.h"

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

// A file opened for reading, memory-mapped.
class SafetensorsFile {
 public:
  explicit SafetensorsFile(const std::filesystem::path& path);

  const SafetensorsHeader& header() const { return header_; }
  std::span<const std::byte> bytes() const { return file_.bytes(); }

  // A CPU tensor over the mapping itself, so it is for reading only and must not outlive this object. A copy where the
  // bytes do not lie at a multiple of the type's size, and for BOOL, whose bytes may be other than 0 and 1.
  at::Tensor tensor(const SafetensorsEntry& entry) const;

 private:
  MappedFile file_;
  SafetensorsHeader header_;
};

struct WrittenFile {
  uint64_t bytes = 0;
  std::string checksum;  // as terrace::checksum() of the whole file gives
};

// Streams the tensors, one after another on the CPU, into a file that is durable on return. Their bytes are ordered by
// falling element size, so that each lies at a multiple of its own. Throws std::system_error where the disk refuses.
WrittenFile write_safetensors(const std::filesystem::path& path,
                              const std::vector<std::pair<std::string, at::Tensor>>& tensors,
                              const std::map<std::string, std::string>& metadata);

}  // namespace terrace::checkpoint
