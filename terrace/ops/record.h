// Names what our own code does to whoever records operations: torch tells its recorders (at::addGlobalCallback) of its
// own operations only. Until record_own_operations(true) a record costs one relaxed load.
#pragma once

#include <ATen/core/Tensor.h>

#include <atomic>
#include <cstdint>
#include <initializer_list>

namespace at {
struct RecordFunction;
}

namespace terrace::ops {

// What an operation costs beside time.
struct Work {
  double flops = 0;
  double bytes = 0;  // read and written
};

namespace internal {
inline std::atomic<bool> recording = false;  // torch's list of recorders is one for the process, and so is this
}

inline bool recording() { return internal::recording.load(std::memory_order_relaxed); }
inline void record_own_operations(bool on) { internal::recording.store(on, std::memory_order_relaxed); }

// Bytes that the tensors hold, those of a broadcast one counted once; undefined ones have none.
double bytes_of(std::initializer_list<at::Tensor> tensors);

// A name that torch's recorders are told of.
class Record {
 public:
  Record() = default;
  Record(const Record&) = delete;
  ~Record() {
    if (record_ != nullptr) end();
  }

 protected:
  void begin_operation(const char* name, const Work& work);
  void begin_phase(const char* name, int64_t step);

 private:
  void end();

  at::RecordFunction* record_ = nullptr;  // owned; its type is known in record.cpp only, see CMakeLists.txt
};

// For as long as it lives, the operation `name` runs in this thread. `work` is a function that returns Work and is
// called only where someone records:
//   const OperationRecord record("terrace::norm", [&] { return Work{.bytes = bytes_of({x, weight, y})}; });
class OperationRecord : public Record {
 public:
  template <typename Function>
  OperationRecord(const char* name, const Function& work) {
    if (recording()) begin_operation(name, work());
  }
};

// For as long as it lives, this thread is in a phase of the training: "forward", "save". `step` is the step's number
// where the phase is a whole step.
class PhaseRecord : public Record {
 public:
  explicit PhaseRecord(const char* name, int64_t step = 0) {
    if (recording()) begin_phase(name, step);
  }
};

// How recorders tell ours from torch's: phases have the scope USER_SCOPE and the step as their input, operations the
// scope FUNCTION, names that begin so, and FLOPs and bytes as inputs.
inline constexpr const char* own_operation_prefix = "terrace::";

}  // namespace terrace::ops
