// Tests that processes are distinguished by their identities, also after they have ended.
#include "terrace/base/system/process_identity.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

namespace terrace {
namespace {

TEST(ProcessIdentity, OfThisProcessIsReadBackAndAlive) {
  const ProcessIdentity own = identity_of_this_process();
  const auto read = parse_process_identity(own.text());
  ASSERT_TRUE(read);
  EXPECT_EQ(read->process_id, ::getpid());
  EXPECT_EQ(read->text(), own.text());
  EXPECT_TRUE(read->is_of_this_host());
  EXPECT_FALSE(read->has_ended());
  EXPECT_EQ(read->death(), "");
}

TEST(ProcessIdentity, AnotherProcessWithTheSameNumberIsNotTheOne) {
  ProcessIdentity own = identity_of_this_process();
  own.start = "1";
  EXPECT_TRUE(own.has_ended());
  EXPECT_EQ(own.death(), "has died");
}

TEST(ProcessIdentity, AnotherHostsProcessCannotBeAskedFor) {
  ProcessIdentity other = identity_of_this_process();
  other.kernel = "another-boot";
  other.start = "1";
  EXPECT_FALSE(other.is_of_this_host());
  EXPECT_EQ(other.death(), "");
}

TEST(ProcessIdentity, AChildThatWasKilledHasEndedBeforeAndAfterItsParentAsks) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const std::string text = identity_of_this_process().text();
    (void)!::write(ends[1], text.data(), text.size());
    ::pause();
    ::_exit(0);
  }
  char text[512] = {};
  ASSERT_GT(::read(ends[0], text, sizeof text - 1), 0);
  const auto identity = parse_process_identity(text);
  ASSERT_TRUE(identity);
  EXPECT_FALSE(identity->has_ended());
  ::kill(child, SIGKILL);
  siginfo_t ended;
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOWAIT), 0);
  EXPECT_TRUE(identity->has_ended());
  ::waitpid(child, nullptr, 0);
  EXPECT_TRUE(identity->has_ended());
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST(ProcessIdentity, OtherTextIsNone) {
  EXPECT_FALSE(parse_process_identity(""));
  EXPECT_FALSE(parse_process_identity("host 12"));
  EXPECT_FALSE(parse_process_identity("host process 1 boot"));
}

}  // namespace
}  // namespace terrace
