// Samples of fields have their numbers where the contract says, pairs never leave their split, and the order depends on
// the seed and the number of the sample alone.
#include "terrace/data/fields/fields_source.h"

#include <gmock/gmock.h>

#include <cmath>
#include <cstring>
#include <set>

#include "tests/data/fields_files.h"
#include "tests/data/zeroed_file.h"

namespace terrace::data {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

const TensorNames all_tensors = {"inputs", "targets", "before", "climatology", "climatology_before",
                                 "mask",   "leads",   "times",  "weights"};

std::vector<float> numbers_of(const MicroBatch& batch, const std::string& name) {
  const HostTensor& tensor = batch.tensors.at(name);
  std::vector<float> values(tensor.bytes.size() / sizeof(float));
  std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
  return values;
}

// 100 times of 6 hours from the year 2000: 60 to train on, 20 to validate on, 20 to test on.
class FieldSamples : public testing::Test {
 protected:
  FieldSamples() {
    const TestFile file = file_of_waves();
    prepare_fields({file.write(folder_ / "in.nc")}, folder_ / "p",
                   {{"train", {"2000-01-01", "2000-01-15"}},
                    {"validation", {"2000-01-16", "2000-01-20"}},
                    {"test", {"2000-01-21", "2000-01-25"}}});
    config_ = {.fields = folder_ / "p",
               .leads = {6 * 3600, 24 * 3600},
               .inputs = 2,
               .input_step = 12 * 3600,
               .constants = {"orography"}};
  }

  FieldsSource source(uint64_t seed = 1) const { return {config_, request_, seed}; }

  std::vector<FieldPair> pairs(const FieldsSource& source, uint64_t count) const {
    std::vector<FieldPair> pairs;
    for (uint64_t sample = 0; sample < count; ++sample) pairs.push_back(source.training_pair(sample));
    return pairs;
  }

  std::string problem() const {
    return user_error([&] { source(); });
  }

  TemporaryFolder folder_;
  FieldsConfig config_;
  FieldsRequest request_{.inputs = {"u", "t"}, .outputs = {"t"}, .counts = {12, 1}};
};

TEST_F(FieldSamples, TensorsHaveTheNumbersOfTheDataset) {
  const FieldsSource source = this->source();
  const FieldsDataset dataset(config_.fields);
  const FieldsDescription& all = dataset.description();
  const MicroBatch batch = source.batch({{10, 14}, {3, 4}}, {7, 8}, all_tensors);
  EXPECT_THAT(batch.tensors.at("inputs").sizes, ElementsAre(2, 5, 3, 4));
  for (const char* name : {"targets", "before", "climatology", "climatology_before", "mask"}) {
    EXPECT_THAT(batch.tensors.at(name).sizes, ElementsAre(2, 1, 3, 4)) << name;
  }
  EXPECT_THAT(batch.samples, ElementsAre(7, 8));
  EXPECT_THAT(batch.counts, ElementsAre(24, 2));
  const auto normal = [](float value, const FieldOfDataset& field) {
    return static_cast<float>((static_cast<double>(value) - field.moments->mean) / field.moments->deviation);
  };
  const FieldOfDataset &t = all.variables[0], &u = all.variables[1];
  const std::vector<float> inputs = numbers_of(batch, "inputs"), targets = numbers_of(batch, "targets"),
                           before = numbers_of(batch, "before"), climatology = numbers_of(batch, "climatology");
  for (size_t sample = 0; sample < 2; ++sample) {
    const int64_t start = sample == 0 ? 10 : 3, target = sample == 0 ? 14 : 4;
    for (size_t place = 0; place < 12; ++place) {
      const auto input = [&](size_t channel) { return inputs[(sample * 5 + channel) * 12 + place]; };
      EXPECT_EQ(input(0), normal(dataset.field(start - 2, 1)[place], u));
      EXPECT_EQ(input(1), normal(dataset.field(start - 2, 0)[place], t));
      EXPECT_EQ(input(2), normal(dataset.field(start, 1)[place], u));
      EXPECT_EQ(input(3), normal(dataset.field(start, 0)[place], t));
      EXPECT_EQ(input(4), normal(dataset.constant(0)[place], all.constants[0]));
      EXPECT_EQ(before[sample * 12 + place], input(3));
      EXPECT_EQ(targets[sample * 12 + place], normal(dataset.field(target, 0)[place], t));
      EXPECT_EQ(climatology[sample * 12 + place], normal(dataset.climatology(0, 0)[place], t));
    }
  }
  EXPECT_THAT(numbers_of(batch, "leads"), ElementsAre(24, 6));
  // Starts at 2000-01-03T12 and 2000-01-01T18, in a year of 366 days.
  EXPECT_THAT(numbers_of(batch, "times"), ElementsAre(2.5f / 366, 0.5f, 0.75f / 366, 0.75f));
  // The cosines of -60, 0 and 60 degrees are 1/2, 1 and 1/2.
  const std::vector<float> weights = numbers_of(batch, "weights");
  EXPECT_THAT(weights, ElementsAre(testing::FloatEq(0.75), testing::FloatEq(1.5), testing::FloatEq(0.75)));
  EXPECT_THAT(numbers_of(batch, "mask"), testing::Each(1));
  const MicroBatch only = source.batch({{10, 14}}, {7}, {"leads"});
  EXPECT_EQ(only.tensors.size(), 1u);
  EXPECT_DOUBLE_EQ(source.moments_of_output(0).mean, t.moments->mean);
}

// The samples depend on the description alone.
TEST_F(FieldSamples, AreKnownWithoutTheFields) {
  const FieldsSource before = source();
  zero_in_place(config_.fields + ".nc");
  const FieldsSource after = source();
  EXPECT_EQ(after.samples_in_epoch(), before.samples_in_epoch());
  EXPECT_EQ(after.held_out_pairs(), before.held_out_pairs());
  EXPECT_EQ(after.training_pair(3).start, before.training_pair(3).start);
}

TEST_F(FieldSamples, TurnedSamplesHaveAllFieldsTurnedByTheSameColumns) {
  const FieldsSource straight = this->source();
  config_.turned = true;
  const FieldsSource turned = this->source();
  constexpr int64_t samples = 16, columns = 4;
  const StepShare share{.samples = samples, .ranks = 1, .micro_batch = samples};
  const MicroBatch before = straight.micro_batches(share, all_tensors).front();
  const MicroBatch after = turned.micro_batches(share, all_tensors).front();
  std::set<int64_t> turns;
  for (int64_t sample = 0; sample < samples; ++sample) {
    const int64_t turn = turned.turn_of(static_cast<uint64_t>(sample));
    turns.insert(turn);
    for (const auto& [name, tensor] : before.tensors) {
      const std::vector<float> from = numbers_of(before, name), to = numbers_of(after, name);
      if (tensor.sizes.size() != 4) {
        EXPECT_EQ(from, to) << name;
        continue;
      }
      const auto of_sample = std::ssize(from) / samples;
      for (int64_t i = sample * of_sample; i < (sample + 1) * of_sample; ++i) {
        const int64_t row = i / columns * columns, column = i % columns;
        EXPECT_EQ(to[static_cast<size_t>(row + (column + turn) % columns)], from[static_cast<size_t>(i)]) << name;
      }
    }
  }
  EXPECT_THAT(turns, ElementsAre(0, 1, 2, 3));
  EXPECT_EQ(straight.turn_of(3), 0);
}

TEST_F(FieldSamples, TheClimatologyBeforeIsThatOfTheStart) {
  prepare_fields({folder_ / "in.nc"}, folder_ / "p", {{"climatology", {"daily"}}});
  const FieldsSource source = this->source();
  const auto of = [&](const FieldPair& pair, const char* name) {
    return numbers_of(source.batch({pair}, {0}, {name}), name);
  };
  // Each time of this dataset has a period of its own, and so its values as climatology.
  EXPECT_EQ(of({10, 14}, "climatology_before"), of({10, 14}, "before"));
  EXPECT_EQ(of({10, 14}, "climatology_before"), of({9, 10}, "climatology"));
  EXPECT_NE(of({10, 14}, "climatology_before"), of({10, 14}, "climatology"));
}

TEST_F(FieldSamples, AllTimesOfATrainingSampleAreTrainingTimes) {
  const FieldsSource source = this->source();
  // Two inputs 12 hours apart and a lead of up to 24 hours leave the starts 2 to 55.
  EXPECT_EQ(source.samples_in_epoch(), 54u);
  std::set<int64_t> starts, leads;
  for (const FieldPair& pair : pairs(source, 54)) {
    EXPECT_GE(pair.start, 2);
    EXPECT_LT(pair.target, 60);
    starts.insert(pair.start);
    leads.insert(pair.target - pair.start);
  }
  EXPECT_EQ(starts.size(), 54u);
  EXPECT_THAT(leads, ElementsAre(1, 4));
  EXPECT_EQ(pairs(source, 200), pairs(this->source(), 200));
  EXPECT_NE(pairs(source, 200), pairs(this->source(2), 200));
}

// The starts 2 to 55 in three shares of 18, of each of which a step of six draws two.
TEST_F(FieldSamples, NodesReadSharesOfTheirOwn) {
  config_.order = {.order = "node", .shares = 3};
  const FieldsSource source(config_, request_, 1, 6);
  ASSERT_NE(source.node_order(), nullptr);
  for (uint64_t sample = 0; sample < 108; ++sample) {
    const uint64_t slot = sample % 6 / 2, round = sample / 54;
    EXPECT_EQ(static_cast<uint64_t>(source.training_pair(sample).start - 2) / 18, (slot + round) % 3) << sample;
  }
  EXPECT_EQ(FieldsSource(config_, request_, 1).node_order(), nullptr) << "nothing is trained";
}

TEST_F(FieldSamples, HeldOutSamplesAreThoseOfTheirSplit) {
  const FieldsSource source = this->source();
  // All 20 times are predicted, 6 hours and 24 hours ahead; inputs lie before the part where they must.
  ASSERT_EQ(source.held_out_pairs(), 20u + 20u);
  for (uint64_t number = 0; number < source.held_out_pairs(); ++number) {
    const int64_t target = 60 + static_cast<int64_t>(number % 20);
    EXPECT_EQ(source.held_out_pair(number), (FieldPair{target - (number < 20 ? 1 : 4), target}));
  }
  const std::vector<HeldOut> some = source.held_out(4);
  ASSERT_EQ(some.size(), 1u);
  EXPECT_EQ(some[0].dataset, config_.fields);
  EXPECT_THAT(some[0].samples, ElementsAre(0, 10, 20, 30));
  EXPECT_EQ(source.held_out(1000)[0].samples.size(), 40u);
  // Three ranks of two samples: the last one of the only round has none left.
  std::vector<int64_t> seen;
  for (int64_t rank = 0; rank < 3; ++rank) {
    const MicroBatch batch =
        source.held_out_micro_batch(some[0], {.rank = rank, .ranks = 3, .micro_batch = 2}, all_tensors);
    seen.insert(seen.end(), batch.samples.begin(), batch.samples.end());
    EXPECT_EQ(batch.counts[0], rank < 2 ? 24 : 0);
    EXPECT_EQ(batch.tensors.at("inputs").sizes[0], rank < 2 ? 2 : 0);
  }
  EXPECT_THAT(seen, ElementsAre(0, 10, 20, 30));
}

TEST_F(FieldSamples, RanksShareAStepAndEveryStepIsWhereItWas) {
  const FieldsSource source = this->source();
  const auto samples = [&](int64_t rank, int64_t ranks, int64_t micro_batch) {
    std::vector<int64_t> numbers;
    std::vector<float> targets;
    for (const MicroBatch& batch : source.micro_batches(
             {.step = 3, .first_sample = 24, .samples = 12, .rank = rank, .ranks = ranks, .micro_batch = micro_batch},
             {"targets"})) {
      numbers.insert(numbers.end(), batch.samples.begin(), batch.samples.end());
      const std::vector<float> values = numbers_of(batch, "targets");
      targets.insert(targets.end(), values.begin(), values.end());
    }
    return std::pair(numbers, targets);
  };
  const auto whole = samples(0, 1, 5);
  EXPECT_EQ(whole.first.size(), 12u);
  EXPECT_EQ(whole.first.front(), 24);
  auto parts = samples(0, 2, 4);
  const auto second = samples(1, 2, 1);
  parts.first.insert(parts.first.end(), second.first.begin(), second.first.end());
  parts.second.insert(parts.second.end(), second.second.begin(), second.second.end());
  EXPECT_EQ(parts, whole);
}

TEST_F(FieldSamples, RefusesMisfitsByName) {
  request_.inputs = {"u", "tt"};
  EXPECT_THAT(problem(), AllOf(HasSubstr("has no variable tt (like t?)"), HasSubstr("it has t, u")));
  request_.inputs = {"u"};
  config_.constants = {"lsm"};
  EXPECT_THAT(problem(), AllOf(HasSubstr("has no constant lsm"), HasSubstr("orography")));
  config_.constants = {};
  config_.leads = {5 * 3600};
  EXPECT_THAT(problem(), HasSubstr("data.leads has 18000 s, which is no multiple of the 6 h"));
  config_.leads = {6 * 3600};
  config_.input_step = 3600;
  EXPECT_THAT(problem(), HasSubstr("data.input_step = 3600 s is no multiple of the 6 h"));
  config_.input_step = 0;
  request_.latitudes = 32;
  EXPECT_THAT(problem(), HasSubstr("the model has a grid of 32 x 0 places"));
  request_.latitudes = 0;
  EXPECT_EQ(problems_with_fields(config_, request_, true), std::vector<std::string>{});
  prepare_fields({folder_ / "in.nc"}, folder_ / "all");
  config_.fields = folder_ / "all";
  EXPECT_EQ(problems_with_fields(config_, request_), std::vector<std::string>{});
  EXPECT_THAT(
      problems_with_fields(config_, request_, true),
      ElementsAre(HasSubstr("the validation part of " + config_.fields + " has no time that can be predicted")));
  config_.fields = folder_ / "p";
  config_.leads = {20 * 86400};
  EXPECT_THAT(problems_with_fields(config_, request_),
              ElementsAre(HasSubstr("the training part of " + config_.fields + " has 60 times, too few")));
  config_.fields = folder_ / "other";
  EXPECT_THAT(problem(), AllOf(HasSubstr("other.json does not exist"), HasSubstr("--kind fields")));
}

TEST_F(FieldSamples, HeldOutDatasetUsesTheStatisticsOfTheRun) {
  TestFile file;
  file.times = {8784, 8790, 8796, 8802};  // in the year 2001
  const auto warm = [](double, double, double, double) { return 50; };
  file.variables = {{.name = "t", .value = warm}, {.name = "u", .value = warm}};
  prepare_fields({file.write(folder_ / "in_later.nc")}, folder_ / "later", {{"test", {"2001", "2001"}}});
  config_.inputs = 1;
  config_.input_step = 0;
  config_.constants = {};
  const FieldsSource before = source();
  std::filesystem::copy(folder_ / "p.json", folder_ / "kept.json");
  FieldsConfig held_out = config_;
  hold_out_fields(held_out, {folder_ / "later"}, {{"statistics", folder_ / "kept.json"}});
  const FieldsSource later(held_out, request_, 1);
  EXPECT_EQ(later.held_out_pairs(), 3u);
  EXPECT_EQ(later.samples_in_epoch(), 0u);
  const MicroBatch batch = later.batch({later.held_out_pair(0)}, {0}, {"targets", "climatology"});
  const Moments moments = before.moments_of_output(0);
  EXPECT_EQ(numbers_of(batch, "targets")[0], static_cast<float>((50 - moments.mean) / moments.deviation));
  EXPECT_EQ(numbers_of(batch, "climatology"), numbers_of(before.batch({{0, 1}}, {0}, {"climatology"}), "climatology"));
  EXPECT_THAT(user_error([&] { later.training_pair(0); }), HasSubstr("has no training times"));
  EXPECT_THAT(user_error([&] { hold_out_fields(held_out, {"a", "b"}, {}); }), HasSubstr("2 datasets are given"));
  held_out.statistics = "";
  EXPECT_THAT(user_error([&] { FieldsSource(held_out, request_, 1); }), HasSubstr("has no mean and deviation of u"));
  EXPECT_NE(before.identity(), later.identity());
}

TEST_F(FieldSamples, WhatIsFineTunedKeepsTheMomentsOfItsCheckpoint) {
  const FieldsSource own = source();
  FieldsDescription kept = read_fields_description(description_path(config_.fields));
  std::erase_if(kept.variables, [](const FieldOfDataset& field) { return field.name == "u"; });
  for (FieldOfDataset& field : kept.variables) field.moments->mean += 5;
  const std::string path = folder_.write("kept.json", kept.text());
  const AttachedPaths attached = {{"statistics", path}};
  FieldsConfig tuned = config_;
  EXPECT_THAT(keep_field_statistics(tuned, attached), HasSubstr(path));
  const FieldsSource source(tuned, request_, 1);
  EXPECT_EQ(source.moments_of_output(0).mean, own.moments_of_output(0).mean + 5);
  EXPECT_NE(source.identity(), own.identity());
  // The statistics that a checkpoint of the tuned model keeps have all variables, and give the same again.
  const AttachedFile again = source.attached_files().at(0);
  FieldsConfig continued = config_;
  keep_field_statistics(continued, {{"statistics", folder_.write("again.json", again.text)}});
  EXPECT_EQ(FieldsSource(continued, request_, 1).identity(), source.identity());

  FieldsConfig refitted = config_;
  refitted.statistics = "data";
  EXPECT_EQ(keep_field_statistics(refitted, attached), "");
  EXPECT_EQ(FieldsSource(refitted, request_, 1).identity(), own.identity());

  for (FieldOfDataset& field : kept.variables) field.units = "degC";
  FieldsConfig converted = config_;
  keep_field_statistics(converted, {{"statistics", folder_.write("converted.json", kept.text())}});
  EXPECT_THAT(user_error([&] { FieldsSource(converted, request_, 1); }), HasSubstr("were trained with degC"));
}

TEST_F(FieldSamples, MissingValuesAreZeroAndMasked) {
  TestFile file;
  const auto at_sea = [](double time, double, double latitude, double) { return latitude == 0 ? NC_FILL_FLOAT : time; };
  file.variables = {{.name = "t", .value = at_sea}, {.name = "u", .value = at_sea}};
  prepare_fields({file.write(folder_ / "in_sea.nc")}, folder_ / "sea", {{"mask", {}}});
  config_ = {.fields = folder_ / "sea", .leads = {6 * 3600}};
  const FieldsSource source = this->source();
  EXPECT_DOUBLE_EQ(source.moments_of_output(0).mean, 9);
  const MicroBatch batch = source.batch({{0, 1}}, {0}, all_tensors);
  const std::vector<float> targets = numbers_of(batch, "targets"), mask = numbers_of(batch, "mask"),
                           climatology = numbers_of(batch, "climatology");
  for (size_t place = 0; place < 12; ++place) {
    const bool is_sea = place / 4 == 1;
    EXPECT_EQ(mask[place], is_sea ? 0 : 1);
    EXPECT_EQ(targets[place] == 0, is_sea);
    EXPECT_EQ(climatology[place], 0);  // the mean of the four times is that of the variable
  }
}

TEST_F(FieldSamples, AMissingStartHasNoAnomaly) {
  TestFile file;
  const auto late = [](double time, double, double latitude, double) {
    return latitude == 0 && time == 0 ? NC_FILL_FLOAT : time + latitude;
  };
  file.variables = {{.name = "t", .value = late}, {.name = "u", .value = late}};
  prepare_fields({file.write(folder_ / "in_late.nc")}, folder_ / "late", {{"mask", {}}});
  config_ = {.fields = folder_ / "late", .leads = {6 * 3600}};
  const MicroBatch batch = source().batch({{0, 1}}, {0}, all_tensors);
  const std::vector<float> before = numbers_of(batch, "before"), climatology = numbers_of(batch, "climatology_before");
  for (size_t place = 0; place < 12; ++place) {
    const bool is_missing = place / 4 == 1;
    EXPECT_EQ(before[place] == 0, is_missing);
    EXPECT_EQ(climatology[place] == 0, is_missing);
  }
}

// At the first time t has no values at 0 degrees, and u, which the model does not read, has none at all.
TEST_F(FieldSamples, ForecastsKeepMissingWhatTheirStartLacks) {
  TestFile file;
  file.variables = {{.name = "t",
                     .value = [](double time, double, double latitude,
                                 double) { return latitude == 0 && time == 0 ? NC_FILL_FLOAT : time + latitude; }},
                    {.name = "u", .value = [](double time, double, double, double longitude) {
                       return time == 0 ? NC_FILL_FLOAT : time + longitude;
                     }}};
  prepare_fields({file.write(folder_ / "in_land.nc")}, folder_ / "land", {{"mask", {}}});
  config_ = {.fields = folder_ / "land", .leads = {6 * 3600}};
  request_ = {.inputs = {"t"}, .outputs = {"u", "t"}};
  const FieldsSource source = this->source();
  std::vector<float> outputs(24, 5);
  source.keep_missing(0, outputs, -1);
  for (size_t place = 0; place < 12; ++place) {
    EXPECT_EQ(outputs[place], 5) << "a variable without any value at the start says nothing of places";
    EXPECT_EQ(outputs[12 + place], place / 4 == 1 ? -1 : 5);
  }
  // Values that a model makes of the land are no input of the next step, and no anomaly.
  const std::map<int64_t, std::vector<float>> earlier = {{1, std::vector<float>(24, 5)}};
  const MicroBatch batch =
      source.forecast_batch({{.start = 0, .done = 1, .lead = 1, .earlier = &earlier}}, all_tensors);
  const std::vector<float> inputs = numbers_of(batch, "inputs"), before = numbers_of(batch, "before"),
                           climatology = numbers_of(batch, "climatology_before");
  for (size_t place = 0; place < 12; ++place) {
    EXPECT_EQ(inputs[place], place / 4 == 1 ? 0 : 5);
    EXPECT_EQ(before[place], 5);
    EXPECT_EQ(before[12 + place], place / 4 == 1 ? 0 : 5);
    EXPECT_EQ(climatology[12 + place] == 0, place / 4 == 1);
  }
}

TEST_F(FieldSamples, OnlyFieldsAroundTheGlobeAreTurned) {
  TestFile file = file_of_waves();
  file.longitudes = {350, 0, 10, 20};
  prepare_fields({file.write(folder_ / "in_region.nc")}, folder_ / "region");
  config_.fields = folder_ / "region";
  EXPECT_EQ(problem(), "");
  config_.turned = true;
  EXPECT_THAT(problem(), HasSubstr("data.turned = true turns fields about the poles, and the 4 longitudes of"));
}

TEST_F(FieldSamples, GapsAreNeverWithinASample) {
  TestFile file;
  file.times = {0, 6, 12, 24, 30, 36};
  const auto zero = [](double time, double, double, double) { return time; };
  file.variables = {{.name = "t", .value = zero}, {.name = "u", .value = zero}};
  prepare_fields({file.write(folder_ / "in_gap.nc")}, folder_ / "gap", {{"allow-gaps", {}}});
  config_ = {.fields = folder_ / "gap", .leads = {6 * 3600, 12 * 3600}};
  const FieldsSource source = this->source();
  std::set<int64_t> starts;
  for (const FieldPair& pair : pairs(source, 2)) starts.insert(pair.start);
  EXPECT_EQ(source.samples_in_epoch(), 2u);
  EXPECT_THAT(starts, ElementsAre(0, 3));
}

}  // namespace
}  // namespace terrace::data
