// Makes the batches of the next steps while a step is computed, on a thread of its own.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <stop_token>
#include <thread>
#include <utility>

namespace terrace::data {

// `Batches` is what a step takes, such as a list of micro-batches.
template <typename Batches>
class BatchesAhead {
 public:
  using Make = std::function<Batches(int64_t step, std::stop_token stop)>;
  // `make` gives the batches of a step, the same ones whenever it is called, and is called on the thread. Once `stop`
  // is requested, what it gives is thrown away, so that it may give anything. At most `ahead` steps are made before
  // they are taken, and none beyond `last`. The thread begins with the first take.
  BatchesAhead(Make make, int64_t last, int64_t ahead = 2)
      : make_(std::move(make)), last_(last), ahead_(static_cast<size_t>(ahead)) {}
  BatchesAhead(const BatchesAhead&) = delete;
  // Requests the stop of what is being made, and waits for it.
  ~BatchesAhead() {
    {
      const std::lock_guard lock(mutex_);
      ends_ = true;
      course_.request_stop();
    }
    changed_.notify_all();
    if (thread_.joinable()) thread_.join();
  }

  // The batches of a step. An error of make() for this step is thrown here. Usually steps are taken in order: before
  // any other step, what was made is thrown away.
  Batches take(int64_t step) {
    if (step > last_) return make_(step, {});
    std::unique_lock lock(mutex_);
    while (!made_.empty() && made_.front().step < step) made_.pop_front();  // steps that were skipped
    const bool is_coming = thread_.joinable() && (made_.empty() ? next_ : made_.front().step) == step;
    if (!is_coming) {
      made_.clear();
      next_ = step;
      course_.request_stop();
      course_ = {};
      if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
    }
    changed_.notify_all();
    changed_.wait(lock, [&] { return !made_.empty(); });  // made_ has no step before this one
    Made made = std::move(made_.front());
    made_.pop_front();
    lock.unlock();
    changed_.notify_all();
    if (made.error != nullptr) std::rethrow_exception(made.error);
    return std::move(made.batches);
  }

 private:
  struct Made {
    int64_t step = 0;
    Batches batches = {};
    std::exception_ptr error = nullptr;
  };

  void run() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [&] { return ends_ || (made_.size() < ahead_ && next_ <= last_); });
      if (ends_) return;
      Made made{.step = next_};
      const std::stop_token stop = course_.get_token();
      lock.unlock();
      try {
        made.batches = make_(made.step, stop);
      } catch (...) {
        made.error = std::current_exception();
      }
      lock.lock();
      if (stop.stop_requested()) continue;
      ++next_;
      made_.push_back(std::move(made));
      changed_.notify_all();
    }
  }

  Make make_;
  int64_t last_;
  size_t ahead_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Made> made_;    // consecutive steps
  int64_t next_ = 0;         // the step that the thread makes next, or is making
  std::stop_source course_;  // of the steps since the last jump: what was begun before one is thrown away
  bool ends_ = false;
  std::thread thread_;
};

}  // namespace terrace::data
