// Runs the model forward, from the data's fields and then from its own.
#include "terrace/run/forecast_checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <optional>

#include "terrace/base/error.h"
#include "terrace/base/system/start_watch.h"
#include "terrace/base/terminal/progress.h"
#include "terrace/data/fields/statistics/normalised_fields.h"
#include "terrace/data/fields/statistics/statistics_check.h"
#include "terrace/mesh/group.h"
#include "terrace/models/forecast_of_family.h"
#include "terrace/train/agreement.h"
#include "terrace/train/stop_request.h"

namespace terrace::run {
namespace {

// Everything that all ranks of the process share.
struct ForecastWork {
  explicit ForecastWork(const ForecastRequest& asked) : request(asked) {}

  const ForecastRequest& request;
  std::unique_ptr<const data::FieldsSource> source;
  std::optional<ForecastModel> model;
  forecast::ForecastPlan plan;
  int64_t micro_batch = 1;

  void configure(config::Config& config, const checkpoint::Reader& reader);
};

void ForecastWork::configure(config::Config& config, const checkpoint::Reader& reader) {
  const models::ForecastOfFamily& family = models::forecast_of_family(config);
  data::FieldsConfig& fields = data::fields_of(config);
  if (!family.reads_climatology(config)) {
    fields.climatology.clear();
  } else if (fields.climatology.empty()) {
    fields.climatology = fields.fields;
  }
  if (!request.fields.empty()) fields.fields = request.fields;
  data::take_attached_statistics(fields, reader.attached());
  config.phases.clear();
  source = std::make_unique<const data::FieldsSource>(fields, family.fields(config), config.train.seed);
  data::check_against_statistics(*source);
  micro_batch = config.train.micro_batch;
  model.emplace(ForecastModel{reader.path(), reader.step(), *source, family.knows_lead(config)});
  plan = request.plan(*model);
}

// One rank's part of the forecasts.
class ForecastRank {
 public:
  ForecastRank(const ForecastWork& work, train::Trainer& trainer, comm::World& world)
      : work_(work),
        trainer_(trainer),
        world_(world),
        group_(world.connect(mesh::all_ranks("forecast", world.size()))),
        data_ranks_(trainer.mesh().size("data")),
        numbers_(std::ssize(work.source->request().outputs) * work.source->description().places()) {}

  // False where a stop was requested.
  bool run() {
    const int64_t starts = std::ssize(work_.plan.starts), in_round = work_.micro_batch * data_ranks_;
    Progress progress("forecast", static_cast<uint64_t>(starts));
    for (int64_t first = 0; first < starts; first += in_round) {
      if (trainer_.any_rank(train::stop_requested(), "stop of the forecasts")) return false;
      if (first > 0) end_start();
      if (world_.rank() == 0)
        progress.update(static_cast<uint64_t>(first), fmt::format("start {}/{}", first + 1, starts));
      run_round(first);
    }
    return true;
  }

 private:
  // The starts of a data-parallel rank in the round whose first one is given. A rank without any repeats others, since
  // all ranks take part in what the model communicates.
  std::vector<int64_t> starts_of(int64_t data_rank, int64_t first) const {
    const int64_t starts = std::ssize(work_.plan.starts);
    const int64_t begin = first + data_rank * work_.micro_batch;
    if (begin >= starts) return starts_of(0, first);
    std::vector<int64_t> list;
    for (int64_t i = begin; i < std::min(begin + work_.micro_batch, starts); ++i) list.push_back(i);
    return list;
  }

  void run_round(int64_t first) {
    const std::vector<int64_t> own = starts_of(trainer_.mesh().coordinate(world_.rank(), "data"), first);
    std::vector<std::map<int64_t, std::vector<float>>> earlier(own.size());
    for (size_t lead = 0; lead < work_.plan.leads.size(); ++lead) {
      const bool feeds_back = work_.plan.rollout > 0;
      const int64_t ahead = work_.plan.leads[lead], done = feeds_back ? ahead - work_.plan.rollout : 0;
      std::vector<data::ForecastStep> steps;
      for (size_t i = 0; i < own.size(); ++i) {
        const int64_t start = work_.plan.starts[static_cast<size_t>(own[i])];
        steps.push_back({.start = start, .done = done, .lead = ahead - done, .earlier = &earlier[i]});
      }
      const models::Outputs outputs = trainer_.outputs(work_.source->forecast_batch(steps, trainer_.tensor_names()));
      for (int64_t data_rank = 0; data_rank < data_ranks_; ++data_rank) {
        const std::vector<int64_t> starts = starts_of(data_rank, first);
        std::vector<float> fields = shared(outputs, data_rank, std::ssize(starts));
        const bool is_own = data_rank == trainer_.mesh().coordinate(world_.rank(), "data");
        if (is_own || world_.rank() == 0) keep_missing(starts, fields);
        if (feeds_back && is_own) keep(fields, ahead, earlier);
        if (world_.rank() == 0 && first + data_rank * work_.micro_batch < std::ssize(work_.plan.starts)) {
          hand_over(starts, lead, fields);
        }
      }
    }
  }

  // The forecast of a data-parallel rank, normalised, on every rank.
  std::vector<float> shared(const models::Outputs& outputs, int64_t data_rank, int64_t samples) {
    std::vector<float> fields(static_cast<size_t>(samples * numbers_));
    if (roots_.empty()) find_roots(!outputs.empty());
    const int64_t root = roots_.at(static_cast<size_t>(data_rank));
    if (world_.rank() == root) {
      const at::Tensor forecast = outputs.at("forecast").to(at::kCPU).contiguous();
      std::copy_n(forecast.const_data_ptr<float>(), fields.size(), fields.begin());
    }
    group_->broadcast(fields.data(), std::ssize(fields), comm::Type::fp32, root, {.what = "forecast"}).wait();
    return fields;
  }

  // Finds, for each data-parallel rank, the first rank of the world that has the model's last unit.
  void find_roots(bool has_outputs) {
    const auto own = static_cast<int64_t>(has_outputs);
    std::vector<int64_t> all(static_cast<size_t>(world_.size()));
    group_->all_gather(&own, all.data(), 1, comm::Type::int64, {.what = "ranks with forecasts"}).wait();
    for (int64_t data_rank = 0; data_rank < data_ranks_; ++data_rank) {
      int64_t root = 0;
      while (all[static_cast<size_t>(root)] == 0 || trainer_.mesh().coordinate(root, "data") != data_rank) ++root;
      roots_.push_back(root);
    }
  }

  // Makes the places that the data lack at the start missing at every lead.
  void keep_missing(const std::vector<int64_t>& starts, std::vector<float>& fields) const {
    const auto numbers = static_cast<size_t>(numbers_);
    for (size_t i = 0; i < starts.size(); ++i) {
      work_.source->keep_missing(work_.plan.starts[static_cast<size_t>(starts[i])],
                                 std::span(fields).subspan(i * numbers, numbers),
                                 std::numeric_limits<float>::quiet_NaN());
    }
  }

  // Keeps what later steps read.
  void keep(const std::vector<float>& fields, int64_t ahead,
            std::vector<std::map<int64_t, std::vector<float>>>& earlier) {
    const int64_t oldest = ahead - (work_.source->config().inputs - 1) * work_.source->input_steps();
    for (size_t i = 0; i < earlier.size(); ++i) {
      const auto begin = fields.begin() + static_cast<std::ptrdiff_t>(i) * numbers_;
      earlier[i][ahead] = {begin, begin + numbers_};
      std::erase_if(earlier[i], [&](const auto& one) { return one.first < oldest; });
    }
  }

  void hand_over(const std::vector<int64_t>& starts, size_t lead, std::vector<float>& fields) {
    const auto places = static_cast<size_t>(work_.source->description().places());
    const std::span<float> all(fields);
    for (size_t i = 0; i < starts.size(); ++i) {
      const std::span<float> of_start = all.subspan(i * static_cast<size_t>(numbers_), static_cast<size_t>(numbers_));
      for (size_t output = 0; output < work_.source->request().outputs.size(); ++output) {
        data::denormalise(of_start.subspan(output * places, places), work_.source->moments_of_output(output));
      }
      work_.request.take(static_cast<size_t>(starts[i]), lead, of_start);
    }
  }

  const ForecastWork& work_;
  train::Trainer& trainer_;
  comm::World& world_;
  std::unique_ptr<comm::Comm> group_;
  int64_t data_ranks_, numbers_;
  std::vector<int64_t> roots_;
};

}  // namespace

bool forecast_checkpoint(const ForecastRequest& request) {
  ForecastWork work(request);
  bool finished = false;
  use_checkpoint(
      request.model,
      {.verb = "forecasts with",
       .configure = [&](config::Config& config, const checkpoint::Reader& reader) { work.configure(config, reader); },
       .run =
           [&](train::Trainer& trainer, const checkpoint::Reader& reader, comm::World& world) {
             train::abort_on_error(world, [&] {
               trainer.load_weights(reader);
               if (world.rank() == 0) request.begin(*work.model, work.plan);
               const bool all = ForecastRank(work, trainer, world).run();
               if (request.model.world != nullptr || world.rank() == 0) finished = all;
             });
           }});
  return finished;
}

}  // namespace terrace::run
