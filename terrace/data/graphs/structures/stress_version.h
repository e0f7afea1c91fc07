// Tells which version of the labels of stress a run is trained on, as the identity of its data records it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "terrace/base/text/json_fwd.h"
#include "terrace/data/graphs/dataset/graphs_dataset.h"
#include "terrace/data/graphs/graphs_request.h"

namespace terrace::data {

// Structures of a dataset for which the first version made another label. That version took a property for the
// derivative by strain over a volume that was 1 unless the structure was periodic in all three directions, also a
// property that is a virial. The second version divides by the volume of the cell as it is given
// (GraphLabel::is_stress).
struct RedefinedStress {
  std::string dataset = {}, property = {};
  int64_t structures = 0;
  std::string first = {};  // file and number of the first such structure
};

// Returns the redefined structures of all parts; none where the label is no stress. `property` is its number in the
// dataset, -1: the dataset has none.
RedefinedStress redefined_stress(const GraphsDataset& dataset, int64_t property, const GraphLabel& label);

// Records the latest version. Called only for data that have redefined structures: an identity without a record may be
// of either version, which make the same labels for other data.
void record_stress(Json& identity);

// Throws UserError, with what `redefined` says, where `own` has a record and `older` none, or where `older` has the
// record of a version that is not known here.
void check_recorded_stress(const Json& older, const Json& own,
                           const std::function<std::vector<RedefinedStress>()>& redefined);

}  // namespace terrace::data
