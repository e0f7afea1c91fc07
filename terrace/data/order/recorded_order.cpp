// Reads and writes the key "order" of an identity. The first version has no key, as in checkpoints before there was
// another one.
#include "terrace/data/order/recorded_order.h"

#include "terrace/base/error.h"

namespace terrace::data {
namespace {

constexpr const char* key = "order";
constexpr int latest = static_cast<int>(OrderVersion::complete_epochs);

}  // namespace

OrderVersion recorded_order(const Json& identity) {
  const int version = identity.value(key, static_cast<int>(OrderVersion::overlapping_epochs));
  if (version < 1 || version > latest) {
    throw UserError::of(
        "the run orders its samples by version {}, and this terrace knows versions 1 to {}; continue it with the "
        "terrace "
        "that wrote its checkpoints, or a later one",
        version, latest);
  }
  return static_cast<OrderVersion>(version);
}

void record_order(OrderVersion version, Json& identity) {
  identity.erase(key);
  if (version != OrderVersion::overlapping_epochs) identity[key] = static_cast<int>(version);
}

}  // namespace terrace::data
