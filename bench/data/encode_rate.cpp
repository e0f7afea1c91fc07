// Bytes a second that one core encodes: SentencePiece's own calls against TextEncoder, on the same text in one run.
// Usage: bench_data_encode_rate MODEL TEXT...
#include <fmt/format.h>
#include <sentencepiece_processor.h>

#include <ctime>
#include <string>

#include "terrace/base/files/file.h"
#include "terrace/data/text/tokenizer/sentencepiece/sentencepiece_encoder.h"

namespace {

double cpu_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

// Encodes line by line, as spm_encode does.
size_t encode_lines(const sentencepiece::SentencePieceProcessor& processor, std::string_view text) {
  size_t tokens = 0;
  std::vector<int> ids;
  while (!text.empty()) {
    const size_t line = std::min(text.find('\n'), text.size() - 1) + 1;
    ids.clear();
    processor.Encode(text.substr(0, line), &ids).IgnoreError();
    tokens += ids.size();
    text.remove_prefix(line);
  }
  return tokens;
}

template <typename Encode>
double report(const std::string& name, size_t bytes, Encode encode) {
  const double began = cpu_seconds();
  const size_t tokens = encode();
  const double rate = static_cast<double>(bytes) / 1e6 / (cpu_seconds() - began);
  fmt::print("{:28} {:7.2f} MB/s, {} tokens\n", name, rate, tokens);
  return rate;
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 3) {
    fmt::print(stderr, "usage: {} MODEL TEXT...\n", arguments[0]);
    return 2;
  }
  const auto tokenizer =
      terrace::data::SentencePieceTokenizer::from_model(terrace::read_text(arguments[1]), arguments[1]);
  sentencepiece::SentencePieceProcessor processor;
  processor.LoadFromSerializedProto(tokenizer.model()).IgnoreError();
  std::string text;
  for (int i = 2; i < count; ++i) text += terrace::read_text(arguments[i]);
  fmt::print("{:.1f} MB of text, {} tokens in the vocabulary, one core, processor time\n",
             static_cast<double>(text.size()) / 1e6, tokenizer.vocabulary());
  const double theirs =
      report("SentencePiece, line by line", text.size(), [&] { return encode_lines(processor, text); });
  const double ours = report("terrace", text.size(), [&] {
    terrace::data::SentencePieceEncoder encoder(tokenizer);
    std::vector<int32_t> ids;
    encoder.encode(text, true, true, ids);
    return ids.size();
  });
  fmt::print("ratio {:.2f}\n", ours / theirs);
  return 0;
}
