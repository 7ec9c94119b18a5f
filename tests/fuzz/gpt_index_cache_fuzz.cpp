// Fuzzes the cached index of a data set: documents, bounds, order, description. A damaged index is
// rebuilt. An index with forged digests must not cause reads outside of the data.

#include "runtime/core/hash.hpp"
#include "runtime/data/gpt_dataset.hpp"
#include "runtime/data/mock_dataset.hpp"
#include "tests/fuzz/fuzz.hpp"

#include <algorithm>
#include <memory>

using namespace troupe::runtime;
using namespace troupe::tests;

namespace {

constexpr std::int64_t vocabulary = 50;

/// Nine sequences of two to ten tokens.
class few_tokens final : public token_source {
 public:
  std::int64_t sequences() const override { return 9; }
  std::int32_t length(std::int64_t sequence) const override {
    ensure(sequence >= 0 && sequence < sequences(), "SOURCE-1: only sequences that exist are read");
    return std::int32_t(2 + sequence);
  }
  void get(std::int64_t sequence, std::int64_t offset, std::span<std::int32_t> out) const override {
    ensure(offset >= 0 && offset + std::int64_t(out.size()) <= length(sequence),
           "SOURCE-1: only tokens that exist are read");
    for (auto& id : out)
      id = std::int32_t((7 * sequence + offset++) % vocabulary);
  }
  std::string place(std::int64_t sequence) const override { return std::to_string(sequence); }
};

gpt_dataset opened() {
  static const auto source = std::make_shared<few_tokens>();
  return gpt_dataset(source,
                     split_matrix("1"),
                     data_split::train,
                     {.sequence_length = 4,
                      .samples = 20,
                      .vocabulary = vocabulary,
                      .end_of_document = 0,
                      .cache = fuzz::folder() / "cache"});
}

/// The files in the order of the sections.
const std::vector<std::filesystem::path>& files() {
  static const auto them = [] {
    opened();
    std::vector<std::filesystem::path> out(4);
    for (const auto& entry : std::filesystem::directory_iterator(fuzz::folder() / "cache")) {
      const auto name = entry.path().filename().string();
      const char* const ends[]
          = {"document_index.npy", "sample_index.npy", "shuffle_index.npy", ".txt"};
      for (std::size_t i = 0; i < 4; ++i)
        if (name.ends_with(ends[i]))
          out[i] = entry.path();
    }
    return out;
  }();
  return them;
}

std::vector<std::int32_t> all_samples(const gpt_dataset& data) {
  std::vector<std::int32_t> out;
  std::vector<std::int32_t> one(5);
  for (std::uint64_t i = 0; i < data.size(); ++i) {
    data.sample(i, one);
    out.insert(out.end(), one.begin(), one.end());
  }
  return out;
}

/// The description with the digests of the current arrays.
std::string sealed(std::string text) {
  for (std::size_t i = 0; i < 3; ++i) {
    const auto bytes = fuzz::get(files()[i]);
    const auto name = files()[i].filename().string();
    const auto short_name = name.substr(name.rfind('-') + 1);
    const auto at = text.find(" " + short_name);
    constexpr std::size_t digits = 32, header = 128;
    if (at == text.npos || at < digits || bytes.size() < header)
      continue;
    digester d;
    d.add(bytes.data() + header, bytes.size() - header);
    text.replace(at - digits, digits, to_string(d.result()));
  }
  return text;
}

}  // namespace

std::vector<std::string> fuzz::seeds() {
  std::vector<std::string> parts;
  for (const auto& file : files())
    parts.push_back(get(file));
  return {joined(parts)};
}

std::vector<std::string> fuzz::dictionary() {
  return {"\x93NUMPY",
          "'descr': '<i4'",
          "'descr': '<i8'",
          "(9,)",
          "\"format\": 1",
          std::string(section_mark)};
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const auto expected = all_samples(opened());
  const auto parts = fuzz::sections(fuzz::text_of(data, size), 4);
  const bool seal = size % 2 == 0;
  for (std::size_t i = 0; i < 3; ++i)
    fuzz::put(files()[i], parts[i]);
  fuzz::put(files()[3], seal ? sealed(std::string(parts[3])) : std::string(parts[3]));
  fuzz::accepted([&] {
    const auto found = all_samples(opened());
    fuzz::require(seal || found == expected, "a cached index equals a newly built one");
  });
  return 0;
}
