// Processes that prepare fields together write what one process writes, also after all of them were killed, and refuse
// together.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <chrono>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <optional>
#include <thread>
#include <utility>

#include "terrace/base/files/file.h"
#include "terrace/data/fields/preparation/fields_progress.h"
#include "terrace/data/fields/preparation/prepare_fields.h"
#include "tests/data/fields_files.h"
#include "tests/data/folder_ranks.h"

namespace terrace::data {
namespace {

namespace fs = std::filesystem;

using testing::AllOf;
using testing::HasSubstr;

class FieldsOfRanks : public testing::Test {
 protected:
  // Twenty files of two variables and three levels, of eight times each, with values that are missing, and an
  // orography.
  FieldsOfRanks() {
    for (int number = 0; number < 20; ++number) write_file(number, 1e9);
    fs::create_directories(folder_.path() / "out");
  }

  void write_file(int number, double last_value) const {
    TestFile file{.levels = {500, 700, 850}};
    file.times.clear();
    for (int time = 0; time < 8; ++time) file.times.push_back(6 * (8 * number + time));
    const auto wave = [last_value](double time, double level, double latitude, double longitude) {
      if (time > last_value) return std::nan("");
      return 280 + 10 * std::sin(time * 0.37 + level / 71 + latitude / 5 + longitude / 57) + std::cos(time * latitude);
    };
    file.variables = {{.name = "t", .dimensions = {"time", "level", "lat", "lon"}, .value = wave},
                      {.name = "u", .value = wave},
                      {.name = "z", .dimensions = {"lat", "lon"}, .value = wave}};
    fs::create_directories(folder_.path() / "in");
    file.write(folder_ / fmt::format("in/{:02}.nc", number));
  }

  std::vector<pid_t> start(int64_t ranks, const std::string& output, const Flags& flags) {
    texts_ = folder_.path() / fmt::format("run_{}", runs_++);
    return start_ranks(texts_, ranks, [&](PrepareRanks& all) {
      FieldsPreparation(0).prepare({.inputs = {folder_ / "in"},
                                    .output = folder_ / output,
                                    .overwrite = true,
                                    .threads = 1,
                                    .flags = flags,
                                    .ranks = &all});
    });
  }

  std::string text_of_rank(int64_t rank) const { return read_text(texts_ / fmt::format("text_{}", rank)); }

  void prepare(int64_t ranks, const std::string& output, const Flags& flags) {
    ASSERT_THAT(ended_ranks(start(ranks, output, flags)), testing::Each(0)) << text_of_rank(0);
  }

  // Both files; where arrays lie in P.nc does not depend on its name.
  std::pair<std::string, std::string> files(const std::string& output) const {
    return {read_text(folder_ / (output + ".json")), read_text(folder_ / (output + ".nc"))};
  }

  size_t files_of_output() const {
    return static_cast<size_t>(std::distance(fs::directory_iterator(folder_.path() / "out"), fs::directory_iterator()));
  }

  TemporaryFolder folder_;
  int runs_ = 0;
  fs::path texts_;
};

const Flags splits = {{"train", {"2000-01-01", "2000-01-30"}}, {"test", {"2000-01-31", "2000-02-09"}}};

TEST_F(FieldsOfRanks, WriteTheBytesOfOneProcess) {
  const std::vector<Flags> cases = {splits, {{"climatology", {"daily"}}, {"variables", {"u", "t_700"}}}};
  for (size_t number = 0; number < cases.size(); ++number) {
    const std::string one = fmt::format("out/one{}", number);
    prepare_fields({folder_ / "in"}, folder_ / one, cases[number]);
    for (const int64_t ranks : {2, 3, 5}) {
      const std::string output = fmt::format("out/of_{}_{}", ranks, number);
      prepare(ranks, output, cases[number]);
      EXPECT_EQ(files(output).first, files(one).first) << ranks;
      EXPECT_TRUE(files(output).second == files(one).second) << ranks;
    }
  }
  EXPECT_EQ(files_of_output(), 2u * 2u * 4u);
}

TEST_F(FieldsOfRanks, MissingValuesOfOneRankAreNotedByAll) {
  write_file(19, 6 * 159 - 1);
  Flags flags = splits;
  flags["mask"] = {};
  prepare(3, "out/p", flags);
  EXPECT_TRUE(read_fields_description(folder_ / "out/p.json").has_missing);
}

TEST_F(FieldsOfRanks, RefuseTogetherWithTheProblemsOfAll) {
  write_file(0, -1);  // in the part of the first of three ranks, and of the last one
  write_file(19, 6 * 159 - 1);
  EXPECT_THAT(ended_ranks(start(3, "out/p", splits)), testing::Each(2));
  EXPECT_THAT(text_of_rank(0),
              AllOf(HasSubstr("2 problems on several ranks"), HasSubstr("00.nc: z has 12 of 12 values"),
                    HasSubstr("19.nc: "), HasSubstr("at 2000-02-09T18:00:00 has 12 of 12 values")));
  EXPECT_EQ(text_of_rank(1) + text_of_rank(2), "");
  EXPECT_EQ(files_of_output(), 0u);
  // A mistake that all of them find is said once.
  EXPECT_THAT(ended_ranks(start(3, "out/p", {{"levels", {"400"}}})), testing::Each(2));
  EXPECT_EQ(text_of_rank(0), "no variable of the files has the level 400");
  EXPECT_THAT(ended_ranks(start(2, "out/p", {{"harmonics", {"none"}}})), testing::Each(2));
  EXPECT_THAT(text_of_rank(0), HasSubstr("--harmonics none"));
}

TEST_F(FieldsOfRanks, OthersContinueWhatKilledOnesLeft) {
  prepare_fields({folder_ / "in"}, folder_ / "out/one", splits);
  Flags resume = splits;
  resume["resume"] = {};
  int continued = 0;
  for (int attempt = 0; attempt < 12; ++attempt) {
    const std::vector<pid_t> children = start(3, "out/p", splits);
    // Half of the attempts end when all ranks have recorded some progress, the others after some time.
    const auto has_recorded = [&](int64_t rank) { return fs::exists(progress_path(folder_ / "out/p", rank)); };
    const auto has_ended = [&] { return fs::exists(texts_ / "text_0"); };
    while (attempt % 2 == 0 && !has_ended() && !(has_recorded(0) && has_recorded(1) && has_recorded(2))) {
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
    if (attempt % 2 == 1) std::this_thread::sleep_for(std::chrono::milliseconds(10 * attempt));
    for (const pid_t child : children) ::kill(child, SIGKILL);
    ended_ranks(children);
    const std::optional<FieldsProgress::Left> left = FieldsProgress::find(folder_ / "out/p");
    continued += left && !left->done.empty() ? 1 : 0;
    prepare(attempt % 3 + 1, "out/p", resume);
    ASSERT_EQ(files("out/p").first, files("out/one").first) << "attempt " << attempt;
    ASSERT_TRUE(files("out/p").second == files("out/one").second) << "attempt " << attempt;
    ASSERT_EQ(files_of_output(), 4u) << "attempt " << attempt;
  }
  EXPECT_GT(continued, 0);
}

}  // namespace
}  // namespace terrace::data
