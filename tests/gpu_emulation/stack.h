// Stacks of one system thread, which goes from one to another.
#pragma once

#include <setjmp.h>
#include <ucontext.h>

#include <cstddef>
#include <memory>

namespace gpu_emulation {

class Stack {
 public:
  Stack() = default;  // the stack of the caller
  // A stack of its own, on which the function begins at the first change to it. The function must not return.
  explicit Stack(void (*begin)());
  // Contexts point into themselves.
  Stack(const Stack&) = delete;
  Stack& operator=(const Stack&) = delete;

  // Goes on there, where it was left; returns when another change leads back here. This is the running stack.
  void change_to(Stack& other);

 private:
  std::unique_ptr<char[]> memory_;
  ucontext_t context_ = {};
  jmp_buf place_ = {};
  bool began_ = true;
};

}  // namespace gpu_emulation
