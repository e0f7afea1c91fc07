// Collects the facts that reports and later commands read from a run's folder.
#include "terrace/run/run_facts.h"

#include <filesystem>
#include <string>

#include "terrace/base/files/file.h"
#include "terrace/base/terminal/log.h"
#include "terrace/base/text/json.h"
#include "terrace/checkpoint/folder.h"
#include "terrace/config/family.h"
#include "terrace/config/names.h"
#include "terrace/config/phases.h"
#include "terrace/observe/figures.h"

namespace terrace::run {
namespace {

Json names_of_figures(const config::Config& config) {
  Json list = Json::array();
  for (const observe::Figure& figure : observe::figures_of(config).list(config)) {
    list.push_back({{"name", figure.name}, {"unit", figure.unit}, {"better", observe::name_of(figure.better)}});
  }
  return list;
}

}  // namespace

void write_run_facts(train::Trainer& trainer) {
  const config::Config& config = trainer.config();
  Json baselines = Json::array();
  for (const data::Baseline& baseline : trainer.data().baselines()) {
    baselines.push_back({{"key", baseline.key}, {"name", baseline.name}, {"loss", baseline.loss}});
  }
  Json facts = {{"parameters", nn::whole_elements(trainer.model().parameters())},
                {"precision", std::string(config::name_of(config.train.precision))},
                {"global_batch", config.train.global_batch},
                {"samples", config.family->samples},
                {"steps", config.train.steps},
                {"ranks", trainer.mesh().size()},
                {"peak_flops_per_second", trainer.peak().flops_per_second},
                {"peak_name", trainer.peak().name},
                {"loss_unit", observe::figures_of(config).loss_unit(config)},
                {"figures", names_of_figures(config)},
                {"baselines", baselines},
                {"kernels", trainer.kernels()}};
  for (size_t phase = 1; phase <= config.phases.size(); ++phase) {
    facts["phases"].push_back(
        {{"from_step", config.phases[phase - 1].from_step}, {"changes", config::phase_changes_text(config, phase)}});
  }
  const std::filesystem::path folder = config.checkpoint.folder;
  write_text_atomically(folder / "run.json", facts.dump(2) + "\n");
  write_text_atomically(folder / checkpoint::run_config_name, config::dump(config));
  log_info("every key of the configuration: {}", (folder / checkpoint::run_config_name).string());
}

}  // namespace terrace::run
