// A run whose corpora change: every corpus continues where it was, on any number of ranks, and phases that have not
// begun may have other data.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <numeric>
#include <set>

#include "terrace/base/error.h"
#include "terrace/base/random.h"
#include "terrace/base/text/json.h"
#include "terrace/data/order/mixture.h"
#include "terrace/data/text/text_source.h"
#include "tests/data/test_corpus.h"

namespace terrace::data {
namespace {

using ::testing::HasSubstr;

constexpr PhiloxKey phases_key{17, 4};
constexpr int64_t num_tokens = 60'000;

// The number of times that each sample of a corpus has been drawn.
using Counts = std::vector<int>;

void draw(const Mixture& mixture, uint64_t count, const std::vector<Counts*>& counts) {
  for (uint64_t i = 0; i < count; ++i) {
    const Mixture::DatasetSample place = mixture.at(i);
    ++counts.at(place.dataset)->at(place.sample);
  }
}

int spread(const Counts& counts) {
  const auto [least, most] = std::ranges::minmax(counts);
  return most - least;
}

TEST(MixtureChange, AnEpochGoesOnInEveryKindOfMixture) {
  const std::vector<uint64_t> sizes{41, 7};
  const std::vector<std::vector<double>> kinds{{}, {0.5, 0.5}, {0.9, 0.1}};
  for (const auto& first : kinds) {
    for (const auto& second : kinds) {
      for (uint64_t drawn : {0, 1, 17, 48, 49, 95, 96, 250}) {
        const Mixture before(sizes, first, phases_key, true);
        Counts big(41), small(7);
        draw(before, drawn, {&big, &small});
        // Both corpora change places, and a third one is new.
        std::vector<Order> rest = before.rest(drawn);
        const Mixture after({7, 41, 20}, second.empty() ? second : std::vector{second[1], second[0], 0.2}, {3, 4},
                            std::vector<Order>{rest[1], rest[0], nullptr});
        Counts added(20);
        for (uint64_t more : {1, 13, 60, 400}) {
          Counts big_then = big, small_then = small, added_then = added;
          draw(after, more, {&small_then, &big_then, &added_then});
          EXPECT_LE(spread(big_then), 1) << drawn << " " << more;
          EXPECT_LE(spread(added_then), 1) << drawn << " " << more;
          EXPECT_LE(spread(small_then), 1) << drawn << " " << more;
        }
      }
    }
  }
}

// The numbers of samples are such that corpus 0 is drawn exactly once as a whole, over three mixtures.
TEST(MixtureChange, EverySampleOccursOnceBeforeTheEpochEnds) {
  for (const std::vector<double>& weights : {std::vector<double>{}, {0.4, 0.6}}) {
    for (uint64_t first : {0, 3, 33, 34, 60}) {
      Counts a(40), b(60);
      const Mixture both({40, 60}, weights, phases_key, true);
      draw(both, first, {&a, &b});
      const std::vector<Order> rest = both.rest(first);
      const Mixture alone({60}, {}, {5, 5}, std::vector<Order>{rest[1]});
      draw(alone, 9, {&b});
      const Mixture last({40}, {}, {6, 6}, std::vector<Order>{rest[0]});
      draw(last, 40 - static_cast<uint64_t>(std::accumulate(a.begin(), a.end(), 0)), {&a});
      EXPECT_EQ(a, Counts(40, 1)) << first;
      const Mixture again({60}, {}, {7, 7}, alone.rest(9));
      draw(again, 60 - static_cast<uint64_t>(std::accumulate(b.begin(), b.end(), 0)), {&b});
      EXPECT_EQ(b, Counts(60, 1)) << first;
    }
  }
}

// Without weights the first epoch after the change has what is left of each corpus, of which something is left here,
// and the whole new corpus, each sample once.
TEST(MixtureChange, FirstUnweightedEpochHasTheRemainingSamples) {
  for (uint64_t drawn : {0, 1, 50, 90, 100, 130}) {
    Counts a(40), b(60), c(10);
    const Mixture before({40, 60}, {}, phases_key, true);
    draw(before, drawn, {&a, &b});
    std::vector<Order> rest = before.rest(drawn);
    const Mixture after({40, 60, 10}, {}, {8, 8}, std::vector<Order>{rest[0], rest[1], nullptr});
    const uint64_t left = 100 - drawn % 100 + 10;
    draw(after, left, {&a, &b, &c});
    const int epochs = static_cast<int>(drawn / 100) + 1;
    EXPECT_EQ(a, Counts(40, epochs)) << drawn;
    EXPECT_EQ(b, Counts(60, epochs)) << drawn;
    EXPECT_EQ(c, Counts(10, 1)) << drawn;
    // The change after that one finds the epochs at their end, or in the middle.
    for (uint64_t more : {uint64_t{0}, uint64_t{37}}) {
      Counts a_then = a, b_then = b, c_then = c;
      draw(after, left + more, {&a_then, &b_then, &c_then});
      const std::vector<Order> later = after.rest(left + more);
      const Mixture last({40, 60, 10}, {}, {9, 9}, later);
      a_then = Counts(40), b_then = Counts(60), c_then = Counts(10);
      for (uint64_t i = left; i < left + more; ++i) {
        const auto [corpus, sample] = after.at(i);
        ++(corpus == 0 ? a_then : corpus == 1 ? b_then : c_then)[sample];
      }
      draw(last, 110 - more, {&a_then, &b_then, &c_then});
      EXPECT_EQ(a_then, Counts(40, 1));
      EXPECT_EQ(b_then, Counts(60, 1));
      EXPECT_EQ(c_then, Counts(10, 1));
    }
  }
}

class Phases : public testing::Test {
 protected:
  void SetUp() override {
    int32_t first = 0;
    for (const auto& [name, tokens] : std::map<std::string, int32_t>{{"a", 401}, {"b", 201}, {"c", 161}}) {
      std::vector<int32_t> ids(static_cast<size_t>(tokens));
      std::iota(ids.begin(), ids.end(), first);
      write_corpus(folder_ / name, {ids}, num_tokens);
      first += 10'000;
    }
  }

  std::string corpus(const std::string& name) const { return folder_ / name; }
  // Samples of 4 tokens, so the corpora have 100, 50 and 40 of them.
  TextSource source(double share, const std::vector<TextPhase>& phases) const {
    return TextSource(text_config({corpus("a"), corpus("b")}, share), 4, num_tokens, 5, phases);
  }
  std::vector<TextPhase> two_phases() const {
    return {{.name = "data.phases[1]",
             .from_step = 4,
             .first_sample = 60,
             .train = {corpus("c"), corpus("a")},
             .weights = {0.3, 0.7}},
            {.name = "data.phases[2]", .from_step = 8, .first_sample = 120, .train = {corpus("a"), corpus("b")}}};
  }
  // The first token of each sample.
  static std::vector<int64_t> starts(const TextSource& source, uint64_t first, int64_t count) {
    const SampleBatch batch = source.loader().batch(Split::train, first, count);
    std::vector<int64_t> tokens;
    for (int64_t row = 0; row < batch.count; ++row) tokens.push_back(batch.tokens[static_cast<size_t>(row * 4)]);
    return tokens;
  }

  TemporaryFolder folder_;
};

TEST_F(Phases, SamplesBeforeAPhaseStayAsTheyWere) {
  EXPECT_EQ(starts(source(0, {}), 0, 60), starts(source(0, two_phases()), 0, 60));
  std::vector<TextPhase> first_only = two_phases();
  first_only.pop_back();
  EXPECT_EQ(starts(source(0, first_only), 0, 120), starts(source(0, two_phases()), 0, 120));
}

TEST_F(Phases, EachPhaseHasItsCorporaAndContinuesThem) {
  const TextSource whole = source(0, two_phases());
  const std::vector<int64_t> tokens = starts(whole, 0, 250);
  std::map<int64_t, int> from_c, times;
  for (size_t i = 0; i < tokens.size(); ++i) {
    from_c[i < 60 ? 0 : i < 120 ? 1 : 2] += static_cast<int>(tokens[i] >= 20'000);
    ++times[tokens[i]];
  }
  EXPECT_EQ(from_c, (std::map<int64_t, int>{{0, 0}, {1, 18}, {2, 0}}));
  // 232 samples of a and b with 150 in all: what is left of an epoch comes before any third time.
  for (const auto& [token, count] : times) EXPECT_LE(count, 2) << token;
  EXPECT_EQ(times.size(), 150u + 18u);
}

TEST_F(Phases, EveryNumberOfRanksHasTheSameSamples) {
  const TextSource whole = source(0.1, two_phases());
  for (int64_t step : {3, 4, 5, 9}) {
    const uint64_t first = static_cast<uint64_t>(step - 1) * 12;
    const std::vector<int64_t> expected = starts(whole, first, 12);
    for (int64_t ranks : {1, 2, 3}) {
      std::vector<int64_t> tokens;
      for (int64_t rank = 0; rank < ranks; ++rank) {
        const StepShare share{
            .step = step, .first_sample = first, .samples = 12, .rank = rank, .ranks = ranks, .micro_batch = 2};
        for (const MicroBatch& batch : whole.micro_batches(share, {"tokens"})) {
          const auto* values = reinterpret_cast<const int64_t*>(batch.tensors.at("tokens").bytes.data());
          for (size_t row = 0; row < batch.samples.size(); ++row) tokens.push_back(values[row * 4]);
        }
      }
      EXPECT_EQ(tokens, expected) << step << " on " << ranks;
    }
  }
}

// Samples that are held out of a corpus are never trained on, and the corpora of later phases are evaluated from the
// beginning.
TEST_F(Phases, HoldOutAPartOfEveryCorpus) {
  const TextSource whole = source(0.1, two_phases());
  EXPECT_EQ(whole.held_out_datasets(), (std::vector<std::string>{corpus("a"), corpus("b"), corpus("c")}));
  std::set<int64_t> held_out;
  for (const HeldOut& of_corpus : whole.held_out(1'000)) {
    const SampleBatch batch = whole.loader().batch(Split::validation, of_corpus.samples);
    for (size_t row = 0; row < of_corpus.samples.size(); ++row) held_out.insert(batch.tokens[row * 4]);
  }
  EXPECT_EQ(held_out.size(), 10u + 5u + 4u);
  for (const int64_t token : starts(whole, 0, 1'000)) EXPECT_FALSE(held_out.contains(token)) << token;
}

TEST_F(Phases, DataMayChangeBeforeAPhaseBegins) {
  const TextSource with_c = source(0.1, two_phases());
  std::vector<TextPhase> others = two_phases();
  others[0].train = {corpus("b")};
  others[0].weights = {};
  const Json older = with_c.identity(), own = source(0.1, others).identity(), none = source(0.1, {}).identity();
  EXPECT_EQ(with_c.difference(older, own, 3), "");
  EXPECT_EQ(with_c.difference(none, own, 3), "");
  EXPECT_THAT(with_c.difference(older, own, 4), HasSubstr("corpus c is no longer among them"));
  std::vector<int32_t> longer(200, 7);
  CorpusWriter writer(corpus("c"), num_tokens, {.overwrite = true});
  writer.append(longer);
  writer.end_document();
  writer.commit();
  const Json changed = source(0.1, two_phases()).identity();
  EXPECT_EQ(with_c.difference(older, changed, 3), "");
  EXPECT_EQ(with_c.difference(older, changed, 4), "corpus c had 161 tokens and has 200 now");
}

// Checkpoints before the second version of the order name none.
TEST_F(Phases, ARunKeepsTheOrderThatItsCheckpointNames) {
  TextConfig config = text_config({corpus("a"), corpus("c")}, 0);
  config.weights = {std::sqrt(2.0), 1};  // in a block of 4,096, corpus c has 42 epochs
  const std::vector<TextPhase> phases = {
      {.name = "data.phases[1]", .from_step = 4, .first_sample = 100, .train = {corpus("c"), corpus("b")}}};
  TextSource source(config, 4, num_tokens, 5, phases);
  const std::vector<int64_t> newer = starts(source, 0, 300);
  const Json identity = source.identity();
  EXPECT_EQ(identity.at("order"), 2);
  Json older = identity, own = identity;
  older.erase("order");
  source.follow_order_of(older, own);
  EXPECT_EQ(own, older);
  EXPECT_EQ(source.identity(), older);
  EXPECT_EQ(source.difference(older, own, 5), "");
  const std::vector<int64_t> first_version = starts(source, 0, 300);
  EXPECT_NE(first_version, newer);
  const Mixture alone({100, 40}, config.weights, stream_key(5, "order of training samples"), true,
                      OrderVersion::overlapping_epochs);
  for (uint64_t i = 0; i < 100; ++i) {
    const auto [dataset, sample] = alone.at(i);
    EXPECT_EQ(first_version[i], static_cast<int64_t>((dataset == 0 ? 0 : 20'000) + 4 * sample)) << i;
  }
  source.follow_order_of(identity, own);
  EXPECT_EQ(own, identity);
  EXPECT_EQ(starts(source, 0, 300), newer);
  older["order"] = 3;
  EXPECT_THROW(source.follow_order_of(older, own), UserError);
  // Runs without weights name it too, since a later phase may have some.
  EXPECT_EQ(TextSource(text_config({corpus("a"), corpus("c")}, 0), 4, num_tokens, 5).identity().at("order"), 2);
}

TEST_F(Phases, EveryProblemWithTheirFilesIsFound) {
  std::vector<TextPhase> phases = two_phases();
  phases[1].train = {corpus("a"), corpus("missing")};
  const TextConfig config = text_config({corpus("a"), corpus("b")}, 0.1);
  const std::vector<std::string> problems = problems_with_files(config, num_tokens, phases);
  ASSERT_EQ(problems.size(), 2u);
  EXPECT_THAT(problems[0], HasSubstr("data.phases[2].train = \"" + corpus("missing") + "\""));
  phases[1].train = {folder_ / "./a"};
  EXPECT_THAT(user_error([&] { source(0.1, phases); }), HasSubstr("by the same name in every phase"));
  phases[1].train = {corpus("a"), corpus("a")};
  EXPECT_THAT(user_error([&] { source(0.1, phases); }), HasSubstr("name the same files twice"));
}

}  // namespace
}  // namespace terrace::data
