// Only the first change to a stack asks the system; a change by swapcontext() asks each time for the signals that are
// let through. Sanitizers follow swapcontext() alone. A longjmp() that is checked takes another stack for an error.
#undef _FORTIFY_SOURCE
#include "tests/gpu_emulation/stack.h"

namespace gpu_emulation {
namespace {

constexpr size_t stack_bytes = size_t{64} << 10;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool asks_each_time = true;
#else
constexpr bool asks_each_time = false;
#endif

}  // namespace

Stack::Stack(void (*begin)()) : memory_(std::make_unique_for_overwrite<char[]>(stack_bytes)), began_(false) {
  getcontext(&context_);
  context_.uc_stack.ss_sp = memory_.get();
  context_.uc_stack.ss_size = stack_bytes;
  makecontext(&context_, begin, 0);
}

void Stack::change_to(Stack& other) {
  if (asks_each_time) {
    swapcontext(&context_, &other.context_);
    return;
  }
  if (_setjmp(place_) != 0) return;
  if (other.began_) _longjmp(other.place_, 1);
  other.began_ = true;
  setcontext(&other.context_);
}

}  // namespace gpu_emulation
