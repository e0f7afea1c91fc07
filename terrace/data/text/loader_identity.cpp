// Makes the identities of a loader's corpora, by which a resumed run and other ranks know that they are the same.
#include <map>
#include <string>
#include <vector>

#include "terrace/data/text/loader_state.h"

namespace terrace::data {
namespace {

// Describes corpora, each figure computed once however often its corpus occurs.
template <typename Figure>
class CorpusEntries {
 public:
  CorpusEntries(const char* name, Figure figure) : name_(name), figure_(figure) {}

  void add(const std::vector<Windows>& corpora, size_t first, size_t count, Json& entries) {
    for (size_t i = first; i < first + count; ++i) {
      const TokenCorpus& corpus = *corpora[i].corpus;
      if (!figures_.contains(&corpus)) figures_[&corpus] = figure_(corpus);
      entries.push_back({{"corpus", corpus.path().stem().string()},
                         {"tokens", corpus.tokens()},
                         {name_, figures_[&corpus]},
                         {"first_window", corpora[i].first},
                         {"windows", corpora[i].count}});
    }
  }
  void add(const std::vector<Windows>& corpora, Json& entries) { add(corpora, 0, corpora.size(), entries); }

 private:
  const char* name_;
  Figure figure_;
  std::map<const TokenCorpus*, std::string> figures_;
};

std::string checksum_of(const TokenCorpus& corpus) { return corpus.index_checksum(); }

}  // namespace

Json Loader::identity() const {
  Json entries = Json::array();
  CorpusEntries corpora("index_checksum", checksum_of);
  corpora.add(state_->train.corpora, entries);
  corpora.add(state_->validation.corpora, 0, state_->own_held_out, entries);
  return entries;
}

Json Loader::phase_identities() const {
  Json phases = Json::array();
  CorpusEntries corpora("index_checksum", checksum_of);
  for (const PhaseWindows& phase : state_->phases) {
    Json entries = Json::array();
    corpora.add(phase.train.corpora, entries);
    corpora.add(phase.held_out, entries);
    phases.push_back({{"from_step", phase.from_step}, {"corpora", std::move(entries)}});
  }
  return phases;
}

Json Loader::fingerprint() const {
  Json entries = Json::array();
  CorpusEntries corpora("fingerprint", [](const TokenCorpus& corpus) { return corpus.fingerprint(); });
  corpora.add(state_->train.corpora, entries);
  corpora.add(state_->validation.corpora, entries);
  for (const PhaseWindows& phase : state_->phases) corpora.add(phase.train.corpora, entries);
  return entries;
}

}  // namespace terrace::data
