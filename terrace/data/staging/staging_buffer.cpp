// Keeps the table in shared memory and the slots in a file without a name.
#include "terrace/data/staging/staging_buffer.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <limits>
#include <system_error>
#include <utility>

#include "terrace/base/error.h"
#include "terrace/base/terminal/log.h"

namespace terrace::data {
namespace {

namespace fs = std::filesystem;

constexpr const char* buffer_prefix = "terrace-stage-";
constexpr auto age_of_leftovers = std::chrono::minutes(10);
constexpr uint64_t buffer_mark = 0x7465'7272'6163'6531;
// Shared memory has the header, then the readers, then a number for each extent: 0, or its number among all
// publications, and its slot plus 1.
constexpr size_t header_bytes = 128;
constexpr uint64_t slot_bits = 32;
constexpr auto of_user = S_IRUSR | S_IWUSR;

static_assert(std::atomic<uint64_t>::is_always_lock_free && std::atomic<int64_t>::is_always_lock_free,
              "processes share these numbers");

std::string stage_problem(const fs::path& folder, const std::string& what, int error) {
  return fmt::format(
      "data.stage = \"{}\": {}: {}; name a folder on a disk of each node that this user can write to, or "
      "leave data.stage out",
      folder.string(), what, std::strerror(error));
}

// A buffer has names for moments only, in which its process holds a lock on it. A name that is older and not locked is
// of a process that was killed then.
void remove_leftovers(const fs::path& folder) {
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    if (!entry->path().filename().string().starts_with(buffer_prefix)) continue;
    const int descriptor = ::open(entry->path().c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (descriptor < 0) continue;
    const auto age = fs::file_time_type::clock::now() - fs::last_write_time(entry->path(), error);
    if (!error && age > age_of_leftovers && ::flock(descriptor, LOCK_EX | LOCK_NB) == 0) {
      ::unlink(entry->path().c_str());
    }
    ::close(descriptor);
    error.clear();
  }
}

}  // namespace

struct alignas(64) StagingBuffer::Reader {
  std::atomic<int64_t> step{0};
  std::atomic<uint64_t> staged_bytes{0}, source_bytes{0}, source_nanoseconds{0};
};

struct StagingBuffer::Header {
  uint64_t mark = 0;
  Size size = {};
  std::atomic<uint32_t> lost{0};
  std::atomic<uint64_t> copied_bytes{0}, received_bytes{0};
};

StageCounts& StageCounts::operator+=(const StageCounts& other) {
  staged_bytes += other.staged_bytes;
  source_bytes += other.source_bytes;
  source_nanoseconds += other.source_nanoseconds;
  return *this;
}

StagingBuffer::StagingBuffer(fs::path folder, std::string name)
    : folder_(std::move(folder)),
      disk_name_(folder_ / (buffer_prefix + name)),
      memory_name_("/" + (buffer_prefix + name)) {
  static_assert(sizeof(Header) <= header_bytes, "the readers follow it");
}

StagingBuffer::~StagingBuffer() {
  remove_names();
  if (memory_ != nullptr) ::munmap(memory_, memory_bytes_);
  if (disk_ >= 0) ::close(disk_);
}

void StagingBuffer::map(int descriptor, size_t bytes) {
  void* const address = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  const int error = errno;
  ::close(descriptor);
  if (address == MAP_FAILED) throw UserError(stage_problem(folder_, "shared memory cannot be mapped", error));
  memory_ = static_cast<std::byte*>(address);
  memory_bytes_ = bytes;
}

void StagingBuffer::make(const Size& size) {
  std::error_code error;
  fs::create_directories(folder_, error);
  if (error) throw UserError(stage_problem(folder_, "the folder cannot be made", error.value()));
  remove_leftovers(folder_);
  remove_leftovers("/dev/shm");
  disk_ = ::open(disk_name_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, of_user);
  if (disk_ < 0) throw UserError(stage_problem(folder_, "no file can be made there", errno));
  has_names_ = true;
  ::flock(disk_, LOCK_EX | LOCK_NB);
  const int memory = ::shm_open(memory_name_.c_str(), O_RDWR | O_CREAT | O_EXCL, of_user);
  if (memory < 0) throw UserError(stage_problem(folder_, "shared memory cannot be made", errno));
  const size_t bytes = header_bytes + size.readers * sizeof(Reader) + size.extents * sizeof(uint64_t);
  // Without space for the memory, a page that is written to later would end the process.
  const int full = ::posix_fallocate(memory, 0, static_cast<off_t>(bytes));
  if (full != 0) {
    ::close(memory);
    throw UserError(
        stage_problem(folder_, fmt::format("the table of {} bytes does not fit into /dev/shm", bytes), full));
  }
  map(memory, bytes);
  auto* header = new (memory_) Header();
  header->size = size;
  for (uint64_t i = 0; i < size.readers; ++i) new (&reader(static_cast<int64_t>(i))) Reader();
  for (uint64_t i = 0; i < size.extents; ++i) new (table() + i) std::atomic<uint64_t>(0);
  header->mark = buffer_mark;
}

void StagingBuffer::open() {
  disk_ = ::open(disk_name_.c_str(), O_RDONLY | O_CLOEXEC);
  if (disk_ < 0) throw UserError(stage_problem(folder_, "the file of the node's first rank is not seen here", errno));
  const int memory = ::shm_open(memory_name_.c_str(), O_RDWR, 0);
  if (memory < 0) {
    throw UserError(stage_problem(folder_, "the shared memory of the node's first rank is not seen here", errno));
  }
  struct stat status {};
  ::fstat(memory, &status);
  map(memory, static_cast<size_t>(status.st_size));
  TERRACE_CHECK(memory_bytes_ >= header_bytes && reinterpret_cast<Header*>(memory_)->mark == buffer_mark,
                "{} is no table of a window", memory_name_);
}

void StagingBuffer::remove_names() {
  if (!std::exchange(has_names_, false)) return;
  ::unlink(disk_name_.c_str());
  ::shm_unlink(memory_name_.c_str());
}

const StagingBuffer::Size& StagingBuffer::size() const { return reinterpret_cast<const Header*>(memory_)->size; }

StagingBuffer::Reader& StagingBuffer::reader(int64_t number) const {
  return reinterpret_cast<Reader*>(memory_ + header_bytes)[number];
}

std::atomic<uint64_t>* StagingBuffer::table() const {
  return reinterpret_cast<std::atomic<uint64_t>*>(memory_ + header_bytes + size().readers * sizeof(Reader));
}

// The extent may be replaced while it is read; then its number in the table has changed, and what was read is not used.
bool StagingBuffer::read(uint32_t extent, uint64_t begin, std::span<std::byte> to) const {
  const std::atomic<uint64_t>& entry = table()[extent];
  const uint64_t found = entry.load();
  if (found == 0 || lost()) return false;
  const uint64_t slot = (found & ((uint64_t{1} << slot_bits) - 1)) - 1;
  size_t done = 0;
  while (done < to.size()) {
    const ssize_t got = ::pread(disk_, to.data() + done, to.size() - done,
                                static_cast<off_t>(slot * size().extent_bytes + begin + done));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      const char* reason = got < 0 ? std::strerror(errno) : "the file of the window was cut off";
      if (declare_lost()) {
        log_warning("data.stage = \"{}\" cannot be read any more: {}; the data are read from their source from here on",
                    folder_.string(), reason);
      }
      return false;
    }
    done += static_cast<size_t>(got);
  }
  std::atomic_thread_fence(std::memory_order_seq_cst);
  return entry.load() == found;
}

bool StagingBuffer::lost() const { return reinterpret_cast<Header*>(memory_)->lost.load() != 0; }

bool StagingBuffer::declare_lost() const { return reinterpret_cast<Header*>(memory_)->lost.exchange(1) == 0; }

int StagingBuffer::write(uint32_t slot, std::span<const std::byte> bytes) {
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t put = ::pwrite(disk_, bytes.data() + done, bytes.size() - done,
                                 static_cast<off_t>(uint64_t{slot} * size().extent_bytes + done));
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return put < 0 ? errno : ENOSPC;
    done += static_cast<size_t>(put);
  }
  return 0;
}

void StagingBuffer::publish(uint32_t extent, uint32_t slot) {
  ++published_;
  table()[extent].store((published_ << slot_bits) | (uint64_t{slot} + 1));
}

void StagingBuffer::withdraw(uint32_t extent) {
  table()[extent].store(0);
  std::atomic_thread_fence(std::memory_order_seq_cst);
}

void StagingBuffer::begin_step(int64_t number, int64_t step) const { reader(number).step.store(step); }

int64_t StagingBuffer::least_step() const {
  int64_t least = std::numeric_limits<int64_t>::max();
  for (uint64_t i = 0; i < size().readers; ++i) {
    least = std::min(least, reader(static_cast<int64_t>(i)).step.load());
  }
  return least;
}

void StagingBuffer::count(int64_t number, const StageCounts& more) const {
  Reader& own = reader(number);
  own.staged_bytes += more.staged_bytes;
  own.source_bytes += more.source_bytes;
  own.source_nanoseconds += more.source_nanoseconds;
}

void StagingBuffer::count_copied(uint64_t bytes) const { reinterpret_cast<Header*>(memory_)->copied_bytes += bytes; }

StageCounts StagingBuffer::counts() const {
  StageCounts sum;
  for (uint64_t i = 0; i < size().readers; ++i) {
    const Reader& one = reader(static_cast<int64_t>(i));
    sum += {one.staged_bytes.load(), one.source_bytes.load(), one.source_nanoseconds.load()};
  }
  return sum;
}

uint64_t StagingBuffer::copied_bytes() const { return reinterpret_cast<Header*>(memory_)->copied_bytes.load(); }

void StagingBuffer::count_received(uint64_t bytes) const {
  reinterpret_cast<Header*>(memory_)->received_bytes += bytes;
}

uint64_t StagingBuffer::received_bytes() const { return reinterpret_cast<Header*>(memory_)->received_bytes.load(); }

uint64_t buffer_bytes(const fs::path& folder, uint64_t wanted, uint64_t data_bytes) {
  if (wanted > 0) return wanted;
  std::error_code error;
  const fs::space_info space = fs::space(folder, error);
  if (error) return data_bytes;
  return std::min(data_bytes, static_cast<uint64_t>(static_cast<double>(space.available) * 0.9));
}

}  // namespace terrace::data
