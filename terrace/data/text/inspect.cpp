// Makes one pass over the lengths and tokens of a corpus.
#include "terrace/data/text/inspect.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <vector>

#include "terrace/base/error.h"
#include "terrace/base/files/file.h"
#include "terrace/base/text/units.h"
#include "terrace/data/text/token_corpus.h"
#include "terrace/data/text/tokenizer/tokenizer.h"

namespace terrace::data {
namespace {

void measure_lengths(const CorpusIndex& index, CorpusSummary& summary) {
  std::vector<uint64_t> lengths(index.documents());
  if (lengths.empty()) return;
  for (uint64_t i = 0; i < lengths.size(); ++i) lengths[i] = index.document_begin(i + 1) - index.document_begin(i);
  const auto middle = lengths.begin() + static_cast<std::ptrdiff_t>(lengths.size() / 2);
  std::nth_element(lengths.begin(), middle, lengths.end());
  summary.median = static_cast<double>(*middle);
  if (lengths.size() % 2 == 0) {
    summary.median = (summary.median + static_cast<double>(*std::max_element(lengths.begin(), middle))) / 2;
  }
  const auto [shortest, longest] = std::minmax_element(lengths.begin(), lengths.end());
  summary.shortest = *shortest;
  summary.longest = *longest;
  summary.mean = static_cast<double>(summary.tokens) / static_cast<double>(lengths.size());
}

void measure_tokens(const TokenCorpus& corpus, int64_t vocabulary, CorpusSummary& summary) {
  std::vector<int64_t> tokens(1 << 16);
  summary.smallest_token = std::numeric_limits<int64_t>::max();
  for (uint64_t at = 0; at < corpus.tokens(); at += tokens.size()) {
    const std::span part = std::span(tokens).first(std::min<uint64_t>(tokens.size(), corpus.tokens() - at));
    corpus.read(at, part, vocabulary);
    const auto [smallest, largest] = std::minmax_element(part.begin(), part.end());
    summary.smallest_token = std::min(summary.smallest_token, *smallest);
    summary.largest_token = std::max(summary.largest_token, *largest);
  }
  if (corpus.tokens() == 0) summary.smallest_token = 0;
}

std::string decoded_sample(const TokenCorpus& corpus, const Tokenizer& tokenizer, int64_t sample_tokens) {
  if (corpus.index().documents() == 0) return "";
  const uint64_t document = corpus.index().documents() / 2;
  const uint64_t begin = corpus.index().document_begin(document), end = corpus.index().document_begin(document + 1);
  std::vector<int64_t> tokens(
      std::min<uint64_t>(end - begin, static_cast<uint64_t>(std::max<int64_t>(0, sample_tokens))));
  corpus.read(begin, tokens, tokenizer.vocabulary());
  return tokenizer.decode(std::vector<int32_t>(tokens.begin(), tokens.end()));
}

}  // namespace

CorpusSummary inspect(const std::string& prefix, const std::string& tokenizer, int64_t sample_tokens) {
  const TokenCorpus corpus(prefix, CorpusIndex::Check::all);
  const CorpusIndex& index = corpus.index();
  CorpusSummary summary{.documents = index.documents(),
                        .sequences = index.sequences(),
                        .tokens = index.tokens(),
                        .bin_bytes = corpus.bin_bytes(),
                        .index_bytes = corpus.index_bytes(),
                        .type = index.type(),
                        .tokenizer = {},
                        .sample = {}};
  if (corpus.record()) summary.tokenizer = corpus.record()->tokenizer;
  measure_lengths(index, summary);
  if (tokenizer.empty()) {
    measure_tokens(corpus, std::numeric_limits<int64_t>::max(), summary);
  } else {
    const std::string bytes = read_text(tokenizer);
    if (summary.tokenizer) check_tokenizer_of(prefix, *summary.tokenizer, tokenizer, bytes);
    const auto opened = Tokenizer::from_bytes(bytes, tokenizer);
    measure_tokens(corpus, opened->vocabulary(), summary);
    summary.sample = decoded_sample(corpus, *opened, sample_tokens);
  }
  return summary;
}

Json CorpusSummary::json() const {
  return {{"documents", documents},
          {"sequences", sequences},
          {"tokens", tokens},
          {"token_type", token_type_name(type)},
          {"bin_bytes", bin_bytes},
          {"index_bytes", index_bytes},
          {"shortest_document", shortest},
          {"median_document", median},
          {"mean_document", mean},
          {"longest_document", longest},
          {"smallest_token", smallest_token},
          {"largest_token", largest_token},
          {"tokenizer", tokenizer ? Json{{"checksum", tokenizer->checksum},
                                         {"kind", tokenizer->kind},
                                         {"vocabulary", tokenizer->vocabulary}}
                                  : Json()},
          {"sample", sample}};
}

std::string CorpusSummary::table() const {
  const auto count = [](uint64_t number) { return format_count(static_cast<int64_t>(number)); };
  std::string text = fmt::format(
      "documents  {}\nsequences  {}\ntokens     {} ({}, {} to {})\nlengths    {} shortest, {:.1f} median, {:.1f} mean, "
      "{} "
      "longest\nsize       {} .bin, {} .idx\n",
      count(documents), count(sequences), count(tokens), token_type_name(type), smallest_token, largest_token,
      count(shortest), median, mean, count(longest), format_bytes(static_cast<double>(bin_bytes)),
      format_bytes(static_cast<double>(index_bytes)));
  text += fmt::format("tokenizer  {}\n", tokenizer ? tokenizer->text() : "not recorded");
  if (!sample.empty()) text += fmt::format("sample     {}\n", sample);
  return text;
}

}  // namespace terrace::data
