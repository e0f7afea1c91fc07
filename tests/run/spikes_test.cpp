// Makes spikes by flipped bits of gradients and activations: their records, what is left out, and that a run which goes
// back has the bits of one that was told to skip the step.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "terrace/base/files/file.h"
#include "terrace/base/text/json.h"
#include "terrace/checkpoint/folder.h"
#include "terrace/data/text/tokenizer/tokenizer.h"
#include "terrace/run/run_training.h"
#include "terrace/train/left_out_steps.h"
#include "tests/data/fields_files.h"
#include "tests/data/test_corpus.h"
#include "tests/families/chains_of_atoms.h"
#include "tests/families/runs.h"

namespace terrace {
namespace {

using run::run_training;
using train::MemoryFault;
using Place = MemoryFault::Place;

constexpr int64_t spike_step = 8;

// One element of the gradient becomes 2^128 times as large, about 1e35.
MemoryFault large_gradient(const std::string& parameter) {
  return {.place = Place::gradient, .step = spike_step, .parameter = parameter, .element = 0, .bit = 30};
}

// A family's runs with spikes in its first `starts` starts.
class Spikes : public RunsOfFamily {
 protected:
  // Runs of a family begin from their configuration with these keys.
  config::Config spiky(const std::string& name, const Keys& more) const {
    Keys keys = {fmt::format("checkpoint.folder={}/{}", folder_.string(), name)};
    keys.insert(keys.end(), more.begin(), more.end());
    if (std::ranges::any_of(more, [](const std::string& key) { return key.starts_with("train.on_spike"); })) {
      keys.insert(keys.end(), {"train.spike_window=5", "train.spike_threshold=20.0"});
    }
    return config(keys);
  }

  static run::RunOptions options(int64_t ranks, const MemoryFault& fault, int64_t starts = 1) {
    const auto begun = std::make_shared<std::atomic<int64_t>>(0);
    return {.ranks = ranks, .prepare = [=](train::Trainer& trainer) {
              if ((*begun)++ < ranks * starts) trainer.disturb({fault});
            }};
  }

  static Json record_of(const config::Config& config, int64_t step = spike_step) {
    return Json::parse(
        read_text(std::filesystem::path(config.checkpoint.folder) / "spikes" / fmt::format("step_{}.json", step)));
  }

  static Result result_of(const config::Config& config) {
    const auto path = checkpoint::newest(config.checkpoint.folder).value();
    return {tensors_of(path, config), observe::read_metrics(config.checkpoint.folder)};
  }
};

class GptSpikes : public Spikes {
 protected:
  GptSpikes() {
    const std::string& model = data::sample_model();
    write_text_atomically(folder_ / "tokenizer.model", model);
    const auto tokenizer = data::Tokenizer::open((folder_ / "tokenizer.model").string());
    data::CorpusWriter writer((folder_ / "corpus").string(), tokenizer->vocabulary(), {.overwrite = true});
    const std::string text = data::sample_english();
    for (size_t begin = 0; begin < text.size(); begin += 200) {
      writer.append(tokenizer->encode(text.substr(begin, 200)));
      writer.end_document();
    }
    writer.commit();
  }

  config::Config config(const Keys& overrides) const override {
    return config::parse(
        fmt::format("[model]\nfamily = \"gpt\"\nlayers = 2\nwidth = 24\nheads = 6\nsequence = 16\nvocabulary = 500\n"
                    "vocabulary_multiple = 4\n[data]\ntrain = [\"{0}/corpus\"]\ntokenizer = \"{0}/tokenizer.model\"\n"
                    "[train]\nglobal_batch = 4\nmicro_batch = 1\nsteps = 12\nthreads = 1\ndevice = \"cpu\"\n"
                    "[optimizer]\nlearning_rate = 1e-3\n[checkpoint]\nfolder = \"{0}/run\"\n",
                    folder_.string()),
        "gpt.toml", models::families(), overrides);
  }

  const MemoryFault fault_ = large_gradient("blocks.1.ffn.first.weight");
};

TEST_F(GptSpikes, WarningsChangeNoBitAndRecordsHaveSamplesAndNorms) {
  const config::Config plain = spiky("plain", {}), watched = spiky("watched", {"train.on_spike=warn"});
  run_training(plain, options(2, fault_));
  run_training(watched, options(2, fault_));
  expect_same(result_of(watched), result_of(plain));
  const Json record = record_of(watched);
  EXPECT_EQ(record.at("step"), spike_step);
  EXPECT_EQ(record.at("on_spike"), "warn");
  const observe::RunMetrics metrics = observe::read_metrics(watched.checkpoint.folder);
  EXPECT_EQ(record.at("loss").at("value"), metrics.steps.at(spike_step).loss);
  EXPECT_GT(record.at("gradient_norm").at("deviations_above"), 1e6);
  EXPECT_EQ(record.at("losses_before").size(), 5u);
  EXPECT_EQ(record.at("losses_before").back(), metrics.steps.at(spike_step - 1).loss);
  // Two ranks with two micro-batches of one sequence, whose mean loss is the step's.
  const Json& micro_batches = record.at("micro_batches");
  ASSERT_EQ(micro_batches.size(), 4u);
  double sum = 0;
  for (const Json& micro_batch : micro_batches) {
    sum += micro_batch.at("loss").get<double>();
    const Json& sample = micro_batch.at("samples").at(0);
    EXPECT_EQ(sample.at("corpus"), (folder_ / "corpus").string());
    // A window of 17 tokens of the text.
    EXPECT_GT(sample.at("text").get<std::string>().size(), 10u);
    EXPECT_GE(sample.at("sample"), 4 * (spike_step - 1));
    EXPECT_LT(sample.at("sample"), 4 * spike_step);
  }
  EXPECT_NEAR(sum / 4, metrics.steps.at(spike_step).loss, 1e-6);
  EXPECT_GE(micro_batches.at(0).at("loss"), micro_batches.at(3).at("loss"));
  // The norms of parameters are those of the step, two before and three after it.
  for (int64_t step = spike_step - 2; step <= spike_step + 3; ++step) {
    double squares = 0;
    for (const Json& parameter : record.at("parameters")) {
      EXPECT_EQ(parameter.at("gradient_norms").size(), 6u);
      squares += std::pow(parameter.at("gradient_norms").at(std::to_string(step)).get<double>(), 2);
    }
    const double norm = metrics.steps.at(step).gradient_norm;
    EXPECT_NEAR(std::sqrt(squares), norm, 1e-5 * norm) << step;
  }
}

TEST_F(GptSpikes, ASkippedSpikeIsAStepWithoutAnUpdate) {
  for (const int64_t ranks : {1, 2}) {
    const config::Config skipping = spiky(fmt::format("skipping{}", ranks), {"train.on_spike=skip"});
    const config::Config told =
        spiky(fmt::format("told{}", ranks), {fmt::format("train.skip_steps=[[{0}, {0}]]", spike_step)});
    run_training(skipping, options(ranks, fault_));
    run_training(told, {.ranks = ranks});
    Result ours = result_of(skipping);
    EXPECT_EQ(ours.metrics.steps.erase(spike_step), 1u);  // the skipped step has a line with its loss
    expect_same(ours, result_of(told));
  }
}

TEST_F(GptSpikes, GoingBackHasTheBitsOfARunThatWasToldToSkipTheStep) {
  const Keys every = {"checkpoint.every=3", "train.on_spike=back"};
  const Keys sharded = {"checkpoint.every=3", "train.on_spike=back", "layout.sharding=zero3", "train.precision=bf16"};
  for (const auto& [ranks, keys] : {std::pair<int64_t, Keys>{1, every}, {2, sharded}, {2, every}}) {
    const config::Config back = spiky("back", keys);
    Keys told_keys = keys;
    told_keys.push_back(fmt::format("train.skip_steps=[[{0}, {0}]]", spike_step));
    const config::Config told = spiky("told", told_keys);
    run_training(back, options(ranks, fault_));
    run_training(told, {.ranks = ranks});
    expect_same(result_of(back), result_of(told));
    const checkpoint::Reader reader(checkpoint::newest(back.checkpoint.folder).value());
    EXPECT_EQ(reader.trainer().at("left_out_steps"), Json({spike_step}));
    EXPECT_EQ(record_of(back).at("on_spike"), "back");
    for (const config::Config* one : {&back, &told}) std::filesystem::remove_all(one->checkpoint.folder);
  }
}

// The run is killed after it went back and before its next checkpoint, and again after that one.
TEST_F(GptSpikes, AResumedRunLeavesTheSameStepsOut) {
  const Keys keys = {"checkpoint.every=3", "train.on_spike=back"};
  Keys told_keys = keys;
  told_keys.push_back(fmt::format("train.skip_steps=[[{0}, {0}]]", spike_step));
  const config::Config told = spiky("told", told_keys), back = spiky("back", keys);
  run_training(told, {.ranks = 1});
  class Killed : public train::Hook {
   public:
    explicit Killed(int64_t step) : step_(step) {}
    void after_step(train::Trainer& trainer, const train::StepReport&) override {
      if (trainer.steps_done() == step_) throw std::runtime_error("killed");
    }

   private:
    int64_t step_;
  };
  run::RunOptions first = options(1, fault_);
  first.prepare = [disturb = first.prepare, begun = std::make_shared<int64_t>(0)](train::Trainer& trainer) {
    disturb(trainer);
    if (++*begun == 2) trainer.add_hook(std::make_unique<Killed>(7));
  };
  EXPECT_THROW(run_training(back, first), std::runtime_error);
  EXPECT_EQ(checkpoint::newest(back.checkpoint.folder).value().filename(), "step_00000006");
  EXPECT_EQ(train::read_left_out_steps(back.checkpoint.folder), (std::set<int64_t>{spike_step}));
  run_training(back, {.ranks = 1, .resume = "auto", .stop_after = 10});
  // A moved run has its checkpoints and not the file.
  train::remove_left_out_steps(back.checkpoint.folder);
  run_training(back, {.ranks = 1, .resume = "auto"});
  expect_same(result_of(back), result_of(told));
}

TEST_F(GptSpikes, WithoutACheckpointTheRunStartsOver) {
  const config::Config back = spiky("back", {"train.on_spike=back"});
  const config::Config told = spiky("told", {fmt::format("train.skip_steps=[[{0}, {0}]]", spike_step)});
  run_training(back, options(1, fault_));
  run_training(told, {.ranks = 1});
  expect_same(result_of(back), result_of(told));
}

TEST_F(GptSpikes, RunsThatKeepSpikingStop) {
  class AlwaysLarge : public train::Hook {
   public:
    void after_step(train::Trainer& trainer, const train::StepReport& report) override {
      MemoryFault fault = large_gradient("blocks.1.ffn.first.weight");
      fault.step = report.metrics.step + 1;
      if (fault.step >= spike_step) trainer.disturb({fault});
    }
  };
  const auto error_with = [&](const char* action) -> std::string {
    try {
      run_training(
          spiky(action, {std::string("train.on_spike=") + action, "train.steps=40", "checkpoint.every=3"}),
          {.ranks = 1, .prepare = [](train::Trainer& trainer) { trainer.add_hook(std::make_unique<AlwaysLarge>()); }});
    } catch (const std::runtime_error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(error_with("skip"), testing::HasSubstr("10 updates in a row were left out"));
  EXPECT_THAT(error_with("back"), testing::HasSubstr("10 updates in a row were left out"));
}

TEST_F(GptSpikes, ALossThatJumpsIsASpikeOfTheLoss) {
  class LargeStep : public train::Hook {
   public:
    double learning_rate(const train::Trainer&, int64_t step, double scheduled) override {
      return step == spike_step - 1 ? 1.0 : scheduled;
    }
    void after_step(train::Trainer&, const train::StepReport&) override {}
  };
  const config::Config watched = spiky("loss", {"train.on_spike=warn"});
  run_training(watched, {.ranks = 1,
                         .prepare = [](train::Trainer& trainer) { trainer.add_hook(std::make_unique<LargeStep>()); }});
  EXPECT_GT(record_of(watched).at("loss").at("deviations_above"), 20);
}

class VitSpikes : public Spikes {
 protected:
  config::Config config(const Keys& overrides) const override {
    return config::parse(
        fmt::format("[model]\nfamily = \"vit\"\nvariables = [\"t\"]\ngrid = [6, 8]\npatch = 2\nlayers = 1\n"
                    "width = 16\nheads = 4\n[data]\nfields = \"{0}/waves\"\nleads = [\"6h\"]\n"
                    "[train]\nglobal_batch = 4\nmicro_batch = 2\nsteps = 8\nthreads = 1\ndevice = \"cpu\"\n"
                    "[optimizer]\nlearning_rate = 1e-3\n[checkpoint]\nfolder = \"{0}/run\"\n",
                    folder_.string()),
        "vit.toml", models::families(), overrides);
  }
};

TEST_F(VitSpikes, RecordsHaveTheTimesOfTheFields) {
  data::TestFile file;
  file.times.clear();
  for (int i = 0; i < 60; ++i) file.times.push_back(6 * i);
  file.latitudes = {-75, -45, -15, 15, 45, 75};
  file.longitudes = {0, 45, 90, 135, 180, 225, 270, 315};
  file.variables = {{.name = "t", .value = [](double time, double, double latitude, double longitude) {
                       return std::cos((longitude - 7.5 * time) * 0.0174533) + latitude / 50;
                     }}};
  data::prepare_fields({file.write((folder_ / "in.nc").string())}, (folder_ / "waves").string(),
                       {{"train", {"2000-01-01", "2000-01-14"}}, {"validation", {"2000-01-15", "2000-01-15"}}});
  const config::Config watched = spiky("run", {"train.on_spike=warn"});
  run_training(watched, options(1, large_gradient("blocks.0.ffn.first.weight")));
  const Json record = record_of(watched);
  ASSERT_EQ(record.at("micro_batches").size(), 2u);
  const Json& sample = record.at("micro_batches").at(0).at("samples").at(1);
  EXPECT_EQ(sample.at("dataset"), (folder_ / "waves").string());
  EXPECT_THAT(sample.at("start").get<std::string>(), testing::StartsWith("2000-01-"));
  EXPECT_GT(sample.at("target"), sample.at("start"));
}

class GnnSpikes : public Spikes {
 protected:
  config::Config config(const Keys& overrides) const override {
    return config::parse(
        fmt::format("[model]\nfamily = \"gnn\"\nconv = \"painn\"\nlayers = 2\nwidth = 8\nradius = 3.0\n"
                    "[[model.outputs]]\nname = \"energy\"\nper_atom = true\n"
                    "[data]\ntrain = [\"{0}/molecules\"]\n"
                    "[train]\nglobal_batch = 5\nmicro_batch = 5\nsteps = 8\nthreads = 1\ndevice = \"cpu\"\n"
                    "[optimizer]\nlearning_rate = 1e-3\n[checkpoint]\nfolder = \"{0}/run\"\n",
                    folder_.string()),
        "gnn.toml", models::families(), overrides);
  }
};

TEST_F(GnnSpikes, RecordsHaveTheStructures) {
  prepare_chains_of_atoms((folder_ / "molecules").string(), 30);
  const config::Config watched = spiky("run", {"train.on_spike=warn"});
  const auto model = models::build_model(config({}), {});
  run_training(watched, options(1, large_gradient(model->parameters().back()->name)));
  const Json record = record_of(watched);
  const Json& sample = record.at("micro_batches").at(0).at("samples").at(4);
  EXPECT_EQ(sample.at("dataset"), (folder_ / "molecules").string());
  EXPECT_THAT(sample.at("file").get<std::string>(), testing::EndsWith("molecules.xyz"));
  // Sample i of the file has 1 + i % 5 atoms, alternating carbon and oxygen.
  const auto atoms = sample.at("atoms").get<int64_t>();
  EXPECT_EQ(atoms, 1 + sample.at("number_in_file").get<int64_t>() % 5);
  const std::vector<std::string> formulas = {"C", "CO", "C2O", "C2O2", "C3O2"};
  EXPECT_EQ(sample.at("formula"), formulas.at(static_cast<size_t>(atoms - 1)));
  EXPECT_EQ(sample.at("labels").at("energy").size(), 1u);
}

}  // namespace
}  // namespace terrace
