// The families of this program, and the part of a family that builds its models.
#pragma once

#include <memory>

#include "terrace/config/config.h"
#include "terrace/config/family.h"
#include "terrace/models/model.h"
#include "terrace/models/weight_map.h"
#include "terrace/nn/module.h"

namespace terrace::models {

class ModelOfFamily {
 public:
  virtual ~ModelOfFamily() = default;
  // The whole model of a configuration of the family for one device; build_model() gives its parameters their marks.
  virtual std::unique_ptr<Model> build(const config::Config& config, const nn::Build& build) const = 0;
  // Says what a new run takes from the checkpoint of another model of the family: by default all tensors as they are,
  // so that every name and shape must be equal.
  virtual WeightMap map_weights(const WeightMapRequest&) const { return {}; }
};

// The families of this program, with all their parts. CMake writes the list.
const config::Families& families();

// Builds the model of the configuration and gives its parameters the marks of its unit table. Aborts if names or shapes
// differ from the table, if a parameter stays unmarked, or if the family is one of planned_families().
std::unique_ptr<Model> build_model(const config::Config& config, const nn::Build& build);

}  // namespace terrace::models
