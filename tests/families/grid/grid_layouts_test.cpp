// A useful family trains, forecasts and is verified at every layout of the tables, with nothing outside of its folder.
#include <gtest/gtest.h>

#include <fstream>
#include <memory>

#include "terrace/base/files/file.h"
#include "terrace/train/trainer.h"
#include "terrace/verify/verify.h"
#include "tests/families/grid/grid_data.h"
#include "tests/families/grid/grid_runs.h"

namespace terrace::grid {
namespace {

class GridLayouts : public GridRuns {};

TEST_F(GridLayouts, TrainTheSameBitsWithEverySharding) { expect_equal(parallel::all_layouts()); }

TEST_F(GridLayouts, TrainAsOneRankDoesOnTensorRanks) {
  expect_one_rank({}, [](const Result& ours, const Result& one) {
    for (const auto& [step, metrics] : ours.metrics.steps) {
      const observe::StepMetrics& other = one.metrics.steps.at(step);
      ASSERT_EQ(metrics.figures.size(), 3u);
      for (size_t i = 0; i < 3; ++i) EXPECT_NEAR(metrics.figures[i], other.figures[i], 1e-5 * other.figures[i]) << i;
    }
  });
}

TEST_F(GridLayouts, TrainTheSameBitsInPipelines) { expect_one_stage(1); }

// A hook that has the model forecast two starts and writes the forecasts, in the units of the files, as text.
class WritesForecast : public train::Hook {
 public:
  explicit WritesForecast(std::filesystem::path file) : file_(std::move(file)) {}

  void after_step(train::Trainer&, const train::StepReport&) override {}
  void at_end(train::Trainer& trainer) override {
    const config::Config& config = trainer.config();
    const GridSource source(model_of(config), data_of(config), config.train.seed);
    const models::Outputs outputs = trainer.outputs(source.batch({0, 5}, true, {"fields"}));
    if (trainer.mesh().coordinate(trainer.rank(), "data") != 0 ||
        trainer.mesh().coordinate(trainer.rank(), "tensor") != 0 || outputs.empty()) {
      return;
    }
    const at::Tensor forecast = outputs.at("forecast").contiguous();  // [2, 24, 2]
    std::ofstream file(file_);
    for (int64_t i = 0; i < forecast.numel(); ++i) {
      file << source.in_units(forecast.view({-1})[i].item<double>(), static_cast<size_t>(i % 2)) << '\n';
    }
  }

 private:
  std::filesystem::path file_;
};

TEST_F(GridLayouts, WriteTheSameForecast) {
  const auto forecast = [&](const parallel::Layout& layout) {
    std::filesystem::remove_all(folder_ / "run");
    Keys keys = keys_of(layout, {"train.steps=1", "optimizer.learning_rate=1e-30"});  // the weights stay as they begin
    const std::filesystem::path file = folder_ / "forecast.txt";
    std::filesystem::remove(file);
    run::run_training(config(keys), {.ranks = layout.ranks, .prepare = [&](train::Trainer& trainer) {
                                       trainer.add_hook(std::make_unique<WritesForecast>(file));
                                     }});
    std::vector<double> values;
    std::ifstream numbers(file);
    for (double value = 0; numbers >> value;) values.push_back(value);
    return values;
  };
  const std::vector<double> one = forecast({1, {}});
  ASSERT_EQ(one.size(), 2u * 24 * 2);
  for (const parallel::Layout& layout : std::vector<parallel::Layout>{
           {2, {"sharding=zero3"}}, {2, {"pipeline=2"}}, {4, {"pipeline=2", "sharding=zero1"}}}) {
    EXPECT_EQ(forecast(layout), one) << layout.name();
  }
  for (const parallel::Layout& layout : std::vector<parallel::Layout>{
           {2, {"tensor=2"}}, {4, {"tensor=4", "sequence_parallel=true"}}, {4, {"tensor=2", "pipeline=2"}}}) {
    const std::vector<double> ours = forecast(layout);
    ASSERT_EQ(ours.size(), one.size()) << layout.name();
    for (size_t i = 0; i < one.size(); ++i) EXPECT_NEAR(ours[i], one[i], 1e-4) << layout.name();
  }
}

TEST_F(GridLayouts, PassVerify) {
  for (const parallel::Layout& layout : std::vector<parallel::Layout>{
           {2, {"sharding=zero3"}}, {2, {"tensor=2", "sequence_parallel=true"}}, {4, {"tensor=2", "pipeline=2"}}}) {
    const verify::Verdict verdict = verify::verify(config(keys_of(layout)), {.ranks = layout.ranks});
    EXPECT_TRUE(verdict.holds()) << layout.name() << "\n" << verify::text(verdict);
  }
}

TEST_F(GridLayouts, AResumedRunHasTheBitsOfAnUninterruptedOne) {
  const Keys keys = {"layout.sharding=zero3", "optimizer.schedule=constant"};
  const auto with = [&](const char* steps) {
    Keys all = keys;
    all.emplace_back(steps);
    return all;
  };
  const Result whole = run(2, with("train.steps=4"));
  run(2, with("train.steps=2"));
  expect_same(run(2, with("train.steps=4"), "auto"), whole);
}

TEST_F(GridLayouts, RefuseWhatDoesNotFit) {
  EXPECT_NE(refusal_of_run({"model.variables=[\"u\",\"w\"]", "model.weights={}"}).find("model.variables = [u, w]"),
            std::string::npos);
  EXPECT_NE(refusal_of_run({"model.weights={w=2.0}"}).find("model.weights has \"w\", which is none of"),
            std::string::npos);
  EXPECT_NE(refusal_of_run({"data.leads=[\"7h\"]"}).find("25200 s, which is no multiple of the 21600 s"),
            std::string::npos);
  EXPECT_NE(refusal_of_run({"model.latitudes=3"}).find("a grid of 3 x 6 places"), std::string::npos);
}

}  // namespace
}  // namespace terrace::grid
