// Chooses the table of kernels for a device.
#include "terrace/ops/kernels.h"

#include "terrace/base/error.h"
#include "terrace/ops/recorded_kernels.h"

namespace terrace::ops {

void check_segments(const at::Tensor& elements, const at::Tensor& order, const at::Tensor& first,
                    const at::Tensor& results) {
  TERRACE_CHECK(elements.is_contiguous() && results.is_contiguous() && first.is_contiguous() &&
                    results.size(0) + 1 == first.size(0) && results.size(1) == elements.size(1) &&
                    (!order.defined() || order.is_contiguous()),
                "{} x {} elements for {} rows of {}", elements.size(0), elements.size(1), results.size(0),
                results.size(1));
}

BlockLayout block_layout(const BlockCoding& coding, const at::Tensor& values, const at::Tensor& payloads) {
  TERRACE_CHECK(values.is_contiguous() && payloads.is_contiguous() && values.numel() % coding.parts == 0,
                "{} values in {} parts", values.numel(), coding.parts);
  const BlockLayout layout{coding.code, coding.parts, values.numel() / coding.parts};
  TERRACE_CHECK(payloads.scalar_type() == at::kByte && payloads.numel() == layout.parts * layout.payload_bytes(),
                "payloads of {} bytes for {} values in {} parts", payloads.numel(), values.numel(), coding.parts);
  TERRACE_CHECK(layout.blocks() <= int64_t{0xFFFFFFFF} / philox_of_block, "draws for {} blocks", layout.blocks());
  TERRACE_CHECK(!coding.adds || values.scalar_type() == at::kFloat, "sums of {}", c10::toString(values.scalar_type()));
  return layout;
}

const Kernels& kernels(const at::Device& device) {
  if (device.is_cpu()) return recorded_where_asked(cpu_kernels());
  if (device.is_cuda()) return recorded_where_asked(cuda_kernels());
  throw UserError::of("there are no kernels for the device {}; use cpu or cuda", device.str());
}

}  // namespace terrace::ops
