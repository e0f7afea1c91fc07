// Translates configurations as torchtitan has them for Llama 3, written again here, of 2024 and of 2025.
#include "terrace/translate/torchtitan.h"

#include <gtest/gtest.h>

#include "tests/translate/translated.h"

namespace terrace::translate {
namespace {

Translation titan(const std::string& toml, const Wishes& wishes = {}) {
  return translate_torchtitan(toml, "run.toml", wishes);
}

std::string titan_refusal(const std::string& toml, const Wishes& wishes = {}) {
  return refusal_of([&] { titan(toml, wishes); });
}

const std::string titan_8b = R"(
[job]
description = "Llama 3 8B training"
[metrics]
log_freq = 10
[model]
name = "llama3"
flavor = "8B"
hf_assets_path = "./assets/hf/Llama-3.1-8B"
[optimizer]
name = "AdamW"
lr = 3e-4
eps = 1e-8
[lr_scheduler]
warmup_steps = 200
[training]
local_batch_size = 1
seq_len = 8192
max_norm = 1.0
steps = 1000
dataset = "c4"
[parallelism]
data_parallel_replicate_degree = 1
data_parallel_shard_degree = -1
tensor_parallel_degree = 1
pipeline_parallel_degree = 1
context_parallel_degree = 1
[checkpoint]
enable = false
[compile]
enable = true
components = ["model", "loss"]
[activation_checkpoint]
mode = "selective"
selective_ac_option = "op"
[quantize.linear.float8]
enable_fsdp_float8_all_gather = false
filter_fqns = ["output"]
[validation]
enable = false
)";

TEST(TorchtitanFile, OfLlama3With8Billion) {
  const Translation translation = titan(titan_8b, {.devices = 64});
  EXPECT_TRUE(translation.unknown.empty());
  EXPECT_TRUE(translation.assumptions.empty());
  EXPECT_EQ(translation.agreeing,
            (std::vector<std::string>{
                "compile.enable = true", "model.name = \"llama3\"", "parallelism.context_parallel_degree = 1",
                "parallelism.data_parallel_replicate_degree = 1", "parallelism.pipeline_parallel_degree = 1",
                "parallelism.tensor_parallel_degree = 1"}));
  EXPECT_EQ(translation.software, "torchtitan");
  EXPECT_EQ(parameters_of(translation), 8'030'261'248);  // the model's card
  const config::Config config = config_of(translation);
  EXPECT_EQ(config.train.global_batch, 64);
  EXPECT_EQ(config.train.micro_batch, 1);
  EXPECT_EQ(config.train.steps, 1000);
  EXPECT_EQ(config.train.precision, config::Precision::bf16);
  EXPECT_EQ(config.train.recompute, config::Recompute::selective);
  EXPECT_EQ(config.layout.sharding, config::Sharding::zero3);
  EXPECT_EQ(config.optimizer.schedule, config::Decay::linear);
  EXPECT_EQ(config.optimizer.warmup_steps, 200);
  EXPECT_EQ(models::gpt::model_of(config).sequence, 8192);
}

// The file of November 2024, whose keys stood in other tables.
TEST(TorchtitanFile, OfLlama3With70BillionIn2024) {
  const std::string toml = R"(
[model]
name = "llama3"
flavor = "70B"
norm_type = "rmsnorm"
tokenizer_path = "tokenizer.model"
[optimizer]
name = "AdamW"
lr = 1.5e-4
[training]
batch_size = 8
seq_len = 8192
warmup_steps = 200
max_norm = 1.0
steps = 1000
data_parallel_replicate_degree = 1
data_parallel_shard_degree = -1
tensor_parallel_degree = 8
compile = false
dataset = "c4"
[experimental]
context_parallel_degree = 1
pipeline_parallel_degree = 1
[checkpoint]
enable_checkpoint = false
[activation_checkpoint]
mode = 'full'
[float8]
enable_float8_linear = false
)";
  const Translation translation = titan(toml, {.devices = 256});
  EXPECT_TRUE(translation.unknown.empty());
  EXPECT_EQ(parameters_of(translation), 70'553'706'496);
  const config::Config config = config_of(translation);
  EXPECT_EQ(config.layout.tensor, 8);
  EXPECT_TRUE(config.layout.sequence_parallel);
  EXPECT_EQ(config.train.global_batch, 8 * 32);
  EXPECT_EQ(config.train.recompute, config::Recompute::full);
  EXPECT_TRUE(has_line_with(translation.assumptions, "does not compile them"));
  EXPECT_TRUE(holds(titan_refusal(toml, {.devices = 100}), "= 96; use --devices 96"));
}

// Llama 3.1 of 405 billion parameters: the paper's sizes (arXiv 2407.21783) give 405,853,388,800.
TEST(TorchtitanFile, OfLlama3With405Billion) {
  const std::string toml = R"(
[model]
name = "llama3"
flavor = "405B"
[training]
local_batch_size = 2
seq_len = 8192
[parallelism]
tensor_parallel_degree = 8
enable_async_tensor_parallel = true
[activation_checkpoint]
mode = "full"
)";
  EXPECT_EQ(parameters_of(titan(toml)), 405'853'388'800);
  EXPECT_TRUE(holds(titan_refusal("model.converters = [\"float8\"]\n" + toml.substr(toml.find("[training]"))),
                    "run.toml: model.converters = [\"float8\"]: products are computed in fp32, bf16 or fp16"));
}

// A small model with other tables than those above.
std::string debug_model(const std::string& parallelism, const std::string& training = "") {
  return "[training]\nlocal_batch_size = 8\nseq_len = 256\n" + training + "[parallelism]\n" + parallelism +
         "[activation_checkpoint]\nmode = \"none\"\n";
}

TEST(TorchtitanFile, HasPipelinesOfMicroBatches) {
  const std::string stages = "pipeline_parallel_degree = 2\n";
  const Translation plain = titan(debug_model(stages), {.devices = 4});
  EXPECT_EQ(plain.value_of("layout.pipeline"), "2");
  EXPECT_EQ(plain.value_of("train.micro_batch"), "1");
  EXPECT_EQ(plain.value_of("train.global_batch"), "16");
  EXPECT_EQ(plain.value_of("layout.sharding"), "\"zero2\"");  // FSDP keeps gathered weights in a pipeline
  const Translation looped = titan(
      debug_model(stages + "pipeline_parallel_schedule = \"Interleaved1F1B\"\npipeline_parallel_microbatch_size = 2\n"
                           "pipeline_parallel_layers_per_stage = 2\nfsdp_reshard_after_forward = \"always\"\n"));
  EXPECT_EQ(looped.value_of("layout.schedule"), "\"interleaved\"");
  EXPECT_EQ(looped.value_of("layout.chunks"), "2");  // (6 layers + 2) / 2 are 4 virtual stages
  EXPECT_EQ(looped.value_of("train.micro_batch"), "2");
  EXPECT_EQ(looped.value_of("layout.sharding"), "\"zero3\"");
  EXPECT_EQ(titan(debug_model(stages + "pipeline_parallel_schedule = \"ZBVZeroBubble\"\n")).value_of("layout.chunks"),
            "2");
  EXPECT_TRUE(holds(titan_refusal(debug_model(stages + "pipeline_parallel_schedule = \"DualPipeV\"\n")),
                    "--set layout.schedule=.."));
  EXPECT_TRUE(holds(titan_refusal(debug_model(stages + "pipeline_parallel_microbatch_size = 3\n")),
                    "local_batch_size = 8 does not divide into micro-batches"));
  EXPECT_TRUE(holds(titan_refusal(debug_model(stages + "pipeline_parallel_layers_per_stage = 3\n")), "use 4"));
  const std::string of_2024 =
      "[training]\nbatch_size = 8\n[experimental]\npipeline_parallel_degree = 4\n"
      "[activation_checkpoint]\nmode = \"none\"\n";
  EXPECT_EQ(titan(of_2024).value_of("train.micro_batch"), "2");  // four micro-batches, as many as stages
}

TEST(TorchtitanFile, HasReplicasAndShards) {
  const Translation hybrid =
      titan(debug_model("data_parallel_replicate_degree = 2\ndata_parallel_shard_degree = 4\n"), {.devices = 8});
  EXPECT_EQ(hybrid.value_of("layout.sharding"), "\"hybrid\"");
  EXPECT_EQ(hybrid.value_of("layout.shard_group"), "4");
  EXPECT_EQ(hybrid.value_of("train.global_batch"), "64");
  const Translation replicas =
      titan(debug_model("data_parallel_replicate_degree = 4\ndata_parallel_shard_degree = 1\n"));
  EXPECT_EQ(replicas.value_of("layout.sharding"), "");
  EXPECT_EQ(replicas.devices, 4);
  EXPECT_EQ(titan(debug_model("", "global_batch_size = 64\n"), {.devices = 4}).value_of("train.global_batch"), "64");
  EXPECT_TRUE(holds(titan_refusal(debug_model("", "global_batch_size = 40\n"), {.devices = 4}),
                    "is not a multiple of training.local_batch_size = 8 * 4 data-parallel ranks; use 32"));
}

TEST(TorchtitanFile, HasContextRanks) {
  const auto translated = [](const std::string& more) {
    return titan(debug_model("context_parallel_degree = 2\n" + more), {.devices = 8});
  };
  EXPECT_EQ(translated("").value_of("layout.context"), "2");
  EXPECT_EQ(translated("").value_of("layout.context_route"), "\"gather\"");
  EXPECT_EQ(translated("context_parallel_rotate_method = \"alltoall\"\n").value_of("layout.context_route"), "\"ring\"");
}

TEST(TorchtitanFile, HasAScheduleOfTheRate) {
  const auto rate = [](const std::string& scheduler) {
    return titan(debug_model("", "steps = 100\n") + "[lr_scheduler]\nwarmup_steps = 10\n" + scheduler);
  };
  EXPECT_EQ(rate("decay_ratio = 0.8\n").value_of("optimizer.schedule"), "\"wsd\"");
  EXPECT_EQ(rate("decay_ratio = 0.8\n").value_of("optimizer.decay_steps"), "80");
  EXPECT_EQ(rate("decay_ratio = 1.0\n").value_of("optimizer.decay_steps"), "90");
  EXPECT_EQ(rate("decay_ratio = 0.0\n").value_of("optimizer.schedule"), "\"constant\"");
  EXPECT_EQ(rate("decay_type = \"cosine\"\n").value_of("optimizer.schedule"), "\"cosine\"");
  EXPECT_EQ(rate("min_lr_factor = 0.5\n").value_of("optimizer.min_learning_rate"), "0.0004");
  EXPECT_TRUE(holds(refusal_of([&] { rate("decay_type = \"sqrt\"\n"); }), "--set optimizer.schedule=.."));
}

TEST(TorchtitanFile, IsRefusedWhereNoKeyDoesTheSame) {
  EXPECT_TRUE(holds(titan_refusal("[model]\nname = \"deepseek_v3\"\nflavor = \"16B\"\n"),
                    "known are those of \"llama3\": \"debugmodel\", \"8B\", \"70B\" and \"405B\""));
  EXPECT_TRUE(holds(titan_refusal("[activation_checkpoint]\nmode = \"selective\"\n"), "--set train.recompute=.."));
  EXPECT_EQ(titan_refusal("[activation_checkpoint]\nmode = \"selective\"\n", {.overrides = {"train.recompute=full"}}),
            "");
  for (const char* refused :
       {"context_parallel_degree = 0\n", "expert_parallel_degree = 2\n", "tensor_parallel_degree = 0\n",
        "tensor_parallel_degree = \"a\"\n", "pipeline_parallel_degree = -1\n", "data_parallel_shard_degree = -2\n"}) {
    EXPECT_TRUE(holds(titan_refusal(debug_model(refused)), "run.toml: parallelism.")) << refused;
  }
  EXPECT_TRUE(holds(titan_refusal(debug_model("", "enable_cpu_offload = true\n")), "states are kept on the device"));
  EXPECT_TRUE(holds(titan_refusal("[model\n"), "run.toml:1: "));
  EXPECT_EQ(titan(debug_model("") + "[warp]\ndrive = 9\n").unknown, std::vector<std::string>{"warp.drive = 9"});
}

// Nothing but a UserError comes of a file whose letters are changed, nor of one that is cut off.
TEST(TorchtitanFile, ThatIsDamagedEndsInAUserError) {
  const std::string toml = debug_model(
      "pipeline_parallel_degree = 2\npipeline_parallel_schedule = \"Interleaved1F1B\"\ntensor_parallel_degree = 2\n"
      "pipeline_parallel_layers_per_stage = 2\npipeline_parallel_microbatch_size = 2\ndata_parallel_shard_degree = 4\n",
      "global_batch_size = 64\nsteps = 20\n");
  for (size_t length = 0; length < toml.size(); length += 3) titan_refusal(toml.substr(0, length));
  uint64_t state = 1;
  for (int i = 0; i < 2000; ++i) titan_refusal(damaged(toml, state), {.devices = i % 3 * 16});
}

}  // namespace
}  // namespace terrace::translate
