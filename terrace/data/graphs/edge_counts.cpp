// Counts edges by several threads, and reads and writes the file of counts.
#include "terrace/data/graphs/edge_counts.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <system_error>
#include <thread>
#include <utility>

#include "terrace/base/cores.h"
#include "terrace/base/error.h"
#include "terrace/base/file.h"
#include "terrace/base/file_lock.h"
#include "terrace/base/json.h"
#include "terrace/base/log.h"
#include "terrace/base/progress.h"
#include "terrace/data/graphs/neighbours.h"
#include "terrace/data/ordered_map.h"

namespace terrace::data {
namespace {

namespace fs = std::filesystem;

constexpr const char* counts_format = "terrace graph edges";
constexpr int counts_version = 1;
constexpr size_t counts_alignment = 64;
constexpr int64_t atoms_at_once = 2000;

// Of all that edges depend on.
std::string geometry_checksum(const GraphsDescription& description) {
  std::string checksums;
  for (const char* name : {"first_atom", "positions", "cells", "periodic"}) {
    checksums += description.arrays.at(name).checksum;
  }
  return checksum(std::as_bytes(std::span(checksums)));
}

Json counts_header(const GraphsDataset& dataset, const GraphsRequest& request) {
  return {{"format", counts_format},
          {"version", counts_version},
          {"radius", request.radius},
          {"max_neighbours", request.max_neighbours},
          {"structures", dataset.structures()},
          {"geometry", geometry_checksum(dataset.description())}};
}

// No value where there is no file, or one that does not fit.
std::optional<EdgeCounts> kept_counts(const GraphsDataset& dataset, const GraphsRequest& request) {
  const fs::path path = edge_counts_path(dataset.prefix(), request);
  std::error_code error;
  if (!fs::is_regular_file(path, error) || fs::file_size(path, error) == 0) return std::nullopt;
  try {
    const MappedFile file(path);
    const std::span<const std::byte> bytes = file.bytes();
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    const size_t line = text.find('\n');
    if (line == std::string_view::npos) return std::nullopt;
    Json header = parse_json_or_discard(text.substr(0, line));
    if (!header.is_object() || !header.contains("checksum")) return std::nullopt;
    const Json expected = header["checksum"];
    header.erase("checksum");
    if (header != counts_header(dataset, request)) return std::nullopt;
    const auto structures = static_cast<size_t>(dataset.structures());
    const std::span<const std::byte> arrays = bytes.subspan(line + 1);
    if (arrays.size() != structures * 16 || expected != checksum(arrays)) return std::nullopt;
    EdgeCounts counts{.edges = std::vector<int64_t>(structures), .log_degrees = std::vector<double>(structures)};
    std::memcpy(counts.edges.data(), arrays.data(), structures * 8);
    std::memcpy(counts.log_degrees.data(), arrays.data() + structures * 8, structures * 8);
    return counts;
  } catch (const UserError&) {
    return std::nullopt;  // it was removed, or cannot be read
  }
}

void keep_counts(const GraphsDataset& dataset, const GraphsRequest& request, const EdgeCounts& counts) {
  std::vector<std::byte> arrays;
  const auto edges = std::as_bytes(std::span(counts.edges)), degrees = std::as_bytes(std::span(counts.log_degrees));
  arrays.insert(arrays.end(), edges.begin(), edges.end());
  arrays.insert(arrays.end(), degrees.begin(), degrees.end());
  Json header = counts_header(dataset, request);
  header["checksum"] = checksum(arrays);
  std::string line = header.dump();
  line.resize((line.size() / counts_alignment + 1) * counts_alignment, ' ');
  line.back() = '\n';
  const fs::path path = edge_counts_path(dataset.prefix(), request);
  try {
    AtomicFile file(path);
    file.write(line);
    file.write(arrays.data(), arrays.size());
    file.commit();
  } catch (const std::system_error& error) {
    log_info("the numbers of edges are counted at every start, since they cannot be kept: {}", error.what());
  }
}

void add_degrees(std::span<const int64_t> degrees, int64_t& edges, double& log_degrees) {
  for (const int64_t degree : degrees) {
    edges += degree;
    log_degrees += std::log(static_cast<double>(degree + 1));
  }
}

std::pair<int64_t, double> counted_edges(const GraphsDataset& dataset, const NeighbourOptions& options,
                                         int64_t structure) {
  const GraphView view = dataset.structure(structure);
  std::vector<int64_t> degrees;
  try {
    const NeighbourList list = find_neighbours(view.positions, view.cell, options);
    for (size_t atom = 0; atom + 1 < list.first_edge.size(); ++atom) {
      degrees.push_back(list.first_edge[atom + 1] - list.first_edge[atom]);
    }
  } catch (const UserError& error) {
    throw UserError::of("{}: structure {} (of {}, structure {}): {}", dataset.prefix(), structure + 1,
                        dataset.description().sources.at(static_cast<size_t>(view.source)), view.number + 1,
                        error.what());
  }
  std::pair<int64_t, double> sums;
  add_degrees(degrees, sums.first, sums.second);
  return sums;
}

struct CountedRange {
  int64_t end = 0;
  std::vector<std::pair<int64_t, double>> sums = {};
};

EdgeCounts count_edges(const GraphsDataset& dataset, const NeighbourOptions& options) {
  EdgeCounts counts;
  Progress progress("counting edges of " + dataset.prefix(), static_cast<uint64_t>(dataset.structures()));
  int64_t next = 0;
  const auto produce = [&]() -> std::optional<std::pair<int64_t, int64_t>> {
    if (next == dataset.structures()) return std::nullopt;
    const int64_t begin = next;
    for (int64_t atoms = 0; next < dataset.structures() && atoms < atoms_at_once; ++next) {
      atoms += dataset.atoms_of(next);
    }
    return std::pair(begin, next);
  };
  const auto count = [&](std::pair<int64_t, int64_t>& range) {
    CountedRange counted{.end = range.second};
    for (int64_t structure = range.first; structure < range.second; ++structure) {
      counted.sums.push_back(counted_edges(dataset, options, structure));
    }
    return counted;
  };
  ordered_map<std::pair<int64_t, int64_t>, CountedRange>(
      static_cast<int>(usable_cores()), produce,
      [&] { return std::function<CountedRange(std::pair<int64_t, int64_t>&)>(count); },
      [&](CountedRange& counted) {
        for (const auto& [edges, log_degrees] : counted.sums) {
          counts.edges.push_back(edges);
          counts.log_degrees.push_back(log_degrees);
        }
        progress.update(static_cast<uint64_t>(counted.end));
      });
  return counts;
}

EdgeCounts given_counts(const GraphsDataset& dataset) {
  EdgeCounts counts;
  for (int64_t structure = 0; structure < dataset.structures(); ++structure) {
    const GraphView view = dataset.structure(structure);
    std::vector<int64_t> degrees(view.species.size());
    for (const int32_t receiver : view.receivers) {
      if (receiver >= 0 && receiver < view.atoms()) ++degrees[static_cast<size_t>(receiver)];
    }
    add_degrees(degrees, counts.edges.emplace_back(), counts.log_degrees.emplace_back());
  }
  return counts;
}

// No value where another rank holds it.
std::unique_ptr<FileLock> lock_or_nothing(const fs::path& path) {
  try {
    return std::make_unique<FileLock>(path, "is held");
  } catch (const UserError&) {
    return nullptr;
  }
}

}  // namespace

fs::path edge_counts_path(const std::string& prefix, const GraphsRequest& request) {
  return fmt::format("{}.edges_{}_{}.bin", prefix, request.radius, request.max_neighbours);
}

EdgeCounts edge_counts(const GraphsDataset& dataset, const GraphsRequest& request) {
  if (request.given_edges) return given_counts(dataset);
  const NeighbourOptions options{.cutoff = request.radius, .max_neighbours = request.max_neighbours};
  // The description's file, so that no other file is left; it is not changed.
  const fs::path locked = graphs_description_path(dataset.prefix());
  const fs::path folder = locked.has_parent_path() ? locked.parent_path() : fs::path(".");
  const bool can_keep = ::access(folder.c_str(), W_OK) == 0 && ::access(locked.c_str(), W_OK) == 0;
  for (;; std::this_thread::sleep_for(std::chrono::milliseconds(50))) {
    if (std::optional<EdgeCounts> kept = kept_counts(dataset, request)) return std::move(*kept);
    if (!can_keep) return count_edges(dataset, options);
    try {
      const std::unique_ptr<FileLock> lock = lock_or_nothing(locked);
      if (lock == nullptr) continue;
      if (std::optional<EdgeCounts> kept = kept_counts(dataset, request)) return std::move(*kept);
      EdgeCounts counts = count_edges(dataset, options);
      keep_counts(dataset, request, counts);
      return counts;
    } catch (const std::system_error&) {
      return count_edges(dataset, options);  // the lock's file cannot be opened
    }
  }
}

}  // namespace terrace::data
