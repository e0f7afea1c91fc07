// Looks at the exponents of the weights that are about to be saved.
#include "terrace/run/hooks/finite_weights.h"

#include <fmt/format.h>

#include <cstdint>
#include <cstring>
#include <stdexcept>

#include "terrace/optim/kernels.h"

namespace terrace::run {
namespace {

bool all_finite(const at::Tensor& tensor) {
  if (!tensor.is_cpu()) {
    optim::Squares squares;
    squares.add(tensor.flatten());
    return optim::is_finite(squares.total());
  }
  constexpr uint32_t exponent = 0x7F800000;
  const float* values = tensor.const_data_ptr<float>();
  bool finite = true;
  for (int64_t i = 0; i < tensor.numel(); ++i) {
    uint32_t bits = 0;
    std::memcpy(&bits, values + i, sizeof(bits));
    finite &= (bits & exponent) != exponent;
  }
  return finite;
}

}  // namespace

void check_finite(const checkpoint::State& state) {
  for (const checkpoint::NamedTensor& named : state.collections.front().tensors) {
    if (all_finite(named.tensor)) continue;
    throw std::runtime_error(fmt::format(
        "step {}: the weights of {} are not finite; nothing is saved, and earlier checkpoints stay as they are. "
        "Continue from an earlier one with --resume and a lower optimizer.learning_rate",
        state.step, named.name));
  }
}

}  // namespace terrace::run
