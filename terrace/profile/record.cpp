// Reports operations and phases through torch's RecordFunction.
#include "terrace/profile/record.h"

#include <ATen/record_function.h>

#include <algorithm>
#include <array>

namespace terrace::profile {

double bytes_of(std::initializer_list<at::Tensor> tensors) {
  double bytes = 0;
  for (const at::Tensor& tensor : tensors) {
    if (!tensor.defined()) continue;
    bytes += static_cast<double>(std::min(tensor.nbytes(), tensor.storage().nbytes()));
  }
  return bytes;
}

void Record::begin_operation(const char* name, const OperationCost& cost) {
  record_ = new at::RecordFunction(at::RecordScope::FUNCTION);
  const std::array<const at::IValue, 2> inputs = {cost.flops, cost.bytes};
  record_->before(name, at::ArrayRef<const at::IValue>(inputs));
}

void Record::begin_phase(const char* name, int64_t step) {
  record_ = new at::RecordFunction(at::RecordScope::USER_SCOPE);
  const std::array<const at::IValue, 1> inputs = {step};
  record_->before(name, at::ArrayRef<const at::IValue>(inputs));
}

void Record::end() { delete record_; }

}  // namespace terrace::profile
