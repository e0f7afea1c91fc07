// Encodes the values of a collective for the transfer between ranks.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>

#include "terrace/config/config.h"
#include "terrace/ops/block_code.h"

namespace terrace::parallel {

// The payload of n values is a tensor from which the values can be computed, possibly rounded: the values in another
// element type, or bytes with quantized values and their scales. A payload depends only on its n values, their type and
// the draws of its rounding, and every rank that decodes it gets the same numbers. All tensors are contiguous and have
// one dimension. A format has no mutable state: one object serves all collectives of a rank.
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
  // `values` itself. Formats that round to nearest do not use the draws.
  virtual at::Tensor encode(const at::Tensor& values, int64_t parts, const ops::RoundingDraw& draw) const = 0;
  // Decodes `parts` payloads of n / parts values each to `into` [n], in the type of `into`.
  virtual void decode(const at::Tensor& payloads, int64_t parts, const at::Tensor& into) const = 0;
  // Adds the values of one payload to `sum`, in fp32.
  virtual void add_decoded(const at::Tensor& payload, const at::Tensor& sum) const;

  // Whether the payload is the values themselves, without rounding or decoding.
  bool preserves(at::ScalarType kept) const { return payload_type(kept) == kept; }
};

// The format that transfers values as elements of the given type, which is not a quantized one; `same`: of the type in
// which they are kept.
std::shared_ptr<const WireFormat> element_format(config::WireType type);

// The code of a quantized type.
ops::BlockCode code_of(config::WireType type);

enum class Rounding { nearest, random };

// The format of a configuration; a quantized one (config::is_quantized) has the payloads of ops::BlockLayout.
std::shared_ptr<const WireFormat> wire_format(config::WireType type, Rounding rounding);

}  // namespace terrace::parallel
