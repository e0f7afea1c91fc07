// Lets the threads of a loop wait for each other briefly before they sleep, on cores that other work may use too.
//
// Idle threads of libgomp, the OpenMP library of torch, look for the next loop for 300,000 turns, which are 2 to 20
// milliseconds. On a core that another process wants, they take the time slices of threads that have work: beside one
// busy process a core, steps of small models take ten times as long. Threads that sleep at once have to be woken for
// every loop, which takes longer than many loops. To look for as long as waking takes, and to sleep then, costs at most
// twice the better of both (Karlin, Manasse, Rudolph and Sleator, "Competitive snoopy caching", 1988).
//
// libgomp reads its settings when it is loaded, which is before main(). So the program starts itself again with the
// setting in its environment before any library has begun, which takes some 20 milliseconds. Programs that it starts
// get an environment without the setting: they may run on another machine, where turns take longer.
#include <sys/auxv.h>
#include <unistd.h>

#include <climits>
#include <cstdlib>
#include <ctime>

namespace terrace::cli {
namespace {

// Functions that run before the libraries may call neither the C++ library nor a sanitizer.
#define TERRACE_BEFORE_LIBRARIES __attribute__((no_sanitize("address", "thread", "undefined")))

constexpr long waking_nanoseconds = 50'000;
constexpr char setting_name[] = "GOMP_SPINCOUNT=";
// Says that the setting is this program's own.
char own_setting[] = "TERRACE_BRIEF_WAITING=1";

// Static, since the calls that would allocate them are not there yet.
constexpr long most_entries = 20'000;
char* environment[most_entries + 3];
char setting[sizeof(setting_name) + 20];
char program[PATH_MAX];

TERRACE_BEFORE_LIBRARIES bool begins_with(const char* text, const char* name) {
  while (*name != '\0' && *text == *name) {
    ++text;
    ++name;
  }
  return *name == '\0';
}

TERRACE_BEFORE_LIBRARIES long nanoseconds() {
  timespec time = {};
  ::clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * 1'000'000'000 + time.tv_nsec;
}

// One turn of libgomp's loop.
TERRACE_BEFORE_LIBRARIES void turn() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  asm volatile("" ::: "memory");
#endif
}

// The pause instruction takes 10 to 150 cycles. The shortest of a few tries was not interrupted.
TERRACE_BEFORE_LIBRARIES long turns_while_waking() {
  constexpr long tries = 5, turns = 400;
  long shortest = LONG_MAX;
  for (long i = 0; i < tries; ++i) {
    const long began = nanoseconds();
    for (long k = 0; k < turns; ++k) turn();
    const long took = nanoseconds() - began;
    if (took < shortest) shortest = took;
  }
  return waking_nanoseconds * turns / (shortest > 0 ? shortest : 1);
}

TERRACE_BEFORE_LIBRARIES void write_setting(long turns) {
  char digits[20];
  int count = 0;
  for (; turns > 0; turns /= 10) digits[count++] = static_cast<char>('0' + turns % 10);
  char* end = setting;
  for (const char* from = setting_name; *from != '\0'; ++from) *end++ = *from;
  while (count > 0) *end++ = digits[--count];
  *end = '\0';
}

// Returns where the environment says already how threads wait, or where the program cannot be started again: then it
// runs as it is.
TERRACE_BEFORE_LIBRARIES void start_with_brief_waiting(int, char** arguments, char** inherited) {
  // Started as an argument of ld.so, whose path /proc/self/exe then is.
  if (::getauxval(AT_BASE) == 0) return;
  long entries = 0;
  for (; inherited[entries] != nullptr; ++entries) {
    if (entries == most_entries || begins_with(inherited[entries], "OMP_WAIT_POLICY=") ||
        begins_with(inherited[entries], setting_name))
      return;
    environment[entries] = inherited[entries];
  }
  write_setting(turns_while_waking());
  environment[entries] = setting;
  environment[entries + 1] = own_setting;
  // The program starts by its own path, since ps would show it as "exe" otherwise.
  const ssize_t length = ::readlink("/proc/self/exe", program, sizeof(program) - 1);
  if (length > 0) ::execve(program, arguments, environment);
}

using BeforeLibraries = void (*)(int, char**, char**);
__attribute__((section(".preinit_array"), used)) const BeforeLibraries before_libraries = start_with_brief_waiting;

// Runs after the libraries have read their settings, and before main().
__attribute__((constructor)) void forget_setting() {
  if (std::getenv("TERRACE_BRIEF_WAITING") == nullptr) return;
  ::unsetenv("GOMP_SPINCOUNT");
  ::unsetenv("TERRACE_BRIEF_WAITING");
}

}  // namespace
}  // namespace terrace::cli
