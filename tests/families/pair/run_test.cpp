// Tests a run of pairs from its configuration to its report: keys, losses, figures, evaluation, checkpoints and
// resumes.
#include <ATen/core/grad_mode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <set>

#include "terrace/base/error.h"
#include "terrace/base/files/file.h"
#include "terrace/config/document.h"
#include "terrace/models/exchange_of_family.h"
#include "terrace/models/text_of_family.h"
#include "terrace/observe/summary.h"
#include "tests/families/pair/config.h"
#include "tests/families/pair/model.h"
#include "tests/families/pair/runs.h"
#include "tests/families/pair/source.h"

namespace terrace::pair {
namespace {

using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::ThrowsMessage;

class FamilyRuns : public PairRuns {
 protected:
  std::string refusal(const std::vector<std::string>& overrides) const {
    try {
      config(overrides);
      return "";
    } catch (const UserError& error) {
      return error.what();
    }
  }
};

// All five samples of the first step at once, with the weights that every layout begins with.
TEST_F(FamilyRuns, EachLossIsAMeanOverTheWholeStep) {
  train::Trainer trainer(config({}), {});
  const PairSource source(data_of(trainer.config()), trainer.config().train.seed);
  std::vector<std::vector<float>> samples;
  for (uint64_t sample = 0; sample < 5; ++sample) samples.push_back(source.sample(sample));
  const models::Batch batch =
      models::on_host(micro_batch_of({0, 1, 2, 3, 4}, samples, {"features", "targets", "owner"}));
  std::vector<double> means;
  {
    const at::NoGradGuard no_grad;
    models::Model& model = trainer.model();
    const models::Pass pass{.gradient_scales = {1, 1, 1, 1, 1}};
    const models::Tensors sums = model.loss(5, model.forward(0, 5, {}, batch, pass), batch, pass);
    const double items = batch.counts[0];
    EXPECT_GT(items, 0);
    means = {sums[0].item<double>() / items, sums[1].item<double>() / 5, sums[2].item<double>() / items,
             sums[3].item<double>()};
  }
  for (const int64_t ranks : {1, 3, 8}) {
    const observe::RunMetrics metrics = run(ranks, {"train.steps=1", "train.micro_batch=1"}).metrics;
    EXPECT_THAT(metrics.names.figures, ElementsAre("loss_item", "loss_sample", "loss_absolute", "largest_error"));
    const observe::StepMetrics& step = metrics.steps.at(1);
    for (size_t term = 0; term < 4; ++term) EXPECT_NEAR(step.figures.at(term), means[term], 1e-5 * means[term]);
    // The third loss is only reported.
    EXPECT_NEAR(step.loss, means[0] + 0.25 * means[1], 1e-5 * step.loss);
    EXPECT_EQ(step.items, batch.counts[0]);
  }
}

TEST_F(FamilyRuns, ACheckpointKeepsTheFilesOfTheFamily) {
  const std::string samples = read_text(folder_ / "samples.txt");
  run::run_training(config({}), {.ranks = 2});
  const checkpoint::Reader reader(checkpoint::resolve(folder_ / "run"));
  EXPECT_EQ(reader.attached("samples").filename(), "samples.txt");
  EXPECT_EQ(read_text(reader.attached("samples")), samples);
  EXPECT_EQ(reader.attached("tokenizer"), "");
}

TEST_F(FamilyRuns, PartsThatTheFamilyLacksAreRefusedByNameWithWhatItHas) {
  const config::Config pairs = config({});
  EXPECT_THAT([&] { models::text_of_family(pairs); },
              ThrowsMessage<UserError>("models of model.family = \"pair\" generate no text; use terrace evaluate"));
  EXPECT_THAT([&] { models::exchange_of_family(pairs); },
              ThrowsMessage<UserError>("transformers has no layout for models of model.family = \"pair\"; use terrace "
                                       "evaluate"));
}

TEST_F(FamilyRuns, TheLossFalls) {
  const observe::RunMetrics metrics = run(2, {"train.steps=60", "train.global_batch=15"}).metrics;
  EXPECT_LT(metrics.steps.at(60).loss, 0.5 * metrics.steps.at(1).loss);
}

TEST_F(FamilyRuns, EveryFormatShowsTheFamilysFigures) {
  run(2, {"train.evaluate_every=2", "observe.csv=true"});
  const std::string line = read_text(folder_ / "run/metrics.jsonl");
  for (const char* key : {"\"items\":", "\"items_per_second\":", "\"loss_absolute\":", "\"validation_loss_item\":"}) {
    EXPECT_THAT(line, HasSubstr(key));
  }
  EXPECT_THAT(line, Not(HasSubstr("tokens")));
  EXPECT_THAT(read_text(folder_ / "run/metrics.csv"),
              testing::StartsWith(
                  "step,loss,gradient_norm,learning_rate,items,items_per_second,step_seconds,mfu,peak_"
                  "flops_per_second,memory_bytes,loss_item,loss_sample,loss_absolute,largest_error,validation_loss,"
                  "validation_loss_item,validation_loss_sample,validation_loss_absolute,validation_"
                  "largest_error,validation_weighted_rms,validation_weighted_error,"
                  "validation_sharpness\n1,"));
  const Json summary = observe::summarize_run(folder_ / "run");
  EXPECT_TRUE(summary["items_per_second"].is_number());
  EXPECT_TRUE(summary["validation_loss_sample"].is_number());
  const std::string report = observe::draw_summary(folder_ / "run");
  EXPECT_THAT(report, HasSubstr("loss_absolute"));
  EXPECT_THAT(report, ContainsRegex("weighted_rms +held-out [0-9.]+ m\n"));
  EXPECT_THAT(summary["figures"][6], (Json{{"name", "sharpness"}, {"unit", ""}, {"better", "higher"}}));
  EXPECT_THAT(report, HasSubstr(" items/s"));
  EXPECT_THAT(report, HasSubstr(" per item"));
  EXPECT_THAT(report, Not(HasSubstr("token")));
}

// A quarter of the 40 samples is held out. Eight ranks evaluate them in two rounds, and six ranks have no sample in the
// last round.
TEST_F(FamilyRuns, TheHeldOutLossIsTheSameOnAnyRanks) {
  const auto evaluated = [&](int64_t ranks, const std::string& batch) {
    return run(ranks, {"train.steps=1", "train.evaluate_every=1", batch, "optimizer.learning_rate=1e-9"})
        .metrics.evaluations.at(1);
  };
  const observe::EvaluationMetrics one = evaluated(1, "train.micro_batch=5");
  EXPECT_GT(one.validation_loss, 0);
  for (const int64_t ranks : {2, 8}) {
    const observe::EvaluationMetrics other = evaluated(ranks, "train.micro_batch=1");
    EXPECT_NEAR(other.validation_loss, one.validation_loss, 1e-5 * one.validation_loss);
    ASSERT_EQ(other.figures.size(), 7u);
    for (size_t i = 0; i < 7; ++i) EXPECT_NEAR(other.figures[i], one.figures[i], 1e-5 * one.figures[i]) << i;
  }
}

std::vector<std::string> joined(std::vector<std::string> keys, const std::vector<std::string>& more) {
  keys.insert(keys.end(), more.begin(), more.end());
  return keys;
}

// The FLOPs of a step are a sum over micro-batches of different sizes, and those of an item times its items: 3 times 2
// for each weight.
TEST_F(FamilyRuns, TheFlopsOfAStepAreThoseOfItsItems) {
  constexpr int64_t width = 8, weights = 6 * width + width * (width + 3) + 3 * (width * width + 3 * 3) + width;
  struct NotesFlops : train::Hook {
    explicit NotesFlops(std::vector<double>& to) : flops(to) {}
    void after_step(train::Trainer&, const train::StepReport& report) override { flops.push_back(report.flops); }
    std::vector<double>& flops;
  };
  for (const std::vector<std::string>& keys :
       {std::vector<std::string>{}, in_budget(), joined(in_budget(), {"layout.pipeline=2"})}) {
    for (const int64_t ranks : {2, 4}) {
      std::vector<double> flops;
      const config::Config settings = config(keys);
      std::filesystem::remove_all(settings.checkpoint.folder);
      run::run_training(settings, {.ranks = ranks, .prepare = [&](train::Trainer& trainer) {
                                     if (trainer.rank() == 0) trainer.add_hook(std::make_unique<NotesFlops>(flops));
                                   }});
      const observe::RunMetrics metrics = observe::read_metrics(settings.checkpoint.folder);
      ASSERT_EQ(flops.size(), 4u);
      int64_t items_before = 0;
      for (size_t step = 0; step < 4; ++step) {
        const auto items = static_cast<int64_t>(metrics.steps.at(static_cast<int64_t>(step) + 1).items);
        EXPECT_EQ(flops[step], static_cast<double>(6 * weights * (items - items_before))) << step;
        EXPECT_GT(items, items_before);
        items_before = items;
      }
    }
  }
}

// The ranks of a step have as many micro-batches as each other, and steps have different numbers of them.
TEST_F(FamilyRuns, ABudgetLimitsTheItemsOfEveryMicroBatch) {
  const config::Config settings = config(in_budget());
  const PairSource source(data_of(settings), settings.train.seed, settings.train.micro_batch_sizes);
  std::set<size_t> numbers;
  for (int64_t step = 1; step <= 8; ++step) {
    data::StepShare share{.step = step,
                          .first_sample = static_cast<uint64_t>(11 * (step - 1)),
                          .samples = 11,
                          .ranks = 2,
                          .budget = settings.train.micro_batch_sizes};
    int64_t items = 0;
    size_t number = 0;
    for (share.rank = 0; share.rank < 2; ++share.rank) {
      const std::vector<data::MicroBatch> batches = source.micro_batches(share, {});
      if (share.rank == 0) number = batches.size();
      EXPECT_EQ(batches.size(), number);
      for (const data::MicroBatch& batch : batches) {
        EXPECT_TRUE(batch.tensors.empty());
        EXPECT_LE(batch.sizes.at("items"), 5);
        items += batch.sizes.at("items");
      }
    }
    numbers.insert(number);
    EXPECT_EQ(items, source.items(share.first_sample, 11));
  }
  EXPECT_GT(numbers.size(), 1u);
}

TEST_F(FamilyRuns, TheLossesAreTheSameOnAnyRanksInABudget) {
  const std::vector<std::string> keys = joined(in_budget(), {"train.evaluate_every=4"});
  const observe::RunMetrics one =
      run(1, {"train.micro_batch=11", "train.global_batch=11", "train.evaluate_every=4"}).metrics;
  for (const int64_t ranks : {1, 2, 3, 8}) {
    const observe::RunMetrics other = run(ranks, keys).metrics;
    for (const auto& [step, metrics] : one.steps) {
      EXPECT_NEAR(other.steps.at(step).loss, metrics.loss, 1e-5 * metrics.loss) << ranks << " ranks, step " << step;
    }
    EXPECT_NEAR(other.evaluations.at(4).validation_loss, one.evaluations.at(4).validation_loss,
                1e-5 * one.evaluations.at(4).validation_loss);
  }
}

TEST_F(FamilyRuns, ABudgetIsReadBackFromTheResolvedConfiguration) {
  const std::string text = config::dump(config(in_budget()));
  EXPECT_THAT(text, HasSubstr("\nmicro_batch_sizes = {\"items\" = 5}\n"));
  EXPECT_EQ(config::parse(text, "dump.toml", all_families(), {}), config(in_budget()));
  EXPECT_THAT(config::dump(config({})), Not(HasSubstr("micro_batch_sizes")));
}

TEST_F(FamilyRuns, BudgetsThatCannotBeKeptAreRefused) {
  EXPECT_THAT(refusal({"train.micro_batch=0", "train.micro_batch_sizes={item = 5}"}),
              HasSubstr("has item, which is not known; did you mean \"items\"?"));
  EXPECT_THAT(refusal({"train.micro_batch_sizes={items = 5}"}),
              HasSubstr("train.micro_batch_sizes = {\"items\" = 5} and micro_batch = 2 both say"));
  EXPECT_THAT(refusal({"train.micro_batch=0", "train.micro_batch_sizes={items = 0.5}"}),
              HasSubstr("has items = 0.5, which must be"));
  try {
    run(2, {"train.micro_batch=0", "train.micro_batch_sizes={items = 3}"});
    FAIL() << "nothing was refused";
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(),
                testing::AllOf(HasSubstr("have more than 3 items; the largest is sample 5 (counted from 0) with 4"),
                               HasSubstr("use micro_batch_sizes = {\"items\" = 4} or more")));
  }
}

TEST_F(FamilyRuns, AResumedRunHasTheBitsOfAnUninterruptedOne) {
  for (const std::vector<std::string>& layout : std::vector<std::vector<std::string>>{
           {"layout.sharding=zero3"}, {"layout.pipeline=2"}, joined(in_budget(), {"layout.sharding=zero3"})}) {
    std::vector<std::string> keys = layout;
    keys.emplace_back("optimizer.schedule=constant");  // a decay would end at another step
    keys.emplace_back("train.steps=10");
    const Result whole = run(2, keys);
    keys.back() = "train.steps=5";
    run(2, keys);
    keys.back() = "train.steps=10";
    expect_same(run(2, keys, "auto"), whole);
  }
}

// Two pipeline stages write the checkpoint and three data-parallel ranks read it: the weights are the same, although
// sums are rounded differently afterwards.
TEST_F(FamilyRuns, ACheckpointIsReadAtAnotherLayout) {
  run(2, {"layout.pipeline=2", "train.steps=4"});
  const Result saved{.tensors = tensors_of(folder_ / "run/step_00000004", config({})), .metrics = {}};
  const Result continued = run(3, {"layout.sharding=zero3", "train.steps=5", "optimizer.learning_rate=1e-12"}, "auto");
  for (const auto& [name, tensor] : saved.tensors) {
    if (!name.starts_with("weights")) continue;
    EXPECT_TRUE(continued.tensors.at(name).allclose(tensor, 1e-6, 1e-8)) << name;
  }
}

TEST_F(FamilyRuns, OtherDataAreRefusedOnResume) {
  run(1, {"train.steps=2"});
  std::ofstream(folder_ / "samples.txt", std::ios::app) << "1 2 3 4 5 6 7\n";
  try {
    run(1, {"train.steps=4"}, "auto");
    FAIL() << "nothing was refused";
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), HasSubstr("the data are not those"));
  }
}

TEST_F(FamilyRuns, AFileThatIsNotThereIsNamed) {
  try {
    run(1, {"data.train=nowhere.txt"});
    FAIL() << "nothing was refused";
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), HasSubstr("data.train = \"nowhere.txt\" does not exist"));
  }
}

TEST_F(FamilyRuns, AKeyOfAnotherFamilyIsRefusedWithTheFamilyThatHasIt) {
  EXPECT_THAT(refusal({"model.kv_heads=4"}),
              HasSubstr("model.kv_heads belongs to model.family = \"gpt\", not to \"pair\""));
  EXPECT_THAT(refusal({"data.tokenizer=a"}), HasSubstr("data.tokenizer belongs to model.family = \"gpt\""));
  EXPECT_THAT(refusal({"model.family=gpt", "model.sample_weight=1.0"}),
              HasSubstr("model.sample_weight belongs to model.family = \"pair\", not to \"gpt\""));
  EXPECT_THAT(refusal({"model.widht=4"}), HasSubstr("did you mean width?"));
  EXPECT_THAT(
      refusal({"model.family=pear"}),
      HasSubstr("--set model.family=pear: model.family = \"pear\" must be \"gpt\", \"gnn\", \"vit\" or \"pair\""));
}

TEST_F(FamilyRuns, TheFamilysRulesAreChecked) {
  EXPECT_THAT(refusal({"layout.tensor=2", "model.width=2"}),
              testing::AllOf(HasSubstr("the layers of model.family = \"pair\" are not cut"),
                             HasSubstr("model.width = 2 is less than the narrow branch")));
}

TEST_F(FamilyRuns, ThePageOfKeysHasATableForEachFamily) {
  const std::string page = config::document(all_families());
  for (const char* heading :
       {"### [model] with family = \"gpt\"", "### [model] with family = \"pair\"", "### [data] with family = \"pair\"",
        "| `sample_weight` | a number of at least 0 | `0.25` |"}) {
    EXPECT_THAT(page, HasSubstr(heading));
  }
}

}  // namespace
}  // namespace terrace::pair
