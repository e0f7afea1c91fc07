// Records operations with callbacks of torch's recorder, in one list of spans for each thread.
#include "terrace/profile/operation_recorder.h"

#include <ATen/record_function.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <fmt/format.h>

#include <chrono>
#include <string_view>
#include <utility>

#include "terrace/base/error.h"
#include "terrace/profile/operation_cost.h"

namespace terrace::profile {

struct OperationRecorder::State {
  State(const at::Device& device, const RankThreads* ranks) : device(device), ranks(ranks) { lane(); }

  observe::Lane& lane() {
    const auto [found, is_new] = lane_of.try_emplace(std::this_thread::get_id(), lanes.size());
    if (is_new) {
      lanes.push_back({.name = lanes.empty() ? "training" : fmt::format("thread {}", lanes.size()),
                       .rank = ranks != nullptr ? ranks->own() : 0});
    }
    return lanes[found->second];
  }

  void add(observe::Span span) {
    const std::lock_guard lock(mutex);
    // A thread that saves in the background may end an operation after the recording.
    if (!finished) lane().spans.push_back(std::move(span));
  }

  void wait_for_device() const {
    // torch's CUDAHooksInterface is not used, since it has this function in another place where torch is built for
    // AMD's GPUs.
    if (device.is_cuda()) c10::impl::VirtualGuardImpl(device.type()).synchronizeDevice(device.index());
  }

  const at::Device device;
  const RankThreads* const ranks;
  std::mutex mutex;
  std::map<std::thread::id, size_t> lane_of;
  observe::Trace lanes;
  bool finished = false;
  at::CallbackHandle registration = at::INVALID_CALLBACK_HANDLE;
};

namespace {

using SharedState = std::shared_ptr<OperationRecorder::State>;

// Torch's callbacks are plain functions, so they find the recorder here. An operation keeps the recorder it began with.
std::mutex active_mutex;
SharedState active;

SharedState exchange_active(SharedState next) {
  const std::lock_guard lock(active_mutex);
  return std::exchange(active, std::move(next));
}

SharedState find_active() {
  const std::lock_guard lock(active_mutex);
  return active;
}

struct OpenSpan : at::ObserverContext {
  SharedState state;
  observe::Span span;
};

int64_t now_ns() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
}

bool is_ours(const observe::Span& span) { return span.name.starts_with(own_operation_prefix); }

// Whether it is the autograd engine's frame around a node of the backward pass, which is no operation on tensors.
bool is_of_engine(const at::RecordFunction& operation) {
  return std::string_view(operation.name()).starts_with("autograd::engine");
}

observe::Span span_of(const at::RecordFunction& operation) {
  observe::Span span{.name = operation.name()};
  const auto inputs = operation.inputs();
  if (operation.scope() == at::RecordScope::USER_SCOPE) {
    span.kind = observe::SpanKind::phase;
    const int64_t step = inputs.size() == 1 && inputs[0].isInt() ? inputs[0].toInt() : 0;
    if (step > 0) span.detail = fmt::format("step {}", step);
  } else if (is_ours(span)) {
    span.flops = inputs.at(0).toDouble();
    span.bytes = inputs.at(1).toDouble();
  } else {
    const OperationCost cost = cost_before(operation);
    span.flops = cost.flops;
    span.bytes = cost.bytes;
    span.detail = shapes_of(operation);
  }
  return span;
}

std::unique_ptr<at::ObserverContext> begin(const at::RecordFunction& operation) {
  auto open = std::make_unique<OpenSpan>();
  open->state = find_active();
  if (open->state == nullptr || is_of_engine(operation)) return nullptr;
  open->span = span_of(operation);
  open->state->wait_for_device();
  open->span.begin_ns = now_ns();
  return open;
}

void end(const at::RecordFunction& operation, at::ObserverContext* context) {
  if (context == nullptr) return;
  auto& open = static_cast<OpenSpan&>(*context);
  open.state->wait_for_device();
  open.span.end_ns = now_ns();
  if (open.span.kind == observe::SpanKind::operation && !is_ours(open.span)) open.span.bytes += bytes_after(operation);
  open.state->add(std::move(open.span));
}

}  // namespace

void RankThreads::add(int64_t rank) {
  const std::lock_guard lock(mutex_);
  ranks_[std::this_thread::get_id()] = rank;
}

int64_t RankThreads::own() const {
  const std::lock_guard lock(mutex_);
  if (ranks_.size() == 1) return ranks_.begin()->second;
  const auto found = ranks_.find(std::this_thread::get_id());
  return found == ranks_.end() ? -1 : found->second;
}

OperationRecorder::OperationRecorder(const at::Device& device, const RankThreads* ranks, Records records)
    : state_(std::make_shared<State>(device, ranks)) {
  TERRACE_CHECK(exchange_active(state_) == nullptr, "a second recorder of operations");
  auto callback = at::RecordFunctionCallback(&begin, &end).needsInputs(true).needsOutputs(true);
  if (records == Records::everything) {
    callback.scopes({at::RecordScope::FUNCTION, at::RecordScope::USER_SCOPE});
  } else {
    callback.scopes({at::RecordScope::USER_SCOPE});
  }
  state_->registration = at::addGlobalCallback(callback);
  record_own_operations(true);
}

OperationRecorder::~OperationRecorder() { finish(); }

observe::Trace OperationRecorder::finish() {
  if (state_->registration == at::INVALID_CALLBACK_HANDLE) return {};
  record_own_operations(false);
  at::removeCallback(std::exchange(state_->registration, at::INVALID_CALLBACK_HANDLE));
  exchange_active(nullptr);
  const std::lock_guard lock(state_->mutex);
  state_->finished = true;
  return std::exchange(state_->lanes, {});
}

}  // namespace terrace::profile
