// The .idx file beside a .bin of tokens, in the format of Megatron's IndexedDataset: the bytes "MMIDIDX\0\0", version 1
// (u64), token type (u8), sequences S (u64), document entries D + 1 (u64), lengths of sequences in tokens (S x i32),
// their byte offsets in the .bin (S x i64), and the sequence at which each document begins, closed by S ((D + 1) x
// i64). All little-endian and unaligned.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace terrace::data {

inline constexpr std::string_view index_magic{"MMIDIDX\0\0", 9};
inline constexpr uint64_t index_version = 1;
inline constexpr size_t index_header_bytes = 34;

// The numbers of the token types in Megatron's format.
enum class TokenType : uint8_t { uint8 = 1, int8 = 2, int16 = 3, int32 = 4, int64 = 5, uint16 = 8 };

uint64_t token_bytes(TokenType type);
std::string_view token_type_name(TokenType type);
// Returns the type that Megatron uses for a vocabulary: uint16 below 65,500, else int32.
TokenType token_type_for(int64_t vocabulary);

// A view of an .idx file's bytes, which must outlive it.
class CorpusIndex {
 public:
  // all: every entry is checked. sampled: every entry up to 4 million is checked, and beyond that both ends and evenly
  // spread entries, so that a corpus of any size opens quickly; the other entries are checked when they are used.
  enum class Check { sampled, all };

  // Throws UserError that starts with `name` and says what is wrong, for any bytes. It allocates no memory.
  static CorpusIndex parse(std::span<const std::byte> bytes, uint64_t bin_bytes, const std::string& name, Check check);

  // The facts that check_header() learns.
  struct Header {
    TokenType type = TokenType::uint16;
    uint64_t sequences = 0, documents = 0, tokens = 0;
  };
  Header header() const { return {type_, sequences_, documents_, tokens_}; }
  // Returns a view of the bytes of an .idx file that another process has parsed: reads none of them.
  static CorpusIndex known(std::span<const std::byte> bytes, const Header& header, const std::string& name);

  TokenType type() const { return type_; }
  uint64_t sequences() const { return sequences_; }
  uint64_t documents() const { return documents_; }
  uint64_t tokens() const { return tokens_; }

  // Returns the position of the first token of a document; at documents(), the number of tokens. Throws UserError where
  // the entry is corrupt.
  uint64_t document_begin(uint64_t document) const;
  // Returns the document that a token belongs to: the last one that begins at or before the token.
  uint64_t document_of(uint64_t token) const;

 private:
  int64_t length(uint64_t sequence) const;
  int64_t pointer(uint64_t sequence) const;
  int64_t first_sequence(uint64_t document) const;
  void check_header(uint64_t bin_bytes);
  void check_sequence(uint64_t sequence) const;
  void check_document(uint64_t document) const;
  void check_entries(Check check) const;

  std::span<const std::byte> bytes_;
  std::string name_;
  TokenType type_ = TokenType::uint16;
  uint64_t sequences_ = 0, documents_ = 0, tokens_ = 0;
};

}  // namespace terrace::data
