// Sends clocks beside the data, on connections of their own.
#include "terrace/rehearse/clocked_world.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

namespace terrace::rehearse {
namespace {

// The end of a member's transfer and the seconds that it takes with the link for itself.
using Time = std::array<double, 2>;

constexpr comm::Label label = {.what = "clocks"};

class ClockedCall : public comm::Work::State {
 public:
  // A call outside a step takes so many seconds; on a slow link it takes 1 + slowness times as long.
  struct Link {
    double seconds_outside = 0, slowness = 0;
  };
  ClockedCall(comm::Comm& data, comm::Comm& clocks, RankClock& clock, size_t communicator, const Link& link,
              const comm::Call& call, comm::Owner owner)
      : clock_(clock), kind_(call.kind), began_(clock.seconds()) {
    const bool receives = kind_ == comm::Kind::receive;
    if (!receives) transfer_ = clock.begin_transfer(communicator, link.seconds_outside, link.slowness);
    own_ = {transfer_.end, transfer_.seconds};
    data_ = data.begin(call, std::move(owner));
    if (receives) {
      times_.resize(1);
      clock_message_ = clocks.receive(times_.data(), 2, comm::Type::fp64, call.peer, label);
    } else if (kind_ == comm::Kind::send) {
      clock_message_ = clocks.send(own_.data(), 2, comm::Type::fp64, call.peer, label);
    } else {
      times_.resize(static_cast<size_t>(clocks.size()));
      clock_message_ = clocks.all_gather(own_.data(), times_.data(), 2, comm::Type::fp64, label);
    }
  }

  void wait() override {
    data_.wait();
    clock_message_.wait();
    clock_.wait_until(std::max(end_of_others(), kind_ == comm::Kind::receive ? began_ : clock_.end_of(transfer_)));
  }
  // On the clock: a call that has ended here may be under way there.
  bool done() override {
    if (!data_.done() || !clock_message_.done() || end_of_others() > clock_.seconds()) return false;
    return kind_ == comm::Kind::receive || clock_.has_ended(transfer_);
  }
  void abandon() override {}  // the destructors of both calls abandon them

 private:
  double end_of_others() const {
    double end = 0;
    for (const Time& time : times_) {
      end = std::max(end, time[0]);
      if (kind_ == comm::Kind::receive) end = std::max(end, began_ + time[1]);
    }
    return end;
  }

  RankClock& clock_;
  const comm::Kind kind_;
  const double began_;
  RankClock::Transfer transfer_;
  Time own_ = {};
  std::vector<Time> times_;
  comm::Work data_, clock_message_;  // the last members: they are abandoned before the buffers go
};

class ClockedComm : public comm::Comm {
 public:
  ClockedComm(std::unique_ptr<comm::Comm> data, std::unique_ptr<comm::Comm> clocks, RankClock& clock,
              const ClockedLinks& links, size_t first)
      : Comm(data->group(), data->member()),
        data_(std::move(data)),
        clocks_(std::move(clocks)),
        clock_(clock),
        links_(links),
        first_communicator_(first) {
    for (const auto& [ends, slowness] : links.slow) {
      if (has(ends.first) && has(ends.second)) slowness_ = std::max(slowness_, slowness);
    }
  }

 private:
  bool has(int64_t rank) const { return std::ranges::find(group().ranks, rank) != group().ranks.end(); }

  comm::Work start(const comm::Call& call, comm::Owner owner) override {
    const bool to_peer = call.kind == comm::Kind::send || call.kind == comm::Kind::receive;
    const size_t communicator = first_communicator_ + (to_peer ? static_cast<size_t>(call.peer) + 1 : 0);
    ClockedCall::Link link{.slowness = clock_.is_slow() ? slowness_ : 0};
    if (call.kind == comm::Kind::send) {
      const int64_t own = group().ranks[static_cast<size_t>(member())];
      const int64_t to = group().ranks[static_cast<size_t>(call.peer)];
      link.seconds_outside = links_.seconds(own, to, static_cast<double>(call.count * comm::size_of(call.type)));
      if (!links_.slow.contains(std::minmax(own, to))) link.slowness = 0;
    }
    return comm::Work(
        std::make_unique<ClockedCall>(*data_, *clocks_, clock_, communicator, link, call, std::move(owner)));
  }

  const std::unique_ptr<comm::Comm> data_, clocks_;
  RankClock& clock_;
  const ClockedLinks& links_;
  const size_t first_communicator_;  // of the collectives; the messages to members follow
  double slowness_ = 0;              // of the slowest of the slow links in the group
};

class ClockedWorld : public comm::World {
 public:
  ClockedWorld(comm::World& inner, RankClock& clock, const ClockedLinks& links)
      : inner_(inner), clock_(clock), links_(links) {}

  int64_t rank() const override { return inner_.rank(); }
  int64_t size() const override { return inner_.size(); }
  int64_t ranks_per_node() const override { return inner_.ranks_per_node(); }
  int64_t cores_per_rank() const override { return inner_.cores_per_rank(); }
  void use_gpu(int gpu) override { inner_.use_gpu(gpu); }
  std::unique_ptr<comm::Comm> connect(const mesh::Group& group,
                                      const std::vector<mesh::Direction>& directions) override {
    auto data = inner_.connect(group, directions);
    auto clocks = inner_.connect({.name = "clocks of " + group.name, .ranks = group.ranks}, directions);
    const size_t first = std::exchange(next_communicator_, next_communicator_ + group.ranks.size() + 1);
    return std::make_unique<ClockedComm>(std::move(data), std::move(clocks), clock_, links_, first);
  }
  void abort(const std::string& reason) override { inner_.abort(reason); }

 private:
  comm::World& inner_;
  RankClock& clock_;
  const ClockedLinks& links_;
  size_t next_communicator_ = 0;
};

}  // namespace

std::unique_ptr<comm::World> make_clocked_world(comm::World& inner, RankClock& clock, const ClockedLinks& links) {
  return std::make_unique<ClockedWorld>(inner, clock, links);
}

}  // namespace terrace::rehearse
