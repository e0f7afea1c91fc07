// Draws structures, divides them among the ranks and makes their batches.
#include "terrace/data/graphs/graphs_source.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "terrace/base/error.h"
#include "terrace/base/files/texts_read.h"
#include "terrace/base/problem_list.h"
#include "terrace/base/random.h"
#include "terrace/base/text/json.h"
#include "terrace/config/section_keys.h"
#include "terrace/data/graphs/structures/formula.h"
#include "terrace/data/kept_statistics.h"
#include "terrace/data/order/recorded_order.h"

namespace terrace::data {
std::span<const int64_t> held_out_part(const GraphsConfig& config, const GraphsDataset& dataset) {
  if (config.held_out.empty()) return dataset.part(config.held_out_split);
  for (const char* part : {"test", "validation"}) {
    if (!dataset.part(part).empty()) return dataset.part(part);
  }
  return dataset.part("train");
}

GraphsSource::GraphsSource(const GraphsConfig& config, const GraphsRequest& request, uint64_t seed, const Sizes& budget)
    : config_(config), request_(request) {
  throw_problems(problems_with_graphs(config, request), "problems with the graphs");
  const bool trains = config.held_out.empty();
  for (const std::string& prefix : trains ? config.train : config.held_out) {
    open_dataset(prefix, trains ? std::ssize(datasets_) : branch_of(config, prefix));
  }
  check_sizes(budget);
  if (names_statistics_file(config.statistics)) {
    statistics_ = read_graphs_statistics(config.statistics);
  } else {
    statistics_ = statistics_of_datasets();
    if (!config.kept_statistics.empty()) keep_statistics(read_graphs_statistics(config.kept_statistics));
  }
  for (Dataset& dataset : datasets_) {
    const std::string& named =
        config.train.empty() ? dataset.file->prefix() : config.train.at(static_cast<size_t>(dataset.branch));
    dataset.of_statistics = statistics_.find_dataset(named).value_or(0);
  }
  if (!trains) return;
  seed_ = seed;
  mix();
}

void GraphsSource::mix() {
  std::vector<uint64_t> sizes;
  for (const Dataset& dataset : datasets_) sizes.push_back(dataset.file->part("train").size());
  order_.emplace(std::move(sizes), config_.weights, stream_key(seed_, "order of graphs"), true, order_version_);
}

void GraphsSource::open_dataset(const std::string& prefix, int64_t branch) {
  Dataset dataset{.file = std::make_unique<const GraphsDataset>(prefix), .branch = branch};
  const GraphsDescription& all = dataset.file->description();
  dataset.counts = edge_counts(*dataset.file, request_);
  dataset.held_out = held_out_part(config_, *dataset.file);
  for (const GraphLabel& label : request_.labels) dataset.labels.push_back(all.find(label.property, label.level));
  FeatureWidths widths;
  for (const std::string& name : request_.atom_features) {
    dataset.atom_features.push_back(all.find(name, GraphLevel::atom));
    widths.atoms += all.properties.at(static_cast<size_t>(dataset.atom_features.back())).width;
  }
  for (const std::string& name : request_.edge_features) {
    dataset.edge_features.push_back(all.find(name, GraphLevel::edge));
    widths.edges += all.properties.at(static_cast<size_t>(dataset.edge_features.back())).width;
  }
  if (!request_.charge.empty()) dataset.charge = all.find(request_.charge, GraphLevel::structure);
  widths_ = widths;
  datasets_.push_back(std::move(dataset));
}

// Checks the sizes of all samples that a run may take.
void GraphsSource::check_sizes(const Sizes& budget) const {
  if (budget.empty()) return;
  for (size_t number = 0; number < datasets_.size(); ++number) {
    const GraphsDataset& dataset = *datasets_[number].file;
    const Json question = {{"budget", budget}, {"request", json_of_request(request_)}};
    found_in(files_with_counts(dataset, request_), "whether structures fit " + question.dump(), [&] {
      std::vector<Place> places;
      for (int64_t structure = 0; structure < dataset.structures(); ++structure) places.push_back({number, structure});
      check_budget(sizes_of_places(places), budget, dataset.prefix());
      return "yes";
    });
  }
}

void GraphsSource::keep_statistics(const GraphsStatistics& kept) {
  std::vector<const GraphsDataset*> files;
  for (const Dataset& dataset : datasets_) files.push_back(dataset.file.get());
  statistics_ = with_kept_statistics(std::move(statistics_), kept, files, request_);
}

GraphsStatistics GraphsSource::statistics_of_datasets() const {
  std::vector<const GraphsDataset*> files;
  std::vector<const EdgeCounts*> counts;
  std::vector<std::filesystem::path> paths;
  for (const Dataset& dataset : datasets_) {
    files.push_back(dataset.file.get());
    counts.push_back(&dataset.counts);
    const std::vector<std::filesystem::path> own = files_with_counts(*dataset.file, request_);
    paths.insert(paths.end(), own.begin(), own.end());
  }
  std::optional<GraphsStatistics> statistics;
  const std::string text = found_in(paths, "statistics of " + json_of_request(request_).dump(), [&] {
    statistics = compute_graphs_statistics(files, counts, request_);
    return exact_text(*statistics);
  });
  if (!statistics && text.empty()) statistics = compute_graphs_statistics(files, counts, request_);
  return statistics ? *std::move(statistics) : parse_graphs_statistics(text);
}

SizesOfSamples GraphsSource::sizes_of_places(std::span<const Place> places) const {
  SizesOfSamples sizes = {{"atoms", {}}, {"edges", {}}};
  std::vector<int64_t>&atoms = sizes["atoms"], &edges = sizes["edges"];
  for (const Place& place : places) {
    atoms.push_back(datasets_[place.dataset].file->atoms_of(place.structure));
    edges.push_back(edges_of(place));
  }
  return sizes;
}

int64_t GraphsSource::edges_of(const Place& place) const {
  const Dataset& dataset = datasets_.at(place.dataset);
  return data::edges_of(*dataset.file, dataset.counts, place.structure);
}

GraphsSource::Place GraphsSource::training_place(uint64_t sample) const {
  TERRACE_CHECK(order_.has_value(), "these data are held out, and have no training samples");
  const Mixture::DatasetSample drawn = order_->at(sample);
  return {drawn.dataset, datasets_[drawn.dataset].file->part("train")[drawn.sample]};
}

size_t GraphsSource::find_dataset(const std::string& name) const {
  const auto found =
      std::ranges::find_if(datasets_, [&](const Dataset& dataset) { return dataset.file->prefix() == name; });
  TERRACE_CHECK(found != datasets_.end(), "{} is none of the datasets", name);
  return static_cast<size_t>(found - datasets_.begin());
}

GraphsSource::Place GraphsSource::held_out_place(const std::string& dataset, uint64_t number) const {
  const size_t found = find_dataset(dataset);
  const std::span<const int64_t> held_out = datasets_[found].held_out;
  TERRACE_CHECK(number < held_out.size(), "{} has {} held-out structures, and no number {}", dataset, held_out.size(),
                number);
  return {found, held_out[number]};
}

uint64_t GraphsSource::held_out_samples() const {
  uint64_t samples = 0;
  for (const Dataset& dataset : datasets_) samples += dataset.held_out.size();
  return samples;
}

std::vector<GraphsSource::Place> GraphsSource::places_of(const Samples& samples) const {
  std::vector<Place> places;
  for (const uint64_t number : samples.numbers) {
    places.push_back(samples.held_out == nullptr ? training_place(number)
                                                 : held_out_place(samples.held_out->dataset, number));
  }
  return places;
}

std::optional<SampleCost> GraphsSource::cost() const {
  return SampleCost{.sample = request_.cost.graph,
                    .of_sizes = {{"atoms", request_.cost.atom}, {"edges", request_.cost.edge}}};
}

MicroBatch GraphsSource::micro_batch(const Samples& samples, const TensorNames& names) const {
  return batch(places_of(samples), {samples.numbers.begin(), samples.numbers.end()}, names);
}

std::vector<const MappedFile*> GraphsSource::staged_files() const {
  std::vector<const MappedFile*> files;
  for (const Dataset& dataset : datasets_) files.push_back(&dataset.file->file());
  return files;
}

// Returns the ranges of all that a batch is made of, whatever tensors are asked for.
FileRanges GraphsSource::ranges_of(const Samples& samples, const TensorNames& /*names*/) const {
  FileRanges ranges;
  for (const Place& place : places_of(samples)) {
    const Dataset& dataset = datasets_.at(place.dataset);
    std::vector<int64_t> properties = {dataset.charge};
    for (const auto* list : {&dataset.labels, &dataset.atom_features, &dataset.edge_features}) {
      properties.insert(properties.end(), list->begin(), list->end());
    }
    dataset.file->add_ranges(place.structure, properties, ranges);
  }
  return ranges;
}

std::vector<HeldOutPart> GraphsSource::held_out_parts() const {
  std::vector<HeldOutPart> parts;
  for (const Dataset& dataset : datasets_) {
    parts.push_back({.dataset = dataset.file->prefix(), .samples = dataset.held_out.size()});
  }
  return parts;
}

int64_t GraphsSource::items_of(uint64_t sample) const {
  const Place place = training_place(sample);
  return datasets_[place.dataset].file->atoms_of(place.structure);
}

void GraphsSource::describe(uint64_t sample, Json& record) const {
  const Place place = training_place(sample);
  const Dataset& dataset = datasets_.at(place.dataset);
  NumbersAtHand at_hand(staged());
  const GraphView view = dataset.file->structure(place.structure, &at_hand);
  record["dataset"] = dataset.file->prefix();
  record["structure"] = place.structure;
  record["file"] = dataset.file->description().sources.at(static_cast<size_t>(view.source));
  record["number_in_file"] = view.number;
  record["formula"] = formula_of(view.species);
  record["atoms"] = view.atoms();
  record["edges"] = edges_of(place);
  const GraphToBatch graph = graph_at(place, at_hand);
  for (size_t label = 0; label < request_.labels.size(); ++label) {
    const std::span<const double> values = graph.labels.at(label);
    if (!values.empty()) record["labels"][request_.labels[label].name] = std::vector(values.begin(), values.end());
  }
}

GraphToBatch GraphsSource::graph_at(const Place& place, NumbersAtHand& at_hand) const {
  const Dataset& dataset = datasets_.at(place.dataset);
  const GraphsDataset& file = *dataset.file;
  if (staged() == nullptr) file.expect(place.structure);
  const GraphView view = file.structure(place.structure, &at_hand);
  GraphToBatch graph{.species = view.species,
                     .positions = view.positions,
                     .cell = view.cell,
                     .receivers = view.receivers,
                     .senders = view.senders,
                     .branch = dataset.branch,
                     .dataset = dataset.of_statistics};
  const auto values = [&](int64_t property) { return at_hand(file.file(), file.values(property, place.structure)); };
  for (const int64_t property : dataset.atom_features) graph.atom_features.push_back(values(property));
  for (const int64_t property : dataset.edge_features) graph.edge_features.push_back(values(property));
  if (dataset.charge >= 0) graph.charge = values(dataset.charge)[0];
  for (const int64_t property : dataset.labels) {
    graph.labels.push_back(property < 0 ? std::span<const double>() : values(property));
  }
  return graph;
}

MicroBatch GraphsSource::batch(std::span<const Place> places, std::vector<int64_t> numbers,
                               const TensorNames& names) const {
  std::vector<GraphToBatch> graphs;
  NumbersAtHand at_hand(staged());  // has to live as long as the graphs
  int64_t edges = 0;
  for (const Place& place : places) {
    graphs.push_back(graph_at(place, at_hand));
    edges += edges_of(place);
  }
  MicroBatch batch = graph_batch(request_, statistics_, widths_, graphs, std::move(numbers), edges, names);
  TERRACE_CHECK(batch.sizes["edges"] == edges, "{} edges were counted, and {} are found", edges, batch.sizes["edges"]);
  return batch;
}

std::vector<AttachedFile> GraphsSource::attached_files() const {
  return {{.role = "statistics", .path = "", .stored_as = "statistics.json", .text = statistics_.text()}};
}

Json GraphsSource::identity() const {
  Json datasets = Json::array();
  for (const Dataset& dataset : datasets_) {
    const GraphsDescription& all = dataset.file->description();
    Json arrays = Json::object();
    for (const auto& [name, array] : all.arrays) arrays[name] = array.checksum;
    for (const auto* numbers : {&dataset.labels, &dataset.atom_features, &dataset.edge_features}) {
      for (const int64_t property : *numbers) {
        if (property < 0) continue;
        const GraphProperty& described = all.properties[static_cast<size_t>(property)];
        arrays[fmt::format("{} of {}", described.name, word_of(described.level))] = described.array.checksum;
      }
    }
    datasets.push_back({{"dataset", config::without_folder(dataset.file->prefix())},
                        {"structures", all.structures},
                        {"arrays", std::move(arrays)}});
  }
  // Units change nothing that is computed, and older checkpoints do not know them.
  GraphsStatistics without_units = statistics_;
  for (auto& [name, label] : without_units.labels) label.units.clear();
  const std::string statistics = without_units.text();
  Json identity = {{"datasets", std::move(datasets)}, {"statistics", checksum(std::as_bytes(std::span(statistics)))}};
  if (order_ && !config_.weights.empty()) record_order(order_version_, identity);
  if (!redefined_stresses().empty()) record_stress(identity);
  return identity;
}

std::vector<RedefinedStress> GraphsSource::redefined_stresses() const {
  std::vector<RedefinedStress> all;
  for (const Dataset& dataset : datasets_) {
    for (size_t number = 0; number < request_.labels.size(); ++number) {
      const RedefinedStress found = redefined_stress(*dataset.file, dataset.labels[number], request_.labels[number]);
      if (found.structures > 0) all.push_back(found);
    }
  }
  return all;
}

void GraphsSource::check_labels_of(const Json& older, const Json& own) const {
  check_recorded_stress(older, own, [&] { return redefined_stresses(); });
}

void GraphsSource::follow_order_of(const Json& older, Json& own) {
  if (!order_ || config_.weights.empty()) return;
  order_version_ = recorded_order(older);
  mix();
  record_order(order_version_, own);
}

std::string GraphsSource::difference(const Json& older, const Json& own, int64_t /*steps_done*/) const {
  if (older == own) return "";
  const auto names = [](const Json& identity) {
    std::vector<std::string> list;
    for (const Json& one : identity.at("datasets")) list.push_back(one.at("dataset").get<std::string>());
    return list;
  };
  if (names(older) != names(own)) {
    return fmt::format("the datasets were {}, and are {}", fmt::join(names(older), ", "), fmt::join(names(own), ", "));
  }
  for (size_t i = 0; i < names(own).size(); ++i) {
    const Json &before = older.at("datasets").at(i), &now = own.at("datasets").at(i);
    if (before == now) continue;
    const auto had = before.at("structures").get<int64_t>(), has = now.at("structures").get<int64_t>();
    if (had != has) return fmt::format("dataset {} had {} structures and has {} now", names(own)[i], had, has);
    for (const auto& [array, of_array] : now.at("arrays").items()) {
      if (!before.at("arrays").contains(array) || before.at("arrays").at(array) != of_array) {
        return fmt::format("dataset {} has other {}", names(own)[i], array);
      }
    }
    return fmt::format("dataset {} has other properties", names(own)[i]);
  }
  return "the offsets and scales of labels are others";
}

}  // namespace terrace::data
