// A scheduler of fibres: it lets a random warp of the block go on, all its threads in turn, until these wait or return.
#include "tests/gpu_emulation/gpu_emulation.h"

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/gpu_emulation/memory_access.h"
#include "tests/gpu_emulation/stack.h"

namespace gpu_emulation {
namespace {

constexpr unsigned most_threads = 1024, warp_threads = 32;

enum class State { fresh, ready, in_shuffle, at_barrier, returned };

struct Thread {
  Stack* stack = nullptr;  // on which it waits
  State state = State::returned;
  Position position;
  // Values that this thread gave to its shuffles, in turn: a thread can be one shuffle ahead of another one of its
  // warp.
  ShuffledBytes given[2] = {};
  unsigned shuffles = 0;
};

class Multiprocessor {
 public:
  void run(dim3 blocks, unsigned threads, const std::function<void()>& kernel) {
    if (threads == 0 || threads > most_threads || blocks.x == 0 || blocks.x > 0x7FFFFFFFU || blocks.y == 0 ||
        blocks.y > 65535 || blocks.z != 1) {
      throw std::logic_error("a GPU refuses a launch of " + std::to_string(blocks.x) + " x " +
                             std::to_string(blocks.y) + " blocks of " + std::to_string(threads) + " threads");
    }
    kernel_ = &kernel;
    random_.seed(options().seed);
    const int64_t last = options().last_blocks;
    const unsigned first = last < 0 || last >= blocks.x ? 0 : blocks.x - static_cast<unsigned>(last);
    try {
      for (unsigned y = 0; y < blocks.y; ++y) {
        for (unsigned x = first; x < blocks.x; ++x) {
          run_block({.thread = {}, .block = {x, y}, .threads = {threads}, .blocks = blocks});
        }
      }
    } catch (...) {
      stacks_.clear();  // threads are in the middle of the kernel
      idle_stacks_.clear();
      throw;
    }
  }

  const Position& position() const { return running_->position; }

  void wait_for_block() { leave(State::at_barrier); }

  ShuffledBytes exchange_in_warp(const ShuffledBytes& own, unsigned distance) {
    const unsigned turn = running_->shuffles++ % 2;
    running_->given[turn] = own;
    const unsigned other = running_->position.thread.x ^ distance;
    leave(State::in_shuffle);
    return threads_[other].given[turn];
  }

 private:
  static void enter() { instance().body(); }

  // A thread that returns without having waited leaves its stack to the next one of its warp, so that most kernels
  // change stacks once for each warp.
  [[noreturn]] void body() {
    while (true) {
      (*kernel_)();
      running_->state = State::returned;
      Thread* const next = running_ + 1;
      if (next < threads_.data() + warp_end(running_->position.thread.x / warp_threads) &&
          next->state == State::fresh) {
        next->stack = running_->stack;
        running_ = next;
        continue;
      }
      idle_stacks_.push_back(running_->stack);
      running_->stack->change_to(scheduler_);
    }
  }

  void leave(State state) {
    Thread& own = *running_;
    own.state = state;
    own.stack->change_to(scheduler_);
    running_ = &own;
  }

  void run_block(const Position& position) {
    num_threads_ = position.threads.x;
    for (unsigned i = 0; i < num_threads_; ++i) {
      Thread& thread = threads_[i];
      thread.position = position;
      thread.position.thread = {i};
      thread.shuffles = 0;
      thread.state = State::fresh;
    }
    std::vector<unsigned> warps((num_threads_ + warp_threads - 1) / warp_threads);
    for (unsigned i = 0; i < warps.size(); ++i) warps[i] = i;
    while (!warps.empty()) {
      const size_t chosen = random_() % warps.size();
      const unsigned warp = warps[chosen];
      run_warp(warp);
      if (!any(warp, State::ready)) {
        warps[chosen] = warps.back();
        warps.pop_back();
      }
      if (warps.empty()) warps = past_barrier();
    }
  }

  // A stack is made once; after a kernel it waits for the next one.
  Stack* idle_stack() {
    if (idle_stacks_.empty()) return stacks_.emplace_back(std::make_unique<Stack>(enter)).get();
    Stack* const stack = idle_stacks_.back();
    idle_stacks_.pop_back();
    return stack;
  }

  unsigned warp_end(unsigned warp) const { return std::min(num_threads_, (warp + 1) * warp_threads); }

  bool any(unsigned warp, State state) const {
    for (unsigned i = warp * warp_threads; i < warp_end(warp); ++i) {
      if (threads_[i].state == state) return true;
    }
    return false;
  }

  // Runs a warp until its threads are in a shuffle, at a barrier, or have returned.
  void run_warp(unsigned warp) {
    for (unsigned i = warp * warp_threads; i < warp_end(warp); ++i) {
      Thread& thread = threads_[i];
      if (thread.state != State::ready && thread.state != State::fresh) continue;
      if (thread.state == State::fresh) thread.stack = idle_stack();
      running_ = &thread;
      scheduler_.change_to(*thread.stack);
    }
    if (!any(warp, State::in_shuffle)) return;
    for (unsigned i = warp * warp_threads; i < warp_end(warp); ++i) {
      if (threads_[i].state != State::in_shuffle || warp_end(warp) % warp_threads != 0) {
        throw std::logic_error("not all 32 threads of a warp came to a shuffle");
      }
      threads_[i].state = State::ready;
    }
  }

  // No warp is ready: lets those at the barrier go on, and returns them.
  std::vector<unsigned> past_barrier() {
    std::vector<unsigned> warps;
    for (unsigned i = 0; i < num_threads_; ++i) {
      if (threads_[i].state != State::at_barrier) continue;
      threads_[i].state = State::ready;
      if (warps.empty() || warps.back() != i / warp_threads) warps.push_back(i / warp_threads);
    }
    return warps;
  }

 public:
  static Multiprocessor& instance() {
    static thread_local Multiprocessor one;
    return one;
  }

 private:
  const std::function<void()>* kernel_ = nullptr;
  std::mt19937_64 random_;
  std::vector<Thread> threads_ = std::vector<Thread>(most_threads);
  std::vector<std::unique_ptr<Stack>> stacks_;
  std::vector<Stack*> idle_stacks_;
  Thread* running_ = nullptr;
  Stack scheduler_;
  unsigned num_threads_ = 0;
};

}  // namespace

Options& options() {
  static Options one;
  return one;
}

void run(dim3 blocks, unsigned threads, const std::function<void()>& kernel) {
  const MemoryAccess access;
  Multiprocessor::instance().run(blocks, threads, kernel);
}

const Position& position() { return Multiprocessor::instance().position(); }
void wait_for_block() { Multiprocessor::instance().wait_for_block(); }
ShuffledBytes exchange_in_warp(const ShuffledBytes& own, unsigned distance) {
  return Multiprocessor::instance().exchange_in_warp(own, distance);
}

void fail(const char* condition) {
  std::fprintf(stderr, "an emulated kernel stopped: not %s\n", condition);
  std::abort();
}

}  // namespace gpu_emulation
