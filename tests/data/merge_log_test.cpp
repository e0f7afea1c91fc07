// A training's own log gives its merges, and std::cerr is as before afterwards.
#include "terrace/data/text/tokenizer/byte_pair/merge_log.h"

#include <gtest/gtest.h>
#include <sentencepiece_trainer.h>

#include <algorithm>
#include <iostream>
#include <sstream>
#include <vector>

#include "terrace/base/random.h"
#include "tests/data/test_corpus.h"

namespace terrace::data {
namespace {

// Words of three letters in disorder: enough of them that a training has hundreds of merges.
std::string random_words() {
  std::string text;
  for (uint64_t i = 0; i < 20'000; ++i) {
    for (const uint32_t number : philox_at(stream_key(0, "words"), i, 0)) {
      text.push_back(static_cast<char>('a' + number % 26));
    }
    text.push_back(i % 10 == 9 ? '\n' : ' ');
  }
  return text;
}

TEST(MergeLog, ReadsTheMergesOfATrainingFromItsLog) {
  const TemporaryFolder folder;
  const std::string input = folder.write("text", random_words());
  std::vector<int64_t> seen;
  std::ostringstream shown;
  std::streambuf* const before = std::cerr.rdbuf(shown.rdbuf());
  sentencepiece::util::Status status;
  {
    const MergeLog log([&](int64_t merges) { seen.push_back(merges); });
    status = sentencepiece::SentencePieceTrainer::Train({{"input", input},
                                                         {"model_prefix", folder / "model"},
                                                         {"model_type", "bpe"},
                                                         {"vocab_size", "1000"},
                                                         {"minloglevel", "0"}});
  }
  std::cerr << "after";
  std::cerr.rdbuf(before);
  ASSERT_TRUE(status.ok()) << status.ToString();
  EXPECT_EQ(shown.str(), "after");
  ASSERT_GE(seen.size(), 40u);
  EXPECT_TRUE(std::ranges::is_sorted(seen));
  EXPECT_EQ(seen.front(), 20);
  EXPECT_GE(seen.back(), 940);
  EXPECT_LT(seen.back(), 1000);
}

TEST(MergeLog, OtherLinesAreNoMerges) {
  std::vector<int64_t> seen;
  {
    const MergeLog log([&](int64_t merges) { seen.push_back(merges); });
    std::cerr << "trainer_interface.cc(1) LOG(INFO) all chars size=12\n"
              << "LOG(INFO) Added: freq=3 size=\nLOG(INFO) Added: freq=3 size=40 all=7\nAdded: freq=3 size=60";
  }
  EXPECT_EQ(seen, std::vector<int64_t>{40});
}

TEST(MergeLog, ErrorsAreShown) {
  const std::string error = "trainer_interface.cc(7) LOG(ERROR) cannot open model\n";
  const std::string failed_check = "bpe_model_trainer.cc(9) [(left) != (nullptr)] \n";
  std::ostringstream shown;
  std::streambuf* const before = std::cerr.rdbuf(shown.rdbuf());
  {
    const MergeLog log([](int64_t) {});
    std::cerr << error << "trainer_interface.cc(8) LOG(WARNING) too many sentences\n"
              << "trainer_interface.cc(8) LOG(INFO) done\n"
              << failed_check << "model_type: BPE\n";
  }
  std::cerr.rdbuf(before);
  EXPECT_EQ(shown.str(), error + failed_check);
}

TEST(MergeLog, EarlyMergesAreMoreWork) {
  constexpr uint64_t sample = 16 << 20;
  EXPECT_EQ(merge_work(0, sample), 0);
  EXPECT_GT(merge_work(400, sample), 10 * 400);
  EXPECT_LT(merge_work(32'000, sample) - merge_work(31'600, sample), 1.1 * 400);
}

}  // namespace
}  // namespace terrace::data
