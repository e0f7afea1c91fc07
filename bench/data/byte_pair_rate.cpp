// Bytes a second that one core encodes with a byte-level BPE; byte_pair_rate.py runs it beside the tokenizers package.
// Usage: bench_data_byte_pair_rate TOKENIZER_JSON TEXT
#include <fmt/format.h>

#include <ctime>
#include <string>

#include "terrace/base/files/file.h"
#include "terrace/data/text/tokenizer/text_encoder.h"
#include "terrace/data/text/tokenizer/tokenizer.h"

int main(int count, char** arguments) {
  if (count != 3) {
    fmt::print(stderr, "usage: {} TOKENIZER_JSON TEXT\n", arguments[0]);
    return 2;
  }
  const auto tokenizer = terrace::data::Tokenizer::open(arguments[1]);
  const std::string text = terrace::read_text(arguments[2]);
  const auto encoder = tokenizer->make_encoder();
  std::vector<int32_t> ids;
  const std::clock_t began = std::clock();
  encoder->encode(text, true, true, ids);
  const double seconds = static_cast<double>(std::clock() - began) / CLOCKS_PER_SEC;
  fmt::print("{:.2f} {}\n", static_cast<double>(text.size()) / 1e6 / seconds, ids.size());
  return 0;
}
