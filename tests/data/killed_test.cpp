// A corpus and the tokenizer trained for it are replaced together, whenever the run that replaces them is killed, and a
// preparation of fields that is killed can be continued.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <optional>

#include "terrace/data/fields/fields_dataset.h"
#include "terrace/data/fields/preparation/fields_progress.h"
#include "terrace/data/text/loader.h"
#include "terrace/data/text/prepare.h"
#include "terrace/data/text/token_corpus.h"
#include "terrace/data/text/tokenizer/tokenizer.h"
#include "tests/data/fields_files.h"
#include "tests/data/test_corpus.h"

namespace {

// Calls of fsync() and rename() that are left before the process kills itself at one; 0: it never does.
int calls_left = 0;

void count_call() {
  if (calls_left > 0 && --calls_left == 0) ::raise(SIGKILL);
}

}  // namespace

// Stand in for the C library's in this program: between two of them nothing changes that outlives the process.
extern "C" int fsync(int descriptor) {
  count_call();
  return static_cast<int>(::syscall(SYS_fsync, descriptor));
}

extern "C" int rename(const char* from, const char* to) noexcept {
  count_call();
  return static_cast<int>(::syscall(SYS_renameat, AT_FDCWD, from, AT_FDCWD, to));
}

namespace terrace::data {
namespace {

namespace fs = std::filesystem;

PrepareOptions training_on(const TemporaryFolder& folder, const std::string& text, int64_t vocabulary) {
  PrepareOptions options;
  options.inputs = {folder.write("in/text", text)};
  options.output = folder / "out/c";
  options.tokenizer = folder / "tokenizers/t.model";
  options.train = true;
  options.vocabulary = vocabulary;
  options.threads = 1;
  options.overwrite = true;
  return options;
}

// The text that a run would train on, decoded; "" where it is refused.
std::string text_of_run(const PrepareOptions& options) {
  data::TextConfig config;
  config.train = {options.output};
  config.tokenizer = options.tokenizer;
  const std::string refused = user_error([&] { Loader(config, 4, 1000, 1); });
  if (!refused.empty()) return "";
  const TokenCorpus corpus(options.output, CorpusIndex::Check::all);
  std::vector<int64_t> tokens(corpus.tokens());
  corpus.read(0, tokens, 1000);
  return Tokenizer::open(options.tokenizer)->decode(std::vector<int32_t>(tokens.begin(), tokens.end()));
}

size_t files_below(const fs::path& folder) {
  return static_cast<size_t>(std::count_if(fs::recursive_directory_iterator(folder), fs::recursive_directory_iterator(),
                                           [](const auto& entry) { return entry.is_regular_file(); }));
}

TEST(KilledPrepare, LeavesTheOldTheNewOrNothingThatWouldBeTrainedOn) {
  const std::string old_text = sample_english(), new_text = sample_english() + "And that was all they ever heard.";
  std::string outcomes;  // by call at which the run is killed: old, new, or - where it is refused
  for (int call = 1; call < 100; ++call) {
    const TemporaryFolder folder;
    prepare(training_on(folder, old_text, 400));
    const PrepareOptions options = training_on(folder, new_text, 401);
    const pid_t child = ::fork();
    if (child == 0) {
      calls_left = call;
      prepare(options);
      ::_exit(0);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    const std::string text = text_of_run(options);
    ASSERT_TRUE(text.empty() || text == old_text || text == new_text) << "killed at call " << call;
    outcomes += text == old_text ? 'o' : text == new_text ? 'n' : '-';
    // The next run tidies up: the text, three files of the corpus, the tokenizer.
    prepare(options);
    ASSERT_EQ(text_of_run(options), new_text) << "after a kill at call " << call;
    ASSERT_EQ(files_below(folder.path()), 5u) << "after a kill at call " << call;
    if (WIFEXITED(status)) break;
  }
  // The old ones are whole until all the new ones are synced (tokenizer, index, tokens, record).
  EXPECT_THAT(outcomes, testing::MatchesRegex("oooo+-+n+"));
}

// Three files of two variables at four times each.
std::string write_files_of_fields(const TemporaryFolder& folder) {
  fs::create_directories(folder.path() / "in");
  for (int number = 0; number < 3; ++number) {
    TestFile file;
    for (double& time : file.times) time += 24 * number;
    for (const double shift : {1.0, 2.0}) {
      file.variables.push_back(
          {.name = shift == 1 ? "t" : "u", .value = [shift](double time, double, double latitude, double longitude) {
             return shift * time + latitude + longitude;
           }});
    }
    file.write(folder / ("in/" + std::to_string(number) + ".nc"));
  }
  return folder / "in";
}

// Records how far it has come after every block.
void prepare_recorded(const TemporaryFolder& folder, const Flags& flags) {
  FieldsPreparation(0).prepare(
      {.inputs = {folder / "in"}, .output = folder / "out/p", .overwrite = true, .threads = 1, .flags = flags});
}

// Whether it ended by itself.
bool killed_at_call(int call, const TemporaryFolder& folder, const Flags& flags) {
  const pid_t child = ::fork();
  if (child == 0) {
    calls_left = call;
    prepare_recorded(folder, flags);
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return !WIFEXITED(status);
}

TEST(KilledFields, ContinueToTheSameDataset) {
  const TemporaryFolder whole;
  write_files_of_fields(whole);
  prepare_recorded(whole, {});
  const FieldsDescription expected = read_fields_description(whole / "out/p.json");
  int continued = 0;
  for (int call = 1; call < 200; ++call) {
    const TemporaryFolder folder;
    write_files_of_fields(folder);
    const bool killed = killed_at_call(call, folder, {});
    continued += FieldsProgress::find(folder / "out/p") ? 1 : 0;
    prepare_recorded(folder, {{"resume", {}}});
    const FieldsDescription found = read_fields_description(folder / "out/p.json");
    ASSERT_EQ(found.fields.checksum, expected.fields.checksum) << "killed at call " << call;
    ASSERT_EQ(found.climatology_fields.checksum, expected.climatology_fields.checksum) << "killed at call " << call;
    ASSERT_EQ(files_below(folder.path() / "out"), 2u) << "after a kill at call " << call;
    if (!killed) break;
  }
  // Each of six blocks is recorded by several calls.
  EXPECT_GT(continued, 12);
}

TEST(KilledFields, FinishedFilesNotReadAgain) {
  const TemporaryFolder folder;
  write_files_of_fields(folder);
  int call = 1;
  std::optional<FieldsProgress::Left> left;
  while (!left || left->done.size() < 3) {
    ASSERT_TRUE(killed_at_call(call++, folder, {}));
    left = FieldsProgress::find(folder / "out/p");
  }
  // A value that the files do not have stays where it was written already, and only there.
  StoreFile(left->partial).write(left->fields, 5, std::vector<float>{1234});
  const std::string masked = user_error([&] { prepare_recorded(folder, {{"resume", {}}, {"mask", {}}}); });
  EXPECT_THAT(masked, testing::HasSubstr("--resume: the inputs or flags are not those"));
  prepare_recorded(folder, {{"resume", {}}});
  EXPECT_EQ(FieldsDataset(folder / "out/p").field(0, 0)[5], 1234);
  prepare_recorded(folder, {{"resume", {}}});
  EXPECT_NE(FieldsDataset(folder / "out/p").field(0, 0)[5], 1234);
}

TEST(KilledFields, BeginAgainWithoutResume) {
  const TemporaryFolder folder;
  write_files_of_fields(folder);
  int call = 1;
  while (!FieldsProgress::find(folder / "out/p")) ASSERT_TRUE(killed_at_call(call++, folder, {}));
  prepare_recorded(folder, {});
  EXPECT_EQ(files_below(folder.path() / "out"), 2u);
  EXPECT_FALSE(FieldsProgress::find(folder / "out/p"));
}

}  // namespace
}  // namespace terrace::data
