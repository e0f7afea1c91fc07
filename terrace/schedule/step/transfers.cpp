// Finds the places of sends and receives in the lists.
#include "terrace/schedule/step/transfers.h"

#include <algorithm>
#include <map>

#include "terrace/schedule/pipeline/message.h"
#include "terrace/schedule/step/times.h"

namespace terrace::schedule {
namespace {

using Kind = Instruction::Kind;

Instruction receive_for(const Instruction& computation, const Message& message, const Placement& placement) {
  return {message.gradient ? Kind::receive_gradient : Kind::receive_activation, computation.micro_batch,
          computation.chunk, message.from(placement)};
}

Instruction send_of(const Instruction& computation, const Message& message, const Placement& placement) {
  return {message.gradient ? Kind::send_gradient : Kind::send_activation, computation.micro_batch, computation.chunk,
          message.to(placement)};
}

// A receive of one stage and the index of the computation before which it is posted.
struct Post {
  Instruction receive;
  size_t before;
  double made;  // the time when the tensor is complete
};

// The list of a stage: its computations, the receives where `posts` puts them, its sends and the optimizer step.
Instructions assemble(const Instructions& computations, const std::vector<Post>& posts, const Placement& placement,
                      int64_t stage) {
  Instructions list;
  list.reserve(2 * computations.size() + posts.size() + 1);
  auto post = posts.begin();
  for (size_t i = 0; i < computations.size(); ++i) {
    for (; post != posts.end() && post->before == i; ++post) list.push_back(post->receive);
    list.push_back(computations[i]);
    if (const auto message = between_stages(made(computations[i], placement, stage), placement)) {
      list.push_back(send_of(computations[i], *message, placement));
    }
  }
  list.push_back({Kind::optimizer_step});
  return list;
}

// The receives of the stage, each directly before the computation that takes the tensor.
std::vector<Post> posts_at_last_moment(const Instructions& computations, const Placement& placement, int64_t stage) {
  std::vector<Post> posts;
  for (size_t i = 0; i < computations.size(); ++i) {
    if (const auto message = between_stages(taken(computations[i], placement, stage), placement)) {
      posts.push_back({receive_for(computations[i], *message, placement), i, 0.0});
    }
  }
  return posts;
}

// The end time of each computation of the stage.
std::vector<double> computation_ends(const Instructions& list, const std::vector<TimeInterval>& intervals) {
  std::vector<double> ends;
  for (size_t i = 0; i < list.size(); ++i) {
    if (is_computation(list[i].kind)) ends.push_back(intervals[i].end);
  }
  return ends;
}

// Moves each post to the first computation that follows the making of the tensor in the order of Posting::careful.
void post_carefully(std::vector<Post>& posts, const std::vector<double>& ends, int64_t stage) {
  std::stable_sort(posts.begin(), posts.end(), [](const Post& a, const Post& b) { return a.made < b.made; });
  for (Post& post : posts) {
    const bool ties_follow = stage > post.receive.peer;
    const auto next = ties_follow ? std::lower_bound(ends.begin(), ends.end(), post.made)
                                  : std::upper_bound(ends.begin(), ends.end(), post.made);
    post.before = static_cast<size_t>(next - ends.begin());
  }
  std::stable_sort(posts.begin(), posts.end(), [](const Post& a, const Post& b) { return a.before < b.before; });
}

// Moves the posts to earlier computations and sorts them by place; receives from one stage are in the order of its
// sends.
void post_early(std::vector<Post>& posts, const std::vector<double>& ends) {
  for (Post& post : posts) {
    const auto running = std::lower_bound(ends.begin(), ends.end(), post.made);
    const size_t one_ahead = post.before - std::min<size_t>(post.before, 1);
    post.before = std::min(one_ahead, static_cast<size_t>(running - ends.begin()));
  }
  std::stable_sort(posts.begin(), posts.end(), [](const Post& a, const Post& b) { return a.made < b.made; });
  std::map<int64_t, size_t> next;  // by sender: the place of the receive of its next send
  for (auto post = posts.rbegin(); post != posts.rend(); ++post) {
    const auto [later, is_last] = next.try_emplace(post->receive.peer, post->before);
    post->before = later->second = is_last ? post->before : std::min(post->before, later->second);
  }
  std::stable_sort(posts.begin(), posts.end(), [](const Post& a, const Post& b) { return a.before < b.before; });
}

}  // namespace

std::vector<Instructions> with_transfers(const std::vector<Instructions>& computations, const Placement& placement,
                                         Posting posting) {
  const size_t stages = computations.size();
  std::vector<std::vector<Post>> posts;
  std::vector<Instructions> lists;
  for (size_t i = 0; i < stages; ++i) {
    const auto stage = static_cast<int64_t>(i);
    posts.push_back(posts_at_last_moment(computations[i], placement, stage));
    lists.push_back(assemble(computations[i], posts[i], placement, stage));
  }
  const ScheduleTimes times = simulate_schedule(lists, placement, balanced({}));
  const int64_t micro_batches = num_micro_batches(lists);
  std::vector<double> made_at(num_messages(placement, micro_batches));
  const auto number = [&](const Instruction& transfer, size_t stage) {
    return number_of(*carried(transfer, placement, static_cast<int64_t>(stage)), placement, micro_batches);
  };
  for (size_t i = 0; i < stages; ++i) {
    for (size_t k = 0; k < lists[i].size(); ++k) {
      if (is_send(lists[i][k].kind)) made_at.at(number(lists[i][k], i)) = times.intervals[i][k].end;
    }
  }
  for (size_t i = 0; i < stages; ++i) {
    for (Post& post : posts[i]) post.made = made_at.at(number(post.receive, i));
    const std::vector<double> ends = computation_ends(lists[i], times.intervals[i]);
    if (posting == Posting::careful) {
      post_carefully(posts[i], ends, static_cast<int64_t>(i));
    } else {
      post_early(posts[i], ends);
    }
    lists[i] = assemble(computations[i], posts[i], placement, static_cast<int64_t>(i));
  }
  return lists;
}

}  // namespace terrace::schedule
