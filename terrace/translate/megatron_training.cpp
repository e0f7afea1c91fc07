// Rules of Megatron-LM's arguments for the precision, the batch, the steps and the learning rate.
#include <fmt/format.h>

#include <algorithm>

#include "terrace/config/domain.h"
#include "terrace/translate/megatron_rules.h"

namespace terrace::translate {
namespace {

using config::toml_text;

void add_precision(ArgumentReader& reader) {
  const bool bf16 = reader.has("bf16"), fp16 = reader.has("fp16");
  if (bf16 && fp16) return reader.problem("--bf16 and --fp16 are both given; remove one of them");
  if (!bf16 && !fp16) return;
  const std::string type = bf16 ? "bf16" : "fp16";
  reader.set("train.precision", toml_text(std::string_view(type)), reader.text(type));
  const std::string main_gradients = reader.word("main-grads-dtype").value_or("");
  if (bf16 && (reader.has("grad-reduce-in-bf16") || main_gradients == "bf16")) {
    reader.set("train.gradient_type", "\"bf16\"",
               reader.text(main_gradients == "bf16" ? "main-grads-dtype" : "grad-reduce-in-bf16"));
  } else if (fp16 && !reader.has("accumulate-allreduce-grads-in-fp32") && main_gradients.empty()) {
    reader.set_default("train.gradient_type", "\"fp16\"", "gradients of --fp16");
  } else if (reader.has("accumulate-allreduce-grads-in-fp32")) {
    reader.set("train.gradient_type", "\"fp32\"", reader.text("accumulate-allreduce-grads-in-fp32"));
  }
  if (bf16) return;
  const auto scale = reader.real("initial-loss-scale"), window = reader.real("loss-scale-window");
  if (scale) reader.set("train.initial_loss_scale", toml_text(*scale), reader.text("initial-loss-scale"));
  reader.set_default("train.initial_loss_scale", "4294967296.0", "--initial-loss-scale 2^32");
  if (window) {
    reader.set("train.loss_scale_window", toml_text(static_cast<int64_t>(std::min(*window, 1e12))),
               reader.text("loss-scale-window"));
  }
}

void add_batch(ArgumentReader& reader, const Translation& translation) {
  reader.require("train.micro_batch", "--micro-batch-size");
  const int64_t model_ranks =
      product(product(translation.whole_value("layout.tensor", 1), translation.whole_value("layout.context", 1)),
              translation.whole_value("layout.pipeline", 1));
  const int64_t data = std::max<int64_t>(translation.devices / model_ranks, 1);
  reader.set_default("train.global_batch", toml_text(product(translation.whole_value("train.micro_batch", 1), data)),
                     fmt::format("--global-batch-size of a micro-batch for each of {} data-parallel ranks", data));
  const std::vector<std::string> ramp = reader.words("rampup-batch-size");
  if (!reader.has("rampup-batch-size")) return;
  const auto is_number = [](const std::string& word) {
    return !word.empty() && word.size() < 16 && std::ranges::all_of(word, [](char c) { return c >= '0' && c <= '9'; });
  };
  if (ramp.size() != 3 || !std::ranges::all_of(ramp, is_number)) {
    return reader.problem(
        fmt::format("{}: give three whole numbers, the first batch, the increment and the samples, "
                    "such as --rampup-batch-size 32 32 5000000",
                    reader.text("rampup-batch-size")));
  }
  const std::vector<std::string_view> keys = {"train.ramp_start", "train.ramp_increment", "train.ramp_samples"};
  for (size_t i = 0; i < keys.size(); ++i) {
    reader.set(keys[i], toml_text(static_cast<int64_t>(std::stoll(ramp[i]))), reader.text("rampup-batch-size"));
  }
}

// Steps that draw so many samples, all of which are whole batches; the batch grows as the ramp-up says.
int64_t steps_of(int64_t samples, const Translation& translation) {
  const int64_t batch = std::max<int64_t>(translation.whole_value("train.global_batch", 1), 1);
  const int64_t start = translation.whole_value("train.ramp_start", 0);
  const int64_t increment = translation.whole_value("train.ramp_increment", 0);
  const int64_t ramp_samples = translation.whole_value("train.ramp_samples", 0);
  int64_t steps = 0, drawn = 0;
  constexpr int64_t most_increments = 100'000;
  const int64_t increments = start > 0 && increment > 0 && batch > start ? (batch - start) / increment : 0;
  for (int64_t i = 0; i < std::min(increments, most_increments); ++i) {
    const int64_t size = start + i * increment;
    const int64_t until = std::min(product(ramp_samples, i + 1) / increments, samples);
    const int64_t taken = until > drawn ? (until - drawn + size - 1) / size : 0;
    steps += taken;
    drawn += taken * size;
  }
  return steps + (samples > drawn ? (samples - drawn) / batch : 0);
}

// The steps of an argument that counts steps, samples or tokens, "lr-decay-" and "iters"; nothing if none is given.
std::optional<int64_t> counted_steps(ArgumentReader& reader, const Translation& translation, const std::string& prefix,
                                     std::string& argument) {
  const int64_t sequence = std::max<int64_t>(translation.whole_value("model.sequence", 1), 1);
  std::optional<int64_t> steps;
  for (const std::string unit : {"tokens", "samples", "iters"}) {
    const auto count = reader.whole(prefix + unit, 0);
    if (!count) continue;
    const int64_t counted = unit == "iters"     ? *count
                            : unit == "samples" ? steps_of(*count, translation)
                                                : steps_of(*count / sequence, translation);
    // Training ends where the first limit is reached.
    if (steps && *steps <= counted) continue;
    steps = counted;
    argument = reader.text(prefix + unit);
  }
  return steps;
}

void add_steps(ArgumentReader& reader, const Translation& translation) {
  std::string argument;
  if (const auto steps = counted_steps(reader, translation, "train-", argument)) {
    reader.set("train.steps", toml_text(std::max<int64_t>(*steps, 1)), argument);
  }
  reader.require("train.steps", "--train-iters or --train-samples");
}

void add_learning_rate(ArgumentReader& reader, const Translation& translation) {
  reader.set_default("optimizer.schedule", "\"linear\"", "--lr-decay-style linear");
  reader.set_default("optimizer.weight_decay", "0.01", "--weight-decay 0.01");
  reader.set_default("optimizer.beta2", "0.999", "--adam-beta2 0.999");
  const std::string optimizer = reader.word("optimizer").value_or("adam");
  if (optimizer != "adam") reader.refuse("optimizer", "the optimizer is AdamW");
  const bool wsd = translation.value_of("optimizer.schedule") == "\"wsd\"";
  if (wsd && reader.word("lr-wsd-decay-style").value_or("exponential") != "linear") {
    reader.refuse("lr-wsd-decay-style", "the final decay is linear, and by default exponential there",
                  "optimizer.schedule");
  }
  std::string argument;
  std::optional<int64_t> decay = counted_steps(reader, translation, "lr-decay-", argument);
  const int64_t end = decay.value_or(translation.whole_value("train.steps", 0));
  if (wsd) decay = counted_steps(reader, translation, "lr-wsd-decay-", argument);
  if (decay && translation.value_of("optimizer.schedule") != "\"constant\"") {
    reader.set("optimizer.decay_steps", toml_text(*decay), argument);
  }
  if (const auto share = reader.real("lr-warmup-fraction")) {
    reader.set("optimizer.warmup_steps",
               toml_text(static_cast<int64_t>(std::min(*share, 1.0) * static_cast<double>(end))),
               reader.text("lr-warmup-fraction"));
  } else if (const auto steps = counted_steps(reader, translation, "lr-warmup-", argument)) {
    reader.set("optimizer.warmup_steps", toml_text(*steps), argument);
  }
}

}  // namespace

void add_megatron_training(ArgumentReader& reader, const Translation& translation) {
  add_precision(reader);
  add_batch(reader, translation);
  add_steps(reader, translation);
  add_learning_rate(reader, translation);
}

}  // namespace terrace::translate
