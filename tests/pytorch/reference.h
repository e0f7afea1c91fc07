// Judges our results against PyTorch: a named case of a Python script runs there in double precision, which is the
// truth, and in the tested type, which says what error that type costs. Ours may cost at most twice as much. Nothing is
// stored.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <map>
#include <stdexcept>
#include <string>

#include "terrace/base/text/json.h"
#include "tests/paths.h"
#include "tests/pytorch/judge.h"

namespace terrace::testing {

using Tensors = std::map<std::string, at::Tensor>;

struct Reference {
  Tensors exact;   // in double precision
  Tensors theirs;  // in the tested type
};

// One Python process that answers cases until it is destroyed; starting it takes seconds, a case milliseconds.
class PyTorch {
 public:
  // `packages`, if given, is a folder of Python packages that go before those of the environment.
  explicit PyTorch(const std::string& packages = "");
  ~PyTorch();
  PyTorch(const PyTorch&) = delete;
  PyTorch& operator=(const PyTorch&) = delete;

  // Runs function `name` of the script (a path under tests/). Throws with Python's message where that fails.
  Reference run(const std::string& script, const std::string& name, const Json& options, at::ScalarType type,
                const Tensors& inputs);

 private:
  void send(const void* data, size_t bytes);
  void receive(void* data, size_t bytes);

  int to_ = -1, from_ = -1;
  pid_t child_ = -1;
};

// The process with these packages that all tests of the program share.
inline PyTorch& shared_pytorch(const std::string& packages = "") {
  static std::map<std::string, PyTorch> started;
  return started.try_emplace(packages, packages).first->second;
}

// Adds every result of the reference, which must be among ours, under `prefix` and its name.
inline void add_errors(ErrorTally& tally, const std::string& prefix, const Tensors& ours, const Reference& reference) {
  ASSERT_FALSE(reference.exact.empty());
  for (const auto& [name, exact] : reference.exact) {
    ASSERT_TRUE(ours.contains(name)) << name << " was not computed";
    tally.add(prefix + " " + name, ours.at(name), reference.theirs.at(name), exact);
  }
}

inline PyTorch::PyTorch(const std::string& packages) {
  int requests[2], answers[2];
  // Another Python that is started while this one runs must not hold its pipes open.
  if (pipe2(requests, O_CLOEXEC) != 0 || pipe2(answers, O_CLOEXEC) != 0) throw std::runtime_error("no pipe");
  // A dead Python shall be an exception here, not the end of the test.
  std::signal(SIGPIPE, SIG_IGN);
  child_ = fork();
  if (child_ == 0) {
    dup2(requests[0], STDIN_FILENO);
    dup2(answers[1], STDOUT_FILENO);
    if (!packages.empty()) setenv("PYTHONPATH", packages.c_str(), 1);
    const std::string python = tests::python(), server = tests::source_dir() / "tests/pytorch/server.py";
    execl(python.c_str(), python.c_str(), server.c_str(), nullptr);
    _exit(127);
  }
  close(requests[0]);
  close(answers[1]);
  to_ = requests[1];
  from_ = answers[0];
}

inline PyTorch::~PyTorch() {
  close(to_);
  close(from_);
  waitpid(child_, nullptr, 0);
}

inline void PyTorch::send(const void* data, size_t bytes) {
  for (size_t done = 0; done < bytes;) {
    const ssize_t n = write(to_, static_cast<const char*>(data) + done, bytes - done);
    if (n <= 0)
      throw std::runtime_error("the Python process is gone (is PyTorch installed in " + tests::python() + "?)");
    done += static_cast<size_t>(n);
  }
}

inline void PyTorch::receive(void* data, size_t bytes) {
  for (size_t done = 0; done < bytes;) {
    const ssize_t n = read(from_, static_cast<char*>(data) + done, bytes - done);
    if (n <= 0)
      throw std::runtime_error("the Python process is gone (is PyTorch installed in " + tests::python() + "?)");
    done += static_cast<size_t>(n);
  }
}

// torch's Python names of the types that are exchanged.
inline const std::map<std::string, at::ScalarType>& exchanged_types() {
  static const std::map<std::string, at::ScalarType> types = {{"float32", at::kFloat}, {"bfloat16", at::kBFloat16},
                                                              {"float16", at::kHalf},  {"float64", at::kDouble},
                                                              {"int64", at::kLong},    {"bool", at::kBool}};
  return types;
}

inline std::string exchanged_name(at::ScalarType type) {
  for (const auto& [name, value] : exchanged_types()) {
    if (value == type) return name;
  }
  throw std::runtime_error(std::string("tensors of ") + c10::toString(type) + " are not exchanged");
}

inline Reference PyTorch::run(const std::string& script, const std::string& name, const Json& options,
                              at::ScalarType type, const Tensors& inputs) {
  Json request = {{"script", (tests::source_dir() / "tests" / script).string()},
                  {"case", name},
                  {"options", options},
                  {"type", exchanged_name(type)},
                  {"tensors", Json::array()}};
  std::string bytes;
  for (const auto& [input, tensor] : inputs) {
    request["tensors"].push_back(
        {{"name", input}, {"type", exchanged_name(tensor.scalar_type())}, {"shape", tensor.sizes().vec()}});
    const at::Tensor flat = tensor.detach().contiguous();
    bytes.append(static_cast<const char*>(flat.const_data_ptr()), flat.nbytes());
  }
  const std::string text = request.dump();
  uint64_t length = text.size();
  send(&length, sizeof length);
  send(text.data(), text.size());
  send(bytes.data(), bytes.size());

  receive(&length, sizeof length);
  std::string answer_text(length, ' ');
  receive(answer_text.data(), length);
  const Json answer = Json::parse(answer_text);
  if (answer.contains("error")) throw std::runtime_error(answer["error"].get<std::string>());
  Reference reference;
  for (const Json& entry : answer["tensors"]) {
    const std::string full = entry["name"];
    const at::Tensor tensor = at::empty(entry["shape"].get<std::vector<int64_t>>(),
                                        at::TensorOptions().dtype(exchanged_types().at(entry["type"])));
    receive(tensor.mutable_data_ptr(), tensor.nbytes());
    const size_t dot = full.find('.');
    (full.substr(0, dot) == "exact" ? reference.exact : reference.theirs)[full.substr(dot + 1)] = tensor;
  }
  return reference;
}

}  // namespace terrace::testing
