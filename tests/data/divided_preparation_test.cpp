// Processes that prepare text or graphs together write what one process writes, also after all of them were killed, do
// no finished file again, and refuse together.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <zstd.h>

#include <atomic>
#include <csignal>
#include <filesystem>
#include <set>

#include "terrace/data/file_parts.h"
#include "terrace/data/text/prepare.h"
#include "tests/data/folder_ranks.h"
#include "tests/data/graph_files.h"
#include "tests/data/test_corpus.h"

namespace terrace::data {
namespace {

namespace fs = std::filesystem;

using testing::AllOf;
using testing::Each;
using testing::HasSubstr;

// A kind of data: its inputs, its outputs, and how it is prepared.
class Divided : public testing::Test {
 protected:
  struct Run {
    std::string output;
    bool resume = false;
    PrepareRanks* ranks = nullptr;
    const std::atomic<bool>* stop = nullptr;
  };
  virtual void prepare_alone(const Run& run) = 0;
  virtual std::vector<std::string> endings() const = 0;

  Divided() { fs::create_directories(folder_.path() / "out"); }

  std::vector<pid_t> start(int64_t ranks, Run run) {
    texts_ = folder_.path() / fmt::format("run_{}", runs_++);
    return start_ranks(texts_, ranks, [this, run](PrepareRanks& all) mutable {
      run.ranks = &all;
      prepare_alone(run);
    });
  }

  void prepare_on(int64_t ranks, const Run& run) {
    ASSERT_THAT(ended_ranks(start(ranks, run)), Each(0)) << text_of_rank(0);
  }

  std::string text_of_rank(int64_t rank) const { return read_text(texts_ / fmt::format("text_{}", rank)); }

  void expect_same(const std::string& output, const std::string& expected, const std::string& when) const {
    for (const std::string& ending : endings()) {
      EXPECT_TRUE(read_text(folder_ / (output + ending)) == read_text(folder_ / (expected + ending)))
          << output << ending << " " << when;
    }
  }

  std::set<std::string> names_of_output() const {
    std::set<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_.path() / "out")) names.insert(entry.path().filename());
    return names;
  }

  void write_the_bytes_of_one_process() {
    prepare_alone({.output = "out/one"});
    for (const int64_t ranks : {2, 3, 5}) {
      const std::string output = fmt::format("out/of_{}", ranks);
      prepare_on(ranks, {.output = output});
      expect_same(output, "out/one", fmt::format("by {} ranks", ranks));
    }
    EXPECT_EQ(names_of_output().size(), 4 * endings().size());  // and no folder of parts
  }

  // Kills three ranks when some input files are finished, and continues with one, two and three.
  void continue_what_killed_ones_left() {
    prepare_alone({.output = "out/one"});
    int continued = 0;
    for (int attempt = 0; attempt < 6; ++attempt) {
      const std::vector<pid_t> children = start(3, {.output = "out/p"});
      const auto journals = [&] {
        int found = 0;
        for (int rank = 0; rank < 3; ++rank) found += fs::exists(folder_ / fmt::format("out/p.parts/0.{}.jsonl", rank));
        return found;
      };
      while (!fs::exists(texts_ / "text_0") && journals() < attempt % 3 + 1) {
        std::this_thread::sleep_for(std::chrono::microseconds(100));
      }
      for (const pid_t child : children) ::kill(child, SIGKILL);
      ended_ranks(children);
      continued += journals() > 0 ? 1 : 0;
      prepare_on(attempt % 3 + 1, {.output = "out/p", .resume = true});
      expect_same("out/p", "out/one", fmt::format("attempt {}", attempt));
      EXPECT_EQ(names_of_output().size(), 2 * endings().size()) << "attempt " << attempt;
    }
    EXPECT_GT(continued, 0);
  }

  TemporaryFolder folder_;
  fs::path texts_;
  int runs_ = 0;
};

class DividedText : public Divided {
 protected:
  DividedText() {
    folder_.write("tokenizer.model", sample_model());
    const std::string text = sample_english();
    for (int number = 0; number < 12; ++number) {
      const std::string part = text.substr(static_cast<size_t>(number) * 1000, 3000);
      if (number % 3 == 0) {
        folder_.write(fmt::format("in/{:02}.txt", number), part + text);
      } else if (number % 3 == 1) {
        std::string lines;
        for (size_t line = 0; line < 40; ++line)
          lines +=
              Json{{"text", part.substr(line * 50, 600)}}.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
        folder_.write(fmt::format("in/{:02}.jsonl", number), lines);
      } else {
        std::string packed(text.size() + 1000, '\0');
        packed.resize(ZSTD_compress(packed.data(), packed.size(), text.data(), text.size(), 3));
        folder_.write(fmt::format("in/{:02}.txt.zst", number), packed);
      }
    }
    folder_.write("in/empty.jsonl", "");
    folder_.write("in/zero.txt", "");
  }

  PrepareOptions options(const Run& run) const {
    PrepareOptions options;
    options.inputs = {folder_ / "in"};
    options.output = folder_ / run.output;
    options.tokenizer = trains_ ? folder_ / run.output + ".model" : folder_ / "tokenizer.model";
    options.train = trains_;
    options.vocabulary = 450;
    options.threads = 1;
    options.overwrite = true;
    options.resume = run.resume;
    options.ranks = run.ranks;
    options.seconds_between_records = 0;
    options.stop = run.stop;
    options.rules.block_bytes = 1000;
    return options;
  }

  void prepare_alone(const Run& run) override { report_ = prepare(options(run)); }
  std::vector<std::string> endings() const override {
    std::vector<std::string> all = {".bin", ".idx", ".corpus.json"};
    if (trains_) all.emplace_back(".model");
    return all;
  }

  bool trains_ = false;
  PrepareReport report_;
};

TEST_F(DividedText, HasTheBytesOfOneProcess) { write_the_bytes_of_one_process(); }

TEST_F(DividedText, HasTheBytesOfOneProcessWithATokenizerThatIsTrained) {
  trains_ = true;
  write_the_bytes_of_one_process();
}

TEST_F(DividedText, IsContinuedWhereKilledRanksWere) { continue_what_killed_ones_left(); }

TEST_F(DividedText, TrainsATokenizerOnceAlsoWhenItIsContinued) {
  trains_ = true;
  continue_what_killed_ones_left();
}

TEST_F(DividedText, ReportsTheCountsOfAllFilesAlsoOfThoseThatWereFinishedBefore) {
  prepare_alone({.output = "out/one"});
  const PrepareReport expected = report_;
  EXPECT_EQ(expected.files, 14u);
  std::vector<pid_t> children = start(2, {.output = "out/p"});
  while (!fs::exists(folder_ / "out/p.parts/0.1.jsonl") && !fs::exists(texts_ / "text_1")) {
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  for (const pid_t child : children) ::kill(child, SIGKILL);
  ended_ranks(children);
  prepare_alone({.output = "out/p", .resume = true});
  EXPECT_EQ(report_.json_of_counts(), expected.json_of_counts());
}

TEST_F(DividedText, FinishedFilesAreNotReadAgain) {
  prepare_alone({.output = "out/one"});
  // The run waits for the last input, a pipe, and is interrupted when some files are finished.
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  std::atomic<bool> stop = false;
  PrepareOptions stopped = options({.output = "out/p", .stop = &stop});
  stopped.inputs.push_back(fmt::format("/dev/fd/{}", ends[0]));
  const fs::path journal = folder_.path() / "out/p.parts/0.0.jsonl";
  const std::jthread watch([&] {
    while (!fs::exists(journal)) std::this_thread::sleep_for(std::chrono::microseconds(50));
    stop = true;
    ::close(ends[1]);
  });
  EXPECT_THAT(user_error([&] { prepare(stopped); }),
              AllOf(HasSubstr("interrupted; nothing was written"), HasSubstr("--resume continues")));
  ASSERT_TRUE(fs::exists(journal));
  // Other content of the same size and time in the first file, which was finished: it stays as it was read.
  const fs::path first = folder_.path() / "in/00.txt";
  const auto changed = fs::last_write_time(first);
  folder_.write("in/00.txt", std::string(fs::file_size(first), '#'));
  fs::last_write_time(first, changed);
  prepare_alone({.output = "out/p", .resume = true});
  expect_same("out/p", "out/one", "continued");
  EXPECT_FALSE(fs::exists(folder_ / "out/p.parts"));
  prepare_alone({.output = "out/p"});
  EXPECT_FALSE(read_text(folder_ / "out/p.bin") == read_text(folder_ / "out/one.bin"));
}

TEST_F(DividedText, RefusesOnAllRanksAtOnce) {
  const std::string bad = folder_.write("in/bad.jsonl", std::string(70000, ' ') + "\n{oops\n");
  EXPECT_THAT(ended_ranks(start(3, {.output = "out/p"})), Each(2));
  EXPECT_THAT(text_of_rank(0), AllOf(HasSubstr("1 malformed line so far"), HasSubstr(bad + ":2: not JSON")));
  EXPECT_EQ(text_of_rank(1) + text_of_rank(2), "");
  EXPECT_TRUE(names_of_output().empty());
  fs::remove(bad);
  folder_.write("tokenizer.model", "none");
  EXPECT_THAT(ended_ranks(start(2, {.output = "out/p"})), Each(2));
  EXPECT_THAT(text_of_rank(0), HasSubstr("tokenizer.model"));
  EXPECT_EQ(text_of_rank(1), "");
  EXPECT_TRUE(names_of_output().empty());
}

TEST_F(DividedText, RefusesAPipeThatRanksCannotShare) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const std::string name = fmt::format("/dev/fd/{}", ends[0]);
  const std::vector<pid_t> children = start_ranks(folder_.path() / "pipe", 2, [&](PrepareRanks& all) {
    PrepareOptions with_pipe = options({.output = "out/p", .ranks = &all});
    with_pipe.inputs = {name};
    prepare(with_pipe);
  });
  EXPECT_THAT(ended_ranks(children), Each(2));
  EXPECT_THAT(read_text(folder_ / "pipe/text_0"), HasSubstr(name + " is a pipe, which 2 processes cannot share"));
}

class DividedGraphs : public Divided {
 protected:
  DividedGraphs() {
    for (int number = 0; number < 9; ++number) write_frames(number, 30 * (number % 4) + 5, "");
  }

  std::string write_frames(int number, int count, const std::string& behind) const {
    std::string text;
    for (int frame = 0; frame < count; ++frame) {
      text += fmt::format("2\nenergy={} Lattice=\"{} 0 0 0 5 0 0 0 6\" Properties=species:S:1:pos:R:3:forces:R:3\n",
                          number + frame * 0.37, 4 + frame % 3);
      text += fmt::format("H 0 0 {} 0.5 {} 1\nC 1.5 0 {} 1 2 {}\n", 0.001 * frame, number, 0.1 * number, frame);
    }
    return folder_.write(fmt::format("in/{}.extxyz", number), text + behind);
  }

  void prepare_alone(const Run& run) override {
    GraphsPreparation(0).prepare({.inputs = {folder_ / "in"},
                                  .output = folder_ / run.output,
                                  .overwrite = true,
                                  .threads = 1,
                                  .flags = run.resume ? GraphFlags{{"split", {"0.6", "0.2", "0.2"}}, {"resume", {}}}
                                                      : GraphFlags{{"split", {"0.6", "0.2", "0.2"}}},
                                  .ranks = run.ranks,
                                  .stop = run.stop});
  }
  std::vector<std::string> endings() const override { return {".bin", ".json"}; }
};

TEST_F(DividedGraphs, HaveTheBytesOfOneProcess) { write_the_bytes_of_one_process(); }

TEST_F(DividedGraphs, AreContinuedWhereKilledRanksWere) { continue_what_killed_ones_left(); }

TEST_F(DividedGraphs, WithGivenEdgesHaveTheBytesOfOneProcess) {
  fs::remove_all(folder_.path() / "in");
  for (int number = 0; number < 4; ++number) {
    folder_.write(fmt::format("in/{}.vtk", number),
                  fmt::format("# vtk DataFile Version 3.0\nmesh\nASCII\nDATASET UNSTRUCTURED_GRID\nPOINTS 4 double\n"
                              "0 0 0\n1 0 0\n0 {} 0\n1 1 1\nCELLS 2 8\n3 0 1 2\n3 1 2 3\nCELL_TYPES 2\n5\n5\n",
                              number + 1));
  }
  write_the_bytes_of_one_process();
}

TEST_F(DividedGraphs, AreRefusedOnAllRanksWithTheProblemsOfAll) {
  const std::string a = write_frames(7, 95, "1\nenergy=inf\nH 0 0 0\n"),
                    b = write_frames(3, 90, "3\nenergy=1\nH 0 0 0\n");
  EXPECT_THAT(ended_ranks(start(3, {.output = "out/p"})), Each(2));
  EXPECT_THAT(text_of_rank(0), AllOf(HasSubstr(a + ": structure 96: energy is inf"), HasSubstr(b + ": structure 91")));
  EXPECT_EQ(text_of_rank(1) + text_of_rank(2), "");
  EXPECT_TRUE(names_of_output().empty());
}

}  // namespace
}  // namespace terrace::data
