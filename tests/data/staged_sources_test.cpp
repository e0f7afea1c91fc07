// Every kind of data gives the same batches through a buffer, and announces all that it reads of its files.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <memory>
#include <vector>

#include "terrace/data/graphs/graphs_source.h"
#include "terrace/data/text/text_source.h"
#include "tests/data/graph_files.h"
#include "tests/data/stage_files.h"

namespace terrace::data {
namespace {

TEST(StagedSources, TextIsTheSame) {
  const TemporaryFolder folder;
  for (const char* name : {"a", "b"}) {
    CorpusWriter writer(folder / name, 500, {.overwrite = true});
    for (uint64_t document = 0; document < 300; ++document) {
      std::vector<int32_t> tokens;
      for (uint64_t i = 0; i < 100; ++i)
        tokens.push_back(static_cast<int32_t>(philox_at({6, 7}, document, i)[0] % 500));
      writer.append(tokens);
      writer.end_document();
    }
    writer.commit();
  }
  const TextConfig config{.train = {folder / "a", folder / "b"}, .validation_share = 0.05, .reset_at_documents = true};
  expect_same_when_staged(folder, [&] { return std::make_unique<TextSource>(config, 64, 500, 1); },
                          {"tokens", "targets", "positions", "documents", "document_starts"});
  // A stage of a pipeline that reads no tokens reads nothing.
  EXPECT_TRUE(TextSource(config, 64, 500, 1).reads(staged_share(1, 0), {}).empty());
}

TEST(StagedSources, GraphsAreTheSame) {
  const TemporaryFolder folder;
  std::string text;
  for (uint64_t k = 0; k < 400; ++k) {
    const uint64_t atoms = 1 + k % 7;
    text += fmt::format("{}\n{}energy={} charge={} Properties=species:S:1:pos:R:3:forces:R:3:spin:R:1\n", atoms,
                        k % 3 == 0 ? "Lattice=\"8 0 0 0 9 0 0 1 10\" " : "", 0.5 * static_cast<double>(k % 11), k % 2);
    for (uint64_t atom = 0; atom < atoms; ++atom) {
      text += fmt::format("{} {} {} 0.1 {} 0.2 -0.3 1\n", atom % 2 == 0 ? "C" : "H", 1.2 * static_cast<double>(atom),
                          static_cast<double>(philox_at({1, 2}, k, atom)[0] % 97) / 97, static_cast<double>(k % 5));
    }
  }
  prepare_graphs({folder.write("a.xyz", text)}, folder / "a");
  const GraphsRequest request{
      .radius = 4,
      .atom_features = {"spin"},
      .charge = "charge",
      .labels = {{.name = "energy", .property = "energy", .level = GraphLevel::structure, .per_atom = true},
                 {.name = "forces", .property = "forces", .level = GraphLevel::atom, .width = 3}}};
  const GraphsConfig config{.train = {folder / "a"}};
  expect_same_when_staged(folder, [&] { return std::make_unique<GraphsSource>(config, request, 1); },
                          {"species", "graphs", "first_atom", "receivers", "senders", "first_edge", "vectors",
                           "volumes", "atom_features", "charges", "targets.energy", "targets.forces"});
}

}  // namespace
}  // namespace terrace::data
