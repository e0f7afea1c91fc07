// Encodes the values of a collective for the transfer between ranks.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>

#include "terrace/config/config.h"

namespace terrace::parallel {

// The payload of n values is a tensor from which the values can be computed, possibly rounded: the values in another
// element type, or bytes with quantized values and their scales. A payload depends only on its n values and their type,
// so that every rank that decodes it gets the same numbers. All tensors are contiguous and have one dimension. A format
// has no mutable state: one object serves all collectives of a rank.
class WireFormat {
 public:
  virtual ~WireFormat() = default;

  // The element type of a payload of values of type `kept`; uint8 for bytes.
  virtual at::ScalarType payload_type(at::ScalarType kept) const = 0;
  // Bytes of the payload of `values` values, scales included.
  virtual int64_t bytes(int64_t values, at::ScalarType kept) const = 0;
  // Whether the elementwise sum of payloads is the payload of the sum, so that the communicator can reduce payloads.
  // Payloads of other formats are decoded by the receiver and summed there.
  virtual bool summable() const = 0;

  // The payloads of `parts` equal parts of the values, one after another; each can be decoded alone. The result may be
  // `values` itself.
  virtual at::Tensor encode(const at::Tensor& values, int64_t parts) const = 0;
  // Decodes `parts` payloads of n / parts values each to `into` [n], in the type of `into`.
  virtual void decode(const at::Tensor& payloads, int64_t parts, const at::Tensor& into) const = 0;

  // Whether the payload is the values themselves, without rounding or decoding.
  bool preserves(at::ScalarType kept) const { return payload_type(kept) == kept; }
};

// The format that transfers values as elements of the given type; `same`: of the type in which they are kept.
std::shared_ptr<const WireFormat> element_format(config::WireType type);

}  // namespace terrace::parallel
