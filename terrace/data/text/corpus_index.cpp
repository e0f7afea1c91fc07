// Checks an .idx file, each value before it is used.
#include "terrace/data/text/corpus_index.h"

#include <bit>
#include <cstring>

#include "terrace/base/error.h"

namespace terrace::data {
namespace {

static_assert(std::endian::native == std::endian::little, "the format is little-endian");

constexpr uint64_t entries_checked_in_full = 4'000'000;
constexpr uint64_t entries_sampled = 65'536;  // at each end and spread between

template <typename T>
T load(std::span<const std::byte> bytes, uint64_t offset) {
  TERRACE_CHECK(offset <= bytes.size() && sizeof(T) <= bytes.size() - offset, "offset {}", offset);
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof(T));
  return value;
}

template <typename Visit>
void visit_entries(uint64_t count, CorpusIndex::Check check, Visit visit) {
  if (check == CorpusIndex::Check::all || count <= entries_checked_in_full) {
    for (uint64_t i = 0; i < count; ++i) visit(i);
    return;
  }
  for (uint64_t i = 0; i < entries_sampled; ++i) {
    visit(i);
    visit(count / entries_sampled * i);
    visit(count - 1 - i);
  }
}

}  // namespace

uint64_t token_bytes(TokenType type) {
  switch (type) {
    case TokenType::uint8:
    case TokenType::int8:
      return 1;
    case TokenType::int16:
    case TokenType::uint16:
      return 2;
    case TokenType::int32:
      return 4;
    case TokenType::int64:
      return 8;
  }
  return 0;
}

std::string_view token_type_name(TokenType type) {
  switch (type) {
    case TokenType::uint8:
      return "uint8";
    case TokenType::int8:
      return "int8";
    case TokenType::int16:
      return "int16";
    case TokenType::uint16:
      return "uint16";
    case TokenType::int32:
      return "int32";
    case TokenType::int64:
      return "int64";
  }
  return "?";
}

TokenType token_type_for(int64_t vocabulary) { return vocabulary < 65'500 ? TokenType::uint16 : TokenType::int32; }

CorpusIndex CorpusIndex::parse(std::span<const std::byte> bytes, uint64_t bin_bytes, const std::string& name,
                               Check check) {
  CorpusIndex index;
  index.bytes_ = bytes;
  index.name_ = name;
  index.check_header(bin_bytes);
  index.check_entries(check);
  return index;
}

CorpusIndex CorpusIndex::known(std::span<const std::byte> bytes, const Header& header, const std::string& name) {
  CorpusIndex index;
  index.bytes_ = bytes;
  index.name_ = name;
  index.type_ = header.type;
  index.sequences_ = header.sequences;
  index.documents_ = header.documents;
  index.tokens_ = header.tokens;
  return index;
}

void CorpusIndex::check_header(uint64_t bin_bytes) {
  const uint64_t size = bytes_.size();
  if (size < index_header_bytes) {
    throw UserError::of("{} is truncated: {} bytes, where the header alone has {}", name_, size, index_header_bytes);
  }
  if (std::memcmp(bytes_.data(), index_magic.data(), index_magic.size()) != 0) {
    throw UserError::of("{} is no index of a token corpus: it does not begin with MMIDIDX", name_);
  }
  const auto version = load<uint64_t>(bytes_, 9);
  if (version != index_version) {
    throw UserError::of("{} has format version {}; only version {} is known", name_, version, index_version);
  }
  const auto code = load<uint8_t>(bytes_, 17);
  type_ = static_cast<TokenType>(code);
  if (token_bytes(type_) == 0) {
    throw UserError::of("{} has token type {}; known are 1 uint8, 2 int8, 3 int16, 4 int32, 5 int64 and 8 uint16",
                        name_, code);
  }
  sequences_ = load<uint64_t>(bytes_, 18);
  const auto entries = load<uint64_t>(bytes_, 26);
  const uint64_t room = size - index_header_bytes;
  if (sequences_ > room / 12 || entries > (room - 12 * sequences_) / 8) {
    throw UserError::of("{} is truncated: its {} bytes are too few for {} sequences and {} document entries", name_,
                        size, sequences_, entries);
  }
  const uint64_t surplus = room - 12 * sequences_ - 8 * entries;
  if (surplus != 0) {
    const bool modes = surplus == sequences_;
    throw UserError::of("{} has {} bytes behind its last entry{}", name_, surplus,
                        modes ? ": it is of a multimodal corpus, which is not read" : "");
  }
  if (entries == 0) throw UserError::of("{} has no document entries, where even an empty corpus has one", name_);
  documents_ = entries - 1;
  const uint64_t width = token_bytes(type_);
  if (bin_bytes % width != 0) {
    throw UserError::of("{}: the .bin beside it has {} bytes, no multiple of the {} of a {} token", name_, bin_bytes,
                        width, token_type_name(type_));
  }
  tokens_ = bin_bytes / width;
}

int64_t CorpusIndex::length(uint64_t sequence) const {
  return load<int32_t>(bytes_, index_header_bytes + 4 * sequence);
}

int64_t CorpusIndex::pointer(uint64_t sequence) const {
  return load<int64_t>(bytes_, index_header_bytes + 4 * sequences_ + 8 * sequence);
}

int64_t CorpusIndex::first_sequence(uint64_t document) const {
  return load<int64_t>(bytes_, index_header_bytes + 12 * sequences_ + 8 * document);
}

// Sequences must follow each other without gaps and end where the .bin ends: samples are packed over all tokens.
void CorpusIndex::check_sequence(uint64_t sequence) const {
  const int64_t here = pointer(sequence), tokens = length(sequence);
  if (tokens < 0) throw UserError::of("{} is corrupt: sequence {} has length {}", name_, sequence, tokens);
  const uint64_t width = token_bytes(type_), bin_bytes = tokens_ * width;
  const uint64_t size = static_cast<uint64_t>(tokens) * width;
  if (here < 0 || static_cast<uint64_t>(here) > bin_bytes || size > bin_bytes - static_cast<uint64_t>(here)) {
    throw UserError::of(
        "{}: sequence {} of {} bytes at byte {} does not lie in the .bin of {} bytes: one of the two files is "
        "truncated or of another run",
        name_, sequence, size, here, bin_bytes);
  }
  const uint64_t end = static_cast<uint64_t>(here) + size;
  const bool last = sequence + 1 == sequences_;
  if (sequence == 0 && here != 0) {
    throw UserError::of("{} is corrupt: sequence 0 begins at byte {} instead of 0", name_, here);
  }
  if (!last && pointer(sequence + 1) != static_cast<int64_t>(end)) {
    throw UserError::of("{} is corrupt: sequence {} ends at byte {}, but the next begins at {}", name_, sequence, end,
                        pointer(sequence + 1));
  }
  if (last && end != bin_bytes) {
    throw UserError::of("{}: its sequences end at byte {}, but the .bin has {}: the two files are not of one run",
                        name_, end, bin_bytes);
  }
}

void CorpusIndex::check_document(uint64_t document) const {
  const int64_t begin = first_sequence(document), end = first_sequence(document + 1);
  if (begin < 0 || end < begin || static_cast<uint64_t>(end) > sequences_) {
    throw UserError::of("{} is corrupt: document {} spans sequences {} to {} of {}", name_, document, begin, end,
                        sequences_);
  }
}

void CorpusIndex::check_entries(Check check) const {
  if (sequences_ == 0 && tokens_ != 0) {
    throw UserError::of("{} has no sequences, but the .bin has {} tokens", name_, tokens_);
  }
  visit_entries(sequences_, check, [&](uint64_t i) { check_sequence(i); });
  visit_entries(documents_, check, [&](uint64_t i) { check_document(i); });
  if (first_sequence(0) != 0) {
    throw UserError::of("{} is corrupt: document 0 begins at sequence {}", name_, first_sequence(0));
  }
  if (static_cast<uint64_t>(first_sequence(documents_)) != sequences_) {
    throw UserError::of(
        "{}: its documents end at sequence {} of {}; with Megatron's builder, call end_document() after the "
        "last",
        name_, first_sequence(documents_), sequences_);
  }
}

uint64_t CorpusIndex::document_begin(uint64_t document) const {
  TERRACE_CHECK(document <= documents_, "document {} of {}", document, documents_);
  if (document < documents_) check_document(document);
  const auto sequence = static_cast<uint64_t>(first_sequence(document));
  if (sequence >= sequences_) return tokens_;
  check_sequence(sequence);
  return static_cast<uint64_t>(pointer(sequence)) / token_bytes(type_);
}

uint64_t CorpusIndex::document_of(uint64_t token) const {
  TERRACE_CHECK(token < tokens_ && documents_ > 0, "token {} of {}", token, tokens_);
  uint64_t low = 0, high = documents_;  // document low begins at the token or before, high after it
  while (high - low > 1) {
    const uint64_t middle = low + (high - low) / 2;
    (document_begin(middle) <= token ? low : high) = middle;
  }
  return low;
}

}  // namespace terrace::data
