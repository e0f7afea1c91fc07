// Adds the parts that train and use models to the family of graph networks.
#include "terrace/models/gnn/gnn_family.h"

#include "terrace/models/families.h"
#include "terrace/models/gnn/gnn_data.h"
#include "terrace/models/gnn/model.h"
#include "terrace/models/gnn/planned_gnn.h"
#include "terrace/models/gnn/settings/config.h"

namespace terrace::models::gnn {
namespace {

class ModelOfGnn : public ModelOfFamily {
 public:
  std::unique_ptr<Model> build(const config::Config& config, const nn::Build& build) const override {
    return std::make_unique<Gnn>(model_of(config), build);
  }
};

}  // namespace

const config::Family& family() {
  static const ModelOfGnn model;
  static const GnnData data;
  static const config::Family family = [] {
    config::Family all = planned_family();
    all.model = &model;
    all.data = &data;
    return all;
  }();
  return family;
}

}  // namespace terrace::models::gnn
