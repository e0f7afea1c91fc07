// A link on which calls of different communicators proceed at the same time, each at an equal share of the link's rate,
// and calls of one communicator follow each other.
#pragma once

#include <cstddef>
#include <limits>
#include <vector>

#include "terrace/schedule/step/times.h"

namespace terrace::schedule {

class SharedLink {
 public:
  struct Ended {
    size_t call;
    TimeInterval interval;  // from the beginning of its transfer, without the wait for calls before it
  };

  // Adds a call that takes so many seconds if it has the link for itself. Times do not decrease from call to call, and
  // the calls that end by `time` have been taken off the link.
  void add(size_t call, size_t communicator, double time, double seconds);
  // The time when the call that ends first does so if no other call is added; infinity without calls.
  double next_end() const { return next_end_; }
  // Takes this call off the link. There must be one.
  Ended end_next();

 private:
  struct Queued {
    size_t call;
    double seconds;
  };
  struct Communicator {
    size_t number;
    std::vector<Queued> queue = {};  // from `next` on they wait for the end of the call under way
    size_t next = 0;
    bool is_under_way = false;
  };
  // The call of a communicator that is being transferred.
  struct UnderWay {
    size_t call;
    size_t communicator;  // its index in communicators_
    double begin;
    double left;  // seconds that it would take from since_ on with the link for itself
  };

  void begin(size_t communicator, const Queued& call, double time);
  // Subtracts what was transferred from since_ to the time.
  void transfer_until(double time);
  void find_next_end();
  size_t communicator_index(size_t number);

  std::vector<Communicator> communicators_;
  std::vector<UnderWay> under_way_;
  double since_ = 0;
  size_t first_ = 0;  // the index of the call under way that ends first
  double next_end_ = std::numeric_limits<double>::infinity();
};

}  // namespace terrace::schedule
