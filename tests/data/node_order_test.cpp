// Each slot draws from one share, each share has whole epochs, and shares move on after so many epochs.
#include "terrace/data/order/node_order.h"

#include <gmock/gmock.h>

#include <map>
#include <set>
#include <vector>

#include "terrace/data/order/mixture.h"
#include "tests/data/test_corpus.h"

namespace terrace::data {
namespace {

using testing::HasSubstr;

constexpr PhiloxKey order_key{17, 4};

uint64_t share_of_sample(const NodeOrder::Request& request, uint64_t sample) {
  uint64_t share = 0;
  while ((share + 1) * request.size / request.shares <= sample) ++share;
  return share;
}

class NodeOrders : public testing::TestWithParam<NodeOrder::Request> {};

TEST_P(NodeOrders, ASlotReadsOneShareAndThenTheNextOne) {
  const NodeOrder order(GetParam());
  const auto [size, shares, batch, epochs, unused] = GetParam();
  const uint64_t of_slot = batch / shares, largest = (size + shares - 1) / shares;
  const uint64_t steps = (epochs * largest + of_slot - 1) / of_slot;  // of a round
  for (uint64_t step = 0; step < 3 * steps * shares; ++step) {
    EXPECT_EQ(order.round(step * batch), step / steps);
    EXPECT_EQ(order.next_round_begins(step * batch), (step / steps + 1) * steps * batch);
    for (uint64_t place = 0; place < batch; ++place) {
      const uint64_t sample = order.at(step * batch + place);
      ASSERT_LT(sample, size);
      ASSERT_EQ(share_of_sample(GetParam(), sample), (place / of_slot + step / steps) % shares);
    }
  }
}

TEST_P(NodeOrders, EachSampleOfAShareComesOnceAnEpoch) {
  const NodeOrder order(GetParam());
  const auto [size, shares, batch, epochs, unused] = GetParam();
  std::map<uint64_t, std::vector<uint64_t>> drawn;  // by share, in the order of the run
  for (uint64_t sample = 0; sample < 6 * (size / batch + 1) * batch; ++sample) {
    const uint64_t found = order.at(sample);
    drawn[share_of_sample(GetParam(), found)].push_back(found);
  }
  for (const auto& [share, samples] : drawn) {
    const uint64_t of_share = (share + 1) * size / shares - share * size / shares;
    for (size_t begin = 0; begin + of_share <= samples.size(); begin += of_share) {
      const auto first = samples.begin() + static_cast<std::ptrdiff_t>(begin);
      EXPECT_EQ(std::set(first, first + static_cast<std::ptrdiff_t>(of_share)).size(), of_share);
    }
    if (of_share < 8) continue;
    const std::vector<uint64_t> one(samples.begin(), samples.begin() + static_cast<std::ptrdiff_t>(of_share));
    const std::vector<uint64_t> two(samples.begin() + static_cast<std::ptrdiff_t>(of_share),
                                    samples.begin() + 2 * static_cast<std::ptrdiff_t>(of_share));
    EXPECT_NE(one, two) << "share " << share;
    EXPECT_FALSE(std::ranges::is_sorted(one));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Sizes, NodeOrders,
    testing::Values(NodeOrder::Request{.size = 64, .shares = 4, .batch = 8, .key = order_key},
                    NodeOrder::Request{.size = 67, .shares = 4, .batch = 12, .key = order_key},
                    NodeOrder::Request{.size = 50, .shares = 5, .batch = 5, .exchange_epochs = 3, .key = order_key},
                    NodeOrder::Request{.size = 9, .shares = 1, .batch = 4, .key = order_key},
                    NodeOrder::Request{.size = 3, .shares = 3, .batch = 6, .key = order_key}));

TEST(NodeOrder, AMixtureFindsTheDataset) {
  const NodeOrder::Request request{.size = 60, .shares = 3, .batch = 6, .key = order_key};
  const auto order = std::make_shared<const NodeOrder>(request);
  const Mixture mixture({10, 30, 20}, order);
  EXPECT_EQ(mixture.samples(), 60u);
  const std::vector<uint64_t> begins = {0, 10, 40};
  for (uint64_t sample = 0; sample < 200; ++sample) {
    const Mixture::DatasetSample found = mixture.at(sample);
    EXPECT_EQ(begins[found.dataset] + found.sample, order->at(sample));
  }
}

TEST(NodeOrder, NeedsASampleForEachShare) {
  const std::vector<uint64_t> sizes = {2, 1};
  EXPECT_THAT(user_error([&] { node_order_of({.order = "node", .shares = 4}, sizes, 8, order_key); }),
              HasSubstr("data.shares = 4, and the data have 3 training samples; use at most 3"));
  EXPECT_EQ(node_order_of({}, sizes, 8, order_key), nullptr);
  EXPECT_EQ(node_order_of({.order = "node", .shares = 4}, sizes, 0, order_key), nullptr) << "nothing is trained";
}

}  // namespace
}  // namespace terrace::data
