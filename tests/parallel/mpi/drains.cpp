// Waits for the streams of the stand-in for GPUs from a callback that torch calls before each operation.
#include "tests/parallel/mpi/drains.h"

#include <ATen/record_function.h>

#include <memory>
#include <optional>
#include <set>
#include <string>

#include "tests/comm/mpi/gpu_stand_in.h"

namespace terrace::parallel {
namespace {

thread_local std::optional<Drains> drains;
thread_local std::set<std::string> used;

std::unique_ptr<at::ObserverContext> before_operation(const at::RecordFunction& operation) {
  if (!drains) return nullptr;
  const bool is_first = used.insert(operation.name()).second;
  if (is_first || drains == Drains::at_every_operation) wait_for_all_streams();
  return nullptr;
}

}  // namespace

void drain(Drains when) {
  static const at::CallbackHandle callback =
      at::addGlobalCallback(at::RecordFunctionCallback(before_operation).scopes({at::RecordScope::FUNCTION}));
  static_cast<void>(callback);
  if (when == Drains::at_every_operation) used.clear();
  drains = when;
}

void stop_drains() { drains.reset(); }

}  // namespace terrace::parallel
