// Matches channels and outputs by name, and interpolates positions.
#include "terrace/models/vit/vit_weight_map.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/zeros.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "terrace/base/log.h"
#include "terrace/models/vit/model.h"
#include "terrace/models/vit/settings/config.h"

namespace terrace::models::vit {
namespace {

using Names = std::vector<std::string>;

// For each wanted name its index among the stored ones, or -1.
std::vector<int64_t> stored_indices(const Names& wanted, const Names& stored) {
  std::vector<int64_t> indices;
  for (const std::string& name : wanted) {
    const auto found = std::ranges::find(stored, name);
    indices.push_back(found == stored.end() ? -1 : found - stored.begin());
  }
  return indices;
}

// `initial` with what was stored at the indices, in dimension `dim` of both; -1 leaves what is there.
at::Tensor matched(const at::Tensor& stored, at::Tensor initial, const std::vector<int64_t>& indices, int64_t dim) {
  for (size_t i = 0; i < indices.size(); ++i) {
    if (indices[i] >= 0) initial.select(dim, static_cast<int64_t>(i)).copy_(stored.select(dim, indices[i]));
  }
  return initial;
}

// The initial values of a parameter of a new model, in fp32.
std::function<at::Tensor()> new_values(const config::Config& config, const std::string& name) {
  return [name, seed = config.train.seed, model = model_of(config)] {
    Vit whole(model, {.device = at::kMeta});
    const auto parameters = whole.parameters();
    const nn::Parameter& found = **std::ranges::find(parameters, name, &nn::Parameter::name);
    nn::Parameter own;
    own.name = name;
    own.value = at::empty(found.value.sizes(), at::kFloat);
    own.initial = found.initial;
    return nn::initial_value(own, seed, at::kFloat).clone();
  };
}

// [wanted, stored]: each row is linear between the two nearest of the stored points, which divide the same interval
// evenly. On a circle the interval's ends are neighbours, elsewhere values beyond the outermost points are constant.
at::Tensor interpolation(int64_t wanted, int64_t stored, bool is_circle) {
  const at::Tensor matrix = at::zeros({wanted, stored}, at::kFloat);
  auto weights = matrix.accessor<float, 2>();
  for (int64_t i = 0; i < wanted; ++i) {
    const double at = (static_cast<double>(i) + 0.5) * static_cast<double>(stored) / static_cast<double>(wanted) - 0.5;
    const auto below = static_cast<int64_t>(std::floor(at));
    const auto share = static_cast<float>(at - static_cast<double>(below));
    const auto inside = [&](int64_t j) {
      return is_circle ? (j + stored) % stored : std::clamp<int64_t>(j, 0, stored - 1);
    };
    weights[i][inside(below)] += 1 - share;
    weights[i][inside(below + 1)] += share;
  }
  return matrix;
}

void tell(const char* what, const Names& wanted, const Names& stored) {
  const auto without = [](const Names& list, const Names& others) {
    Names rest;
    std::ranges::copy_if(list, std::back_inserter(rest),
                         [&](const std::string& name) { return std::ranges::find(others, name) == others.end(); });
    return rest;
  };
  const Names added = without(wanted, stored), left = without(stored, wanted);
  if (!added.empty()) log_info("initial weights: new {} with new values: {}", what, fmt::join(added, ", "));
  if (!left.empty()) log_info("initial weights: {} of the checkpoint left out: {}", what, fmt::join(left, ", "));
}

}  // namespace

WeightMap vit_weight_map(const WeightMapRequest& request) {
  WeightMap map;
  const config::Config stored_config = request.stored_config();
  const ModelConfig &stored = model_of(stored_config), &wanted = model_of(request.config);
  for (const char* name : {"embedding.lead.weight", "embedding.lead.bias", "embedding.time.weight",
                           "embedding.time.bias", "head.damping"}) {
    const bool was = request.stored.contains(name), is = request.wanted.contains(name);
    if (is && !was) map.initial.insert(name);
    if (was && !is) map.dropped.insert(name);
  }
  const auto compute = [&](const std::string& name, auto function) {
    map.computed[name] = {{name}, [function](const std::vector<at::Tensor>& from) { return function(from.front()); }};
  };
  if (stored.width != wanted.width || stored.patch != wanted.patch) return map;  // the shapes are refused
  if (stored.channels != wanted.channels) {
    tell("inputs", wanted.channels, stored.channels);
    const std::vector<int64_t> indices = stored_indices(wanted.channels, stored.channels);
    for (const char* part : {"weight", "bias", "variables"}) {
      const std::string name = std::string("embedding.tokens.") + part;
      compute(name, [indices, initial = new_values(request.config, name)](const at::Tensor& from) {
        return matched(from, initial(), indices, 0);
      });
    }
  }
  if (stored.outputs != wanted.outputs) {
    tell("outputs", wanted.outputs, stored.outputs);
    const std::vector<int64_t> indices = stored_indices(wanted.outputs, stored.outputs);
    for (const char* part : {"weight", "bias"}) {
      const std::string name = std::string("head.output.") + part;
      const auto by_output = [patch = wanted.patch_size()](const at::Tensor& rows, int64_t outputs) {
        return rows.unflatten(0, {patch, outputs});  // [P, V, ..]
      };
      compute(name, [=, initial = new_values(request.config, name), before = stored.num_outputs(),
                     now = wanted.num_outputs()](const at::Tensor& from) {
        return matched(by_output(from, before), by_output(initial(), now), indices, 1).flatten(0, 1);
      });
    }
  }
  const bool other_fields = stored.outputs != wanted.outputs || stored.grid != wanted.grid;
  if (stored.damps_anomaly() && wanted.damps_anomaly() && other_fields) {
    const std::vector<int64_t> indices = stored_indices(wanted.outputs, stored.outputs);
    const at::Tensor rows = interpolation(wanted.latitudes(), stored.latitudes(), false);
    const at::Tensor columns = interpolation(wanted.longitudes(), stored.longitudes(), true);
    compute("head.damping",
            [indices, rows, columns, initial = new_values(request.config, "head.damping")](const at::Tensor& from) {
              return matched(rows.matmul(from).matmul(columns.t()), initial(), indices, 0);  // [V, H, W]
            });
  }
  if (stored.patch_rows() != wanted.patch_rows() || stored.patch_columns() != wanted.patch_columns()) {
    const at::Tensor rows = interpolation(wanted.patch_rows(), stored.patch_rows(), false);
    const at::Tensor columns = interpolation(wanted.patch_columns(), stored.patch_columns(), true);
    compute("embedding.positions", [rows, columns](const at::Tensor& from) {
      const at::Tensor grid = from.unflatten(0, {rows.size(1), columns.size(1)});              // [R, C, D]
      const at::Tensor wider = columns.matmul(grid);                                           // [R, C', D]
      return rows.matmul(wider.flatten(1)).unflatten(1, {columns.size(0), -1}).flatten(0, 1);  // [R' C', D]
    });
  }
  return map;
}

}  // namespace terrace::models::vit
