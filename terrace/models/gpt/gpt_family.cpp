// Adds the parts that train and use models to the family of the GPT.
#include "terrace/models/gpt/gpt_family.h"

#include "terrace/models/families.h"
#include "terrace/models/gpt/gpt_data.h"
#include "terrace/models/gpt/gpt_exchange.h"
#include "terrace/models/gpt/gpt_text.h"
#include "terrace/models/gpt/model.h"
#include "terrace/models/gpt/planned_gpt.h"
#include "terrace/models/gpt/settings/config.h"

namespace terrace::models::gpt {
namespace {

class ModelOfGpt : public ModelOfFamily {
 public:
  std::unique_ptr<Model> build(const config::Config& config, const nn::Build& build) const override {
    return std::make_unique<Gpt>(model_of(config), build);
  }
};

}  // namespace

const config::Family& family() {
  static const ModelOfGpt model;
  static const GptData data;
  static const GptText text;
  static const GptExchange exchange;
  static const config::Family family = [] {
    config::Family all = planned_family();
    all.model = &model;
    all.data = &data;
    all.text = &text;
    all.exchange = &exchange;
    return all;
  }();
  return family;
}

}  // namespace terrace::models::gpt
