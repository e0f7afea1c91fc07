// Tests whole runs: what they refuse, how they stop and continue, and what they leave in their folder.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>

#include "terrace/base/error.h"
#include "terrace/base/files/file.h"
#include "terrace/base/files/file_lock.h"
#include "terrace/base/text/json.h"
#include "terrace/observe/memory.h"
#include "terrace/observe/metrics.h"
#include "terrace/observe/summary.h"
#include "terrace/ops/products/products.h"
#include "terrace/run/check_run.h"
#include "terrace/run/hooks/hooks.h"
#include "terrace/run/run_training.h"
#include "terrace/run/single_checks.h"
#include "terrace/train/stop_request.h"
#include "tests/train/tiny_run.h"

namespace terrace::run {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class Run : public train::TinyRun {
 protected:
  static RunOptions options_of(const std::string& resume) {
    return {.resume = resume, .measure_peak = [](const at::Device&, at::ScalarType) {
              return train::Peak{1e9, "a peak for the test"};
            }};
  }

  static RunResult start(const config::Config& config, const std::string& resume = "") {
    return run_training(config, options_of(resume));
  }

  template <typename Action>
  static std::string error_of(const Action& action) {
    try {
      action();
    } catch (const std::exception& error) {
      return error.what();
    }
    return "no error";
  }

  // Every start sets the number of threads from the configuration.
  config::Config one_thread(std::vector<std::string> overrides = {}) const {
    overrides.emplace_back("train.threads=1");
    return tiny_config(overrides);
  }
};

// Requests a stop after a step, as a signal would.
TEST_F(Run, StopsOnRequestAndContinuesBitForBit) {
  train::Trainer whole(one_thread(), {});
  take_steps(whole, 10);

  {
    train::Trainer trainer(one_thread(), {});
    trainer.add_hook(std::make_unique<train::StopAfter>(4));
    std::filesystem::create_directories(folder_ / "run");
    add_standard_hooks(trainer);
    trainer.run();
    train::clear_stop_request();
    EXPECT_EQ(trainer.steps_done(), 4);
    EXPECT_FALSE(trainer.finished());
  }
  const RunResult result = start(one_thread(), "auto");
  EXPECT_TRUE(result.finished);
  EXPECT_EQ(result.step, 10);
  train::Trainer continued(one_thread(), {});
  continued.resume(checkpoint::Reader(result.checkpoint));
  expect_equal(snapshot(whole), snapshot(continued));
  EXPECT_EQ(observe::read_losses(folder_ / "run").training.size(), 10u);
}

TEST_F(Run, RefusesAFolderThatHoldsARunAndContinuesItIfAsked) {
  start(one_thread({"train.steps=3"}));
  EXPECT_THAT(error_of([&] { start(one_thread()); }), HasSubstr("--resume auto"));
  EXPECT_EQ(start(one_thread(), "auto").step, 10);
  EXPECT_THAT(error_of([&] { start(one_thread({"train.steps=5"}), "auto"); }), HasSubstr("train.steps = 5"));
}

TEST_F(Run, RefusesAFolderInWhichAnotherTrains) {
  std::filesystem::create_directories(folder_ / "run");
  const FileLock other(folder_ / "run/.run.lock", "held");
  EXPECT_THAT(error_of([&] { start(one_thread()); }), HasSubstr("another process trains"));
}

TEST_F(Run, RefusesOtherDataUnderTheSameName) {
  start(one_thread({"train.steps=3"}));
  write_corpus(25);
  EXPECT_THAT(error_of([&] { start(one_thread(), "auto"); }), HasSubstr("the data are not those"));
}

TEST_F(Run, NamesEveryMissingFileAtOnce) {
  const std::string message = error_of([&] {
    start(
        one_thread({"data.train=[\"no/corpus\"]", "data.tokenizer=no/tokenizer", "train.initial_weights=no/weights"}));
  });
  for (const char* part : {"no/corpus.bin", "no/corpus.idx", "no/tokenizer", "no/weights", "4 problems"}) {
    EXPECT_THAT(message, HasSubstr(part));
  }
}

// The checkpoint may be removed, or stay behind when the run moves to another machine.
TEST_F(Run, AFineTuningRunContinuesWithoutTheCheckpointThatItBeganWith) {
  const std::string first = start(one_thread({"train.steps=2"})).checkpoint;
  const auto fine_tune = [&](const std::string& folder, const std::string& weights, int64_t steps) {
    return one_thread({"checkpoint.folder=" + (folder_ / folder).string(), "train.initial_weights=" + weights,
                       "optimizer.decay_steps=10", fmt::format("train.steps={}", steps)});
  };
  const auto weights_in = [&](const std::string& folder) {
    return read_text(folder_ / folder / "step_00000006/weights.safetensors");
  };
  start(fine_tune("whole", first, 6));
  start(fine_tune("tuned", first, 3));
  std::filesystem::remove_all(folder_ / "run");
  EXPECT_TRUE(check_run(fine_tune("tuned", first, 6), options_of("auto")).problems.empty());
  start(fine_tune("tuned", first, 5), "auto");
  std::filesystem::rename(folder_ / "tuned", folder_ / "moved");
  start(fine_tune("moved", "absent/step_00000002", 6), (folder_ / "moved/step_00000005").string());
  EXPECT_TRUE(weights_in("moved") == weights_in("whole"));
  for (const char* resume : {"", "auto"}) {
    EXPECT_THAT(error_of([&] { start(fine_tune("new", first, 6), resume); }), HasSubstr("train.initial_weights"));
    EXPECT_EQ(check_run(fine_tune("new", first, 6), options_of(resume)).problems.size(), 1u);
  }
}

// Returns what so many ranks need; throws where this machine does not have it.
plan::MemoryNeed need_of(const config::Config& config, int64_t ranks = 1, int64_t here = 1) {
  const plan::AvailableMemory available = available_memory(at::kCPU);
  const plan::MemoryNeed need = plan::least_memory(config, ranks, here, available.ranks_together(here));
  check_memory(config, ranks, here, need, available);
  return need;
}

TEST_F(Run, AModelLargerThanTheMachineIsInfeasible) {
  const config::Config config = one_thread({"model.layers=1000", "model.width=49152", "model.heads=384"});
  try {
    need_of(config);
    FAIL() << "no error";
  } catch (const UserError& error) {
    EXPECT_EQ(error.code, ExitCode::infeasible);
    EXPECT_THAT(error.what(), HasSubstr("TiB"));
  }
}

TEST_F(Run, AModelLargerThanTheMachineStartsAllTheSameIfAsked) {
  const std::vector<std::string> large = {"model.layers=1000", "model.width=49152", "model.heads=384",
                                          "train.check_memory=false"};
  EXPECT_GT(need_of(one_thread(large)).states, static_cast<double>(observe::available_bytes()));
}

// The model needs sixteen bytes a parameter; one rank takes a sixth of the available memory.
TEST_F(Run, EachRankNeedsMemoryForItsOwnPart) {
  const int64_t width = 1024, layer = 12 * width * width;
  const int64_t layers = observe::available_bytes() / 6 / 16 / layer;
  const auto config = [&](std::vector<std::string> keys) {
    keys.insert(keys.end(), {fmt::format("model.layers={}", layers), fmt::format("model.width={}", width),
                             "model.heads=16", "train.global_batch=16", "train.micro_batch=1"});
    return one_thread(keys);
  };
  EXPECT_NO_THROW(need_of(config({}), 1, 1));
  EXPECT_THAT(error_of([&] { need_of(config({}), 8, 8); }), HasSubstr("8 ranks here"));
  EXPECT_NO_THROW(need_of(config({}), 8, 2));
  EXPECT_NO_THROW(need_of(config({"layout.pipeline=8"}), 8, 8));
  EXPECT_NO_THROW(need_of(config({"layout.tensor=4", "layout.pipeline=2"}), 8, 8));
  EXPECT_NO_THROW(need_of(config({"layout.sharding=zero3"}), 8, 8));
  // Two stages and four data-parallel ranks hold the model four times.
  EXPECT_NO_THROW(need_of(config({"layout.pipeline=2"}), 8, 8));
  EXPECT_THAT(error_of([&] { need_of(config({"layout.pipeline=2"}), 16, 16); }), HasSubstr("16 ranks here"));
}

// A block's activations of one micro-batch take a twelfth of the available memory.
TEST_F(Run, ActivationsNeedMemoryToo) {
  const int64_t sequence = observe::available_bytes() / 12 / (4 * 64 * 20);
  const auto config = [&](std::vector<std::string> keys) {
    keys.insert(keys.end(), {"model.width=64", "model.heads=4", "model.layers=24", "train.micro_batch=1",
                             "train.global_batch=8", fmt::format("model.sequence={}", sequence)});
    return one_thread(keys);
  };
  const auto complaint = [&](const std::vector<std::string>& keys, int64_t ranks, int64_t here) {
    return error_of([&] { need_of(config(keys), ranks, here); });
  };
  EXPECT_THAT(complaint({}, 1, 1), AllOf(HasSubstr("for activations"), HasSubstr("train.recompute = \"full\"")));
  EXPECT_EQ(complaint({"train.recompute=full"}, 1, 1), "no error");
  // Eight micro-batches of an eighth of the model are as much.
  EXPECT_THAT(complaint({"layout.pipeline=8"}, 8, 1), HasSubstr("for activations"));
  EXPECT_EQ(complaint({"layout.tensor=4"}, 4, 1), "no error");
  EXPECT_THAT(complaint({"layout.tensor=4"}, 4, 4), HasSubstr("4 ranks here"));
}

TEST_F(Run, TrainsWithoutHeldOutData) {
  start(one_thread({"data.validation_share=0.0"}));
  EXPECT_TRUE(Json::parse(read_text(folder_ / "run/run.json"))["baselines"].empty());
}

TEST_F(Run, RefusesACheckpointElsewhereAndContinuesACopy) {
  const auto last = start(one_thread({"train.steps=3", "optimizer.decay_steps=5"})).checkpoint;
  const config::Config elsewhere =
      one_thread({"train.steps=5", "optimizer.decay_steps=5", "checkpoint.folder=" + (folder_ / "other").string()});
  const std::string message = error_of([&] { start(elsewhere, last.string()); });
  EXPECT_THAT(message, AllOf(HasSubstr((folder_ / "run").string()), HasSubstr((folder_ / "other").string())));
  const size_t begin = message.find("mkdir"), end = message.find(" and --resume auto");
  ASSERT_EQ(std::system(message.substr(begin, end - begin).c_str()), 0);
  EXPECT_EQ(start(elsewhere, "auto").checkpoint, folder_ / "other/step_00000005");
  // The run continues in its folder if the folder's name is written in another way.
  const config::Config here = one_thread(
      {"train.steps=5", "optimizer.decay_steps=5", "checkpoint.folder=" + (folder_ / "other/../run/").string()});
  EXPECT_TRUE(start(here, last.string()).finished);
}

TEST_F(Run, AKeptConfigurationOfARenamedFolderIsRefused) {
  const config::Config config = one_thread({"train.steps=3"});
  start(config);
  std::filesystem::rename(folder_ / "run", folder_ / "renamed");
  RunOptions options = options_of("auto");
  options.config_file = folder_ / "renamed/step_00000003/config.toml";
  EXPECT_THAT(error_of([&] { run_training(config, options); }),
              AllOf(HasSubstr((folder_ / "run").string()), HasSubstr((folder_ / "renamed").string())));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "run"));
  options.config_file = folder_ / "config.toml";  // any other file may name any folder
  EXPECT_EQ(error_of([&] { run_training(config, options); }), "no error");
}

// A program that uses the library and sets no options gets a run without MFU.
TEST_F(Run, TrainsWithDefaultOptions) {
  EXPECT_TRUE(run_training(one_thread(), {}).finished);
  const Json facts = Json::parse(read_text(folder_ / "run/run.json"));
  EXPECT_EQ(facts["peak_flops_per_second"], 0);
  for (const auto& [step, metrics] : observe::read_metrics(folder_ / "run").steps) {
    EXPECT_TRUE(std::isnan(metrics.mfu)) << step;
    EXPECT_GT(metrics.items_per_second, 0) << step;
  }
  EXPECT_THAT(observe::draw_summary(folder_ / "run"), HasSubstr("not measured\n"));
  EXPECT_TRUE(
      run_training(one_thread({"checkpoint.folder=" + (folder_ / "other").string()}), {.profile_steps = 2}).finished);
}

TEST_F(Run, AStepFasterThanThePeakRaisesIt) {
  run_training(one_thread(), {.measure_peak = [](const at::Device&, at::ScalarType) {
                 return train::Peak{1.0, "a slow moment"};
               }});
  const Json facts = Json::parse(read_text(folder_ / "run/run.json"));
  EXPECT_THAT(facts["peak_name"].get<std::string>(), AllOf(HasSubstr("the fastest step"), HasSubstr("a slow moment")));
  double peak = 1.0;
  for (const auto& [step, metrics] : observe::read_metrics(folder_ / "run").steps) {
    EXPECT_LE(metrics.mfu, 1.0) << step;
    EXPECT_GE(metrics.peak_flops_per_second, peak) << step;
    peak = metrics.peak_flops_per_second;
  }
  EXPECT_EQ(facts["peak_flops_per_second"], peak);
  EXPECT_LE(observe::summarize_run(folder_ / "run")["mfu"].get<double>(), 1.0);
}

TEST_F(Run, KeepsItsPeakWhenResumedUnlessWhatItDependsOnHasChanged) {
  int measurements = 0;
  const auto peak_after = [&](int64_t steps, int64_t ranks, std::vector<std::string> changes) {
    changes.push_back("train.steps=" + std::to_string(steps));
    run_training(tiny_config(changes),
                 {.ranks = ranks, .resume = "auto", .measure_peak = [&](const at::Device&, at::ScalarType) {
                    return train::Peak{1e30 * ++measurements, "measured " + std::to_string(measurements)};
                  }});
    return Json::parse(read_text(folder_ / "run/run.json"))["peak_name"].get<std::string>();
  };
  EXPECT_EQ(peak_after(2, 1, {"train.threads=1"}), "measured 1");
  EXPECT_EQ(peak_after(3, 1, {"train.threads=1"}), "measured 1");
  EXPECT_EQ(peak_after(4, 1, {"train.threads=2"}), "measured 2");
  EXPECT_EQ(peak_after(5, 2, {"train.threads=2"}), "measured 3");
  EXPECT_EQ(peak_after(6, 2, {"train.threads=2"}), "measured 3");
  // A run.json that is lost or that another program has spoiled costs a measurement.
  std::filesystem::remove(folder_ / "run/run.json");
  EXPECT_EQ(peak_after(7, 2, {"train.threads=2"}), "measured 4");
  write_text_atomically(folder_ / "run/run.json", R"({"kernels": )");
  EXPECT_EQ(peak_after(8, 2, {"train.threads=2"}), "measured 5");
}

TEST_F(Run, APeakThatNoStepReachesStays) {
  run_training(one_thread(), {.measure_peak = [](const at::Device&, at::ScalarType) {
                 return train::Peak{1e30, "a fast one"};
               }});
  const Json facts = Json::parse(read_text(folder_ / "run/run.json"));
  EXPECT_EQ(facts["peak_flops_per_second"], 1e30);
  EXPECT_EQ(facts["peak_name"], "a fast one");
}

TEST_F(Run, ChoosesTheProductsOfTheModelsClassesOnceAndKeepsThem) {
  std::vector<std::set<ops::WeightClass>> asked;
  RunOptions options = options_of("");
  options.choose_products = [&](const at::Device&, at::ScalarType type, const std::set<ops::WeightClass>& classes) {
    EXPECT_EQ(type, at::kBFloat16);
    asked.push_back(classes);
    ops::ProductsByClass products;
    products[ops::WeightClass::tall].forward = ops::Products::torch;
    return products;
  };
  // A vocabulary of 4096 with a width of 24 is tall; all other matrices are small, and have too few elements to matter.
  const std::vector<std::string> keys = {"model.vocabulary_multiple=4096", "train.precision=bf16"};
  const auto kernels = [&] { return Json::parse(read_text(folder_ / "run/run.json")).at("kernels"); };
  std::vector<std::string> fewer = keys;
  fewer.emplace_back("train.steps=5");
  run_training(one_thread(fewer), options);
  const Json chosen = kernels();
  const std::string own = ops::products_instructions(at::kCPU, at::kBFloat16, ops::Products::own);
  if (own != "torch") {
    EXPECT_EQ(chosen["products"]["tall"]["forward"], "torch");
    EXPECT_EQ(chosen["products"]["small"]["forward"], own);
  }
  options.resume = "auto";
  testing::internal::CaptureStdout();
  EXPECT_EQ(run_training(one_thread(keys), options).step, 10);
  EXPECT_THAT(testing::internal::GetCapturedStdout(), Not(HasSubstr("not bit for bit")));
  EXPECT_EQ(kernels(), chosen);
  EXPECT_EQ(asked, (std::vector<std::set<ops::WeightClass>>{{ops::WeightClass::tall}}));
}

TEST_F(Run, SaysInOneLineWhichKeysHaveNoEffect) {
  const auto log_of = [&](const std::vector<std::string>& keys, int64_t ranks) {
    testing::internal::CaptureStdout();
    warn_of_idle_keys(idle_keys_of(tiny_config(keys), ranks, ranks));
    return testing::internal::GetCapturedStdout();
  };
  const std::vector<std::string> keys = {"layout.sharding=zero3", "layout.gather_type=bf16", "layout.chunks=2"};
  EXPECT_THAT(log_of(keys, 1), AllOf(HasSubstr("keys without effect"), HasSubstr("layout.sharding = \"zero3\""),
                                     HasSubstr("layout.gather_type"), HasSubstr("--set layout.chunks=2")));
  EXPECT_THAT(log_of(keys, 2), AllOf(HasSubstr("--set layout.chunks=2"), Not(HasSubstr("layout.sharding"))));
  EXPECT_EQ(log_of({"layout.sharding=zero3"}, 2), "");
}

// Where the ranks of a node sum their gradients before they quantize any, no rank has an error of its own to keep.
TEST_F(Run, ErrorFeedbackThatKeepsNoErrorsHasNoEffect) {
  const auto names_feedback = [&](std::vector<std::string> keys, int64_t node) {
    keys.insert(keys.end(), {"layout.reduce_type=int8", "layout.error_feedback=true",
                             fmt::format("layout.ranks_per_node={}", node)});
    const std::vector<std::string> idle = idle_keys_of(tiny_config(keys), 4, 4);
    return std::ranges::any_of(idle, [](const auto& text) { return text.starts_with("layout.error_feedback = true"); });
  };
  const std::string typed = "layout.node_type=bf16", rails = "layout.route=rails";
  EXPECT_TRUE(names_feedback({typed, rails, "layout.sharding=zero2"}, 2));
  EXPECT_TRUE(names_feedback({typed, rails, "layout.sharding=zero3"}, 2));
  EXPECT_TRUE(names_feedback({typed, "layout.sharding=zero3"}, 4));
  EXPECT_TRUE(names_feedback({typed}, 4));
  EXPECT_FALSE(names_feedback({rails, "layout.sharding=zero2"}, 2));
  EXPECT_FALSE(names_feedback({typed, "layout.route=flat", "layout.sharding=zero2"}, 2));
  EXPECT_FALSE(names_feedback({typed, rails}, 2));  // ddp: one call among all ranks
  EXPECT_FALSE(names_feedback({typed, "layout.sharding=three_level", "layout.ranks_per_pair=1"}, 2));
  EXPECT_FALSE(names_feedback({typed, rails, "layout.sharding=zero2", "layout.deterministic=true"}, 2));
}

TEST_F(Run, GivesUpWhenEveryUpdateIsLeftOut) {
  // A first step of 1e38 breaks the weights; every later loss is not finite.
  const config::Config config =
      one_thread({"train.on_nan=skip", "optimizer.learning_rate=1e38", "optimizer.warmup_steps=0", "train.steps=50"});
  EXPECT_THAT(error_of([&] { start(config); }), HasSubstr("10 updates in a row"));
  EXPECT_TRUE(checkpoint::list(folder_ / "run").empty());
}

TEST_F(Run, BrokenWeightsAreNotSaved) {
  start(one_thread({"train.steps=2"}));
  const config::Config config =
      one_thread({"optimizer.learning_rate=1e39", "optimizer.weight_decay=0.0", "checkpoint.every=1"});
  EXPECT_THAT(error_of([&] { start(config, "auto"); }), HasSubstr("not finite; nothing is saved"));
  const auto left = checkpoint::list(folder_ / "run");
  ASSERT_EQ(left.size(), 1u);
  EXPECT_EQ(left.front().filename(), "step_00000002");
}

}  // namespace
}  // namespace terrace::run
