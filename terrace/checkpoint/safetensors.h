// Reads safetensors files through a memory mapping, and writes them.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "terrace/base/files/file.h"
#include "terrace/checkpoint/safetensors_header.h"

namespace terrace::checkpoint {

// A file opened for reading, memory-mapped.
class SafetensorsFile {
 public:
  explicit SafetensorsFile(const std::filesystem::path& path);

  const SafetensorsHeader& header() const { return header_; }
  std::span<const std::byte> bytes() const { return file_.bytes(); }

  // A CPU tensor that is a view of the mapping, so it is read-only and must not outlive this object. It is a copy where
  // the bytes are not aligned to the type's size, and for BOOL, whose bytes may be other than 0 and 1.
  at::Tensor tensor(const SafetensorsEntry& entry) const;

 private:
  MappedFile file_;
  SafetensorsHeader header_;
};

struct WrittenFile {
  uint64_t bytes = 0;
  std::string checksum;  // as terrace::checksum() of the whole file gives
};

using NamedValues = std::vector<std::pair<std::string, at::Tensor>>;

// The contents of a safetensors file of these tensors, which outlive it: a header, which follows from the shapes, and
// the tensors, ordered by decreasing element size, so that each is aligned to its own.
class SafetensorsContents {
 public:
  SafetensorsContents(const NamedValues& tensors, const std::map<std::string, std::string>& metadata);

  uint64_t bytes() const { return bytes_; }
  // Hands over everything from the first byte to the last one, each tensor by way of the CPU.
  void each_range(const std::function<void(std::span<const std::byte>)>& take) const;

 private:
  std::vector<const std::pair<std::string, at::Tensor>*> ordered_;
  std::string header_;
  uint64_t bytes_ = 0;
};

// Writes the contents to `to`, of as many bytes, with as many threads as the caller has.
void write_safetensors(std::span<std::byte> to, const SafetensorsContents& contents);

// Writes the tensors, one after another by way of the CPU, into a file that is durable on return. Throws
// std::system_error where a write fails.
WrittenFile write_safetensors(const std::filesystem::path& path, const NamedValues& tensors,
                              const std::map<std::string, std::string>& metadata);

}  // namespace terrace::checkpoint
