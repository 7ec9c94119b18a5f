// Fuzzes a plain text, gzip members or Zstandard frames.

#include "runtime/data/inflating_file.hpp"
#include "tests/fuzz/fuzz.hpp"
#include "tests/runtime/data/compressed.hpp"

#include <algorithm>

using namespace troupe::runtime;
using namespace troupe::tests;

namespace {

/// The test stops reading here: a few kilobytes may expand to gigabytes.
constexpr std::size_t most = std::size_t{1} << 20;

std::string text_in(const std::filesystem::path& path, std::size_t at_once) {
  inflating_file file(path);
  std::string out;
  std::uint64_t before = 0;
  for (std::size_t got = 1; got > 0 && out.size() < most;) {
    const auto had = out.size();
    out.resize(had + at_once);
    got = file.read(out.data() + had, at_once);
    fuzz::require(got <= at_once, "a read fits into its buffer");
    out.resize(had + got);
    fuzz::require(file.taken() >= before && file.taken() <= file.size(),
                  "the count of consumed bytes only grows");
    before = file.taken();
  }
  fuzz::require(file.compressed() || out.size() >= most || out == fuzz::get(path),
                "an uncompressed file is read unchanged");
  return out;
}

}  // namespace

std::vector<std::string> fuzz::seeds() {
  const std::string text = "The actor bows. The stage is dark.\n";
  return {text,
          gzip(text),
          gzip(text) + gzip("two") + std::string(9, '\0'),
          zstd(text),
          zstd(text) + zstd("") + zstd("three"),
          gzip(std::string(100'000, 'x')),
          zstd(std::string(100'000, 'x')),
          ""};
}

std::vector<std::string> fuzz::dictionary() {
  return {std::string("\x1f\x8b\x08\x00", 4),
          "\x28\xb5\x2f\xfd",
          std::string("\x50\x2a\x4d\x18\x04\x00\x00\x00", 8),
          "\xfd" + std::string("7zXZ\0", 5),
          "BZh9",
          "PK\x03\x04",
          std::string(8, '\0'),
          "\xff\xff\xff\xff"};
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto path = fuzz::folder() / "x";
  fuzz::put(path, fuzz::text_of(data, size));
  fuzz::accepted([&] {
    const auto whole = text_in(path, 65536);
    if (whole.size() < most)
      fuzz::require(text_in(path, 777) == whole, "reading in pieces gives the same text");
    inflating_file again(path);
    again.skip(whole.size() / 2);
    std::string rest(1, '\0');
    if (whole.size() / 2 < whole.size()) {
      fuzz::require(again.read(rest.data(), 1) == 1 && rest[0] == whole[whole.size() / 2],
                    "skipping reaches the right byte");
    }
  });
  return 0;
}
