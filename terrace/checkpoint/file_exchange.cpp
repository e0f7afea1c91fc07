// Moves files in pieces; a member looks in turn at what it sends and what it receives.
#include "terrace/checkpoint/file_exchange.h"

#include <algorithm>
#include <chrono>
#include <list>
#include <memory>
#include <thread>

#include "terrace/base/text/json.h"

namespace terrace::checkpoint {
namespace {

constexpr comm::Label next_node = {.what = "copy to the next node"};
// Large enough for the rate of a network, small enough that several sources are received in turn.
constexpr int64_t message_bytes = int64_t{1} << 24;
// A call that a thread of its own makes proceeds meanwhile; training has the cores.
constexpr std::chrono::microseconds look_again{500};

// The length of a list of the files, the list, and the bytes of one file after another.
class Sending {
 public:
  Sending(comm::Comm& ranks, const FileExchange& exchange) : ranks_(ranks), to_(exchange.to) {
    Json list = Json::array();
    for (const auto& [name, file] : exchange.files) list.push_back({{"name", name}, {"bytes", file.bytes.size()}});
    list_ = std::make_shared<const std::string>(list.dump());
    length_ = std::make_shared<const int64_t>(std::ssize(*list_));
    add(std::as_bytes(std::span(length_.get(), 1)), length_);
    add(std::as_bytes(std::span(*list_)), list_);
    for (const auto& [name, file] : exchange.files) add(file.bytes, file.owner);
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
  std::shared_ptr<const std::string> list_;
  std::shared_ptr<const int64_t> length_;
  std::vector<Piece> pieces_;
  size_t next_ = 0;
  comm::Work work_;
};

// Takes the files that one member sends.
class Receiving {
 public:
  Receiving(comm::Comm& ranks, int64_t from, const FileExchange& exchange)
      : ranks_(ranks), from_(from), exchange_(exchange) {
    const auto length = std::make_shared<int64_t>();
    begin(std::as_writable_bytes(std::span(length.get(), 1)), length);
    length_ = length;
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
  void begin(std::span<std::byte> to, const comm::Owner& owner) {
    work_ = ranks_.receive(to.data(), std::ssize(to), comm::Type::uint8, from_, next_node, owner);
  }

  void take() {
    if (!list_) {
      list_ = std::make_shared<std::string>(static_cast<size_t>(*length_), ' ');
      return begin(std::as_writable_bytes(std::span(*list_)), list_);
    }
    if (!has_list_) {
      has_list_ = true;
      for (const Json& file : Json::parse(*list_))
        add(file.at("name").get<std::string>(), file.at("bytes").get<size_t>());
    }
    if (next_ == pieces_.size()) {
      ended_ = true;
    } else {
      const FileMemory& piece = pieces_[next_++];
      begin(piece.bytes, piece.owner);
    }
  }

  void add(const std::string& name, size_t bytes) {
    FileMemory file;
    try {
      file = exchange_.place(name, bytes);
    } catch (const std::exception& error) {
      if (!failure_) failure_ = UserError(error.what(), ExitCode::failure);
      const auto dropped = std::make_shared_for_overwrite<std::byte[]>(bytes);
      file = {.bytes = {dropped.get(), bytes}, .owner = dropped};
    }
    for (size_t begin = 0; begin < bytes; begin += message_bytes) {
      pieces_.push_back({file.bytes.subspan(begin, std::min<size_t>(message_bytes, bytes - begin)), file.owner});
    }
  }

  comm::Comm& ranks_;
  int64_t from_;
  const FileExchange& exchange_;
  std::shared_ptr<const int64_t> length_;
  std::shared_ptr<std::string> list_;
  bool has_list_ = false, ended_ = false;
  std::vector<FileMemory> pieces_;
  size_t next_ = 0;
  std::optional<UserError> failure_;
  comm::Work work_;
};

}  // namespace

std::optional<UserError> exchange_files(comm::Comm& ranks, const FileExchange& exchange) {
  Sending sending(ranks, exchange);
  std::list<Receiving> receiving;
  for (const int64_t from : exchange.from) receiving.emplace_back(ranks, from, exchange);
  for (bool ended = false; !ended;) {
    ended = sending.advance();
    for (Receiving& one : receiving) ended = one.advance() && ended;
    if (!ended) std::this_thread::sleep_for(look_again);
  }
  for (const Receiving& one : receiving) {
    if (one.failure()) return one.failure();
  }
  return std::nullopt;
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
