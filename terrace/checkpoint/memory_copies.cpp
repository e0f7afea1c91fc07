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
  copy_ = snapshot_.take(state);
  writing_ = std::async(std::launch::async, [this] { write(); });
}

void MemorySaver::finish() {
  if (writing_.valid()) writing_.get();
}

void MemorySaver::remove() {
  std::error_code error;
  if (is_leader_) fs::remove_all(node_folder_, error);
  if (is_leader_ && !error) fs::remove(node_folder_.parent_path(), error);
  if (error == std::errc::directory_not_empty) return;  // other nodes of this host
  if (error) log_warning("{} could not be removed: {}", node_folder_.string(), error.message());
}

void MemorySaver::write() {
  std::optional<UserError> refusal;
  try {
    if (options_.before_write) options_.before_write(copy_);
  } catch (const std::exception& error) {
    refusal.emplace(error.what());
  }
  try {
    saving_ranks_.throw_if_any_failed(refusal);
  } catch (const UserError& error) {
    throw std::runtime_error(error.what());
  }
  try {
    write_on_nodes();
    saved_step_ = copy_.step;
  } catch (const UserError& error) {
    ++failures_;
    std::error_code ignored;
    if (is_leader_) fs::remove_all(partial_path(folder_, copy_.step), ignored);
    if (saving_ranks_.is_first()) log_warning("step {}: {}. The run continues", copy_.step, error.what());
  }
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

void MemorySaver::write_on_nodes() {
  check_room(checkpoint::needed_bytes(copy_));
  const fs::path partial = partial_path(folder_, copy_.step);
  WrittenFiles own;
  on_all([&] {
    fs::create_directories(partial);
    own = write_files(partial, copy_, saving_ranks_);
  });
  const std::string manifest = whole_manifest(own);
  if (!receivers_.empty()) {
    const int64_t rank = saving_ranks_.rank();
    FileExchange exchange{.to = receivers_[static_cast<size_t>(rank)], .folder = partial};
    for (const FileRecord& file : own.files()) exchange.files.push_back(partial / file.name);
    for (int64_t from = 0; from < std::ssize(receivers_); ++from) {
      if (receivers_[static_cast<size_t>(from)] == rank) exchange.from.push_back(from);
    }
    std::optional<UserError> failure = exchange_files(*options_.ranks, exchange);
    if (failure) failure = not_copied(failure->what());
    saving_ranks_.throw_if_any_failed(failure);
  }
  publish(manifest);
}

std::string MemorySaver::whole_manifest(const WrittenFiles& own) {
  const std::vector<std::string> texts = saving_ranks_.gather_texts(to_text(own.collections));
  std::string text;
  on_all([&] {
    if (!saving_ranks_.is_first()) return;
    text = dump_manifest({.terrace_version = std::string(version()),
                          .step = copy_.step,
                          .collections = merge_collections(texts),
                          .config = own.config.value(),
                          .attached = own.attached,
                          .trainer = copy_.trainer});
  });
  return saving_ranks_.broadcast_text(std::move(text));
}

// The copy before is removed only when all nodes have this one, so that at every moment one of the two is whole.
void MemorySaver::publish(const std::string& manifest) {
  const fs::path whole = folder_ / step_name(copy_.step);
  on_all([&] {
    if (!is_leader_) return;
    const fs::path partial = partial_path(folder_, copy_.step);
    write_text_atomically(partial / manifest_name, manifest);
    write_text_atomically(partial / marker_name, "");
    fs::rename(partial, whole);
  });
  if (!is_leader_) return;
  for (const fs::path& other : list(folder_)) {
    std::error_code ignored;
    if (other != whole) fs::remove_all(hide_checkpoint(other), ignored);
  }
}

}  // namespace terrace::checkpoint
