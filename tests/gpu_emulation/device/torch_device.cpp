// Gives a torch without its CUDA library emulated GPUs: memory, the current device, streams and events, and the
// functions that torch asks of CUDA. Everything on a device is done at once, in the thread that asks for it.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

#include "tests/gpu_emulation/device/device_memory.h"
#include "tests/gpu_emulation/gpu_emulation.h"

namespace gpu_emulation {
namespace {

// The devices of the machine, which all of its processes see. There are more than one, so that work on a device that
// was not chosen shows.
constexpr c10::DeviceIndex num_devices = 4;

thread_local c10::DeviceIndex current_device = 0;

c10::Device current() { return {c10::DeviceType::CUDA, current_device}; }

// The devices of a process share one block of memory.
class DeviceAllocator final : public c10::DeviceAllocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    if (bytes == 0) return {nullptr, current()};
    void* const memory = allocate_on_device(bytes);
    report(memory, static_cast<int64_t>(bytes));
    const std::lock_guard lock(mutex_);
    bytes_of_[memory] = static_cast<int64_t>(bytes);
    return {memory, memory, &release, current()};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    std::memcpy(reachable(to), reachable(from), bytes);
  }
  bool initialized() override { return true; }
  void emptyCache(c10::MempoolId_t) override {}
  void recordStream(const c10::DataPtr&, c10::Stream) override {}
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex) override {
    constexpr auto all = static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE);
    const DeviceMemoryUse use = device_memory_use();
    c10::CachingDeviceAllocator::DeviceStats stats;
    for (auto* const bytes : {&stats.allocated_bytes, &stats.reserved_bytes, &stats.active_bytes}) {
      (*bytes)[all].current = static_cast<int64_t>(use.bytes);
      (*bytes)[all].peak = static_cast<int64_t>(use.peak_bytes);
    }
    return stats;
  }
  void resetAccumulatedStats(c10::DeviceIndex) override {}
  void resetPeakStats(c10::DeviceIndex) override {}
  std::pair<size_t, size_t> getMemoryInfo(c10::DeviceIndex) override {
    return {device_bytes - device_memory_use().bytes, device_bytes};
  }

  static DeviceAllocator& instance() {
    static auto* const one = new DeviceAllocator;
    return *one;
  }

 private:
  static void release(void* memory) {
    if (memory == nullptr) return;
    DeviceAllocator& own = instance();
    std::unique_lock lock(own.mutex_);
    const auto found = own.bytes_of_.find(memory);
    const int64_t bytes = found->second;
    own.bytes_of_.erase(found);
    lock.unlock();
    report(memory, -bytes);
    release_on_device(memory);
  }

  // Reports to a meter of the thread, if there is one.
  static void report(void* memory, int64_t bytes) {
    if (!c10::memoryProfilingEnabled()) return;
    const size_t all = device_memory_use().bytes;
    c10::reportMemoryUsageToProfiler(memory, bytes, all, all, current());
  }

  std::mutex mutex_;
  std::map<void*, int64_t> bytes_of_;
};

// Ordinary memory, which torch can tell from what is not pinned.
class PinnedAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    if (bytes == 0) return {nullptr, c10::DeviceType::CPU};
    auto* const memory = new char[bytes];
    const std::lock_guard lock(mutex_);
    bytes_of_[memory] = bytes;
    return {memory, memory, &release, c10::DeviceType::CPU};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* to, const void* from, size_t bytes) const override { std::memcpy(to, from, bytes); }

  bool is_pinned(const void* data) {
    const auto* const address = static_cast<const char*>(data);
    const std::lock_guard lock(mutex_);
    const auto after = bytes_of_.upper_bound(address);
    if (after == bytes_of_.begin()) return false;
    const auto& [begin, bytes] = *std::prev(after);
    return address < begin + bytes;
  }

  static PinnedAllocator& instance() {
    static auto* const one = new PinnedAllocator;
    return *one;
  }

 private:
  static void release(void* memory) {
    if (memory == nullptr) return;
    PinnedAllocator& own = instance();
    const std::lock_guard lock(own.mutex_);
    own.bytes_of_.erase(static_cast<const char*>(memory));
    delete[] static_cast<char*>(memory);
  }

  std::mutex mutex_;
  std::map<const char*, size_t> bytes_of_;
};

struct Event {
  std::chrono::steady_clock::time_point reached;
};

struct Guard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return c10::DeviceType::CUDA; }
  c10::Device exchangeDevice(c10::Device device) const override {
    const c10::Device former = current();
    setDevice(device);
    return former;
  }
  c10::Device getDevice() const override { return current(); }
  void setDevice(c10::Device device) const override {
    TORCH_CHECK(device.is_cuda() && device.index() < num_devices, "there is no device ", device);
    uncheckedSetDevice(device);
  }
  void uncheckedSetDevice(c10::Device device) const noexcept override {
    if (device.index() >= 0) current_device = device.index();
  }
  c10::Stream getStream(c10::Device device) const override {
    return c10::Stream(c10::Stream::DEFAULT, device.has_index() ? device : current());
  }
  c10::Stream getDefaultStream(c10::Device device) const override { return getStream(device); }
  c10::Stream exchangeStream(c10::Stream stream) const override { return getStream(stream.device()); }
  void* getStreamNativeHandle(const c10::Stream) const override { return nullptr; }
  c10::DeviceIndex deviceCount() const noexcept override { return num_devices; }
  bool queryStream(const c10::Stream&) const override { return true; }
  void synchronizeStream(const c10::Stream&) const override {}
  void synchronizeDevice(const c10::DeviceIndex) const override {}

  void record(void** event, const c10::Stream&, const c10::DeviceIndex, const c10::EventFlag) const override {
    if (*event == nullptr) *event = new Event;
    static_cast<Event*>(*event)->reached = std::chrono::steady_clock::now();
  }
  void destroyEvent(void* event, const c10::DeviceIndex) const noexcept override { delete static_cast<Event*>(event); }
  void block(void*, const c10::Stream&) const override {}
  bool queryEvent(void*) const override { return true; }
  void synchronizeEvent(void*) const override {}
  double elapsedTime(void* from, void* to, const c10::DeviceIndex) const override {
    const auto time = static_cast<Event*>(to)->reached - static_cast<Event*>(from)->reached;
    return std::chrono::duration<double, std::milli>(time).count();
  }
};

// Another order of warps with each number.
[[maybe_unused]] const bool has_order = [] {
  const char* const seed = std::getenv("EMULATED_GPU_SEED");
  if (seed != nullptr) options().seed = std::strtoull(seed, nullptr, 10);
  return seed != nullptr;
}();

const c10::impl::DeviceGuardImplRegistrar registered_guard(c10::DeviceType::CUDA, new Guard);
const c10::AllocatorRegisterer<c10::DeviceType::CUDA> registered_allocator(&DeviceAllocator::instance());

}  // namespace
}  // namespace gpu_emulation

namespace at {

// Torch looks for a class of this name.
struct CUDAHooks final : CUDAHooksInterface {
  explicit CUDAHooks(CUDAHooksArgs) {}
  void init() const override {}
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasCUDA() const override { return true; }
  bool hasPrimaryContext(DeviceIndex device) const override { return device < gpu_emulation::num_devices; }
  DeviceIndex deviceCount() const override { return gpu_emulation::num_devices; }
  int getNumGPUs() const override { return gpu_emulation::num_devices; }
  DeviceIndex current_device() const override { return gpu_emulation::current_device; }
  DeviceIndex getCurrentDevice() const override { return gpu_emulation::current_device; }
  void setCurrentDevice(DeviceIndex device) const override { gpu_emulation::current_device = device; }
  DeviceIndex exchangeDevice(DeviceIndex device) const override {
    return std::exchange(gpu_emulation::current_device, device);
  }
  DeviceIndex maybeExchangeDevice(DeviceIndex device) const override { return exchangeDevice(device); }
  bool isPinnedPtr(const void* data) const override {
    return gpu_emulation::PinnedAllocator::instance().is_pinned(data);
  }
  Allocator* getPinnedMemoryAllocator() const override { return &gpu_emulation::PinnedAllocator::instance(); }
  Allocator* getCUDADeviceAllocator() const override { return &gpu_emulation::DeviceAllocator::instance(); }
  Device getDeviceFromPtr(void*) const override { return gpu_emulation::current(); }
  // Random numbers of torch's own come from the CPU.
  const Generator& getDefaultGenerator(DeviceIndex) const override { return at::detail::getDefaultCPUGenerator(); }
  Generator getNewGenerator(DeviceIndex) const override { return at::detail::createCPUGenerator(); }
  void deviceSynchronize(DeviceIndex) const override {}
};

REGISTER_CUDA_HOOKS(CUDAHooks)

}  // namespace at
