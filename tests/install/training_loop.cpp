// A program of its own around the installed library (docs/library.md): trains a tiny model with a learning rate of its
// own, first by the run that the command makes, then step by step.
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <vector>

#include "terrace/base/error.h"
#include "terrace/config/config.h"
#include "terrace/data/text/corpus_writer.h"
#include "terrace/models/families.h"
#include "terrace/run/run_training.h"
#include "terrace/train/prepare_machine.h"
#include "terrace/train/trainer.h"

namespace {

constexpr const char* settings = R"(
[model]
family = "gpt"
layers = 1
width = 32
heads = 2
sequence = 16
vocabulary = 100

[data]
train = ["corpus"]
validation_share = 0.0

[train]
global_batch = 4
steps = 6

[optimizer]
learning_rate = 1e-2
schedule = "constant"

[checkpoint]
folder = "run"
)";

// Halves the learning rate from a step on, and keeps the rates of all steps.
class HalvedRate : public terrace::train::Hook {
 public:
  explicit HalvedRate(std::vector<double>& rates) : rates_(rates) {}

  double learning_rate(const terrace::train::Trainer&, int64_t step, double scheduled) override {
    return step > 3 ? scheduled / 2 : scheduled;
  }
  void after_step(terrace::train::Trainer&, const terrace::train::StepReport& report) override {
    rates_.push_back(report.metrics.learning_rate);
  }

 private:
  std::vector<double>& rates_;
};

void write_corpus() {
  terrace::data::CorpusWriter writer("corpus", 100, {.overwrite = true});
  std::vector<int32_t> tokens(4000);
  for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<int32_t>(i * i % 97);
  writer.append(tokens);
  writer.end_document();
  writer.commit();
}

}  // namespace

int main() {
  using namespace terrace;
  write_corpus();
  std::filesystem::remove_all("run");  // of an earlier start
  try {
    const config::Config config = config::parse(settings, "settings", models::families());

    // The whole run: checks, log, metrics, checkpoints, signals.
    std::vector<double> rates;
    run::RunOptions options;
    options.prepare = [&](train::Trainer& trainer) { trainer.add_hook(std::make_unique<HalvedRate>(rates)); };
    const run::RunResult result = run::run_training(config, options);
    if (!result.finished || rates != std::vector<double>{1e-2, 1e-2, 1e-2, 5e-3, 5e-3, 5e-3}) return 1;

    // A loop of one's own: nothing is written, and every step is yours.
    train::prepare_machine(1);
    train::Trainer trainer(config, train::Peak{});
    double first = 0, last = 0;
    while (!trainer.all_steps_done()) {
      const train::StepReport report = trainer.step();
      (report.metrics.step == 1 ? first : last) = report.metrics.loss;
    }
    std::printf("from %.3f to %.3f\n", first, last);
    return last < first ? 0 : 1;
  } catch (const UserError& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return static_cast<int>(error.code);
  }
}
