// Exchanges counts and rows, and orders what arrives by expert.
#include "terrace/ops/experts/expert_exchange.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "terrace/base/error.h"
#include "terrace/ops/experts/expert_rows.h"
#include "terrace/ops/saved_object.h"
#include "terrace/ops/second_derivative.h"

namespace terrace::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// The rows that this rank sends to each rank, and gets from each.
struct RowCounts {
  std::vector<int64_t> sent, received;

  RowCounts back() const { return {received, sent}; }
};

int64_t sum_of(const std::vector<int64_t>& numbers) {
  return std::accumulate(numbers.begin(), numbers.end(), int64_t{0});
}

at::Tensor exchanged(const at::Tensor& rows, const RowCounts& counts, MovingRanks& ranks, const char* what) {
  std::vector<int64_t> sizes = rows.sizes().vec();
  sizes.front() = sum_of(counts.received);
  at::Tensor to = at::empty(sizes, rows.options());
  ranks.exchange_rows(rows.contiguous(), counts.sent, to, counts.received, what)->wait();
  return to;
}

class ExchangeRowsFunction : public torch::autograd::Function<ExchangeRowsFunction> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& rows, const RowCounts& counts,
                            MovingRanks* ranks, const char* what) {
    save_object(context, "counts", counts);
    save_object(context, "ranks", std::pair(ranks, what));
    return exchanged(rows, counts, *ranks, what);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    refuse_second_derivative("an exchange of rows");
    const auto& [ranks, what] = saved_object<std::pair<MovingRanks*, const char*>>(context, "ranks");
    return {exchanged(gradients[0], saved_object<RowCounts>(context, "counts").back(), *ranks, what), {}, {}, {}};
  }
};

at::Tensor exchange(const at::Tensor& rows, const RowCounts& counts, MovingRanks& ranks, const char* what) {
  return ExchangeRowsFunction::apply(rows, counts, &ranks, what);
}

// The numbers of rows [n, E / n] that each rank has for each of this rank's experts.
std::vector<int64_t> arriving(const std::vector<int64_t>& offsets, MovingRanks& ranks) {
  std::vector<int64_t> own, all(offsets.size() - 1);
  for (size_t e = 0; e + 1 < offsets.size(); ++e) own.push_back(offsets[e + 1] - offsets[e]);
  const std::vector<int64_t> shape = {ranks.size(), static_cast<int64_t>(own.size()) / ranks.size()};
  const at::Tensor from = at::from_blob(own.data(), shape, at::kLong), to = at::from_blob(all.data(), shape, at::kLong);
  ranks.exchange(from, to, "rows of experts")->wait();
  return all;
}

// Arriving rows, which lie by rank and then by expert, in the order by expert and then by rank.
struct Arrived {
  ExpertRows order;
  RowCounts counts;
};

Arrived arrived(const std::vector<int64_t>& offsets, MovingRanks& ranks, at::Device device) {
  const std::vector<int64_t> from_ranks = arriving(offsets, ranks);
  const auto size = static_cast<size_t>(ranks.size()), experts = from_ranks.size() / size;
  Arrived result;
  for (size_t rank = 0; rank < size; ++rank) {
    const auto first = from_ranks.begin() + static_cast<int64_t>(rank * experts);
    result.counts.received.push_back(std::accumulate(first, first + static_cast<int64_t>(experts), int64_t{0}));
    result.counts.sent.push_back(offsets[(rank + 1) * experts] - offsets[rank * experts]);
  }
  std::vector<int64_t> begin(from_ranks.size() + 1, 0);  // of each block of rows as it arrives
  std::partial_sum(from_ranks.begin(), from_ranks.end(), begin.begin() + 1);
  std::vector<int64_t> pairs, places(static_cast<size_t>(begin.back()));
  result.order.offsets = {0};
  for (size_t expert = 0; expert < experts; ++expert) {
    for (size_t rank = 0; rank < size; ++rank) {
      const size_t block = rank * experts + expert;
      for (int64_t row = begin[block]; row < begin[block + 1]; ++row) {
        places[static_cast<size_t>(row)] = std::ssize(pairs);
        pairs.push_back(row);
      }
    }
    result.order.offsets.push_back(std::ssize(pairs));
  }
  const auto tensor = [&](std::vector<int64_t>& numbers) {
    return at::from_blob(numbers.data(), {std::ssize(numbers)}, at::kLong).to(device, at::kLong, false, true);
  };
  result.order.pairs = tensor(pairs);
  result.order.places = tensor(places);
  return result;
}

}  // namespace

at::Tensor compute_on_expert_ranks(const at::Tensor& rows, const at::Tensor& weights,
                                   const std::vector<int64_t>& offsets, MovingRanks& ranks,
                                   const ComputeExperts& compute) {
  const int64_t experts = std::ssize(offsets) - 1;
  TERRACE_CHECK(experts % ranks.size() == 0, "{} experts on {} ranks", experts, ranks.size());
  TERRACE_CHECK(offsets.back() == rows.size(0) && weights.numel() == rows.size(0), "{} rows and {} weights of {}",
                rows.size(0), weights.numel(), offsets.back());
  const Arrived own = arrived(offsets, ranks, rows.device());
  const at::Tensor by_rank = exchange(rows, own.counts, ranks, "rows to experts");
  const at::Tensor weights_by_rank = exchange(weights.unsqueeze(1), own.counts, ranks, "weights to experts");
  const at::Tensor computed =
      compute(gather_rows(by_rank, own.order), weights_of_rows(weights_by_rank, own.order), own.order.offsets);
  return exchange(sum_rows(computed, own.order), own.counts.back(), ranks, "rows from experts");
}

}  // namespace terrace::ops
