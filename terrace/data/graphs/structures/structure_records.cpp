// Writes and reads the numbers of structures.
#include "terrace/data/graphs/structures/structure_records.h"

#include <cstring>
#include <map>
#include <span>
#include <string>
#include <type_traits>

#include "terrace/base/error.h"

namespace terrace::data {
namespace {

// Appends numbers, and lists of numbers with their lengths.
class RecordWriter {
 public:
  explicit RecordWriter(std::vector<std::byte>& bytes) : bytes_(bytes) {}

  template <typename Number>
  requires std::is_arithmetic_v<Number>
  void put(Number number) { put_bytes(std::as_bytes(std::span(&number, 1))); }
  template <typename List>
  requires(!std::is_arithmetic_v<List>) void put(const List& numbers) {
    put(static_cast<uint64_t>(numbers.size()));
    put_bytes(std::as_bytes(std::span(numbers.data(), numbers.size())));
  }
  void put(const Properties& properties) {
    put(static_cast<uint64_t>(properties.size()));
    for (const auto& [name, property] : properties) {
      put(name);
      put(property.width);
      put(property.values);
    }
  }
  void put(const std::map<std::string, std::string>& texts) {
    put(static_cast<uint64_t>(texts.size()));
    for (const auto& [name, text] : texts) {
      put(name);
      put(text);
    }
  }

 private:
  void put_bytes(std::span<const std::byte> bytes) { bytes_.insert(bytes_.end(), bytes.begin(), bytes.end()); }
  std::vector<std::byte>& bytes_;
};

class RecordReader {
 public:
  explicit RecordReader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  template <typename Number>
  requires std::is_arithmetic_v<Number>
  void get(Number& number) { get_bytes(&number, sizeof(number)); }
  template <typename List>
  requires(!std::is_arithmetic_v<List>) void get(List& numbers) {
    const uint64_t size = get_size();
    numbers.resize(size);
    get_bytes(numbers.data(), size * sizeof(numbers[0]));
  }
  void get(Properties& properties) {
    for (uint64_t left = get_size(); left > 0; --left) {
      std::string name;
      get(name);
      PropertyValues& property = properties[name];
      get(property.width);
      get(property.values);
    }
  }
  void get(std::map<std::string, std::string>& texts) {
    for (uint64_t left = get_size(); left > 0; --left) {
      std::string name;
      get(name);
      get(texts[name]);
    }
  }

 private:
  uint64_t get_size() {
    uint64_t size = 0;
    get(size);
    return size;
  }
  void get_bytes(void* to, size_t size) {
    TERRACE_CHECK(size <= bytes_.size(), "{} bytes of a record of a structure, where {} are left", size, bytes_.size());
    if (size > 0) std::memcpy(to, bytes_.data(), size);
    bytes_ = bytes_.subspan(size);
  }
  std::span<const std::byte> bytes_;
};

// Visits what a record holds of a structure, in its order.
template <typename Visit, typename Numbered>
void visit_numbers(Numbered& one, const Visit& visit) {
  visit(one.number);
  auto& structure = one.structure;
  visit(structure.species);
  visit(structure.positions);
  for (auto& vector : structure.cell.vectors) {
    for (auto& component : vector) visit(component);
  }
  for (auto& periodic : structure.cell.periodic) visit(periodic);
  visit(structure.has_edges);
  visit(structure.edges.receivers);
  visit(structure.edges.senders);
  visit(structure.of_structure);
  visit(structure.of_atoms);
  visit(structure.of_edges);
  visit(structure.units);
}

}  // namespace

void append_structure(const NumberedStructure& structure, std::vector<std::byte>& bytes) {
  const size_t begin = bytes.size();
  RecordWriter writer(bytes);
  writer.put(uint64_t{0});
  visit_numbers(structure, [&](const auto& numbers) { writer.put(numbers); });
  const uint64_t size = bytes.size() - begin - sizeof(uint64_t);
  std::memcpy(bytes.data() + begin, &size, sizeof(size));
}

StructureRecords::StructureRecords(const std::filesystem::path& path, const PartRange& range)
    : path_(path), file_(path, std::ios::binary), left_(range.bytes) {
  file_.seekg(static_cast<std::streamoff>(range.offset));
}

std::optional<NumberedStructure> StructureRecords::next() {
  if (left_ == 0) return std::nullopt;
  uint64_t size = 0;
  read(&size, sizeof(size));
  record_.resize(size);
  read(record_.data(), size);
  left_ -= sizeof(size) + size;
  NumberedStructure one;
  RecordReader reader(record_);
  visit_numbers(one, [&](auto& numbers) { reader.get(numbers); });
  return one;
}

void StructureRecords::read(void* to, uint64_t bytes) {
  if (file_.read(static_cast<char*>(to), static_cast<std::streamsize>(bytes))) return;
  throw UserError("cannot read " + path_.string(), ExitCode::failure);
}

}  // namespace terrace::data
