// An array that grows on disk while a dataset of graphs is written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "terrace/base/files/file.h"
#include "terrace/data/graphs/dataset/graphs_description.h"

namespace terrace::data {

// The numbers are in an unnamed file, which the system removes when the process ends, so memory does not grow with
// them.
class ArrayFile {
 public:
  // The file is in `folder`, which has room for the result. Throws std::system_error, as all functions do.
  ArrayFile(const std::filesystem::path& folder, NumberType type);

  template <typename Number>
  void append(std::span<const Number> numbers) {
    append_bytes(std::as_bytes(numbers));
  }
  template <typename Number>
  void append_one(Number number) {
    append(std::span<const Number>(&number, 1));
  }
  NumberType type() const { return type_; }
  uint64_t numbers() const { return bytes_ / bytes_of(type_); }

  // Calls `take` with all bytes in order, a MiB at a time.
  void read(const std::function<void(std::span<const std::byte>)>& take);
  // Appends the numbers to the file at the next multiple of 64 bytes, and says where they are. `sizes` are those of the
  // array, whose product is numbers().
  GraphArray copy_to(AtomicFile& file, std::vector<uint64_t> sizes, const std::function<void(uint64_t)>& look);

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  void append_bytes(std::span<const std::byte> bytes);

  std::filesystem::path folder_;
  NumberType type_;
  uint64_t bytes_ = 0;
  std::unique_ptr<std::FILE, Close> file_;
};

}  // namespace terrace::data
