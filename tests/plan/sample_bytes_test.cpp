// Compares the bytes of a sample that a planner counts with those that the sources of data say they read.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "terrace/config/config.h"
#include "terrace/config/family.h"
#include "terrace/data/fields/fields_source.h"
#include "terrace/data/graphs/graphs_source.h"
#include "terrace/data/text/text_source.h"
#include "terrace/models/gnn/cost/request.h"
#include "terrace/models/gnn/settings/config.h"
#include "terrace/models/planned_families.h"
#include "terrace/models/vit/settings/config.h"
#include "terrace/schedule/description.h"
#include "tests/data/fields_files.h"
#include "tests/data/graph_files.h"

namespace terrace::plan {
namespace {

// Bytes that the source reads for these tensors of the first sample; what is read twice counts once.
double read_bytes(const data::Source& source, const data::TensorNames& names) {
  std::map<std::pair<const MappedFile*, uint64_t>, uint64_t> read;
  for (const data::FileRange& range :
       source.reads({.step = 1, .first_sample = 0, .samples = 1, .micro_batch = 1}, names)) {
    read[{range.file, range.offset}] = range.bytes;
  }
  double bytes = 0;
  for (const auto& [place, size] : read) bytes += static_cast<double>(size);
  return bytes;
}

config::Config parsed(const std::string& toml) {
  return config::parse(toml +
                           "[optimizer]\nlearning_rate = 1e-2\n[checkpoint]\nfolder = \"run\"\n[train]\nsteps = 3\n"
                           "global_batch = 1\n",
                       "test.toml", models::planned_families());
}

schedule::SampleBytes planned_bytes(const config::Config& config) {
  return schedule::description_of(config).sample_bytes(config);
}

TEST(SampleBytes, AWindowOfTokens) {
  const data::TemporaryFolder folder;
  for (const int64_t vocabulary : {500, 70'000}) {
    data::CorpusWriter writer(folder / "a", vocabulary, {.overwrite = true});
    writer.append(std::vector<int32_t>(1000, 7));
    writer.end_document();
    writer.commit();
    const config::Config config = parsed(fmt::format(
        "[model]\nfamily = \"gpt\"\nlayers = 1\nwidth = 8\nheads = 2\nsequence = 64\nvocabulary = {}\n[data]\n"
        "train = [\"{}/a\"]\n",
        vocabulary, folder.path().string()));
    const data::TextSource source(data::text_of(config), 64, vocabulary, 1);
    const schedule::SampleBytes planned = planned_bytes(config);
    EXPECT_EQ(read_bytes(source, {"tokens"}), planned.inputs);
    EXPECT_EQ(read_bytes(source, {"targets"}), planned.loss);
    EXPECT_EQ(read_bytes(source, {"tokens", "targets"}), planned.both);
  }
}

TEST(SampleBytes, FieldsOfASample) {
  const data::TemporaryFolder folder;
  data::TestFile file;
  file.times.clear();
  for (int i = 0; i < 160; ++i) file.times.push_back(6 * i);
  const auto value = [](double time, double, double latitude, double) { return time + latitude; };
  file.variables = {{.name = "t", .value = value},
                    {.name = "u", .value = value},
                    {.name = "orography", .dimensions = {"lat", "lon"}, .value = value}};
  data::prepare_fields({file.write(folder / "in.nc")}, folder / "p",
                       {{"train", {"2000-01-01", "2000-01-30"}}, {"validation", {"2000-01-31", "2000-02-09"}}});
  for (const char* more : {"", "outputs = [\"t\"]\n"}) {
    const config::Config config = parsed(fmt::format(
        "[model]\nfamily = \"vit\"\nvariables = [\"t\", \"u\"]\ngrid = [3, 4]\npatch = 2\nlayers = 1\nwidth = 8\n"
        "heads = 2\n{}[data]\nfields = \"{}/p\"\ninputs = 2\nconstants = [\"orography\"]\n",
        more, folder.path().string()));
    const models::vit::ModelConfig& model = models::vit::model_of(config);
    const data::FieldsSource source(data::fields_of(config),
                                    {.inputs = model.variables, .outputs = model.outputs, .counts = {1}}, 1);
    const schedule::SampleBytes planned = planned_bytes(config);
    const data::TensorNames inputs = {"inputs"}, loss = {"targets", "before", "weights", "mask"};
    data::TensorNames both = loss;
    both.insert("inputs");
    EXPECT_EQ(planned.inputs, 5 * 12 * 4) << "two variables at two times and a constant on 3 x 4 places";
    EXPECT_EQ(read_bytes(source, inputs), planned.inputs);
    EXPECT_EQ(read_bytes(source, loss), planned.loss);
    EXPECT_EQ(read_bytes(source, both), planned.both);
  }
}

TEST(SampleBytes, StructuresWithTheirLabels) {
  const data::TemporaryFolder folder;
  std::string text;
  for (int k = 0; k < 8; ++k) {
    text += "5\nenergy=1.5 Properties=species:S:1:pos:R:3:forces:R:3\n";
    for (int atom = 0; atom < 5; ++atom) text += fmt::format("C {} 0.1 0.2 0.3 0.2 {}\n", 1.2 * atom, k);
  }
  data::prepare_graphs({folder.write("a.xyz", text)}, folder / "a");
  const config::Config config = parsed(fmt::format(
      "[model]\nfamily = \"gnn\"\nconv = \"painn\"\nlayers = 1\nwidth = 8\nradius = 5.0\n[[model.outputs]]\n"
      "name = \"energy\"\nper_atom = true\n[[model.outputs]]\nname = \"forces\"\nderivative_of = \"energy\"\n"
      "[data]\ntrain = [\"{}/a\"]\n",
      folder.path().string()));
  const data::GraphsSource source(models::gnn::data_of(config),
                                  models::gnn::graphs_request(models::gnn::model_of(config)), 1);
  const schedule::SampleBytes planned = planned_bytes(config);
  EXPECT_EQ(planned.both, 5 * (25 + 24) + 87 + 8);
  EXPECT_EQ(read_bytes(source, {"species"}), planned.both);
}

}  // namespace
}  // namespace terrace::plan
