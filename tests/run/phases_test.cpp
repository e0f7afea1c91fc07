// Runs whose data and batch change at a step: resumed before, at and inside a phase they equal the run that never
// stopped bit for bit, and they say what they do.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "terrace/base/error.h"
#include "terrace/base/files/file.h"
#include "terrace/base/text/json.h"
#include "terrace/observe/metrics.h"
#include "terrace/observe/summary.h"
#include "terrace/run/check_run.h"
#include "terrace/run/run_training.h"
#include "tests/train/tiny_run.h"

namespace terrace::run {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Keys = std::vector<std::string>;

class PhasedRun : public train::TinyRun {
 protected:
  void SetUp() override {
    train::TinyRun::SetUp();
    write_corpus(11, "other", {9, 1});
  }

  std::string corpus(const std::string& name) const { return "'" + (folder_ / name).string() + "'"; }

  // `tables` are the phases, each between braces; corpora stand in them as CORPUS and OTHER.
  config::Config config_of(const std::string& name, std::string tables, const Keys& more = {}) const {
    for (const auto& [word, path] : {std::pair{"CORPUS", corpus("corpus")}, {"OTHER", corpus("other")}}) {
      for (size_t at = tables.find(word); at != std::string::npos; at = tables.find(word)) {
        tables.replace(at, std::string(word).size(), path);
      }
    }
    Keys keys = {"train.threads=1", "checkpoint.folder=" + (folder_ / name).string(), "data.phases=[" + tables + "]"};
    keys.insert(keys.end(), more.begin(), more.end());
    return tiny_config(keys);
  }

  static RunOptions options_of(int64_t ranks, const std::string& resume, int64_t stop_after) {
    return {.ranks = ranks,
            .resume = resume,
            .measure_peak =
                [](const at::Device&, at::ScalarType) {
                  return train::Peak{1e9, "a peak for the test"};
                },
            .stop_after = stop_after};
  }
  static RunResult start(const config::Config& config, int64_t ranks = 1, int64_t stop_after = 0) {
    return run_training(config, options_of(ranks, "", stop_after));
  }
  static RunResult resume(const config::Config& config, int64_t ranks = 1) {
    return run_training(config, options_of(ranks, "auto", 0));
  }
  static std::string error_of_resume(const config::Config& config) {
    try {
      resume(config);
      return "";
    } catch (const UserError& error) {
      return error.what();
    }
  }

  // Losses, tokens and weights of two finished runs.
  void expect_same_runs(const config::Config& a, const RunResult& of_a, const config::Config& b,
                        const RunResult& of_b) const {
    train::Trainer first(a, {}), second(b, {});
    first.resume(checkpoint::Reader(of_a.checkpoint));
    second.resume(checkpoint::Reader(of_b.checkpoint));
    expect_equal(snapshot(first), snapshot(second));
    EXPECT_EQ(first.items_done(), second.items_done());
    EXPECT_EQ(observe::read_losses(a.checkpoint.folder).training, observe::read_losses(b.checkpoint.folder).training);
  }
};

struct PhaseCase {
  std::string name, tables;
  int64_t ranks;
};

void PrintTo(const PhaseCase& phase_case, std::ostream* out) { *out << phase_case.name; }

class PhasedResume : public PhasedRun, public testing::WithParamInterface<PhaseCase> {};

TEST_P(PhasedResume, ContinuesBitForBit) {
  const auto& [name, tables, ranks] = GetParam();
  const config::Config whole = config_of("whole", tables), plain = config_of("plain", "");
  const RunResult result = start(whole, ranks);
  const RunResult without = start(plain, ranks);
  const auto losses = observe::read_losses(folder_ / "whole").training,
             plain_losses = observe::read_losses(folder_ / "plain").training;
  EXPECT_TRUE(std::equal(losses.begin(), losses.begin() + 4, plain_losses.begin()));
  EXPECT_NE(losses.at(4), plain_losses.at(4));
  for (const int64_t stop : {3, 4, 5, 7}) {
    SCOPED_TRACE(stop);
    const config::Config again = config_of(fmt::format("again{}", stop), tables);
    EXPECT_FALSE(start(again, ranks, stop).finished);
    expect_same_runs(whole, result, again, resume(again, ranks));
    if (stop >= 5) continue;
    // The phase is added when the run is resumed.
    const std::string folder = fmt::format("added{}", stop);
    start(config_of(folder, ""), ranks, stop);
    const config::Config added = config_of(folder, tables);
    expect_same_runs(whole, result, added, resume(added, ranks));
  }
}

std::vector<PhaseCase> phase_cases() {
  std::vector<PhaseCase> cases;
  for (const int64_t ranks : {1, 2}) {
    const auto add = [&](const std::string& name, const std::string& tables) {
      cases.push_back({fmt::format("{}On{}", name, ranks), tables, ranks});
    };
    add("GlobalBatch", "{from_step = 5, global_batch = 8}");
    add("Corpora", "{from_step = 5, train = [OTHER]}, {from_step = 8, train = [CORPUS, OTHER]}");
    add("Mix",
        "{from_step = 5, train = [CORPUS, OTHER], weights = [1, 2], global_batch = 12}, {from_step = 7, weights "
        "= [3, 1]}");
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Train, PhasedResume, testing::ValuesIn(phase_cases()),
                         [](const auto& info) { return info.param.name; });

TEST_F(PhasedRun, EndsARampUpWhereItChangesTheBatch) {
  const Keys ramp = {"train.ramp_start=2", "train.ramp_increment=2", "train.ramp_samples=100"};
  train::Trainer trainer(config_of("run", "{from_step = 3, train = [OTHER]}, {from_step = 5, global_batch = 6}", ramp),
                         {});
  std::vector<int64_t> tokens;
  for (int step = 1; step <= 6; ++step) tokens.push_back(trainer.step().metrics.items);
  EXPECT_EQ(tokens, (std::vector<int64_t>{32, 64, 96, 128, 128 + 96, 128 + 192}));
}

TEST_F(PhasedRun, RecordsItsPhases) {
  const config::Config config =
      config_of("run", "{from_step = 5, train = [CORPUS, OTHER], weights = [1, 3]}, {from_step = 9, global_batch = 8}");
  start(config);
  const observe::RunMetrics metrics = observe::read_metrics(folder_ / "run");
  for (const auto& [step, line] : metrics.steps) EXPECT_EQ(line.phase, step < 5 ? 0 : step < 9 ? 1 : 2) << step;
  EXPECT_TRUE(metrics.names.figures.empty());
  EXPECT_EQ(config::load(folder_ / "run/resolved.toml", models::families()), config);
  const Json phases = observe::summarize_run(folder_ / "run").at("phases");
  ASSERT_EQ(phases.size(), 2u);
  EXPECT_EQ(phases[1], Json({{"from_step", 9}, {"changes", "global_batch = 8"}}));
  EXPECT_THAT(phases[0].at("changes").get<std::string>(), HasSubstr("weights = [1.0, 3.0]"));
  start(config_of("plain", ""));
  EXPECT_FALSE(observe::summarize_run(folder_ / "plain").contains("phases"));
  EXPECT_EQ(read_text(folder_ / "plain/metrics.jsonl").find("phase"), std::string::npos);
}

TEST_F(PhasedRun, RefusesToChangeAPhaseThatHasBegun) {
  const std::string tables = "{from_step = 5, train = [OTHER]}";
  start(config_of("run", tables), 1, 6);
  EXPECT_THAT(error_of_resume(config_of("run", "{from_step = 5, global_batch = 8}")),
              AllOf(HasSubstr("data.phases[1] (from_step = 5): train = "),
                    HasSubstr("(from_step = 5): global_batch = 4 "
                              "in the checkpoint, but 8 now"),
                    HasSubstr("a from_step of 7 or more")));
  EXPECT_THAT(error_of_resume(config_of("run", "")), HasSubstr("is in the checkpoint with train = "));
  EXPECT_THAT(error_of_resume(config_of("run", tables + ", {from_step = 6, global_batch = 8}")),
              HasSubstr("(from_step = 6) is not in the checkpoint, which has done 6 steps"));
  EXPECT_THAT(error_of_resume(config_of("run", tables, {"data.train=[" + corpus("other") + "]"})),
              HasSubstr("add [[data.phases]] with a from_step of 7 or more"));
  write_corpus(12, "other", {9, 1});
  EXPECT_THAT(error_of_resume(config_of("run", tables)), HasSubstr("corpus other had"));
}

TEST_F(PhasedRun, ChecksTheFilesAndRanksOfAllPhases) {
  const config::Config config = config_of(
      "run", "{from_step = 3, train = ['no/corpus']}, {from_step = 5, train = ['no/more'], global_batch = 6}");
  const RunCheck check = check_run(config, options_of(2, "", 0));
  EXPECT_EQ(check.code, ExitCode::bad_input);
  const std::string problems = fmt::format("{}", fmt::join(check.problems, "\n"));
  EXPECT_THAT(problems,
              AllOf(HasSubstr("data.phases[1].train = \"no/corpus\""), HasSubstr("data.phases[2].train = \"no/more\""),
                    HasSubstr("data.phases[2] (from_step = 5): a step does not fit the ranks"),
                    HasSubstr("train.micro_batch = 2 does not divide the 3 sequences")));
}

}  // namespace
}  // namespace terrace::run
