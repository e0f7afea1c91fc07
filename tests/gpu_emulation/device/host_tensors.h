// Tensors of the CPU that share the memory of tensors of the emulated device.
#pragma once

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/Tensor.h>
#include <ATen/record_function.h>

#include <utility>
#include <vector>

namespace gpu_emulation {

// While one lives, the CPU's operations are neither recorded nor differentiated: they are parts of the device's.
struct OnHost {
  at::DisableRecordFunctionGuard not_recorded;
  at::AutoDispatchBelowADInplaceOrView not_differentiated;
};

// Lends the tensors of one operation to the CPU, which computes in their memory, and takes back what it made of them.
class HostTensors {
 public:
  // The tensor itself if it is undefined or of the CPU. Throws where it lies on another device than an earlier one.
  at::Tensor lend(const at::Tensor& tensor);

  // The tensor of the device for what an operation on lent tensors returned: one that was lent, a view of it, or a new
  // one on the same device.
  at::Tensor take_back(const at::Tensor& result) const;

  // Gives tensors that were lent the shape, and where it was replaced the memory, that the operation gave their twins.
  void take_back_shapes() const;

  // The device of the tensors; if there were none, the current one.
  at::Device device() const;
  bool lent_any() const { return !lent_.empty(); }

 private:
  c10::Storage storage_on_host(const c10::Storage& storage);

  std::vector<std::pair<at::Tensor, at::Tensor>> lent_;          // of the device, of the host
  std::vector<std::pair<c10::Storage, c10::Storage>> storages_;  // likewise
};

}  // namespace gpu_emulation
