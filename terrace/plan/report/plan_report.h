// A plan as text for people and as one JSON object for programs.
#pragma once

#include <optional>
#include <string>

#include "terrace/base/text/json.h"
#include "terrace/plan/calendar/storage_need.h"
#include "terrace/plan/estimate.h"
#include "terrace/plan/layouts/best.h"
#include "terrace/plan/layouts/same_loss.h"
#include "terrace/plan/noise/expected_step.h"
#include "terrace/plan/prediction.h"
#include "terrace/plan/report/published_errors.h"
#include "terrace/plan/report/spanned_groups.h"
#include "terrace/plan/time/run_cost.h"
#include "terrace/plan/time/tensor_reach.h"

namespace terrace::plan {

// Everything that `terrace plan` says of one configuration on one machine.
struct Plan {
  config::Config config;
  Target target;
  Prediction prediction;
  RunCost cost = {};
  StorageNeed storage = {};
  std::optional<SpannedGroups> groups = {};  // where the nodes lie in several groups of the network
  StepInterval interval = {};
  std::optional<ExpectedStep> noise = {};  // of a machine that states noise
  std::optional<GivenNoiseScale> noise_scale = {};

  // The advice, which takes the predictions of other layouts.
  // Changes that would help most; of a run that is not feasible the nearest feasible ones, or where there are none the
  // fastest of all layouts that fit.
  std::vector<Change> changes = {};
  std::string none_fits = {};  // why no layout at all fits so many devices; "": some does, or the run is feasible
  std::optional<TensorReach> tensor_reach = {};  // with several tensor ranks
};

// Predicts the configuration alone, without advice. The run trains on `items` instead of those of train.steps, if they
// are given.
Plan predicted_plan(const config::Config& config, const Target& target, std::optional<double> items = {},
                    const std::optional<GivenNoiseScale>& noise_scale = {});
// Predicts the layouts that the advice is about.
void add_advice(Plan& plan);
// Both.
Plan make_plan(const config::Config& config, const Target& target, std::optional<double> items = {},
               const std::optional<GivenNoiseScale>& noise_scale = {});

// The keys: feasible, reason, parameters, model_flops, hardware_flops, step_seconds, interval, samples_per_second,
// tokens_per_second (or the family's items), mfu, hfu, bubble_share, queued_share, exposed_seconds by group,
// computation_seconds by kind of the slowest stage, update_seconds, micro_batch_sizes (average and largest by name,
// where samples differ in size), limit, tensor_groups (null with one tensor rank), network_groups (null where the nodes
// lie in one), run (time/run_cost.h), trainings, checkpoint, node_memory, rank_overhead_bytes, storage, roofline,
// changes, none_fits, noise (null where the machine states none), noise_scale (null where none is given), and stages: a
// list with memory_bytes by category and in total, communicators by kind and their bytes, whole_weights_bytes of the
// largest layer and of the largest other segment, and sent_bytes of one rank in a step by group.
Json json_of(const Plan& plan);
// The text is that of the prediction, and behind it that of the advice. A run that does not fit has no cost in it.
std::string text_of(const Plan& plan);
std::string prediction_text(const Plan& plan);
std::string advice_text(const Plan& plan);

// "8", samples of a micro-batch, or "up to 2,048 atoms", its budget.
std::string micro_batch_text(const Plan& plan);
// "full", or "full of 2 to 5 of the 8 layers of a stage" where layout.recompute_layers gives numbers or "fit".
std::string recompute_text(const config::Config& config, const Prediction& prediction);
// "atoms 1,024 on average, at most 2,048 a micro-batch": the sizes that were counted; "" where samples do not differ.
std::string sizes_text(const Plan& plan);

// The options that make a change on a shell's command line: "--set layout.pipeline=1".
std::string options_of(const Change& change);

// The best layouts: a list of layouts with their settings, step_seconds, mfu, hfu, bubble_share, queued_share and the
// bytes of the fullest stage; how many layouts were considered, and within which limits; and why the first is faster
// than the second.
Json json_of(const BestLayouts& best, const Target& target);
std::string text_of(const BestLayouts& best, const Target& target);

}  // namespace terrace::plan
