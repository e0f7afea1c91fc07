// Traces attention and feed-forward of a layer once, and renames them for the others.
#include "terrace/layers/transformer_trace.h"

#include <fmt/format.h>

#include <map>
#include <tuple>
#include <utility>

#include "terrace/base/global_layers.h"

namespace terrace::layers {
namespace {

using schedule::UnitRow;
using schedule::UnitTableOptions;

UnitTrace::Unit unit_of_layer(const TransformerLayout& layout, const char* name) {
  return {.name = fmt::format("blocks.0.{}", name), .prefix = "blocks.0.", .layer = 0, .positions = layout.positions};
}

// Attention's kernels rotate queries and keys themselves.
UnitRow attention(const TransformerLayout& layout, const UnitTableOptions& options, bool drops_path, int64_t window) {
  UnitTrace unit(options, unit_of_layer(layout, "attention"));
  unit.row().batch_tensors = layout.attention_tensors;
  const int64_t columns = (layout.heads + 2 * layout.kv_heads) * layout.head_dim;
  const Value x = unit.hidden(layout.width);
  const Value y = unit.norm("attention_norm", x, layout.norm);
  // The rows are in groups: a group's queries, its key, its value. If there are fewer groups than ranks, a group's
  // queries are divided among several ranks, which all have its key and its value.
  Value joint = unit.linear("attention.qkv", y, columns,
                            {.operation = "qkv",
                             .bias = layout.qkv_bias,
                             .cut = WeightCut::outputs,
                             .rows = {.groups = layout.kv_heads, .shared = 2 * layout.head_dim}});
  if (layout.normalises_heads) {
    joint = unit.head_norms("attention", joint,
                            {.heads = layout.heads,
                             .key_heads = layout.kv_heads,
                             .width = layout.head_dim,
                             .centered = layout.centers_heads});
  }
  const Value context = unit.attention(joint, {.heads = layout.heads,
                                               .key_heads = layout.kv_heads,
                                               .head_dim = layout.head_dim,
                                               .positions = layout.positions,
                                               .causal = layout.causal,
                                               .window = window,
                                               .drops = layout.attention_dropout > 0,
                                               .by_document = layout.by_document});
  Value z = unit.linear("attention.output", context, layout.width,
                        {.operation = "attention output", .bias = layout.bias, .cut = WeightCut::inputs});
  if (layout.post_norms) z = unit.norm("attention.output_norm", z, layout.norm);
  const Value branch = unit.dropout(z, layout.dropout);
  unit.add_later(x, drops_path ? unit.drop_path(branch) : branch);
  return unit.finished();
}

struct DenseLayout {
  const char* name = "ffn";
  int64_t width = 0, groups = 0;  // RowGroups::groups of the first matrix
  bool bias = true;
};

Value dense(UnitTrace& unit, const Value& y, const TransformerLayout& layout, const DenseLayout& own) {
  const bool pairs = is_gated(layout.activation);  // of rows: gate and up
  const std::string name = own.name;
  const Value first = unit.linear(
      name + ".first", y, (pairs ? 2 : 1) * own.width,
      {.operation = "ffn first", .bias = own.bias, .cut = WeightCut::outputs, .rows = {.groups = own.groups}});
  const Value inner =
      unit.dropout(unit.activation(first, layout.activation, layout.activation_in_product), layout.inner_dropout);
  return unit.linear(name + ".second", inner, layout.width,
                     {.operation = "ffn second", .bias = own.bias, .cut = WeightCut::inputs});
}

Value sparse(UnitTrace& unit, const Value& y, const TransformerLayout& layout) {
  const Value z = unit.experts("ffn", y, layout.experts);
  if (layout.shared_experts == 0) return z;
  const int64_t width = layout.shared_experts * layout.experts.width;
  const Value shared =
      dense(unit, y, layout,
            {.name = "ffn.shared", .width = width, .groups = is_gated(layout.activation) ? width : 0, .bias = false});
  if (layout.shared_gate) {
    const Value gate = unit.linear("ffn.shared_gate", y, 1, {.operation = "shared gate", .bias = false});
    unit.keep(unit.bytes(gate) + unit.bytes(shared));
  }
  return unit.add(z, shared);
}

UnitRow feed_forward(const TransformerLayout& layout, const UnitTableOptions& options, bool is_sparse,
                     bool drops_path) {
  UnitTrace unit(options, unit_of_layer(layout, "ffn"));
  const Value x = unit.branch_sum(layout.width);
  const Value y = unit.norm("ffn_norm", x, layout.norm);
  Value z = is_sparse
                ? sparse(unit, y, layout)
                : dense(unit, y, layout, {.width = layout.ffn_width, .groups = layout.ffn_groups, .bias = layout.bias});
  if (layout.post_norms) z = unit.norm("ffn_output_norm", z, layout.norm);
  if (layout.drop_paths.empty()) {
    unit.output(unit.add_dropped(x, z, layout.dropout));
  } else {
    const Value branch = unit.dropout(z, layout.dropout);
    unit.output(unit.add(x, drops_path ? unit.drop_path(branch) : branch));
  }
  return unit.finished();
}

// A segment that is computed again keeps the choice of its layer, whichever unit it begins with.
void keep_choices(const TransformerLayout& layout, const UnitTableOptions& options, std::vector<UnitRow>& rows) {
  UnitTrace unit(options, unit_of_layer(layout, "ffn"));
  const int64_t bytes = unit.bytes_of_choice(unit.hidden(layout.width), layout.experts);
  for (UnitRow& row : rows) row.kept_bytes.back() += bytes;
}

}  // namespace

void add_blocks(const TransformerLayout& layout, const UnitTableOptions& options, schedule::UnitTable& table) {
  // The rows are the same in every layer with or without stochastic depth, experts and a window.
  std::map<std::tuple<bool, bool, bool>, std::vector<UnitRow>> rows;
  for (int64_t layer = 0; layer < layout.layers; ++layer) {
    const bool drops_path = !layout.drop_paths.empty() && layout.drop_paths.at(static_cast<size_t>(layer)) > 0;
    const bool is_sparse = layout.experts.number > 0 && layer >= layout.dense_layers;
    const bool is_global = sees_all(layer, layout.global_every);
    std::vector<UnitRow>& own = rows[{drops_path, is_sparse, is_global}];
    if (own.empty()) {
      own = {attention(layout, options, drops_path, is_global ? 0 : layout.window),
             feed_forward(layout, options, is_sparse, drops_path)};
      if (is_sparse) keep_choices(layout, options, own);
    }
    for (const UnitRow& row : own) {
      table.push_back(renamed(row, "blocks.0.", fmt::format("blocks.{}.", layer), layer));
    }
  }
}

}  // namespace terrace::layers
