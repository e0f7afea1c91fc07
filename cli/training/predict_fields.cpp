// Forecasts with one model after another, combines the forecasts, and judges them.
#include "cli/training/predict_fields.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "cli/training/forecast_options.h"
#include "cli/training/launched_ranks.h"
#include "cli/training/output_file.h"
#include "terrace/base/error.h"
#include "terrace/base/terminal/log.h"
#include "terrace/base/terminal/progress.h"
#include "terrace/base/text/json.h"
#include "terrace/base/text/plural.h"
#include "terrace/checkpoint/checkpoint.h"
#include "terrace/data/fields/fields_dataset.h"
#include "terrace/ensemble/field_predictions.h"
#include "terrace/ensemble/judgement.h"
#include "terrace/models/families.h"
#include "terrace/run/forecast_checkpoint.h"
#include "terrace/train/stop_request.h"

namespace terrace::cli {
namespace {

// The forecasts of all models for one part of the times.
struct PartOfTimes {
  std::string split;
  std::filesystem::path file;
  std::vector<std::string> outputs = {};
  forecast::ForecastPlan plan = {};
  std::unique_ptr<ensemble::FieldPredictions> predictions = {};  // on the reporting rank
};

class FieldsPrediction {
 public:
  explicit FieldsPrediction(const FieldsToPredict& asked) : asked_(asked) {
    parts_.push_back({asked.split, asked.output});
  }

  // False where a stop was requested.
  bool forecast(LaunchedRanks& ranks) {
    if (!forecast_part(0, ranks)) return false;
    return parts_.size() == 1 || forecast_part(1, ranks);
  }

  // Prints the result, on the reporting rank.
  void finish() {
    const data::FieldsDataset data(fields_);
    std::vector<double> scales;
    if (parts_.size() > 1) scales = judged(data, parts_[1], {}).fitted_scales();
    const ensemble::JudgedFields result = judged(data, parts_[0], std::move(scales));
    parts_[0].predictions->commit();
    print(data.description(), result);
  }

 private:
  // A part of the validation times, to which scales of the spread are fitted, where the test part is predicted.
  void plan_validation(const run::ForecastModel& model) {
    if (asked_.split != "test" || asked_.members.size() == 1) return;
    if (!model.source.description().splits.contains("validation")) return;
    const auto has_starts = [&](int64_t lead) { return !model.source.starts_into("validation", lead).empty(); };
    if (std::ranges::all_of(parts_[0].plan.leads, has_starts)) {
      parts_.push_back({"validation", asked_.output + ".validation"});
    }
  }

  bool forecast_part(size_t number, LaunchedRanks& ranks) {
    for (size_t member = 0; member < asked_.members.size(); ++member) {
      if (!run::forecast_checkpoint(request_of(number, member, ranks))) return false;
    }
    return true;
  }

  run::ForecastRequest request_of(size_t number, size_t member, LaunchedRanks& ranks) {
    run::ForecastRequest request;
    request.model = asked_.resources;
    request.fields = asked_.data;
    request.model.checkpoint = asked_.members[member];
    request.model.world = ranks.world.get();
    request.plan = [this, number, member, is_reporting = ranks.is_reporting_rank()](const run::ForecastModel& model) {
      return plan_of(number, member, model, is_reporting);
    };
    request.begin = [](const run::ForecastModel&, const forecast::ForecastPlan&) {};
    request.take = [this, number, member](size_t start, size_t lead, std::span<const float> fields) {
      parts_[number].predictions->add(member, start, lead, fields);
    };
    return request;
  }

  forecast::ForecastPlan plan_of(size_t number, size_t member, const run::ForecastModel& model, bool is_reporting) {
    const std::vector<std::string>& outputs = model.source.request().outputs;
    forecast::ForecastPlan plan =
        forecast::plan_forecasts_of_split(model.source, parts_[number].split, asked_.times, model.knows_lead);
    if (member > 0) {
      check_same(parts_[number], model, plan);
    } else {
      if (number == 0) check_new_file(asked_.output, "--output", "predicted.nc", asked_.overwrite);
      fields_ = model.source.config().fields;
      parts_[number].outputs = outputs;
      parts_[number].plan = plan;
      if (is_reporting) {
        forecast::ForecastHeader header = forecast_header(model, plan);
        if (asked_.members.size() > 1) header.source = fmt::format("terrace, {} models", asked_.members.size());
        parts_[number].predictions =
            std::make_unique<ensemble::FieldPredictions>(parts_[number].file, header, asked_.members.size());
      }
      if (number == 0) plan_validation(model);
    }
    if (number == 0) checkpoints_.push_back({{"checkpoint", model.checkpoint.string()}, {"step", model.step}});
    return plan;
  }

  void check_same(const PartOfTimes& first, const run::ForecastModel& model, const forecast::ForecastPlan& plan) const {
    const std::vector<std::string>& outputs = model.source.request().outputs;
    const std::string model_of_first = asked_.members.front().string();
    if (outputs != first.outputs) {
      throw UserError::of("{} predicts {}, and {} {}; models of one prediction have the same outputs", model_of_first,
                          fmt::join(first.outputs, ", "), model.checkpoint.string(), fmt::join(outputs, ", "));
    }
    const data::TimeStep& step = model.source.description().step;
    const auto words = [&](const forecast::ForecastPlan& one) {
      std::vector<std::string> leads;
      for (const int64_t lead : one.leads) leads.push_back(forecast::lead_text(step, lead));
      return fmt::format("{} ahead from {}", fmt::join(leads, ", "), counted(one.starts.size(), "start"));
    };
    if (plan.leads != first.plan.leads || plan.starts != first.plan.starts) {
      throw UserError::of(
          "{} forecasts {}, and {} {}; give --lead with leads that all models know, and models with the same number of "
          "inputs",
          model_of_first, words(first.plan), model.checkpoint.string(), words(plan));
    }
  }

  // Combines the forecasts, and judges those of times in the part.
  ensemble::JudgedFields judged(const data::FieldsDataset& data, PartOfTimes& part, std::vector<double> scales) const {
    const data::FieldsDescription& all = data.description();
    const data::TimeSplit& split = all.splits.at(part.split);
    ensemble::JudgedFields judged({all.latitudes, all.longitudes}, part.plan.leads.size(), part.outputs.size(),
                                  std::move(scales));
    const auto target = [&](size_t start, size_t lead) {
      return data.time_after(part.plan.starts[start], part.plan.leads[lead]);
    };
    Progress progress("combine " + part.split, part.plan.starts.size());
    part.predictions->combine(
        [&](size_t start, size_t lead, size_t output) {
          const int64_t time = target(start, lead);
          const int64_t variable = data::FieldsDescription::find(all.variables, part.outputs[output]);
          return time < 0 ? std::span<const float>() : data.field(time, variable);
        },
        [&](size_t start, size_t lead, size_t output, const ensemble::Distribution& predicted,
            std::span<const float> label) {
          if (train::stop_requested()) throw UserError("stopped on request, without a result", ExitCode::stopped);
          progress.update(start);
          const int64_t time = target(start, lead);
          if (time >= split.first_time && time < split.end_time) judged.add(lead, output, predicted, label);
        });
    return judged;
  }

  void print(const data::FieldsDescription& all, const ensemble::JudgedFields& result) const {
    const PartOfTimes& part = parts_[0];
    Json json = {{"file", asked_.output}, {"checkpoints", checkpoints_},       {"data", fields_},
                 {"split", part.split},   {"starts", part.plan.starts.size()}, {"leads", Json::object()}};
    std::string text =
        fmt::format("predicted {} of the {} part of {} by {}: {}\n", counted(part.plan.starts.size(), "start"),
                    part.split, fields_, counted(asked_.members.size(), "model"), asked_.output);
    for (size_t lead = 0; lead < part.plan.leads.size(); ++lead) {
      const std::string name = forecast::lead_text(all.step, part.plan.leads[lead]);
      Json outputs = Json::object();
      for (size_t i = 0; i < part.outputs.size(); ++i) outputs[part.outputs[i]] = result.json(lead, i);
      text += fmt::format("{} ahead\n{}", name, ensemble::judgement_table(outputs));
      if (part.plan.leads.size() == 1) json["outputs"] = outputs;
      json["leads"][name] = {{"outputs", std::move(outputs)}};
    }
    fmt::print("{}", asked_.json ? json.dump() + "\n" : text);
  }

  const FieldsToPredict& asked_;
  std::vector<PartOfTimes> parts_;  // what was asked for, and the validation part
  std::string fields_;
  Json checkpoints_ = Json::array();
};

}  // namespace

bool forecasts_fields(const std::filesystem::path& checkpoint) {
  return checkpoint::Reader(checkpoint::resolve(checkpoint)).config(models::families()).family->forecast != nullptr;
}

void predict_fields(const FieldsToPredict& asked) {
  train::stop_on_signals();
  LaunchedRanks ranks = connect(asked.resources.ranks);
  const bool is_reporting_rank = ranks.is_reporting_rank();
  FieldsPrediction prediction(asked);
  run_and_leave(ranks, [&] { return prediction.forecast(ranks); });
  if (is_reporting_rank) prediction.finish();
}

}  // namespace terrace::cli
