// Reads symbols of the program's file, and notes the stack of each exception where the runtime throws it.
#include "terrace/base/system/call_stack.h"

#include <cxxabi.h>
#include <dlfcn.h>
#include <elf.h>
#include <execinfo.h>
#include <fmt/format.h>
#include <link.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <span>

#include "terrace/base/files/file.h"

namespace terrace {
namespace {

std::string demangled(const char* name) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> text(abi::__cxa_demangle(name, nullptr, nullptr, &status), std::free);
  return status == 0 ? text.get() : name;
}

// The functions in the table of symbols of this program's file.
class OwnSymbols {
 public:
  OwnSymbols() {
    try {
      file_ = MappedFile("/proc/self/exe");
      find_table();
    } catch (const std::exception&) {
      symbols_ = {};  // without names of functions
    }
    dl_iterate_phdr(
        [](dl_phdr_info* info, size_t, void* base) {
          *static_cast<uint64_t*>(base) = info->dlpi_addr;
          return 1;  // the program comes first
        },
        &base_);
  }

  std::optional<std::string> name(const void* frame) const {
    const uint64_t offset = reinterpret_cast<uint64_t>(frame) - base_;
    for (const Elf64_Sym& symbol : symbols_) {
      const bool is_function = ELF64_ST_TYPE(symbol.st_info) == STT_FUNC;
      if (!is_function || offset < symbol.st_value || offset >= symbol.st_value + symbol.st_size) continue;
      return fmt::format("{} + {:#x}", demangled(names_ + symbol.st_name), offset - symbol.st_value);
    }
    return std::nullopt;
  }

 private:
  template <typename Type>
  std::span<const Type> at(uint64_t offset, uint64_t bytes) const {
    if (offset + bytes > file_.bytes().size()) return {};
    return {reinterpret_cast<const Type*>(file_.bytes().data() + offset), bytes / sizeof(Type)};
  }

  void find_table() {
    const auto header = at<Elf64_Ehdr>(0, sizeof(Elf64_Ehdr));
    if (header.empty() || std::memcmp(header.front().e_ident, ELFMAG, SELFMAG) != 0) return;
    const auto sections = at<Elf64_Shdr>(header.front().e_shoff, header.front().e_shnum * sizeof(Elf64_Shdr));
    for (const Elf64_Shdr& section : sections) {
      if (section.sh_type != SHT_SYMTAB || section.sh_link >= sections.size()) continue;
      symbols_ = at<Elf64_Sym>(section.sh_offset, section.sh_size);
      names_ = reinterpret_cast<const char*>(file_.bytes().data() + sections[section.sh_link].sh_offset);
    }
  }

  MappedFile file_;
  std::span<const Elf64_Sym> symbols_;
  const char* names_ = nullptr;
  uint64_t base_ = 0;
};

// The exceptions that were thrown last.
class ThrownExceptions {
 public:
  void note(const void* thrown) {
    const CallStack stack = CallStack::here();
    const std::lock_guard lock(mutex_);
    kept_[next_++ % kept_.size()] = {.thrown = thrown, .stack = stack};
  }

  CallStack find(const void* thrown) {
    const std::lock_guard lock(mutex_);
    for (size_t back = 1; back <= kept_.size(); ++back) {
      const Thrown& one = kept_[(next_ - back) % kept_.size()];
      if (one.thrown == thrown) return one.stack;
    }
    return {};
  }

  std::atomic<bool> on = false;

 private:
  struct Thrown {
    const void* thrown = nullptr;
    CallStack stack;
  };
  std::mutex mutex_;
  std::array<Thrown, 64> kept_;
  size_t next_ = kept_.size();
};

ThrownExceptions& thrown_exceptions() {
  static ThrownExceptions all;
  return all;
}

}  // namespace

CallStack CallStack::here() {
  CallStack stack;
  stack.count = ::backtrace(stack.frames.data(), most_frames);
  return stack;
}

std::vector<std::string> names_of(const CallStack& stack) {
  const OwnSymbols own;
  std::vector<std::string> names;
  for (int i = 0; i < stack.count; ++i) {
    void* const frame = stack.frames[static_cast<size_t>(i)];
    Dl_info info = {};
    const bool found = ::dladdr(frame, &info) != 0 && info.dli_fname != nullptr;
    const std::string library = found ? std::filesystem::path(info.dli_fname).filename().string() : "?";
    if (const std::optional<std::string> name = own.name(frame)) {
      names.push_back(*name);
    } else if (found && info.dli_sname != nullptr) {
      const auto offset = reinterpret_cast<uint64_t>(frame) - reinterpret_cast<uint64_t>(info.dli_saddr);
      names.push_back(fmt::format("{} + {:#x} ({})", demangled(info.dli_sname), offset, library));
    } else {
      const uint64_t base = found ? reinterpret_cast<uint64_t>(info.dli_fbase) : 0;
      names.push_back(fmt::format("{} + {:#x}", library, reinterpret_cast<uint64_t>(frame) - base));
    }
  }
  return names;
}

void note_thrown_exceptions(bool on) { thrown_exceptions().on = on; }

CallStack stack_of(const std::exception& error) { return thrown_exceptions().find(dynamic_cast<const void*>(&error)); }

}  // namespace terrace

// The sanitizers stand there themselves, and must see each throw: with them exceptions have no stack.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

// Stands before the runtime's __cxa_throw (Itanium C++ ABI, 2.4.3), which it calls. The label gives it that name, under
// which the compiler declares the function by itself.
extern "C" [[noreturn]] void terrace_throw(void* thrown, void* type, void (*destroy)(void*)) __asm__("__cxa_throw");

void terrace_throw(void* thrown, void* type, void (*destroy)(void*)) {
  using Throw = void (*)(void*, void*, void (*)(void*));
  static const auto runtime = reinterpret_cast<Throw>(::dlsym(RTLD_NEXT, "__cxa_throw"));
  if (terrace::thrown_exceptions().on.load(std::memory_order_relaxed)) terrace::thrown_exceptions().note(thrown);
  runtime(thrown, type, destroy);
  std::abort();
}

#endif
