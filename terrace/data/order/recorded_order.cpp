// Reads and writes the key "order" of an identity. The first version has no key, as in checkpoints from before there
// was another version.
#include "terrace/data/order/recorded_order.h"

#include "terrace/base/error.h"
#include "terrace/base/text/json.h"

namespace terrace::data {
namespace {

constexpr const char* order_entry = "order";
constexpr int latest_order = static_cast<int>(OrderVersion::complete_epochs);

}  // namespace

OrderVersion recorded_order(const Json& identity) {
  const int version = identity.value(order_entry, static_cast<int>(OrderVersion::overlapping_epochs));
  if (version < 1 || version > latest_order) {
    throw UserError::of(
        "the run orders its samples by version {}, and this terrace knows versions 1 to {}; continue it with "
        "the terrace that wrote its checkpoints, or a later one",
        version, latest_order);
  }
  return static_cast<OrderVersion>(version);
}

void record_order(OrderVersion version, Json& identity) {
  identity.erase(order_entry);
  if (version != OrderVersion::overlapping_epochs) identity[order_entry] = static_cast<int>(version);
}

}  // namespace terrace::data
