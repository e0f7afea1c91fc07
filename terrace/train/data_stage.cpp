// Makes the staging buffer of each node, finds out what its ranks read, and starts the copying.
#include "terrace/train/data_stage.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "terrace/base/error.h"
#include "terrace/base/files/temporary_name.h"
#include "terrace/base/system/environment_variables.h"
#include "terrace/base/terminal/log.h"
#include "terrace/base/text/units.h"
#include "terrace/data/order/node_order.h"
#include "terrace/data/staging/extents.h"
#include "terrace/data/staging/staged_reader.h"
#include "terrace/train/agreement.h"
#include "terrace/train/share_neighbours.h"

namespace terrace::train {
namespace {

uint64_t range_bytes(const data::FileRanges& ranges) {
  uint64_t bytes = 0;
  for (const data::FileRange& range : ranges) bytes += range.bytes;
  return bytes;
}

uint64_t largest_of(comm::Comm& all, uint64_t number) {
  std::vector<int64_t> numbers(static_cast<size_t>(all.size()));
  const auto own = static_cast<int64_t>(number);
  all.all_gather(&own, numbers.data(), 1, comm::Type::int64, {.what = "stage data"}).wait();
  return static_cast<uint64_t>(*std::ranges::max_element(numbers));
}

}  // namespace

std::string stage_folder(const data::StageConfig& config) {
  try {
    return with_variables(config.folder);
  } catch (const UserError& error) {
    throw UserError::of("data.stage = {}", error.what());
  }
}

// The configuration may name fewer ranks a node than share memory, and more than do.
DataStage::DataStage(data::Source& source, comm::World& world, comm::Comm& all, const data::TensorNames& all_names,
                     DataStageRequest request)
    : request_(std::move(request)),
      order_(source.node_order()),
      rank_(world.rank()),
      node_size_(std::gcd(request_.ranks_per_node, world.ranks_per_node())) {
  first_of_node_ = rank_ / node_size_ * node_size_;
  reader_ = rank_ - first_of_node_;
  const std::vector<const MappedFile*> files = source.staged_files();
  TERRACE_CHECK(!files.empty(), "data.stage = \"{}\" of data that are not staged", request_.config.folder);
  const std::vector<std::vector<NodeReader>> nodes = node_readers(all, all_names);
  const std::vector<NodeReader>& readers = nodes[static_cast<size_t>(rank_ / node_size_)];
  const std::string run = broadcast_text(all, unique_process_name(), 0, "stage data");
  std::optional<UserError> problem;
  const auto attempt = [&](const auto& act) {
    try {
      act();
    } catch (const UserError& error) {
      problem = error;
    }
    agree(world, problem);
  };
  Plan plan;
  attempt([&] {
    folder_ = stage_folder(request_.config);
    buffer_ = std::make_shared<data::StagingBuffer>(folder_, fmt::format("{}-{}", run, first_of_node_));
    if (reader_ == 0) plan = plan_buffer(files, readers);
  });
  std::shared_ptr<data::NodeLinks> links;
  if (order_ != nullptr) {
    // Nodes that pass extents to each other give them the same numbers.
    plan.extent_bytes = largest_of(all, plan.extent_bytes);
    links = links_of(world, nodes);
  }
  attempt([&] {
    if (reader_ == 0) make_buffer(files, plan);
  });
  attempt([&] {
    if (reader_ != 0) buffer_->open();
  });
  buffer_->begin_step(reader_, request_.first_step);
  if (reader_ == 0) buffer_->remove_names();
  source.read_by(std::make_shared<const data::StagedReader>(buffer_, files, reader_));
  attempt([&] {
    if (reader_ != 0) return;
    const auto reads = [readers, of_rank = request_.reads](int64_t step) {
      data::FileRanges ranges;
      for (const NodeReader& reader : readers) {
        const data::FileRanges own = of_rank(step, reader.data_rank, reader.names);
        ranges.insert(ranges.end(), own.begin(), own.end());
      }
      return ranges;
    };
    stager_ = std::make_unique<data::Stager>(
        buffer_, data::StagerRequest{.files = files,
                                     .reads = reads,
                                     .first_step = request_.first_step,
                                     .last_step = request_.last_step,
                                     .folder = folder_,
                                     .links = links,
                                     .next_exchange = [this](int64_t step) { return next_exchange(step); }});
  });
}

// Returns the readers of each node. Each rank gives its data coordinate, and a bit for each of all names that it reads.
std::vector<std::vector<DataStage::NodeReader>> DataStage::node_readers(comm::Comm& all,
                                                                        const data::TensorNames& all_names) const {
  TERRACE_CHECK(all_names.size() < 64, "{} tensors of a batch", all_names.size());
  const std::vector<std::string> names(all_names.begin(), all_names.end());
  std::vector<int64_t> own = {request_.data_rank, 0};
  for (size_t i = 0; i < names.size(); ++i) {
    if (request_.names.contains(names[i])) own[1] |= int64_t{1} << i;
  }
  std::vector<int64_t> gathered(2 * static_cast<size_t>(all.size()));
  all.all_gather(own.data(), gathered.data(), 2, comm::Type::int64, {.what = "stage data"}).wait();
  std::vector<std::vector<NodeReader>> nodes;
  for (int64_t first = 0; first < all.size(); first += node_size_) {
    std::map<int64_t, int64_t> bits;  // by data coordinate: ranks with the same one read the same samples
    for (int64_t rank = first; rank < first + node_size_; ++rank) {
      bits[gathered[static_cast<size_t>(2 * rank)]] |= gathered[static_cast<size_t>(2 * rank + 1)];
    }
    std::vector<NodeReader>& readers = nodes.emplace_back();
    for (const auto& [data_rank, read] : bits) {
      NodeReader& reader = readers.emplace_back(NodeReader{.data_rank = data_rank});
      for (size_t i = 0; i < names.size(); ++i) {
        if ((read >> i & 1) != 0) reader.names.insert(names[i]);
      }
    }
  }
  return nodes;
}

int64_t DataStage::next_exchange(int64_t step) const {
  const uint64_t begins = order_->next_round_begins(request_.first_sample(step));
  return step + static_cast<int64_t>((begins - request_.first_sample(step)) / order_->batch());
}

std::shared_ptr<data::NodeLinks> DataStage::links_of(comm::World& world,
                                                     const std::vector<std::vector<NodeReader>>& nodes) const {
  std::vector<std::set<int64_t>> data_ranks;
  for (const std::vector<NodeReader>& readers : nodes) {
    std::set<int64_t>& of_node = data_ranks.emplace_back();
    for (const NodeReader& reader : readers) {
      if (!reader.names.empty()) of_node.insert(reader.data_rank);
    }
  }
  const ShareNodes shares{.shares = static_cast<int64_t>(order_->shares()), .data_ranks = request_.data_ranks};
  const std::optional<std::vector<ShareNeighbours>> neighbours = share_neighbours(shares, data_ranks);
  if (rank_ == 0) {
    log_info("data.order = \"node\": {} shares, which move on after step {}{}", order_->shares(),
             next_exchange(request_.first_step) - 1,
             neighbours ? "" : "; no node has shares of its own, so all are read from their source");
  }
  if (!neighbours || reader_ != 0) return nullptr;
  std::unique_ptr<comm::Comm> comm =
      world.connect(mesh::spaced_ranks("stage", 0, (world.size() + node_size_ - 1) / node_size_, node_size_));
  const ShareNeighbours own = (*neighbours)[static_cast<size_t>(rank_ / node_size_)];
  if (own.giver < 0) return nullptr;
  return std::make_shared<CommLinks>(std::move(comm), own);
}

DataStage::Plan DataStage::plan_buffer(const std::vector<const MappedFile*>& files,
                                       const std::vector<NodeReader>& readers) const {
  Plan plan;
  uint64_t records = 0;
  for (const NodeReader& reader : readers) {
    const data::FileRanges ranges = request_.reads(request_.first_step, reader.data_rank, reader.names);
    plan.step_bytes += range_bytes(ranges);
    records += ranges.size();
  }
  const std::vector<uint64_t> sizes = data::file_sizes(files);
  const uint64_t all = std::accumulate(sizes.begin(), sizes.end(), uint64_t{0});
  const auto steps = static_cast<uint64_t>(std::max<int64_t>(0, request_.last_step - request_.first_step + 1));
  plan.buffer_bytes = data::buffer_bytes(folder_, static_cast<uint64_t>(request_.config.bytes), all);
  const auto part = static_cast<double>(readers.size()) / static_cast<double>(request_.data_ranks);
  plan.extent_bytes = data::extent_bytes_for(
      {.file_bytes = sizes,
       .buffer_bytes = plan.buffer_bytes,
       .node_bytes = order_ != nullptr ? static_cast<uint64_t>(part * static_cast<double>(all)) : 0,
       .read_bytes = plan.step_bytes * steps,
       .record_bytes = records > 0 ? plan.step_bytes / records : 0});
  return plan;
}

void DataStage::make_buffer(const std::vector<const MappedFile*>& files, const Plan& plan) {
  const data::Extents extents(data::file_sizes(files), plan.extent_bytes);
  const uint64_t all = extents.bytes();
  const uint64_t slots =
      std::min(extents.count(), plan.buffer_bytes / plan.extent_bytes + (plan.buffer_bytes >= all ? files.size() : 0));
  if (slots == 0) {
    throw UserError::of(
        "data.stage = \"{}\": {} are {}, and one record of these data takes {}; give at least {}, or leave data.stage "
        "out",
        folder_, format_bytes(static_cast<double>(plan.buffer_bytes)),
        request_.config.bytes > 0 ? "what data.stage_bytes allows" : "free there",
        format_bytes(static_cast<double>(plan.extent_bytes)), format_bytes(static_cast<double>(2 * plan.extent_bytes)));
  }
  buffer_->make({.extent_bytes = plan.extent_bytes,
                 .slots = slots,
                 .extents = extents.count(),
                 .readers = static_cast<uint64_t>(node_size_)});
  if (rank_ != 0) return;
  log_info("stages {} of {} of data on each node in {}, in pieces of {}; a step of a node reads {}",
           format_bytes(static_cast<double>(std::min(all, slots * plan.extent_bytes))),
           format_bytes(static_cast<double>(all)), folder_, format_bytes(static_cast<double>(plan.extent_bytes)),
           format_bytes(static_cast<double>(plan.step_bytes)));
}

observe::StageMetrics DataStage::metrics() const {
  const data::StageCounts counts = buffer_->counts();
  return {.copied_bytes = static_cast<int64_t>(buffer_->copied_bytes()),
          .received_bytes = static_cast<int64_t>(buffer_->received_bytes()),
          .staged_bytes = static_cast<int64_t>(counts.staged_bytes),
          .source_bytes = static_cast<int64_t>(counts.source_bytes),
          .source_seconds = static_cast<double>(counts.source_nanoseconds) / 1e9};
}

void DataStage::finish() {
  if (stager_ != nullptr) stager_->finish();
  stager_.reset();
  if (rank_ != 0) return;
  const observe::StageMetrics done = metrics();
  const std::string received = format_bytes(static_cast<double>(done.received_bytes));
  log_info("staging on the first node: {} copied{}; {} read from the copies and {} from the source, in {}",
           format_bytes(static_cast<double>(done.copied_bytes)),
           order_ != nullptr ? fmt::format(" and {} received from other nodes", received) : "",
           format_bytes(static_cast<double>(done.staged_bytes)), format_bytes(static_cast<double>(done.source_bytes)),
           format_seconds(done.source_seconds));
}

}  // namespace terrace::train
