// Moves files in pieces; a member looks in turn at what it sends and what it receives.
#include "terrace/checkpoint/file_exchange.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <list>
#include <memory>
#include <span>
#include <thread>
#include <utility>

#include "terrace/base/files/file.h"
#include "terrace/base/text/json.h"

namespace terrace::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr comm::Label next_node = {.what = "copy to the next node"};
// Large enough for the rate of a network, small enough that memory for pieces does not matter.
constexpr int64_t message_bytes = int64_t{1} << 24;
// A call that a thread of its own makes proceeds meanwhile; training has the cores.
constexpr std::chrono::microseconds look_again{500};

// The length of a list of the files, the list, and the bytes of one file after another.
class Sending {
 public:
  Sending(comm::Comm& ranks, const std::vector<fs::path>& files, int64_t to) : ranks_(ranks), to_(to) {
    Json list = Json::array();
    for (const fs::path& path : files) {
      try {
        const auto file = std::make_shared<const MappedFile>(path);
        list.push_back({{"name", path.filename().string()}, {"bytes", file->bytes().size()}});
        files_.push_back(file);
      } catch (const UserError& error) {
        failure_ = error;  // the others are sent, since their receiver waits
      }
    }
    const auto text = std::make_shared<const std::string>(list.dump());
    const auto length = std::make_shared<const int64_t>(std::ssize(*text));
    add({reinterpret_cast<const std::byte*>(length.get()), sizeof(int64_t)}, length);
    add({reinterpret_cast<const std::byte*>(text->data()), text->size()}, text);
    for (const auto& file : files_) add(file->bytes(), file);
  }

  // Sends what can be sent now; returns whether all has been sent.
  bool advance() {
    while (true) {
      if (!work_.done()) return false;
      work_.wait();
      if (next_ == pieces_.size()) return true;
      const Piece& piece = pieces_[next_++];
      work_ = ranks_.send(piece.bytes.data(), std::ssize(piece.bytes), comm::Type::uint8, to_, next_node, piece.owner);
    }
  }

  const std::optional<UserError>& failure() const { return failure_; }

 private:
  struct Piece {
    std::span<const std::byte> bytes;
    comm::Owner owner;
  };

  void add(std::span<const std::byte> bytes, const comm::Owner& owner) {
    for (size_t begin = 0; begin < bytes.size(); begin += message_bytes) {
      pieces_.push_back({bytes.subspan(begin, std::min<size_t>(message_bytes, bytes.size() - begin)), owner});
    }
  }

  comm::Comm& ranks_;
  int64_t to_;
  std::vector<std::shared_ptr<const MappedFile>> files_;
  std::vector<Piece> pieces_;
  size_t next_ = 0;
  std::optional<UserError> failure_;
  comm::Work work_;
};

// Writes the files that one member sends into a folder.
class Receiving {
 public:
  Receiving(comm::Comm& ranks, int64_t from, fs::path folder) : ranks_(ranks), from_(from), folder_(std::move(folder)) {
    begin(sizeof(int64_t));
  }

  // Takes what has arrived; returns whether all has.
  bool advance() {
    while (!ended_) {
      if (!work_.done()) return false;
      work_.wait();
      take();
    }
    return true;
  }

  const std::optional<UserError>& failure() const { return failure_; }

 private:
  // The buffer is kept for the next pieces, since the pages of a new one have to be cleared.
  void begin(int64_t bytes) {
    if (bytes > capacity_) {
      buffer_ = std::make_shared_for_overwrite<std::byte[]>(static_cast<size_t>(bytes));
      capacity_ = bytes;
    }
    piece_ = {buffer_.get(), static_cast<size_t>(bytes)};
    work_ = ranks_.receive(piece_.data(), bytes, comm::Type::uint8, from_, next_node, buffer_);
  }

  void take() {
    if (!has_length_) {
      has_length_ = true;
      int64_t length = 0;
      std::memcpy(&length, piece_.data(), sizeof length);
      return begin(length);
    }
    if (!has_list_) {
      has_list_ = true;
      for (const Json& file : Json::parse(std::string(reinterpret_cast<const char*>(piece_.data()), piece_.size()))) {
        files_.push_back({file.at("name").get<std::string>(), file.at("bytes").get<int64_t>()});
      }
    } else {
      attempt([&] { file_->write(piece_.data(), piece_.size()); });
      files_.front().bytes -= std::ssize(piece_);
      if (files_.front().bytes == 0) end_file();
    }
    begin_next();
  }

  void begin_next() {
    while (!files_.empty()) {
      if (!file_) attempt([&] { file_.emplace(path_of(files_.front().name)); });
      if (files_.front().bytes > 0) return begin(std::min(files_.front().bytes, message_bytes));
      end_file();
    }
    ended_ = true;
  }

  void end_file() {
    attempt([&] { file_->commit(); });
    file_.reset();
    files_.pop_front();
  }

  fs::path path_of(const std::string& name) const {
    if (fs::path(name).filename() == name && !name.starts_with('.')) return folder_ / name;
    throw UserError::of("rank {} sends a file of the name {}, which is no plain name", from_, name);
  }

  // After a failure the rest is received and dropped, so that the sender comes to its end.
  template <typename Action>
  void attempt(Action&& action) {
    if (failure_) return;
    try {
      action();
    } catch (const std::exception& error) {
      failure_ = UserError(error.what(), ExitCode::failure);
      file_.reset();
    }
  }

  struct File {
    std::string name;
    int64_t bytes;  // that have not arrived
  };

  comm::Comm& ranks_;
  int64_t from_;
  fs::path folder_;
  bool has_length_ = false, has_list_ = false, ended_ = false;
  std::list<File> files_;  // the first is being received
  std::optional<AtomicFile> file_;
  std::optional<UserError> failure_;
  std::shared_ptr<std::byte[]> buffer_;
  int64_t capacity_ = 0;
  std::span<std::byte> piece_;  // of the buffer, that is being received
  comm::Work work_;
};

}  // namespace

std::optional<UserError> exchange_files(comm::Comm& ranks, const FileExchange& exchange) {
  Sending sending(ranks, exchange.files, exchange.to);
  std::list<Receiving> receiving;
  for (const int64_t from : exchange.from) receiving.emplace_back(ranks, from, exchange.folder);
  for (bool ended = false; !ended;) {
    ended = sending.advance();
    for (Receiving& one : receiving) ended = one.advance() && ended;
    if (!ended) std::this_thread::sleep_for(look_again);
  }
  for (const Receiving& one : receiving) {
    if (one.failure()) return one.failure();
  }
  return sending.failure();
}

std::vector<int64_t> receivers_of(const std::vector<int64_t>& node_of) {
  const int64_t nodes = node_of.empty() ? 0 : *std::ranges::max_element(node_of) + 1;
  if (nodes < 2) return {};
  std::vector<std::vector<int64_t>> members(static_cast<size_t>(nodes));
  for (size_t member = 0; member < node_of.size(); ++member) {
    members[static_cast<size_t>(node_of[member])].push_back(static_cast<int64_t>(member));
  }
  std::vector<int64_t> receivers(node_of.size());
  for (size_t node = 0; node < members.size(); ++node) {
    const std::vector<int64_t>& next = members[(node + 1) % members.size()];
    for (size_t i = 0; i < members[node].size(); ++i) {
      receivers[static_cast<size_t>(members[node][i])] = next[i % next.size()];
    }
  }
  return receivers;
}

}  // namespace terrace::checkpoint
