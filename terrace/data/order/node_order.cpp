// Finds the share of a slot, and the sample in the share's own order.
#include "terrace/data/order/node_order.h"

#include <numeric>

#include "terrace/base/error.h"

namespace terrace::data {
namespace {

uint64_t divided_up(uint64_t number, uint64_t by) { return (number + by - 1) / by; }

}  // namespace

NodeOrder::NodeOrder(const Request& request) : request_(request) {
  const auto [size, shares, batch, epochs, key] = request;
  TERRACE_CHECK(shares > 0 && epochs > 0 && batch % shares == 0, "{} shares of a batch of {}, {} epochs", shares, batch,
                epochs);
  if (size < shares) {
    throw UserError::of("data.shares = {}, and the data have {} training samples; use at most {}", shares, size, size);
  }
  steps_of_round_ = divided_up(epochs * divided_up(size, shares), samples_of_slot());
}

uint64_t NodeOrder::round(uint64_t first_sample) const { return first_sample / request_.batch / steps_of_round_; }

uint64_t NodeOrder::next_round_begins(uint64_t first_sample) const {
  return (round(first_sample) + 1) * steps_of_round_ * request_.batch;
}

uint64_t NodeOrder::at(uint64_t run_sample) const {
  const uint64_t step = run_sample / request_.batch, place = run_sample % request_.batch;
  const uint64_t share = share_of(place / samples_of_slot(), round(run_sample));
  const uint64_t begin = begin_of(share), size = begin_of(share + 1) - begin;
  const uint64_t drawn = step * samples_of_slot() + place % samples_of_slot();
  return begin + permute(epoch_key(request_.key, drawn / size, share), size, drawn % size);
}

std::shared_ptr<const NodeOrder> node_order_of(const OrderConfig& config, const std::vector<uint64_t>& sizes,
                                               int64_t global_batch, PhiloxKey key) {
  if (!config.by_node() || global_batch == 0) return nullptr;
  return std::make_shared<const NodeOrder>(
      NodeOrder::Request{.size = std::accumulate(sizes.begin(), sizes.end(), uint64_t{0}),
                         .shares = static_cast<uint64_t>(config.shares),
                         .batch = static_cast<uint64_t>(global_batch),
                         .exchange_epochs = static_cast<uint64_t>(config.exchange_epochs),
                         .key = key});
}

}  // namespace terrace::data
