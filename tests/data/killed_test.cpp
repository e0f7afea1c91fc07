// A corpus and the tokenizer trained for it are replaced together, whenever the run that replaces them is killed.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>

#include "terrace/data/text/loader.h"
#include "terrace/data/text/prepare.h"
#include "terrace/data/text/token_corpus.h"
#include "terrace/data/text/tokenizer.h"
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

// What a run would train on, decoded; "" where it is refused.
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

}  // namespace
}  // namespace terrace::data
