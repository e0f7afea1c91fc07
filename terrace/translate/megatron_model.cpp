// Rules of Megatron-LM's arguments for the model and its data.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "terrace/config/domain.h"
#include "terrace/translate/megatron_rules.h"

namespace terrace::translate {
namespace {

using config::toml_text;

constexpr std::string_view needed_groups = "1";  // of --group-query-attention without --num-query-groups

void add_positions(ArgumentReader& reader) {
  constexpr std::string_view type = "position-embedding-type";
  constexpr std::string_view about = "positions are learned or rotary";
  const std::string kind = reader.word(type).value_or("learned_absolute");
  if (kind == "rope" || reader.has("use-rotary-position-embeddings")) {
    reader.set("model.positions", "\"rotary\"",
               kind == "rope" ? reader.text(type) : reader.text("use-rotary-position-embeddings"));
  } else if (reader.has("no-position-embedding")) {
    reader.refuse("no-position-embedding", about, "model.positions");
  } else if (kind != "learned_absolute") {
    reader.refuse(type, about, "model.positions");
  } else if (reader.has(type)) {
    reader.set("model.positions", "\"learned\"", reader.text(type));
  }
  if (const auto factor = reader.whole("rotary-seq-len-interpolation-factor")) {
    reader.set("model.rope_scaling", "\"linear\"", reader.text("rotary-seq-len-interpolation-factor"));
    reader.set("model.rope_factor", toml_text(static_cast<double>(*factor)),
               reader.text("rotary-seq-len-interpolation-factor"));
  }
  if (reader.has("use-rope-scaling")) {
    reader.set("model.rope_scaling", "\"llama3\"", reader.text("use-rope-scaling"));
    if (const auto factor = reader.real("rope-scaling-factor")) {
      reader.set("model.rope_factor", toml_text(*factor), reader.text("rope-scaling-factor"));
    }
  }
}

void add_heads(ArgumentReader& reader, const Translation& translation) {
  if (reader.has("group-query-attention")) {
    const auto groups = reader.whole("num-query-groups");
    reader.set("model.kv_heads", groups ? toml_text(*groups) : std::string(needed_groups),
               reader.text(groups ? "num-query-groups" : "group-query-attention"));
  } else if (reader.has("num-query-groups")) {
    reader.remark("num-query-groups", "it has no effect without --group-query-attention");
  }
  if (!reader.has("qk-layernorm")) return;
  if (translation.value_of("model.norm") == "\"rmsnorm\"") {
    reader.set("model.qk_norm", "true", reader.text("qk-layernorm"));
  } else {
    reader.refuse("qk-layernorm", "norms of queries and keys are RMSNorms", "model.qk_norm");
  }
}

void add_activation(ArgumentReader& reader, const Translation& translation) {
  const int64_t width = translation.whole_value("model.width", 0);
  if (reader.has("swiglu")) {
    reader.set_default("model.ffn_width", toml_text(product(8, width) / 192 * 64), "--ffn-hidden-size of --swiglu");
  } else if (reader.has_any({"no-bias-gelu-fusion", "disable-bias-linear"}) && !reader.has("openai-gelu")) {
    reader.set_default("model.activation", "\"gelu_erf\"", "GELU without the fused bias");
  }
  if (reader.has("disable-bias-linear") && translation.value_of("model.norm") != "\"rmsnorm\"") {
    reader.assume("with --disable-bias-linear LayerNorms lose their biases too, since model.bias is of both");
  }
}

// The tokens of the tokenizers that Megatron-LM takes without --vocab-size.
int64_t tokens_of(const ArgumentReader& reader, const std::string& tokenizer) {
  if (tokenizer == "GPT2BPETokenizer") return 50'257;
  if (tokenizer == "Llama2Tokenizer") return 32'000;
  return tokenizer.empty() && reader.has_any({"merge-file", "vocab-file"}) ? 50'257 : 0;
}

void add_vocabulary(ArgumentReader& reader, const Translation& translation) {
  const std::string tokenizer = reader.word("tokenizer-type").value_or("");
  if (const auto size = reader.whole("vocab-size")) {
    reader.set("model.vocabulary", toml_text(*size), reader.text("vocab-size"));
  } else if (const int64_t tokens = tokens_of(reader, tokenizer); tokens > 0) {
    reader.set_default("model.vocabulary", toml_text(tokens),
                       tokenizer.empty() ? "the tokens of GPT2BPETokenizer" : "the tokens of " + tokenizer);
  }
  const int64_t tensor = translation.whole_value("layout.tensor", 1);
  for (const std::string_view padded : {"padded-vocab-size", "pad-vocab-size-to"}) {
    const auto rows = reader.whole(padded);
    if (!rows) continue;
    const int64_t tokens = translation.whole_value("model.vocabulary", *rows);
    reader.set_default("model.vocabulary", toml_text(tokens), reader.text(padded));
    if (tokens > *rows) {
      reader.problem(fmt::format("{} is below the vocabulary of {}; give at least that", reader.text(padded), tokens));
    } else {
      reader.set("model.vocabulary_multiple", toml_text(*rows), reader.text(padded));
    }
    return;
  }
  const auto multiple = reader.whole("make-vocab-size-divisible-by");
  const int64_t rows = product(multiple.value_or(128), tensor);
  const std::string times = tensor > 1 ? fmt::format(" times {} tensor ranks", tensor) : "";
  if (multiple) {
    reader.set("model.vocabulary_multiple", toml_text(rows), reader.text("make-vocab-size-divisible-by") + times);
  } else if (tensor > 1) {
    reader.set_default("model.vocabulary_multiple", toml_text(rows), "--make-vocab-size-divisible-by 128" + times);
  }
}

void add_sequence(ArgumentReader& reader, const Translation& translation) {
  const int64_t sequence = translation.whole_value("model.sequence", 0);
  const auto positions = reader.whole("max-position-embeddings");
  if (!positions || sequence == 0) return;
  if (*positions < sequence) {
    reader.problem(fmt::format("{} is below --seq-length {}; give at least that",
                               reader.text("max-position-embeddings"), sequence));
  } else if (*positions > sequence && translation.value_of("model.positions") != "\"rotary\"") {
    reader.remark(
        "max-position-embeddings",
        fmt::format("learned positions are those of a sequence, {}, so the model has fewer parameters", sequence));
  }
}

void add_window(ArgumentReader& reader) {
  if (!reader.has("window-size")) return;
  std::string text;
  for (const std::string& word : reader.words("window-size")) text += word + ",";
  std::erase_if(text, [](char letter) { return letter == '(' || letter == ')' || letter == ' '; });
  int64_t before = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, before);
  const bool looks_back = error == std::errc{} && std::string_view(rest, end) == ",0,";
  if (looks_back && before == -1) return;
  if (looks_back && before >= 0) {
    reader.set("model.window", toml_text(before + 1), reader.text("window-size"));
  } else {
    reader.refuse("window-size", "a window is of the tokens before, as in --window-size 127,0", "model.window");
  }
}

// Divides "0.3 a 0.7 b" into weights and prefixes; a list without weights is one of prefixes.
void add_corpora(ArgumentReader& reader, std::string_view name, std::string_view key, std::string_view weights_key) {
  const std::vector<std::string> words = reader.words(name);
  if (words.empty()) return;
  std::vector<double> weights;
  std::vector<std::string> prefixes;
  for (const std::string& word : words) {
    double weight = 0;
    const auto [rest, error] = std::from_chars(word.data(), word.data() + word.size(), weight);
    const bool is_weight = error == std::errc{} && rest == word.data() + word.size();
    if (is_weight && weights.size() == prefixes.size()) {
      weights.push_back(weight);
    } else {
      prefixes.push_back(word);
    }
  }
  reader.set(key, toml_text(prefixes), reader.text(name));
  if (weights.empty() || weights_key.empty()) return;
  if (weights.size() == prefixes.size()) {
    reader.set(weights_key, toml_text(weights), reader.text(name));
  } else {
    reader.problem(fmt::format("{} has {} weights and {} prefixes; give a weight before each prefix, or none",
                               reader.text(name), weights.size(), prefixes.size()));
  }
}

// The second of "969,30,1" as a share of their sum.
void add_split(ArgumentReader& reader) {
  const auto split = reader.word("split");
  if (!split || reader.has("valid-data-path")) return;
  std::array<double, 3> parts = {0, 0, 0};
  const char* at = split->data();
  const char* const end = at + split->size();
  for (double& part : parts) {
    const auto [rest, error] = std::from_chars(at, end, part);
    const bool is_last = rest == end;
    if (error != std::errc{} || part < 0 || !(is_last || *rest == ',' || *rest == '/')) {
      return reader.problem(
          fmt::format("{}: give shares for training, validation and test, such as 969,30,1", reader.text("split")));
    }
    at = is_last ? end : rest + 1;
    if (is_last) break;
  }
  const double sum = parts[0] + parts[1] + parts[2];
  if (sum > 0 && parts[1] < sum) {
    reader.set("data.validation_share", toml_text(parts[1] / sum), reader.text("split") + ", without its test share");
  }
}

}  // namespace

void add_megatron_model(ArgumentReader& reader, const Translation& translation) {
  add_positions(reader);
  add_heads(reader, translation);
  add_activation(reader, translation);
  add_vocabulary(reader, translation);
  add_sequence(reader, translation);
  add_window(reader);
  reader.set_default("model.dropout", "0.1", "--hidden-dropout 0.1");
  reader.set_default("model.attention_dropout", "0.1", "--attention-dropout 0.1");
  reader.require("model.layers", "--num-layers");
  reader.require("model.width", "--hidden-size");
  reader.require("model.heads", "--num-attention-heads");
  reader.require("model.sequence", "--seq-length");
  reader.require("model.vocabulary", "--vocab-size");
}

void add_megatron_data(ArgumentReader& reader) {
  add_corpora(reader, "data-path", "data.train", "data.weights");
  add_corpora(reader, "train-data-path", "data.train", "data.weights");
  add_corpora(reader, "valid-data-path", "data.validation", "");
  add_split(reader);
  const std::string tokenizer = reader.word("tokenizer-model").value_or("");
  if (tokenizer.ends_with(".model") || tokenizer.ends_with(".json")) {
    reader.set("data.tokenizer", toml_text(std::string_view(tokenizer)), reader.text("tokenizer-model"));
  }
  const bool positions = reader.has("reset-position-ids"), attention = reader.has("reset-attention-mask");
  if (positions && attention) {
    reader.set("data.reset_at_documents", "true",
               reader.text("reset-position-ids") + " " + reader.text("reset-attention-mask"));
  } else if (positions || attention) {
    reader.refuse(positions ? "reset-position-ids" : "reset-attention-mask",
                  "positions and attention begin again together", "data.reset_at_documents");
  }
}

}  // namespace terrace::translate
