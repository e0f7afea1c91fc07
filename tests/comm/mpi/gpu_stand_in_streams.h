// Declares what the stand-in's functions of CUDA and those of NCCL share: streams, and the GPU of a thread.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <functional>
#include <limits>
#include <mutex>
#include <queue>
#include <thread>
#include <utility>

#include "gpu_runtime.h"

using Task = std::function<void()>;

// A stream is a thread that runs its tasks one after another.
struct CUstream_st {
  CUstream_st() : thread([this] { run(); }) {}

  // Waits while the queue is full, as the launch of a kernel does.
  void add(Task task) {
    std::unique_lock lock(mutex);
    done.wait(lock, [this] { return tasks.size() < most_tasks(); });
    tasks.push(std::move(task));
    changed.notify_one();
  }
  bool is_idle() {
    const std::lock_guard lock(mutex);
    return tasks.empty() && !runs;
  }
  void wait_until_idle() {
    std::unique_lock lock(mutex);
    done.wait(lock, [this] { return tasks.empty() && !runs; });
  }
  void run() {
    while (true) {
      std::unique_lock lock(mutex);
      changed.wait(lock, [this] { return !tasks.empty(); });
      const Task task = std::move(tasks.front());
      tasks.pop();
      if (!task) return done.notify_all();
      runs = true;
      lock.unlock();
      std::this_thread::sleep_for(delay());
      task();
      lock.lock();
      runs = false;
      done.notify_all();
    }
  }

  // The delay of each task, so that who does not wait for it is too early.
  static std::chrono::microseconds delay() {
    static const char* const given = std::getenv("STAND_IN_DELAY_MICROSECONDS");
    return std::chrono::microseconds(given == nullptr ? 0 : std::atoi(given));
  }

  static size_t most_tasks() {
    static const char* const given = std::getenv("STAND_IN_QUEUE");
    return given == nullptr ? std::numeric_limits<size_t>::max() : static_cast<size_t>(std::atoi(given));
  }

  std::mutex mutex;
  std::condition_variable changed, done;
  std::queue<Task> tasks;
  bool runs = false;  // a task
  std::thread thread;
};

// The GPU that the calling thread has chosen; -1: none.
int chosen_device();

// The number of a GPU's bus, which two processes that use the GPU agree on.
int bus_of(int number);
