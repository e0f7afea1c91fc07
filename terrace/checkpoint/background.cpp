// Starts a thread for each write, and with staging another one that copies the checkpoint out of the staging folder.
#include "terrace/checkpoint/background.h"

#include <chrono>
#include <stdexcept>
#include <utility>

#include "terrace/base/error.h"
#include "terrace/base/terminal/log.h"
#include "terrace/base/text/units.h"
#include "terrace/checkpoint/staging.h"

namespace terrace::checkpoint {
namespace {

using Clock = std::chrono::steady_clock;

bool going_on(const std::future<void>& task) {
  return task.valid() && task.wait_for(std::chrono::seconds(0)) != std::future_status::ready;
}

void wait_and_rethrow(std::future<void>& task) {
  if (task.valid()) task.get();
}

}  // namespace

BackgroundSaver::BackgroundSaver(Options options) : options_(std::move(options)), saving_ranks_(options_.ranks) {
  if (options_.staging.empty()) return;
  staged_folder_ = staging_of(options_.staging, options_.folder);
  clear_staging(staged_folder_, saving_ranks_);
}

void BackgroundSaver::save(const State& state) {
  if (going_on(writing_)) {
    if (saving_ranks_.is_first()) {
      log_warning(
          "the checkpoint of step {} is still being written: training waits for it and then saves step {}; a larger "
          "checkpoint.every or a faster disk avoids that",
          copy_.step, state.step);
    }
    const auto began = Clock::now();
    writing_.wait();
    if (saving_ranks_.is_first()) {
      log_info("training waited {} and continues",
               format_seconds(std::chrono::duration<double>(Clock::now() - began).count()));
    }
  }
  finish_writing();
  copy_ = snapshot_.take(state);
  writing_ = std::async(std::launch::async, [this] { write(); });
}

void BackgroundSaver::finish() {
  finish_writing();
  wait_and_rethrow(copying_);
}

void BackgroundSaver::finish_writing() {
  if (writing_.valid()) writing_.wait();
  broken_ = false;
  wait_and_rethrow(writing_);
}

void BackgroundSaver::write() {
  try {
    write_copy();
  } catch (...) {
    broken_ = true;
    throw;
  }
}

void BackgroundSaver::write_copy() {
  std::optional<UserError> refusal;
  try {
    if (options_.before_write) options_.before_write(copy_);
  } catch (const std::exception& error) {
    if (saving_ranks_.is_single()) throw;
    refusal.emplace(error.what());
  }
  std::optional<StagedFiles> staged;
  std::optional<UserError> not_staged;
  try {
    if (!staged_folder_.empty() && !refusal) staged.emplace(staged_folder_, copy_, saving_ranks_);
  } catch (const std::runtime_error& error) {
    not_staged.emplace(error.what());
  }
  wait_and_rethrow(copying_);  // from here on its thread makes no calls of the ranks' Comm
  agree_to_write(refusal);
  if (!staged_folder_.empty() && agree_on_staging(not_staged)) {
    copying_ = std::async(std::launch::async, [this, staged = std::move(*staged), step = copy_.step]() mutable {
      const StagedFiles own = std::move(staged);  // removed when it is copied
      attempt([&] { return own.copy_out(options_.folder, options_.retention, saving_ranks_); }, step);
    });
  } else {
    staged.reset();
    attempt([this] { return write_directly(); }, copy_.step);
  }
}

void BackgroundSaver::agree_to_write(const std::optional<UserError>& refusal) const {
  try {
    saving_ranks_.throw_if_any_failed(refusal);
  } catch (const UserError& error) {
    throw std::runtime_error(error.what());
  }
}

bool BackgroundSaver::agree_on_staging(const std::optional<UserError>& failure) const {
  try {
    saving_ranks_.throw_if_any_failed(failure);
    return true;
  } catch (const UserError& error) {
    if (saving_ranks_.is_first()) {
      log_warning(
          "checkpoint.staging = \"{}\" cannot be used for step {}, which is written directly into the run's folder: {}",
          options_.staging.string(), copy_.step, error.what());
    }
    return false;
  }
}

std::filesystem::path BackgroundSaver::write_directly() const {
  if (saving_ranks_.is_single()) return checkpoint::save(options_.folder, copy_, options_.retention);
  return checkpoint::save(options_.folder, copy_, options_.retention, *options_.ranks);
}

void BackgroundSaver::attempt(const std::function<std::filesystem::path()>& action, int64_t step) {
  try {
    const std::string path = action().string();
    if (saving_ranks_.is_first()) log_info("checkpoint {}", path);
    saved_step_ = step;
  } catch (const UserError& error) {
    ++failures_;
    if (saving_ranks_.is_first()) {
      log_warning("{}. The run continues and saves again at its next checkpoint", error.what());
    }
  }
}

}  // namespace terrace::checkpoint
