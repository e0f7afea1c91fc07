// How the values of a movement are written for their way between ranks.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>

#include "terrace/config/config.h"

namespace terrace::parallel {

// The payload of n values is a tensor that the values can be computed from, maybe rounded: the same values in another
// element type, or bytes that hold quantized values and their scales. A payload depends on its n values and their type
// alone, so that every rank that decodes it computes with the same numbers. All tensors are contiguous and have one
// dimension. Has no state that changes: one object serves all movements of a rank.
class WireFormat {
 public:
  virtual ~WireFormat() = default;

  // The element type of a payload of values of type `kept`; uint8 for bytes.
  virtual at::ScalarType payload_type(at::ScalarType kept) const = 0;
  // Bytes of the payload of so many values, scales included.
  virtual int64_t bytes(int64_t values, at::ScalarType kept) const = 0;
  // Whether the sum of payloads, element by element, is the payload of the sum, so that the communicator itself can
  // reduce them. Payloads of other formats are decoded by the receiver and summed there.
  virtual bool summable() const = 0;

  // The payloads of `parts` equal parts of the values, one after another: each can be decoded alone. May be `values`
  // itself.
  virtual at::Tensor encode(const at::Tensor& values, int64_t parts) const = 0;
  // The reverse: `into` [n] gets the values of `parts` payloads of n / parts values each, in its own type.
  virtual void decode(const at::Tensor& payloads, int64_t parts, const at::Tensor& into) const = 0;

  // Whether a payload of such values is the values themselves, so that nothing is rounded and nothing to decode.
  bool preserves(at::ScalarType kept) const { return payload_type(kept) == kept; }
};

// Values as elements of the named type; same: of the type in which they are kept.
std::shared_ptr<const WireFormat> element_format(config::WireType type);

}  // namespace terrace::parallel
