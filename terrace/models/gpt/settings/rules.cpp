// Defines the rules between the keys of a GPT and with [layout], and which keys others leave without effect.
#include <numeric>
#include <string>
#include <utility>

#include "terrace/base/error.h"
#include "terrace/config/divisors.h"
#include "terrace/models/gpt/settings/config.h"
#include "terrace/models/gpt/settings/keys.h"

namespace terrace::models::gpt {
namespace {

using config::Config;

int64_t head_width(const ModelConfig& model) { return model.head_dim > 0 ? model.head_dim : model.width / model.heads; }

std::string heads_divide_width(const Config& c) {
  const auto& [heads, width] = std::pair(model_of(c).heads, model_of(c).width);
  if (model_of(c).head_dim > 0 || width % heads == 0) return "";
  return fmt::format("model.heads = {} does not divide model.width = {}; use {}, or give head_dim", heads, width,
                     config::listed(config::divisors_near(width, heads)));
}

std::string kv_heads_divide_heads(const Config& c) {
  const auto& [kv_heads, heads] = std::pair(model_of(c).kv_heads, model_of(c).heads);
  if (kv_heads == 0 || heads % kv_heads == 0) return "";
  return fmt::format("model.kv_heads = {} does not divide model.heads = {}; use {}", kv_heads, heads,
                     config::listed(config::divisors_near(heads, kv_heads)));
}

std::string rotary_needs_even_heads(const Config& c) {
  const int64_t dim = head_width(model_of(c));
  if (model_of(c).positions != Positions::rotary || dim % 2 == 0) return "";
  return fmt::format(
      "model.positions = \"rotary\" rotates pairs of channels, but the head width is odd: {}; use head_dim = {}, or "
      "positions = \"learned\"",
      model_of(c).head_dim > 0 ? std::to_string(dim)
                               : fmt::format("{} / {} = {}", model_of(c).width, model_of(c).heads, dim),
      dim == 1 ? 2 : dim - 1);
}

// A limit of the wavelengths that a kind of scaling stretches in part.
struct WavelengthLimit {
  const char* key;
  double value;
};

std::string limits_are_in_order(const WavelengthLimit& high, const WavelengthLimit& low, double usual_quotient) {
  if (high.value > low.value) return "";
  return fmt::format("model.{} = {} is not above model.{} = {}, so no wavelength lies between them; use {} = {}",
                     high.key, high.value, low.key, low.value, high.key, usual_quotient * low.value);
}

std::string frequencies_are_in_order(const Config& c) {
  const ModelConfig& model = model_of(c);
  if (model.rope_scaling != RopeScaling::llama3) return "";
  return limits_are_in_order({"rope_high_frequency", model.rope_high_frequency},
                             {"rope_low_frequency", model.rope_low_frequency}, 4);
}

std::string betas_are_in_order(const Config& c) {
  const ModelConfig& model = model_of(c);
  if (model.rope_scaling != RopeScaling::yarn) return "";
  return limits_are_in_order({"rope_beta_fast", model.rope_beta_fast}, {"rope_beta_slow", model.rope_beta_slow}, 32);
}

std::string wavelengths_grow(const Config& c) {
  const ModelConfig& model = model_of(c);
  if (model.rope_scaling != RopeScaling::yarn || model.rope_theta > 1) return "";
  return fmt::format(
      "model.rope_scaling = \"yarn\" stretches long wavelengths, but with model.rope_theta = {} none is longer than "
      "the first; use a rope_theta above 1, such as 10000",
      model.rope_theta);
}

std::string some_layer_is_local(const Config& c) {
  if (model_of(c).global_every != 1) return "";
  return "model.global_every = 1 makes every layer global, and none has the window; use 0 without a window, or 2 or "
         "more";
}

// Positions are cut in stripes, which divide the work of global layers evenly, or contiguously, as windows need.
std::string context_suits_layers(const Config& c) {
  if (c.layout.context == 1 || model_of(c).global_every == 0 || !model_of(c).has_window()) return "";
  return fmt::format(
      "layout.context = {} cuts positions either for windows or for layers that see all, but with model.global_every = "
      "{} the model has both; use context = 1",
      c.layout.context, model_of(c).global_every);
}

std::string experts_have_activation(const Config& c) {
  if (model_of(c).experts.number == 0 || model_of(c).activation != Activation::geglu) return "";
  return "model.activation = \"geglu\" is not computed in experts; use \"swiglu\", \"gelu\" or \"gelu_erf\", or "
         "experts = 0";
}

// The number of drawn tokens must fit 63 bits.
std::string tokens_can_be_counted(const Config& c) {
  const double tokens = static_cast<double>(c.train.steps) * static_cast<double>(c.train.global_batch) *
                        static_cast<double>(model_of(c).sequence);
  if (tokens < 9e18) return "";
  return fmt::format(
      "train.steps = {} of {} sequences of {} tokens are {:.1e} tokens in all; at most 9e18 can be counted",
      c.train.steps, c.train.global_batch, model_of(c).sequence, tokens);
}

// The problem if layout.tensor does not divide `number`; "" if it does.
std::string tensor_divides(const Config& c, const char* what, int64_t number) {
  const int64_t tensor = c.layout.tensor;
  if (number % tensor == 0) return "";
  return fmt::format("layout.tensor = {} does not divide {} = {}; use {}", tensor, what, number,
                     config::listed(config::divisors_near(number, tensor)));
}

std::string tensor_divides_heads(const Config& c) { return tensor_divides(c, "model.heads", model_of(c).heads); }

std::string tensor_fits_groups(const Config& c) {
  const int64_t tensor = c.layout.tensor, groups = model_of(c).kv_heads == 0 ? model_of(c).heads : model_of(c).kv_heads;
  if (model_of(c).heads % tensor != 0 || groups % tensor == 0 || tensor % groups == 0) return "";
  return fmt::format(
      "layout.tensor = {} neither divides model.kv_heads = {} nor is a multiple of it, so that ranks could share keys "
      "and values; use {}",
      tensor, groups, config::listed(config::divisors_near(groups, tensor)));
}

std::string tensor_divides_ffn(const Config& c) {
  const ExpertsConfig& experts = model_of(c).experts;
  if (experts.number > 0 && experts.dense_layers == 0) return "";  // no layer has ffn_width
  return tensor_divides(c, "model.ffn_width",
                        model_of(c).ffn_width > 0 ? model_of(c).ffn_width : 4 * model_of(c).width);
}

std::string tensor_divides_vocabulary(const Config& c) {
  const std::string problem = tensor_divides(c, "the padded vocabulary", model_of(c).padded_vocabulary());
  if (problem.empty()) return "";
  return fmt::format("{}, or vocabulary_multiple = {}", problem,
                     std::lcm(model_of(c).vocabulary_multiple, c.layout.tensor));
}

std::string sequence_is_cut(const Config& c) {
  if (!c.layout.sequence_parallel) return "";
  return tensor_divides(c, "model.sequence", model_of(c).sequence);
}

// Stripes of the sequence, and where tensor ranks cut it further, equal parts of each rank's positions.
std::string context_divides_sequence(const Config& c) {
  const auto& [context, sequence] = std::pair(c.layout.context, model_of(c).sequence);
  if (context == 1) return "";
  const int64_t pieces = positions_over_ranks(c).multiple(), tensor = c.layout.sequence_parallel ? c.layout.tensor : 1;
  const int64_t multiple = std::lcm(pieces, context * tensor);
  if (sequence % multiple == 0) return "";
  return fmt::format(
      "layout.context = {} cuts model.sequence = {} into {} pieces{}; use a sequence of {}", context, sequence, pieces,
      tensor > 1 ? fmt::format(", and sequence_parallel those of a rank over layout.tensor = {}", tensor) : "",
      config::multiples_around(sequence, multiple));
}

std::string context_divides_heads(const Config& c) {
  using config::ContextRoute;
  const auto& [context, heads] = std::pair(c.layout.context, model_of(c).heads / c.layout.tensor);
  const ContextRoute route = c.layout.context_route;
  const bool drops = model_of(c).attention_dropout > 0;
  if (context == 1) return "";
  if (drops && (route == ContextRoute::ring || route == ContextRoute::gather)) {
    return fmt::format(
        "model.attention_dropout = {} needs all keys of a query on one rank, but with layout.context_route = \"{}\" "
        "they come one part after the other; use context_route = \"heads\", or attention_dropout = 0",
        model_of(c).attention_dropout, config::name_of(route));
  }
  const bool by_heads = drops || route == ContextRoute::heads;
  if (!by_heads || heads % context == 0) return "";
  return fmt::format(
      "layout.context = {} does not divide the {} query heads of a rank, which {} gives to ranks; use {}{}", context,
      heads, drops ? "model.attention_dropout" : "context_route = \"heads\"",
      config::listed(config::divisors_near(heads, context)),
      drops ? ", or attention_dropout = 0" : ", or another route");
}

std::string theta(const Config& c) {
  if (model_of(c).positions == Positions::rotary) return "";
  return fmt::format("with positions = \"{}\"; remove it, or use \"rotary\"", config::name_of(model_of(c).positions));
}

std::string stretched(const Config& c) {
  if (!theta(c).empty()) return theta(c);
  return model_of(c).rope_scaling != RopeScaling::none
             ? ""
             : "without rope_scaling; remove it, or use rope_scaling = \"linear\", \"llama3\" or \"yarn\"";
}

// Why a key has no effect that belongs to one kind of scaling, or to two.
std::string stretched_as(const Config& c, RopeScaling kind, RopeScaling other) {
  const RopeScaling found = model_of(c).rope_scaling;
  if (!stretched(c).empty() || found == kind || found == other) return stretched(c);
  const std::string either = kind == other ? "" : fmt::format(" or \"{}\"", config::name_of(other));
  return fmt::format("with rope_scaling = \"{}\"; remove it, or use \"{}\"{}", config::name_of(found),
                     config::name_of(kind), either);
}

std::string stretched_as_llama3(const Config& c) { return stretched_as(c, RopeScaling::llama3, RopeScaling::llama3); }

std::string stretched_as_yarn(const Config& c) { return stretched_as(c, RopeScaling::yarn, RopeScaling::yarn); }

std::string stretched_by_wavelength(const Config& c) { return stretched_as(c, RopeScaling::llama3, RopeScaling::yarn); }

std::string of_local_layers(const Config& c) {
  if (!theta(c).empty()) return theta(c);
  return model_of(c).global_every > 0 ? "" : "without global_every, by which layers are local; remove it, or give both";
}

std::string of_global_layers(const Config& c) {
  if (model_of(c).has_window() || model_of(c).local_rope_theta > 0) return "";
  return "without a window and without local_rope_theta, so that all layers are equal; remove it, or give one of them";
}

std::string bias_of_one_layer(const Config& c) {
  return model_of(c).bias ? "with bias = true, which gives every linear layer a bias; remove it, or use bias = false"
                          : "";
}

std::string limited(const Config& c) {
  const auto& [window, sequence] = std::pair(model_of(c).window, model_of(c).sequence);
  if (window < sequence) return "";
  return fmt::format("with model.sequence = {}, which it holds whole; remove it, or use a smaller one", sequence);
}

std::string initial_spread(const Config& c) {
  if (c.train.initial_weights.empty()) return "";
  return "beside train.initial_weights, which gives every weight its first value; remove one of them";
}

}  // namespace

std::vector<config::Rule> rules() {
  std::vector<config::Rule> list = {
      {{"model.heads", "model.width"}, heads_divide_width},
      {{"model.kv_heads", "model.heads"}, kv_heads_divide_heads},
      {{"model.positions", "model.head_dim", "model.heads", "model.width"}, rotary_needs_even_heads},
      {{"model.rope_high_frequency", "model.rope_low_frequency", "model.rope_scaling"}, frequencies_are_in_order},
      {{"model.rope_beta_fast", "model.rope_beta_slow", "model.rope_scaling"}, betas_are_in_order},
      {{"model.rope_theta", "model.rope_scaling"}, wavelengths_grow},
      {{"train.steps", "train.global_batch", "model.sequence"}, tokens_can_be_counted},
      {{"layout.tensor", "model.heads"}, tensor_divides_heads},
      {{"layout.tensor", "model.kv_heads", "model.heads"}, tensor_fits_groups},
      {{"layout.tensor", "model.ffn_width", "model.width", "model.experts", "model.dense_layers"}, tensor_divides_ffn},
      {{"layout.tensor", "model.vocabulary", "model.vocabulary_multiple"}, tensor_divides_vocabulary},
      {{"layout.sequence_parallel", "layout.tensor", "model.sequence"}, sequence_is_cut},
      {{"layout.context", "layout.sequence_parallel", "layout.tensor", "model.sequence", "model.window"},
       context_divides_sequence},
      {{"model.global_every"}, some_layer_is_local},
      {{"model.activation", "model.experts"}, experts_have_activation},
      {{"layout.context", "model.global_every", "model.window", "model.sequence"}, context_suits_layers},
      {{"layout.context", "layout.context_route", "layout.tensor", "model.heads", "model.attention_dropout"},
       context_divides_heads},
  };
  add_expert_rules(list);
  return list;
}

std::vector<config::IdleRule> idle_rules() {
  const std::vector<std::string> scaling_keys = {"model.positions", "model.rope_scaling"};
  std::vector<config::IdleRule> list = {
      {.key = "model.rope_theta", .causes = {"model.positions"}, .beside = theta},
      {.key = "model.rope_scaling", .causes = {"model.positions"}, .off = "\"none\"", .beside = theta},
      {.key = "model.rope_factor", .causes = scaling_keys, .beside = stretched},
      {.key = "model.rope_low_frequency", .causes = scaling_keys, .beside = stretched_as_llama3},
      {.key = "model.rope_high_frequency", .causes = scaling_keys, .beside = stretched_as_llama3},
      {.key = "model.rope_original_sequence", .causes = scaling_keys, .beside = stretched_by_wavelength},
      {.key = "model.rope_beta_slow", .causes = scaling_keys, .beside = stretched_as_yarn},
      {.key = "model.rope_beta_fast", .causes = scaling_keys, .beside = stretched_as_yarn},
      {.key = "model.rope_truncate", .causes = scaling_keys, .beside = stretched_as_yarn},
      {.key = "model.rope_attention_factor", .causes = scaling_keys, .beside = stretched_as_yarn},
      {.key = "model.local_rope_theta",
       .causes = {"model.positions", "model.global_every"},
       .off = "0.0",
       .beside = of_local_layers},
      {.key = "model.global_every",
       .causes = {"model.window", "model.sequence", "model.local_rope_theta"},
       .off = "0",
       .beside = of_global_layers},
      {.key = "model.query_scalar", .causes = {"model.positions"}, .off = "0.0", .beside = theta},
      {.key = "model.qkv_bias", .causes = {"model.bias"}, .off = "false", .beside = bias_of_one_layer},
      {.key = "model.window", .causes = {"model.sequence"}, .off = "0", .beside = limited},
      {.key = "model.init_std", .causes = {"train.initial_weights"}, .beside = initial_spread},
  };
  add_expert_idle_rules(list);
  return list;
}

}  // namespace terrace::models::gpt
