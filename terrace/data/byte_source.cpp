// Implements plain, gzip and zstd sources over one buffered file.
#include "terrace/data/byte_source.h"

#include <fcntl.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

#include "terrace/base/error.h"
#include "terrace/base/text/byte_order_mark.h"

namespace terrace::data {
namespace {

constexpr size_t buffer_bytes = size_t{1} << 18;

// A file with a read buffer whose bytes can be inspected before they are consumed.
class BufferedFile {
 public:
  explicit BufferedFile(const std::filesystem::path& path) : name_(path.string()), buffer_(buffer_bytes) {
    descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (descriptor_ < 0) throw UserError::of("cannot open {}: {}", name_, std::strerror(errno));
  }
  BufferedFile(const BufferedFile&) = delete;
  ~BufferedFile() { ::close(descriptor_); }

  const std::string& name() const { return name_; }
  uint64_t position() const { return read_; }
  std::string_view ahead() const { return {buffer_.data() + begin_, end_ - begin_}; }
  void take(size_t size) { begin_ += size; }

  // Reads until the buffer has `size` bytes or the file ends; a pipe may need several reads.
  void look_ahead(size_t size) {
    if (begin_ > 0 && begin_ + size > buffer_.size()) {
      std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
      end_ -= begin_;
      begin_ = 0;
    }
    while (end_ - begin_ < size) {
      const ssize_t got = ::read(descriptor_, buffer_.data() + end_, buffer_.size() - end_);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) throw UserError::of("cannot read {}: {}", name_, std::strerror(errno));
      if (got == 0) return;
      end_ += static_cast<size_t>(got);
      read_ += static_cast<uint64_t>(got);
    }
  }

  // Returns some bytes, or none at the end of the file.
  std::string_view refill() {
    if (begin_ == end_) {
      begin_ = end_ = 0;
      look_ahead(1);
    }
    return ahead();
  }

 private:
  std::string name_;
  std::vector<char> buffer_;
  size_t begin_ = 0, end_ = 0;
  uint64_t read_ = 0;
  int descriptor_ = -1;
};

class PlainSource : public ByteSource {
 public:
  explicit PlainSource(std::unique_ptr<BufferedFile> file) : file_(std::move(file)) {}

  size_t read(char* to, size_t size) override {
    const std::string_view bytes = file_->refill().substr(0, size);
    std::memcpy(to, bytes.data(), bytes.size());
    file_->take(bytes.size());
    return bytes.size();
  }
  uint64_t disk_position() const override { return file_->position(); }

 private:
  std::unique_ptr<BufferedFile> file_;
};

class GzipSource : public ByteSource {
 public:
  explicit GzipSource(std::unique_ptr<BufferedFile> file) : file_(std::move(file)) {
    constexpr int gzip_only = 15 + 16;
    TERRACE_CHECK(inflateInit2(&stream_, gzip_only) == Z_OK, "zlib");
  }
  GzipSource(const GzipSource&) = delete;
  ~GzipSource() override { inflateEnd(&stream_); }

  size_t read(char* to, size_t size) override {
    stream_.next_out = reinterpret_cast<Bytef*>(to);
    stream_.avail_out = static_cast<uInt>(std::min<size_t>(size, buffer_bytes));
    const uInt wanted = stream_.avail_out;
    while (stream_.avail_out == wanted) {
      const std::string_view input = file_->refill();
      if (input.empty()) {
        if (between_members_) return 0;
        throw UserError::of("{} is a truncated gzip file: it ends within its data; fetch it again", file_->name());
      }
      // Zeros after the last member are padding, which gzip -t accepts too.
      if (between_members_ && input.front() == '\0') {
        file_->take(1);
        continue;
      }
      inflate_some(input);
    }
    return wanted - stream_.avail_out;
  }
  uint64_t disk_position() const override { return file_->position(); }

 private:
  void inflate_some(std::string_view input) {
    between_members_ = false;
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(input.data()));
    stream_.avail_in = static_cast<uInt>(input.size());
    const int result = inflate(&stream_, Z_NO_FLUSH);
    file_->take(input.size() - stream_.avail_in);
    if (result == Z_STREAM_END) {
      between_members_ = true;
      inflateReset(&stream_);
    } else if (result != Z_OK && result != Z_BUF_ERROR) {
      throw UserError::of("{} is a corrupt gzip file near byte {}: {}", file_->name(),
                          file_->position() - file_->ahead().size(), stream_.msg == nullptr ? "?" : stream_.msg);
    }
  }

  std::unique_ptr<BufferedFile> file_;
  z_stream stream_{};
  bool between_members_ = true;
};

class ZstdSource : public ByteSource {
 public:
  explicit ZstdSource(std::unique_ptr<BufferedFile> file) : file_(std::move(file)), stream_(ZSTD_createDStream()) {
    TERRACE_CHECK(stream_ != nullptr, "zstd");
  }
  ZstdSource(const ZstdSource&) = delete;
  ~ZstdSource() override { ZSTD_freeDStream(stream_); }

  size_t read(char* to, size_t size) override {
    ZSTD_outBuffer output{to, size, 0};
    while (output.pos == 0) {
      const std::string_view bytes = file_->refill();
      // The decoder may hold output after its last input, so it is called once more before the file counts as
      // truncated.
      if (bytes.empty() && (between_frames_ || drained_)) {
        if (between_frames_) return 0;
        throw UserError::of("{} is a truncated zstd file: it ends within its data; fetch it again", file_->name());
      }
      drained_ = bytes.empty();
      ZSTD_inBuffer input{bytes.data(), bytes.size(), 0};
      const size_t result = ZSTD_decompressStream(stream_, &output, &input);
      if (ZSTD_isError(result) != 0) {
        throw UserError::of(
            "{} is a corrupt zstd file, or one packed with a window past 128 MiB (--long), near byte {}: {}",
            file_->name(), file_->position() - bytes.size(), ZSTD_getErrorName(result));
      }
      between_frames_ = result == 0;
      file_->take(input.pos);
    }
    return output.pos;
  }
  uint64_t disk_position() const override { return file_->position(); }

 private:
  std::unique_ptr<BufferedFile> file_;
  ZSTD_DStream* stream_;
  bool between_frames_ = true;
  bool drained_ = false;
};

class Resumed : public ByteSource {
 public:
  Resumed(std::string first, std::unique_ptr<ByteSource> rest) : first_(std::move(first)), rest_(std::move(rest)) {}

  size_t read(char* to, size_t size) override {
    const size_t count = std::min(size, first_.size() - at_);
    std::memcpy(to, first_.data() + at_, count);
    at_ += count;
    // Readers take few bytes for a short line, so as many bytes of the source as there are follow the first ones.
    return count < size ? count + rest_->read(to + count, size - count) : count;
  }
  uint64_t disk_position() const override { return rest_->disk_position(); }

 private:
  std::string first_;
  size_t at_ = 0;
  std::unique_ptr<ByteSource> rest_;
};

}  // namespace

std::unique_ptr<ByteSource> resumed(std::string first, std::unique_ptr<ByteSource> rest) {
  return std::make_unique<Resumed>(std::move(first), std::move(rest));
}

std::unique_ptr<ByteSource> without_byte_order_mark(std::unique_ptr<ByteSource> source) {
  std::string first;
  while (first.size() < utf8_mark.size() && utf8_mark.starts_with(first)) {
    std::array<char, utf8_mark.size()> more{};
    const size_t got = source->read(more.data(), utf8_mark.size() - first.size());
    if (got == 0) break;
    first.append(more.data(), got);
  }
  if (first == utf8_mark) return source;
  return resumed(std::move(first), std::move(source));
}

std::unique_ptr<ByteSource> open_bytes(const std::filesystem::path& path) {
  using namespace std::string_view_literals;
  auto file = std::make_unique<BufferedFile>(path);
  file->look_ahead(10);
  const std::string_view head = file->ahead().substr(0, 10);
  if (head.starts_with("\x1F\x8B"sv)) return std::make_unique<GzipSource>(std::move(file));
  const bool skippable_frame = head.size() >= 4 && (head[0] & 0xF0) == 0x50 && head.substr(1, 3) == "\x2A\x4D\x18"sv;
  if (head.starts_with("\x28\xB5\x2F\xFD"sv) || skippable_frame) return std::make_unique<ZstdSource>(std::move(file));
  const bool bzip2 = head.starts_with("BZh"sv) && head.size() == 10 && head.substr(4) == "1AY&SY"sv;
  const char* unread = head.starts_with(
                           "\xFD"
                           "7zXZ\0"sv)
                           ? "xz"
                       : bzip2                            ? "bzip2"
                       : head.starts_with("PK\x03\x04"sv) ? "zip"
                                                          : nullptr;
  if (head.starts_with("PAR1"sv)) {
    throw UserError::of(
        "{} is Parquet, which is read from regular files and not as text; leave --format out, or write "
        "it to a file first",
        path.string());
  }
  if (unread != nullptr) {
    throw UserError::of("{} is packed with {}, which is not read; unpack it, or pack it with gzip or zstd",
                        path.string(), unread);
  }
  return std::make_unique<PlainSource>(std::move(file));
}

}  // namespace terrace::data
