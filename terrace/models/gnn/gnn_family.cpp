// Adds the parts that train and use models to the family of graph networks.
#include "terrace/models/gnn/gnn_family.h"

#include "terrace/models/families.h"
#include "terrace/models/gnn/cost/request.h"
#include "terrace/models/gnn/gnn_data.h"
#include "terrace/models/gnn/model.h"
#include "terrace/models/gnn/planned_gnn.h"
#include "terrace/models/gnn/settings/config.h"
#include "terrace/models/graphs_of_family.h"

namespace terrace::models::gnn {
namespace {

class ModelOfGnn : public ModelOfFamily {
 public:
  std::unique_ptr<Model> build(const config::Config& config, const nn::Build& build) const override {
    return std::make_unique<Gnn>(model_of(config), build);
  }
};

class GraphsOfGnn : public GraphsOfFamily {
 public:
  data::GraphsRequest request(const config::Config& config) const override { return graphs_request(model_of(config)); }
  std::vector<GraphOutput> outputs(const config::Config& config) const override {
    std::vector<GraphOutput> list;
    for (const OutputConfig& output : model_of(config).outputs) {
      list.push_back({.name = output.name,
                      .label = output.label,
                      .level = output.of_atoms() ? data::GraphLevel::atom : data::GraphLevel::structure,
                      .columns = output.label_columns(),
                      .per_atom = output.per_atom,
                      .has_variance = output.uncertain,
                      .derivative_of = output.derivative_of});
    }
    return list;
  }
};

}  // namespace

const config::Family& family() {
  static const ModelOfGnn model;
  static const GnnData data;
  static const GraphsOfGnn graphs;
  static const config::Family family = [] {
    config::Family all = planned_family();
    all.model = &model;
    all.data = &data;
    all.graphs = &graphs;
    return all;
  }();
  return family;
}

}  // namespace terrace::models::gnn
