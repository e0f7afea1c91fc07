// Collects the state of a trainer for a checkpoint, and restores a trainer from a checkpoint.
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include <functional>
#include <optional>
#include <unordered_map>

#include "terrace/base/error.h"
#include "terrace/base/files/file.h"
#include "terrace/base/terminal/log.h"
#include "terrace/nn/precision.h"
#include "terrace/parallel/states.h"
#include "terrace/train/agreement.h"
#include "terrace/train/check_resumed.h"
#include "terrace/train/copy_states.h"
#include "terrace/train/gradient_errors.h"
#include "terrace/train/initial_weights.h"
#include "terrace/train/kernel_record.h"
#include "terrace/train/layout_difference.h"
#include "terrace/train/trainer.h"

namespace terrace::train {

std::vector<checkpoint::Collection> Trainer::collections(Purpose purpose) {
  struct Held {
    const optim::AdamW::State* state;
    size_t number;  // of the state
    optim::ShardPiece piece;
  };
  std::unordered_map<const nn::Parameter*, Held> held;
  const std::vector<optim::AdamW::State>& states = own_.optimizer.states();
  for (size_t number = 0; number < states.size(); ++number) {
    for (const optim::ShardPiece& piece : states[number].shard.own_pieces()) {
      held[piece.parameter] = {&states[number], number, piece};
    }
  }
  checkpoint::Collection weights{"weights", {}}, m{"optimizer_m", {}}, v{"optimizer_v", {}};
  // When reading, the collections name every parameter of the model, so that the reader finds tensors of another model.
  for (const nn::Parameter* parameter : purpose == Purpose::save ? own_.cut.stage.parameters() : model_->parameters()) {
    const auto found = held.find(parameter);
    std::vector<LocalRange> ranges;
    if (found != held.end()) {
      const optim::ShardPiece& piece = found->second.piece;
      ranges = purpose == Purpose::save ? counted_ranges(parameter->mark, piece.begin, piece.end)
                                        : std::vector<LocalRange>{{piece.begin, piece.end}};
    }
    const auto add = [&](checkpoint::Collection& collection, at::Tensor optim::AdamW::State::*states,
                         bool is_common = false) {
      checkpoint::NamedTensor named{.name = parameter->name, .tensor = at::empty({0}), .mark = parameter->mark};
      named.range = {.begin = 0, .end = 0, .shape = parameter->value.sizes().vec()};
      if (ranges.empty())
        collection.tensors.push_back(named);  // a parameter is named even if this rank holds none of it
      for (const LocalRange& range : ranges) {
        const auto& [state, number, piece] = found->second;
        // Between outer updates the weights of the whole model are those that its copies have in common.
        const at::Tensor& all = is_common && own_.outer ? own_.outer->states()[number].anchor : state->*states;
        named.tensor = all.narrow(0, piece.at + range.begin - piece.begin, range.end - range.begin);
        named.range->begin = range.begin;
        named.range->end = range.end;
        collection.tensors.push_back(named);
      }
    };
    add(weights, &optim::AdamW::State::master, purpose == Purpose::save);
    add(m, &optim::AdamW::State::m);
    add(v, &optim::AdamW::State::v);
  }
  std::vector<checkpoint::Collection> all = {std::move(weights), std::move(m), std::move(v)};
  // The collection is on all ranks or on none.
  if (!model_->buffers().empty()) all.push_back(buffer_collection(purpose));
  return all;
}

checkpoint::Collection Trainer::buffer_collection(Purpose purpose) {
  // One of the ranks that hold a buffer saves it.
  const bool writes = mesh().coordinate(rank(), mesh::shard_axes) == 0 && mesh().coordinate(rank(), "tensor") == 0;
  checkpoint::Collection collection{checkpoint::buffers_collection, {}};
  for (const nn::Buffer* buffer : purpose == Purpose::save ? own_.cut.stage.buffers() : model_->buffers()) {
    const std::vector<int64_t> shape = buffer->value.sizes().vec();
    checkpoint::NamedTensor named{.name = buffer->name, .tensor = buffer->value, .mark = ParamMark::replicated(shape)};
    if (buffer->value.is_meta() || (purpose == Purpose::save && !writes)) {
      named.tensor = at::empty({0});
      named.range = {.begin = 0, .end = 0, .shape = shape};
    }
    collection.tensors.push_back(std::move(named));
  }
  return collection;
}

checkpoint::State Trainer::state() {
  checkpoint::State state{.step = steps_done_,
                          .collections = collections(Purpose::save),
                          .trainer = {},
                          .config = config_,
                          .attached = data_->attached_files()};
  const int64_t samples = ramp_.samples_before(steps_done_ + 1);
  state.trainer = {{"samples", samples},
                   {"items", items_done_},
                   {"updates", own_.optimizer.count},
                   {"loss_scale", {{"scale", loss_scale_.scale}, {"good_steps", loss_scale_.good_steps}}},
                   {"random", {{"generator", "philox4x32-10"}, {"seed", config_.train.seed}, {"step", steps_done_}}},
                   {"data", data_record_},
                   {"kernels", kernels()}};
  if (noise_scale_.measurements > 0) {
    state.trainer["noise_scale"] = {
        {"noise", noise_scale_.noise}, {"signal", noise_scale_.signal}, {"measurements", noise_scale_.measurements}};
  }
  if (config_.train.on_spike != config::OnSpike::ignore) state.trainer["spike_window"] = spike_window();
  if (!left_out_steps_.empty()) state.trainer["left_out_steps"] = left_out_steps_;
  if (checkpoint::Collection errors = gradient_errors(own_.cut.sharded, rank()); !errors.tensors.empty()) {
    state.collections.push_back(std::move(errors));
    state.trainer[errors_layout_key] = errors_layout(config_.layout, mesh(), own_.cut.groups.place.sizes);
  }
  if (checkpoint::Collection copies = copy_states(own_, rank(), /*saves=*/true); !copies.tensors.empty()) {
    state.collections.push_back(std::move(copies));
    state.trainer[copies_layout_key] = errors_layout(config_.layout, mesh(), own_.cut.groups.place.sizes);
  }
  return state;
}

Json Trainer::kernels() const {
  return kernel_record({.threads = at::get_num_threads(),
                        .micro_batch = config_.train.micro_batch_sizes.empty() ? micro_batch_ : 0,
                        .micro_batch_sizes = config_.train.micro_batch_sizes,
                        .ranks = world_->size(),
                        .device = device_,
                        .type = nn::scalar_type(config_.train.precision),
                        .choice = kernels_});
}

void Trainer::agree_on(const std::function<void()>& read) {
  std::optional<UserError> problem;
  try {
    read();
  } catch (const UserError& error) {
    problem = error;
  }
  agree(*world_, problem);
}

void Trainer::resume(const checkpoint::Reader& checkpoint) {
  const at::NoGradGuard no_grad;
  agree_on([&] {
    check_resumed_config(config_, checkpoint);
    check_resumed_data(*data_, data_record_, checkpoint);
    for (const checkpoint::Collection& collection : collections(Purpose::read)) checkpoint.read(collection);
    restore_errors(checkpoint, gradient_errors(own_.cut.sharded, rank()),
                   errors_layout(config_.layout, mesh(), own_.cut.groups.place.sizes),
                   [this](const std::string& sentence) {
                     if (rank() == 0) log_info("{}", sentence);
                   });
  });
  parallel::spread_states(own_.cut.sharded, own_.optimizer, true);
  own_.cut.sharded.finish_update();
  if (own_.outer) {
    agree_on([&] {
      restore_copies(checkpoint, own_, rank(), errors_layout(config_.layout, mesh(), own_.cut.groups.place.sizes),
                     [this](const std::string& sentence) {
                       if (rank() == 0) log_info("{}", sentence);
                     });
    });
    own_.optimizer.publish_masters();
    own_.cut.sharded.publish();
    own_.cut.sharded.finish_update();
  }
  const Json& saved = checkpoint.trainer();
  steps_done_ = began_after_ = checkpoint.step();
  items_done_ = saved.at(saved.contains("items") ? "items" : "tokens").get<int64_t>();  // older versions: tokens
  own_.optimizer.count = saved.at("updates").get<int64_t>();
  loss_scale_.scale = saved.at("loss_scale").at("scale").get<double>();
  loss_scale_.good_steps = saved.at("loss_scale").at("good_steps").get<int64_t>();
  if (const auto noise = saved.find("noise_scale"); noise != saved.end()) {
    noise_scale_ = {.noise = noise->at("noise").get<double>(),
                    .signal = noise->at("signal").get<double>(),
                    .measurements = noise->at("measurements").get<int64_t>()};
  }
  restore_spikes(saved);
  if (rank() == 0) warn_of_other_bits(checkpoint);
}

void Trainer::warn_of_other_bits(const checkpoint::Reader& checkpoint) const {
  const std::string kernels_differ = kernel_differences(checkpoint.trainer().at("kernels"), kernels());
  const std::string layouts_differ =
      layout_difference(checkpoint.config({config_.family}), config_, world_->size(), world_->ranks_per_node());
  if (kernels_differ.empty() && layouts_differ.empty()) return;
  log_warning("the run continues, but not bit for bit: {}{}{}", kernels_differ,
              kernels_differ.empty() || layouts_differ.empty() ? "" : ", ", layouts_differ);
}

void Trainer::take_weights(const std::function<void()>& read) {
  const at::NoGradGuard no_grad;
  agree_on(read);
  parallel::spread_states(own_.cut.sharded, own_.optimizer, false);
  own_.cut.sharded.finish_update();
  if (own_.outer) own_.outer->begin_at_masters();
}

void Trainer::load_weights(const checkpoint::Reader& checkpoint) {
  take_weights([&] {
    for (const checkpoint::Collection& collection : model_collections()) checkpoint.read(collection);
  });
}

void Trainer::take_initial_weights(const checkpoint::Reader& checkpoint) {
  take_weights([&] {
    const InitialWeights initial(config_, checkpoint);
    initial.read(checkpoint, model_collections());
    const std::string text = initial.text();
    if (rank() == 0 && !text.empty()) log_info("from {}: {}", checkpoint.path().string(), text);
  });
}

}  // namespace terrace::train
