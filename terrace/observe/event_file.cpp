// Encodes checksums, frames and the fields of tensorboard/compat/proto/event.proto that scalars need.
#include "terrace/observe/event_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <chrono>
#include <cstring>

#include "terrace/base/files/file.h"
#include "terrace/base/files/temporary_name.h"

namespace terrace::observe {
namespace {

namespace fs = std::filesystem;

static_assert(std::endian::native == std::endian::little, "frames and fixed-width fields are little-endian");

constexpr std::string_view file_prefix = "events.out.tfevents.";
constexpr std::string_view file_version = "brain.Event:2";

// Field numbers of the messages.
enum EventField { wall_time = 1, step_number = 2, version = 3, summary = 5, session_log = 7 };
enum ValueField { tag = 1, simple_value = 2 };
constexpr int value_of_summary = 1;
constexpr int status_of_session = 1;
constexpr uint64_t session_starts = 1;

enum WireType { varint = 0, fixed64 = 1, delimited = 2, fixed32 = 5 };

template <typename T>
std::string bytes_of(T value) {
  std::string bytes(sizeof(T), '\0');
  std::memcpy(bytes.data(), &value, sizeof(T));
  return bytes;
}

void put_varint(std::string& message, uint64_t value) {
  for (; value >= 0x80; value >>= 7) message += static_cast<char>(value | 0x80);
  message += static_cast<char>(value);
}

void put_key(std::string& message, int field, WireType type) {
  put_varint(message, static_cast<uint64_t>(field) << 3 | type);
}

void put_number(std::string& message, int field, uint64_t value) {
  put_key(message, field, varint);
  put_varint(message, value);
}

void put_bytes(std::string& message, int field, std::string_view bytes) {
  put_key(message, field, delimited);
  put_varint(message, bytes.size());
  message += bytes;
}

std::string scalar_message(const Scalar& scalar) {
  std::string message;
  put_bytes(message, tag, scalar.tag);
  put_key(message, simple_value, fixed32);
  return message + bytes_of(static_cast<float>(scalar.value));
}

std::string event_message(int64_t step) {
  std::string message;
  put_key(message, wall_time, fixed64);
  message += bytes_of(std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count());
  put_number(message, step_number, static_cast<uint64_t>(step));
  return message;
}

// The format masks checksums, because the checksum of data that contain their own checksum is weak.
uint32_t masked(uint32_t checksum) { return std::rotr(checksum, 15) + 0xA282EAD8; }

// Files are read in the order of their names, which hold a time in seconds.
int64_t next_time(const fs::path& folder) {
  int64_t time = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(file_prefix)) continue;
    int64_t other = 0;
    const char* digits = name.c_str() + file_prefix.size();
    if (std::from_chars(digits, name.c_str() + name.size(), other).ec == std::errc()) time = std::max(time, other + 1);
  }
  return time;
}

}  // namespace

uint32_t crc32c(std::string_view bytes) {
  static const auto table = [] {
    constexpr uint32_t polynomial = 0x82F63B78;  // bits reversed
    std::array<uint32_t, 256> remainders{};
    for (uint32_t byte = 0; byte < remainders.size(); ++byte) {
      uint32_t remainder = byte;
      for (int bit = 0; bit < 8; ++bit) remainder = (remainder >> 1) ^ ((remainder & 1) != 0 ? polynomial : 0);
      remainders[byte] = remainder;
    }
    return remainders;
  }();
  uint32_t checksum = ~uint32_t{0};
  for (const char byte : bytes) checksum = table[(checksum ^ static_cast<uint8_t>(byte)) & 0xFF] ^ (checksum >> 8);
  return ~checksum;
}

std::string tfrecord(std::string_view record) {
  const std::string length = bytes_of(static_cast<uint64_t>(record.size()));
  return length + bytes_of(masked(crc32c(length))) + std::string(record) + bytes_of(masked(crc32c(record)));
}

EventFile::EventFile(const fs::path& folder, int64_t last_step) {
  fs::create_directories(folder);
  path_ = folder / fmt::format("{}{:010}.{}.{}", file_prefix, next_time(folder), host_name(), ::getpid());
  file_ = ::open(path_.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (file_ < 0) throw_write_error(path_);
  std::string first = event_message(0);
  put_bytes(first, version, file_version);
  append(first);
  std::string session, start = event_message(last_step + 1);
  put_number(session, status_of_session, session_starts);
  put_bytes(start, session_log, session);
  append(start);
}

EventFile::~EventFile() {
  if (file_ >= 0) ::close(file_);
}

void EventFile::append(const std::string& message) {
  const std::string record = tfrecord(message);
  if (::write(file_, record.data(), record.size()) != static_cast<ssize_t>(record.size())) throw_write_error(path_);
}

void EventFile::write(int64_t step, const std::vector<Scalar>& scalars) {
  std::string values, message = event_message(step);
  for (const Scalar& scalar : scalars) put_bytes(values, value_of_summary, scalar_message(scalar));
  put_bytes(message, summary, values);
  append(message);
}

void EventFile::sync() {
  if (::fsync(file_) != 0) throw_write_error(path_);
}

}  // namespace terrace::observe
