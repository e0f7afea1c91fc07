// llm.c's file of tokens, NAME.bin: a header of 256 int32 (magic 20240520, version, number of tokens, zeros), then the
// tokens of all documents one after another. Version 1 holds GPT-2's tokens as uint16, version 7 Llama 3's as uint32.
// One token separates documents.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "terrace/data/text/corpus_index.h"

namespace terrace::data {

inline constexpr int32_t token_file_magic = 20'240'520;
inline constexpr size_t token_file_header_bytes = 1024;

struct TokenFile {
  TokenType type = TokenType::uint16;
  std::span<const std::byte> tokens;  // of that type, a view of the file's bytes
  int32_t end_token = 0;              // between documents: GPT-2's 50256, Llama 3's 128000
};

// Checks the header and the file's size. Throws UserError that starts with `name` and says what is wrong: another file
// of llm.c's, no such header, an unknown version, truncated.
TokenFile parse_token_file(std::span<const std::byte> bytes, const std::string& name);

// Returns the bytes of the .idx that a corpus of these tokens would have, each document closed by its end token as
// `terrace data prepare` closes it. Reads every token once.
std::vector<std::byte> index_of(const TokenFile& file);

}  // namespace terrace::data
