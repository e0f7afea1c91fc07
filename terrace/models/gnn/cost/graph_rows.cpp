// Finds the sizes of a level.
#include "terrace/models/gnn/cost/graph_rows.h"

#include <cmath>

#include "terrace/data/graphs/graphs_request.h"

namespace terrace::models::gnn {
namespace {

int64_t size_of(const Sizes& sizes, int64_t level, const char* name, double coarse_share) {
  double share = 1;
  for (; level >= 0; --level, share *= coarse_share) {
    const auto found = sizes.find(data::level_tensor(level, name));
    if (found != sizes.end()) return std::llround(share * static_cast<double>(found->second));
  }
  return 0;
}

}  // namespace

GraphRows graph_rows(const ModelConfig& config, const schedule::UnitTableOptions& options, int64_t level) {
  const bool given = config.edges == Edges::given;
  const int64_t edges = size_of(options.sizes, level, "edges", given ? 0.55 : 0.3);
  return {.graphs = options.samples,
          .atoms = size_of(options.sizes, level, "atoms", given ? 0.55 : 0.5),
          .edges = edges,
          .factors = edges / (config.computes_pairs() ? 2 : 1)};
}

}  // namespace terrace::models::gnn
