// Notes what one process of many has read, which is the texts of small files and what it found in large ones, so that
// the others need not read the same files.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace terrace {

// While it exists, texts that read_text() reads and what found_in() finds are noted: those of at most 4 MiB, up to 64
// MiB together. One at a time.
class NotedTexts {
 public:
  NotedTexts();
  ~NotedTexts();
  NotedTexts(const NotedTexts&) = delete;
  NotedTexts& operator=(const NotedTexts&) = delete;

  // Returns what has been noted, for take_texts() of another process on the same or an equal machine.
  std::string bytes() const;
};

// From now on read_text() takes the noted texts, wherever this process sees the same file under the same path,
// recognized by its size, its time of change and its number. So it still opens a file that has changed since, or is
// another one on this machine. Texts that were taken before are forgotten.
void take_texts(const std::string& bytes);

// The answer to a question about files that are too large to send: what another process found, if there is that and
// this process sees the same files, and else what find() returns by reading them. An exception of find() is thrown on
// and noted nowhere. `question` names all that the answer depends on beside the files.
std::string found_in(const std::vector<std::filesystem::path>& files, std::string_view question,
                     const std::function<std::string()>& find);

// read_text() uses these two: the first returns the text that was taken over, and the second notes a text that was just
// read.
std::optional<std::string> taken_text(const std::filesystem::path& path);
void note_text(const std::filesystem::path& path, const std::string& text);

}  // namespace terrace
