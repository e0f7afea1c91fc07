// Names the states of each rank, and reads them at an equal layout.
#include "terrace/train/copy_states.h"

#include <fmt/format.h>

namespace terrace::train {

checkpoint::Collection copy_states(RankModel& own, int64_t rank, bool saves) {
  checkpoint::Collection collection{.name = copies_collection, .tensors = {}};
  if (!own.outer) return collection;
  const int64_t first = own.cut.groups.replicas->group().ranks.front();
  const auto add = [&](int64_t of_rank, size_t state, const char* what, const at::Tensor& tensor) {
    collection.tensors.push_back({.name = fmt::format("rank {}, state {}, {}", of_rank, state, what),
                                  .tensor = tensor,
                                  .mark = ParamMark::replicated(tensor.sizes().vec())});
  };
  for (size_t i = 0; i < own.outer->states().size(); ++i) {
    const optim::AdamW::State& state = own.optimizer.states()[i];
    add(rank, i, "weights", state.master);
    add(rank, i, "first moments", state.m);
    add(rank, i, "second moments", state.v);
    if (saves && rank != first) continue;
    add(first, i, "common weights", own.outer->states()[i].anchor);
    add(first, i, "momentum", own.outer->states()[i].momentum);
  }
  return collection;
}

void restore_copies(const checkpoint::Reader& checkpoint, RankModel& own, int64_t rank, const Json& layout,
                    const std::function<void(const std::string&)>& log) {
  if (!own.outer) return;
  own.outer->begin_at_masters();
  const std::string path = checkpoint.path().string();
  const Json& saved = checkpoint.trainer();
  const bool has_some = saved.contains(copies_layout_key);
  if (has_some && saved.at(copies_layout_key) == layout) {
    return checkpoint.read_some(copy_states(own, rank, /*saves=*/false));
  }
  log(fmt::format("all copies begin at the weights of {}, without momentum: it has {}", path,
                  has_some ? "those of another layout" : "none"));
}

}  // namespace terrace::train
