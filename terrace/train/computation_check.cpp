// Computes micro-batches in steps that leave no trace, and lets the results of several ranks vote.
#include "terrace/train/computation_check.h"

#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>

#include "terrace/base/random.h"
#include "terrace/optim/digest.h"
#include "terrace/train/state_check.h"

namespace terrace::train {
namespace {

constexpr int64_t no_position = std::numeric_limits<int64_t>::max();

uint64_t word_of(const std::vector<uint64_t>& digests) {
  uint64_t word = 0;
  for (const uint64_t digest : digests) word = optim::followed_by(word, digest);
  return word;
}

std::vector<uint64_t> gathered_words(comm::Comm& group, const std::vector<uint64_t>& own) {
  std::vector<uint64_t> all(own.size() * static_cast<size_t>(group.size()));
  group.all_gather(own.data(), all.data(), std::ssize(own), comm::Type::int64, {.what = "compare computations"}).wait();
  return all;
}

// Puts back what a forward and a backward change besides gradients, which the next step begins with zeros.
class KeptState {
 public:
  explicit KeptState(parallel::CutModel& cut) {
    for (const parallel::KeptErrors& errors : cut.sharded.kept_errors()) add(errors.codes);
    for (const nn::Buffer* buffer : cut.stage.buffers()) add(buffer->value);
  }
  void put_back() const {
    for (const auto& [tensor, copy] : kept_) tensor.copy_(copy);
  }

 private:
  void add(const at::Tensor& tensor) { kept_.emplace_back(tensor, tensor.clone()); }

  std::vector<std::pair<at::Tensor, at::Tensor>> kept_;
};

}  // namespace

ComputationCheck::ComputationCheck(comm::World& world, models::Model& model, parallel::CutModel& cut,
                                   TrainingStep& step)
    : world_(world),
      model_(model),
      cut_(cut),
      step_(step),
      place_(place_text(world, cut.mesh)),
      members_(cut.groups.place.everyone.size()),
      own_(cut.stage.partition().last()),
      other_(cut.stage.partition().last()) {
  const std::vector<int64_t>& data_rank_of = cut.groups.place.everyone;
  for (size_t member = 0; member < data_rank_of.size(); ++member) {
    members_[static_cast<size_t>(data_rank_of[member])] = static_cast<int64_t>(member);
  }
}

int64_t ComputationCheck::at_distance(int64_t data_rank, int64_t distance) const {
  return (data_rank + distance + data_ranks()) % data_ranks();
}

int64_t ComputationCheck::drawn_distance(uint64_t seed, int64_t step) const {
  if (data_ranks() == 1 || cut_.data_ranks.group() != nullptr) return 0;
  const uint32_t draw = philox_at(stream_key(seed, "check of computation"), static_cast<uint64_t>(step), 0)[0];
  return 1 + static_cast<int64_t>(draw) % (data_ranks() - 1);
}

void ComputationCheck::compute(const models::Pass& pass, const FirstBatch& first_batch, int64_t distance,
                               FirstDigests& digests) {
  const at::NoGradGuard no_grad;
  const KeptState kept(cut_);
  const int64_t own = cut_.mesh.coordinate(world_.rank(), "data");
  cut_.first_gradients.begin_step(false);
  digests.clear();
  step_.digest_first(&digests);
  {
    const at::AutoGradMode with_gradients(true);
    step_.compute({first_batch(at_distance(own, distance))}, pass);
  }
  step_.digest_first(nullptr);
  kept.put_back();
}

void ComputationCheck::begin_step(const models::Pass& pass, const FirstBatch& first_batch) {
  distance_ = drawn_distance(pass.seed, pass.step);
  compute(pass, first_batch, distance_, other_);
  own_.clear();
  step_.digest_first(&own_);
  watches_ = true;
}

bool ComputationCheck::agrees() {
  watches_ = false;
  step_.digest_first(nullptr);
  const std::vector<uint64_t> all =
      gathered_words(*cut_.groups.everyone, {word_of(own_.values()), word_of(other_.values())});
  int64_t differences = 0;
  for (int64_t data_rank = 0; data_rank < data_ranks(); ++data_rank) {
    const auto by = static_cast<size_t>(member_of(data_rank));
    const auto of = static_cast<size_t>(member_of(at_distance(data_rank, distance_)));
    if (all[2 * by + 1] != all[2 * of]) ++differences;
  }
  cut_.groups.control->all_reduce(&differences, 1, comm::Type::int64, {.what = "compare computations"}).wait();
  return differences == 0;
}

// The vote of all results of a rank's micro-batch.
ComputationCheck::Verdict ComputationCheck::verdict_of(int64_t data_rank, const std::vector<Result>& own,
                                                       const std::vector<uint64_t>& words) const {
  std::map<uint64_t, size_t> votes;
  const auto word_at = [&](size_t result) {
    const int64_t by = at_distance(data_rank, -own[result].distance);
    return words[static_cast<size_t>(member_of(by)) * own.size() + result];
  };
  for (size_t result = 0; result < own.size(); ++result) ++votes[word_at(result)];
  const auto most =
      std::ranges::max_element(votes, {}, [](const std::pair<const uint64_t, size_t>& one) { return one.second; });
  Verdict verdict{
      .all_equal = votes.size() == 1, .has_majority = 2 * most->second > own.size(), .majority = most->first};
  for (size_t result = own.size(); result-- > 0;) {
    const bool is_majority = word_at(result) == most->first;
    (is_majority ? verdict.result : verdict.other_result) = static_cast<int64_t>(result);
    (is_majority ? verdict.holder : verdict.other_holder) = at_distance(data_rank, -own[result].distance);
  }
  return verdict;
}

// Judges this rank by the results; the text is "" where nothing speaks against it.
ComputationCheck::Finding ComputationCheck::own_finding(const std::vector<Result>& own) {
  comm::Comm& everyone = *cut_.groups.everyone;
  const int64_t self = cut_.mesh.coordinate(world_.rank(), "data");
  std::vector<uint64_t> own_words;
  for (const Result& result : own) own_words.push_back(word_of(result.digests));
  const std::vector<uint64_t> words = gathered_words(everyone, own_words);
  Finding finding{.position = no_position, .text = ""};
  for (int64_t data_rank = 0; data_rank < data_ranks(); ++data_rank) {
    const Verdict verdict = verdict_of(data_rank, own, words);
    if (verdict.all_equal) continue;
    // All ranks have as many digests, since they compute the same segments.
    const auto broadcast = [&](int64_t holder, int64_t result) {
      std::vector<uint64_t> digests = own[static_cast<size_t>(result)].digests;
      everyone
          .broadcast(digests.data(), std::ssize(digests), comm::Type::int64, member_of(holder),
                     {.what = "compare computations"})
          .wait();
      return digests;
    };
    const std::vector<uint64_t> right = broadcast(verdict.holder, verdict.result);
    const std::vector<uint64_t> other = broadcast(verdict.other_holder, verdict.other_result);
    size_t computed = 0, wrong = 0;
    std::vector<uint64_t> first_wrong;
    for (size_t result = 0; result < own.size(); ++result) {
      if (at_distance(self, own[result].distance) != data_rank) continue;
      ++computed;
      if (own_words[result] == verdict.majority) continue;
      if (wrong++ == 0) first_wrong = own[result].digests;
    }
    // Where no result is more frequent than all others together, nobody is known to be right.
    if (wrong == 0 && computed > 0 && !verdict.has_majority) first_wrong = other;
    if (first_wrong.empty()) continue;
    const auto differs = static_cast<size_t>(std::ranges::mismatch(first_wrong, right).in1 - first_wrong.begin());
    const int64_t position = own_.position_of(differs);
    if (position >= finding.position) continue;
    const std::string what =
        fmt::format("computes {} for the first micro-batch of data-parallel rank {}", own_.text_of(differs), data_rank);
    if (!verdict.has_majority) {
      finding = {position, what +
                               " differently from another rank, and there is no third one; one of them is wrong, or "
                               "their processors are of different kinds"};
    } else {
      finding = {position, fmt::format("{} differently from most computations of it, {}", what,
                                       wrong == computed ? "each time" : "once, and otherwise like them")};
    }
  }
  return finding;
}

std::string ComputationCheck::findings(const models::Pass& pass, const FirstBatch& first_batch) {
  std::vector<Result> own = {{0, own_.values()}, {distance_, other_.values()}};
  std::vector<int64_t> again = {0, distance_};
  if (distance_ != 0 && data_ranks() > 2) again.push_back(distance_ == 1 ? 2 : 1);
  FirstDigests digests(cut_.stage.partition().last());
  for (const int64_t distance : again) {
    compute(pass, first_batch, distance, digests);
    own.push_back({distance, digests.values()});
  }
  Finding finding = own_finding(own);
  // Stages and tensor ranks that computed with the wrong numbers of another one are not to blame.
  std::vector<int64_t> positions(static_cast<size_t>(cut_.groups.model_parallel->size()));
  cut_.groups.model_parallel
      ->all_gather(&finding.position, positions.data(), 1, comm::Type::int64, {.what = "compare computations"})
      .wait();
  if (finding.position > std::ranges::min(positions)) finding.text.clear();
  if (!finding.text.empty() && cut_.tensor.size() > 1)
    finding.text += " (or one of the ranks with which it divides the layer does)";
  return findings_of_all(*cut_.groups.control, place_, finding.text);
}

}  // namespace terrace::train
