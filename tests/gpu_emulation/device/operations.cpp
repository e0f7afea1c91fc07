// Torch's operations on the emulated device: the CPU's, on the device's memory. Operations that the CPU lacks are
// composed of others.
#include <ATen/EmptyTensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <ATen/native/transformers/attention.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/mm.h>
#include <c10/core/DeviceGuard.h>
#include <torch/library.h>

#include <algorithm>
#include <set>
#include <string>

#include "tests/gpu_emulation/device/activity.h"
#include "tests/gpu_emulation/device/host_tensors.h"

namespace gpu_emulation {
namespace {

constexpr c10::DispatchKeySet of_device(c10::DispatchKey::CUDA), of_host(c10::DispatchKey::CPU);

// Whether the operation takes indices and values that lie on the host, as it does on a GPU.
bool takes_host_tensors(const c10::OperatorHandle& operation) {
  static const std::set<std::string> names = {"aten::index", "aten::index_put_", "aten::_index_put_impl_",
                                              "aten::copy_"};
  return names.contains(operation.schema().name());
}

c10::IValue lent(const c10::IValue& value, HostTensors& tensors) {
  if (value.isTensor()) return tensors.lend(value.toTensor());
  if (value.isTensorList()) {
    c10::List<at::Tensor> list;
    for (const at::Tensor& tensor : value.toTensorVector()) list.push_back(tensors.lend(tensor));
    return list;
  }
  if (value.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> list;
    for (const std::optional<at::Tensor>& tensor : value.toOptionalTensorVector()) {
      list.push_back(tensor ? std::optional(tensors.lend(*tensor)) : std::nullopt);
    }
    return list;
  }
  if (value.isDevice()) return c10::Device(c10::DeviceType::CPU);
  return value;
}

void check_for_host_tensors(const c10::OperatorHandle& operation, const c10::IValue& value) {
  if (takes_host_tensors(operation)) return;
  const auto check = [&](const at::Tensor& tensor) {
    TORCH_CHECK(!tensor.defined() || tensor.is_cuda() || tensor.dim() == 0, operation.schema().name(),
                " on a tensor of the GPU and one of the host");
  };
  if (value.isTensor()) check(value.toTensor());
  if (value.isTensorList()) std::ranges::for_each(value.toTensorVector(), check);
}

c10::IValue taken_back(const c10::IValue& value, const HostTensors& tensors) {
  if (value.isTensor()) return tensors.take_back(value.toTensor());
  if (!value.isTensorList()) return value;
  c10::List<at::Tensor> list;
  for (const at::Tensor& tensor : value.toTensorVector()) list.push_back(tensors.take_back(tensor));
  return list;
}

// Whether a product takes a CPU seconds and is left out, such as the one by which `terrace train` measures a device's
// peak.
bool is_too_large(const c10::OperatorHandle& operation, const torch::jit::Stack& stack) {
  constexpr double most_flops = 1e11;
  if (operation.schema().name() != "aten::mm") return false;
  const at::Tensor& a = stack[stack.size() - 3].toTensor();
  const at::Tensor& b = stack[stack.size() - 2].toTensor();
  return 2.0 * static_cast<double>(a.numel()) * static_cast<double>(b.size(1)) > most_flops;
}

void run_on_host(const c10::OperatorHandle& operation, torch::jit::Stack* stack) {
  const OnHost on_host;
  HostTensors tensors;
  ++activity().operations;
  const size_t arguments = operation.schema().arguments().size(), before = stack->size() - arguments;
  for (size_t i = before; i < stack->size(); ++i) {
    check_for_host_tensors(operation, (*stack)[i]);
    (*stack)[i] = lent((*stack)[i], tensors);
  }
  if (is_too_large(operation, *stack)) {
    stack->erase(stack->end() - 3, stack->end() - 1);  // what is left is the tensor of the result
  } else {
    operation.redispatchBoxed(of_host, stack);
  }
  tensors.take_back_shapes();
  for (size_t i = before; i < stack->size(); ++i) (*stack)[i] = taken_back((*stack)[i], tensors);
}

at::Tensor empty(at::IntArrayRef sizes, std::optional<at::ScalarType> type, std::optional<at::Layout>,
                 std::optional<at::Device> device, std::optional<bool>, std::optional<at::MemoryFormat> format) {
  const c10::OptionalDeviceGuard guard(device);
  return at::detail::empty_generic(sizes, c10::GetAllocator(c10::DeviceType::CUDA), of_device,
                                   c10::dtype_or_default(type), format);
}

at::Tensor empty_strided(at::IntArrayRef sizes, at::IntArrayRef strides, std::optional<at::ScalarType> type,
                         std::optional<at::Layout>, std::optional<at::Device> device, std::optional<bool>) {
  const c10::OptionalDeviceGuard guard(device);
  return at::detail::empty_strided_generic(sizes, strides, c10::GetAllocator(c10::DeviceType::CUDA), of_device,
                                           c10::dtype_or_default(type));
}

// Copies between the host and devices, and between two devices.
at::Tensor& copy(at::Tensor& to, const at::Tensor& from, bool /*without_waiting*/) {
  const OnHost on_host;
  HostTensors of_to, of_from;
  of_to.lend(to).copy_(of_from.lend(from));
  return to;
}

// The products of 16-bit factors that stay in fp32.
at::Tensor& mm_out(const at::Tensor& a, const at::Tensor& b, at::ScalarType type, at::Tensor& out) {
  const OnHost on_host;
  HostTensors tensors;
  TORCH_CHECK(type == at::kFloat && out.scalar_type() == type && a.element_size() == 2 && b.dtype() == a.dtype());
  tensors.lend(out).copy_(at::mm(tensors.lend(a).to(type), tensors.lend(b).to(type)));
  return out;
}

at::Tensor& addmm_out(const at::Tensor& added, const at::Tensor& a, const at::Tensor& b, at::ScalarType type,
                      const at::Scalar& beta, const at::Scalar& alpha, at::Tensor& out) {
  const OnHost on_host;
  HostTensors tensors;
  TORCH_CHECK(type == at::kFloat && out.scalar_type() == type && a.element_size() == 2 && b.dtype() == a.dtype());
  tensors.lend(out).copy_(
      at::addmm(tensors.lend(added), tensors.lend(a).to(type), tensors.lend(b).to(type), beta, alpha));
  return out;
}

// Attention is composed of products and a softmax.
int64_t unfused_attention(const at::Tensor&, const at::Tensor&, const at::Tensor&, const std::optional<at::Tensor>&,
                          double, bool, std::optional<double>, bool) {
  return 0;
}

TORCH_LIBRARY_IMPL(_, CUDA, library) { library.fallback(torch::CppFunction::makeFromBoxedFunction<&run_on_host>()); }

TORCH_LIBRARY_IMPL(aten, CUDA, library) {
  library.impl("empty.memory_format", empty);
  library.impl("empty_strided", empty_strided);
  library.impl("copy_", copy);
  library.impl("mm.dtype_out", mm_out);
  library.impl("addmm.dtype_out", addmm_out);
  at::native::_fused_sdp_choice_stub.set_cuda_dispatch_ptr(unfused_attention);
}

}  // namespace
}  // namespace gpu_emulation
