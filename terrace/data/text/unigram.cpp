// Computes the loss of the best model that knows only the frequency of each token.
#include <sys/stat.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <optional>

#include "terrace/base/error.h"
#include "terrace/data/text/loader_state.h"
#include "terrace/data/text/unigram_store.h"

namespace terrace::data {
namespace {

// The corpus is opened for random reads; a pass over all windows announces that it reads in order.
constexpr uint64_t announced_tokens = 1 << 20;

// A sample consists of groups of consecutive windows with about this many tokens each, where that leaves enough groups.
constexpr uint64_t place_tokens = 4096, least_places = 256;

// The limit where the loss cannot be stored and is computed at each start while the other ranks wait.
constexpr uint64_t brief_token_limit = 4'000'000;

// The times that each token is a target in one corpus's part of a split, and the number of targets that were counted.
struct TargetCounts {
  std::vector<uint64_t> by_token;  // [vocabulary]
  uint64_t total = 0;
};

TargetCounts count_targets(const WindowReader& reader, const Windows& windows, uint64_t token_limit) {
  TargetCounts counts{std::vector<uint64_t>(static_cast<size_t>(reader.vocabulary))};
  const auto length = static_cast<size_t>(reader.sequence);
  const uint64_t read = std::clamp<uint64_t>(token_limit / length, 1, windows.count);
  const bool all = read == windows.count;
  const uint64_t ahead = std::max<uint64_t>(1, announced_tokens / length);  // windows
  std::vector<int64_t> tokens(length), targets(length), positions(length), documents(length);
  const uint64_t together =
      all ? 1 : std::clamp<uint64_t>(read / least_places, 1, std::max<uint64_t>(1, place_tokens / length));
  const uint64_t count = read / together, whole = windows.count / count, rest = windows.count % count;
  for (uint64_t i = 0; i < read / together * together; ++i) {
    if (all && i % ahead == 0) windows.corpus->expect((windows.first + i) * length, ahead * length);
    const uint64_t place = i / together;
    reader.read(windows, place * whole + place * rest / count + i % together, tokens, targets, positions, documents);
    for (int64_t target : targets) {
      if (target < 0) continue;
      ++counts.by_token[static_cast<size_t>(target)];
      ++counts.total;
    }
  }
  return counts;
}

// The counts of a split, each corpus by its share in the mixture.
struct MixedCounts {
  std::vector<double> by_token;  // [vocabulary]
  double total = 0;
};

MixedCounts mix_counts(const WindowReader& reader, const SplitWindows& split, uint64_t token_limit) {
  MixedCounts mixed{std::vector<double>(static_cast<size_t>(reader.vocabulary))};
  std::vector<TargetCounts> counts;
  for (size_t i = 0; i < split.corpora.size(); ++i) {
    const double share = split.mixture->share(i);
    counts.push_back(
        count_targets(reader, split.corpora[i], static_cast<uint64_t>(share * static_cast<double>(token_limit))));
    mixed.total += static_cast<double>(counts.back().total);
  }
  for (size_t i = 0; i < counts.size(); ++i) {
    if (counts[i].total == 0) continue;
    const double scale = split.mixture->share(i) * mixed.total / static_cast<double>(counts[i].total);
    for (size_t token = 0; token < mixed.by_token.size(); ++token) {
      mixed.by_token[token] += scale * static_cast<double>(counts[i].by_token[token]);
    }
  }
  return mixed;
}

double computed_loss(const WindowReader& reader, const SplitWindows& train_split, const SplitWindows& held_out_split,
                     uint64_t token_limit) {
  const MixedCounts train = mix_counts(reader, train_split, token_limit);
  const MixedCounts held_out = mix_counts(reader, held_out_split, token_limit);
  const double smoothed_total = train.total + static_cast<double>(reader.vocabulary);
  double sum = 0, weight = 0;
  for (size_t token = 0; token < train.by_token.size(); ++token) {
    if (held_out.by_token[token] == 0) continue;
    sum -= held_out.by_token[token] * std::log((train.by_token[token] + 1) / smoothed_total);
    weight += held_out.by_token[token];
  }
  if (weight == 0) throw UserError("the held-out samples have no targets; hold out more text");
  return sum / weight;
}

// A file that is written again has another time, though a fingerprint may miss what changed in it.
int64_t modified_nanoseconds(const std::filesystem::path& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return 0;
  return int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec;
}

Json key_of(const SplitWindows& split) {
  Json key = Json::array();
  for (size_t i = 0; i < split.corpora.size(); ++i) {
    const Windows& windows = split.corpora[i];
    Json modified = Json::array();
    for (const auto& file : windows.corpus->files()) modified.push_back(modified_nanoseconds(file));
    key.push_back({{"fingerprint", windows.corpus->fingerprint()},
                   {"modified", modified},
                   {"first_window", windows.first},
                   {"windows", windows.count},
                   {"share", split.mixture->share(i)}});
  }
  return key;
}

// Returns everything that a loss depends on.
Json key_of(const WindowReader& reader, const SplitWindows& train, const SplitWindows& held_out, uint64_t token_limit) {
  return {{"sequence", reader.sequence},
          {"vocabulary", reader.vocabulary},
          {"reset_at_documents", reader.reset_at_documents},
          {"token_limit", token_limit},
          {"train", key_of(train)},
          {"validation", key_of(held_out)}};
}

}  // namespace

double Loader::unigram_loss(uint64_t token_limit) const {
  const WindowReader& reader = state_->reader;
  const SplitWindows &train = state_->train, &held_out = state_->validation;
  if (!held_out.mixture) {
    throw UserError("no text is held out for a unigram loss; set data.validation_share > 0 or name data.validation");
  }
  const Json key = key_of(reader, train, held_out, token_limit);
  const std::filesystem::path file = unigram_path(train.corpora.front().corpus->path());
  if (const std::optional<double> known = stored_unigram_loss(file, key)) return *known;
  const bool storable = can_store_beside(file);
  const double loss =
      computed_loss(reader, train, held_out, storable ? token_limit : std::min(token_limit, brief_token_limit));
  if (storable) store_unigram_loss(file, key, loss);
  return loss;
}

}  // namespace terrace::data
