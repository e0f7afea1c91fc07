// Forwards calls to another Comm late, not at all, or with a flipped bit.
#include "terrace/comm/fault.h"

#include <chrono>
#include <thread>
#include <utility>

namespace terrace::comm {
namespace {

void flip_bit(char* data, int64_t bytes) {
  if (bytes > 0) data[bytes / 2] = static_cast<char>(data[bytes / 2] ^ 1);
}

int64_t written_bytes(const Call& call, int64_t members) {
  const bool of_all = call.kind == Kind::all_gather || call.kind == Kind::all_to_all;
  return (of_all ? members : 1) * call.count * size_of(call.type);
}

// A call in whose result a bit is flipped when it is complete, or a send of a corrupted copy, which lives as long.
class CorruptedCall : public Work::State {
 public:
  CorruptedCall(Comm& inner, Call call, Owner owner) {
    if (call.kind == Kind::send) {
      const char* const from = static_cast<const char*>(call.from);
      copy_.assign(from, from + call.count * size_of(call.type));
      flip_bit(copy_.data(), static_cast<int64_t>(copy_.size()));
      call.from = copy_.data();
    } else {
      written_ = static_cast<char*>(call.to);
      bytes_ = written_bytes(call, inner.size());
    }
    work_ = inner.begin(call, std::move(owner));
  }

  void wait() override {
    work_.wait();
    if (written_ != nullptr) flip_bit(std::exchange(written_, nullptr), bytes_);
  }
  bool done() override { return work_.done(); }
  void abandon() override {}  // the destructor of work_ abandons the inner call

 private:
  std::vector<char> copy_;
  char* written_ = nullptr;
  int64_t bytes_ = 0;
  Work work_;
};

class FaultyComm : public Comm {
 public:
  FaultyComm(std::unique_ptr<Comm> inner, int64_t rank, const std::vector<Fault>& faults)
      : Comm(inner->group(), inner->member()), inner_(std::move(inner)), rank_(rank), faults_(faults) {}

 private:
  Work start(const Call& call, Owner owner) override {
    for (const Fault& fault : faults_) {
      if (!fault.hits(rank_, group(), call)) continue;
      if (fault.effect == Fault::Effect::drop) return {};
      if (fault.effect == Fault::Effect::corrupt) {
        return Work(std::make_unique<CorruptedCall>(*inner_, call, std::move(owner)));
      }
      std::this_thread::sleep_for(std::chrono::duration<double>(fault.delay_seconds));
      break;
    }
    return inner_->begin(call, std::move(owner));
  }

  const std::unique_ptr<Comm> inner_;
  const int64_t rank_;
  const std::vector<Fault>& faults_;
};

class FaultyWorld : public World {
 public:
  FaultyWorld(World& inner, std::vector<Fault> faults) : inner_(inner), faults_(std::move(faults)) {}

  int64_t rank() const override { return inner_.rank(); }
  int64_t size() const override { return inner_.size(); }
  int64_t ranks_per_node() const override { return inner_.ranks_per_node(); }
  int64_t cores_per_rank() const override { return inner_.cores_per_rank(); }
  void use_gpu(int gpu) override { inner_.use_gpu(gpu); }
  std::unique_ptr<Comm> connect(const mesh::Group& group, const std::vector<mesh::Direction>& directions) override {
    return std::make_unique<FaultyComm>(inner_.connect(group, directions), rank(), faults_);
  }
  void abort(const std::string& reason) override { inner_.abort(reason); }

 private:
  World& inner_;
  const std::vector<Fault> faults_;
};

}  // namespace

std::unique_ptr<World> make_faulty_world(World& inner, std::vector<Fault> faults) {
  return std::make_unique<FaultyWorld>(inner, std::move(faults));
}

}  // namespace terrace::comm
