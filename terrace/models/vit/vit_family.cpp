// Adds the parts that train and use models to the family of the vision transformer.
#include "terrace/models/vit/vit_family.h"

#include "terrace/models/families.h"
#include "terrace/models/forecast_of_family.h"
#include "terrace/models/vit/model.h"
#include "terrace/models/vit/planned_vit.h"
#include "terrace/models/vit/settings/config.h"
#include "terrace/models/vit/vit_data.h"
#include "terrace/models/vit/vit_weight_map.h"

namespace terrace::models::vit {
namespace {

class ModelOfVit : public ModelOfFamily {
 public:
  std::unique_ptr<Model> build(const config::Config& config, const nn::Build& build) const override {
    return std::make_unique<Vit>(model_of(config), build);
  }
  WeightMap map_weights(const WeightMapRequest& request) const override { return vit_weight_map(request); }
};

class ForecastOfVit : public ForecastOfFamily {
 public:
  data::FieldsRequest fields(const config::Config& config) const override { return fields_request(model_of(config)); }
  bool knows_lead(const config::Config& config) const override { return model_of(config).lead_embedding; }
  bool reads_climatology(const config::Config& config) const override { return model_of(config).reads_climatology(); }
};

}  // namespace

const config::Family& family() {
  static const ModelOfVit model;
  static const VitData data;
  static const ForecastOfVit forecast;
  static const config::Family family = [] {
    config::Family all = planned_family();
    all.model = &model;
    all.data = &data;
    all.forecast = &forecast;
    return all;
  }();
  return family;
}

}  // namespace terrace::models::vit
