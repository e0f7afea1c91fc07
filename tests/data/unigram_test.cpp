// The unigram loss against a computation by hand; later starts of a run read the stored loss.
#include <unistd.h>

#include <cmath>
#include <functional>
#include <thread>

#include "terrace/data/text/loader.h"
#include "terrace/data/text/unigram_store.h"
#include "tests/data/test_corpus.h"
#include "tests/file_size_limit.h"

namespace terrace::data {
namespace {

TEST(UnigramLoss, CrossEntropyOfTheTrainingFrequencies) {
  const TemporaryFolder folder;
  // Targets are tokens 1 to 12: in training 0 0 0 1 0 2 0 0, held out 1 0 1 3.
  write_corpus(folder / "a", {{9, 0, 0, 0, 1, 0, 2, 0, 0, 1, 0, 1, 3}}, 10);
  const Loader loader(text_config({folder / "a"}, 0.34), 4, 10, 1);
  ASSERT_EQ(loader.samples(Split::train), 2u);
  // Add-one smoothed over 10 tokens and 8 targets: p(0) = 7/18, p(1) = 2/18, p(3) = 1/18.
  const double expected = -(2 * std::log(2.0 / 18) + std::log(7.0 / 18) + std::log(1.0 / 18)) / 4;
  EXPECT_NEAR(loader.unigram_loss(), expected, 1e-12);
}

TEST(UnigramLoss, WeighsTheCorporaOfAMixture) {
  const TemporaryFolder folder;
  // Corpus a is all 0, b all 1, each with 2 samples of 2 to train on and 1 held out; b comes three times as often.
  write_corpus(folder / "a", {{0, 0, 0, 0, 0, 0, 0}}, 4);
  write_corpus(folder / "b", {{1, 1, 1, 1, 1, 1, 1}}, 4);
  data::TextConfig config = text_config({folder / "a", folder / "b"}, 0.34);
  config.weights = {1, 3};
  const Loader loader(config, 2, 4, 1);
  // The 8 targets to train on count as 2 and 6, so p(0) = 3/12 and p(1) = 7/12; held-out targets count as they are.
  EXPECT_NEAR(loader.unigram_loss(), -(std::log(3.0 / 12) + std::log(7.0 / 12)) / 2, 1e-12);
}

TEST(UnigramLoss, LossOfASampleIsNearThatOfTheWhole) {
  const TemporaryFolder folder;
  std::vector<int32_t> tokens;
  for (int32_t i = 0; i < 40'001; ++i) tokens.push_back((i * i + i / 7) % 11);
  write_corpus(folder / "a", {tokens}, 20);
  const Loader loader(text_config({folder / "a"}, 0.2), 8, 20, 1);
  // A tenth of the tokens: the error of a mean falls as one over the square root of their number, 4000.
  EXPECT_NEAR(loader.unigram_loss(4000), loader.unigram_loss(), 4 / std::sqrt(4000.0));
}

// Tokens 0 and 1 in turn at first and ever more zeros later, so that every split has a loss of its own.
std::vector<int32_t> changing(int32_t size, int32_t first = 0) {
  std::vector<int32_t> tokens;
  for (int64_t i = 0; i < size; ++i)
    tokens.push_back((i * i) % (2 + i / 20) == first ? 1 : static_cast<int32_t>(i % 3));
  return tokens;
}

// A loss that no text has, in place of each that is stored: what reads it back has not computed.
constexpr double marked = 1234.5;

void mark_stored(const std::string& file) {
  Json all = Json::parse(read_text(file));
  for (Json& entry : all["losses"]) entry["loss"] = marked;
  write_text_atomically(file, all.dump());
}

class StoredUnigramLoss : public testing::Test {
 protected:
  void SetUp() override {
    write_corpus(folder_ / "a", {changing(200)});
    write_corpus(folder_ / "b", {changing(90, 1)});
    write_corpus(folder_ / "v", {changing(60, 2)});
    config_ = text_config({folder_ / "a", folder_ / "b"}, 0.2);
  }
  double loss(const data::TextConfig& config, int64_t sequence = 4, int64_t vocabulary = 3) const {
    return Loader(config, sequence, vocabulary, 1).unigram_loss();
  }

  TemporaryFolder folder_;
  data::TextConfig config_;
};

TEST_F(StoredUnigramLoss, ComputedAtTheFirstStartOnly) {
  const double computed = loss(config_);
  EXPECT_EQ(loss(config_), computed) << "bit for bit";
  mark_stored(folder_ / "a.unigram.json");
  EXPECT_EQ(loss(config_), marked);
  EXPECT_EQ(Loader(config_, 4, 3, 99).unigram_loss(), marked) << "the seed orders samples and changes no loss";
}

TEST_F(StoredUnigramLoss, ComputedAgainAfterAChangeOfItsInputs) {
  loss(config_);
  mark_stored(folder_ / "a.unigram.json");
  EXPECT_NE(loss(config_, 5), marked);
  EXPECT_NE(loss(config_, 4, 5), marked);
  EXPECT_NE(Loader(config_, 4, 3, 1).unigram_loss(80), marked);
  for (const auto& change : std::vector<std::function<void(data::TextConfig&)>>{
           [](auto& c) { c.validation_share = 0.3; },
           [](auto& c) {
             c.weights = {1, 2};
           },
           [](auto& c) { std::swap(c.train[0], c.train[1]); }, [](auto& c) { c.train.pop_back(); },
           [&](auto& c) { c.validation = {folder_ / "v"}; }, [](auto& c) { c.reset_at_documents = true; }}) {
    data::TextConfig changed = config_;
    change(changed);
    EXPECT_NE(loss(changed), marked);
  }
  EXPECT_EQ(loss(config_), marked) << "other losses are kept beside it";
  // Another corpus of the same shape under the same name.
  std::vector<int32_t> other = changing(90, 1);
  other[3] = (other[3] + 1) % 3;
  CorpusWriter writer(folder_ / "b", 1000, {.overwrite = true});
  writer.append(other);
  writer.commit();
  EXPECT_NE(loss(config_), marked);
}

TEST_F(StoredUnigramLoss, ADamagedFileIsComputedAgainAndReplaced) {
  const double computed = loss(config_);
  for (const std::string content : {"", "{", "[1]", "{\"losses\": 1}", "{\"losses\": [1, {}, {\"key\": 1}]}"}) {
    folder_.write("a.unigram.json", content);
    EXPECT_EQ(loss(config_), computed) << content;
    mark_stored(folder_ / "a.unigram.json");
    EXPECT_EQ(loss(config_), marked) << content;
  }
}

TEST_F(StoredUnigramLoss, AFullDiskKeepsNothingAndDisturbsNothing) {
  const double computed = loss(config_);
  std::filesystem::remove(folder_ / "a.unigram.json");
  {
    const FileSizeLimit full_disk(100);
    EXPECT_EQ(loss(config_), computed);
  }
  EXPECT_FALSE(std::filesystem::exists(folder_ / "a.unigram.json"));
  EXPECT_EQ(folder_.names().size(), 6u) << "no temporary file stays";
}

TEST_F(StoredUnigramLoss, RunsThatStartAtOnceGetTheSame) {
  const double computed = loss(config_);
  for (int round = 0; round < 10; ++round) {
    std::filesystem::remove(folder_ / "a.unigram.json");
    std::vector<double> losses(8);
    std::vector<std::thread> starts;
    for (size_t i = 0; i < losses.size(); ++i) starts.emplace_back([&, i] { losses[i] = loss(config_); });
    for (std::thread& start : starts) start.join();
    EXPECT_EQ(losses, std::vector<double>(8, computed));
    EXPECT_EQ(loss(config_), computed);
    EXPECT_EQ(folder_.names().size(), 7u) << "three corpora and one file of losses";
  }
}

// Root may write anywhere, so it becomes nobody for a while.
class WithoutWriteAccess {
 public:
  explicit WithoutWriteAccess(const std::filesystem::path& folder) : folder_(folder), user_(::geteuid()) {
    std::filesystem::permissions(folder_, std::filesystem::perms{0555});
    if (user_ == 0) become(65534);
  }
  ~WithoutWriteAccess() {
    if (user_ == 0) become(user_);
    std::filesystem::permissions(folder_, std::filesystem::perms{0755});
  }

 private:
  static void become(uid_t user) { EXPECT_EQ(::seteuid(user), 0); }

  std::filesystem::path folder_;
  uid_t user_;
};

TEST_F(StoredUnigramLoss, AFolderThatCannotBeWrittenToIsReadInPartAtEachStart) {
  constexpr int32_t tokens = 6'000'000;
  constexpr uint64_t brief_limit = 4'000'000;  // as docs/data.md says
  write_corpus(folder_ / "long", {changing(tokens)});
  const Loader loader(text_config({folder_ / "long"}, 0.1), 1000, 3, 1);
  const std::string file = folder_ / "long.unigram.json";
  const double whole = loader.unigram_loss(), part = loader.unigram_loss(brief_limit);
  ASSERT_NE(part, whole);
  {
    const WithoutWriteAccess closed(folder_.path());
    EXPECT_EQ(loader.unigram_loss(), whole) << "what is stored is used";
  }
  std::filesystem::remove(file);
  const WithoutWriteAccess closed(folder_.path());
  EXPECT_EQ(loader.unigram_loss(), part);
  EXPECT_FALSE(std::filesystem::exists(file));
}

}  // namespace
}  // namespace terrace::data
