// Counts edges by several threads, and reads and writes the file of counts.
#include "terrace/data/graphs/dataset/edge_counts.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include "terrace/base/error.h"
#include "terrace/base/files/file.h"
#include "terrace/base/files/file_lock.h"
#include "terrace/base/files/texts_read.h"
#include "terrace/base/system/cores.h"
#include "terrace/base/terminal/log.h"
#include "terrace/base/terminal/progress.h"
#include "terrace/base/text/json.h"
#include "terrace/data/graphs/neighbours.h"
#include "terrace/data/ordered_map.h"

namespace terrace::data {
namespace {

namespace fs = std::filesystem;

constexpr const char* counts_format = "terrace graph edges";
constexpr int counts_version = 1;
constexpr size_t counts_alignment = 64;
constexpr int64_t atoms_at_once = 2000;

// Returns a checksum of all that edges depend on.
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

// Returns the bytes of the arrays in the file of counts.
size_t bytes_of_arrays(const GraphsDataset& dataset) {
  return static_cast<size_t>(dataset.structures()) * (sizeof(int64_t) + sizeof(double));
}

EdgeCounts counts_in(std::shared_ptr<const void> memory, std::span<const std::byte> arrays) {
  const size_t structures = arrays.size() / (sizeof(int64_t) + sizeof(double));
  const std::byte* degrees = arrays.data() + structures * sizeof(int64_t);
  return {.edges = {reinterpret_cast<const int64_t*>(arrays.data()), structures},
          .log_degrees = {reinterpret_cast<const double*>(degrees), structures},
          .memory = std::move(memory)};
}

template <typename Number>
void append_bytes(std::span<const Number> numbers, std::string& arrays) {
  arrays.append(reinterpret_cast<const char*>(numbers.data()), numbers.size_bytes());
}

std::string arrays_of(const EdgeCounts& counts) {
  std::string arrays;
  append_bytes(counts.edges, arrays);
  append_bytes(counts.log_degrees, arrays);
  return arrays;
}

// Returns whether the bytes of a file are these counts, undamaged. Reads the whole file.
bool has_counts(std::span<const std::byte> bytes, const Json& header, size_t bytes_of_arrays) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const size_t line = text.find('\n');
  if (line == std::string_view::npos || (line + 1) % counts_alignment != 0) return false;
  Json own = parse_json_or_discard(text.substr(0, line));
  if (!own.is_object() || !own.contains("checksum")) return false;
  const Json expected = own["checksum"];
  own.erase("checksum");
  const std::span<const std::byte> arrays = bytes.subspan(line + 1);
  return own == header && arrays.size() == bytes_of_arrays && expected == checksum(arrays);
}

// Returns the counts in the file; no value where there is no file, or one that does not fit.
std::optional<EdgeCounts> kept_counts(const GraphsDataset& dataset, const GraphsRequest& request) {
  const fs::path path = edge_counts_path(dataset.prefix(), request);
  std::error_code error;
  if (!fs::is_regular_file(path, error)) return std::nullopt;
  const Json header = counts_header(dataset, request);
  const size_t size = bytes_of_arrays(dataset);
  try {
    const std::string fits = found_in({path}, "whether it has the counts of " + header.dump(), [&] {
      return has_counts(MappedFile(path).bytes(), header, size) ? "yes" : "no";
    });
    if (fits != "yes") return std::nullopt;
    auto file = std::make_shared<const MappedFile>(path);
    const std::span<const std::byte> bytes = file->bytes();
    // The file may be another one by now.
    if (bytes.size() < size || (bytes.size() - size) % counts_alignment != 0) return std::nullopt;
    return counts_in(std::move(file), bytes.last(size));
  } catch (const UserError&) {
    return std::nullopt;  // it was removed, or cannot be read
  }
}

void keep_counts(const GraphsDataset& dataset, const GraphsRequest& request, const std::string& arrays) {
  Json header = counts_header(dataset, request);
  header["checksum"] = checksum(std::as_bytes(std::span(arrays)));
  std::string line = header.dump();
  line.resize((line.size() / counts_alignment + 1) * counts_alignment, ' ');
  line.back() = '\n';
  const fs::path path = edge_counts_path(dataset.prefix(), request);
  try {
    AtomicFile file(path);
    file.write(line);
    file.write(arrays);
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
    if (error.code == ExitCode::stopped) throw;
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

// Counts all edges and returns the arrays of the file.
std::string count_edges(const GraphsDataset& dataset, const GraphsRequest& request) {
  const NeighbourOptions options{.cutoff = request.radius, .max_neighbours = request.max_neighbours};
  std::vector<int64_t> all_edges;
  std::vector<double> all_log_degrees;
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
          all_edges.push_back(edges);
          all_log_degrees.push_back(log_degrees);
        }
        progress.update(static_cast<uint64_t>(counted.end));
      });
  return arrays_of({.edges = all_edges, .log_degrees = all_log_degrees});
}

// A batch is sorted by the numbers of given edges, so numbers of atoms that are not there would leave its memory.
void check_given_edges(const GraphsDataset& dataset) {
  for (int64_t structure = 0; structure < dataset.structures(); ++structure) {
    const GraphView view = dataset.structure(structure);
    const auto is_there = [&](int32_t atom) { return atom >= 0 && atom < view.atoms(); };
    if (std::ranges::all_of(view.receivers, is_there) && std::ranges::all_of(view.senders, is_there)) continue;
    throw UserError::of("{} has edges of atoms that are not there, in structure {}; it is damaged, so copy it again",
                        dataset.file().path().string(), structure + 1);
  }
}

// Locks the file; returns null where another rank holds it.
std::unique_ptr<FileLock> lock_or_nothing(const fs::path& path) {
  try {
    return std::make_unique<FileLock>(path, "is held");
  } catch (const UserError&) {
    return nullptr;
  }
}

// Returns the arrays of the file, as this process or another one has counted them.
std::string count_and_keep(const GraphsDataset& dataset, const GraphsRequest& request) {
  // The file of the description is locked, so that no other file is left; it is not changed.
  const fs::path locked = graphs_description_path(dataset.prefix());
  const fs::path folder = locked.has_parent_path() ? locked.parent_path() : fs::path(".");
  const bool can_keep = ::access(folder.c_str(), W_OK) == 0 && ::access(locked.c_str(), W_OK) == 0;
  if (!can_keep) return count_edges(dataset, request);
  for (;; std::this_thread::sleep_for(std::chrono::milliseconds(50))) {
    if (const std::optional<EdgeCounts> kept = kept_counts(dataset, request)) return arrays_of(*kept);
    try {
      const std::unique_ptr<FileLock> lock = lock_or_nothing(locked);
      if (lock == nullptr) continue;
      if (const std::optional<EdgeCounts> kept = kept_counts(dataset, request)) return arrays_of(*kept);
      std::string arrays = count_edges(dataset, request);
      keep_counts(dataset, request, arrays);
      return arrays;
    } catch (const std::system_error&) {
      return count_edges(dataset, request);  // the lock's file cannot be opened
    }
  }
}

}  // namespace

fs::path edge_counts_path(const std::string& prefix, const GraphsRequest& request) {
  return fmt::format("{}.edges_{}_{}.bin", prefix, request.radius, request.max_neighbours);
}

std::vector<fs::path> files_with_counts(const GraphsDataset& dataset, const GraphsRequest& request) {
  std::vector<fs::path> files = dataset.files();
  if (!request.given_edges) files.push_back(edge_counts_path(dataset.prefix(), request));
  return files;
}

bool EdgeCounts::operator==(const EdgeCounts& other) const {
  return std::ranges::equal(edges, other.edges) && std::ranges::equal(log_degrees, other.log_degrees);
}

int64_t edges_of(const GraphsDataset& dataset, const EdgeCounts& counts, int64_t structure) {
  return counts.edges.empty() ? dataset.given_edges_of(structure) : counts.edges[static_cast<size_t>(structure)];
}

double log_degrees_of(const GraphsDataset& dataset, const EdgeCounts& counts, int64_t structure) {
  if (!counts.edges.empty()) return counts.log_degrees[static_cast<size_t>(structure)];
  const GraphView view = dataset.structure(structure);
  std::vector<int64_t> degrees(view.species.size());
  for (const int32_t receiver : view.receivers) ++degrees[static_cast<size_t>(receiver)];
  int64_t edges = 0;
  double log_degrees = 0;
  add_degrees(degrees, edges, log_degrees);
  return log_degrees;
}

EdgeCounts edge_counts(const GraphsDataset& dataset, const GraphsRequest& request) {
  if (request.given_edges) {
    found_in(dataset.files(), "whether edges have atoms that are there", [&] {
      check_given_edges(dataset);
      return "yes";
    });
    return {};
  }
  if (std::optional<EdgeCounts> kept = kept_counts(dataset, request)) return *std::move(kept);
  const std::string arrays =
      found_in(dataset.files(), "the edges counted for " + counts_header(dataset, request).dump(),
               [&] { return count_and_keep(dataset, request); });
  // The file is taken once more, so that other processes need not ask whether it fits.
  if (std::optional<EdgeCounts> kept = kept_counts(dataset, request)) return *std::move(kept);
  const std::span<const std::byte> bytes = std::as_bytes(std::span(arrays));
  auto memory = std::make_shared<const std::vector<std::byte>>(bytes.begin(), bytes.end());
  return counts_in(memory, *memory);
}

}  // namespace terrace::data
