// The table of marks of the GPT.
#include "terrace/models/gpt/sharding.h"

#include <optional>
#include <string_view>

namespace terrace::models::gpt {
namespace {

struct Rule {
  std::string_view suffix;     // of the parameter's name
  std::optional<int64_t> dim;  // cut over "tensor"; none: replicated
};

constexpr Rule rules[] = {
    {"embedding.tokens.weight", 0},  // by vocabulary
    {"embedding.positions.weight", std::nullopt},
    {"attention.qkv.weight", 0},  // by columns of the layer: heads
    {"attention.qkv.bias", 0},
    {"attention.output.weight", 1},  // by rows of the layer; its bias is added once, after the sum
    {"attention.output.bias", std::nullopt},
    {"ffn.first.weight", 0},
    {"ffn.first.bias", 0},
    {"ffn.second.weight", 1},
    {"ffn.second.bias", std::nullopt},
    {"norm.weight", std::nullopt},
    {"norm.bias", std::nullopt},
    {"head.output.weight", 0},  // by vocabulary
};

}  // namespace

void mark_parameters(const std::vector<nn::Parameter*>& parameters) {
  for (nn::Parameter* parameter : parameters) {
    for (const Rule& rule : rules) {
      if (!parameter->name.ends_with(rule.suffix)) continue;
      parameter->mark.global_shape = parameter->value.sizes().vec();
      parameter->mark.kind = rule.dim ? ParamMark::Kind::sharded : ParamMark::Kind::replicated;
      parameter->mark.dim = rule.dim.value_or(0);
      parameter->mark.axis = rule.dim ? "tensor" : "";
      break;
    }
  }
}

}  // namespace terrace::models::gpt
