// Orders are permutations, and the samples of each corpus have exact counts.
#include "terrace/data/order/mixture.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <thread>

namespace terrace::data {
namespace {

constexpr PhiloxKey key{17, 4};

TEST(Mixture, EachSampleComesOnceAnEpoch) {
  const std::vector<std::vector<uint64_t>> cases{{1}, {2}, {3}, {64}, {65}, {1, 1}, {1, 7}, {5, 1, 300}, {999}};
  for (const auto& sizes : cases) {
    const Mixture mixture(sizes, {}, key, true);
    uint64_t total = 0;
    for (uint64_t size : sizes) total += size;
    ASSERT_EQ(mixture.samples(), total);
    for (uint64_t epoch : {uint64_t{0}, uint64_t{1}, uint64_t{1'000'000}}) {
      std::set<std::pair<size_t, uint64_t>> seen;
      for (uint64_t i = 0; i < total; ++i) {
        const Mixture::DatasetSample place = mixture.at(epoch * total + i);
        ASSERT_LT(place.dataset, sizes.size());
        ASSERT_LT(place.sample, sizes[place.dataset]);
        seen.insert({place.dataset, place.sample});
      }
      ASSERT_EQ(seen.size(), total);
    }
  }
}

std::vector<uint64_t> order(const Mixture& mixture, uint64_t epoch) {
  std::vector<uint64_t> samples;
  for (uint64_t i = 0; i < mixture.samples(); ++i) samples.push_back(mixture.at(epoch * mixture.samples() + i).sample);
  return samples;
}

TEST(Mixture, EpochsAndSeedsHaveOrdersOfTheirOwn) {
  const Mixture shuffled({200}, {}, key, true);
  EXPECT_NE(order(shuffled, 0), order(shuffled, 1));
  EXPECT_NE(order(shuffled, 0), order(Mixture({200}, {}, {17, 5}, true), 0));
  EXPECT_EQ(order(shuffled, 3), order(Mixture({200}, {}, key, true), 3));
  const Mixture fixed({200}, {}, key, false);
  EXPECT_EQ(order(fixed, 0), order(fixed, 7));
  std::vector<uint64_t> in_file(200);
  for (uint64_t i = 0; i < 200; ++i) in_file[i] = i;
  EXPECT_NE(order(fixed, 0), in_file);
}

TEST(Mixture, RoundWeightsAreRealisedExactlyInEveryBlock) {
  // 0.7, 0.2 and 0.1 are multiples of 1/10; 3 : 1 of 1/4.
  const Mixture tenths({50, 1, 1000}, {0.7, 0.2, 0.1}, key, true);
  for (uint64_t block = 0; block < 300; ++block) {
    std::vector<int> counts(3);
    for (uint64_t i = 0; i < 10; ++i) ++counts[tenths.at(block * 10 + i).dataset];
    ASSERT_EQ(counts, (std::vector<int>{7, 2, 1}));
  }
  EXPECT_DOUBLE_EQ(tenths.share(0), 0.7);
  const Mixture quarters({10, 10}, {3, 1}, key, true);
  EXPECT_DOUBLE_EQ(quarters.share(1), 0.25);
}

TEST(Mixture, OddWeightsAreRealisedToOneIn4096) {
  const std::vector<double> weights{std::sqrt(2.0), std::exp(1.0), 1e-9};
  const double total = weights[0] + weights[1] + weights[2];
  const Mixture mixture({100, 100, 100}, weights, key, true);
  double shares = 0;
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_NEAR(mixture.share(i), weights[i] / total, 1.0 / 4096);
    EXPECT_GT(mixture.share(i), 0);  // a corpus that was asked for comes
    shares += mixture.share(i);
  }
  EXPECT_DOUBLE_EQ(shares, 1);
  std::vector<uint64_t> counts(3);
  for (uint64_t i = 0; i < 3 * 4096; ++i) ++counts[mixture.at(i).dataset];
  for (size_t i = 0; i < 3; ++i) EXPECT_DOUBLE_EQ(static_cast<double>(counts[i]), mixture.share(i) * 3 * 4096);
}

TEST(Mixture, EachWeightedCorpusKeepsItsOwnEpochs) {
  const std::vector<uint64_t> sizes{7, 50};
  const Mixture mixture(sizes, {2, 1}, key, true);
  // 50 blocks of 3 until the second corpus is through.
  EXPECT_EQ(mixture.samples(), 150u);
  std::vector<std::map<uint64_t, std::set<uint64_t>>> epochs(2);
  std::vector<uint64_t> met(2);
  // Whole epochs of both corpora end after 7 * 50 blocks.
  for (uint64_t i = 0; i < 7 * 50 * 3; ++i) {
    const Mixture::DatasetSample place = mixture.at(i);
    ++met[place.dataset];
    epochs[place.dataset][place.sample].insert(i);
  }
  EXPECT_EQ(met, (std::vector<uint64_t>{7 * 50 * 2, 7 * 50}));
  for (size_t corpus = 0; corpus < 2; ++corpus) {
    ASSERT_EQ(epochs[corpus].size(), sizes[corpus]);
    // 7 * 50 blocks give 700 samples of the first, 100 epochs; 350 of the second, 7 epochs.
    for (const auto& [sample, times] : epochs[corpus]) EXPECT_EQ(times.size(), corpus == 0 ? 100u : 7u) << sample;
  }
}

// After every draw no sample has occurred twice more often than another one of its corpus.
TEST(Mixture, EachEpochOfAWeightedCorpusIsCompleteBeforeTheNextBegins) {
  const std::vector<std::pair<std::vector<uint64_t>, std::vector<double>>> cases{
      {{5, 1000}, {std::sqrt(2.0), std::exp(1.0)}},  // blocks of 4,096, in which the first corpus has 280 epochs
      {{5, 1000}, {0.5, 0.5}},
      {{1, 3, 900}, {2, 1, 4}},
      {{4095, 4097}, {std::sqrt(2.0), 1}}};
  for (const auto& [sizes, weights] : cases) {
    const Mixture mixture(sizes, weights, key, true);
    std::vector<std::vector<int>> counts;
    for (uint64_t size : sizes) counts.emplace_back(size);
    for (uint64_t i = 0; i < 3 * 4096 + 77; ++i) {
      const auto [corpus, sample] = mixture.at(i);
      ++counts[corpus][sample];
      const auto [least, most] = std::ranges::minmax(counts[corpus]);
      ASSERT_LE(most - least, 1) << sizes[corpus] << " samples, after draw " << i;
    }
  }
}

// Runs that began with it go on with it: the samples are those of slots in the shuffled order of their block.
TEST(Mixture, TheFirstVersionOfTheOrderStays) {
  const std::vector<uint64_t> sizes{5, 60};
  const Mixture older(sizes, {3, 1}, key, true, OrderVersion::overlapping_epochs), newer(sizes, {3, 1}, key, true);
  uint64_t others = 0;
  for (uint64_t i = 0; i < 400; ++i) {
    const uint64_t block = i / 4, slot = permute(epoch_key(key, block, 0), 4, i % 4);
    const uint64_t corpus = slot < 3 ? 0 : 1;
    const uint64_t element = corpus == 0 ? block * 3 + slot : block;
    const uint64_t size = sizes[corpus];
    const auto found = older.at(i), now = newer.at(i);
    ASSERT_EQ(found.dataset, corpus);
    ASSERT_EQ(found.sample, permute(epoch_key(key, element / size, corpus + 1), size, element % size));
    ASSERT_EQ(now.dataset, corpus);
    // Where no epoch of the corpus ends inside the block, both versions have the same samples.
    const bool ends_inside = corpus == 0 && 5 - block * 3 % 5 < 3;
    others += static_cast<uint64_t>(found.sample != now.sample);
    ASSERT_TRUE(ends_inside || found.sample == now.sample) << i;
  }
  EXPECT_GT(others, 0u);
}

TEST(Mixture, SeveralThreadsSeeOneOrder) {
  const Mixture mixture({5, 1000}, {std::sqrt(2.0), 1}, key, true), alone({5, 1000}, {std::sqrt(2.0), 1}, key, true);
  constexpr uint64_t draws = 15 * 4096;
  std::vector<std::vector<uint64_t>> seen(4);
  std::vector<std::thread> threads;
  for (size_t thread = 0; thread < seen.size(); ++thread) {
    threads.emplace_back([&, thread] {
      for (uint64_t i = thread * 1000; i < draws; i += 997) seen[thread].push_back(mixture.at(i).sample);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (size_t thread = 0; thread < seen.size(); ++thread) {
    size_t at = 0;
    for (uint64_t i = thread * 1000; i < draws; i += 997) ASSERT_EQ(seen[thread][at++], alone.at(i).sample) << i;
  }
}

}  // namespace
}  // namespace terrace::data
