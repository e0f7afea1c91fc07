// Writes and renames the files of a corpus in an order that never leaves a mixture of two corpora.
#include "terrace/data/text/corpus_writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "terrace/base/error.h"
#include "terrace/base/files/temporary_name.h"
#include "terrace/data/preparation_run.h"
#include "terrace/data/text/token_corpus.h"

namespace terrace::data {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void throw_errno(const std::string& what) {
  throw std::system_error(errno, std::generic_category(), what);
}

fs::path folder_of(const fs::path& path) { return path.parent_path().empty() ? "." : path.parent_path(); }

// Opens an unnamed file in the folder of the result, which has room for it; the system removes it when the process
// ends.
std::FILE* open_unnamed(const fs::path& folder) {
  std::string name = (folder / ".lengths.XXXXXX").string();
  const int descriptor = ::mkostemp(name.data(), O_CLOEXEC);
  if (descriptor < 0) throw_errno("cannot create a file in " + folder.string());
  ::unlink(name.c_str());
  std::FILE* file = ::fdopen(descriptor, "w+b");
  if (file == nullptr) throw_errno("cannot use a file in " + folder.string());
  return file;
}

}  // namespace

void CorpusWriter::check_absent(const std::string& prefix) {
  data::check_absent({index_path(prefix), bin_path(prefix), record_path(prefix)});
}

CorpusWriter::CorpusWriter(const std::string& prefix, int64_t vocabulary, Options options)
    : prefix_(prefix), options_(options), type_(token_type_for(vocabulary)) {
  const fs::path bin = bin_path(prefix), index = index_path(prefix);
  if (!options.overwrite) check_absent(prefix);
  fs::create_directories(folder_of(bin));
  remove_abandoned_partials(bin);
  remove_abandoned_partials(index);
  remove_abandoned_partials(record_path(prefix));
  bin_ = std::make_unique<AtomicFile>(bin);
  lengths_ = open_unnamed(folder_of(bin));
}

CorpusWriter::~CorpusWriter() {
  if (lengths_ != nullptr) std::fclose(lengths_);
}

// Returns how many of the tokens the open sequence takes, at least one; a full sequence is ended before.
size_t CorpusWriter::room_in_sequence(uint64_t tokens) {
  if (sequence_tokens_ == options_.longest_sequence) end_sequence(false);
  return std::min<uint64_t>(tokens, static_cast<uint64_t>(options_.longest_sequence - sequence_tokens_));
}

void CorpusWriter::count(size_t tokens) {
  sequence_tokens_ += static_cast<int64_t>(tokens);
  tokens_ += tokens;
  document_open_ = true;
}

void CorpusWriter::append(std::span<const int32_t> tokens) {
  while (!tokens.empty()) {
    const std::span<const int32_t> part = tokens.first(room_in_sequence(tokens.size()));
    if (type_ == TokenType::uint16) {
      narrow_.assign(part.begin(), part.end());
      bin_->write(narrow_.data(), narrow_.size() * sizeof(uint16_t));
    } else {
      bin_->write(part.data(), part.size_bytes());
    }
    count(part.size());
    tokens = tokens.subspan(part.size());
  }
}

void CorpusWriter::add_document_elsewhere(uint64_t tokens) {
  while (tokens > 0) {
    const size_t part = room_in_sequence(tokens);
    count(part);
    tokens -= part;
  }
  end_document();
}

void CorpusWriter::end_sequence(bool ends_document) {
  const auto length = static_cast<int32_t>(sequence_tokens_);
  const int32_t entry = ends_document ? length : ~length;
  if (std::fwrite(&entry, sizeof(entry), 1, lengths_) != 1) throw_errno("cannot write the lengths of " + prefix_);
  sequence_tokens_ = 0;
  ++sequences_;
}

void CorpusWriter::end_document() {
  end_sequence(true);
  document_open_ = false;
  ++documents_;
}

template <typename Visit>
void CorpusWriter::visit_sequences(Visit visit) {
  // rewind() alone would ignore that data do not fit on the disk.
  if (std::fflush(lengths_) != 0) throw_errno("cannot write the lengths of " + prefix_);
  std::rewind(lengths_);
  std::vector<int32_t> entries(1 << 16);
  while (const size_t count = std::fread(entries.data(), sizeof(int32_t), entries.size(), lengths_)) {
    for (size_t i = 0; i < count; ++i) visit(entries[i] < 0 ? ~entries[i] : entries[i], entries[i] >= 0);
  }
  if (std::ferror(lengths_) != 0) throw_errno("cannot read the lengths of " + prefix_);
}

void CorpusWriter::write_index(AtomicFile& index) {
  const auto put = [&](auto value) { index.write(&value, sizeof(value)); };
  index.write(index_magic);
  put(index_version);
  put(static_cast<uint8_t>(type_));
  put(sequences_);
  put(documents_ + 1);
  visit_sequences([&](int32_t length, bool) { put(length); });
  int64_t offset = 0;
  visit_sequences([&](int32_t length, bool) {
    put(offset);
    offset += int64_t{length} * static_cast<int64_t>(token_bytes(type_));
  });
  int64_t sequence = 0;
  put(sequence);
  visit_sequences([&](int32_t, bool ends_document) {
    ++sequence;
    if (ends_document) put(sequence);
  });
}

std::unique_ptr<AtomicFile> CorpusWriter::write_record(const AtomicFile& index) const {
  if (!options_.tokenizer) return nullptr;
  const MappedFile index_file(index.temporary_path()), bin_file(bin_->temporary_path());
  const CorpusRecord record{.fingerprint = corpus_fingerprint(index_file.bytes(), bin_file.bytes()),
                            .tokenizer = *options_.tokenizer,
                            .begin_token = options_.begin_token,
                            .bin_checksum = checksum_of_file(bin_->temporary_path()),
                            .index_checksum = checksum_of_file(index.temporary_path())};
  auto file = std::make_unique<AtomicFile>(record_path(prefix_));
  file->write(record.json());
  file->sync();
  return file;
}

void CorpusWriter::commit(AtomicFile* trained) {
  if (document_open_) end_document();
  AtomicFile index(index_path(prefix_));
  write_index(index);
  index.sync();
  bin_->sync();
  const std::unique_ptr<AtomicFile> record = write_record(index);
  if (trained != nullptr) trained->sync();
  if (fs::remove(index_path(prefix_))) sync_folder(folder_of(index_path(prefix_)));
  fs::remove(record_path(prefix_));
  if (trained != nullptr) trained->commit();
  bin_->commit();
  try {
    if (record) record->commit();
    index.commit();
  } catch (...) {
    std::error_code ignored;  // the first error is the one to report
    fs::remove(record_path(prefix_), ignored);
    fs::remove(bin_path(prefix_), ignored);
    throw;
  }
}

}  // namespace terrace::data
