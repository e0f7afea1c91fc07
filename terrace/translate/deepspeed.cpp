// Lists the keys of DeepSpeed's configuration with what they mean here, and checks its three batch sizes. The keys are
// those of its documentation (www.deepspeed.ai/docs/config-json).
#include "terrace/translate/deepspeed.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "terrace/base/error.h"
#include "terrace/base/problem_list.h"
#include "terrace/base/text/json.h"
#include "terrace/base/text/lower_case.h"
#include "terrace/config/domain.h"
#include "terrace/translate/argument_table.h"

namespace terrace::translate {
namespace {

using enum Meaning;
using config::toml_text;

constexpr std::string_view offloaded = "states are kept on the device";
constexpr std::string_view bucketed = "the plan reduces and gathers the segments of the model";
constexpr std::string_view same_data = "the model and its sequences stay the same during training";
constexpr std::string_view scale = "the loss scale moves by the rules of docs/training.md";
constexpr std::string_view kept = "each tensor rank keeps what enters its layers whole";

constexpr std::array deepspeed_rows = {
    Row{"train_batch_size", part, "train.global_batch"},
    Row{"train_micro_batch_size_per_gpu", part, "train.micro_batch"},
    Row{"gradient_accumulation_steps", part, "train.global_batch"},
    Row{"gradient_clipping", real, "optimizer.clip"},
    Row{"fp16.enabled", part, "train.precision"},
    Row{"bf16.enabled", part, "train.precision"},
    Row{"bfloat16.enabled", part, "train.precision"},
    Row{"fp16.loss_scale", refused, "train.initial_loss_scale", "the loss scale is not fixed", "0|0.0"},
    Row{"fp16.initial_scale_power", part, "train.initial_loss_scale"},
    Row{"fp16.loss_scale_window", part, "train.loss_scale_window"},
    Row{"fp16.*", no_twin, "", scale},
    Row{"bf16.*", no_effect},
    Row{"amp.enabled", refused, "", "train.precision is of the whole model", "false"},
    Row{"amp.*", no_effect},
    Row{"data_types.grad_accum_dtype", word, "train.gradient_type", "fp32=fp32|bf16=bf16|fp16=fp16"},
    Row{"communication_data_type", word, "layout.reduce_type", "fp32=fp32|bf16=bf16"},
    Row{"fp32_allreduce", part, "layout.reduce_type"},
    Row{"zero_optimization.stage", part, "layout.sharding"},
    Row{"zero_optimization.zero_hpz_partition_size", part, "layout.shard_weights"},
    Row{"zero_optimization.mics_shard_size", part, "layout.shard_group"},
    Row{"zero_optimization.mics_hierarchical_params_gather", no_twin, "", bucketed},
    Row{"zero_optimization.zero_quantized_weights", part, "layout.gather_type"},
    Row{"zero_optimization.zero_quantized_gradients", part, "layout.reduce_type"},
    Row{"zero_optimization.zero_quantized_nontrainable_weights", no_effect},
    Row{"zero_optimization.offload_optimizer.device", refused, "", offloaded, "none"},
    Row{"zero_optimization.offload_param.device", refused, "", offloaded, "none"},
    Row{"zero_optimization.offload_*", no_effect},
    Row{"zero_optimization.cpu_offload", refused, "", offloaded, "false"},
    Row{"zero_optimization.cpu_offload_params", refused, "", offloaded, "false"},
    Row{"zero_optimization.cpu_offload_use_pin_memory", no_effect},
    Row{"zero_optimization.overlap_comm", no_twin, "", "the description of the program says what it overlaps"},
    Row{"zero_optimization.*", no_twin, "", bucketed},
    Row{"optimizer.type", part},
    Row{"optimizer.params.lr", real, "optimizer.learning_rate"},
    Row{"optimizer.params.betas", part, "optimizer.beta1"},
    Row{"optimizer.params.eps", real, "optimizer.epsilon"},
    Row{"optimizer.params.weight_decay", real, "optimizer.weight_decay"},
    Row{"optimizer.params.*", no_effect},
    Row{"optimizer.legacy_fusion", no_effect},
    Row{"scheduler.type", word, "optimizer.schedule", "WarmupLR=constant|WarmupDecayLR=linear|WarmupCosineLR=cosine"},
    Row{"scheduler.params.warmup_num_steps", whole, "optimizer.warmup_steps"},
    Row{"scheduler.params.warmup_max_lr", real, "optimizer.learning_rate"},
    Row{"scheduler.params.total_num_steps", part, "optimizer.decay_steps"},
    Row{"scheduler.params.warmup_min_lr", refused, "", "the warm-up begins with 0", "0|0.0"},
    Row{"scheduler.params.warmup_type", no_twin, "", "the rate rises linearly"},
    Row{"scheduler.params.*", no_twin, "", "the decay ends at optimizer.min_learning_rate"},
    Row{"activation_checkpointing.cpu_checkpointing", refused, "", offloaded, "false"},
    Row{"activation_checkpointing.partition_activations", no_twin, "", kept},
    Row{"activation_checkpointing.*", no_effect},
    Row{"pipeline.*", no_twin, "", "layout.pipeline and layout.schedule describe the pipeline"},
    Row{"tensor_parallel.autotp_size", part, "layout.tensor"},
    Row{"tensor_parallel.*", no_effect},
    Row{"sequence_parallel_size", refused, "layout.context",
        "layout.context with context_route = \"heads\" cuts sequences", "1"},
    Row{"curriculum_learning.enabled", refused, "", same_data, "false"},
    Row{"curriculum_learning.*", no_effect},
    Row{"data_efficiency.enabled", refused, "", same_data, "false"},
    Row{"data_efficiency.*", no_effect},
    Row{"progressive_layer_drop.enabled", refused, "", same_data, "false"},
    Row{"progressive_layer_drop.*", no_effect},
    Row{"compression_training.*", refused, "", same_data},
    Row{"sparse_attention.*", refused, "", "attention is of all tokens before, or of model.window of them"},
    Row{"elasticity.enabled", refused, "", "the number of devices stays the same", "false"},
    Row{"elasticity.*", no_effect},
    Row{"eigenvalue.*", no_effect},
    Row{"prescale_gradients", no_effect},
    Row{"gradient_predivide_factor", no_effect},
    Row{"sparse_gradients", no_twin, "", "gradients are dense"},
    Row{"zero_allow_untested_optimizer", no_effect},
    Row{"zero_force_ds_cpu_optimizer", no_effect},
    Row{"steps_per_print", no_effect},
    Row{"wall_clock_breakdown", no_effect},
    Row{"memory_breakdown", no_effect},
    Row{"dump_state", no_effect},
    Row{"disable_allgather", no_twin, "", bucketed},
    Row{"flops_profiler.*", no_effect},
    Row{"tensorboard.*", no_effect},
    Row{"wandb.*", no_effect},
    Row{"csv_monitor.*", no_effect},
    Row{"comet.*", no_effect},
    Row{"comms_logger.*", no_effect},
    Row{"checkpoint.*", no_effect},
    Row{"compile.*", no_twin, "", "the description of the program says which kernels it has"},
    Row{"aio.*", no_effect},
    Row{"nebula.*", no_effect},
    Row{"hybrid_engine.*", no_effect},
    Row{"autotuning.*", no_effect},
};

// The three sizes of a batch. With all three, or with two and the devices, the third follows.
void add_batches(ArgumentReader& reader, int64_t model_ranks, Translation& translation) {
  constexpr std::string_view whole_name = "train_batch_size", micro_name = "train_micro_batch_size_per_gpu",
                             steps_name = "gradient_accumulation_steps";
  const auto batch = reader.whole(whole_name), micro = reader.whole(micro_name), accumulated = reader.whole(steps_name);
  const int64_t devices = reader.wishes().devices, data = devices / model_ranks;
  if (micro) reader.set("train.micro_batch", toml_text(*micro), reader.text(micro_name));
  if (batch) reader.set("train.global_batch", toml_text(*batch), reader.text(whole_name));
  if (batch && micro && accumulated) {
    const int64_t of_rank = product(*micro, *accumulated), ranks = *batch / of_rank;
    if (*batch % of_rank != 0 || (data > 0 && ranks != data)) {
      return reader.problem(fmt::format(
          "{} is not {} * {} * {}; use {}, or another of the four numbers", reader.text(whole_name),
          reader.text(micro_name), reader.text(steps_name),
          data > 0 ? fmt::format("{} data-parallel ranks ({} devices / {} of one model)", data, devices, model_ranks)
                   : "a whole number of data-parallel ranks",
          product(of_rank, data > 0 ? data : std::max<int64_t>(ranks, 1))));
    }
    if (devices == 0) {
      translation.devices = product(ranks, model_ranks);
      reader.assume(fmt::format("{} devices, since {} / ({} * {}) = {} data-parallel ranks{}", translation.devices,
                                *batch, *micro, *accumulated, ranks,
                                model_ranks > 1 ? fmt::format(" of {} devices", model_ranks) : ""));
    }
    return;
  }
  const int64_t ranks = std::max<int64_t>(data, 1);
  if (batch && accumulated) {
    const int64_t parts = product(*accumulated, ranks);
    if (*batch % parts != 0) {
      return reader.problem(fmt::format("{} is not divisible by {} * {} data-parallel ranks; use {}",
                                        reader.text(whole_name), reader.text(steps_name), ranks,
                                        product(std::max<int64_t>(*batch / parts, 1), parts)));
    }
    reader.set("train.micro_batch", toml_text(*batch / parts),
               fmt::format("{} / ({} * {} ranks)", reader.text(whole_name), reader.text(steps_name), ranks));
  } else if (micro && accumulated && !batch) {
    reader.set("train.global_batch", toml_text(product(product(*micro, *accumulated), ranks)),
               fmt::format("{} * {} * {} ranks", reader.text(micro_name), reader.text(steps_name), ranks));
  } else if (batch && micro && data > 0 && *batch % product(*micro, data) != 0) {
    reader.problem(fmt::format("{} is not divisible by {} * {} data-parallel ranks; use {}", reader.text(whole_name),
                               reader.text(micro_name), data,
                               product(std::max<int64_t>(*batch / product(*micro, data), 1), product(*micro, data))));
  }
}

void add_numbers(ArgumentReader& reader) {
  const bool fp16 = reader.boolean("fp16.enabled").value_or(false);
  const std::string_view bf16_name = reader.has("bf16.enabled") ? "bf16.enabled" : "bfloat16.enabled";
  const bool bf16 = reader.boolean(bf16_name).value_or(false);
  if (fp16 && bf16) {
    return reader.problem(fmt::format("{} and {} exclude each other; switch one off", reader.text("fp16.enabled"),
                                      reader.text(bf16_name)));
  }
  if (bf16) reader.set("train.precision", "\"bf16\"", reader.text(bf16_name));
  if (!fp16) return;
  reader.set("train.precision", "\"fp16\"", reader.text("fp16.enabled"));
  reader.set_default("train.gradient_type", "\"fp16\"", "gradients of fp16.enabled");
  if (const auto power = reader.whole("fp16.initial_scale_power", 0)) {
    reader.set("train.initial_loss_scale", toml_text(std::ldexp(1.0, static_cast<int>(std::min<int64_t>(*power, 120)))),
               reader.text("fp16.initial_scale_power"));
  }
  if (const auto window = reader.whole("fp16.loss_scale_window")) {
    reader.set("train.loss_scale_window", toml_text(*window), reader.text("fp16.loss_scale_window"));
  }
}

void add_zero(ArgumentReader& reader) {
  constexpr std::string_view stage_name = "zero_optimization.stage", group_name = "zero_optimization.mics_shard_size",
                             second_name = "zero_optimization.zero_hpz_partition_size",
                             weights_name = "zero_optimization.zero_quantized_weights",
                             gradients_name = "zero_optimization.zero_quantized_gradients";
  const auto stage = reader.whole(stage_name, 0);
  if (stage && *stage > 3) return reader.problem(fmt::format("{}: stages are 0, 1, 2 and 3", reader.text(stage_name)));
  const auto group = reader.has(group_name) && reader.words(group_name) != std::vector<std::string>{"-1"}
                         ? reader.whole(group_name)
                         : std::nullopt;
  if (group) {
    reader.set("layout.sharding", "\"hybrid\"", reader.text(group_name));
    reader.set("layout.shard_group", toml_text(*group), reader.text(group_name));
  } else if (stage) {
    const std::string word = *stage == 0 ? "ddp" : fmt::format("zero{}", *stage);
    reader.set("layout.sharding", toml_text(std::string_view(word)), reader.text(stage_name));
  }
  if (const auto second = reader.whole(second_name); second && *second > 1) {
    reader.set("layout.shard_weights", toml_text(*second), reader.text(second_name));
  }
  if (reader.boolean(weights_name).value_or(false)) {
    reader.set("layout.gather_type", "\"int8\"", reader.text(weights_name));
  }
  if (reader.boolean(gradients_name).value_or(false)) {
    reader.set("layout.reduce_type", "\"int4\"", reader.text(gradients_name));
  } else if (reader.boolean("fp32_allreduce").value_or(false)) {
    reader.set("layout.reduce_type", "\"fp32\"", reader.text("fp32_allreduce"));
  }
}

void add_optimizer(ArgumentReader& reader, const Translation& translation) {
  const std::string type = lower_case(reader.word("optimizer.type").value_or("adamw"));
  if (type != "adam" && type != "adamw" && type != "fusedadam") {
    reader.refuse("optimizer.type", "the optimizer is AdamW");
  }
  const std::vector<std::string> betas = reader.words("optimizer.params.betas");
  const auto is_rate = [](const std::string& text) {
    char* end = nullptr;
    const double rate = std::strtod(text.c_str(), &end);
    return !text.empty() && *end == '\0' && rate >= 0 && rate < 1;
  };
  if (betas.size() == 2 && std::ranges::all_of(betas, is_rate)) {
    reader.set("optimizer.beta1", toml_text(std::stod(betas[0])), reader.text("optimizer.params.betas"));
    reader.set("optimizer.beta2", toml_text(std::stod(betas[1])), reader.text("optimizer.params.betas"));
  } else if (reader.has("optimizer.params.betas")) {
    reader.problem(fmt::format("{}: give two numbers of at least 0 and below 1, such as [0.9, 0.95]",
                               reader.text("optimizer.params.betas")));
  }
  const auto total = reader.whole("scheduler.params.total_num_steps");
  if (total && translation.value_of("optimizer.schedule") != "\"constant\"") {
    reader.set("optimizer.decay_steps", toml_text(*total), reader.text("scheduler.params.total_num_steps"));
  }
  if (const auto tensor = reader.whole("tensor_parallel.autotp_size", 0); tensor && *tensor > 1) {
    reader.set("layout.tensor", toml_text(*tensor), reader.text("tensor_parallel.autotp_size"));
  }
}

}  // namespace

void add_deepspeed(const DeepSpeedFile& file, int64_t model_ranks, const Wishes& wishes, Translation& translation,
                   std::vector<std::string>& problems) {
  const Json object = parse_json_or_discard(file.json);
  if (!object.is_object()) {
    throw UserError::of(
        "{} is not a JSON object; give DeepSpeed's configuration, such as {{\"train_batch_size\": 512}}", file.name);
  }
  std::vector<std::string> of_file;
  ArgumentReader reader(arguments_of(object), deepspeed_rows, Spelling::path, wishes, translation, of_file);
  add_batches(reader, model_ranks, translation);
  add_numbers(reader);
  add_zero(reader);
  add_optimizer(reader, translation);
  reader.finish();
  for (const std::string& problem : of_file) problems.push_back(file.name + ": " + problem);
}

Translation translate_deepspeed(const DeepSpeedFile& file, int64_t model_ranks, const Wishes& wishes) {
  Translation translation{.program = "DeepSpeed"};
  std::vector<std::string> problems;
  add_deepspeed(file, model_ranks, wishes, translation, problems);
  const bool is_zeropp = !translation.value_of("layout.shard_weights").empty() ||
                         translation.value_of("layout.gather_type") == "\"int8\"" ||
                         translation.value_of("layout.reduce_type") == "\"int4\"";
  translation.software = is_zeropp ? "deepspeed-zeropp" : "deepspeed-zero3";
  translation.why_software = is_zeropp ? "the file asks for parts of ZeRO++"
                                       : "it describes DeepSpeed around layers of plain PyTorch, whatever the stage";
  throw_problems(problems, "problems with --from-deepspeed");
  return translation;
}

}  // namespace terrace::translate
