// Reports the operations and phases of our own code to torch's recorders (at::addGlobalCallback), to which torch
// reports only its own operations. Until record_own_operations(true) is called a record costs one relaxed load.
#pragma once

#include <ATen/core/Tensor.h>

#include <atomic>
#include <cstdint>
#include <initializer_list>

namespace at {
struct RecordFunction;
}

namespace terrace::profile {

// The FLOPs of an operation and the bytes that it moves; recorders measure its time.
struct OperationCost {
  double flops = 0;
  double bytes = 0;  // read and written
};

namespace internal {
inline std::atomic<bool> recording = false;  // global, as torch's list of recorders is
}

inline bool recording() { return internal::recording.load(std::memory_order_relaxed); }
inline void record_own_operations(bool on) { internal::recording.store(on, std::memory_order_relaxed); }

// Bytes of memory that the tensors occupy: an expanded tensor counts its storage once, an undefined tensor counts 0.
double bytes_of(std::initializer_list<at::Tensor> tensors);

// Reports a name to torch's recorders from its construction to its destruction.
class Record {
 public:
  Record() = default;
  Record(const Record&) = delete;
  ~Record() {
    if (record_ != nullptr) end();
  }

 protected:
  void begin_operation(const char* name, const OperationCost& cost);
  void begin_phase(const char* name, int64_t step);

 private:
  void end();

  at::RecordFunction* record_ = nullptr;  // owned; its type is known in record.cpp only, see CMakeLists.txt
};

// The operation `name` runs in this thread during the lifetime of the object. The function `cost` returns an
// OperationCost and is called only while a recorder is active:
//   const OperationRecord record("terrace::norm", [&] { return OperationCost{.bytes = bytes_of({x, weight, y})}; });
class OperationRecord : public Record {
 public:
  template <typename Function>
  OperationRecord(const char* name, const Function& cost) {
    if (recording()) begin_operation(name, cost());
  }
};

// This thread is in a phase of the training, such as "forward" or "save", during the lifetime of the object. `step` is
// the number of the step where the phase is a whole step, 0 otherwise.
class PhaseRecord : public Record {
 public:
  explicit PhaseRecord(const char* name, int64_t step = 0) {
    if (recording()) begin_phase(name, step);
  }
};

// The prefix by which recorders distinguish our records from torch's: our operations have the scope FUNCTION, this
// prefix in their names and FLOPs and bytes as inputs; our phases have the scope USER_SCOPE and the step as their
// input.
inline constexpr const char* own_operation_prefix = "terrace::";

}  // namespace terrace::profile
