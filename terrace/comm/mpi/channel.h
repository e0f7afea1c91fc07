// A group's communicator, and what operations on it are made of: pieces that MPI can count, and who is added after
// whom.
#pragma once

#include <mpi.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "terrace/comm/comm.h"
#include "terrace/comm/mpi/library.h"
#include "terrace/comm/mpi/mpi.h"
#include "terrace/comm/mpi/peer_processes.h"
#include "terrace/comm/mpi/shared_memory.h"

namespace terrace::comm {

// How the calls of a world are made.
struct MpiChoices {
  bool rank_order = false;
  bool check_calls = false;
  MpiLimits limits;
};

class MpiChannel {
 public:
  // On a communicator of someone else, whose ranks are those of the group.
  MpiChannel(std::shared_ptr<MpiLibrary> library, const mesh::Group& group, int64_t member, const MpiChoices& choices,
             MPI_Comm communicator, uint64_t key);
  ~MpiChannel();
  MpiChannel(const MpiChannel&) = delete;
  MpiChannel& operator=(const MpiChannel&) = delete;

  // Makes a communicator of the group's own out of that one, members in their order. A collective of the group, whose
  // members are known to have come.
  void separate();
  // After that, also a collective: makes boxes for members that are processes of one machine, `first` the mark of the
  // first of them. There are none where one of them may not map that process's memory.
  void share(const ProcessMark& first);
  // The group was left in an error: its members may never come to free the communicator.
  void abandon() { separated_ = false; }

  uint64_t key() const { return key_; }  // by which all members name the group
  MPI_Comm communicator() const { return communicator_; }
  const MpiLibrary& library() const { return *library_; }
  const MpiChoices& choices() const { return choices_; }
  const mesh::Group& group() const { return group_; }
  int64_t size() const { return static_cast<int64_t>(group_.ranks.size()); }
  int64_t member() const { return member_; }
  SharedBoxes* boxes() const { return boxes_.get(); }                           // none without share()
  const std::vector<int64_t>& in_rank_order() const { return in_rank_order_; }  // member numbers

  // Collectives whose operations have been given to MPI: it pairs them up by their order alone.
  uint64_t started_collectives = 0;
  // That this member has entered, for those who ask.
  uint64_t entered_collectives = 0;

 private:
  std::shared_ptr<MpiLibrary> library_;
  mesh::Group group_;
  int64_t member_;
  std::vector<int64_t> in_rank_order_;
  MpiChoices choices_;
  MPI_Comm communicator_;
  uint64_t key_;
  bool separated_ = false;
  std::unique_ptr<SharedBoxes> boxes_;
};

// A tag for each purpose of a call, so that no message is taken for one of another call on the same communicator.
enum class TagUse { terms = 0, totals = 1, check = 2 };
int tag_of(const Call& call, TagUse use);
inline constexpr int send_receive_tag = 32766;

}  // namespace terrace::comm
