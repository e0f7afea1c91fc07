// The MPI communicator of a group, with the group's shared memory and the order in which its members' terms are added.
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

// Options that decide how a world makes its calls.
struct MpiChoices {
  bool rank_order = false;
  bool check_calls = false;
  MpiLimits limits;
};

class MpiChannel {
 public:
  // Starts on a communicator that it does not own, whose ranks are ranks of the world.
  MpiChannel(std::shared_ptr<MpiLibrary> library, const mesh::Group& group, int64_t member, const MpiChoices& choices,
             MPI_Comm communicator, uint64_t key);
  ~MpiChannel();
  MpiChannel(const MpiChannel&) = delete;
  MpiChannel& operator=(const MpiChannel&) = delete;

  // Makes a communicator for this group alone, with the members in their order. It is a collective of the group: all
  // members must be known to take part.
  void separate();
  // Makes slot rings in shared memory for a group whose members are processes of one machine; `first` identifies the
  // process of the first member. A collective, called after separate(). The channel has no rings where one of the
  // processes may not map the memory of the first.
  void share(const PeerIdentity& first);
  // Says that the group failed: its members may never take part in freeing the communicator.
  void abandon() { separated_ = false; }

  uint64_t key() const { return key_; }  // identifies the group on all its members
  MPI_Comm communicator() const { return communicator_; }
  const MpiLibrary& library() const { return *library_; }
  const MpiChoices& choices() const { return choices_; }
  const mesh::Group& group() const { return group_; }
  int64_t size() const { return static_cast<int64_t>(group_.ranks.size()); }
  int64_t member() const { return member_; }
  SharedRings* rings() const { return rings_.get(); }                           // none without share()
  const std::vector<int64_t>& in_rank_order() const { return in_rank_order_; }  // member numbers

  // Collectives whose operations have been started in MPI, which matches them by their order alone.
  uint64_t started_collectives = 0;
  // Collectives that this member has entered, for the answers to other ranks' questions.
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
  std::unique_ptr<SharedRings> rings_;
};

// Each purpose of a call has its own tag, so that messages of different calls on one communicator are not confused.
enum class TagUse { terms = 0, totals = 1, check = 2 };
int tag_of(const Call& call, TagUse use);
inline constexpr int send_receive_tag = 32766;

}  // namespace terrace::comm
