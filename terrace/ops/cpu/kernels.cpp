// The table of CPU kernels.
#include "terrace/ops/cpu/kernels.h"

namespace terrace::ops {

const Kernels& cpu_kernels() {
  static constexpr Kernels table = {.add = cpu::add,
                                    .add_column_sums = cpu::add_column_sums,
                                    .add_rows = cpu::add_rows,
                                    .sum_segments = cpu::sum_segments,
                                    .extremes_of_segments = cpu::extremes_of_segments,
                                    .message_sum = cpu::message_sum,
                                    .message_product = cpu::message_product,
                                    .directed_sum = cpu::directed_sum,
                                    .directed_dot = cpu::directed_dot,
                                    .directed_product = cpu::directed_product,
                                    .direction_product = cpu::direction_product,
                                    .norm = cpu::norm,
                                    .norm_backward = cpu::norm_backward,
                                    .swiglu = cpu::swiglu,
                                    .swiglu_backward = cpu::swiglu_backward,
                                    .softplus = cpu::softplus,
                                    .rotate = cpu::rotate,
                                    .copy_heads = cpu::copy_heads,
                                    .dropout = cpu::dropout,
                                    .cross_entropy = cpu::cross_entropy,
                                    .encode_blocks = cpu::encode_blocks,
                                    .decode_blocks = cpu::decode_blocks};
  return table;
}

}  // namespace terrace::ops
