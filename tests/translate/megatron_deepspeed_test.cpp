// Translates arguments of Megatron-DeepSpeed with the file that they name.
#include <gtest/gtest.h>

#include "terrace/translate/megatron.h"
#include "tests/translate/translated.h"

namespace terrace::translate {
namespace {

const std::string of_deepspeed =
    "--num-layers 8 --hidden-size 64 --num-attention-heads 4 --seq-length 32 --max-position-embeddings 32 "
    "--micro-batch-size 2 --vocab-size 100 --train-iters 10 --deepspeed --deepspeed_config ds.json "
    "--tensor-model-parallel-size 2 ";

TEST(MegatronArguments, AgreeWithTheFileOfDeepSpeed) {
  const auto both = [](const std::string& more, const std::string& json, const Wishes& wishes = {}) {
    return translate_megatron(of_deepspeed + more, DeepSpeedFile{.name = "ds.json", .json = json}, wishes);
  };
  const Translation translation =
      both("--bf16", R"({"train_batch_size": 48, "train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 4,
                    "zero_optimization": {"stage": 2}, "bf16": {"enabled": true}})");
  EXPECT_EQ(translation.devices, 12);
  EXPECT_EQ(translation.value_of("layout.sharding"), "\"zero2\"");
  EXPECT_EQ(translation.value_of("train.global_batch"), "48");
  EXPECT_EQ(translation.software, "megatron-deepspeed");
  EXPECT_FALSE(has_line_with(translation.assumptions, "is not read"));

  const std::string said = refusal_of([&] {
    both("--zero-stage 1 --bf16", R"({"train_micro_batch_size_per_gpu": 4, "zero_optimization": {"stage": 3}})");
  });
  EXPECT_TRUE(holds(said,
                    "--micro-batch-size 2 and train_micro_batch_size_per_gpu = 4 disagree: train.micro_batch would be "
                    "2 or 4; change one of them"));
  EXPECT_TRUE(holds(said, "layout.sharding would be \"zero1\" or \"zero3\""));
}

}  // namespace
}  // namespace terrace::translate
