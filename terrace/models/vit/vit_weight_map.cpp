// Matches channels and outputs by name, and interpolates positions.
#include "terrace/models/vit/vit_weight_map.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/matmul.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <optional>

#include "terrace/base/error.h"
#include "terrace/data/fields/fields_description.h"
#include "terrace/data/fields/longitude_circle.h"
#include "terrace/data/fields/scanned_fields.h"
#include "terrace/data/kept_statistics.h"
#include "terrace/models/vit/grid_interpolation.h"
#include "terrace/models/vit/model.h"
#include "terrace/models/vit/settings/config.h"

namespace terrace::models::vit {
namespace {

using Names = std::vector<std::string>;

// The index of each wanted name among the stored ones, or -1.
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

// A map is made several times, on each rank and by checks, so what it does is a note that the run says once.
void note(const char* what, const Names& wanted, const Names& stored, std::vector<std::string>& notes) {
  const auto without = [](const Names& list, const Names& others) {
    Names rest;
    std::ranges::copy_if(list, std::back_inserter(rest),
                         [&](const std::string& name) { return std::ranges::find(others, name) == others.end(); });
    return rest;
  };
  const Names added = without(wanted, stored), left = without(stored, wanted);
  if (!added.empty()) notes.push_back(fmt::format("new {} with initial values: {}", what, fmt::join(added, ", ")));
  if (!left.empty()) notes.push_back(fmt::format("{} of the checkpoint left out: {}", what, fmt::join(left, ", ")));
}

using data::FieldGrid;

// The grid of a description, where the file is there and has as many places as the model.
std::optional<FieldGrid> described_grid(const std::filesystem::path& path, const ModelConfig& model) {
  if (path.empty() || !std::filesystem::exists(path)) return std::nullopt;
  try {
    const data::FieldsDescription description = data::read_fields_description(path);
    const bool fits = std::ssize(description.latitudes) == model.latitudes() &&
                      std::ssize(description.longitudes) == model.longitudes();
    if (fits) return FieldGrid{description.latitudes, description.longitudes};
  } catch (const UserError&) {  // reported where the data are read
  }
  return std::nullopt;
}

// The statistics of a checkpoint are the description of its own fields unless data.statistics named others.
std::optional<FieldGrid> stored_grid(const WeightMapRequest& request, const config::Config& stored) {
  const data::FieldsConfig& fields = data_of(stored);
  const auto attached = request.attached.find("statistics");
  const std::optional<FieldGrid> kept =
      attached == request.attached.end() ? std::nullopt : described_grid(attached->second, model_of(stored));
  if (kept && !data::names_statistics_file(fields.statistics)) return kept;
  const std::optional<FieldGrid> own = described_grid(data::description_path(fields.fields), model_of(stored));
  return own ? own : kept;
}

// The interpolation of rows and that of columns.
struct Matrices {
  at::Tensor rows, columns;  // [wanted, stored]
};

struct GridMap {
  bool is_same = true;
  Matrices places, patches;
  std::string note = {};  // says what is done, and where the new grid reaches beyond the stored one
};

// Says how many of the latitudes and longitudes lie outside of the cells of a grid; "" where none does.
std::string outside_text(const FieldGrid& wanted, const FieldGrid& stored) {
  const auto number = [](auto begin, auto end, auto is_outside) { return std::count_if(begin, end, is_outside); };
  const std::vector<double>& rows = stored.latitudes;
  const double half = rows.size() > 1 ? (rows.back() - rows.front()) / (2 * static_cast<double>(rows.size() - 1)) : 90;
  const auto latitudes = number(wanted.latitudes.begin(), wanted.latitudes.end(), [&](double latitude) {
    return latitude < rows.front() - half - 1e-4 || latitude > rows.back() + half + 1e-4;
  });
  const data::LongitudeCircle circle = data::longitude_circle(stored.longitudes);
  const double first = circle.degrees.front(), width = circle.degrees.back() - first;
  const double half_column = width / (2 * static_cast<double>(std::max<size_t>(1, circle.degrees.size() - 1)));
  const auto longitudes = number(wanted.longitudes.begin(), wanted.longitudes.end(), [&](double longitude) {
    const double from_middle = std::abs(std::remainder(longitude - first - width / 2, 360.0));
    return !circle.is_closed && from_middle > width / 2 + half_column + 1e-4;
  });
  if (latitudes == 0 && longitudes == 0) return "";
  return fmt::format(", of which {} latitudes and {} longitudes lie outside and take the values at its edge", latitudes,
                     longitudes);
}

GridMap grid_map(const WeightMapRequest& request, const config::Config& stored_config) {
  const ModelConfig &stored = model_of(stored_config), &wanted = model_of(request.config);
  const std::optional<FieldGrid> from = stored_grid(request, stored_config);
  const std::optional<FieldGrid> to = described_grid(data::description_path(data_of(request.config).fields), wanted);
  GridMap map;
  if (!from || !to) {
    map.is_same = stored.grid == wanted.grid;
    map.places = {interpolation_by_index(wanted.latitudes(), stored.latitudes(), false),
                  interpolation_by_index(wanted.longitudes(), stored.longitudes(), true)};
    map.patches = {interpolation_by_index(wanted.patch_rows(), stored.patch_rows(), false),
                   interpolation_by_index(wanted.patch_columns(), stored.patch_columns(), true)};
    map.note = fmt::format(
        "positions are interpolated by index, as if both grids covered the globe, since the coordinates of {} are not "
        "known",
        !to ? fmt::format("data.fields = \"{}\"", data_of(request.config).fields) : "the checkpoint's fields");
    return map;
  }
  map.is_same = data::are_same_grid(*from, *to);
  map.places = {interpolation_of_latitudes(to->latitudes, from->latitudes),
                interpolation_of_longitudes(to->longitudes, from->longitudes)};
  map.patches = {interpolation_of_latitudes(patch_latitudes(to->latitudes, wanted.patch),
                                            patch_latitudes(from->latitudes, stored.patch)),
                 interpolation_of_longitudes(patch_longitudes(to->longitudes, wanted.patch),
                                             patch_longitudes(from->longitudes, stored.patch))};
  map.note = fmt::format("positions are interpolated by coordinates from {} to {}{}", data::grid_text(*from),
                         data::grid_text(*to), outside_text(*to, *from));
  return map;
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
    note("inputs", wanted.channels, stored.channels, map.notes);
    const std::vector<int64_t> indices = stored_indices(wanted.channels, stored.channels);
    for (const char* part : {"weight", "bias", "variables"}) {
      const std::string name = std::string("embedding.tokens.") + part;
      compute(name, [indices, initial = new_values(request.config, name)](const at::Tensor& from) {
        return matched(from, initial(), indices, 0);
      });
    }
  }
  if (stored.outputs != wanted.outputs) {
    note("outputs", wanted.outputs, stored.outputs, map.notes);
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
  const GridMap grid = grid_map(request, stored_config);
  const bool other_fields = stored.outputs != wanted.outputs || !grid.is_same;
  if (stored.damps_anomaly() && wanted.damps_anomaly() && other_fields) {
    const std::vector<int64_t> indices = stored_indices(wanted.outputs, stored.outputs);
    compute("head.damping", [indices, rows = grid.places.rows, columns = grid.places.columns,
                             initial = new_values(request.config, "head.damping")](const at::Tensor& from) {
      return matched(rows.matmul(from).matmul(columns.t()), initial(), indices, 0);  // [V, H, W]
    });
  }
  if (!grid.is_same) {
    map.notes.push_back(grid.note);
    compute("embedding.positions", [rows = grid.patches.rows, columns = grid.patches.columns](const at::Tensor& from) {
      const at::Tensor grid = from.unflatten(0, {rows.size(1), columns.size(1)});              // [R, C, D]
      const at::Tensor wider = columns.matmul(grid);                                           // [R, C', D]
      return rows.matmul(wider.flatten(1)).unflatten(1, {columns.size(0), -1}).flatten(0, 1);  // [R' C', D]
    });
  }
  return map;
}

}  // namespace terrace::models::vit
