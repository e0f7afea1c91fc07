// Follows the steps of the readers, and copies one extent after another.
#include "terrace/data/staging/stager.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <unordered_set>
#include <utility>

#include "terrace/base/error.h"
#include "terrace/base/terminal/log.h"
#include "terrace/base/text/units.h"

namespace terrace::data {
namespace {

constexpr auto idle_pause = std::chrono::milliseconds(5);
// Known uses take 24 bytes each.
constexpr uint64_t most_known_uses = uint64_t{1} << 20;

bool is_full_disk(int error) { return error == ENOSPC || error == EDQUOT || error == EFBIG; }

}  // namespace

Stager::Stager(std::shared_ptr<StagingBuffer> buffer, StagerRequest request)
    : buffer_(std::move(buffer)),
      request_(std::move(request)),
      extents_(file_sizes(request_.files), buffer_->size().extent_bytes),
      order_(buffer_->size().slots),
      copied_(buffer_->size().extent_bytes),
      next_step_(request_.first_step) {
  for (const MappedFile* file : request_.files) {
    Source source{.descriptor = ::open(file->path().c_str(), O_RDONLY | O_CLOEXEC)};
    struct stat status {};
    if (source.descriptor < 0 || ::fstat(source.descriptor, &status) != 0) {
      throw UserError::of("cannot open {} to stage it: {}", file->path().string(), std::strerror(errno));
    }
    source.bytes = status.st_size;
    source.seconds = status.st_mtim.tv_sec;
    source.nanoseconds = status.st_mtim.tv_nsec;
    sources_.push_back(source);
  }
  if (request_.links != nullptr) {
    exchange_.emplace(request_.links, buffer_, extents_);
    exchange_step_ = request_.next_exchange(request_.first_step);
  }
  thread_ = std::thread([this] { run(); });
}

void Stager::finish() {
  finishing_ = true;
  {
    const std::lock_guard lock(mutex_);
    stops_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

Stager::~Stager() {
  if (!finishing_) {
    cancelled_ = true;
    if (request_.links != nullptr) request_.links->cancel();
    finish();
  }
  for (const Source& source : sources_) ::close(source.descriptor);
}

void Stager::run() {
  std::unique_lock lock(mutex_);
  while (!stops_ && (!ended_ || exchange_)) {
    lock.unlock();
    bool progresses = false;
    try {
      progresses = make_progress();
    } catch (const std::exception& error) {
      stop(error.what());
      exchange_.reset();
    }
    lock.lock();
    if (!progresses) changed_.wait_for(lock, idle_pause, [&] { return stops_; });
  }
  if (!exchange_ || cancelled_) return;
  try {
    exchange_->run(*this);
  } catch (const std::exception& error) {
    log_warning("data.stage = \"{}\": the last exchange with other nodes failed: {}", request_.folder, error.what());
  }
}

bool Stager::make_progress() {
  if (buffer_->lost()) ended_ = true;
  order_.begin_step(buffer_->least_step() - steps_of_readers);
  if (exchange_ && exchange_step_ <= request_.last_step && buffer_->least_step() >= exchange_step_) {
    exchange_shares();
    return true;
  }
  if (ended_) return false;
  const bool added = add_step();
  // The extent to replace is chosen by all uses that can be known, so these are added first.
  if (added && order_.replaces()) return true;
  const std::optional<CopyOrder::Copy> copy = order_.next();
  if (copy) {
    if (copy->replaced) buffer_->withdraw(*copy->replaced);
    copy_from_source(*copy);
  }
  return added || copy;
}

bool Stager::add_step() {
  next_step_ = std::max(next_step_, buffer_->least_step());
  if (next_step_ > request_.last_step || order_.known_uses() >= most_known_uses) return false;
  if (exchange_ && next_step_ >= exchange_step_) return false;
  std::vector<uint32_t> extents;
  std::unordered_set<uint32_t> listed;
  for (const FileRange& range : request_.reads(next_step_)) {
    const auto file = std::ranges::find(request_.files, range.file);
    TERRACE_CHECK(file != request_.files.end(), "{} is not staged", range.file->path().string());
    extents_.for_each_part(static_cast<size_t>(file - request_.files.begin()), range.offset, range.bytes,
                           [&](const Extents::Part& part) {
                             if (listed.insert(part.extent).second) extents.push_back(part.extent);
                           });
  }
  order_.add_step(next_step_++, extents);
  return true;
}

bool Stager::unchanged(size_t file) {
  struct stat status {};
  const Source& source = sources_[file];
  return ::fstat(source.descriptor, &status) == 0 && status.st_size == source.bytes &&
         status.st_mtim.tv_sec == source.seconds && status.st_mtim.tv_nsec == source.nanoseconds;
}

void Stager::stop(const std::string& why) {
  log_warning("data.stage = \"{}\": {}; what is not staged yet is read from its source", request_.folder, why);
  ended_ = true;
}

// Exchanges whose steps readers have passed already are made up for, one after another, as by the other nodes.
void Stager::exchange_shares() {
  exchange_step_ = request_.next_exchange(exchange_step_);
  while (!ended_ && add_step()) {
  }
  exchange_->run(*this);
  for (const CopyOrder::Copy& copy : std::exchange(lacking_, {})) {
    if (!ended_ && !ending()) copy_from_source(copy);
  }
}

std::vector<uint32_t> Stager::missing(size_t at_most) {
  return ended_ || buffer_->lost() ? std::vector<uint32_t>() : order_.missing(at_most);
}

// Just after an exchange begins, the readers may still need what is to be replaced.
std::optional<CopyOrder::Copy> Stager::next_with_room() {
  const int64_t began = buffer_->least_step();
  while (!ending()) {
    const int64_t step = buffer_->least_step();
    order_.begin_step(step - steps_of_readers);
    const std::optional<CopyOrder::Copy> copy = order_.next();
    if (copy || step > began + steps_of_readers || step >= request_.last_step) return copy;
    std::this_thread::sleep_for(idle_pause);
  }
  return std::nullopt;
}

bool Stager::store(std::span<const Received> received) {
  for (size_t i = 0; i < received.size(); ++i) {
    const std::optional<CopyOrder::Copy> copy = next_with_room();
    if (!copy) return false;
    if (copy->replaced) {
      buffer_->withdraw(*copy->replaced);
      // The slot of the replaced extent belongs to the new one.
      std::erase_if(lacking_, [&](const CopyOrder::Copy& other) { return other.extent == *copy->replaced; });
    }
    const auto found = std::ranges::find(received, copy->extent, &Received::extent);
    if (found == received.end() || found->bytes.empty()) {
      lacking_.push_back(*copy);
    } else if (write(*copy, found->bytes)) {
      buffer_->count_received(found->bytes.size());
    }
    if (ended_ || buffer_->lost()) return false;
  }
  return true;
}

void Stager::copy_from_source(const CopyOrder::Copy& copy) {
  const Extents::Place place = extents_.place(copy.extent);
  const std::string path = request_.files[place.file]->path().string();
  const int descriptor = sources_[place.file].descriptor;
  const std::span<std::byte> bytes = std::span(copied_).first(place.bytes);
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t got =
        ::pread(descriptor, bytes.data() + done, bytes.size() - done, static_cast<off_t>(place.offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0)
      return stop(fmt::format("cannot read {}: {}", path, got < 0 ? std::strerror(errno) : "it was cut off"));
    done += static_cast<size_t>(got);
  }
  if (!unchanged(place.file)) return stop(fmt::format("{} was changed while the run trains", path));
  if (!write(copy, bytes)) return;
  buffer_->count_copied(place.bytes);
  // The copy is read from now on, so the system need not keep the source's pages.
  ::posix_fadvise(descriptor, static_cast<off_t>(place.offset), static_cast<off_t>(place.bytes), POSIX_FADV_DONTNEED);
}

bool Stager::write(const CopyOrder::Copy& copy, std::span<const std::byte> bytes) {
  const int error = buffer_->write(copy.slot, bytes);
  if (error == 0) {
    buffer_->publish(copy.extent, copy.slot);
  } else if (is_full_disk(error)) {
    order_.give_up(copy);
    log_warning("data.stage = \"{}\" is full ({}) with {} of the data there; the rest is read from its source",
                request_.folder, std::strerror(error),
                format_bytes(static_cast<double>(order_.slots() * extents_.extent_bytes())));
    if (order_.slots() == 0) ended_ = true;
  } else if (buffer_->declare_lost()) {
    log_warning(
        "data.stage = \"{}\" cannot be written to any more: {}; the data are read from their source from here on",
        request_.folder, std::strerror(error));
  }
  return error == 0;
}

}  // namespace terrace::data
