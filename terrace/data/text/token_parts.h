// Keeps what a rank encodes of its input files, as parts from which the first rank makes the corpus.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "terrace/base/text/json.h"
#include "terrace/data/file_parts.h"
#include "terrace/data/text/block_encoder.h"
#include "terrace/data/text/corpus_index.h"
#include "terrace/data/text/corpus_writer.h"

namespace terrace::data {

// Counts of what was encoded.
struct EncodedText {
  uint64_t documents = 0, tokens = 0;
  uint64_t text_bytes = 0;       // of the documents, unpacked
  uint64_t empty_documents = 0;  // left out
  uint64_t changed_parts = 0;    // parts of documents (up to about a MiB) that do not decode to their exact bytes
  uint64_t malformed_lines = 0;  // left out
  std::vector<MalformedLine> first_malformed = {};
  EncodeCounts counts = {};

  void add(const EncodedText& more);
  Json json_of_counts() const;
  static EncodedText of_json(const Json& counts);
};

// The channels of FileParts: tokens as the .bin has them, and an uint64 for each document, its number of tokens.
enum TokenChannel : size_t { tokens_channel, lengths_channel };
std::vector<std::string> token_channels();

// Appends encoded blocks of one rank, in their order, to its parts.
class TokenPartsWriter {
 public:
  // `files` are those of parts.own(). All must outlive this. More than `max_malformed` lines are refused by UserError.
  TokenPartsWriter(FileParts& parts, const std::vector<InputFile>& files, TokenType type, uint64_t max_malformed)
      : parts_(parts), files_(files), type_(type), max_malformed_(max_malformed) {}

  void take(const EncodedBlock& block);
  // Finishes the files; called after the last block.
  void finish();
  uint64_t tokens() const { return tokens_; }  // of all files

 private:
  void append_tokens(std::span<const int32_t> tokens);
  void end_document();
  void finish_file();
  void note(const MalformedLine& line);

  FileParts& parts_;
  const std::vector<InputFile>& files_;
  TokenType type_;
  uint64_t max_malformed_;
  std::vector<uint16_t> narrow_ = {};
  size_t file_ = 0;               // the file that is being encoded
  uint64_t document_tokens_ = 0;  // of the document that is open
  uint64_t tokens_ = 0;
  EncodedText of_file_ = {}, of_rank_ = {};
};

// Adds the documents of a part, whose tokens ranks copy into the .bin, to the index of a corpus.
void add_lengths(CorpusWriter& writer, const std::filesystem::path& folder, const FilePart& part);

}  // namespace terrace::data
