// Writes each rank's files into the memory of its node, sends them to the next node, and lets a copy count when all
// nodes have theirs.
#include "terrace/checkpoint/memory_copies.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "terrace/base/error.h"
#include "terrace/base/files/file.h"
#include "terrace/base/files/memory_folder.h"
#include "terrace/base/files/temporary_name.h"
#include "terrace/base/terminal/log.h"
#include "terrace/base/text/units.h"
#include "terrace/base/version.h"
#include "terrace/checkpoint/file_exchange.h"
#include "terrace/checkpoint/folder.h"
#include "terrace/checkpoint/make_checkpoint.h"
#include "terrace/checkpoint/manifest.h"
#include "terrace/checkpoint/own_folder.h"

namespace terrace::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr const char* memory_key = "checkpoint.memory_folder";
// The folder of the copy under way, whose files later have the memory of the copy before. list() ignores it.
constexpr const char* next_name = ".next";

// Numbers from 0 for equal names, in the order of the first rank of each.
std::vector<int64_t> numbered(const std::vector<std::string>& names) {
  std::map<std::string, int64_t> numbers;
  std::vector<int64_t> all;
  for (const std::string& name : names) {
    all.push_back(numbers.emplace(name, static_cast<int64_t>(numbers.size())).first->second);
  }
  return all;
}

}  // namespace

MemorySaver::MemorySaver(Options options)
    : options_(std::move(options)),
      saving_ranks_(options_.ranks),
      node_of_(numbered(saving_ranks_.all_texts(options_.node))),
      receivers_(receivers_of(node_of_)) {
  nodes_ = *std::ranges::max_element(node_of_) + 1;
  const int64_t rank = saving_ranks_.rank();
  is_leader_ = std::ranges::find(node_of_, node_of_[static_cast<size_t>(rank)]) - node_of_.begin() == rank;
  node_folder_ = memory_of(options_.memory, options_.run_folder) / options_.node;
  folder_ = node_folder_ / saving_ranks_.broadcast_text(unique_process_name());
  begin_start();
}

void MemorySaver::begin_start() {
  on_all([this] {
    if (!is_leader_) return;
    take_own_folder(node_folder_.parent_path(), memory_key);
    fs::remove_all(node_folder_);
    fs::create_directories(folder_);
  });
  on_all([this] {
    if (!fs::is_directory(folder_)) throw not_copied(folder_.string() + " does not exist on a rank's machine");
    if (!saving_ranks_.is_first()) return;
    write_text_atomically(options_.run_folder / memory_start_name, folder_.filename().string());
  });
}

// Runs a step on this rank, and throws on all ranks if it failed on any of them.
template <typename Step>
void MemorySaver::on_all(Step&& step) const {
  std::optional<UserError> failure;
  try {
    step();
  } catch (const UserError& error) {
    failure = error;
  } catch (const std::exception& error) {
    failure = not_copied(error.what());
  }
  saving_ranks_.throw_if_any_failed(failure);
}

UserError MemorySaver::not_copied(const std::string& why) const {
  return UserError(
      fmt::format("the copy in the memory of {} cannot be made: {}. Name another folder with {} = \"{}\", or "
                  "make no copies with checkpoint.memory_every = 0",
                  options_.node, why, memory_key, options_.memory.string()),
      ExitCode::failure);
}

void MemorySaver::save(const State& state) {
  finish();
  const bool on_gpu = any_on_gpu(state);
  if (on_gpu) {
    state_ = snapshot_.take(state);
  } else {
    state_.step = state.step;
    state_.trainer = state.trainer;
    copy(state);
  }
  writing_ = std::async(std::launch::async, [this, on_gpu] {
    if (on_gpu) copy(state_);
    complete();
  });
}

void MemorySaver::finish() {
  if (writing_.valid()) writing_.get();
}

void MemorySaver::remove() {
  for (MemoryPlace& place : places_) place.clear();
  std::error_code error;
  if (is_leader_) fs::remove_all(node_folder_, error);
  if (is_leader_ && !error) fs::remove(node_folder_.parent_path(), error);
  if (error == std::errc::directory_not_empty) return;  // other nodes of this host
  if (error) log_warning("{} could not be removed: {}", node_folder_.string(), error.message());
}

// Writes this rank's part. Makes calls only where the place is new, on all ranks then.
void MemorySaver::copy(const State& state) {
  refusal_.reset();
  failure_.reset();
  try {
    if (options_.check) options_.check(state);
  } catch (const std::exception& error) {
    refusal_.emplace(error.what());
  }
  MemoryPlace& place = places_.at(next_place_);
  try {
    if (!has_folder_.at(next_place_)) make_place(needed_bytes(state));
    own_ = place.write(folder_ / next_name, state, saving_ranks_);
  } catch (const UserError& error) {
    failure_ = error;
  } catch (const std::exception& error) {
    failure_ = not_copied(error.what());
  }
}

void MemorySaver::make_place(int64_t needed_bytes) {
  check_room(needed_bytes);
  on_all([this] {
    if (is_leader_) fs::create_directories(folder_ / next_name);
  });
  has_folder_.at(next_place_) = true;
}

// Lets the copy count, if every rank could write its part.
void MemorySaver::complete() {
  try {
    saving_ranks_.throw_if_any_failed(refusal_);
  } catch (const UserError& error) {
    throw std::runtime_error(error.what());
  }
  if (options_.before_write) options_.before_write();
  try {
    saving_ranks_.throw_if_any_failed(failure_);
    std::map<std::string, FileMemory> files = places_.at(next_place_).with_checksums(own_);
    const std::string manifest = whole_manifest();
    if (!receivers_.empty()) send_to_next_node(std::move(files));
    publish(manifest);
    saved_step_ = state_.step;
    next_place_ = 1 - next_place_;
  } catch (const UserError& error) {
    ++failures_;
    clear_place(next_place_);
    if (saving_ranks_.is_first()) log_warning("step {}: {}. The run continues", state_.step, error.what());
  }
}

// The next copy there is written into new files.
void MemorySaver::clear_place(size_t place) {
  places_.at(place).clear();
  has_folder_.at(place) = false;
  if (!is_leader_) return;
  std::error_code ignored;
  fs::remove_all(folder_ / next_name, ignored);
  if (place == next_place_) fs::remove_all(folder_ / step_name(state_.step), ignored);
}

// Each rank writes about as much for the node before as it writes itself. A file system in memory that is full would
// end other programs of the node, such as those whose messages pass through it.
void MemorySaver::check_room(int64_t needed_bytes) {
  std::vector<int64_t> bytes;
  for (const std::string& text : saving_ranks_.all_texts(std::to_string(needed_bytes)))
    bytes.push_back(std::stoll(text));
  on_all([&] {
    if (!is_leader_) return;
    const int64_t node = node_of_[static_cast<size_t>(saving_ranks_.rank())];
    int64_t needed = 0;
    for (size_t rank = 0; rank < bytes.size(); ++rank) {
      if (node_of_[rank] == node) needed += bytes[rank];
      if (!receivers_.empty() && node_of_[static_cast<size_t>(receivers_[rank])] == node) needed += bytes[rank];
    }
    const auto free = static_cast<int64_t>(fs::space(folder_).available);
    if (free >= needed) return;
    throw not_copied(fmt::format("it needs {}, and {} are free", format_bytes(static_cast<double>(needed)),
                                 format_bytes(static_cast<double>(free))));
  });
}

void MemorySaver::send_to_next_node(std::map<std::string, FileMemory> files) {
  const int64_t rank = saving_ranks_.rank();
  MemoryPlace& place = places_.at(next_place_);
  FileExchange exchange{
      .files = std::move(files),
      .to = receivers_[static_cast<size_t>(rank)],
      .place = [&](const std::string& name, size_t bytes) { return place.receive(folder_ / next_name, name, bytes); }};
  for (int64_t from = 0; from < std::ssize(receivers_); ++from) {
    if (receivers_[static_cast<size_t>(from)] == rank) exchange.from.push_back(from);
  }
  std::optional<UserError> failure = exchange_files(*options_.ranks, exchange);
  if (failure) failure = not_copied(failure->what());
  saving_ranks_.throw_if_any_failed(failure);
}

std::string MemorySaver::whole_manifest() {
  const std::vector<std::string> texts = saving_ranks_.gather_texts(to_text(own_.collections));
  std::string text;
  on_all([&] {
    if (!saving_ranks_.is_first()) return;
    text = dump_manifest({.terrace_version = std::string(version()),
                          .step = state_.step,
                          .collections = merge_collections(texts),
                          .config = own_.config.value(),
                          .attached = own_.attached,
                          .trainer = state_.trainer});
  });
  return saving_ranks_.broadcast_text(std::move(text));
}

// The copy before counts until all nodes have this one, so that at every moment one of the two is whole.
void MemorySaver::publish(const std::string& manifest) {
  const fs::path next = folder_ / next_name, whole = folder_ / step_name(state_.step);
  on_all([&] {
    if (!is_leader_) return;
    write_text_atomically(next / manifest_name, manifest);
    write_text_atomically(next / marker_name, "");
    fs::rename(next, whole);
  });
  const auto retire = [&](const auto& each) {
    if (!is_leader_) return;
    for (const fs::path& other : list(folder_)) {
      if (other != whole) each(other);
    }
  };
  try {
    on_all([&] {
      retire([&](const fs::path& other) {
        fs::rename(other, next);
        fs::remove(next / marker_name);
      });
    });
  } catch (const UserError&) {
    // The new copy counts all the same.
    clear_place(1 - next_place_);
    std::error_code ignored;
    retire([&](const fs::path& other) { fs::remove_all(other, ignored); });
  }
}

}  // namespace terrace::checkpoint
