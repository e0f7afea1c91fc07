// Lists the kinds of datasets.
#include "terrace/data/kinds_of_data.h"

#include "terrace/data/fields/preparation/prepare_fields.h"
#include "terrace/data/graphs/prepare_graphs.h"

namespace terrace::data {

const std::vector<const Preparation*>& kinds_of_data() {
  static const FieldsPreparation fields;
  static const GraphsPreparation graphs;
  static const std::vector<const Preparation*> all = {&fields, &graphs};
  return all;
}

}  // namespace terrace::data
