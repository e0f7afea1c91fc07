// Maps a stream with several threads, and keeps the order of the results.
#pragma once

#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <future>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

namespace terrace::data {

// Calls `produce` until it returns nothing, and `consume` for every result in the order of the inputs, both in the
// calling thread. Each of `threads` workers has its own function from `make_worker`. At most 2 * threads + 2 inputs and
// results exist at a time, so memory is bounded. An exception of any of the three ends the others and is rethrown.
template <typename In, typename Out>
void ordered_map(int threads, const std::function<std::optional<In>()>& produce,
                 const std::function<std::function<Out(In&)>()>& make_worker,
                 const std::function<void(Out&)>& consume) {
  struct Task {
    In input;
    std::promise<Out> result;
  };
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Task> tasks;
  bool closed = false;

  const auto work = [&] {
    const std::function<Out(In&)> map = make_worker();
    while (true) {
      std::unique_lock lock(mutex);
      changed.wait(lock, [&] { return closed || !tasks.empty(); });
      if (tasks.empty()) return;
      Task task = std::move(tasks.front());
      tasks.pop_front();
      lock.unlock();
      try {
        task.result.set_value(map(task.input));
      } catch (...) {
        task.result.set_exception(std::current_exception());
      }
    }
  };

  // Declared after everything that the workers use. The destructor drops the waiting tasks and joins the workers.
  struct Workers {
    std::function<void()> close;
    std::vector<std::jthread> running;
    ~Workers() { close(); }
  } workers{[&] {
              const std::lock_guard lock(mutex);
              closed = true;
              tasks.clear();
              changed.notify_all();
            },
            {}};
  for (int i = 0; i < threads; ++i) workers.running.emplace_back(work);

  std::deque<std::future<Out>> results;
  bool more = true;
  while (more || !results.empty()) {
    while (more && results.size() < 2 * static_cast<size_t>(threads) + 2) {
      std::optional<In> input = produce();
      more = input.has_value();
      if (!more) break;
      Task task{std::move(*input), {}};
      results.push_back(task.result.get_future());
      const std::lock_guard lock(mutex);
      tasks.push_back(std::move(task));
      changed.notify_one();
    }
    if (results.empty()) break;
    Out result = results.front().get();
    results.pop_front();
    consume(result);
  }
}

}  // namespace terrace::data
