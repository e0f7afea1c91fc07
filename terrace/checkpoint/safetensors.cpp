// Makes tensors that are views of the mapping of a safetensors file.
#include "terrace/checkpoint/safetensors.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include <cstring>

namespace terrace::checkpoint {

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path)
    : file_(path), header_(parse_safetensors(file_.bytes(), path.string())) {}

at::Tensor SafetensorsFile::tensor(const SafetensorsEntry& entry) const {
  const size_t bytes = entry.end - entry.begin;
  void* data = const_cast<std::byte*>(file_.bytes().data() + entry.begin);
  if (entry.type == at::kBool) return at::from_blob(data, entry.shape, at::kByte).ne(0);
  if (reinterpret_cast<uintptr_t>(data) % c10::elementSize(entry.type) == 0) {
    return at::from_blob(data, entry.shape, entry.type);
  }
  at::Tensor copy = at::empty(entry.shape, entry.type);
  if (bytes > 0) std::memcpy(copy.mutable_data_ptr(), data, bytes);
  return copy;
}

}  // namespace terrace::checkpoint
