// A thread for each write, and with staging another for each copying.
#include "terrace/checkpoint/background.h"

#include <chrono>
#include <system_error>
#include <utility>

#include "terrace/base/error.h"
#include "terrace/base/log.h"
#include "terrace/base/units.h"
#include "terrace/checkpoint/folder.h"
#include "terrace/checkpoint/staging.h"

namespace terrace::checkpoint {
namespace {

using Clock = std::chrono::steady_clock;

bool going_on(const std::future<void>& task) {
  return task.valid() && task.wait_for(std::chrono::seconds(0)) != std::future_status::ready;
}

void settle(std::future<void>& task) {
  if (task.valid()) task.get();
}

}  // namespace

BackgroundSaver::BackgroundSaver(Options options) : options_(std::move(options)) {
  if (options_.staging.empty()) return;
  staged_folder_ = staging_of(options_.staging, options_.folder);
  std::error_code error;
  std::filesystem::remove_all(staged_folder_, error);
  if (error) log_warning("left-overs in {} could not be removed: {}", staged_folder_.string(), error.message());
}

void BackgroundSaver::save(const State& state) {
  if (going_on(writing_)) {
    log_warning(
        "the checkpoint of step {} is still being written: training waits for it, then saves step {}; a larger "
        "checkpoint.every or a faster disk avoids that",
        copy_.step, state.step);
    const auto began = Clock::now();
    writing_.wait();
    log_info("training waited {} and goes on",
             format_seconds(std::chrono::duration<double>(Clock::now() - began).count()));
  }
  settle(writing_);
  copy_ = snapshot_.take(state);
  writing_ = std::async(std::launch::async, [this] { write(); });
}

void BackgroundSaver::finish() {
  settle(writing_);
  settle(copying_);
}

void BackgroundSaver::rethrow() {
  if (!going_on(writing_)) settle(writing_);
}

void BackgroundSaver::write() {
  if (options_.before_write) options_.before_write(copy_);
  if (staged_folder_.empty()) {
    attempt([this] { return write_directly(); }, copy_.step);
  } else {
    write_staged();
  }
}

void BackgroundSaver::write_staged() {
  std::filesystem::path staged;
  try {
    staged = stage(staged_folder_, copy_);
  } catch (const std::runtime_error& error) {
    log_warning("checkpoint.staging = \"{}\" cannot be used for step {}, which is written into its folder at once: {}",
                options_.staging.string(), copy_.step, error.what());
  }
  settle(copying_);
  if (staged.empty()) return attempt([this] { return write_directly(); }, copy_.step);
  copying_ = std::async(std::launch::async, [this, staged, step = copy_.step] {
    attempt([&] { return copy_out(staged, options_.folder, options_.retention); }, step);
  });
}

std::filesystem::path BackgroundSaver::write_directly() const {
  return checkpoint::save(options_.folder, copy_, options_.retention);
}

void BackgroundSaver::attempt(const std::function<std::filesystem::path()>& action, int64_t step) {
  try {
    log_info("checkpoint {}", action().string());
    saved_step_ = step;
  } catch (const UserError& error) {
    ++failures_;
    log_warning("{}. The run goes on and saves again at its next checkpoint", error.what());
  }
}

}  // namespace terrace::checkpoint
