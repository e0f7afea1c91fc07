// Rules of Megatron-LM's arguments for stages, sharding, recompute and the program that runs them.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "terrace/config/divisors.h"
#include "terrace/config/domain.h"
#include "terrace/config/section_keys.h"
#include "terrace/translate/megatron_rules.h"

namespace terrace::translate {
namespace {

using config::toml_text;

void add_chunks(ArgumentReader& reader, int64_t layers, int64_t stages) {
  const auto layers_of_chunk = reader.whole("num-layers-per-virtual-pipeline-stage");
  const auto chunks = reader.whole("num-virtual-stages-per-pipeline-rank");
  if (!layers_of_chunk && !chunks) return;
  const std::string argument =
      reader.text(layers_of_chunk ? "num-layers-per-virtual-pipeline-stage" : "num-virtual-stages-per-pipeline-rank");
  if (layers == 0 || layers > config::most_layers) return;
  const int64_t of_stage = layers / stages;
  if (layers % stages != 0 || of_stage % layers_of_chunk.value_or(*chunks) != 0) {
    return reader.problem(fmt::format(
        "{} does not divide {} layers / {} stages{}; use {}", argument, layers, stages,
        layers % stages == 0 ? fmt::format(" = {}", of_stage) : "",
        layers % stages == 0 ? config::listed(config::divisors_near(of_stage, layers_of_chunk.value_or(*chunks)))
                             : fmt::format("stages of {}", config::listed(config::divisors_near(layers, stages)))));
  }
  const int64_t count = chunks ? *chunks : of_stage / *layers_of_chunk;
  if (stages == 1 || count == 1) return reader.assume(argument + " leaves one virtual stage a stage");
  reader.set("layout.chunks", toml_text(count), argument);
  reader.set("layout.schedule", "\"interleaved\"", argument);
}

// A first or last stage with another number of layers than the others.
void add_uneven_stages(ArgumentReader& reader, int64_t layers, int64_t stages, int64_t chunks) {
  constexpr std::string_view first = "decoder-first-pipeline-num-layers", last = "decoder-last-pipeline-num-layers";
  if (!reader.has_any({first, last})) return;
  const std::string_view given = reader.has(first) ? first : last;
  if (chunks > 1) {
    return reader.refuse(given, "virtual stages are not divided by it", "layout.stage_layers");
  }
  const auto head = reader.whole(first, 0), tail = reader.whole(last, 0);
  if (stages > layers || layers > config::most_layers) return;
  const int64_t others = stages - (head ? 1 : 0) - (tail ? 1 : 0);
  const int64_t rest = layers - std::min(head.value_or(0), layers) - std::min(tail.value_or(0), layers);
  if (others < 1 || rest < others || rest % others != 0) {
    return reader.problem(
        fmt::format("{}: {} layers are left for {} other stages, which does not divide; use another "
                    "number",
                    reader.text(given), rest, others));
  }
  std::vector<int64_t> numbers(static_cast<size_t>(stages), rest / others);
  if (head) numbers.front() = *head;
  if (tail) numbers.back() = *tail;
  reader.set("layout.stage_layers", toml_text(numbers),
             head && tail ? reader.text(first) + " " + reader.text(last) : reader.text(given));
}

void add_sharding_by_words(ArgumentReader& reader, std::string_view argument) {
  constexpr std::string_view name = "data-parallel-sharding-strategy";
  const std::string strategy = reader.word(name).value_or("no_shard");
  const std::string from = reader.has(name) ? reader.text(name) : std::string(argument);
  if (strategy == "no_shard") return;
  if (strategy == "optim") return reader.set("layout.sharding", "\"zero1\"", from);
  if (strategy == "optim_grads") return reader.set("layout.sharding", "\"zero2\"", from);
  if (strategy == "optim_grads_params") return reader.set("layout.sharding", "\"zero3\"", from);
  reader.refuse(name, "strategies are no_shard, optim, optim_grads and optim_grads_params", "layout.sharding");
}

void add_sharding(ArgumentReader& reader, const Translation& translation) {
  if (translation.program == megatron_deepspeed) {
    const auto stage = reader.whole("zero-stage", 0);
    const std::string word = stage.value_or(1) == 0 ? "ddp" : fmt::format("zero{}", stage.value_or(1));
    if (stage && *stage > 3) {
      reader.problem(fmt::format("{}: stages are 0, 1, 2 and 3", reader.text("zero-stage")));
    } else if (stage) {
      reader.set("layout.sharding", toml_text(std::string_view(word)), reader.text("zero-stage"));
    } else {
      reader.set_default("layout.sharding", "\"zero1\"", "--zero-stage 1");
    }
    return;
  }
  if (reader.has("use-torch-fsdp2")) {
    const bool keeps = reader.has("torch-fsdp2-no-reshard-after-forward");
    reader.set("layout.sharding", keeps ? "\"zero2\"" : "\"zero3\"", reader.text("use-torch-fsdp2"));
  } else if (reader.has_any({"use-megatron-fsdp", "use-custom-fsdp"})) {
    add_sharding_by_words(reader, reader.text("use-megatron-fsdp"));
  } else if (reader.has("use-distributed-optimizer")) {
    reader.set("layout.sharding", "\"zero1\"", reader.text("use-distributed-optimizer"));
  }
}

// The number of layers after which another one is kept, or with the method block the recomputed layers of each virtual
// stage, and the argument that says it.
std::optional<int64_t> recomputed_layers(ArgumentReader& reader, std::string& argument) {
  for (const std::string_view name :
       {"recompute-num-layers", "activations-checkpoint-num-layers", "checkpoint-num-layers"}) {
    if (const auto number = reader.whole(name)) {
      argument = reader.text(name);
      return number;
    }
  }
  return std::nullopt;
}

void add_full_recompute(ArgumentReader& reader, const Translation& translation, std::string_view argument,
                        const std::string& method) {
  std::string number_argument;
  const std::optional<int64_t> number = recomputed_layers(reader, number_argument);
  const int64_t stages =
      product(translation.whole_value("layout.pipeline", 1), translation.whole_value("layout.chunks", 1));
  const int64_t of_stage = (translation.whole_value("model.layers", 0) + stages - 1) / stages;
  if (method == "block" && number.value_or(1) < of_stage && !reader.wishes().gives("train.recompute")) {
    const int64_t chunks = translation.whole_value("layout.chunks", 1);
    if (chunks > 1) {
      reader.assume(fmt::format("the {} layers are those of the first virtual stages, not {} of each ({})",
                                product(chunks, number.value_or(1)), number.value_or(1), number_argument));
    }
    reader.set("layout.recompute_layers", toml_text(product(chunks, number.value_or(1))),
               number_argument.empty() ? std::string(argument) : number_argument);
  }
  if (method != "block" && number.value_or(1) > 1) {
    reader.assume(fmt::format("each layer is recomputed from what enters it, not {} layers together ({})", *number,
                              number_argument));
  }
  reader.set("train.recompute", "\"full\"", argument);
}

void add_recompute(ArgumentReader& reader, const Translation& translation) {
  const std::string granularity = reader.word("recompute-granularity").value_or("");
  std::string method = reader.word("recompute-method").value_or("");
  if (granularity == "full") {
    return add_full_recompute(reader, translation, reader.text("recompute-granularity"), method);
  }
  for (const std::string_view name : {"checkpoint-activations", "activations-checkpoint-method"}) {
    if (!reader.has(name)) continue;
    if (name == "activations-checkpoint-method") method = reader.word(name).value_or("");
    return add_full_recompute(reader, translation, reader.text(name), method);
  }
  if (granularity == "selective" || (granularity.empty() && reader.has("recompute-activations"))) {
    const std::vector<std::string> modules = reader.words("recompute-modules");
    if (reader.has("recompute-modules") && modules != std::vector<std::string>{"core_attn"}) {
      return reader.refuse("recompute-modules", "what selective recompute repeats is attention alone, core_attn",
                           "train.recompute");
    }
    return reader.set("train.recompute", "\"selective\"",
                      reader.text(granularity.empty() ? "recompute-activations" : "recompute-granularity"));
  }
  if (!granularity.empty()) {
    reader.refuse("recompute-granularity", "granularities are full and selective", "train.recompute");
  }
}

}  // namespace

// Megatron-LM's context ranks, or those of Megatron-DeepSpeed, which exchange positions for heads.
void add_context(ArgumentReader& reader) {
  const bool by_heads = reader.has("ds-sequence-parallel-size");
  const std::string_view size = by_heads ? "ds-sequence-parallel-size" : "context-parallel-size";
  const int64_t ranks = reader.whole(size).value_or(1);
  if (ranks == 1) return;
  reader.set("layout.context", toml_text(ranks), reader.text(size));
  if (by_heads) return reader.set("layout.context_route", "\"heads\"", reader.text(size));
  const std::vector<std::string> types = reader.words("cp-comm-type");
  if (types.empty()) return reader.set_default("layout.context_route", "\"ring\"", "--cp-comm-type p2p");
  constexpr std::array<std::pair<std::string_view, std::string_view>, 3> routes = {
      {{"p2p", "\"ring\""}, {"all_gather", "\"gather\""}, {"a2a", "\"heads\""}}};
  const auto route = std::ranges::find(routes, types.front(), &std::pair<std::string_view, std::string_view>::first);
  if (route == routes.end() || std::ranges::count(types, types.front()) != std::ssize(types)) {
    return reader.refuse("cp-comm-type", "keys go to all context ranks by one route", "layout.context_route");
  }
  reader.set("layout.context_route", std::string(route->second), reader.text("cp-comm-type"));
}

void add_megatron_layout(ArgumentReader& reader, const Translation& translation) {
  add_context(reader);
  if (reader.has("no-pipeline-parallel")) {
    reader.set("layout.pipeline", "1", reader.text("no-pipeline-parallel"));
  } else if (const auto stages = reader.whole("pipeline-model-parallel-size")) {
    reader.set("layout.pipeline", toml_text(*stages), reader.text("pipeline-model-parallel-size"));
  }
  const int64_t stages = translation.whole_value("layout.pipeline", 1);
  const int64_t layers = translation.whole_value("model.layers", 0);
  add_chunks(reader, layers, stages);
  add_uneven_stages(reader, layers, stages, translation.whole_value("layout.chunks", 1));
  if (reader.has("sequence-parallel")) {
    if (translation.whole_value("layout.tensor", 1) > 1) {
      reader.set("layout.sequence_parallel", "true", reader.text("sequence-parallel"));
    } else {
      reader.remark("sequence-parallel", "it has no effect with one tensor rank");
    }
  }
  add_sharding(reader, translation);
  add_recompute(reader, translation);
}

void add_megatron_program(ArgumentReader& reader, Translation& translation) {
  if (translation.program == megatron_deepspeed) {
    translation.software = "megatron-deepspeed";
    translation.why_software = reader.has("deepspeed") ? "--deepspeed is given" : "--from-deepspeed is given";
    const std::string sharding = translation.value_of("layout.sharding");
    const bool cuts_more = sharding == "\"zero2\"" || sharding == "\"zero3\"";
    if (cuts_more && translation.whole_value("layout.pipeline", 1) > 1) {
      reader.assume("DeepSpeed's pipeline has no ZeRO stage above 1; terrace's has, and the plan is of it");
    }
    if (!reader.has_any({"use-flash-attn", "use-flash-attn-v1", "use-flash-attn-v2", "use-flash-attn-triton"})) {
      reader.assume("the description megatron-deepspeed has FlashAttention, and the arguments do not ask for it");
    }
    return;
  }
  for (const std::string_view name :
       {"use-mcore-models", "transformer-impl", "overlap-grad-reduce", "overlap-param-gather", "tp-comm-overlap",
        "attention-backend", "use-flash-attn", "group-query-attention", "normalization", "ckpt-format",
        "use-torch-fsdp2", "use-megatron-fsdp", "use-custom-fsdp", "num-virtual-stages-per-pipeline-rank"}) {
    if (!reader.has(name)) continue;
    translation.software = "megatron-core";
    translation.why_software = fmt::format("{} is of Megatron-LM after 2022", reader.text(name));
    if (!reader.has("overlap-grad-reduce")) {
      reader.assume(
          "the description megatron-core reduces gradients during backward, for which the arguments lack "
          "--overlap-grad-reduce");
    }
    return;
  }
  translation.software = "megatron";
  translation.why_software =
      "no argument is of Megatron-LM after 2022, so attention is not fused; --software "
      "megatron-core is of 2024";
}

}  // namespace terrace::translate
