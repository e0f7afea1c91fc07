// Copies what the ranks of a node will read into the buffer of the node, ahead of its use, on a thread of its own.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "terrace/data/staging/copy_order.h"
#include "terrace/data/staging/extents.h"
#include "terrace/data/staging/file_range.h"
#include "terrace/data/staging/share_exchange.h"
#include "terrace/data/staging/staging_buffer.h"

namespace terrace::data {

// The number of steps before the readers' first one whose data may still be read, by the evaluation after a step.
inline constexpr int64_t steps_of_readers = 3;

struct StagerRequest {
  std::vector<const MappedFile*> files = {};  // outlive the stager
  // Returns what all ranks of the node read in a step, in the order of their reads. Called on the stager's thread.
  std::function<FileRanges(int64_t step)> reads = {};
  int64_t first_step = 1, last_step = 0;
  std::string folder = {};  // data.stage, for messages
  // The links to the node's neighbours where shares of the data move from node to node, and the first step after `step`
  // in which ranks read other shares. What is read from that step on is copied after an exchange with the neighbours,
  // which begins when all ranks of the node have come to the step.
  std::shared_ptr<NodeLinks> links = nullptr;
  std::function<int64_t(int64_t step)> next_exchange = {};
};

class Stager : private ExchangeSide {
 public:
  // Begins to copy at once. The buffer was made by this process.
  Stager(std::shared_ptr<StagingBuffer> buffer, StagerRequest request);
  Stager(const Stager&) = delete;
  ~Stager() override;

  // Ends the copying, and the exchanges with other nodes, which all nodes end at about the same time. Without this call
  // the neighbours wait.
  void finish();

 private:
  // A file to copy from, as it was when the stager began.
  struct Source {
    int descriptor = -1;
    int64_t bytes = 0, seconds = 0, nanoseconds = 0;  // size, and time of the last change
  };
  void run();
  // Returns whether there may be more to copy at once.
  bool make_progress();
  bool add_step();
  void copy_from_source(const CopyOrder::Copy& copy);
  bool write(const CopyOrder::Copy& copy, std::span<const std::byte> bytes);  // returns whether it is there
  void exchange_shares();
  // Returns a copy for which there is room; waits a little for readers that still need what it replaces.
  std::optional<CopyOrder::Copy> next_with_room();

  std::vector<uint32_t> missing(size_t at_most) override;
  void hold(uint32_t extent) override { order_.hold(extent); }
  void release(uint32_t extent) override { order_.release(extent); }
  bool store(std::span<const Received> received) override;
  bool ending() override { return finishing_ || cancelled_; }

  bool unchanged(size_t file);
  void stop(const std::string& why);

  std::shared_ptr<StagingBuffer> buffer_;
  StagerRequest request_;
  Extents extents_;
  CopyOrder order_;
  std::vector<Source> sources_;
  std::vector<std::byte> copied_;
  int64_t next_step_;
  bool ended_ = false;  // nothing is copied any more
  std::optional<ShareExchange> exchange_;
  int64_t exchange_step_ = 0;             // the step of the next exchange
  std::vector<CopyOrder::Copy> lacking_;  // in an exchange under way, copies that the giver does not have
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stops_ = false;
  std::atomic<bool> finishing_ = false, cancelled_ = false;
  std::thread thread_;
};

}  // namespace terrace::data
