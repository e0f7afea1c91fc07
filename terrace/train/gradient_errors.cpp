// Names the errors of each rank, and reads them at an equal layout.
#include "terrace/train/gradient_errors.h"

#include <fmt/format.h>

#include <algorithm>

#include "terrace/schedule/step/step.h"

namespace terrace::train {

checkpoint::Collection gradient_errors(const parallel::Sharded& sharded, int64_t rank) {
  checkpoint::Collection collection{.name = errors_collection, .tensors = {}};
  for (const parallel::KeptErrors& kept : sharded.kept_errors()) {
    collection.tensors.push_back(
        {.name = fmt::format("rank {}, segment {}, {}{}", rank, kept.segment, schedule::group_of(kept.movement),
                             kept.flat == 0 ? "" : fmt::format(", type {}", kept.flat)),
         .tensor = kept.codes,
         .mark = ParamMark::replicated(kept.codes.sizes().vec())});
  }
  return collection;
}

Json errors_layout(const config::LayoutConfig& layout, const mesh::Mesh& mesh, const mesh::ShardSizes& sizes) {
  Json axes = Json::array();
  for (const mesh::Axis& axis : mesh.axes()) axes.push_back({axis.name, axis.size});
  Json json = {{"axes", axes},
               {"shards", {sizes.weights, sizes.gradients, sizes.optimizer, sizes.rails_node}},
               {"deterministic", layout.deterministic}};
  if (layout.pipeline > 1) {
    json["stages"] = {static_cast<int>(layout.schedule), layout.chunks, layout.stage_layers};
  }
  // With layout.node_type some reductions round nothing. All reductions keep their errors if the list "without" is
  // absent.
  const std::vector<schedule::Movement> kept = schedule::fed_back_reductions(layout, sizes);
  for (const schedule::Movement reduction : schedule::movements_of(sizes, layout.deterministic).reductions()) {
    if (std::ranges::find(kept, reduction) == kept.end()) json["without"].push_back(schedule::group_of(reduction));
  }
  return json;
}

void restore_errors(const checkpoint::Reader& checkpoint, const checkpoint::Collection& own, const Json& layout,
                    const std::function<void(const std::string&)>& log) {
  const std::string path = checkpoint.path().string();
  const Json& saved = checkpoint.trainer();
  const bool has_some = saved.contains(errors_layout_key);
  if (own.tensors.empty()) {
    if (has_some) log(fmt::format("the errors of quantized gradients in {} are not used: this run keeps none", path));
    return;
  }
  if (has_some && saved.at(errors_layout_key) == layout) return checkpoint.read_some(own);
  log(fmt::format("the errors of quantized gradients begin at zero: {} {}", path,
                  has_some ? "has those of another layout" : "has none"));
}

}  // namespace terrace::train
