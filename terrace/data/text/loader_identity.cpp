// Makes the identities of a loader's corpora, by which a resumed run and other ranks know that they are the same.
#include <map>
#include <string>
#include <vector>

#include "terrace/base/text/json.h"
#include "terrace/data/text/loader_state.h"

namespace terrace::data {
namespace {

// Describes corpora, each checksum computed once however often its corpus occurs.
class CorpusEntries {
 public:
  void add(const std::vector<Windows>& corpora, size_t first, size_t count, Json& entries) {
    for (size_t i = first; i < first + count; ++i) {
      const TokenCorpus& corpus = *corpora[i].corpus;
      if (!checksums_.contains(&corpus)) checksums_[&corpus] = corpus.index_checksum();
      entries.push_back({{"corpus", corpus.path().stem().string()},
                         {"tokens", corpus.tokens()},
                         {"index_checksum", checksums_[&corpus]},
                         {"first_window", corpora[i].first},
                         {"windows", corpora[i].count}});
    }
  }
  void add(const std::vector<Windows>& corpora, Json& entries) { add(corpora, 0, corpora.size(), entries); }

 private:
  std::map<const TokenCorpus*, std::string> checksums_;
};

}  // namespace

Json Loader::identity() const {
  Json entries = Json::array();
  CorpusEntries corpora;
  corpora.add(state_->train.corpora, entries);
  corpora.add(state_->validation.corpora, 0, state_->own_held_out, entries);
  return entries;
}

Json Loader::phase_identities() const {
  Json phases = Json::array();
  CorpusEntries corpora;
  for (const PhaseWindows& phase : state_->phases) {
    Json entries = Json::array();
    corpora.add(phase.train.corpora, entries);
    corpora.add(phase.held_out, entries);
    phases.push_back({{"from_step", phase.from_step}, {"corpora", std::move(entries)}});
  }
  return phases;
}

}  // namespace terrace::data
