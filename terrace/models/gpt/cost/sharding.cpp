// Defines the table of marks of the GPT.
#include "terrace/models/gpt/cost/sharding.h"

#include <optional>
#include <string_view>
#include <utility>

namespace terrace::models::gpt {
namespace {

enum class Rows { alone, head_groups, pairs };

struct Rule {
  std::string_view suffix;     // of the parameter's name
  std::optional<int64_t> dim;  // cut over "tensor"; none: replicated
  Rows rows = Rows::alone;     // which rows a cut keeps together
  bool of_heads = false;       // replicated, but a rank's gradient is that of its heads alone
};

constexpr Rule sharding_rules[] = {
    {"embedding.tokens.weight", 0},  // by vocabulary
    {"embedding.positions.weight", std::nullopt},
    {"attention.qkv.weight", 0, Rows::head_groups},  // by columns of the layer
    {"attention.qkv.bias", 0, Rows::head_groups},
    {"attention.output.weight", 1},  // by rows of the layer; its bias is added once, after the sum
    {"attention.output.bias", std::nullopt},
    {"attention.query_norm.weight", std::nullopt, Rows::alone, true},
    {"attention.key_norm.weight", std::nullopt, Rows::alone, true},
    {"ffn.first.weight", 0, Rows::pairs},
    {"ffn.first.bias", 0, Rows::pairs},
    {"ffn.second.weight", 1},
    {"ffn.second.bias", std::nullopt},
    {"norm.weight", std::nullopt},
    {"norm.bias", std::nullopt},
    {"head.output.weight", 0},  // by vocabulary
};

ParamMark mark_by(const Rule& rule, const ModelConfig& config, std::vector<int64_t> shape) {
  if (!rule.dim) {
    ParamMark mark = ParamMark::replicated(std::move(shape));
    mark.gradient_in_shares = rule.of_heads;
    return mark;
  }
  ParamMark mark = ParamMark::sharded(std::move(shape), *rule.dim, "tensor");
  if (rule.rows == Rows::head_groups) {
    mark.groups = config.kv_heads;
    mark.shared = 2 * config.head_dim;
  }
  if (rule.rows == Rows::pairs && config.activation == Activation::swiglu) mark.groups = config.ffn_width;
  return mark;
}

}  // namespace

ParamMark mark_of(const ModelConfig& config, const std::string& name, std::vector<int64_t> shape) {
  for (const Rule& rule : sharding_rules) {
    if (name.ends_with(rule.suffix)) return mark_by(rule, config, std::move(shape));
  }
  return {};
}

}  // namespace terrace::models::gpt
