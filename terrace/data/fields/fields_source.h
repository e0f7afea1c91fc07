// The samples of a model of fields: pairs of a start and a later time, with their inputs, targets and what else a model
// may read of them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "terrace/base/random.h"
#include "terrace/data/fields/fields_config.h"
#include "terrace/data/fields/fields_dataset.h"
#include "terrace/data/order/mixture.h"
#include "terrace/data/order/node_order.h"
#include "terrace/data/source.h"

namespace terrace::data {

class TensorWriter;

// The fields that a model reads and predicts.
struct FieldsRequest {
  std::vector<std::string> inputs = {}, outputs = {};  // variables of the dataset, such as "z_500"
  int64_t latitudes = 0, longitudes = 0;               // of the model's grid; 0: any
  std::vector<double> counts = {};  // for each loss of the model what one sample counts (MicroBatch::counts)
};

// A sample by numbers of times of the dataset.
struct FieldPair {
  int64_t start = 0, target = 0;
  bool operator==(const FieldPair&) const = default;
};

// One step of a forecast that begins at a time of the data. The step's prediction may be given to the model as its next
// inputs.
struct ForecastStep {
  int64_t start = 0;  // number of the time at which the forecast begins
  int64_t done = 0;   // steps of the data from there to the last input, which is predicted itself where this is above 0
  int64_t lead = 1;   // steps of the data from the last input to what is predicted
  // Normalised outputs [Vo, H, W] of the forecast so far, by the steps of the data from its start to their time.
  const std::map<int64_t, std::vector<float>>* earlier = nullptr;
};

// Tensors of B samples on H latitudes, from south to north, and W longitudes, all fp32. Fields are normalised by the
// means and deviations of their variables; a deviation of 0 counts as 1, and missing values are 0.
//   "inputs" [B, C, H, W]       C: the inputs at each input time, earliest first, then the constants once
//   "targets" [B, Vo, H, W]     the outputs at the target's time
//   "before" [B, Vo, H, W]      the outputs at the start
//   "climatology" [B, Vo, H, W] the outputs' climatology at the target's time
//   "climatology_before" [B, Vo, H, W]  the same at the start; 0 where "before" is missing
//   "mask" [B, Vo, H, W]        1 where the target has a value, 0 where it is missing
//   "leads" [B]                 hours from the start to the target
//   "times" [B, 2]              of the start: the part of the year and of the day that have passed
//   "weights" [H]               cosine of the latitude divided by the mean of all of them
// All times of a training sample lie in the training part, so that nothing of the validation or test part is trained
// on. A held-out sample belongs to the part in which its target lies: its inputs, which are known when a forecast is
// made, may lie before that part.
class FieldsSource : public Source {
 public:
  // `global_batch` is the samples of each step, by which data.order = "node" is computed; 0: nothing is trained. Throws
  // UserError with every problem.
  FieldsSource(const FieldsConfig& config, const FieldsRequest& request, uint64_t seed, int64_t global_batch = 0);

  uint64_t samples_in_epoch() const override { return training_starts_.size(); }
  std::vector<AttachedFile> attached_files() const override;
  Json identity() const override;
  std::vector<const MappedFile*> staged_files() const override;
  const NodeOrder* node_order() const override { return node_order_.get(); }

  // Return a sample of the run, and one of the held-out split, which has all starts with the first lead, then with the
  // second.
  FieldPair training_pair(uint64_t sample) const;
  // Returns the columns by which the fields of a sample of the run are turned eastward: 0 unless data.turned is true.
  int64_t turn_of(uint64_t sample) const;
  FieldPair held_out_pair(uint64_t number) const;
  uint64_t held_out_pairs() const;

  // Makes the tensors of the samples; `numbers` become MicroBatch::samples.
  MicroBatch batch(const std::vector<FieldPair>& pairs, std::vector<int64_t> numbers, const TensorNames& names) const;

  // Returns the starts whose inputs the data have and whose time so many steps ahead lies in a part of the times.
  std::vector<int64_t> starts_into(const std::string& split, int64_t lead) const;
  // Makes the tensors that a model is given to forecast: those of batch() but for "targets" and "mask", whose times
  // need not be in the data.
  MicroBatch forecast_batch(const std::vector<ForecastStep>& steps, const TensorNames& names) const;
  // Returns the inputs that no output predicts; a forecast of several steps needs that there are none.
  std::vector<std::string> inputs_without_forecast() const;
  // Returns whether the data have all inputs of a sample that begins at a time.
  bool has_inputs(int64_t start) const;
  // Sets the places of outputs [Vo, H, W] of a forecast that are missing in the data at its start, such as land in a
  // temperature of the sea: what the model computes there was never compared with anything. An output that the model
  // does not read, and of which the start has no value at all, stays as it is.
  void keep_missing(int64_t start, std::span<float> outputs, float in_place) const;

  const FieldsDataset& dataset() const { return dataset_; }
  const FieldsConfig& config() const { return config_; }
  const FieldsRequest& request() const { return request_; }
  int64_t input_steps() const { return input_steps_; }  // steps of the data between two inputs
  const FieldsDescription& description() const { return dataset_.description(); }
  // Returns the moments by which an output is normalised: value = mean + deviation * number.
  Moments moments_of_output(size_t output) const { return output_moments_.at(output); }

 protected:
  std::vector<HeldOutPart> held_out_parts() const override { return {{config_.fields, held_out_.size()}}; }
  MicroBatch micro_batch(const Samples& samples, const TensorNames& names) const override;
  int64_t items_of(uint64_t /*sample*/) const override { return 1; }
  // Adds the dataset, the time of the start and of the target, and how far the fields were turned.
  void describe(uint64_t sample, Json& record) const override;
  FileRanges ranges_of(const Samples& samples, const TensorNames& names) const override;

 private:
  // A variable, and the moments by which its field becomes numbers of a tensor.
  struct Channel {
    int64_t variable = 0;
    Moments moments = {};
  };
  // Returns the starts of which all inputs and all targets lie in the training part.
  std::vector<int64_t> training_starts() const;
  std::vector<FieldPair> pairs_of(const Samples& samples) const;
  void add_inputs(const FieldPair& pair, TensorWriter& values) const;
  void add_fields(int64_t time, const std::vector<Channel>& channels, TensorWriter& values) const;
  const FieldsDataset& climatology_dataset() const { return climatology_ ? *climatology_ : dataset_; }
  // Adds the outputs' climatology at an instant.
  void add_climatology(int64_t target, TensorWriter& values) const;
  // Throws UserError where these tensors need a climatology that the data lack.
  void check_climatology(const TensorNames& names) const;
  // Adds the climatology so many steps after a time of the data; 0 where the output is missing at that time.
  void add_climatology_before(int64_t start, int64_t done, TensorWriter& values) const;
  void add_forecast_inputs(const ForecastStep& step, TensorWriter& values) const;
  // Adds the outputs at the time of the last input.
  void add_last_outputs(const ForecastStep& step, TensorWriter& values) const;

  FieldsConfig config_;
  FieldsRequest request_;
  FieldsDataset dataset_;
  std::optional<FieldsDataset> climatology_;  // the dataset of the climatology, where it is another one
  std::vector<Channel> inputs_, outputs_, constants_;
  std::vector<Moments> output_moments_;
  std::vector<int64_t> leads_;  // in steps
  int64_t input_steps_ = 1;
  std::vector<int64_t> training_starts_;
  std::vector<FieldPair> held_out_;
  PhiloxKey lead_key_, turn_key_;
  std::optional<Mixture> order_;  // of the training starts
  std::shared_ptr<const NodeOrder> node_order_;
};

// Returns sentences about what does not fit between the configuration, the model and the files of a run that trains,
// without reading values. A run that `evaluates` needs held-out times too.
std::vector<std::string> problems_with_fields(const FieldsConfig& config, const FieldsRequest& request,
                                              bool evaluates = false);

// Returns the names and checksums of what the files of the configuration hold, which must be equal on all ranks.
std::vector<std::pair<std::string, std::string>> facts_of_fields(const FieldsConfig& config);

}  // namespace terrace::data
