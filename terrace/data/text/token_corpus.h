// A corpus of tokens on disk, PREFIX.bin and PREFIX.idx or a token file of llm.c, mapped into memory and never
// copied.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "terrace/base/files/file.h"
#include "terrace/data/staging/staged_reader.h"
#include "terrace/data/text/corpus_index.h"
#include "terrace/data/text/corpus_record.h"

namespace terrace::data {

std::filesystem::path bin_path(const std::string& prefix);
std::filesystem::path index_path(const std::string& prefix);
// Returns the files of a corpus in data.train: the pair, or one file where the name ends in ".bin".
std::vector<std::filesystem::path> corpus_files(const std::string& name);

class TokenCorpus {
 public:
  // Throws UserError that names the file and the problem, also where the files and the record beside them are not from
  // one run of `terrace data prepare`. A name that ends in ".bin" is of a token file of llm.c; its documents are
  // found by reading it once. With Check::sampled nothing is read that another process has found (found_in()).
  explicit TokenCorpus(const std::string& name, CorpusIndex::Check check = CorpusIndex::Check::sampled);

  const CorpusIndex& index() const { return index_; }
  uint64_t tokens() const { return index_.tokens(); }
  uint64_t bin_bytes() const { return bin_.bytes().size(); }
  uint64_t index_bytes() const { return index_file_.bytes().size(); }  // on disk
  // Returns the checksum of the whole index, which takes seconds for gigabytes.
  std::string index_checksum() const { return checksum(made_index_.empty() ? index_file_.bytes() : made_index_); }
  // Returns the corpus_fingerprint() of the files.
  const std::string& fingerprint() const { return fingerprint_; }
  const std::optional<CorpusRecord>& record() const { return record_; }  // nullopt where there is no record
  const std::filesystem::path& path() const { return bin_.path(); }
  // Returns one file or two, as corpus_files() names them.
  const std::vector<std::filesystem::path>& files() const { return files_; }

  // Advise the system that windows will be read in random order, and that these tokens will be read next.
  void expect_random_reads() const { bin_.expect_random_reads(); }
  void expect(uint64_t first, uint64_t count) const {
    const uint64_t width = token_bytes(index_.type());
    const auto header = static_cast<uint64_t>(tokens_.data() - bin_.bytes().data());
    bin_.expect(header + first * width, count * width);
  }

  // Reads tokens first .. first + to.size() - 1, by `staged` unless it is null. Throws UserError naming file and
  // position for a token outside [0, vocabulary).
  void read(uint64_t first, std::span<int64_t> to, int64_t vocabulary, const StagedReader* staged = nullptr) const;
  // Return the file that holds the tokens, and where in it tokens first .. first + count - 1 are.
  const MappedFile& token_file() const { return bin_; }
  FileRange range(uint64_t first, uint64_t count) const { return range_of(bin_, bytes_of(first, count)); }

 private:
  std::span<const std::byte> bytes_of(uint64_t first, uint64_t count) const {
    const uint64_t width = token_bytes(index_.type());
    return tokens_.subspan(first * width, count * width);
  }
  void open_pair(const std::string& prefix, CorpusIndex::Check check);
  void parse_pair(const std::string& prefix, CorpusIndex::Check check);
  void open_token_file(const std::string& name);

  std::vector<std::filesystem::path> files_;
  MappedFile bin_, index_file_;
  std::vector<std::byte> made_index_;  // of a token file, which has none
  std::span<const std::byte> tokens_;  // the part of bin_ that holds them
  CorpusIndex index_;
  std::string fingerprint_;
  std::optional<CorpusRecord> record_;
};

}  // namespace terrace::data
