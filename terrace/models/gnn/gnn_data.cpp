// Opens prepared graphs for a graph network, and makes the random graphs that verify trains on.
#include "terrace/models/gnn/gnn_data.h"

#include <fmt/format.h>

#include "terrace/base/random.h"
#include "terrace/data/graphs/graph_batch.h"
#include "terrace/data/graphs/graphs_source.h"
#include "terrace/data/graphs/prepare_graphs.h"
#include "terrace/models/gnn/cost/request.h"
#include "terrace/models/gnn/cost/unit_table.h"
#include "terrace/models/gnn/settings/config.h"

namespace terrace::models::gnn {
namespace {

// The features of which the model reads another number of columns than the dataset has.
void add_wrong_widths(const data::GraphsDescription& description, const std::string& prefix, const char* key,
                      const Sizes& features, data::GraphLevel level, std::vector<std::string>& problems) {
  for (const auto& [name, columns] : features) {
    const int64_t number = description.find(name, level);
    if (number < 0) continue;  // the source says that it is missing
    const int64_t own = description.properties[static_cast<size_t>(number)].width;
    if (own == columns) continue;
    problems.push_back(fmt::format("model.{} has {} = {}, and {} has {} columns of it; use {} = {}", key, name, columns,
                                   prefix, own, name, own));
  }
}

// Draws numbers of a sample one after another.
class Draws {
 public:
  Draws(uint64_t seed, int64_t sample) : key_(stream_key(seed, "verify graphs")), sample_(sample) {}

  // A number from 0 up to 1, in steps of 1 / 1024, whose sums are exact.
  double share() {
    return static_cast<double>(philox_at(key_, static_cast<uint64_t>(sample_), at_++)[0] % 1024) / 1024;
  }
  std::vector<double> numbers(int64_t count) {
    std::vector<double> values;
    for (int64_t i = 0; i < count; ++i) values.push_back(4 * share() - 2);
    return values;
  }

 private:
  PhiloxKey key_;
  int64_t sample_;
  uint64_t at_ = 0;
};

// A graph with what its spans lie in.
struct RandomGraph {
  std::vector<uint8_t> species = {};
  std::vector<double> positions = {};
  std::vector<int32_t> receivers = {}, senders = {};
  std::vector<std::vector<double>> atom_features = {}, edge_features = {}, labels = {};
  data::GraphToBatch graph = {};
};

RandomGraph random_graph(const ModelConfig& model, uint64_t seed, int64_t sample) {
  Draws draws(seed, sample);
  RandomGraph random;
  const int64_t atoms = 1 + sample % 5;
  for (int64_t atom = 0; atom < atoms; ++atom) {
    random.species.push_back(static_cast<uint8_t>(1 + 7 * draws.share()));
    random.positions.push_back(0.7 * model.radius * static_cast<double>(atom));
    for (int i = 0; i < 2; ++i) random.positions.push_back(0.4 * model.radius * draws.share());
    for (int64_t other = 0; other < atoms; ++other) {
      if (other == atom) continue;
      random.receivers.push_back(static_cast<int32_t>(atom));
      random.senders.push_back(static_cast<int32_t>(other));
    }
  }
  const int64_t edges = std::ssize(random.receivers);
  for (const auto& [name, columns] : model.atom_features)
    random.atom_features.push_back(draws.numbers(atoms * columns));
  for (const auto& [name, columns] : model.edge_features)
    random.edge_features.push_back(draws.numbers(edges * columns));
  for (const OutputConfig& output : model.outputs) {
    const bool has_label = sample % 4 != 3;
    random.labels.push_back(draws.numbers(has_label ? output.label_columns() * (output.of_atoms() ? atoms : 1) : 0));
  }
  // The cell has a volume of 1, since there is no stress without a volume.
  random.graph.cell.vectors = {{{1, 0, 0}, {0, 1, 0}, {0, 0, 1}}};
  random.graph.charge = draws.share();
  random.graph.branch = sample % model.head_copies();
  return random;
}

// Statistics with a scale of 1 for every label and without offsets.
data::GraphsStatistics plain_statistics(const ModelConfig& model) {
  data::GraphsStatistics statistics{.datasets = {"random"}, .degree_means = {1.2, 2.5}};
  for (const data::GraphLabel& label : graphs_request(model).labels) {
    const data::OffsetOfDataset none{.mean = std::vector<double>(static_cast<size_t>(label.width), 0.0)};
    statistics.labels[label.name] = {.property = label.property,
                                     .offset = data::LabelOffset::none,
                                     .per_atom = label.per_atom,
                                     .scaled_as = label.scaled_as,
                                     .scale = 1,
                                     .offsets = {none}};
  }
  return statistics;
}

}  // namespace

std::unique_ptr<data::Source> GnnData::open(const config::Config& config) const {
  return std::make_unique<data::GraphsSource>(data_of(config), graphs_request(model_of(config)), config.train.seed,
                                              config.train.micro_batch_sizes);
}

std::vector<std::string> GnnData::problems_with_files(const config::Config& config) const {
  const ModelConfig& model = model_of(config);
  std::vector<std::string> problems =
      data::problems_with_graphs(data_of(config), graphs_request(model), config.train.evaluate_every > 0);
  if (!problems.empty()) return problems;
  for (const std::string& prefix : data_of(config).train) {
    const data::GraphsDescription description = data::read_graphs_description(data::graphs_description_path(prefix));
    add_wrong_widths(description, prefix, "atom_features", model.atom_features, data::GraphLevel::atom, problems);
    add_wrong_widths(description, prefix, "edge_features", model.edge_features, data::GraphLevel::edge, problems);
  }
  return problems;
}

std::vector<std::pair<std::string, std::string>> GnnData::file_facts(const config::Config& config) const {
  return data::facts_of_graphs(data_of(config));
}

data::StageConfig GnnData::stage(const config::Config& config) const { return data_of(config).stage; }

void GnnData::hold_out(config::Config& config, const std::vector<std::string>& datasets,
                       const AttachedPaths& attached) const {
  data::hold_out_graphs(data_of(config), datasets, attached);
}

void GnnData::take_attached(config::Config& config, const AttachedPaths& attached) const {
  data::take_attached_graph_statistics(data_of(config), attached);
}

std::string GnnData::keep_statistics(config::Config& config, const AttachedPaths& attached) const {
  return data::keep_graph_statistics(data_of(config), attached);
}

const data::Preparation* GnnData::preparation() const {
  static const data::GraphsPreparation preparation;
  return &preparation;
}

data::MicroBatch GnnData::random_batch(const config::Config& config, std::span<const int64_t> samples) const {
  const ModelConfig& model = model_of(config);
  std::vector<RandomGraph> random;
  std::vector<data::GraphToBatch> graphs;
  for (const int64_t sample : samples) random.push_back(random_graph(model, config.train.seed, sample));
  int64_t edges = 0;
  for (RandomGraph& one : random) {
    one.graph.species = one.species;
    one.graph.positions = one.positions;
    if (model.edges == Edges::given) {
      one.graph.receivers = one.receivers;
      one.graph.senders = one.senders;
      edges += std::ssize(one.receivers);
    }
    one.graph.atom_features.assign(one.atom_features.begin(), one.atom_features.end());
    one.graph.edge_features.assign(one.edge_features.begin(), one.edge_features.end());
    one.graph.labels.assign(one.labels.begin(), one.labels.end());
    graphs.push_back(one.graph);
  }
  const data::TensorNames names = schedule::batch_tensors_of(unit_table(model, {}));
  data::GraphsRequest request = graphs_request(model);
  for (data::GraphLabel& label : request.labels) label.offset = data::LabelOffset::none;
  return data::graph_batch(request, plain_statistics(model),
                           {.atoms = model.num_atom_features(), .edges = model.num_edge_features()}, graphs,
                           {samples.begin(), samples.end()}, edges, names);
}

}  // namespace terrace::models::gnn
