// Writes and reads the folder P.parts.
#include "terrace/data/file_parts.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <numeric>
#include <optional>
#include <queue>
#include <sstream>
#include <system_error>
#include <utility>

#include "terrace/base/error.h"
#include "terrace/base/files/file.h"
#include "terrace/base/files/temporary_name.h"
#include "terrace/base/terminal/log.h"
#include "terrace/base/text/plural.h"

namespace terrace::data {
namespace {

namespace fs = std::filesystem;

constexpr const char* plan_name = "plan.json";
constexpr const char* paths_name = "inputs";  // a file of paths; each ends with a zero, since paths need not be UTF-8
constexpr const char* stop_name = "stop";

// The system caches the bytes of one write call in pages as large as the call. A program that maps the file is charged
// whole pages for the bytes that it looks at.
constexpr size_t copied_at_once = size_t{1} << 16;
constexpr const char* journal_ending = ".jsonl";

std::string line_of_part(const std::string& identity, const FilePart& part) {
  Json line = {identity, part.facts};
  for (const PartRange& range : part.ranges) {
    line.push_back(range.file);
    line.push_back(range.offset);
    line.push_back(range.bytes);
  }
  return line.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

FilePart part_of_line(const Json& line) {
  FilePart part{.facts = line.at(1).get<std::string>()};
  for (size_t at = 2; at < line.size(); at += 3) {
    part.ranges.push_back({.file = line.at(at).get<std::string>(),
                           .offset = line.at(at + 1).get<uint64_t>(),
                           .bytes = line.at(at + 2).get<uint64_t>()});
  }
  return part;
}

std::string channel_file(int64_t attempt, int64_t rank, const std::string& name) {
  return fmt::format("{}.{}.{}", attempt, rank, name);
}

// Returns whether a file of the folder is a rank's own, unlike the files by which the first rank tells the others.
bool is_of_rank(const std::string& name) { return name.front() >= '0' && name.front() <= '9'; }

// Returns the attempt that a journal is of: "3.17.jsonl" is the journal of rank 17 in the third attempt. No value for
// other names.
std::optional<int64_t> attempt_of(const std::string& name) {
  if (!name.ends_with(journal_ending) || std::ranges::count(name, '.') != 2) return std::nullopt;
  int64_t attempt = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), attempt);
  return error == std::errc() && *end == '.' ? std::optional(attempt) : std::nullopt;
}

std::vector<std::pair<int64_t, fs::path>> journals_in(const fs::path& folder) {
  std::vector<std::pair<int64_t, fs::path>> journals;
  std::error_code none;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, none)) {
    if (const auto attempt = attempt_of(entry.path().filename())) journals.emplace_back(*attempt, entry.path());
  }
  std::ranges::sort(journals);
  return journals;
}

}  // namespace

PartInput part_input(const fs::path& path) {
  if (!fs::is_regular_file(path)) return {.path = path};
  const uint64_t bytes = fs::file_size(path);
  const std::string text = fmt::format("{} {} {}", bytes, fs::last_write_time(path).time_since_epoch().count(),
                                       fs::absolute(path).lexically_normal().string());
  return {.path = path, .bytes = bytes, .identity = checksum(std::as_bytes(std::span(text)))};
}

std::vector<int64_t> ranks_by_size(std::span<const uint64_t> sizes, int64_t ranks) {
  std::vector<size_t> order(sizes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, std::greater(), [&](size_t piece) { return sizes[piece]; });
  using Load = std::pair<uint64_t, int64_t>;  // the bytes so far, and the rank
  std::priority_queue<Load, std::vector<Load>, std::greater<>> loads;
  for (int64_t rank = 0; rank < ranks; ++rank) loads.emplace(0, rank);
  std::vector<int64_t> rank_of(sizes.size());
  for (const size_t piece : order) {
    const auto [load, rank] = loads.top();
    loads.pop();
    rank_of[piece] = rank;
    loads.emplace(load + std::max<uint64_t>(sizes[piece], 1), rank);
  }
  return rank_of;
}

fs::path FileParts::folder_of(const std::string& prefix) { return prefix + ".parts"; }

FileParts::FileParts(PrepareRanks& ranks, const std::string& prefix, std::vector<std::string> channels,
                     double seconds_between_records)
    : ranks_(ranks),
      folder_(folder_of(prefix)),
      names_(std::move(channels)),
      seconds_(seconds_between_records),
      start_(ranks.gather(ranks.is_first() ? unique_process_name() : "").front()) {}

fs::path FileParts::journal_path(int64_t attempt, int64_t rank) const {
  return folder_ / fmt::format("{}.{}{}", attempt, rank, journal_ending);
}

// Reads the parts of a journal, without those whose bytes are not there. Returns whether the journal is of this plan.
bool FileParts::read_journal(const fs::path& path, Parts& parts) const {
  std::istringstream lines(read_text(path));
  std::map<std::string, uint64_t> sizes;
  const auto is_whole = [&](const PartRange& range) {
    const auto [found, is_new] = sizes.emplace(range.file, 0);
    std::error_code none;
    if (is_new) found->second = fs::file_size(folder_ / range.file, none);
    return !none && range.offset + range.bytes <= found->second;
  };
  std::string line;
  if (!std::getline(lines, line) || line != plan_.identity) return false;
  while (std::getline(lines, line)) {
    const Json json = parse_json_or_discard(line);
    if (!json.is_array() || json.size() != 2 + 3 * names_.size()) continue;
    FilePart part = part_of_line(json);
    if (std::ranges::all_of(part.ranges, is_whole)) parts.insert_or_assign(json.at(0).get<std::string>(), part);
  }
  return true;
}

// Reads the parts that earlier attempts left. Returns the number of the last attempt.
int64_t FileParts::read_left_over() {
  int64_t last = 0;
  for (const auto& [attempt, path] : journals_in(folder_)) {
    last = attempt;
    if (read_journal(path, kept_)) continue;
    throw UserError::of(
        "--resume: the flags or the tokenizer are not those of the preparation that left {}; give the same ones, or "
        "begin again without --resume",
        folder_.string());
  }
  return last;
}

void FileParts::begin(Plan plan, bool resume) {
  plan_ = std::move(plan);
  if (resume) {
    attempt_ = read_left_over() + 1;
  } else if (fs::exists(folder_)) {
    log_info("removing {}, which an earlier preparation left and --resume would continue", folder_.string());
    fs::remove_all(folder_);
  }
  fs::create_directories(folder_);
  fs::remove(folder_ / stop_name);
  std::vector<size_t> left;
  Json inputs = Json::array();
  std::string paths;
  for (size_t input = 0; input < plan_.inputs.size(); ++input) {
    const PartInput& one = plan_.inputs[input];
    paths += one.path.string() + '\0';
    inputs.push_back({one.bytes, one.identity});
    const bool is_kept = !one.identity.empty() && kept_.contains(one.identity);
    (is_kept ? bytes_kept_ : bytes_left_) += one.bytes;
    if (!is_kept) left.push_back(input);
  }
  if (const size_t finished = plan_.inputs.size() - left.size(); finished > 0) {
    log_info("continuing: {} of {} are finished", finished, counted(plan_.inputs.size(), "input file"));
  }
  const Json json = {{"start", start_}, {"plan", plan_.identity}, {"attempt", attempt_}, {"inputs", inputs},
                     {"left", left},    {"more", plan_.more},     {"kept", bytes_kept_}};
  write_text_atomically(folder_ / paths_name, paths);
  write_text_atomically(folder_ / plan_name, json.dump() + "\n");
  share_out(left);
  open(attempt_);
}

void FileParts::join() {
  const fs::path path = folder_ / plan_name;
  const Json json = fs::exists(path) ? parse_json_or_discard(read_text(path)) : Json();
  if (!json.is_object() || json.value("start", "") != start_) {
    throw UserError::of("rank {} does not see {}, which rank 0 wrote; prepare in a folder that all ranks share",
                        ranks_.rank(), path.string());
  }
  plan_.identity = json.at("plan").get<std::string>();
  plan_.more = json.at("more");
  const std::string paths = read_text(folder_ / paths_name);
  size_t at = 0;
  for (const Json& one : json.at("inputs")) {
    const size_t end = paths.find('\0', at);
    plan_.inputs.push_back({.path = paths.substr(at, end - at),
                            .bytes = one.at(0).get<uint64_t>(),
                            .identity = one.at(1).get<std::string>()});
    at = end + 1;
  }
  bytes_kept_ = json.at("kept").get<uint64_t>();
  const auto left = json.at("left").get<std::vector<size_t>>();
  for (const size_t input : left) bytes_left_ += plan_.inputs[input].bytes;
  share_out(left);
  open(json.at("attempt").get<int64_t>());
}

void FileParts::share_out(const std::vector<size_t>& left) {
  std::vector<uint64_t> sizes;
  for (const size_t input : left) sizes.push_back(plan_.inputs[input].bytes);
  const std::vector<int64_t> rank_of = ranks_by_size(sizes, ranks_.size());
  for (size_t i = 0; i < left.size(); ++i) {
    if (rank_of[i] == ranks_.rank()) own_.push_back(left[i]);
  }
  for (const size_t input : own_) {
    const PartInput& one = plan_.inputs[input];
    own_bytes_ += one.bytes;
    if (one.identity.empty() || part_input(one.path).identity == one.identity) continue;
    throw UserError::of("rank {} sees another {} than rank 0, or it has changed; all ranks must see the same files",
                        ranks_.rank(), one.path.string());
  }
}

uint64_t FileParts::bytes_done(uint64_t own) const {
  const double share = own_bytes_ == 0 ? 1 : static_cast<double>(own) / static_cast<double>(own_bytes_);
  return bytes_kept_ + static_cast<uint64_t>(share * static_cast<double>(bytes_left_));
}

void FileParts::open(int64_t attempt) {
  attempt_ = attempt;
  is_open_ = true;
  for (const std::string& name : names_) {
    Channel channel{.file = channel_file(attempt_, ranks_.rank(), name), .open = {}};
    channel.open.reset(std::fopen((folder_ / channel.file).c_str(), "wbe"));
    if (channel.open == nullptr) throw_write_error(folder_ / channel.file);
    channels_.push_back(std::move(channel));
  }
}

void FileParts::append(size_t channel, std::span<const std::byte> bytes) {
  Channel& to = channels_.at(channel);
  if (bytes.empty()) return;  // an empty span may have null data
  if (std::fwrite(bytes.data(), 1, bytes.size(), to.open.get()) != bytes.size()) throw_write_error(folder_ / to.file);
  to.written += bytes.size();
}

void FileParts::finish_file(size_t input, std::string facts) {
  FilePart part{.facts = std::move(facts)};
  for (Channel& channel : channels_) {
    part.ranges.push_back({channel.file, channel.finished, channel.written - channel.finished});
    channel.finished = channel.written;
  }
  const PartInput& of = plan_.inputs.at(input);
  // A pipe is found by its place, and never by a later preparation.
  journal_ += line_of_part(of.identity.empty() ? fmt::format("pipe {}", input) : of.identity, part);
  if (std::chrono::duration<double>(Clock::now() - recorded_).count() >= seconds_) record();
}

void FileParts::record() {
  for (const Channel& channel : channels_) {
    if (std::fflush(channel.open.get()) != 0 || ::fsync(::fileno(channel.open.get())) != 0) {
      throw_write_error(folder_ / channel.file);
    }
  }
  write_text_atomically(journal_path(attempt_, ranks_.rank()), plan_.identity + "\n" + journal_);
  recorded_ = Clock::now();
}

void FileParts::work_on_all_ranks(const std::function<void()>& part) {
  on_all_ranks(ranks_, [&] {
    try {
      part();
    } catch (...) {
      stop_others();
      throw;
    }
  });
}

void FileParts::stop_others() {
  if (!is_open_ || ranks_.size() == 1) return;
  std::FILE* file = std::fopen((folder_ / stop_name).c_str(), "wbe");
  if (file != nullptr) std::fclose(file);
}

bool FileParts::is_stopped() {
  if (ranks_.size() == 1 || is_stopped_) return is_stopped_;
  if (Clock::now() - looked_ < std::chrono::seconds(1)) return false;
  looked_ = Clock::now();
  std::error_code none;
  is_stopped_ = fs::exists(folder_ / stop_name, none);
  return is_stopped_;
}

std::vector<FilePart> FileParts::collect() const {
  Parts parts = kept_;
  for (int64_t rank = 0; rank < ranks_.size(); ++rank) read_journal(journal_path(attempt_, rank), parts);
  std::vector<FilePart> all;
  for (size_t input = 0; input < plan_.inputs.size(); ++input) {
    const PartInput& one = plan_.inputs[input];
    const auto found = parts.find(one.identity.empty() ? fmt::format("pipe {}", input) : one.identity);
    TERRACE_CHECK(found != parts.end(), "no rank has recorded {}", one.path.string());
    all.push_back(found->second);
  }
  return all;
}

void FileParts::remove() {
  channels_.clear();
  is_removed_ = true;
  if (ranks_.is_first()) fs::remove_all(folder_);
}

void FileParts::discard() {
  journal_.clear();
  channels_.clear();
  is_removed_ = true;
  std::error_code none;  // the refusal is the error to report
  if (ranks_.is_first() && is_open_) fs::remove_all(folder_, none);
}

FileParts::~FileParts() {
  if (is_open_ && !is_removed_) leave_or_tidy();
}

// Keeps the parts of finished files. Where there are none, each rank removes its files, and the last rank the folder.
void FileParts::leave_or_tidy() noexcept {
  std::error_code none;
  try {
    if (!journal_.empty()) return record();
    channels_.clear();
    for (const std::string& name : names_) fs::remove(folder_ / channel_file(attempt_, ranks_.rank(), name), none);
    fs::remove(journal_path(attempt_, ranks_.rank()), none);
    for (const fs::directory_entry& entry : fs::directory_iterator(folder_, none)) {
      if (is_of_rank(entry.path().filename())) return;
    }
    fs::remove_all(folder_, none);
  } catch (const std::exception&) {
    // An error here, such as a full disk, is passed over: what was recorded before is kept, and another error is being
    // reported.
  }
}

RangeCopy::RangeCopy(fs::path to) : to_(std::move(to)), out_(::open(to_.c_str(), O_WRONLY | O_CLOEXEC)) {
  if (out_ < 0) throw_write_error(to_);
}

RangeCopy::~RangeCopy() {
  ::close(out_);
  if (in_ >= 0) ::close(in_);
}

void RangeCopy::copy(const fs::path& from, const PartRange& range, uint64_t offset) {
  const auto throw_read_error = [&](int error) {
    throw std::system_error(error, std::generic_category(), "cannot read " + from.string());
  };
  if (from != from_) {
    if (in_ >= 0) ::close(in_);
    in_ = ::open(from.c_str(), O_RDONLY | O_CLOEXEC);
    if (in_ < 0) throw_read_error(errno);
    from_ = from;
  }
  for (uint64_t done = 0; done < range.bytes;) {
    block_.resize(std::min<uint64_t>(copied_at_once, range.bytes - done));
    const ssize_t got = ::pread(in_, block_.data(), block_.size(), static_cast<off_t>(range.offset + done));
    if (got <= 0) throw_read_error(got == 0 ? EIO : errno);
    for (ssize_t written = 0; written < got;) {
      const ssize_t count = ::pwrite(out_, block_.data() + written, static_cast<size_t>(got - written),
                                     static_cast<off_t>(offset + done) + written);
      if (count < 0) throw_write_error(to_);
      written += count;
    }
    done += static_cast<uint64_t>(got);
  }
}

void RangeCopy::sync() const {
  if (::fsync(out_) != 0) throw_write_error(to_);
}

}  // namespace terrace::data
