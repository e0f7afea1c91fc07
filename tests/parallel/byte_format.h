// A wire format of bytes with scales, defined in the tests to show that a new format needs no change in the library.
#pragma once

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>

#include "terrace/parallel/wire_format.h"
#include "tests/parallel/count.h"

namespace terrace::parallel {

// Encodes values of at least 0 in blocks. Each value is a byte times the scale of its block: the smallest power of two
// for which 255 times the scale reaches the largest value of the block. The payload of n values is n bytes, followed by
// an fp32 scale for each block; the last block may have fewer values.
class ByteFormat : public WireFormat {
 public:
  explicit ByteFormat(int64_t block) : block_(block) {}

  at::ScalarType payload_type(at::ScalarType) const override { return at::kByte; }
  bool summable() const override { return false; }
  int64_t bytes(int64_t values, at::ScalarType) const override { return values + 4 * ((values + block_ - 1) / block_); }

  at::Tensor encode(const at::Tensor& values, int64_t parts, const ops::RoundingDraw&) const override {
    const at::Tensor from = values.to(at::kFloat);
    const int64_t size = from.numel() / parts, payload_bytes = bytes(size, at::kFloat);
    at::Tensor payloads = at::zeros({parts * payload_bytes}, at::kByte);
    for (int64_t part = 0; part < parts; ++part) {
      encode_part(from.const_data_ptr<float>() + part * size, size,
                  payloads.mutable_data_ptr<uint8_t>() + part * payload_bytes);
    }
    return payloads;
  }

  void decode(const at::Tensor& payloads, int64_t parts, const at::Tensor& into) const override {
    const at::Tensor values = at::empty(into.sizes(), at::kFloat);
    const int64_t size = into.numel() / parts, payload_bytes = bytes(size, at::kFloat);
    for (int64_t part = 0; part < parts; ++part) {
      const uint8_t* payload = payloads.const_data_ptr<uint8_t>() + part * payload_bytes;
      for (int64_t i = 0; i < size; ++i) {
        float scale;
        std::memcpy(&scale, payload + size + i / block_ * 4, 4);
        values.mutable_data_ptr<float>()[part * size + i] = static_cast<float>(payload[i]) * scale;
      }
    }
    into.copy_(values);
  }

 private:
  void encode_part(const float* values, int64_t size, uint8_t* payload) const {
    for (int64_t begin = 0; begin < size; begin += block_) {
      const int64_t end = std::min(size, begin + block_);
      const float largest = *std::max_element(values + begin, values + end);
      const float scale = largest > 0 ? std::exp2(std::ceil(std::log2(largest / 255.0F))) : 0.0F;
      for (int64_t i = begin; i < end; ++i) {
        payload[i] = static_cast<uint8_t>(scale > 0 ? std::max(0.0F, std::round(values[i] / scale)) : 0.0F);
      }
      std::memcpy(payload + size + begin / block_ * 4, &scale, 4);
    }
  }

  int64_t block_;
};

inline std::shared_ptr<const WireFormat> byte_format(int64_t block) {
  return std::make_shared<const ByteFormat>(block);
}

inline constexpr comm::Kind used_kinds[] = {comm::Kind::reduce_scatter, comm::Kind::all_gather, comm::Kind::all_reduce,
                                            comm::Kind::all_to_all};

inline Count counted(const comm::Comm& group, comm::Kind kind) {
  return {group.traffic(kind).calls, group.traffic(kind).bytes};
}

}  // namespace terrace::parallel
