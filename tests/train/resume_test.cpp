// Tests that ten steps equal five steps, a save, a load and five more steps, bit for bit.
#include <gtest/gtest.h>

#include <cmath>

#include "terrace/base/error.h"
#include "terrace/checkpoint/checkpoint.h"
#include "terrace/train/kernel_record.h"
#include "tests/train/tiny_run.h"

namespace terrace::train {
namespace {

struct ResumeCase {
  std::string name;
  std::vector<std::string> overrides;
};

void PrintTo(const ResumeCase& resume_case, std::ostream* out) { *out << resume_case.name; }

class Resume : public TinyRun, public testing::WithParamInterface<ResumeCase> {};

TEST_P(Resume, ContinuesBitForBit) {
  const config::Config config = tiny_config(GetParam().overrides);
  Trainer whole(config, {});
  const std::vector<double> losses = take_steps(whole, 10);

  Trainer first(config, {});
  take_steps(first, 5);
  const auto path = checkpoint::save(config.checkpoint.folder, first.state(), {});

  Trainer second(config, {});
  second.resume(checkpoint::Reader(path));
  EXPECT_EQ(second.steps_done(), 5);
  const std::vector<double> continued = take_steps(second, 5);
  for (size_t i = 0; i < 5; ++i) {
    // A skipped step has no loss in either run.
    EXPECT_TRUE(continued[i] == losses[5 + i] || (std::isnan(continued[i]) && std::isnan(losses[5 + i])))
        << "step " << 6 + i << ": " << continued[i] << " and " << losses[5 + i];
  }
  EXPECT_EQ(second.items_done(), whole.items_done());
  expect_equal(snapshot(whole), snapshot(second));
}

// The corpus has fewer samples than ten steps draw, so every case crosses the end of an epoch.
const ResumeCase resume_cases[] = {
    {"Fp32", {}},
    {"Bf16", {"train.precision=bf16"}},
    {"Fp16", {"train.precision=fp16", "train.loss_scale_window=3"}},
    {"Fp32Dropout", {"model.dropout=0.2", "model.attention_dropout=0.1"}},
    {"Bf16Dropout", {"train.precision=bf16", "model.dropout=0.2"}},
    {"Fp16Dropout", {"train.precision=fp16", "model.dropout=0.2"}},
    {"Bf16GradientsInBf16", {"train.precision=bf16", "train.gradient_type=bf16"}},
    {"LlamaLike",
     {"model.positions=rotary", "model.norm=rmsnorm", "model.activation=swiglu", "model.kv_heads=1", "model.bias=false",
      "model.tied_head=false"}},
    {"ExpertsWithABias",
     {"model.experts=6", "model.router=sigmoid", "model.router_bias=true", "model.router_bias_rate=0.05",
      "model.shared_experts=1", "model.dense_layers=1", "model.balance_loss=0.01", "train.precision=bf16"}},
    {"ExpertsRecomputed", {"model.experts=4", "model.router_z_loss=0.001", "train.recompute=full"}},
    {"DocumentsApart", {"data.reset_at_documents=true"}},
    {"BatchRamp", {"train.ramp_start=2", "train.ramp_increment=2", "train.ramp_samples=12"}},
    {"SkippedSteps", {"train.skip_steps=[[4, 6]]"}},
};

INSTANTIATE_TEST_SUITE_P(Train, Resume, testing::ValuesIn(resume_cases),
                         [](const auto& info) { return info.param.name; });

class ResumeRules : public TinyRun {};

TEST_F(ResumeRules, TenStepsDrawMoreThanAnEpoch) {
  Trainer trainer(tiny_config(), {});
  EXPECT_LT(text_of(trainer).samples(data::Split::train), 40u);
}

TEST_F(ResumeRules, RefusesAnotherModel) {
  Trainer trainer(tiny_config(), {});
  take_steps(trainer, 1);
  const auto path = checkpoint::save(folder_ / "run", trainer.state(), {});
  Trainer wider(tiny_config({"model.width=48"}), {});
  try {
    wider.resume(checkpoint::Reader(path));
    FAIL() << "no error";
  } catch (const UserError& error) {
    const std::string message = error.what();
    EXPECT_NE(message.find("model.width"), std::string::npos) << message;
    EXPECT_NE(message.find("24"), std::string::npos) << message;
    EXPECT_NE(message.find("48"), std::string::npos) << message;
  }
}

TEST_F(ResumeRules, ContinuesBitForBitWithTheRecordedProducts) {
  ops::KernelChoice kernels;
  kernels.products[ops::WeightClass::small] = {.forward = ops::Products::torch,
                                               .weight_gradient = ops::Products::torch};
  Trainer whole(tiny_config(), {}, kernels);
  take_steps(whole, 10);
  Trainer first(tiny_config(), {}, kernels);
  take_steps(first, 5);
  const checkpoint::Reader saved(checkpoint::save(folder_ / "run", first.state(), {}));
  Trainer second(tiny_config(), {}, recorded_choice(saved.trainer().at("kernels")));
  second.resume(saved);
  EXPECT_EQ(second.kernels(), whole.kernels());
  take_steps(second, 5);
  expect_equal(snapshot(whole), snapshot(second));
}

TEST_F(ResumeRules, WeightsAloneStartANewRun) {
  Trainer trainer(tiny_config(), {});
  take_steps(trainer, 3);
  const auto path = checkpoint::save(folder_ / "run", trainer.state(), {});
  Trainer fresh(tiny_config({"train.seed=9", "train.precision=bf16"}), {});
  fresh.load_weights(checkpoint::Reader(path));
  EXPECT_EQ(fresh.steps_done(), 0);
  for (const optim::AdamW::State& state : fresh.optimizer().states()) {
    EXPECT_EQ(state.m.abs().sum().item<double>(), 0.0);
    EXPECT_TRUE(state.shard.value.equal(state.master.to(at::kBFloat16)));
  }
  const auto before = snapshot(trainer), after = snapshot(fresh);
  for (const auto& [name, tensor] : before) {
    if (!name.starts_with("weights/")) continue;
    EXPECT_TRUE(tensor.equal(after.at(name))) << name;
  }
}

}  // namespace
}  // namespace terrace::train
