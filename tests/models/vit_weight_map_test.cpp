// Tests what a vision transformer takes from the checkpoint of another one.
#include "terrace/models/vit/vit_weight_map.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/stack.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "terrace/base/files/file.h"
#include "terrace/data/fields/fields_description.h"
#include "terrace/models/families.h"
#include "tests/models/small_vits.h"
#include "tests/scratch_folder.h"

namespace terrace::models::vit {
namespace {

using Keys = std::vector<std::string>;

config::Config stored_run(const Keys& keys = {}) {
  return config::parse(
      "[model]\nfamily = \"vit\"\nvariables = [\"t\", \"u\", \"v\"]\noutputs = [\"t\", \"v\"]\ngrid = [4, 4]\npatch = "
      "2\n"
      "layers = 1\nwidth = 8\nheads = 2\n[data]\nfields = \"unread\"\nconstants = [\"orography\"]\n"
      "[train]\nglobal_batch = 1\nmicro_batch = 1\nsteps = 1\n[optimizer]\nlearning_rate = 1e-3\n"
      "[checkpoint]\nfolder = \"unused\"\n",
      "vit.toml", families(), keys);
}

Shapes shapes_of(const config::Config& config) {
  Shapes shapes;
  const auto model = built(model_of(config), {.device = at::kMeta});
  for (const nn::Parameter* parameter : model->parameters()) {
    shapes[parameter->name] = parameter->value.sizes().vec();
  }
  return shapes;
}

// The map to a run whose keys differ from those of the stored one, whose checkpoint keeps files.
WeightMap map_to(const Keys& keys, const Keys& stored_keys = {}, const AttachedPaths& attached = {}) {
  const config::Config before = stored_run(stored_keys), now = stored_run(keys);
  const Shapes stored = shapes_of(before), wanted = shapes_of(now);
  const std::function<config::Config()> stored_config = [&before] { return before; };
  return vit_weight_map(
      {.stored = stored, .wanted = wanted, .stored_config = stored_config, .config = now, .attached = attached});
}

at::Tensor computed(const WeightMap& map, const std::string& name, const at::Tensor& stored) {
  const ComputedTensor& one = map.computed.at(name);
  EXPECT_EQ(one.from, Keys{name});
  return one.compute({stored});
}

at::Tensor counted(std::vector<int64_t> sizes) {
  int64_t count = 1;
  for (const int64_t size : sizes) count *= size;
  return at::arange(1, count + 1, at::TensorOptions(at::kFloat)).view(sizes);
}

// The initial value of a parameter of the run's model.
at::Tensor first_value(const Keys& keys, const std::string& name) {
  const config::Config config = stored_run(keys);
  const auto model = built(model_of(config), {});
  nn::initialize(model->parameters(), config.train.seed);
  for (const nn::Parameter* parameter : model->parameters()) {
    if (parameter->name == name) return parameter->value.detach();
  }
  return {};
}

TEST(VitWeightMap, SameModelTakesAllTensorsAsTheyAre) {
  const WeightMap map = map_to({});
  EXPECT_TRUE(map.computed.empty() && map.initial.empty() && map.dropped.empty());
}

TEST(VitWeightMap, MatchesVariablesByName) {
  const Keys keys = {"model.variables=[\"v\",\"w\",\"t\"]", "train.seed=9"};
  const WeightMap map = map_to(keys);
  EXPECT_EQ(map.computed.size(), 3u);
  const at::Tensor stored = counted({4, 8, 4});  // t, u, v, orography
  const at::Tensor result = computed(map, "embedding.tokens.weight", stored);
  ASSERT_EQ(result.sizes().vec(), (std::vector<int64_t>{4, 8, 4}));  // v, w, t, orography
  EXPECT_TRUE(result[0].equal(stored[2]));
  EXPECT_TRUE(result[1].equal(first_value(keys, "embedding.tokens.weight")[1]));
  EXPECT_TRUE(result[2].equal(stored[0]));
  EXPECT_TRUE(result[3].equal(stored[3]));
  // Twice, as each rank that holds a part computes it.
  EXPECT_TRUE(computed(map, "embedding.tokens.weight", stored).equal(result));
  EXPECT_TRUE(computed(map, "embedding.tokens.variables", counted({4, 8}))[2].equal(counted({4, 8})[0]));
}

TEST(VitWeightMap, NotesWhichVariablesAreNewAndWhichAreLeftOut) {
  ::testing::internal::CaptureStdout();
  EXPECT_THAT(map_to({"model.variables=[\"v\",\"w\",\"t\"]", "model.outputs=[\"t\",\"w\"]"}).notes,
              ::testing::ElementsAre("new inputs with initial values: w", "inputs of the checkpoint left out: u",
                                     "new outputs with initial values: w", "outputs of the checkpoint left out: v"));
  EXPECT_TRUE(map_to({"model.variables=[\"u\",\"v\",\"t\"]"}).notes.empty());  // in another order
  EXPECT_EQ(::testing::internal::GetCapturedStdout(), "");                     // whoever asks for the map says it
}

TEST(VitWeightMap, MatchesOutputsByName) {
  const Keys keys = {"model.outputs=[\"v\",\"u\",\"t\"]"};
  const WeightMap map = map_to(keys);
  const at::Tensor stored = counted({8, 8}), result = computed(map, "head.output.weight", stored);
  const at::Tensor fresh = first_value(keys, "head.output.weight");
  ASSERT_EQ(result.sizes().vec(), (std::vector<int64_t>{12, 8}));
  for (int64_t place = 0; place < 4; ++place) {
    EXPECT_TRUE(result[3 * place].equal(stored[2 * place + 1]));     // v
    EXPECT_TRUE(result[3 * place + 1].equal(fresh[3 * place + 1]));  // u
    EXPECT_TRUE(result[3 * place + 2].equal(stored[2 * place]));     // t
  }
  EXPECT_EQ(computed(map, "head.output.bias", counted({8})).sizes().vec(), (std::vector<int64_t>{12}));
}

// Two rows and columns become four: a new point lies a quarter of the way from an old one to the next, which in
// longitude is around the globe, and in latitude there is none beyond the first and the last.
TEST(VitWeightMap, InterpolatesPositions) {
  const WeightMap map = map_to({"model.grid=[8, 8]"});
  EXPECT_EQ(map.computed.size(), 1u);
  const at::Tensor stored = counted({4, 8}).square();  // [2 x 2, width]
  const at::Tensor result = computed(map, "embedding.positions", stored);
  ASSERT_EQ(result.sizes().vec(), (std::vector<int64_t>{16, 8}));
  const auto mixed = [](const at::Tensor& near, const at::Tensor& far) { return near.mul(0.75).add(far, 0.25); };
  std::vector<at::Tensor> rows;  // of four columns each
  for (const int64_t row : {0, 1}) {
    const at::Tensor west = stored[2 * row], east = stored[2 * row + 1];
    rows.push_back(at::stack({mixed(west, east), mixed(west, east), mixed(east, west), mixed(east, west)}));
  }
  EXPECT_TRUE(result.narrow(0, 0, 4).allclose(rows[0]));
  EXPECT_TRUE(result.narrow(0, 4, 4).allclose(mixed(rows[0], rows[1])));
  EXPECT_TRUE(result.narrow(0, 8, 4).allclose(mixed(rows[1], rows[0])));
  EXPECT_TRUE(result.narrow(0, 12, 4).allclose(rows[1]));
}

// The description of fields on a grid.
std::string described(const std::filesystem::path& path, const std::vector<double>& latitudes,
                      const std::vector<double>& longitudes) {
  data::FieldsDescription description{.latitudes = latitudes, .longitudes = longitudes, .times = {0}};
  write_text_atomically(path, description.text());
  return path.string();
}

// Patches of the globe lie at -45 and 45 degrees north and at 45 and 225 degrees east, those of the region at 5 and 25
// and at 45 and 65: it has the shape of the globe's model, so that nothing but coordinates shows that it is another.
TEST(VitWeightMap, InterpolatesToARegionByCoordinates) {
  const ScratchFolder folder;
  const std::string globe = described(folder.path() / "kept.json", {-67.5, -22.5, 22.5, 67.5}, {0, 90, 180, 270});
  described(folder.path() / "region.json", {0, 10, 20, 30}, {40, 50, 60, 70});
  const Keys keys = {"data.fields=" + (folder.path() / "region").string()};
  const WeightMap map = map_to(keys, {}, {{"statistics", globe}});
  const at::Tensor stored = counted({4, 8}).square();
  const auto place = [&](double latitude, double longitude) {
    const double north = (latitude + 45) / 90, east = (longitude - 45) / 180;
    const at::Tensor south_row = stored[0].mul(1 - east).add(stored[1], east);
    return south_row.mul(1 - north).add(stored[2].mul(1 - east).add(stored[3], east), north);
  };
  const at::Tensor expected = at::stack({place(5, 45), place(5, 65), place(25, 45), place(25, 65)});
  EXPECT_TRUE(computed(map, "embedding.positions", stored).allclose(expected));
  EXPECT_THAT(map.notes, ::testing::ElementsAre(::testing::AllOf(
                             ::testing::HasSubstr("by coordinates from 4 latitudes from -67.5 to 67.5"),
                             ::testing::HasSubstr("to 4 latitudes from 0 to 30 and 4 longitudes from 40 to 70"),
                             ::testing::Not(::testing::HasSubstr("outside")))));
  // On the same coordinates all is taken as it is.
  EXPECT_TRUE(map_to({"data.fields=" + (folder.path() / "kept").string()}, {}, {{"statistics", globe}}).notes.empty());
  // Statistics of other fields, named by data.statistics, do not say where the stored model's places lie.
  described(folder.path() / "europe.json", {30, 40, 50, 60}, {0, 10, 20, 30});
  const WeightMap moved =
      map_to(keys, {"data.fields=" + (folder.path() / "europe").string(), "data.statistics=" + globe},
             {{"statistics", globe}});
  EXPECT_THAT(moved.notes, ::testing::ElementsAre(::testing::HasSubstr(
                               "of which 3 latitudes and 4 longitudes lie outside and take the values at its edge")));
}

TEST(VitWeightMap, SaysThatItInterpolatesByIndexWhereNoCoordinatesAreKnown) {
  const WeightMap map = map_to({"model.grid=[8, 8]"});
  EXPECT_THAT(map.notes, ::testing::ElementsAre(::testing::AllOf(::testing::HasSubstr("by index"),
                                                                 ::testing::HasSubstr("of data.fields = \"unread\""))));
}

TEST(VitWeightMap, InputsOfOneModelOnlyAreNewOrDropped) {
  const Keys keys = {"model.lead_embedding=false", "model.time_inputs=true"};
  const std::set<std::string> lead = {"embedding.lead.bias", "embedding.lead.weight"};
  const std::set<std::string> time = {"embedding.time.bias", "embedding.time.weight"};
  EXPECT_EQ(map_to(keys).dropped, lead);
  EXPECT_EQ(map_to(keys).initial, time);
  EXPECT_EQ(map_to({}, keys).dropped, time);
  EXPECT_EQ(map_to({}, keys).initial, lead);
}

// Damping is interpolated on other latitudes and longitudes, and matched by the names of other outputs.
TEST(VitWeightMap, MatchesAndInterpolatesDamping) {
  const std::string damped = "model.predicts=\"damped_anomaly\"", name = "head.damping";
  EXPECT_TRUE(map_to({damped}, {damped}).computed.empty());
  EXPECT_EQ(map_to({damped}).initial, std::set<std::string>{name});
  EXPECT_EQ(map_to({}, {damped}).dropped, std::set<std::string>{name});
  const WeightMap map = map_to({damped, "model.grid=[8, 4]", "model.outputs=[\"v\", \"u\"]"}, {damped});
  const at::Tensor stored = counted({2, 4, 4}), result = computed(map, name, stored);  // of t and v
  ASSERT_EQ(result.sizes().vec(), (std::vector<int64_t>{2, 8, 4}));
  EXPECT_TRUE(result[0][0].allclose(stored[1][0]));
  EXPECT_TRUE(result[0][3].allclose(stored[1][1].mul(0.75).add(stored[1][2], 0.25)));
  EXPECT_TRUE(result[1].eq(0.5).all().item<bool>());
  const WeightMap wider = map_to({damped, "model.grid=[4, 8]"}, {damped});
  EXPECT_TRUE(computed(wider, name, stored)
                  .select(2, 0)
                  .allclose(stored.select(2, 0).mul(0.75).add(stored.select(2, 3), 0.25)));
}

TEST(VitWeightMap, AnotherWidthOrPatchIsLeftToTheCheckOfShapes) {
  EXPECT_TRUE(map_to({"model.width=16"}).computed.empty());
  EXPECT_TRUE(map_to({"model.patch=1"}).computed.empty());
}

}  // namespace
}  // namespace terrace::models::vit
