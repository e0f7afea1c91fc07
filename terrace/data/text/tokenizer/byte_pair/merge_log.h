// Follows the progress of SentencePiece's trainer, which has no hook for it but logs its merges to std::cerr.
#pragma once

#include <cstdint>
#include <functional>
#include <streambuf>
#include <string>

namespace terrace::data {

// Stands in for std::cerr's buffer from construction to destruction and reads the lines that a BPE training with
// minloglevel = 0 writes there, about one in 20 merges. SentencePiece's errors are shown as with minloglevel = 2, and
// no other line is. No other thread may use std::cerr.
class MergeLog : public std::streambuf {
 public:
  explicit MergeLog(std::function<void(int64_t merges)> on_merges);
  ~MergeLog() override;
  MergeLog(const MergeLog&) = delete;
  MergeLog& operator=(const MergeLog&) = delete;

 protected:
  int_type overflow(int_type character) override;

 private:
  void show_error();
  void read_merges();

  std::function<void(int64_t)> on_merges_;
  std::string line_;
  std::streambuf* before_;
};

// Returns the work of the first merges of a training on so many bytes, in units of a late merge. The i-th merge changes
// about 1 / i of the places that the first one does (Zipf's law), and looks at as many candidates as any other.
double merge_work(int64_t merges, uint64_t sample_bytes);

}  // namespace terrace::data
