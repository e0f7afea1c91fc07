// Gathers texts of the ranks of a launch.
#include "cli/preparing_ranks.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "cli/training/launched_ranks.h"
#include "terrace/comm/comm.h"
#include "terrace/mesh/group.h"

namespace terrace::cli {
namespace {

class LaunchedPreparingRanks : public data::PrepareRanks {
 public:
  explicit LaunchedPreparingRanks(LaunchedRanks ranks)
      : ranks_(std::move(ranks)), all_(ranks_.world->connect(mesh::all_ranks("prepare", ranks_.world->size()))) {
    all_->lift_time_limit();  // a rank may read for hours
  }

  int64_t rank() const override { return ranks_.world->rank(); }
  int64_t size() const override { return ranks_.world->size(); }
  int64_t cores() const override { return ranks_.world->cores_per_rank(); }

  std::vector<std::string> gather(const std::string& own) override {
    const auto length = std::ssize(own);
    std::vector<int64_t> lengths(static_cast<size_t>(size()));
    all_->all_gather(&length, lengths.data(), 1, comm::Type::int64, {.what = "lengths of texts"}).wait();
    const int64_t longest = *std::ranges::max_element(lengths);
    if (longest == 0) return std::vector<std::string>(lengths.size());
    std::string padded = own, all(static_cast<size_t>(longest * size()), '\0');
    padded.resize(static_cast<size_t>(longest));
    all_->all_gather(padded.data(), all.data(), longest, comm::Type::uint8, {.what = "texts"}).wait();
    std::vector<std::string> texts;
    for (size_t rank = 0; rank < lengths.size(); ++rank) {
      texts.push_back(all.substr(rank * static_cast<size_t>(longest), static_cast<size_t>(lengths[rank])));
    }
    return texts;
  }

 private:
  LaunchedRanks ranks_;
  std::unique_ptr<comm::Comm> all_;
};

}  // namespace

std::unique_ptr<data::PrepareRanks> connect_preparing_ranks() {
  LaunchedRanks ranks = connect(0);
  return ranks.launched() ? std::make_unique<LaunchedPreparingRanks>(std::move(ranks)) : nullptr;
}

}  // namespace terrace::cli
