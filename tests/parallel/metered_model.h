// A model that records how many bytes of tensors are alive before the forward of each micro-batch.
#pragma once

#include <memory>
#include <vector>

#include "terrace/memory/meter.h"
#include "terrace/models/forwarding_model.h"

namespace terrace::parallel {

class MeteredModel : public models::ForwardingModel {
 public:
  using ForwardingModel::ForwardingModel;

  // The first unit of this stage: 0 except on later pipeline stages.
  void set_first_unit(int64_t unit) { first_unit_ = unit; }
  // Discards earlier records and returns the meter to be installed.
  std::shared_ptr<memory::Meter> new_meter() {
    alive_.clear();
    return meter_ = std::make_shared<memory::Meter>();
  }
  // The bytes before each forward, in the order of the forwards.
  const std::vector<int64_t>& alive() const { return alive_; }

  models::Tensors forward(int64_t begin, int64_t end, const models::Tensors& input, const models::Batch& batch,
                          const models::Pass& pass) override {
    if (meter_ != nullptr && begin == first_unit_) alive_.push_back(meter_->now);
    return ForwardingModel::forward(begin, end, input, batch, pass);
  }

 private:
  int64_t first_unit_ = 0;
  std::shared_ptr<memory::Meter> meter_;
  std::vector<int64_t> alive_;
};

}  // namespace terrace::parallel
