// Translates DeepSpeed's configurations, alone and beside the arguments of Megatron-DeepSpeed.
#include "terrace/translate/deepspeed.h"

#include <gtest/gtest.h>

#include "tests/translate/translated.h"

namespace terrace::translate {
namespace {

Translation deepspeed(const std::string& json, int64_t model_ranks = 1, const Wishes& wishes = {}) {
  return translate_deepspeed({.name = "ds.json", .json = json}, model_ranks, wishes);
}

std::string deepspeed_refusal(const std::string& json, int64_t model_ranks = 1, const Wishes& wishes = {}) {
  return refusal_of([&] { deepspeed(json, model_ranks, wishes); });
}

const std::string zero3 = R"({
  "train_batch_size": 512, "train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": "auto",
  "gradient_clipping": 0.5, "steps_per_print": 100, "wall_clock_breakdown": false,
  "bf16": {"enabled": true}, "fp16": {"enabled": false, "loss_scale": 0, "initial_scale_power": 16},
  "zero_optimization": {
    "stage": 3, "overlap_comm": true, "contiguous_gradients": true, "reduce_bucket_size": 5e8,
    "offload_optimizer": {"device": "none", "pin_memory": true}, "stage3_prefetch_bucket_size": 1e7},
  "optimizer": {"type": "AdamW", "params": {"lr": 3e-4, "betas": [0.9, 0.95], "eps": 1e-8, "weight_decay": 0.1}},
  "scheduler": {"type": "WarmupDecayLR",
                "params": {"warmup_min_lr": 0, "warmup_max_lr": 3e-4, "warmup_num_steps": 20, "total_num_steps": 900}}})";

TEST(DeepSpeedFile, BecomesKeys) {
  const Translation translation = deepspeed(zero3);
  const std::vector<std::pair<std::string, std::string>> expected = {{"train.global_batch", "512"},
                                                                     {"train.micro_batch", "4"},
                                                                     {"train.precision", "\"bf16\""},
                                                                     {"layout.sharding", "\"zero3\""},
                                                                     {"optimizer.clip", "0.5"},
                                                                     {"optimizer.learning_rate", "0.0003"},
                                                                     {"optimizer.beta1", "0.9"},
                                                                     {"optimizer.beta2", "0.95"},
                                                                     {"optimizer.epsilon", "1e-08"},
                                                                     {"optimizer.weight_decay", "0.1"},
                                                                     {"optimizer.schedule", "\"linear\""},
                                                                     {"optimizer.warmup_steps", "20"},
                                                                     {"optimizer.decay_steps", "900"}};
  for (const auto& [key, value] : expected) EXPECT_EQ(translation.value_of(key), value) << key;
  EXPECT_EQ(translation.settings.size(), expected.size());
  EXPECT_EQ(translation.software, "deepspeed-zero3");
  EXPECT_TRUE(translation.unknown.empty());
  const std::vector<std::string> overrides = overrides_of(translation);
  EXPECT_TRUE(std::ranges::find(overrides, "layout.sharding=\"zero3\"") != overrides.end());
}

TEST(DeepSpeedFile, OfZeroPlusPlusAndMics) {
  const Translation plus = deepspeed(
      R"({"zero_optimization": {"stage": 3, "zero_hpz_partition_size": 8, "zero_quantized_weights": true,
          "zero_quantized_gradients": true}})");
  EXPECT_EQ(plus.value_of("layout.shard_weights"), "8");
  EXPECT_EQ(plus.value_of("layout.gather_type"), "\"int8\"");
  EXPECT_EQ(plus.value_of("layout.reduce_type"), "\"int4\"");
  EXPECT_EQ(plus.software, "deepspeed-zeropp");
  const Translation groups = deepspeed(R"({"zero_optimization": {"stage": 3, "mics_shard_size": 16}})");
  EXPECT_EQ(groups.value_of("layout.sharding"), "\"hybrid\"");
  EXPECT_EQ(groups.value_of("layout.shard_group"), "16");
  EXPECT_EQ(deepspeed(R"({"zero_optimization": {"stage": 3, "mics_shard_size": -1}})").value_of("layout.sharding"),
            "\"zero3\"");
}

TEST(DeepSpeedFile, OfFp16HasAPowerOfTwo) {
  const Translation translation =
      deepspeed(R"({"fp16": {"enabled": true, "initial_scale_power": 12, "hysteresis": 2}})");
  EXPECT_EQ(translation.value_of("train.precision"), "\"fp16\"");
  EXPECT_EQ(translation.value_of("train.initial_loss_scale"), "4096.0");
  EXPECT_EQ(translation.no_twin.size(), 1u);
  EXPECT_TRUE(
      holds(deepspeed_refusal(R"({"fp16": {"enabled": true}, "bf16": {"enabled": true}})"), "exclude each other"));
  EXPECT_TRUE(holds(deepspeed_refusal(R"({"fp16": {"enabled": true, "loss_scale": 128}})"),
                    "ds.json: fp16.loss_scale = 128: the loss scale is not fixed"));
}

TEST(DeepSpeedFile, HasBatchesThatAgree) {
  const std::string all =
      R"({"train_batch_size": 96, "train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 4})";
  // 96 = 2 * 4 * 12 data-parallel ranks, each of 8 devices.
  EXPECT_EQ(deepspeed(all, 8).devices, 96);
  EXPECT_EQ(deepspeed(all, 8, {.devices = 96}).value_of("train.global_batch"), "96");
  EXPECT_EQ(
      deepspeed_refusal(all, 8, {.devices = 64}),
      "ds.json: train_batch_size = 96 is not train_micro_batch_size_per_gpu = 2 * gradient_accumulation_steps = 4 * "
      "8 data-parallel ranks (64 devices / 8 of one model); use 64, or another of the four numbers");
  EXPECT_TRUE(
      holds(deepspeed_refusal(
                R"({"train_batch_size": 97, "train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 4})"),
            "use 96"));
  const Translation third =
      deepspeed(R"({"train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 4})", 8, {.devices = 32});
  EXPECT_EQ(third.value_of("train.global_batch"), "32");
  const Translation micro =
      deepspeed(R"({"train_batch_size": 96, "gradient_accumulation_steps": 4})", 8, {.devices = 32});
  EXPECT_EQ(micro.value_of("train.micro_batch"), "6");
  EXPECT_TRUE(
      holds(deepspeed_refusal(R"({"train_batch_size": 90, "train_micro_batch_size_per_gpu": 4})", 1, {.devices = 8}),
            "is not divisible by train_micro_batch_size_per_gpu = 4 * 8 data-parallel ranks; use 64"));
}

TEST(DeepSpeedFile, IsRefusedWhereNoKeyDoesTheSame) {
  for (const char* refused :
       {R"({"zero_optimization": {"stage": 3, "offload_param": {"device": "nvme"}}})",
        R"({"zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}}})",
        R"({"zero_optimization": {"stage": 2, "cpu_offload": true}})", R"({"zero_optimization": {"stage": 5}})",
        R"({"optimizer": {"type": "OneBitAdam"}})", R"({"optimizer": {"params": {"betas": [0.9]}}})",
        R"({"sequence_parallel_size": 4})", R"({"curriculum_learning": {"enabled": true}})",
        R"({"amp": {"enabled": true}})", R"({"train_batch_size": -4})", R"({"train_batch_size": 1.5})",
        R"({"scheduler": {"type": "OneCycle"}})", "[1]", "{", "", "3"}) {
    EXPECT_TRUE(holds(deepspeed_refusal(refused), "ds.json")) << refused;
  }
  EXPECT_EQ(deepspeed_refusal(R"({"optimizer": {"type": "OneBitAdam"}})", 1, {.left_out = {"optimizer.type"}}), "");
}

// Nothing but a UserError comes of a file whose letters are changed, nor of one that is cut off.
TEST(DeepSpeedFile, ThatIsDamagedEndsInAUserError) {
  for (size_t length = 0; length < zero3.size(); length += 3) deepspeed_refusal(zero3.substr(0, length));
  uint64_t state = 1;
  for (int i = 0; i < 2000; ++i) deepspeed_refusal(damaged(zero3, state), 8, {.devices = i % 3 * 16});
}

}  // namespace
}  // namespace terrace::translate
