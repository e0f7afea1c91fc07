// Tests that a corpus is opened without reading its files where another process has looked at them: their contents are
// gone, which their size, time of change and number do not show.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "terrace/data/text/loader.h"
#include "terrace/data/text/token_corpus.h"
#include "tests/data/test_corpus.h"
#include "tests/data/zeroed_file.h"

namespace terrace::data {
namespace {

constexpr int64_t words = 1000;

std::vector<int32_t> some_tokens(int32_t count) {
  std::vector<int32_t> tokens;
  for (int32_t i = 0; i < count; ++i) tokens.push_back(1 + i % 900);
  return tokens;
}

Loader opened(const std::string& name) { return {text_config({name}, 0.1), 16, words, 5}; }

// Expects that a rank opens a corpus, as it does before its first sample, without reading its tokens.
void expect_opened_unread(const std::string& name) {
  std::string fingerprint;
  uint64_t samples = 0, documents = 0;
  const std::string noted = noted_while([&] {
    const Loader first = opened(name);
    samples = first.samples(Split::train);
    const TokenCorpus corpus(name);
    fingerprint = corpus.fingerprint();
    documents = corpus.index().documents();
  });
  for (const auto& file : corpus_files(name)) zero_in_place(file);
  EXPECT_NE(user_error([&] { opened(name); }), "");
  const TakenTexts taken(noted);
  const Loader other = opened(name);
  EXPECT_EQ(other.samples(Split::train), samples);
  EXPECT_EQ(TokenCorpus(name).fingerprint(), fingerprint);
  EXPECT_EQ(TokenCorpus(name).index().documents(), documents);
  // A full check reads all the same.
  EXPECT_NE(user_error([&] { TokenCorpus(name, CorpusIndex::Check::all); }), "");
}

TEST(StartReads, OpenACorpusThatTheFirstRankHasLookedAt) {
  const TemporaryFolder folder;
  write_corpus(folder / "corpus", {some_tokens(700), some_tokens(300)}, words);
  expect_opened_unread(folder / "corpus");
}

TEST(StartReads, TakeNoAnswerOfAnotherFile) {
  const TemporaryFolder folder;
  const std::string name = folder / "corpus";
  write_corpus(name, {some_tokens(700)}, words);
  const std::string noted = noted_while([&] { opened(name); });
  for (const auto& file : corpus_files(name)) std::filesystem::remove(file);
  write_corpus(name, {some_tokens(300), some_tokens(200)}, words);
  const TakenTexts taken(noted);
  EXPECT_EQ(TokenCorpus(name).tokens(), 500u);
  EXPECT_EQ(TokenCorpus(name).index().documents(), 2u);
}

}  // namespace
}  // namespace terrace::data
