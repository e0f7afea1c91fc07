// Reads which program runs, with which libraries, and for which of AMD's GPUs it has kernels.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <functional>
#include <set>
#include <sstream>
#include <string>
#include <string_view>

#include "terrace/base/error.h"
#include "terrace/base/files/file.h"
#include "terrace/doctor/readings.h"

namespace terrace::doctor {
namespace {

namespace fs = std::filesystem;

// Libraries of which ranks must have the same: GPUs, their communication, networks and torch.
constexpr std::array<std::string_view, 10> compared = {"librccl",   "libnccl",   "libamdhip64", "libhsa-runtime64",
                                                       "libcuda",   "libtorch",  "libc10",      "libmpi",
                                                       "libfabric", "librocblas"};

std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string digest(std::span<const std::byte> bytes, bool whole) {
  constexpr size_t part = size_t{1} << 20;
  if (whole || bytes.size() <= 2 * part) return fmt::format("{} bytes, {}", bytes.size(), checksum(bytes));
  return fmt::format("{} bytes, {} {}", bytes.size(), checksum(bytes.first(part)), checksum(bytes.last(part)));
}

// The compiler names each code object, such as "hipv4-amdgcn-amd-amdhsa--gfx90a:xnack-".
std::vector<std::string> targets_in(std::string_view program) {
  constexpr std::string_view machine = "amdgcn-amd-amdhsa--", family = "gfx";
  const std::boyer_moore_horspool_searcher search(machine.begin(), machine.end());
  std::set<std::string> targets;
  for (auto from = program.begin();;) {
    from = std::search(from, program.end(), search);
    if (from == program.end()) break;
    from += static_cast<std::ptrdiff_t>(machine.size());
    const auto end = std::find_if(from, program.end(), [](unsigned char letter) {
      return std::isalnum(letter) == 0 && letter != ':' && letter != '+' && letter != '-';
    });
    const std::string_view target(from, end);
    if (target.starts_with(family) && target.size() > family.size()) targets.emplace(target);
  }
  return {targets.begin(), targets.end()};
}

// The number behind a prefix, as 13 of "libcudart.so.13.0.96"; 0 where there is none.
int64_t number_behind(std::string_view name, std::string_view prefix) {
  int64_t number = 0;
  if (name.starts_with(prefix)) std::from_chars(name.data() + prefix.size(), name.data() + name.size(), number);
  return number;
}

// The first word that is a version, in "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.65.06  Sun Jul 27 ..".
std::string version_in(const std::string& line) {
  std::istringstream words(line);
  for (std::string word; words >> word;) {
    const bool digits = word.find_first_not_of("0123456789.") == std::string::npos;
    if (digits && word.find('.') != std::string::npos) return word;
  }
  return "";
}

// The files in lines such as "7f00-7f01 r-xp 00000000 08:01 5 /usr/lib/libmpi.so.40".
std::set<std::string> mapped_files(const NodeView& view) {
  std::set<std::string> files;
  for (const std::string& line : view.lines("/proc/self/maps")) {
    if (const size_t begin = line.find('/'); begin != std::string::npos) files.insert(line.substr(begin));
  }
  return files;
}

}  // namespace

std::vector<std::string> mpi_libraries(const NodeView& view) {
  std::vector<std::string> names;
  for (const std::string& file : mapped_files(view)) {
    const std::string name = fs::path(file).filename();
    if (name.starts_with("libmpi")) names.push_back(name);
  }
  return names;
}

void read_program(const NodeView& view, const ReadOptions& options, Readings& readings) {
  const bool has_amd = std::ranges::find(readings.gpus, "AMD", &Gpu::vendor) != readings.gpus.end();
  const auto add = [&](const std::string& name, const fs::path& path, bool is_program) {
    try {
      const MappedFile file(view.at(path));
      readings.files[name] = digest(file.bytes(), options.whole_files);
      if (is_program && has_amd) readings.targets = targets_in(as_text(file.bytes()));
    } catch (const UserError&) {
      readings.files[name] = "cannot be read";
    }
  };
  if (view.exists("/proc/self/exe")) add("the program", "/proc/self/exe", true);
  readings.mpi = mpi_libraries(view);
  readings.driver = version_in(view.line("/proc/driver/nvidia/version").value_or(""));
  bool has_torch = false, has_torch_of_gpus = false;
  for (const std::string& file : mapped_files(view)) {
    const std::string name = fs::path(file).filename();
    has_torch |= name.starts_with("libtorch_cpu.so");
    has_torch_of_gpus |= name.starts_with("libtorch_cuda.so");
    readings.cuda = std::max(readings.cuda, number_behind(name, "libcudart.so."));
    // Newer than the kernel's module where a package for forward compatibility is loaded.
    constexpr std::string_view user_driver = "libcuda.so.";
    if (number_behind(name, user_driver) > 1) readings.driver = name.substr(user_driver.size());
    const bool is_compared = std::ranges::any_of(compared, [&](std::string_view it) { return name.starts_with(it); });
    if (is_compared) add(name, file, false);
    if (name.starts_with("libamdhip64")) readings.loads_hip = true;
  }
  // torch's part for processors loads CUDA's run-time library too, and uses no GPU.
  if (has_torch && !has_torch_of_gpus) readings.cuda = 0;
}

}  // namespace terrace::doctor
