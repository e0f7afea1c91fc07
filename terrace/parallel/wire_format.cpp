// Implements the formats whose payload is the values in an element type, and those of quantized blocks.
#include "terrace/parallel/wire_format.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include <optional>

#include "terrace/base/error.h"
#include "terrace/config/wire_type.h"
#include "terrace/ops/kernels.h"

namespace terrace::parallel {
namespace {

class ElementFormat : public WireFormat {
 public:
  explicit ElementFormat(config::WireType type) : type_(type) {}

  at::ScalarType payload_type(at::ScalarType kept) const override {
    switch (type_) {
      case config::WireType::same:
        return kept;
      case config::WireType::fp32:
        return at::kFloat;
      case config::WireType::bf16:
        return at::kBFloat16;
      case config::WireType::int8:
      case config::WireType::int4:
      case config::WireType::fp8:
        break;
    }
    TERRACE_CHECK(false, "wire type {}", static_cast<int>(type_));
  }

  int64_t bytes(int64_t values, at::ScalarType kept) const override {
    return values * static_cast<int64_t>(c10::elementSize(payload_type(kept)));
  }

  bool summable() const override { return true; }

  at::Tensor encode(const at::Tensor& values, int64_t, const ops::RoundingDraw&) const override {
    return values.to(payload_type(values.scalar_type()));
  }

  void decode(const at::Tensor& payloads, int64_t, const at::Tensor& into) const override { into.copy_(payloads); }

 private:
  config::WireType type_;
};

static_assert(ops::code_block == config::wire_block, "plan counts the bytes of other blocks than the kernels write");

class BlockFormat : public WireFormat {
 public:
  BlockFormat(config::WireType type, Rounding rounding) : type_(type), code_(code_of(type)), rounding_(rounding) {}

  at::ScalarType payload_type(at::ScalarType) const override { return at::kByte; }
  int64_t bytes(int64_t values, at::ScalarType) const override { return config::wire_bytes(type_, values, 0); }
  bool summable() const override { return false; }

  at::Tensor encode(const at::Tensor& values, int64_t parts, const ops::RoundingDraw& draw) const override {
    at::Tensor payloads =
        at::empty({parts * bytes(values.numel() / parts, values.scalar_type())}, values.options().dtype(at::kByte));
    ops::kernels(values.device())
        .encode_blocks(
            {.code = code_, .parts = parts, .draw = rounding_ == Rounding::random ? std::optional(draw) : std::nullopt},
            values, payloads);
    return payloads;
  }

  void decode(const at::Tensor& payloads, int64_t parts, const at::Tensor& into) const override {
    ops::kernels(into.device()).decode_blocks({.code = code_, .parts = parts}, payloads, into);
  }

  void add_decoded(const at::Tensor& payload, const at::Tensor& sum) const override {
    ops::kernels(sum.device()).decode_blocks({.code = code_, .adds = true}, payload, sum);
  }

 private:
  config::WireType type_;
  ops::BlockCode code_;
  Rounding rounding_;
};

}  // namespace

ops::BlockCode code_of(config::WireType type) {
  switch (type) {
    case config::WireType::int8:
      return ops::BlockCode::int8;
    case config::WireType::int4:
      return ops::BlockCode::int4;
    case config::WireType::fp8:
      return ops::BlockCode::fp8;
    default:
      TERRACE_CHECK(false, "wire type {} is not quantized", static_cast<int>(type));
  }
}

void WireFormat::add_decoded(const at::Tensor& payload, const at::Tensor& sum) const {
  const at::Tensor term = at::empty_like(sum);
  decode(payload, 1, term);
  sum.add_(term);
}

std::shared_ptr<const WireFormat> element_format(config::WireType type) {
  return std::make_shared<const ElementFormat>(type);
}

std::shared_ptr<const WireFormat> wire_format(config::WireType type, Rounding rounding) {
  if (!config::is_quantized(type)) return element_format(type);
  return std::make_shared<const BlockFormat>(type, rounding);
}

}  // namespace terrace::parallel
