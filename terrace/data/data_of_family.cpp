// Finds the part of a configuration's family that knows its data.
#include "terrace/data/data_of_family.h"

#include "terrace/base/error.h"
#include "terrace/config/family.h"

namespace terrace::data {

const DataOfFamily& data_of_family(const config::Config& config) {
  TERRACE_CHECK(config.family != nullptr && config.family->data != nullptr, "no data of the model");
  return *config.family->data;
}

}  // namespace terrace::data
