// A corpus of random tokens, for benchmarks of the trainer.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "terrace/base/random.h"
#include "terrace/data/text/corpus_writer.h"

namespace terrace::bench {

inline void write_corpus(const std::string& prefix, int64_t vocabulary) {
  data::CorpusWriter writer(prefix, vocabulary, {.overwrite = true});
  std::vector<int32_t> tokens(200'000);
  for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<int32_t>(philox_at({1, 2}, i, 0)[0] % vocabulary);
  writer.append(tokens);
  writer.end_document();
  writer.commit();
}

}  // namespace terrace::bench
