// Checks llm.c's header and finds the documents.
#include "terrace/data/text/token_file.h"

#include <array>
#include <cstring>
#include <limits>

#include "terrace/base/error.h"

namespace terrace::data {
namespace {

using Header = std::array<int32_t, token_file_header_bytes / sizeof(int32_t)>;

// Names the other files that llm.c writes, by their magic numbers.
std::string other_file(int32_t magic) {
  switch (magic) {
    case 20240326:
      return "it holds a model of llm.c's";
    case 20240327:
      return "it holds debugging data of llm.c's";
    case 20240328:
      return "it holds a tokenizer of llm.c's";
    case 20240522:
      return "it holds questions for evaluation (HellaSwag, MMLU) of llm.c's";
    default:
      return fmt::format("it begins with {}; files that llm.c wrote before May 2024 have no header", magic);
  }
}

template <typename Token>
void add_documents(const TokenFile& file, std::vector<uint64_t>& ends) {
  const uint64_t count = file.tokens.size() / sizeof(Token);
  for (uint64_t i = 0; i < count; ++i) {
    Token token;
    std::memcpy(&token, file.tokens.data() + i * sizeof(Token), sizeof(Token));
    if (token == static_cast<Token>(file.end_token)) ends.push_back(i + 1);
  }
  if (count > 0 && (ends.empty() || ends.back() != count)) ends.push_back(count);
}

class IndexBytes {
 public:
  template <typename Number>
  void add(Number number) {
    const auto* begin = reinterpret_cast<const std::byte*>(&number);
    bytes_.insert(bytes_.end(), begin, begin + sizeof(Number));
  }
  void add(std::string_view text) {
    for (char here : text) bytes_.push_back(static_cast<std::byte>(here));
  }
  std::vector<std::byte> take() { return std::move(bytes_); }

 private:
  std::vector<std::byte> bytes_;
};

}  // namespace

TokenFile parse_token_file(std::span<const std::byte> bytes, const std::string& name) {
  if (bytes.size() < token_file_header_bytes) {
    throw UserError::of(
        "{} is not a token file of llm.c, or is cut off: it has {} bytes, and the header alone takes {}", name,
        bytes.size(), token_file_header_bytes);
  }
  Header header;
  std::memcpy(header.data(), bytes.data(), sizeof(header));
  const auto [magic, version, count] = std::tuple(header[0], header[1], header[2]);
  if (magic != token_file_magic) {
    throw UserError::of("{} is not a token file of llm.c, which begins with {}: {}", name, token_file_magic,
                        other_file(magic));
  }
  TokenFile file;
  if (version == 7) {
    file = {.type = TokenType::int32, .tokens = {}, .end_token = 128'000};
  } else if (version == 1) {
    file = {.type = TokenType::uint16, .tokens = {}, .end_token = 50'256};
  } else {
    throw UserError::of("{} has version {}; known are 1 (GPT-2's tokens, uint16) and 7 (Llama 3's, uint32)", name,
                        version);
  }
  file.tokens = bytes.subspan(token_file_header_bytes);
  const uint64_t width = token_bytes(file.type);
  if (count < 0 || file.tokens.size() != static_cast<uint64_t>(count) * width) {
    throw UserError::of(
        "{} is corrupt or truncated: its header says {} tokens of {} bytes, and {} bytes follow it; copy or make it "
        "again",
        name, count, width, file.tokens.size());
  }
  return file;
}

std::vector<std::byte> index_of(const TokenFile& file) {
  std::vector<uint64_t> ends;  // of documents, in tokens
  file.type == TokenType::int32 ? add_documents<uint32_t>(file, ends) : add_documents<uint16_t>(file, ends);
  const uint64_t width = token_bytes(file.type), documents = ends.size();
  // A header's count of tokens is an int32, so no document is longer than an index can say.
  IndexBytes index;
  index.add(index_magic);
  index.add(index_version);
  index.add(static_cast<uint8_t>(file.type));
  index.add(documents);
  index.add(documents + 1);
  for (uint64_t i = 0; i < documents; ++i) index.add(static_cast<int32_t>(ends[i] - (i > 0 ? ends[i - 1] : 0)));
  for (uint64_t i = 0; i < documents; ++i) index.add(static_cast<int64_t>((i > 0 ? ends[i - 1] : 0) * width));
  for (uint64_t i = 0; i <= documents; ++i) index.add(static_cast<int64_t>(i));
  return index.take();
}

}  // namespace terrace::data
