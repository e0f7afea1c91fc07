// Makes tensors over the addresses where the host reaches the device's memory.
#include "tests/gpu_emulation/device/host_tensors.h"

#include <ATen/EmptyTensor.h>
#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <cstring>

#include "tests/gpu_emulation/device/device_memory.h"

namespace gpu_emulation {
namespace {

constexpr c10::DispatchKeySet of_device(c10::DispatchKey::CUDA), of_host(c10::DispatchKey::CPU);

// A tensor over the storage with the other one's type, shape and place in it.
at::Tensor same_shape(const at::Tensor& other, c10::Storage storage, c10::DispatchKeySet keys) {
  at::Tensor made = at::detail::make_tensor<c10::TensorImpl>(std::move(storage), keys, other.dtype());
  made.unsafeGetTensorImpl()->set_sizes_and_strides(other.sizes(), other.strides(), other.storage_offset());
  return made;
}

bool same(const c10::Storage& a, const c10::Storage& b) { return a.unsafeGetStorageImpl() == b.unsafeGetStorageImpl(); }

}  // namespace

// Returns the storage's twin on the host. Its memory may be replaced by the CPU's where an operation needs more.
c10::Storage HostTensors::storage_on_host(const c10::Storage& storage) {
  for (const auto& [of_device, of_host] : storages_) {
    if (same(of_device, storage)) return of_host;
  }
  c10::DataPtr memory(reachable(storage.mutable_data()), c10::DeviceType::CPU);
  const c10::Storage made(c10::Storage::use_byte_size_t(), storage.nbytes(), std::move(memory), c10::GetCPUAllocator(),
                          /*resizable=*/true);
  storages_.emplace_back(storage, made);
  return made;
}

at::Tensor HostTensors::lend(const at::Tensor& tensor) {
  if (!tensor.defined() || tensor.is_cpu()) return tensor;
  TORCH_CHECK(tensor.is_cuda(), "an emulated operation on ", tensor.device());
  TORCH_CHECK(!lent_any() || tensor.device() == device(), "an operation on tensors of ", device(), " and ",
              tensor.device());
  for (const auto& [of_device, of_host] : lent_) {
    if (of_device.is_same(tensor)) return of_host;
  }
  at::Tensor made = same_shape(tensor, storage_on_host(tensor.storage()), of_host);
  if (tensor.unsafeGetTensorImpl()->is_wrapped_number()) made.unsafeGetTensorImpl()->set_wrapped_number(true);
  lent_.emplace_back(tensor, made);
  return made;
}

at::Device HostTensors::device() const {
  return lent_any() ? lent_.front().first.device() : c10::impl::VirtualGuardImpl(c10::DeviceType::CUDA).getDevice();
}

at::Tensor HostTensors::take_back(const at::Tensor& result) const {
  if (!result.defined()) return result;
  for (const auto& [of_device, of_host] : lent_) {
    if (of_host.is_same(result)) return of_device;
  }
  for (const auto& [storage, storage_on_host] : storages_) {
    if (same(storage_on_host, result.storage())) return same_shape(result, storage, of_device);
  }
  const c10::DeviceGuard guard(device());
  const at::Tensor dense = result.is_non_overlapping_and_dense() ? result : result.contiguous();
  const at::Tensor made = at::detail::empty_strided_generic(
      dense.sizes(), dense.strides(), c10::GetAllocator(c10::DeviceType::CUDA), of_device, dense.scalar_type());
  if (dense.nbytes() > 0) std::memcpy(reachable(made.mutable_data_ptr()), dense.const_data_ptr(), dense.nbytes());
  return made;
}

void HostTensors::take_back_shapes() const {
  for (const auto& [storage, on_host] : storages_) {
    if (on_host.data() == reachable(storage.data()) && on_host.nbytes() == storage.nbytes()) continue;
    const c10::DeviceGuard guard(device());
    c10::DataPtr memory = c10::GetAllocator(c10::DeviceType::CUDA)->allocate(on_host.nbytes());
    if (on_host.nbytes() > 0) std::memcpy(reachable(memory.get()), on_host.data(), on_host.nbytes());
    storage.unsafeGetStorageImpl()->set_data_ptr_noswap(std::move(memory));
    storage.unsafeGetStorageImpl()->set_nbytes(on_host.nbytes());
  }
  for (const auto& [tensor, on_host] : lent_) {
    const auto storage =
        std::ranges::find_if(storages_, [&](const auto& pair) { return same(pair.second, on_host.storage()); });
    TORCH_CHECK(storage != storages_.end(), "an emulated operation gave a tensor memory of the host");
    if (!same(storage->first, tensor.storage())) {
      tensor.unsafeGetTensorImpl()->set_storage_keep_dtype(storage->first);
    }
    if (tensor.sizes() == on_host.sizes() && tensor.strides() == on_host.strides() &&
        tensor.storage_offset() == on_host.storage_offset()) {
      continue;
    }
    tensor.unsafeGetTensorImpl()->set_sizes_and_strides(on_host.sizes(), on_host.strides(), on_host.storage_offset());
  }
}

}  // namespace gpu_emulation
