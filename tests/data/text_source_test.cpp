// The micro-batches that a rank gets of a text: its share of a step, and of that what its units read.
#include "terrace/data/text/text_source.h"

#include <cstring>

#include "tests/data/test_corpus.h"

namespace terrace::data {
namespace {

constexpr int64_t text_length = 4, text_vocabulary = 100;
const TensorNames both = {"tokens", "targets"};

// Twelve windows of four tokens, in which token i is i; the last two windows are held out.
class TextSourceTest : public testing::Test {
 protected:
  TextSourceTest() {
    std::vector<int32_t> tokens;
    for (int32_t i = 0; i < 12 * text_length + 1; ++i) tokens.push_back(i);
    write_corpus(folder_ / "text", {tokens}, text_vocabulary);
  }

  TextSource open() const {
    TextConfig config;
    config.train = {folder_ / "text"};
    config.validation_share = 2.0 / 12;
    return {config, text_length, text_vocabulary, 1};
  }

  static std::vector<int64_t> values(const HostTensor& tensor) {
    std::vector<int64_t> list(tensor.bytes.size() / sizeof(int64_t));
    std::memcpy(list.data(), tensor.bytes.data(), tensor.bytes.size());
    return list;
  }

  TemporaryFolder folder_;
};

TEST_F(TextSourceTest, RanksHaveConsecutiveSharesOfAStep) {
  const TextSource source = open();
  std::vector<int64_t> samples, tokens;
  for (int64_t rank = 0; rank < 2; ++rank) {
    const std::vector<MicroBatch> batches = source.micro_batches(
        {.step = 2, .first_sample = 6, .samples = 6, .rank = rank, .ranks = 2, .micro_batch = 2}, both);
    ASSERT_EQ(batches.size(), 2u);  // of two samples and of one
    for (const MicroBatch& batch : batches) {
      const auto count = static_cast<int64_t>(batch.samples.size());
      EXPECT_EQ(batch.counts, std::vector<double>{static_cast<double>(count * text_length)});
      EXPECT_EQ(batch.tensors.at("tokens").sizes, (std::vector<int64_t>{count, text_length}));
      samples.insert(samples.end(), batch.samples.begin(), batch.samples.end());
      const std::vector<int64_t> read = values(batch.tensors.at("tokens")), next = values(batch.tensors.at("targets"));
      for (size_t i = 0; i < read.size(); ++i) EXPECT_EQ(next[i], read[i] + 1);
      tokens.insert(tokens.end(), read.begin(), read.end());
    }
  }
  EXPECT_EQ(samples, (std::vector<int64_t>{6, 7, 8, 9, 10, 11}));
  EXPECT_EQ(tokens, source.loader().batch(Split::train, 6, 6).tokens);
  EXPECT_EQ(source.items(6, 6), 6 * text_length);
}

TEST_F(TextSourceTest, ATensorThatIsNotAskedForIsNotThere) {
  const std::vector<MicroBatch> batches = open().micro_batches({.samples = 1}, {"targets"});
  EXPECT_EQ(batches.at(0).tensors.size(), 1u);
  EXPECT_TRUE(batches.at(0).tensors.contains("targets"));
}

// The tokens are overwritten by others that no model knows, which every read of the corpus would find.
TEST_F(TextSourceTest, AStageThatReadsNoTensorOpensNoWindow) {
  const TextSource source = open();
  const std::string file = folder_ / "text.bin";
  std::fstream(file, std::ios::binary | std::ios::in | std::ios::out)
      << std::string(std::filesystem::file_size(file), '\xff');
  const StepShare share{.first_sample = 3, .samples = 4, .micro_batch = 2};
  EXPECT_NE(user_error([&] { source.micro_batches(share, both); }), "");
  const std::vector<MicroBatch> batches = source.micro_batches(share, {});
  ASSERT_EQ(batches.size(), 2u);
  EXPECT_EQ(batches[1].samples, (std::vector<int64_t>{5, 6}));
  EXPECT_TRUE(batches[1].tensors.empty());
}

TEST_F(TextSourceTest, ARankWithoutHeldOutSamplesComputesOneThatDoesNotCount) {
  const TextSource source = open();
  const std::vector<HeldOut> corpora = source.held_out(100);
  ASSERT_EQ(corpora.size(), 1u);
  ASSERT_EQ(corpora[0].samples.size(), 2u);
  EXPECT_EQ(source.rounds(corpora[0], {.ranks = 3}), 1);
  EXPECT_EQ(source.rounds(corpora[0], {}), 2);
  double counted = 0;
  for (int64_t rank = 0; rank < 3; ++rank) {
    const MicroBatch batch =
        source.held_out_micro_batch(corpora[0], {.round = 0, .rank = rank, .ranks = 3, .micro_batch = 1}, both);
    EXPECT_EQ(batch.samples.size(), 1u);
    counted += batch.counts[0];
  }
  EXPECT_EQ(counted, 2 * text_length);
}

}  // namespace
}  // namespace terrace::data
