// Keeps a short line of finished steps between a thread that makes them and the one that takes them.
#include "terrace/data/batches_ahead.h"

#include <utility>

namespace terrace::data {

BatchesAhead::BatchesAhead(Make make, int64_t last, int64_t ahead)
    : make_(std::move(make)), last_(last), ahead_(static_cast<size_t>(ahead)) {}

BatchesAhead::~BatchesAhead() {
  {
    const std::lock_guard lock(mutex_);
    stops_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

std::vector<MicroBatch> BatchesAhead::take(int64_t step) {
  if (step > last_) return make_(step);
  std::unique_lock lock(mutex_);
  while (!made_.empty() && made_.front().step < step) made_.pop_front();  // steps that were skipped
  const bool is_coming = thread_.joinable() && (made_.empty() ? next_ : made_.front().step) == step;
  if (!is_coming) {
    made_.clear();
    next_ = step;
    ++course_;
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

void BatchesAhead::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return stops_ || (made_.size() < ahead_ && next_ <= last_); });
    if (stops_) return;
    Made made{.step = next_};
    const int64_t course = course_;
    lock.unlock();
    try {
      made.batches = make_(made.step);
    } catch (...) {
      made.error = std::current_exception();
    }
    lock.lock();
    if (course != course_) continue;
    ++next_;
    made_.push_back(std::move(made));
    changed_.notify_all();
  }
}

}  // namespace terrace::data
