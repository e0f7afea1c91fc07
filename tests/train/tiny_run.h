// Makes a run small enough for a test: a corpus of random documents, a configuration and a folder of the test's own.
#pragma once

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "terrace/base/random.h"
#include "terrace/data/text/corpus_writer.h"
#include "terrace/data/text/text_source.h"
#include "terrace/models/families.h"
#include "terrace/train/stop_request.h"
#include "terrace/train/trainer.h"
#include "tests/scratch_folder.h"

namespace terrace::train {

// Asks the run to stop once it has taken this step.
class StopAfter : public Hook {
 public:
  explicit StopAfter(int64_t step) : step_(step) {}
  void after_step(Trainer&, const StepReport& report) override {
    if (report.metrics.step == step_) request_stop();
  }

 private:
  int64_t step_;
};

class TinyRun : public testing::Test {
 protected:
  static constexpr int64_t vocabulary = 61;

  void SetUp() override {
    at::set_num_threads(1);  // such small tensors gain nothing from more threads
    write_corpus(24);
  }

  // Documents of 3 to 40 tokens; the end token is the last of the vocabulary.
  void write_corpus(int64_t documents, const std::string& name = "corpus", PhiloxKey key = {5, 7}) {
    data::CorpusWriter writer((folder_ / name).string(), vocabulary, {.overwrite = true});
    for (int64_t document = 0; document < documents; ++document) {
      const PhiloxBlock draw = philox_at(key, static_cast<uint64_t>(document), 0);
      std::vector<int32_t> tokens;
      for (uint32_t i = 0; i < 3 + draw[0] % 38; ++i) {
        // A walk with a drift, so that there is something to learn.
        const uint32_t noise = philox_at(key, static_cast<uint64_t>(document), i + 1)[0] % 3;
        tokens.push_back(static_cast<int32_t>((draw[1] + 2 * i + noise) % (vocabulary - 1)));
      }
      tokens.push_back(vocabulary - 1);
      writer.append(tokens);
      writer.end_document();
    }
    writer.commit();
  }

  config::Config tiny_config(const std::vector<std::string>& overrides = {}) const {
    const std::string toml = R"([model]
family = "gpt"
layers = 2
width = 24
heads = 6
sequence = 16
vocabulary = 61
vocabulary_multiple = 8
[data]
train = [")" + (folder_ / "corpus").string() +
                             R"("]
validation_share = 0.2
[train]
global_batch = 4
micro_batch = 2
steps = 10
device = "cpu"
[optimizer]
learning_rate = 1e-2
warmup_steps = 2
[checkpoint]
folder = ")" + (folder_ / "run").string() +
                             "\"\n";
    return config::parse(toml, "tiny.toml", models::families(), overrides);
  }

  static const data::Loader& text_of(const Trainer& trainer) {
    return dynamic_cast<const data::TextSource&>(trainer.data()).loader();
  }

  // Every weight and optimizer state by name.
  static std::map<std::string, at::Tensor> snapshot(Trainer& trainer) {
    std::map<std::string, at::Tensor> tensors;
    for (const checkpoint::Collection& collection : trainer.state().collections) {
      for (const checkpoint::NamedTensor& named : collection.tensors) {
        tensors[collection.name + "/" + named.name] = named.tensor.clone();
      }
    }
    return tensors;
  }

  static void expect_equal(const std::map<std::string, at::Tensor>& a, const std::map<std::string, at::Tensor>& b) {
    ASSERT_EQ(a.size(), b.size());
    for (const auto& [name, tensor] : a) EXPECT_TRUE(tensor.equal(b.at(name))) << name;
  }

  static std::vector<double> take_steps(Trainer& trainer, int64_t count) {
    std::vector<double> losses;
    for (int64_t i = 0; i < count; ++i) losses.push_back(trainer.step().metrics.loss);
    return losses;
  }

  ScratchFolder scratch_;
  std::filesystem::path folder_ = scratch_.path();
};

}  // namespace terrace::train
