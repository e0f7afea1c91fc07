// Saving: which checkpoints are kept, what an interruption or a full disk leaves, and which folder replaces which.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <set>
#include <thread>

#include "terrace/base/error.h"
#include "terrace/base/files/file.h"
#include "terrace/base/files/file_lock.h"
#include "terrace/base/random.h"
#include "terrace/checkpoint/checkpoint.h"
#include "terrace/checkpoint/folder.h"
#include "terrace/checkpoint/manifest.h"
#include "terrace/checkpoint/safetensors.h"
#include "tests/checkpoint/sample_state.h"
#include "tests/file_size_limit.h"
#include "tests/scratch_folder.h"

namespace terrace::checkpoint {
namespace {

using testing::HasSubstr;

std::vector<int64_t> steps_in(const std::filesystem::path& folder) {
  std::vector<int64_t> steps;
  for (const auto& path : list(folder)) steps.push_back(*step_of(path));
  return steps;
}

TEST(Save, EverythingComesBackBitForBit) {
  const ScratchFolder folder;
  const State state = sample_state(200);
  const std::filesystem::path path = save(folder / "run", state, {});
  EXPECT_EQ(path, folder / "run/step_00000200");
  expect_reads_back(path, state);
  EXPECT_EQ(names_in(path),
            (std::set<std::string>{"COMPLETE", "config.toml", "manifest.json", "optimizer_m.safetensors",
                                   "optimizer_v.safetensors", "weights.safetensors"}));
  EXPECT_EQ(names_in(folder / "run"), std::set<std::string>{"step_00000200"});
}

TEST(Save, WorksOnAThreadOfItsOwn) {
  const ScratchFolder folder;
  const State state = sample_state(1);
  std::thread([&] { save(folder.path(), state, {}); }).join();
  expect_reads_back(folder / "step_00000001", state);
}

TEST(Save, KeepsAttachedFilesWithTheCheckpoint) {
  const ScratchFolder folder;
  std::ofstream(folder / "words.model") << "a model";
  std::ofstream(folder / "means.json") << "[1, 2]";
  State state = sample_state(1);
  state.attached = {{"tokenizer", folder / "words.model", "tokenizer.model"},
                    {"means", folder / "means.json", "means.json"},
                    {"gone", folder / "gone", "gone"},
                    {.role = "computed", .path = "", .stored_as = "computed.json", .text = "{}"}};
  const std::filesystem::path path = save(folder / "run", state, {});
  const Reader reader(path);
  EXPECT_EQ(reader.attached("tokenizer"), folder / "run/step_00000001/tokenizer.model");
  EXPECT_EQ(read_text(reader.attached("tokenizer")), "a model");
  EXPECT_EQ(read_text(reader.attached("means")), "[1, 2]");
  EXPECT_EQ(reader.attached("gone"), "");
  EXPECT_EQ(read_text(reader.attached("computed")), "{}");
  std::ofstream(reader.attached("means")) << "[1, 3]";
  EXPECT_THROW(Reader{path}, UserError);
  state.attached.clear();
  EXPECT_EQ(Reader(save(folder / "run", state, {})).attached("tokenizer"), "");
}

TEST(Save, AManifestOfAnEarlierVersionHasItsTokenizer) {
  Manifest manifest{
      .terrace_version = "0", .step = 1, .collections = {}, .config = {"config.toml", 1, "0"}, .trainer = nullptr};
  manifest.attached["tokenizer"] = {"tokenizer.model", 7, "00"};
  Json json = Json::parse(dump_manifest(manifest));
  json.erase("checksum");
  json["tokenizer"] = json["attached"][0];
  json["tokenizer"].erase("role");
  json.erase("attached");
  const std::string text = json.dump();
  json["checksum"] = checksum(std::as_bytes(std::span(text)));
  EXPECT_EQ(parse_manifest(json.dump(), "m"), manifest);
}

TEST(Retention, KeepsTheNewestAndTheMilestones) {
  const ScratchFolder folder;
  for (int64_t step = 100; step <= 1000; step += 100) {
    save(folder.path(), sample_state(step), {.keep = 2, .keep_every = 400});
  }
  EXPECT_EQ(steps_in(folder.path()), (std::vector<int64_t>{400, 800, 900, 1000}));
  EXPECT_EQ(names_in(folder.path()).size(), 4u);
}

TEST(Retention, ZeroKeepsAll) {
  const ScratchFolder folder;
  for (int64_t step : {1, 2, 3, 4, 5}) save(folder.path(), sample_state(step), {.keep = 0});
  EXPECT_EQ(steps_in(folder.path()), (std::vector<int64_t>{1, 2, 3, 4, 5}));
}

TEST(Retention, NeverRemovesWhatWasJustSaved) {
  const ScratchFolder folder;
  for (int64_t step : {100, 600}) save(folder.path(), sample_state(step), {.keep = 0});
  save(folder.path(), sample_state(200), {.keep = 1});  // a run resumed from 100; 600 is of an abandoned future
  EXPECT_EQ(steps_in(folder.path()), (std::vector<int64_t>{200, 600}));
}

TEST(Save, ReplacesACheckpointOfTheSameStep) {
  const ScratchFolder folder;
  save(folder.path(), sample_state(7, 1.0), {});
  const State second = sample_state(7, 2.0);
  save(folder.path(), second, {});
  expect_reads_back(folder / "step_00000007", second);
  EXPECT_EQ(names_in(folder.path()), std::set<std::string>{"step_00000007"});
}

TEST(Save, AFileSystemThatCannotExchangeNamesRenamesTwice) {
  const ScratchFolder folder;
  const std::filesystem::path name = folder / "step_00000007", written = folder / ".step_00000007.partial";
  std::filesystem::create_directories(name / "old");
  std::filesystem::create_directories(written / "new");
  const std::filesystem::path left = replace_by_renaming(written, name);
  EXPECT_TRUE(std::filesystem::exists(name / "new"));
  EXPECT_TRUE(std::filesystem::exists(left / "old"));
  remove_leftovers(folder.path());
  EXPECT_EQ(names_in(folder.path()), std::set<std::string>{"step_00000007"});
}

TEST(Save, ReplacesAnIncompleteCheckpointOfTheSameStep) {
  const ScratchFolder folder;
  const State state = sample_state(7);
  std::filesystem::remove(save(folder.path(), state, {}) / marker_name);
  EXPECT_TRUE(list(folder.path()).empty());
  expect_reads_back(save(folder.path(), state, {}), state);
}

TEST(Save, RefusesTwoSavesIntoOneFolderAtATime) {
  const ScratchFolder folder;
  const FileLock lock(folder / lock_name, "held");
  EXPECT_THAT(user_error([&] { save(folder.path(), sample_state(1), {}); }), HasSubstr("another save into"));
}

TEST(Save, ARefusedWriteLeavesEarlierCheckpointsAlone) {
  const ScratchFolder folder;
  const State first = sample_state(1);
  save(folder.path(), first, {.keep = 1});
  // Limits that make the save fail in the configuration, in the first weights and in the manifest.
  for (rlim_t bytes : {10, 500, 2300}) {
    const std::string message = user_error([&] {
      const FileSizeLimit limit(bytes);
      save(folder.path(), sample_state(2), {.keep = 1});
    });
    EXPECT_THAT(message, testing::AllOf(HasSubstr("step_00000002 was not saved"), HasSubstr("File too large"),
                                        HasSubstr("needs"), HasSubstr("were free"), HasSubstr("Earlier checkpoints")))
        << bytes;
    EXPECT_EQ(names_in(folder.path()), std::set<std::string>{"step_00000001"});
  }
  expect_reads_back(folder / "step_00000001", first);
}

TEST(Save, OtherRefusalsAreNotCalledAFullDisk) {
  const ScratchFolder folder;
  std::ofstream(folder / "file") << "in the way";
  EXPECT_THAT(user_error([&] { save(folder / "file/run", sample_state(2), {}); }),
              testing::AllOf(HasSubstr("step_00000002 was not saved"), HasSubstr("Not a directory"),
                             HasSubstr("choose another checkpoint.folder"), testing::Not(HasSubstr("free")),
                             testing::Not(HasSubstr("room"))));
  if (::geteuid() != 0) return;
  // Root may write anywhere, so this process becomes the user nobody for a moment.
  save(folder / "run", sample_state(1), {});
  std::filesystem::permissions(folder.path(), std::filesystem::perms(0755));
  ASSERT_EQ(::seteuid(65'534), 0);
  const std::string message = user_error([&] { save(folder / "run", sample_state(2), {}); });
  ASSERT_EQ(::seteuid(0), 0);
  EXPECT_THAT(message, testing::AllOf(HasSubstr("Permission denied"), testing::Not(HasSubstr("free"))));
  EXPECT_EQ(names_in(folder / "run"), std::set<std::string>{"step_00000001"});
}

TEST(Save, RefusesWhatDoesNotFitBeforeItFillsTheDisk) {
  const ScratchFolder folder;
  State state = sample_state(1);
  const at::Tensor huge = at::arange(1, at::kFloat).expand({int64_t{1} << 48});
  state.collections[0].tensors.push_back(replicated("huge", huge));
  EXPECT_THAT(user_error([&] { save(folder.path(), state, {}); }),
              testing::AllOf(HasSubstr("the disk is too full"), HasSubstr("it needs more than 1.0 PiB"),
                             HasSubstr("were free")));
  const auto advice = [&](int64_t keep) { return user_error([&] { save(folder.path(), state, {.keep = keep}); }); };
  EXPECT_THAT(advice(3), HasSubstr("Make room, lower checkpoint.keep = 3 or choose another checkpoint.folder"));
  EXPECT_THAT(advice(1), HasSubstr("Make room, or choose another checkpoint.folder"));
  EXPECT_THAT(advice(0), HasSubstr("set checkpoint.keep, whose 0 keeps all checkpoints, to a number such as 2, or "));
  EXPECT_TRUE(names_in(folder.path()).empty());
}

// Saves one step after another, each twice, until it is killed. All numbers in one save have the same salt.
[[noreturn]] void save_forever(const std::filesystem::path& folder) {
  for (int64_t step = 2;; ++step) {
    for (double salt : {0.5, 0.25}) save(folder, sample_state(step, static_cast<double>(step) + salt), {.keep = 2});
  }
}

TEST(Save, AKilledSaveLeavesOnlyWholeCheckpoints) {
  const ScratchFolder folder;
  save(folder.path(), sample_state(1, 1.0), {.keep = 2});
  int interrupted = 0;
  for (uint64_t round = 0; round < 16; ++round) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) save_forever(folder.path());
    // A save takes some 10 to 100 ms: kills come in the first and in later ones.
    ::usleep(500 + philox_at({3, 4}, round, 0)[0] % 200'000);
    ::kill(child, SIGKILL);
    ASSERT_EQ(::waitpid(child, nullptr, 0), child);

    const auto checkpoints = list(folder.path());
    ASSERT_FALSE(checkpoints.empty());
    interrupted += names_in(folder.path()).size() != checkpoints.size();
    for (const auto& path : checkpoints) {
      const double salt = Reader(path).trainer().at("salt").get<double>();
      expect_reads_back(path, sample_state(*step_of(path), salt));
    }
  }
  EXPECT_GT(interrupted, 0) << "no kill came in the middle of a save";
  const int64_t step = *step_of(list(folder.path()).back());
  save(folder.path(), sample_state(step + 1), {.keep = 1});
  EXPECT_EQ(steps_in(folder.path()), std::vector<int64_t>{step + 1});
  for (const std::string& name : names_in(folder.path())) EXPECT_NE(name[0], '.') << name;
}

TEST(Newest, PassesOverIncompleteOnes) {
  const ScratchFolder folder;
  EXPECT_EQ(newest(folder / "absent"), std::nullopt);
  for (int64_t step : {9, 10, 100}) save(folder.path(), sample_state(step), {.keep = 0});
  std::filesystem::remove(folder / "step_00000100/COMPLETE");
  std::filesystem::create_directory(folder / "step_200");  // not our spelling
  std::filesystem::create_directory(folder / ".step_00000300.partial");
  EXPECT_EQ(newest(folder.path()), folder / "step_00000010");
  EXPECT_EQ(steps_in(folder.path()), (std::vector<int64_t>{9, 10}));
}

TEST(Resolve, TakesACheckpointOrARunFolder) {
  const ScratchFolder folder;
  for (int64_t step : {1, 2}) save(folder / "run", sample_state(step), {});
  EXPECT_EQ(resolve(folder / "run"), folder / "run/step_00000002");
  EXPECT_EQ(resolve(folder / "run/"), folder / "run/step_00000002");
  EXPECT_EQ(resolve(folder / "run/step_00000001/"), folder / "run/step_00000001");
  std::filesystem::rename(folder / "run/step_00000001", folder / "best");
  EXPECT_EQ(resolve(folder / "best"), folder / "best");
  EXPECT_EQ(Reader(folder / "best").step(), 1);
  EXPECT_THAT(user_error([&] { resolve(folder.path()); }), HasSubstr("neither a checkpoint"));
  EXPECT_THAT(user_error([&] { resolve(folder / "absent"); }), HasSubstr("there is no folder"));
}

}  // namespace
}  // namespace terrace::checkpoint
