// Tests that a check without training finds what would end the run before its first step, and that a run that is
// refused says so without traces of a failure.
#include "terrace/run/check_run.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "terrace/base/error.h"
#include "terrace/base/files/file.h"
#include "terrace/checkpoint/staging.h"
#include "terrace/run/run_training.h"
#include "terrace/run/single_checks.h"
#include "tests/train/tiny_run.h"

namespace terrace::run {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using Keys = std::vector<std::string>;

class CheckedRun : public train::TinyRun {
 protected:
  config::Config with(Keys keys) const {
    keys.insert(keys.begin(), {"train.threads=1", "optimizer.warmup_steps=0", "optimizer.decay_steps=10"});
    return tiny_config(keys);
  }

  static std::string start(const config::Config& config, const std::string& resume = "", int64_t ranks = 1) {
    return run_training(config, {.ranks = ranks, .resume = resume}).checkpoint.string();
  }

  // The text of the UserError that the start throws.
  static std::string refusal_of(const config::Config& config, const std::string& resume = "", int64_t ranks = 1) {
    try {
      start(config, resume, ranks);
    } catch (const UserError& error) {
      EXPECT_EQ(error.code, ExitCode::bad_input);
      return error.what();
    }
    return "no UserError";
  }

  std::set<std::string> files() const {
    std::set<std::string> names;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_)) names.insert(entry.path());
    return names;
  }

  // Finds the same problems as a start, writes nothing, and returns them.
  std::vector<std::string> problems_of(const config::Config& config, const std::string& resume = "") const {
    const std::set<std::string> before = files();
    const RunCheck check = check_run(config, {.resume = resume});
    EXPECT_EQ(files(), before);
    EXPECT_EQ(check.code, check.problems.empty() ? ExitCode::done : ExitCode::bad_input);
    return check.problems;
  }

  static void change_last_byte(const std::filesystem::path& path) {
    std::string bytes = read_text(path);
    bytes.back() = static_cast<char>(bytes.back() ^ 1);
    write_text_atomically(path, bytes);
  }
};

TEST_F(CheckedRun, InitialWeightsOfAnotherShapeAreFoundBeforeTheFolderIsMade) {
  const std::string weights = start(with({"train.steps=1"}));
  const Keys keys = {"train.initial_weights=" + weights, "checkpoint.folder=" + (folder_ / "new").string()};
  const auto with_keys = [&](const std::string& more) { return with({keys[0], keys[1], more}); };
  EXPECT_THAT(problems_of(with_keys("train.seed=2")), ElementsAre());
  for (const auto& [change, said] : {std::pair{"model.width=48", "has shape [64, 24] in the checkpoint and [64, 48]"},
                                     {"model.layers=3", "is not in the checkpoint"},
                                     {"model.layers=1", "is in the checkpoint and not in this model"}}) {
    const auto expected = AllOf(HasSubstr("train.initial_weights = \"" + weights), HasSubstr(said));
    EXPECT_THAT(problems_of(with_keys(change)), ElementsAre(expected));
    EXPECT_THAT(refusal_of(with_keys(change)), expected);
    EXPECT_FALSE(std::filesystem::exists(folder_ / "new"));
  }
}

TEST_F(CheckedRun, DamagedFilesOfTheFirstCheckpointAreFound) {
  const std::filesystem::path saved = start(with({"train.steps=1"}));
  const Keys fine_tune = {"train.initial_weights=" + saved.string(), "checkpoint.folder=" + (folder_ / "new").string()};
  const auto is_damaged = [&](const char* file) {
    return AllOf(HasSubstr((saved / file).string() + " is damaged"), HasSubstr("checksum"));
  };
  change_last_byte(saved / "optimizer_v.safetensors");
  EXPECT_THAT(problems_of(with({}), "auto"), ElementsAre(is_damaged("optimizer_v.safetensors")));
  EXPECT_THAT(problems_of(with({}), saved), ElementsAre(is_damaged("optimizer_v.safetensors")));
  EXPECT_THAT(problems_of(with(fine_tune)), ElementsAre());  // it needs the weights alone
  change_last_byte(saved / "weights.safetensors");
  EXPECT_THAT(problems_of(with(fine_tune)), ElementsAre(is_damaged("weights.safetensors")));
  EXPECT_THAT(problems_of(with({}), "auto"), ElementsAre(is_damaged("weights.safetensors")));
}

TEST_F(CheckedRun, FoldersThatCannotBeMadeAreFound) {
  write_text_atomically(folder_ / "file", "");
  std::filesystem::create_directory_symlink(folder_ / "absent", folder_ / "link");
  for (const std::string& folder : {std::string("/proc/x"), (folder_ / "file/x").string(), (folder_ / "link").string(),
                                    (folder_ / std::string(300, 'x')).string()}) {
    const auto expected = HasSubstr("checkpoint.folder = \"" + folder + "\"");
    EXPECT_THAT(problems_of(with({"checkpoint.folder=" + folder})), ElementsAre(expected));
    EXPECT_THAT(refusal_of(with({"checkpoint.folder=" + folder})), expected);
  }
  EXPECT_THAT(problems_of(with({"checkpoint.every=1", "checkpoint.staging=/proc/x"})),
              ElementsAre(HasSubstr("checkpoint.staging")));
}

TEST_F(CheckedRun, AStagingFolderThatOthersCanWriteToIsFound) {
  const config::Config config = with({"checkpoint.every=1", "checkpoint.staging=" + (folder_ / "disk").string()});
  EXPECT_THAT(problems_of(config), ElementsAre());
  const std::filesystem::path staged = checkpoint::staging_of(folder_ / "disk", folder_ / "run");
  std::filesystem::create_directories(staged);
  ::chmod(staged.c_str(), 0777);
  EXPECT_THAT(problems_of(config), ElementsAre(HasSubstr("can be written to by others")));
}

// The last calls of the ranks help to find a failure, but nobody looks for one after a refusal.
TEST_F(CheckedRun, ARefusedResumeNamesNoOldConfigurationAndWritesNoCalls) {
  for (const int64_t ranks : {1, 2}) {
    SCOPED_TRACE(ranks);
    const std::string folder = "checkpoint.folder=" + (folder_ / fmt::format("run on {}", ranks)).string();
    const std::filesystem::path saved = start(with({folder, "train.steps=1"}), "", ranks);
    const auto refuse = [&](const char* change, const std::string& said) {
      const std::set<std::string> before = files();
      testing::internal::CaptureStdout();
      EXPECT_THAT(refusal_of(with({folder, change}), "auto", ranks), HasSubstr(said));
      EXPECT_THAT(testing::internal::GetCapturedStdout(), Not(HasSubstr("resolved.toml")));
      EXPECT_EQ(files(), before);
    };
    refuse("train.seed=2", "train.seed = 1 in the checkpoint, but 2 now");
    write_corpus(25);
    refuse("train.log_every=5", "the data are not those");
    write_corpus(24);
    change_last_byte(saved / (ranks == 1 ? "weights.safetensors" : "weights.rank_0001.safetensors"));
    refuse("train.log_every=5", "is damaged: its checksum");
  }
}

}  // namespace
}  // namespace terrace::run
