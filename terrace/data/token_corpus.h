// A corpus of tokens on disk, PREFIX.bin and PREFIX.idx, mapped into memory and never copied.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "terrace/base/file.h"
#include "terrace/data/corpus_index.h"

namespace terrace::data {

std::filesystem::path bin_path(const std::string& prefix);
std::filesystem::path index_path(const std::string& prefix);

class TokenCorpus {
 public:
  // Throws UserError naming the file and what is wrong with it.
  explicit TokenCorpus(const std::string& prefix, CorpusIndex::Check check = CorpusIndex::Check::sampled);

  const CorpusIndex& index() const { return index_; }
  uint64_t tokens() const { return index_.tokens(); }
  uint64_t bin_bytes() const { return bin_.bytes().size(); }
  uint64_t index_bytes() const { return index_file_.bytes().size(); }
  std::string index_checksum() const { return checksum(index_file_.bytes()); }
  const std::filesystem::path& path() const { return bin_.path(); }

  // Advice on reading from the disk: windows will be read in no order; these tokens will be read next.
  void expect_random_reads() const { bin_.expect_random_reads(); }
  void expect(uint64_t first, uint64_t count) const {
    const uint64_t width = token_bytes(index_.type());
    bin_.expect(first * width, count * width);
  }

  // Tokens first .. first + to.size() - 1. Throws UserError naming file and position for a token outside
  // [0, vocabulary).
  void read(uint64_t first, std::span<int64_t> to, int64_t vocabulary) const;

 private:
  MappedFile bin_, index_file_;
  CorpusIndex index_;
};

}  // namespace terrace::data
