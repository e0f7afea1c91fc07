// Chooses by what this process sees, since launchers may show each rank one GPU under number 0.
#include "terrace/train/device.h"

#include <ATen/Context.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/AutogradState.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include "terrace/base/error.h"
#include "terrace/base/system/cores.h"
#include "terrace/base/terminal/log.h"
#include "terrace/comm/nccl/nccl.h"
#include "terrace/observe/memory.h"

namespace terrace::train {

at::Device choose_device(const std::string& name, int64_t local_rank) {
  if (name == "cpu") return at::kCPU;
  const bool available = at::globalContext().hasCUDA() && at::detail::getCUDAHooks().deviceCount() > 0;
  if (name == "cuda" && !available) {
    throw UserError(
        "train.device = \"cuda\": no GPU is visible, or torch is not built for it; use \"cpu\" or \"auto\"");
  }
  if (!available) return at::kCPU;
  const int64_t gpus = at::detail::getCUDAHooks().deviceCount();
  return {at::kCUDA, static_cast<at::DeviceIndex>(local_rank % gpus)};
}

at::Device choose_device(const std::string& name, const comm::World& world) {
  return choose_device(name, world.rank() % world.ranks_per_node());
}

at::Device choose_device_of_threads(const std::string& name, int64_t ranks, const std::string& on_cpu) {
  const at::Device device = choose_device(name);
  if (ranks == 1 || device.is_cpu()) return device;
  throw UserError::of(
      "{} ranks that are threads of one process cannot use its GPU: start them as processes, with mpirun -n {} or srun "
      "-n {} and without --ranks, or use {}",
      ranks, ranks, ranks, on_cpu);
}

config::Config on_device(config::Config config, const at::Device& device) {
  config.train.device = device.is_cuda() ? "cuda" : "cpu";
  return config;
}

void bind_near(const at::Device& device) {
  if (!device.is_cuda() || !comm::made_with_nccl()) return;
  const std::string address = comm::gpu_bus_address(device.index());
  const CoreMask own = core_mask(), near = own & cores_near(address);
  if (near.none() || near == own) return;
  if (bind_to(near)) log_info("runs on the {} of {} cores that are near GPU {}", near.count(), own.count(), address);
}

at::Device take_device(const std::string& name, comm::World& world) {
  const at::Device device = choose_device(name, world);
  if (device.is_cuda()) {
    c10::impl::VirtualGuardImpl(at::kCUDA).setDevice(device);
    // Backward runs in this thread too. In a thread of autograd's own the operations of a first derivative would be
    // numbered apart from those of forward, and gradients of second derivatives summed in an order that changes.
    c10::AutogradState::get_tls_state().set_multithreading_enabled(false);
    world.use_gpu(device.index());
  }
  return device;
}

int64_t available_bytes(const at::Device& gpu) {
  at::globalContext().lazyInitDevice(gpu.type());
  return static_cast<int64_t>(c10::getDeviceAllocator(gpu.type())->getMemoryInfo(gpu.index()).first);
}

int64_t memory_calls(const at::Device& device) {
  if (!device.is_cuda()) return 0;
  const c10::CachingDeviceAllocator::DeviceStats stats =
      c10::getDeviceAllocator(device.type())->getDeviceStats(device.index());
  return stats.num_device_alloc + stats.num_device_free;
}

int64_t peak_bytes(const at::Device& device) {
  if (!device.is_cuda()) return observe::peak_resident_bytes();
  constexpr auto all = static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE);
  return c10::getDeviceAllocator(device.type())->getDeviceStats(device.index()).reserved_bytes[all].peak;
}

}  // namespace terrace::train
