// Gathers tensors as sums of bits, to which only one rank contributes, and digest logs as text.
#include "terrace/verify/gather.h"

#include <cstring>
#include <string>

#include "terrace/base/text/json.h"

namespace terrace::verify {
namespace {

constexpr comm::Label label = {.what = "gather results"};

std::string text_of(const DigestLog& log) {
  Json json = Json::array();
  for (const LoggedDigest& event : log) {
    json.push_back(
        {event.step, event.micro_batch, event.segment, static_cast<int>(event.what), event.tensor, event.digest});
  }
  return json.dump();
}

DigestLog log_of(const std::string& text) {
  DigestLog log;
  for (const Json& event : Json::parse(text)) {
    log.push_back({.step = event[0].get<int64_t>(),
                   .micro_batch = event[1].get<int64_t>(),
                   .segment = event[2].get<int64_t>(),
                   .what = static_cast<LoggedDigest::What>(event[3].get<int>()),
                   .tensor = event[4].get<std::string>(),
                   .digest = event[5].get<uint64_t>()});
  }
  return log;
}

void gather_digest_logs(std::vector<DigestLog>& digest_logs, comm::Comm& all) {
  for (int64_t rank = 0; rank < all.size(); ++rank) {
    DigestLog& log = digest_logs[static_cast<size_t>(rank)];
    std::string text = rank == all.member() ? text_of(log) : "";
    int64_t length = std::ssize(text);
    all.broadcast(&length, 1, comm::Type::int64, rank, label).wait();
    text.resize(static_cast<size_t>(length));
    all.broadcast(text.data(), length, comm::Type::uint8, rank, label).wait();
    log = log_of(text);
  }
}

}  // namespace

void gather_run(SmallRun& run, comm::Comm& all) {
  for (StepState& step : run.steps) {
    for (double* first : {&step.loss, &step.norm}) all.broadcast(first, 1, comm::Type::fp64, 0, label).wait();
    // Summed as integers, so that a negative zero keeps its sign and a NaN its bits.
    std::vector<double>& losses = step.micro_batch_losses;
    all.all_reduce(losses.data(), std::ssize(losses), comm::Type::int64, label).wait();
    for (auto& tensors : step.tensors) {
      for (auto& [name, tensor] : tensors) {
        all.all_reduce(tensor.mutable_data_ptr(), static_cast<int64_t>(tensor.nbytes()), comm::Type::uint8, label)
            .wait();
      }
    }
  }
  gather_digest_logs(run.digest_logs, all);
}

}  // namespace terrace::verify
