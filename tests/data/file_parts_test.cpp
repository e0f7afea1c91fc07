// Input files are shared out by size, and what is finished of them survives.
#include "terrace/data/file_parts.h"

#include <gmock/gmock.h>

#include <array>
#include <filesystem>
#include <memory>
#include <numeric>
#include <thread>

#include "tests/data/test_corpus.h"

namespace terrace::data {
namespace {

namespace fs = std::filesystem;

using testing::ElementsAre;
using testing::HasSubstr;

// One of several ranks, alone in this process: its gather knows the first rank's text.
class LoneRank : public PrepareRanks {
 public:
  LoneRank(int64_t rank, int64_t size) : rank_(rank), size_(size) {}
  int64_t rank() const override { return rank_; }
  int64_t size() const override { return size_; }
  int64_t cores() const override { return 1; }
  std::vector<std::string> gather(const std::string& own) override {
    return std::vector<std::string>(static_cast<size_t>(size_), rank_ == 0 ? own : first_);
  }
  void set_first(const std::string& first) { first_ = first; }

 private:
  int64_t rank_, size_;
  std::string first_ = "start";
};

TEST(RanksBySize, GiveTheLargestFirst) {
  EXPECT_THAT(ranks_by_size(std::array<uint64_t, 5>{2, 9, 4, 5, 4}, 2), ElementsAre(1, 0, 1, 1, 0));
  EXPECT_THAT(ranks_by_size(std::array<uint64_t, 3>{1, 1, 1}, 1), ElementsAre(0, 0, 0));
  EXPECT_THAT(ranks_by_size(std::array<uint64_t, 2>{7, 7}, 4), ElementsAre(0, 1));
  EXPECT_TRUE(ranks_by_size({}, 3).empty());
  // Empty files count as a byte, so that they are spread too.
  EXPECT_THAT(ranks_by_size(std::array<uint64_t, 3>{0, 0, 0}, 3), ElementsAre(0, 1, 2));
}

TEST(RanksBySize, LeaveNoRankMoreThanFourThirdsOfTheMeanWhereFilesAreSmall) {
  std::vector<uint64_t> sizes;
  for (uint64_t i = 0; i < 400; ++i) sizes.push_back(1000 + i * i * 7919 % 9001);
  const uint64_t all = std::accumulate(sizes.begin(), sizes.end(), uint64_t{0});
  for (const int64_t ranks : {2, 3, 7, 32}) {
    std::vector<uint64_t> loads(static_cast<size_t>(ranks));
    const std::vector<int64_t> rank_of = ranks_by_size(sizes, ranks);
    for (size_t i = 0; i < sizes.size(); ++i) loads[static_cast<size_t>(rank_of[i])] += sizes[i];
    EXPECT_LE(3 * *std::ranges::max_element(loads) * static_cast<uint64_t>(ranks), 4 * all) << ranks;
  }
}

class PartsOfFiles : public testing::Test {
 protected:
  PartsOfFiles() {
    for (const char* name : {"a", "b", "c"}) inputs_.push_back(part_input(folder_.write(name, name)));
  }

  std::unique_ptr<FileParts> begun(bool resume, const std::string& identity = "flags") {
    auto parts = std::make_unique<FileParts>(one_, folder_ / "p", std::vector<std::string>{"numbers"}, 1e9);
    parts->begin({.identity = identity, .inputs = inputs_}, resume);
    return parts;
  }

  static void append(FileParts& parts, const std::string& text) { parts.append(0, std::as_bytes(std::span(text))); }

  std::string bytes_of(const FilePart& part) const {
    const PartRange& range = part.ranges.at(0);
    return read_text(folder_.path() / "p.parts" / range.file).substr(range.offset, range.bytes);
  }

  bool has_folder() const { return fs::exists(folder_ / "p.parts"); }

  TemporaryFolder folder_;
  LoneRank one_{0, 1};
  std::vector<PartInput> inputs_;
};

TEST_F(PartsOfFiles, AreTakenOverAfterAnEndByAnException) {
  auto first = begun(false);
  EXPECT_THAT(first->own(), ElementsAre(0, 1, 2));
  append(*first, "of a");
  first->finish_file(0, "1");
  append(*first, "half of b");
  first.reset();
  EXPECT_TRUE(has_folder());
  auto second = begun(true);
  EXPECT_THAT(second->own(), ElementsAre(1, 2));
  EXPECT_EQ(second->bytes_kept(), 1u);
  append(*second, "b");
  second->finish_file(1, "2");
  second->finish_file(2, "");
  second->record();
  const std::vector<FilePart> all = second->collect();
  EXPECT_EQ(bytes_of(all[0]), "of a");
  EXPECT_EQ(all[0].facts, "1");
  EXPECT_EQ(bytes_of(all[1]), "b");
  EXPECT_EQ(bytes_of(all[2]), "");
  second->remove();
  EXPECT_FALSE(has_folder());
}

TEST_F(PartsOfFiles, OfChangedFilesAndOtherFlagsAreNotTakenOver) {
  auto first = begun(false);
  append(*first, "of a");
  first->finish_file(0, "");
  append(*first, "of b");
  first->finish_file(1, "");
  first.reset();
  EXPECT_THAT(user_error([&] { begun(true, "other flags"); }), HasSubstr("give the same ones"));
  EXPECT_TRUE(has_folder());
  inputs_[0] = part_input(folder_.write("a", "longer"));
  EXPECT_THAT(begun(true)->own(), ElementsAre(0, 2));
  // Bytes that are not there, as after a loss of power, are not taken either.
  fs::resize_file(folder_ / "p.parts/0.0.numbers", 7);
  EXPECT_THAT(begun(true)->own(), ElementsAre(0, 1, 2));
}

TEST_F(PartsOfFiles, LeaveNothingWhereNothingWasFinishedOrTheInputWasRefused) {
  auto parts = begun(false);
  append(*parts, "half");
  parts.reset();
  EXPECT_FALSE(has_folder());
  parts = begun(false);
  parts->finish_file(0, "");
  parts->discard();
  parts.reset();
  EXPECT_FALSE(has_folder());
  parts = begun(false);
  parts->finish_file(0, "");
  parts.reset();
  begun(false).reset();  // without resume what is left is removed
  EXPECT_FALSE(has_folder());
}

TEST_F(PartsOfFiles, OfAPipeAreNeverTakenOver) {
  inputs_[1] = {.path = "/dev/fd/0"};
  auto parts = begun(false);
  parts->finish_file(0, "");
  parts->finish_file(1, "");
  parts.reset();
  EXPECT_THAT(begun(true)->own(), ElementsAre(1, 2));
}

TEST_F(PartsOfFiles, AreSharedOutAndARankThatFailedIsNoticedByTheOthers) {
  LoneRank first(0, 2), second(1, 2);
  FileParts of_first(first, folder_ / "p", {"numbers"}, 1e9);
  second.set_first(of_first.folder().string());
  FileParts of_second(second, folder_ / "p", {"numbers"}, 1e9);
  of_first.begin({.identity = "flags", .inputs = inputs_}, false);
  // The second rank sees another start than the first rank's, as where the folder is another one of that name.
  EXPECT_THAT(user_error([&] { of_second.join(); }), HasSubstr("prepare in a folder that all ranks share"));
  EXPECT_FALSE(of_first.is_stopped());
  of_first.stop_others();
  std::this_thread::sleep_for(std::chrono::milliseconds(1100));
  EXPECT_TRUE(of_first.is_stopped());
  of_first.discard();
}

}  // namespace
}  // namespace terrace::data
