// The contents of batches for any size, split, mixture and step.
#include "terrace/data/text/loader.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <set>

#include "terrace/data/text/text_source.h"
#include "tests/data/test_corpus.h"

namespace terrace::data {
namespace {

// Token i of the corpus is first + i, so that a token shows its position.
std::vector<int32_t> counting(int32_t first, int32_t size) {
  std::vector<int32_t> tokens;
  for (int32_t i = 0; i < size; ++i) tokens.push_back(first + i);
  return tokens;
}

constexpr int64_t vocabulary = 60'000;

TEST(Loader, SamplesAreWindowsWithTheNextTokenAsTarget) {
  const TemporaryFolder folder;
  for (int32_t tokens : {2, 3, 8, 9, 100, 101}) {
    for (int64_t length : {1, 2, 7, 8}) {
      if (tokens < length + 1) continue;
      const std::string prefix = folder / (std::to_string(tokens) + "_" + std::to_string(length));
      write_corpus(prefix, {counting(0, tokens)}, vocabulary);
      const Loader loader(text_config({prefix}, 0), length, vocabulary, 3);
      const auto samples = static_cast<uint64_t>((tokens - 1) / length);
      ASSERT_EQ(loader.samples(Split::train), samples);
      std::set<int64_t> starts;
      const SampleBatch batch = loader.batch(Split::train, 0, static_cast<int64_t>(samples));
      ASSERT_EQ(batch.count, static_cast<int64_t>(samples));
      ASSERT_EQ(batch.length, length);
      for (uint64_t row = 0; row < samples; ++row) {
        const int64_t* at = &batch.tokens[row * static_cast<uint64_t>(length)];
        ASSERT_EQ(at[0] % length, 0);
        starts.insert(at[0]);
        for (int64_t i = 0; i < length; ++i) {
          ASSERT_EQ(at[i], at[0] + i);
          ASSERT_EQ(batch.targets[row * static_cast<uint64_t>(length) + static_cast<uint64_t>(i)], at[i] + 1);
        }
        ASSERT_EQ(batch.ids[row], static_cast<int64_t>(row));
      }
      ASSERT_EQ(starts.size(), samples) << "each sample once an epoch";
      EXPECT_TRUE(batch.positions.empty());
    }
  }
}

TEST(Loader, AnyStepIsReachedAtOnce) {
  const TemporaryFolder folder;
  write_corpus(folder / "a", {counting(0, 5000)}, vocabulary);
  write_corpus(folder / "b", {counting(10'000, 777)}, vocabulary);
  for (const std::vector<double>& weights : {std::vector<double>{}, {0.3, 0.7}}) {
    data::TextConfig config = text_config({folder / "a", folder / "b"}, 0.1);
    config.weights = weights;
    const Loader loader(config, 13, vocabulary, 5), again(config, 13, vocabulary, 5);
    const auto run = static_cast<int64_t>(3 * loader.samples(Split::train));
    for (Split split : {Split::train, Split::validation}) {
      const SampleBatch sequential = loader.batch(split, 0, run);
      for (uint64_t first : {uint64_t{0}, uint64_t{1}, uint64_t{57}, static_cast<uint64_t>(run) - 4}) {
        const SampleBatch batch = again.batch(split, first, 4);
        const auto begin = sequential.tokens.begin() + static_cast<std::ptrdiff_t>(first * 13);
        EXPECT_TRUE(std::equal(batch.tokens.begin(), batch.tokens.end(), begin)) << first;
      }
    }
  }
}

TEST(Loader, SplitsAreDisjointAndTogetherEverything) {
  const TemporaryFolder folder;
  write_corpus(folder / "a", {counting(0, 1001)}, vocabulary);
  write_corpus(folder / "b", {counting(2000, 38)}, vocabulary);
  for (double share : {0.001, 0.01, 0.1, 0.5, 0.9}) {
    const Loader loader(text_config({folder / "a", folder / "b"}, share), 4, vocabulary, 1);
    std::vector<std::set<int64_t>> targets(2);
    for (Split split : {Split::train, Split::validation}) {
      const uint64_t samples = loader.samples(split);
      const SampleBatch batch = loader.batch(split, 0, static_cast<int64_t>(samples));
      auto& seen = targets[split == Split::train ? 0 : 1];
      seen.insert(batch.targets.begin(), batch.targets.end());
      EXPECT_EQ(seen.size(), batch.targets.size());
    }
    for (int64_t target : targets[1]) EXPECT_EQ(targets[0].count(target), 0u);
    EXPECT_EQ(targets[0].size() + targets[1].size(), 1000u + 36u);
    const double held_out = static_cast<double>(targets[1].size()) / 4;
    EXPECT_NEAR(held_out, std::max(1.0, std::round(share * 250)) + std::max(1.0, std::round(share * 9)), 1e-9);
  }
}

TEST(Loader, SeedsOrderTrainingButNotValidation) {
  const TemporaryFolder folder;
  write_corpus(folder / "a", {counting(0, 2000)}, vocabulary);
  const data::TextConfig config = text_config({folder / "a"}, 0.2);
  const Loader one(config, 5, vocabulary, 1), two(config, 5, vocabulary, 2);
  EXPECT_NE(one.batch(Split::train, 0, 50).tokens, two.batch(Split::train, 0, 50).tokens);
  EXPECT_EQ(one.batch(Split::validation, 0, 50).tokens, two.batch(Split::validation, 0, 50).tokens);
  const uint64_t held_out = one.samples(Split::validation);
  EXPECT_EQ(one.batch(Split::validation, 0, 7).tokens, one.batch(Split::validation, held_out, 7).tokens);
}

TEST(Loader, ValidationMayBeACorpusOfItsOwn) {
  const TemporaryFolder folder;
  write_corpus(folder / "a", {counting(0, 101)}, vocabulary);
  write_corpus(folder / "v", {counting(5000, 41)}, vocabulary);
  data::TextConfig config = text_config({folder / "a"}, 0.5);
  config.validation = {folder / "v"};
  const Loader loader(config, 10, vocabulary, 1);
  EXPECT_EQ(loader.samples(Split::train), 10u);
  EXPECT_EQ(loader.samples(Split::validation), 4u);
  for (int64_t token : loader.batch(Split::validation, 0, 4).tokens) EXPECT_GE(token, 5000);
}

// With a stride a target's context is what the window has before it: all of the corpus, or more than the overlap.
TEST(Loader, EveryHeldOutTargetCountsOnceWhereAskedFor) {
  const TemporaryFolder folder;
  for (int32_t tokens : {2, 3, 9, 64, 65, 66, 100, 128}) {
    const std::string prefix = folder / std::to_string(tokens);
    write_corpus(prefix, {counting(0, tokens / 2), counting(tokens / 2, tokens - tokens / 2)}, vocabulary);
    for (int64_t length : {1, 7, 64}) {
      for (int64_t stride : {int64_t{0}, int64_t{1}, length / 2, length}) {
        for (bool documents : {false, true}) {
          SCOPED_TRACE(fmt::format("{} tokens, length {}, stride {}, documents {}", tokens, length, stride, documents));
          TextConfig config = {.validation = {prefix}, .reset_at_documents = documents};
          config.held_out_targets = {.every = true, .stride = stride};
          const Loader loader(config, length, vocabulary, 3);
          const uint64_t samples = loader.samples(Split::validation);
          const SampleBatch batch = loader.batch(Split::validation, 0, static_cast<int64_t>(samples));
          std::multiset<int64_t> counted, expected;
          for (int64_t target = 1; target < tokens; ++target) {
            if (!documents || target != tokens / 2) expected.insert(target);
          }
          for (size_t i = 0; i < batch.targets.size(); ++i) {
            const int64_t target = batch.targets[i], before = static_cast<int64_t>(i) % length;
            if (target < 0) continue;
            counted.insert(target);
            ASSERT_EQ(batch.tokens[i], target - 1);
            ASSERT_GE(before, target > length ? length - (stride > 0 ? stride : length) : target - 1);
          }
          ASSERT_EQ(counted, expected);
        }
      }
    }
  }
}

TEST(Loader, TheTailBehindHeldOutWindowsIsHeldOutToo) {
  const TemporaryFolder folder;
  write_corpus(folder / "a", {counting(0, 5009)}, vocabulary);
  TextConfig config = text_config({folder / "a"}, 0.1);
  const Loader as_in_training(config, 13, vocabulary, 5);
  config.held_out_targets = {.every = true};
  const Loader every(config, 13, vocabulary, 5);
  EXPECT_EQ(every.samples(Split::train), as_in_training.samples(Split::train));
  EXPECT_EQ(every.samples(Split::validation), as_in_training.samples(Split::validation) + 1);  // 5008 = 385 * 13 + 3
  const SampleBatch batch = every.batch(Split::validation, 0, static_cast<int64_t>(every.samples(Split::validation)));
  EXPECT_EQ(std::ranges::count_if(batch.targets, [](int64_t target) { return target >= 0; }),
            static_cast<int64_t>(as_in_training.samples(Split::validation)) * 13 + 3);
}

TEST(Loader, WeightsAreRealisedInTheBatches) {
  const TemporaryFolder folder;
  write_corpus(folder / "a", {counting(0, 5000)}, vocabulary);
  write_corpus(folder / "b", {counting(10'000, 100)}, vocabulary);
  data::TextConfig config = text_config({folder / "a", folder / "b"}, 0);
  config.weights = {1, 3};
  const Loader loader(config, 3, vocabulary, 1);
  const SampleBatch batch = loader.batch(Split::train, 0, 4000);
  const auto of_b = std::count_if(batch.tokens.begin(), batch.tokens.end(), [](int64_t t) { return t >= 10'000; });
  EXPECT_EQ(of_b, 3 * 3000);
}

// The first targets of all held-out windows of both corpora, and where an evaluation of so many samples takes them.
TEST(Loader, EveryHeldOutSampleCountsOnceWhateverTheWeights) {
  const TemporaryFolder folder;
  write_corpus(folder / "a", {counting(0, 2001)}, vocabulary);
  write_corpus(folder / "b", {counting(10'000, 1001)}, vocabulary);
  data::TextConfig config = text_config({folder / "a", folder / "b"}, 0.1);
  const Loader plain(config, 4, vocabulary, 1);
  config.weights = {0.999, 0.001};
  const Loader loader(config, 4, vocabulary, 1);
  ASSERT_EQ(loader.samples(Split::validation), 50u + 25u);
  const std::vector<HeldOut> corpora = TextSource(config, 4, vocabulary, 1).held_out(1000);
  ASSERT_EQ(corpora.size(), 2u);
  EXPECT_EQ(corpora[0].dataset, folder / "a");
  EXPECT_EQ(corpora[1].dataset, folder / "b");
  for (const auto& [held_out, first, count] : {std::tuple(&corpora[0], 1800, 50), {&corpora[1], 10'900, 25}}) {
    const SampleBatch batch = loader.batch(Split::validation, held_out->samples);
    std::set<int64_t> targets(batch.targets.begin(), batch.targets.end());
    EXPECT_EQ(targets.size(), batch.targets.size());
    EXPECT_EQ(batch.count, count);
    EXPECT_EQ(*targets.begin(), first + 1);
    EXPECT_EQ(*targets.rbegin(), first + 4 * count);
  }
  // The samples are those of a run without weights, in its order.
  EXPECT_EQ(loader.batch(Split::validation, 0, 75).tokens, plain.batch(Split::validation, 0, 75).tokens);
}

TEST(Loader, ALimitedEvaluationTakesTheFirstSamplesOfTheSplit) {
  const TemporaryFolder folder;
  write_corpus(folder / "a", {counting(0, 20'001)}, vocabulary);
  write_corpus(folder / "b", {counting(30'000, 51)}, vocabulary);
  const TextSource source(text_config({folder / "a", folder / "b"}, 0.2), 5, vocabulary, 1);
  const Loader& loader = source.loader();
  ASSERT_EQ(loader.samples(Split::validation), 800u + 2u);
  for (uint64_t limit : {1u, 2u, 100u, 802u}) {
    std::set<uint64_t> samples;
    for (const HeldOut& held_out : source.held_out(limit)) {
      ASSERT_FALSE(held_out.samples.empty());
      EXPECT_TRUE(std::is_sorted(held_out.samples.begin(), held_out.samples.end()));
      samples.insert(held_out.samples.begin(), held_out.samples.end());
      for (int64_t token : loader.batch(Split::validation, held_out.samples).tokens) {
        EXPECT_EQ(token >= 30'000, held_out.dataset == folder / "b");
      }
    }
    EXPECT_EQ(samples.size(), limit);
    EXPECT_EQ(*samples.rbegin(), limit - 1);
  }
  EXPECT_TRUE(TextSource(text_config({folder / "a"}, 0), 5, vocabulary, 1).held_out(10).empty());
}

TEST(Loader, DocumentsAreToldApartWhereAskedFor) {
  const TemporaryFolder folder;
  // Ends of documents at 3, 4, 4 (empty), 12 and 17; token 1 closes each.
  {
    CorpusWriter writer(folder / "a", vocabulary, {});
    for (const std::vector<int32_t>& document :
         {std::vector<int32_t>{10, 11, 1}, {1}, {}, {20, 21, 22, 23, 24, 25, 26, 1}, {30, 31, 32, 33, 1}}) {
      writer.append(document);
      writer.end_document();
    }
    writer.commit();
  }
  data::TextConfig config = text_config({folder / "a"}, 0);
  config.reset_at_documents = true;
  const Loader loader(config, 8, vocabulary, 1);
  ASSERT_EQ(loader.samples(Split::train), 2u);
  const SampleBatch batch = loader.batch(Split::train, 0, 2);
  const size_t first = batch.tokens[0] == 10 ? 0 : 1;
  const auto row = [&](const std::vector<int64_t>& values, size_t number) {
    const auto begin = values.begin() + static_cast<std::ptrdiff_t>(8 * number);
    return std::vector<int64_t>(begin, begin + 8);
  };
  EXPECT_EQ(row(batch.tokens, first), (std::vector<int64_t>{10, 11, 1, 1, 20, 21, 22, 23}));
  EXPECT_EQ(row(batch.targets, first), (std::vector<int64_t>{11, 1, -1, -1, 21, 22, 23, 24}));
  EXPECT_EQ(row(batch.positions, first), (std::vector<int64_t>{0, 1, 2, 0, 0, 1, 2, 3}));
  EXPECT_EQ(row(batch.documents, first), (std::vector<int64_t>{0, 0, 0, 1, 2, 2, 2, 2}));
  // The second window begins within a document: positions count from the window's start, as they must stay below T.
  EXPECT_EQ(row(batch.tokens, 1 - first), (std::vector<int64_t>{24, 25, 26, 1, 30, 31, 32, 33}));
  EXPECT_EQ(row(batch.targets, 1 - first), (std::vector<int64_t>{25, 26, 1, -1, 31, 32, 33, 1}));
  EXPECT_EQ(row(batch.positions, 1 - first), (std::vector<int64_t>{0, 1, 2, 3, 0, 1, 2, 3}));
  EXPECT_EQ(row(batch.documents, 1 - first), (std::vector<int64_t>{0, 0, 0, 0, 1, 1, 1, 1}));
}

TEST(TextSource, SaysWhereDocumentsBegin) {
  // A document of the first sequence has the number of one in the second.
  const std::vector<int64_t> documents{0, 0, 1, 2, 2, 2, 2, 2, 3, 3};
  MicroBatch batch;
  add_document_starts(documents, 5, batch);
  const HostTensor& starts = batch.tensors.at("document_starts");
  EXPECT_EQ(starts.type, HostTensor::Type::int32);
  EXPECT_EQ(starts.sizes, std::vector<int64_t>{6});
  std::vector<int32_t> places(6);
  std::memcpy(places.data(), starts.bytes.data(), starts.bytes.size());
  EXPECT_EQ(places, (std::vector<int32_t>{0, 2, 3, 5, 8, 10}));
  EXPECT_EQ(batch.sizes, (Sizes{{"longest_document", 3}}));
}

TEST(Loader, RefusesUnloadableDataWithTheWayOut) {
  const TemporaryFolder folder;
  write_corpus(folder / "a", {counting(0, 20)}, vocabulary);
  const auto error = [&](const data::TextConfig& config, int64_t sequence = 4, int64_t limit = vocabulary) {
    return user_error([&] { Loader(config, sequence, limit, 1); });
  };
  const auto holds = [](const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos ? testing::AssertionSuccess() : testing::AssertionFailure() << text;
  };
  EXPECT_TRUE(holds(error(text_config({}, 0)), "data.train is empty"));
  EXPECT_TRUE(holds(error(text_config({folder / "none"}, 0)), "there is no corpus"));
  EXPECT_TRUE(holds(error(text_config({folder / "a"}, 0), 20), "20 tokens, too few for one sample of 20"));
  EXPECT_TRUE(holds(error(text_config({folder / "a"}, 0.2), 19), "leaves none to train on"));
  EXPECT_TRUE(holds(error(text_config({folder / "a"}, 1.5)), "data.validation_share = 1.5"));
  EXPECT_TRUE(holds(error(text_config({folder / "a"}, 0), 4, 19), "a.bin: token 19 at position 19"));
  data::TextConfig weighted = text_config({folder / "a"}, 0);
  weighted.weights = {1, 2};
  EXPECT_TRUE(holds(error(weighted), "data.weights has 2 entries for 1 corpora"));
  weighted.weights = {-1};
  EXPECT_TRUE(holds(error(weighted), "data.weights holds -1"));
  const Loader without(text_config({folder / "a"}, 0), 4, vocabulary, 1);
  EXPECT_EQ(without.samples(Split::validation), 0u);
  EXPECT_TRUE(holds(user_error([&] { without.batch(Split::validation, 0, 1); }), "data.validation_share > 0"));
  EXPECT_TRUE(holds(user_error([&] { without.unigram_loss(); }), "data.validation_share > 0"));
}

TEST(Loader, ABadTokenBetweenTheProbesIsFoundWhenItIsRead) {
  const TemporaryFolder folder;
  std::vector<int32_t> tokens(1'000'000, 5);
  tokens[123'456] = 999;
  write_corpus(folder / "a", {tokens}, 1000);
  const Loader loader(text_config({folder / "a"}, 0), 100, 500, 1);
  const std::string message = user_error([&] { loader.batch(Split::train, 0, 9'999); });
  EXPECT_NE(message.find("a.bin: token 999 at position 123456"), std::string::npos) << message;
}

}  // namespace
}  // namespace terrace::data
