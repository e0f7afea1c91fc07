// Implements the formats whose payload is the values in an element type.
#include "terrace/parallel/wire_format.h"

#include "terrace/base/error.h"

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
    }
    TERRACE_CHECK(false, "wire type {}", static_cast<int>(type_));
  }

  int64_t bytes(int64_t values, at::ScalarType kept) const override {
    return values * static_cast<int64_t>(c10::elementSize(payload_type(kept)));
  }

  bool summable() const override { return true; }

  at::Tensor encode(const at::Tensor& values, int64_t) const override {
    return values.to(payload_type(values.scalar_type()));
  }

  void decode(const at::Tensor& payloads, int64_t, const at::Tensor& into) const override { into.copy_(payloads); }

 private:
  config::WireType type_;
};

}  // namespace

std::shared_ptr<const WireFormat> element_format(config::WireType type) {
  return std::make_shared<const ElementFormat>(type);
}

}  // namespace terrace::parallel
