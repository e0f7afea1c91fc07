// Applies the table, and the rules by which several keys together make keys of ours.
#include "terrace/translate/torchtitan.h"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <cmath>

#include "terrace/base/error.h"
#include "terrace/base/problem_list.h"
#include "terrace/base/text/lower_case.h"
#include "terrace/config/divisors.h"
#include "terrace/config/domain.h"
#include "terrace/translate/torchtitan_table.h"

namespace terrace::translate {
namespace {

using config::toml_text;

// The degrees of torchtitan's mesh.
struct Degrees {
  int64_t replicas = 1, shards = 1, tensor = 1, context = 1, stages = 1;
  bool shards_the_rest = true;  // data_parallel_shard_degree = -1
  int64_t data() const { return product(replicas, shards); }
};

class TitanFile {
 public:
  TitanFile(std::vector<Argument> arguments, const Wishes& wishes, Translation& translation,
            std::vector<std::string>& problems)
      : reader_(std::move(arguments), torchtitan_table(), Spelling::path, wishes, translation, problems),
        translation_(translation) {}

  void translate() {
    add_model();
    find_degrees();
    add_layout();
    add_pipeline();
    add_batch();
    add_recompute();
    add_optimizer();
    add_program();
    reader_.finish();
  }

 private:
  // The path of a key, which stood in other tables before; the first where none is given.
  static std::vector<std::string> paths(std::string_view key) {
    return {"parallelism." + std::string(key), "training." + std::string(key), "experimental." + std::string(key),
            "lr_scheduler." + std::string(key)};
  }
  std::string path_of(std::string_view key) const {
    const std::vector<std::string> list = paths(key);
    const auto found = std::ranges::find_if(list, [&](const std::string& path) { return reader_.has(path); });
    return found == list.end() ? list.front() : *found;
  }
  // Sets a key to the value that a path has, or that it has by default.
  void settle(std::string_view key, const std::string& value, std::string_view path, std::string_view by_default) {
    if (reader_.has(path)) return reader_.set(key, value, reader_.text(path));
    reader_.set_default(key, value, by_default);
  }
  int64_t degree(std::string_view key, int64_t missing) { return reader_.whole(path_of(key)).value_or(missing); }

  void add_model();
  void find_degrees();
  void add_layout();
  void add_pipeline();
  void add_batch();
  void add_recompute();
  void add_optimizer();
  void add_program();

  ArgumentReader reader_;
  Translation& translation_;
  Degrees degrees_;
};

void TitanFile::add_model() {
  const std::string name = reader_.word("model.name").value_or("llama3");
  const std::string flavor = reader_.word("model.flavor").value_or("debugmodel");
  const auto known = std::ranges::find(llama3_flavors(), flavor, &TitanFlavor::name);
  if (name != "llama3" || known == llama3_flavors().end()) {
    std::vector<std::string> names;
    for (const TitanFlavor& size : llama3_flavors()) names.push_back(toml_text(size.name));
    return reader_.problem(
        fmt::format("model.name = \"{}\" with flavor = \"{}\" is not known here; known are those of \"llama3\": {}",
                    name, flavor, config::listed(names, "and")));
  }
  const std::string from = reader_.has("model.flavor") ? reader_.text("model.flavor") : "flavor = \"debugmodel\"";
  reader_.set("model.layers", toml_text(known->layers), from);
  reader_.set("model.width", toml_text(known->width), from);
  reader_.set("model.heads", toml_text(known->heads), from);
  reader_.set("model.kv_heads", toml_text(known->kv_heads), from);
  reader_.set("model.ffn_width", toml_text(known->ffn_width), from);
  reader_.set("model.vocabulary", toml_text(known->vocabulary), from);
  reader_.set("model.positions", "\"rotary\"", from);
  reader_.set("model.rope_theta", "500000.0", from);
  reader_.set("model.norm", "\"rmsnorm\"", from);
  reader_.set("model.activation", "\"swiglu\"", from);
  reader_.set("model.tied_head", "false", from);
  reader_.set("model.bias", "false", from);
  reader_.set_default("model.sequence", "2048", "seq_len = 2048");
  const std::string norm = reader_.word("model.norm_type").value_or("rmsnorm");
  if (norm == "layernorm" || norm == "np_layernorm") {
    reader_.refuse("model.norm_type", "the model of a flavor has RMSNorms", "model.norm");
  }
  if (reader_.has("model.converters")) {
    reader_.refuse("model.converters", "products are computed in fp32, bf16 or fp16");
  }
}

void TitanFile::find_degrees() {
  degrees_.replicas = degree("data_parallel_replicate_degree", 1);
  degrees_.tensor = degree("tensor_parallel_degree", 1);
  degrees_.context = degree("context_parallel_degree", 1);
  degrees_.stages = degree("pipeline_parallel_degree", 1);
  const std::string shards =
      path_of(reader_.has("training.data_parallel_degree") ? "data_parallel_degree" : "data_parallel_shard_degree");
  degrees_.shards_the_rest = !reader_.has(shards) || reader_.words(shards) == std::vector<std::string>{"-1"};
  const int64_t others =
      product(product(degrees_.replicas, degrees_.context), product(degrees_.tensor, degrees_.stages));
  const int64_t devices = reader_.wishes().devices;
  if (!degrees_.shards_the_rest) {
    degrees_.shards = reader_.whole(shards).value_or(1);
  } else if (devices > 0) {
    degrees_.shards = std::max<int64_t>(devices / others, 1);
  } else {
    reader_.assume(
        "data_parallel_shard_degree = -1 takes the devices that --devices leaves, and without --devices it is 1");
  }
  const int64_t all = product(others, degrees_.shards);
  translation_.devices = devices > 0 ? devices : all;
  if (devices > 0 && devices != all) {
    reader_.problem(fmt::format(
        "{} devices are not {} replicas * {} shards * {}{} tensor ranks * {} stages = {}; use --devices {}, "
        "or another degree",
        devices, degrees_.replicas, degrees_.shards,
        degrees_.context > 1 ? fmt::format("{} context ranks * ", degrees_.context) : "", degrees_.tensor,
        degrees_.stages, all, all));
  }
}

void TitanFile::add_layout() {
  if (degrees_.tensor > 1) {
    const std::string from = reader_.text(path_of("tensor_parallel_degree"));
    reader_.set("layout.tensor", toml_text(degrees_.tensor), from);
    reader_.set("layout.sequence_parallel", "true", from);
  }
  if (degrees_.context > 1) {
    reader_.set("layout.context", toml_text(degrees_.context), reader_.text(path_of("context_parallel_degree")));
    const std::string method = path_of("context_parallel_rotate_method");
    const bool passes_on = reader_.word(method).value_or("allgather") == "alltoall";
    settle("layout.context_route", passes_on ? "\"ring\"" : "\"gather\"", method, "rotate_method = \"allgather\"");
  }
  if (degrees_.stages > 1) {
    reader_.set("layout.pipeline", toml_text(degrees_.stages), reader_.text(path_of("pipeline_parallel_degree")));
  }
  if (degrees_.shards == 1 && !degrees_.shards_the_rest) return;  // plain data parallelism, as by default here
  const std::string policy = reader_.word("parallelism.fsdp_reshard_after_forward").value_or("default");
  const bool keeps = policy == "never" || (policy == "default" && degrees_.stages > 1);
  const std::string path = path_of("data_parallel_shard_degree");
  const std::string from = reader_.has(path) ? reader_.text(path) : "data_parallel_shard_degree = -1";
  if (keeps) {
    reader_.assume(
        "weights stay gathered from forward to backward, as after fsdp_reshard_after_forward = \"never\" and by "
        "default with stages, so each rank holds them whole");
  }
  if (degrees_.replicas == 1) return reader_.set("layout.sharding", keeps ? "\"zero2\"" : "\"zero3\"", from);
  reader_.set("layout.sharding", "\"hybrid\"", from + ", " + reader_.text(path_of("data_parallel_replicate_degree")));
  reader_.set("layout.shard_group", toml_text(degrees_.shards), from);
  if (keeps) reader_.set("layout.shard_weights", "\"none\"", from);
}

void TitanFile::add_pipeline() {
  if (degrees_.stages == 1) return;
  const std::string path = path_of("pipeline_parallel_schedule");
  const std::string schedule = lower_case(reader_.word(path).value_or("1F1B"));
  const std::string from = reader_.has(path) ? reader_.text(path) : "pipeline_parallel_schedule = \"1F1B\"";
  int64_t chunks = 1;
  if (schedule == "gpipe") {
    reader_.set("layout.schedule", "\"gpipe\"", from);
  } else if (schedule == "interleaved1f1b" || schedule == "interleaved_1f1b") {
    reader_.set("layout.schedule", "\"interleaved\"", from);
    chunks = 2;
  } else if (schedule == "zbvzerobubble") {
    reader_.set("layout.schedule", "\"zb-v\"", from);
    chunks = 2;
  } else if (schedule != "1f1b") {
    reader_.refuse(path, "there are twins of 1F1B, GPipe, Interleaved1F1B and ZBVZeroBubble", "layout.schedule");
  }
  if (const auto layers = reader_.whole("parallelism.pipeline_parallel_layers_per_stage")) {
    // The embedding and the head count as a layer each.
    const int64_t units = translation_.whole_value("model.layers", 0) + 2,
                  virtual_stages = (units + *layers - 1) / *layers;
    if (virtual_stages % degrees_.stages != 0) {
      return reader_.problem(
          fmt::format("{} makes {} virtual stages of {} layers, embedding and head, which are no multiple "
                      "of {} stages; use {}",
                      reader_.text("parallelism.pipeline_parallel_layers_per_stage"), virtual_stages, units - 2,
                      degrees_.stages, (units + degrees_.stages - 1) / degrees_.stages));
    }
    chunks = virtual_stages / degrees_.stages;
  }
  if (chunks > 1) reader_.set("layout.chunks", toml_text(chunks), from);
}

void TitanFile::add_batch() {
  const std::string path = path_of(reader_.has("training.batch_size") ? "batch_size" : "local_batch_size");
  const int64_t local = reader_.whole(path).value_or(8);
  const std::string from = reader_.has(path) ? reader_.text(path) : "local_batch_size = 8";
  int64_t micro = local;
  std::string micro_from = from;
  if (degrees_.stages > 1) {
    const std::string count_path = path_of("pipeline_parallel_microbatches");
    const std::string size_path = "parallelism.pipeline_parallel_microbatch_size";
    // Before there was a size, as many micro-batches as stages were the default.
    const bool counts = reader_.has(count_path) || reader_.has("experimental.pipeline_parallel_degree");
    const int64_t count = counts ? reader_.whole(count_path).value_or(degrees_.stages) : 1;
    micro = counts ? std::max<int64_t>(local / count, 1) : reader_.whole(size_path).value_or(1);
    micro_from = counts ? fmt::format("{} / {} micro-batches", from, count)
                        : (reader_.has(size_path) ? reader_.text(size_path) : "pipeline_parallel_microbatch_size = 1");
    if (local % (counts ? count : micro) != 0) {
      reader_.problem(fmt::format(
          "{} does not divide into micro-batches: {}; use {}", from, micro_from,
          config::listed(config::divisors_near(std::min<int64_t>(local, 100'000), counts ? count : micro))));
    }
  }
  reader_.set("train.micro_batch", toml_text(micro), micro_from);
  const int64_t step = product(local, degrees_.data());
  const bool is_given = reader_.has("training.global_batch_size") &&
                        reader_.words("training.global_batch_size") != std::vector<std::string>{"-1"};
  const auto global = is_given ? reader_.whole("training.global_batch_size") : std::nullopt;
  if (!global) {
    return reader_.set("train.global_batch", toml_text(step),
                       fmt::format("{} * {} data-parallel ranks", from, degrees_.data()));
  }
  if (*global % step != 0) {
    return reader_.problem(fmt::format("{} is not a multiple of {} * {} data-parallel ranks; use {}",
                                       reader_.text("training.global_batch_size"), from, degrees_.data(),
                                       product(std::max<int64_t>(*global / step, 1), step)));
  }
  reader_.set("train.global_batch", toml_text(*global), reader_.text("training.global_batch_size"));
}

void TitanFile::add_recompute() {
  const std::string mode = reader_.word("activation_checkpoint.mode").value_or("selective");
  const std::string from = reader_.has("activation_checkpoint.mode") ? reader_.text("activation_checkpoint.mode")
                                                                     : "activation_checkpoint.mode = \"selective\"";
  if (mode == "none") return;
  if (mode == "full") return reader_.set("train.recompute", "\"full\"", from);
  const std::string option = reader_.word("activation_checkpoint.selective_ac_option").value_or("2");
  if (mode == "selective" && option == "op") {
    return reader_.set("train.recompute", "\"selective\"",
                       from + ", " + reader_.text("activation_checkpoint.selective_ac_option"));
  }
  if (mode == "selective" && option == "1") return reader_.set("train.recompute", "\"full\"", from);
  if (mode == "selective") {
    return reader_.refuse("activation_checkpoint.selective_ac_option",
                          fmt::format("one of {} layers is recomputed, and train.recompute is of all layers", option),
                          "train.recompute");
  }
  reader_.refuse("activation_checkpoint.mode", "modes are none, selective and full", "train.recompute");
}

void TitanFile::add_optimizer() {
  reader_.set_default("train.precision", "\"bf16\"", "mixed_precision_param = \"bfloat16\"");
  reader_.set_default("train.steps", "10000", "steps = 10000");
  reader_.set_default("optimizer.learning_rate", "0.0008", "lr = 8e-4");
  const int64_t steps = translation_.whole_value("train.steps", 1);
  const std::string warmup_path =
      reader_.has("training.warmup_steps") ? "training.warmup_steps" : "lr_scheduler.warmup_steps";
  const int64_t warmup = std::min(reader_.whole(warmup_path, 0).value_or(200), steps);
  settle("optimizer.warmup_steps", toml_text(warmup), warmup_path, "warmup_steps = 200");
  const std::string type = reader_.word("lr_scheduler.decay_type").value_or("linear");
  const auto ratio = reader_.real("lr_scheduler.decay_ratio");
  if (type != "linear" && (type != "cosine" || ratio)) {
    reader_.refuse("lr_scheduler.decay_type", "a decay is linear, or a cosine over all steps after the warm-up",
                   "optimizer.schedule");
  } else if (!ratio || warmup == steps) {
    settle("optimizer.schedule", toml_text(std::string_view(type)), "lr_scheduler.decay_type",
           "decay_type = \"linear\"");
  } else if (*ratio == 0) {
    reader_.set("optimizer.schedule", "\"constant\"", reader_.text("lr_scheduler.decay_ratio"));
  } else {
    const auto decay = static_cast<int64_t>(std::llround(std::min(*ratio, 1.0) * static_cast<double>(steps)));
    reader_.set("optimizer.schedule", "\"wsd\"", reader_.text("lr_scheduler.decay_ratio"));
    reader_.set("optimizer.decay_steps", toml_text(std::clamp<int64_t>(decay, 1, steps - warmup)),
                reader_.text("lr_scheduler.decay_ratio"));
  }
  for (const std::string_view factor_path : {"lr_scheduler.min_lr_factor", "lr_scheduler.lr_min"}) {
    const auto factor = reader_.real(factor_path);
    const auto rate = reader_.real("optimizer.lr");
    if (factor) {
      reader_.set("optimizer.min_learning_rate", toml_text(*factor * rate.value_or(8e-4)), reader_.text(factor_path));
    }
  }
}

void TitanFile::add_program() {
  translation_.software = "torchtitan";
  translation_.why_software = "the file is torchtitan's";
  const bool compiles =
      reader_.boolean("compile.enable").value_or(false) || reader_.boolean("training.compile").value_or(false);
  if (!compiles) reader_.assume("the description torchtitan is of compiled layers, and the file does not compile them");
}

}  // namespace

Translation translate_torchtitan(const std::string& toml, const std::string& file_name, const Wishes& wishes) {
  toml::table table;
  try {
    table = toml::parse(toml);
  } catch (const toml::parse_error& error) {
    throw UserError::of("{}:{}: {}", file_name, error.source().begin.line, error.description());
  }
  Translation translation{.program = "torchtitan"};
  std::vector<std::string> problems;
  TitanFile(arguments_of(table), wishes, translation, problems).translate();
  for (std::string& problem : problems) problem.insert(0, file_name + ": ");
  throw_problems(problems, "problems with --from-torchtitan");
  return translation;
}

}  // namespace terrace::translate
