// Tests what an evaluation counts, that it ends when a stop is requested, and that a missing one is made once.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <optional>
#include <sstream>

#include "terrace/base/files/file.h"
#include "terrace/checkpoint/folder.h"
#include "terrace/comm/threads/threads.h"
#include "terrace/data/source.h"
#include "terrace/observe/metrics.h"
#include "terrace/run/evaluate_checkpoint.h"
#include "terrace/run/hooks/hooks.h"
#include "terrace/run/run_training.h"
#include "tests/train/tiny_run.h"

namespace terrace::run {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Keys = std::vector<std::string>;

struct EvaluationLayout {
  int64_t ranks;
  Keys keys;
};

const std::vector<EvaluationLayout> evaluation_layouts = {{1, {}},
                                                          {2, {"layout.sharding=zero3"}},
                                                          {3, {"layout.sharding=zero1"}},
                                                          {2, {"layout.pipeline=2"}},
                                                          {2, {"layout.tensor=2"}}};

// Stops the run on one rank before a batch of an evaluation, as a signal to that process would, and records what had
// been saved by then.
class StopBeforeBatch : public train::Hook {
 public:
  explicit StopBeforeBatch(int64_t batch) : batch_(batch) {}
  void after_step(train::Trainer&, const train::StepReport&) override {}
  void during_evaluation(train::Trainer& trainer) override {
    if (++seen_ != batch_ || trainer.rank() != trainer.mesh().size() - 1) return;
    trainer.stop("by a test");
    saved = checkpoint::newest(trainer.config().checkpoint.folder);
  }

  std::optional<std::filesystem::path> saved;

 private:
  int64_t batch_, seen_ = 0;
};

class EvaluationTest : public train::TinyRun {
 protected:
  config::Config config_of(const EvaluationLayout& layout, Keys keys = {}) const {
    keys.insert(keys.end(), layout.keys.begin(), layout.keys.end());
    keys.insert(keys.end(), {"train.threads=1", "train.global_batch=12", "train.micro_batch=1", "checkpoint.keep=0"});
    return tiny_config(keys);
  }

  // Stops the evaluation after the last step; returns what had been saved by then.
  std::optional<std::filesystem::path> stop_in_evaluation(const EvaluationLayout& layout, const Keys& keys,
                                                          int64_t batch) {
    std::optional<std::filesystem::path> saved;
    const config::Config config = config_of(layout, keys);
    std::filesystem::create_directories(config.checkpoint.folder);
    comm::run_threads(layout.ranks, {}, [&](comm::World& world) {
      train::Trainer trainer(config, {}, {}, &world);
      add_standard_hooks(trainer);
      auto stopping = std::make_unique<StopBeforeBatch>(batch);
      const StopBeforeBatch& seen = *stopping;
      trainer.add_hook(std::move(stopping));
      trainer.run();
      EXPECT_FALSE(trainer.finished());
      if (world.rank() == layout.ranks - 1) saved = seen.saved;
    });
    return saved;
  }

  RunResult start(const EvaluationLayout& layout, const Keys& keys, const std::string& resume = "auto") {
    return run_training(
        config_of(layout, keys),
        {.ranks = layout.ranks, .resume = resume, .measure_peak = [](const at::Device&, at::ScalarType) {
           return train::Peak{1e9, "a peak for the test"};
         }});
  }

  // The steps in metrics.jsonl, in the order of the file; an evaluation is shown by the negative of its step.
  std::vector<int64_t> lines() const {
    std::vector<int64_t> steps;
    std::istringstream stream(read_text(folder_ / "run/metrics.jsonl"));
    for (std::string text; std::getline(stream, text);) {
      const Json line = Json::parse(text);
      steps.push_back(line.contains("validation_loss") ? -line["step"].get<int64_t>() : line["step"].get<int64_t>());
    }
    return steps;
  }

  // A second corpus beside the first, of other documents.
  void write_second_corpus(int64_t documents) {
    write_corpus(documents);
    for (const char* ending : {".bin", ".idx"}) {
      std::filesystem::rename(folder_ / (std::string("corpus") + ending), folder_ / (std::string("second") + ending));
    }
    write_corpus(24);
  }

  std::string name(const char* corpus) const { return (folder_ / corpus).string(); }
  std::string both() const { return fmt::format("data.train=[\"{}\", \"{}\"]", name("corpus"), name("second")); }
};

// Each corpus has the loss that it has alone, and the whole is the mean over the targets of both, whatever the weights.
TEST_F(EvaluationTest, CountsEveryHeldOutSampleOnceAndEachCorpusByItself) {
  write_second_corpus(9);
  std::vector<double> losses;
  std::vector<int64_t> targets;
  for (const char* corpus : {"corpus", "second"}) {
    train::Trainer alone(config_of({1, {}}, {fmt::format("data.train=[\"{}\"]", name(corpus))}), {});
    const train::Evaluation evaluation = alone.evaluate(0).value();
    ASSERT_EQ(evaluation.by_dataset.size(), 1u);
    EXPECT_EQ(evaluation.by_dataset.front().loss, evaluation.all.loss);
    losses.push_back(evaluation.all.loss);
    targets.push_back(static_cast<int64_t>(text_of(alone).samples(data::Split::validation)) * 16);
  }
  ASSERT_NE(targets[0], targets[1]);
  const double mean = (losses[0] * static_cast<double>(targets[0]) + losses[1] * static_cast<double>(targets[1])) /
                      static_cast<double>(targets[0] + targets[1]);
  std::optional<double> without_weights;
  for (const char* weights : {"[]", "[0.999, 0.001]"}) {
    const std::string key = std::string("data.weights=") + weights;
    train::Trainer trainer(config_of({1, {}}, {both(), key}), {});
    const train::Evaluation evaluation = trainer.evaluate(0).value();
    // The sums of a few hundred losses are taken over other fp32 batches, so in another order.
    EXPECT_NEAR(evaluation.all.loss, mean, 1e-6 * mean) << weights;
    ASSERT_EQ(evaluation.by_dataset.size(), 2u);
    for (size_t i : {0u, 1u}) {
      EXPECT_EQ(evaluation.by_dataset[i].dataset, name(i == 0 ? "corpus" : "second"));
      EXPECT_NEAR(evaluation.by_dataset[i].loss, losses[i], 1e-6 * losses[i]) << weights;
    }
    EXPECT_EQ(evaluation.all.loss, without_weights.value_or(evaluation.all.loss));
    without_weights = evaluation.all.loss;
  }
}

// The corpora that are evaluated are those that the run held out, and the ranks those of the run.
TEST_F(EvaluationTest, ACheckpointHasTheLossOfItsRunBitForBit) {
  write_second_corpus(9);
  const std::string held_out = fmt::format("data.validation=[\"{}\"]", name("second"));
  for (const EvaluationLayout& layout : evaluation_layouts) {
    SCOPED_TRACE(fmt::format("{} ranks {}", layout.ranks, layout.keys.empty() ? "" : layout.keys.front()));
    start(layout, {held_out, "train.steps=3", "train.evaluate_every=3"});
    const double loss = observe::read_metrics(folder_ / "run").evaluations.at(3).validation_loss;
    EvaluationRequest request{
        .checkpoint = folder_ / "run", .datasets = {name("second")}, .ranks = layout.ranks, .threads = 1};
    const CheckpointEvaluation same = evaluate_checkpoint(request).value();
    EXPECT_EQ(same.evaluation.all.loss, loss);
    EXPECT_EQ(same.step, 3);
    request.datasets.clear();  // what the run held out
    EXPECT_EQ(evaluate_checkpoint(request)->evaluation.all.loss, loss);
    // One rank has the whole model, whatever the layout of the run.
    request.ranks = 1;
    EXPECT_NEAR(evaluate_checkpoint(request)->evaluation.all.loss, loss, 1e-6 * loss);
    std::filesystem::remove_all(folder_ / "run");
  }
}

TEST(CheckpointEvaluations, HaveTheBytesOfAllDatasets) {
  CheckpointEvaluation evaluation;
  EXPECT_EQ(evaluation.all_bytes(), 0u);
  evaluation.bytes = {3, 4};
  EXPECT_EQ(evaluation.all_bytes(), 7u);
}

TEST_F(EvaluationTest, ACheckpointIsEvaluatedOnEachCorpusAndWritesNothing) {
  write_second_corpus(9);
  start({1, {}}, {"train.steps=2"});
  const auto files = [&] {
    const std::filesystem::recursive_directory_iterator entries(folder_);
    return std::distance(begin(entries), end(entries));
  };
  const auto before = files();
  const CheckpointEvaluation both =
      evaluate_checkpoint({.checkpoint = folder_ / "run", .datasets = {name("corpus"), name("second")}, .threads = 1})
          .value();
  EXPECT_EQ(files(), before);
  ASSERT_EQ(both.evaluation.by_dataset.size(), 2u);
  double sum = 0;
  for (size_t i : {0u, 1u}) {
    const std::string corpus = both.evaluation.by_dataset[i].dataset;
    const double loss = both.evaluation.by_dataset[i].loss;
    const train::Evaluation alone =
        evaluate_checkpoint({.checkpoint = folder_ / "run", .datasets = {corpus}, .threads = 1})->evaluation;
    EXPECT_NEAR(loss, alone.all.loss, 1e-6 * loss);
    EXPECT_EQ(alone.all.count, both.evaluation.by_dataset[i].count);
    EXPECT_EQ(std::fmod(alone.all.count, 16), 0);  // whole sequences of 16 tokens
    sum += loss * alone.all.count;
  }
  EXPECT_NEAR(both.evaluation.all.loss, sum / both.evaluation.all.count, 1e-12 * both.evaluation.all.loss);
}

TEST_F(EvaluationTest, EveryMissingCorpusOfAnEvaluationIsNamed) {
  start({1, {}}, {"train.steps=2"});
  try {
    evaluate_checkpoint({.checkpoint = folder_ / "run", .datasets = {"absent", "none"}});
    FAIL() << "evaluates corpora that do not exist";
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), HasSubstr("--data = \"absent\": absent.bin does not exist"));
    EXPECT_THAT(error.what(), HasSubstr("none.bin does not exist"));
  }
}

// Evaluates 12 of the held-out samples.
TEST_F(EvaluationTest, ALimitedEvaluationTakesTheSameSamplesAtEveryLayout) {
  write_second_corpus(24);
  std::optional<train::Evaluation> one;
  for (const EvaluationLayout& layout : evaluation_layouts) {
    const config::Config config = config_of(layout, {both(), "data.weights=[3, 1]", "data.validation_share=0.4"});
    comm::run_threads(layout.ranks, {}, [&](comm::World& world) {
      train::Trainer trainer(config, {}, {}, &world);
      ASSERT_GT(text_of(trainer).samples(data::Split::validation), 12u);
      const train::Evaluation evaluation = trainer.evaluate(1).value(), again = trainer.evaluate(1).value();
      EXPECT_EQ(evaluation.all.loss, again.all.loss);
      if (layout.ranks == 1) one = evaluation;
      EXPECT_NEAR(evaluation.all.loss, one->all.loss, 1e-6 * one->all.loss);
      ASSERT_EQ(evaluation.by_dataset.size(), 2u);
      for (size_t i : {0u, 1u}) EXPECT_NEAR(evaluation.by_dataset[i].loss, one->by_dataset[i].loss, 1e-5);
    });
  }
}

// In the last round some of these ranks have no sample to route.
TEST_F(EvaluationTest, ExpertsOnRanksWithoutSamplesHaveTheLossOfOneRank) {
  std::optional<train::Evaluation> one;
  for (const int64_t ranks : {1, 4, 6}) {
    const config::Config config = config_of({ranks, {}}, {"model.experts=4", "data.validation_share=0.3"});
    comm::run_threads(ranks, {}, [&](comm::World& world) {
      train::Trainer trainer(config, {}, {}, &world);
      EXPECT_NE(text_of(trainer).samples(data::Split::validation) % 4, 0u);
      const train::Evaluation evaluation = trainer.evaluate(0).value();
      if (ranks == 1) one = evaluation;
      EXPECT_NEAR(evaluation.all.loss, one->all.loss, 1e-6 * one->all.loss);
      EXPECT_EQ(evaluation.all.count, one->all.count);
    });
  }
}

// Logits of tokens without targets.
TEST_F(EvaluationTest, OutputsAreTheSameAtEveryLayout) {
  std::vector<int64_t> tokens(2 * 16);
  for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<int64_t>(i * i % 50);
  at::Tensor one;
  for (const EvaluationLayout& layout : evaluation_layouts) {
    SCOPED_TRACE(fmt::format("{} ranks {}", layout.ranks, layout.keys.empty() ? "" : layout.keys.front()));
    const config::Config config = config_of(layout, {});
    std::atomic<int> with_last_unit = 0;
    comm::run_threads(layout.ranks, {}, [&](comm::World& world) {
      train::Trainer trainer(config, {}, {}, &world);
      const models::Outputs outputs =
          trainer.outputs({.samples = {0, 1}, .tensors = {{"tokens", data::HostTensor::of(tokens, {2, 16})}}});
      if (outputs.empty()) return;
      ++with_last_unit;
      const at::Tensor& logits = outputs.at("logits");
      EXPECT_FALSE(logits.requires_grad());
      if (layout.ranks == 1) one = logits;
      ASSERT_EQ(logits.sizes(), one.sizes());
      EXPECT_LE(logits.sub(one).abs().max().item<double>(), 1e-5 * one.abs().max().item<double>());
    });
    EXPECT_GT(with_last_unit, 0);
  }
}

TEST_F(EvaluationTest, LossesOfSeveralCorporaAreInTheMetrics) {
  write_second_corpus(9);
  start({1, {}}, {both(), "train.evaluate_every=10", "observe.csv=true"});
  const observe::RunMetrics metrics = observe::read_metrics(folder_ / "run");
  ASSERT_EQ(metrics.evaluations.size(), 1u);
  const observe::EvaluationMetrics& evaluation = metrics.evaluations.at(10);
  ASSERT_EQ(evaluation.by_dataset.size(), 2u);
  EXPECT_EQ(evaluation.by_dataset[1].dataset, name("second"));
  EXPECT_NE(evaluation.by_dataset[0].loss, evaluation.by_dataset[1].loss);
  EXPECT_THAT(read_text(folder_ / "run/metrics.csv"), HasSubstr(",validation_loss of " + name("second") +
                                                                ",validation_perplexity of " + name("second") + "\n"));
  for (const observe::DatasetMetrics& one : evaluation.by_dataset)
    EXPECT_DOUBLE_EQ(one.figures.at(0), std::exp(one.loss));
}

TEST_F(EvaluationTest, ASingleCorpusHasNoLossOfItsOwn) {
  start({1, {}}, {"train.evaluate_every=10"});
  EXPECT_TRUE(observe::read_metrics(folder_ / "run").evaluations.at(10).by_dataset.empty());
}

TEST_F(EvaluationTest, LastEvaluationFollowsTheCheckpointAndIsMadeOnce) {
  for (const EvaluationLayout& layout : evaluation_layouts) {
    for (const char* every : {"checkpoint.every=0", "checkpoint.every=5"}) {
      SCOPED_TRACE(fmt::format("{} ranks {} {}", layout.ranks, layout.keys.empty() ? "" : layout.keys.front(), every));
      const Keys keys = {"train.steps=5", "train.evaluate_every=100", every};
      // The run stops before the first batch of the evaluation, or in the middle of it.
      for (const int64_t batch : {1, 2}) {
        const auto saved = stop_in_evaluation(layout, keys, batch);
        ASSERT_TRUE(saved.has_value());
        EXPECT_EQ(saved->filename(), checkpoint::step_name(5));
        EXPECT_THAT(lines(), ElementsAre(1, 2, 3, 4, 5));
        for (int start_again = 0; start_again < 2; ++start_again) {
          const RunResult result = start(layout, keys);
          EXPECT_TRUE(result.finished);
          EXPECT_EQ(result.checkpoint, folder_ / "run" / checkpoint::step_name(5));
          EXPECT_THAT(lines(), ElementsAre(1, 2, 3, 4, 5, -5));
        }
        std::filesystem::remove_all(folder_ / "run");
      }
    }
  }
}

TEST_F(EvaluationTest, AStoppedEvaluationIsMadeBeforeTheNextStep) {
  for (const EvaluationLayout& layout : evaluation_layouts) {
    SCOPED_TRACE(fmt::format("{} ranks", layout.ranks));
    const Keys keys = {"train.steps=5", "train.evaluate_every=3", "observe.csv=true"};
    EXPECT_FALSE(stop_in_evaluation(layout, keys, 2).has_value()) << "saved before the evaluation of step 3";
    EXPECT_EQ(checkpoint::newest(folder_ / "run")->filename(), checkpoint::step_name(3));
    EXPECT_THAT(lines(), ElementsAre(1, 2, 3));
    EXPECT_TRUE(start(layout, keys).finished);
    EXPECT_THAT(lines(), ElementsAre(1, 2, 3, -3, 4, 5, -5));
    std::filesystem::remove_all(folder_ / "run");
  }
}

TEST_F(EvaluationTest, TheEvaluationOfASavedStepIsMadeExactlyOnce) {
  const Keys keys = {"train.steps=6", "train.evaluate_every=2", "checkpoint.every=2"};
  const EvaluationLayout& layout = evaluation_layouts[1];
  start(layout, keys);
  const std::vector<int64_t> whole = {1, 2, -2, 3, 4, -4, 5, 6, -6};
  EXPECT_EQ(lines(), whole);
  const std::string text = read_text(folder_ / "run/metrics.jsonl");
  // The files are those of a run that was killed after step 5, with a newest checkpoint of step 4; then the evaluation
  // of step 4 is lost too.
  std::filesystem::remove_all(folder_ / "run" / checkpoint::step_name(6));
  start(layout, keys);
  EXPECT_EQ(lines(), whole);
  EXPECT_EQ(observe::read_metrics(folder_ / "run").evaluations.size(), 3u);
  std::filesystem::remove_all(folder_ / "run" / checkpoint::step_name(6));
  const size_t begin = text.find("{\"step\":4,\"validation_loss\"");
  write_text_atomically(folder_ / "run/metrics.jsonl", text.substr(0, begin));
  start(layout, keys);
  EXPECT_EQ(lines(), whole);
}

TEST_F(EvaluationTest, ATimeLimitEndsAnEvaluationUnlessAStartBeginsWithIt) {
  const Keys keys = {"train.steps=1", "optimizer.warmup_steps=0", "train.evaluate_every=1",
                     "train.time_limit=0.000001"};
  const RunResult first = start(evaluation_layouts[1], keys, "");
  EXPECT_FALSE(first.finished);
  EXPECT_EQ(first.step, 1);
  EXPECT_THAT(first.stop_reason, HasSubstr("by train.time_limit"));
  EXPECT_THAT(lines(), ElementsAre(1));
  EXPECT_TRUE(start(evaluation_layouts[1], keys).finished);
  EXPECT_THAT(lines(), ElementsAre(1, -1));
}

// The second rank's machine may see nothing of a shared folder yet.
TEST_F(EvaluationTest, OnlyTheFirstRankLooksForTheNewestCheckpoint) {
  const EvaluationLayout& layout = evaluation_layouts[1];
  const RunResult result = start(layout, {"train.steps=2"}, "");
  const auto written = std::filesystem::last_write_time(result.checkpoint / "COMPLETE");
  comm::run_threads(2, {.timeout_seconds = 20}, [&](comm::World& world) {
    config::Config config = config_of(layout, {"train.steps=2"});
    if (world.rank() == 1) config.checkpoint.folder = (folder_ / "empty").string();
    train::Trainer trainer(config, {}, {}, &world);
    trainer.resume(checkpoint::Reader(result.checkpoint));
    trainer.add_hook(make_save_hook(trainer, {}));
    trainer.run();
    EXPECT_TRUE(trainer.finished());
  });
  EXPECT_EQ(std::filesystem::last_write_time(result.checkpoint / "COMPLETE"), written);
}

}  // namespace
}  // namespace terrace::run
