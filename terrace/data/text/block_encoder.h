// Encodes blocks of text to tokens.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "terrace/data/text/text_blocks.h"
#include "terrace/data/text/tokenizer/text_encoder.h"
#include "terrace/data/text/tokenizer/tokenizer.h"

namespace terrace::data {

// The tokens of one block; `ends` are the positions after the end tokens of documents.
struct EncodedBlock {
  const InputFile* file = nullptr;
  std::vector<int32_t> tokens = {};
  std::vector<size_t> ends = {};
  uint64_t text_bytes = 0, empty_documents = 0, changed_parts = 0;
  EncodeCounts counts = {};
  std::vector<MalformedLine> malformed = {};
};

// The tokens of a document besides those of its words.
struct DocumentTokens {
  int32_t begin = -1;  // stands before it; -1: none does
  int32_t end = -1;    // closes it
  SpecialTokens special = SpecialTokens::split;
};

// An encoder for one thread. The tokenizer and the rules must outlive it.
class BlockEncoder {
 public:
  BlockEncoder(const Tokenizer& tokenizer, const BlockRules& rules, const DocumentTokens& document)
      : tokenizer_(tokenizer), rules_(rules), document_(document), encoder_(tokenizer.make_encoder(document.special)) {}

  EncodedBlock encode(const TextBlock& block);

 private:
  void encode_part(std::string_view text, bool starts, bool ends, EncodedBlock& encoded);
  bool decodes_to(std::string_view text, std::span<const int32_t> ids, bool starts) const;

  const Tokenizer& tokenizer_;
  const BlockRules& rules_;
  DocumentTokens document_;
  std::unique_ptr<TextEncoder> encoder_;
};

}  // namespace terrace::data
