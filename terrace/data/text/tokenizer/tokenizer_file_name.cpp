// Detects the kind of tokenizer in a file without the libraries that open it.
#include "terrace/data/text/tokenizer/tokenizer.h"

namespace terrace::data {

// A SentencePiece model is a protocol buffer, which starts with another byte.
bool holds_json(std::string_view bytes) {
  const size_t first = bytes.find_first_not_of(" \t\r\n");
  return first != std::string_view::npos && bytes[first] == '{';
}

const char* tokenizer_file_name(std::string_view bytes) {
  return holds_json(bytes) ? "tokenizer.json" : "tokenizer.model";
}

}  // namespace terrace::data
