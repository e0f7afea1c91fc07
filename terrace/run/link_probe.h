// Measures the links between the ranks of a run's groups with messages of their own, to find the one that is slow.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "terrace/comm/comm.h"
#include "terrace/train/run_clock.h"

namespace terrace::run {

// A direction in which messages take longer than before.
struct SlowLink {
  int64_t from = 0, to = 0;  // ranks
  double seconds = 0;        // of a message of probe_bytes
  double usual_seconds = 0;  // when the run began

  bool operator==(const SlowLink&) const = default;
};

inline constexpr int64_t probe_bytes = 256 << 10;

// The slowest of all links, and the median over the slowest link of each rank.
struct ProbedLinks {
  std::optional<SlowLink> slowest = {};  // without usual_seconds; none: no group has two members
  double usual_seconds = 0;
};

class LinkProbe {
 public:
  // `groups` are those of this rank, in the order in which all ranks have them; `all` has all ranks. A link whose
  // messages take less than `least_seconds` longer than usual is not slow: on shared cores a rank may begin so much
  // later to receive. The clock outlives the object; null: that of this machine.
  LinkProbe(std::vector<comm::Comm*> groups, comm::Comm& all, double least_seconds = 0,
            const train::RunClock* clock = nullptr);

  // Times a message from each member to others of its group, several times, and keeps the shortest times as the usual
  // ones. In groups of up to nine members each pair is measured, in larger ones those whose distance is a power of two.
  // Called by all ranks together; takes some milliseconds a group.
  void measure_usual();
  // Measures once, and returns the same on all ranks.
  ProbedLinks measure_all();
  // Measures again. Returns, on all ranks, the links that take half as long again as usual, and half as long again as
  // the ranks' links do in the median where all have become slower; the slowest first, at most one from each rank.
  std::vector<SlowLink> find_slow();

 private:
  struct Link {
    int64_t from = 0;  // a rank, which sends to this one
    double seconds = 0;
  };
  // The message of a rank to all others about one of its links.
  struct WorstLink {
    double from = -1, seconds = 0, usual_seconds = 0, ratio = 0;
  };
  std::vector<Link> measure();
  std::vector<WorstLink> gathered(const WorstLink& own);

  std::vector<comm::Comm*> groups_;
  comm::Comm& all_;
  double least_seconds_;
  const train::RunClock* clock_;
  std::vector<Link> usual_;
};

// "messages from rank 3 to rank 4 take 12.1 ms for 256.0 KiB in place of 0.31 ms"; several are summed up, and a rank
// that all of them have in common is named.
std::string text_of(const std::vector<SlowLink>& links);

}  // namespace terrace::run
