// Defines the marks of the vision transformer.
#include "terrace/models/vit/cost/sharding.h"

#include <utility>

namespace terrace::models::vit {

ParamMark mark_of(const ModelConfig& config, const std::string& name, std::vector<int64_t> shape) {
  const auto is_of = [&](const char* layer) { return name.find(layer) != std::string::npos; };
  if (is_of(".qkv.")) {
    ParamMark mark = ParamMark::sharded(std::move(shape), 0, "tensor");
    mark.groups = config.heads;
    mark.shared = 2 * config.head_dim();
    return mark;
  }
  if (is_of(".ffn.first.")) {
    // Whole heads' shares, from which dropout counts.
    ParamMark mark = ParamMark::sharded(std::move(shape), 0, "tensor");
    mark.groups = config.heads;
    return mark;
  }
  if (is_of(".attention.output.weight") || is_of(".aggregation.output.weight") || is_of(".ffn.second.weight")) {
    return ParamMark::sharded(std::move(shape), 1, "tensor");
  }
  ParamMark mark = ParamMark::replicated(std::move(shape));
  // A rank normalises the queries and keys of its own heads, and aggregates with them.
  mark.gradient_in_shares =
      is_of(".query_norm.") || is_of(".key_norm.") || is_of(".tokens.") || is_of(".aggregation.query");
  return mark;
}

}  // namespace terrace::models::vit
