// safetensors files as tensors: reading through a mapping, and writing.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "terrace/base/file.h"
#include "terrace/checkpoint/safetensors_header.h"

namespace terrace::checkpoint {

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
