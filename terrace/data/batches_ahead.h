// Makes the batches of the next steps while a step is computed, on threads of its own.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <mutex>
#include <stop_token>
#include <thread>
#include <utility>
#include <vector>

namespace terrace::data {

// `Batches` is what a step takes, such as a list of micro-batches.
template <typename Batches>
class BatchesAhead {
 public:
  using Make = std::function<Batches(int64_t step, std::stop_token stop)>;
  // `make` gives the batches of a step, the same ones whenever it is called. Each of the `threads` calls it for one
  // step at a time. Once `stop` is requested, what it gives is thrown away, so that it may give anything. At most
  // `ahead` steps (if not given, one more than threads) are made before they are taken, and none beyond `last`. The
  // threads begin with the first take.
  BatchesAhead(Make make, int64_t last, int64_t threads = 1)
      : BatchesAhead(std::move(make), last, threads, threads + 1) {}
  BatchesAhead(Make make, int64_t last, int64_t threads, int64_t ahead)
      : make_(std::move(make)), last_(last), threads_wanted_(threads), ahead_(ahead) {}
  BatchesAhead(const BatchesAhead&) = delete;
  // Requests the stop of what is being made, and waits for it.
  ~BatchesAhead() {
    {
      const std::lock_guard lock(mutex_);
      ends_ = true;
      course_.request_stop();
    }
    changed_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

  // The batches of a step. An error of make() for this step is thrown here. Usually steps are taken in order: before a
  // step that is not being made, what was made is thrown away.
  Batches take(int64_t step) {
    if (step > last_) return make_(step, {});
    std::unique_lock lock(mutex_);
    if (step < first_ || step > next_) {
      made_.clear();
      next_ = step;
      course_.request_stop();
      course_ = {};
    }
    first_ = step;
    made_.erase(made_.begin(), made_.lower_bound(step));  // steps that were skipped
    while (std::ssize(threads_) < threads_wanted_) threads_.emplace_back([this] { run(); });
    changed_.notify_all();
    changed_.wait(lock, [&] { return made_.contains(step); });
    Made made = std::move(made_.extract(step).mapped());
    first_ = step + 1;
    lock.unlock();
    changed_.notify_all();
    if (made.error != nullptr) std::rethrow_exception(made.error);
    return std::move(made.batches);
  }

 private:
  struct Made {
    Batches batches = {};
    std::exception_ptr error = nullptr;
  };

  void run() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [&] { return ends_ || (next_ < first_ + ahead_ && next_ <= last_); });
      if (ends_) return;
      const int64_t step = next_++;
      const std::stop_token stop = course_.get_token();
      lock.unlock();
      Made made;
      try {
        made.batches = make_(step, stop);
      } catch (...) {
        made.error = std::current_exception();
      }
      lock.lock();
      if (stop.stop_requested() || step < first_) continue;
      made_.emplace(step, std::move(made));
      changed_.notify_all();
    }
  }

  Make make_;
  int64_t last_, threads_wanted_, ahead_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<int64_t, Made> made_;  // by step, none before first_
  int64_t first_ = 0;             // the step that is taken next, if none is skipped
  int64_t next_ = 0;              // the step that a thread begins next: all from first_ to it are made or being made
  std::stop_source course_;       // stops the steps since the last jump: what was begun before a jump is thrown away
  bool ends_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace terrace::data
