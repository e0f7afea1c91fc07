// The version of the order of weighted samples as the identity of a run's data names it.
#pragma once

#include "terrace/base/text/json_fwd.h"
#include "terrace/data/order/mixture.h"

namespace terrace::data {

// Returns the version that an identity names. An identity that names none was recorded by a terrace that had the first
// version only. Throws UserError for a version that this terrace does not have.
OrderVersion recorded_order(const Json& identity);
void record_order(OrderVersion version, Json& identity);

}  // namespace terrace::data
