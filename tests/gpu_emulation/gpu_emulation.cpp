// A scheduler of fibres: at each change it lets a random warp of the block go on, all its threads in turn.
#include "tests/gpu_emulation/gpu_emulation.h"

#include <ucontext.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

namespace gpu_emulation {
namespace {

constexpr unsigned most_threads = 1024, warp_threads = 32;
constexpr size_t stack_bytes = size_t{64} << 10;

enum class State { ready, in_shuffle, at_barrier, returned };

struct Fibre {
  ucontext_t context = {};
  std::unique_ptr<char[]> stack = std::make_unique_for_overwrite<char[]>(stack_bytes);
  State state = State::returned;
  Position position;
  // Of this thread's shuffles, in turn: a thread can be one shuffle ahead of another one of its warp.
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
      fibres_.clear();  // they are in the middle of the kernel
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
    return fibres_[other].given[turn];
  }

 private:
  static void enter() { instance().body(); }

  [[noreturn]] void body() {
    while (true) {
      (*kernel_)();
      leave(State::returned);
    }
  }

  void leave(State state) {
    Fibre& own = *running_;
    own.state = state;
    swapcontext(&own.context, &scheduler_);
    running_ = &own;
  }

  void run_block(const Position& position) {
    threads_ = position.threads.x;
    for (unsigned i = 0; i < threads_; ++i) {
      Fibre& fibre = fibre_of(i);
      fibre.position = position;
      fibre.position.thread = {i};
      fibre.shuffles = 0;
      fibre.state = State::ready;
    }
    std::vector<unsigned> warps((threads_ + warp_threads - 1) / warp_threads);
    for (unsigned i = 0; i < warps.size(); ++i) warps[i] = i;
    while (!warps.empty()) {
      const size_t chosen = random_() % warps.size();
      const unsigned warp = warps[chosen];
      run_warp(warp);
      if (!ready(warp)) {
        warps[chosen] = warps.back();
        warps.pop_back();
      }
      if (warps.empty()) warps = past_barrier();
    }
  }

  // A fibre is made once; after a kernel it waits for the next one.
  Fibre& fibre_of(unsigned i) {
    if (i < fibres_.size()) return fibres_[i];
    Fibre& fibre = fibres_.emplace_back();
    getcontext(&fibre.context);
    fibre.context.uc_stack.ss_sp = fibre.stack.get();
    fibre.context.uc_stack.ss_size = stack_bytes;
    makecontext(&fibre.context, enter, 0);
    return fibre;
  }

  unsigned warp_end(unsigned warp) const { return std::min(threads_, (warp + 1) * warp_threads); }

  bool ready(unsigned warp) const {
    return fibres_[warp * warp_threads].state == State::ready || any(warp, State::ready);
  }

  bool any(unsigned warp, State state) const {
    for (unsigned i = warp * warp_threads; i < warp_end(warp); ++i) {
      if (fibres_[i].state == state) return true;
    }
    return false;
  }

  // Until its threads are in a shuffle, at a barrier, or have returned.
  void run_warp(unsigned warp) {
    for (unsigned i = warp * warp_threads; i < warp_end(warp); ++i) {
      if (fibres_[i].state != State::ready) continue;
      running_ = &fibres_[i];
      swapcontext(&scheduler_, &running_->context);
    }
    if (!any(warp, State::in_shuffle)) return;
    for (unsigned i = warp * warp_threads; i < warp_end(warp); ++i) {
      if (fibres_[i].state != State::in_shuffle || warp_end(warp) % warp_threads != 0) {
        throw std::logic_error("not all 32 threads of a warp came to a shuffle");
      }
      fibres_[i].state = State::ready;
    }
  }

  // No warp is ready: lets those at the barrier go on, and returns them.
  std::vector<unsigned> past_barrier() {
    std::vector<unsigned> warps;
    for (unsigned i = 0; i < threads_; ++i) {
      if (fibres_[i].state != State::at_barrier) continue;
      fibres_[i].state = State::ready;
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
  std::vector<Fibre> fibres_ = reserved();
  Fibre* running_ = nullptr;
  ucontext_t scheduler_ = {};
  unsigned threads_ = 0;

  static std::vector<Fibre> reserved() {
    std::vector<Fibre> fibres;
    fibres.reserve(most_threads);  // contexts point into themselves, so they must not move
    return fibres;
  }
};

}  // namespace

Options& options() {
  static Options one;
  return one;
}

void run(dim3 blocks, unsigned threads, const std::function<void()>& kernel) {
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
