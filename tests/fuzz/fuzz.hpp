// FOREIGN-BYTES, as fuzz targets. A parser gets untrusted bytes. Either it accepts them, and the
// result is usable and survives a round trip, or it throws input_error. All else is a fault:
// another exception, a crash, an allocation of 256 MB, 20 seconds of CPU time.
//
// A target is one source, <what>_fuzz.cpp, which defines the three functions below. Each build
// links it with run_corpus.cpp (ctest), or with libFuzzer if TROUPE_FUZZ is set.

#pragma once

#include "runtime/core/error.hpp"
#include "tests/support/scratch_folder.hpp"

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

/// One input. Returns 0.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace troupe::tests::fuzz {

/// Inputs that must be accepted. The program's own writers make them if possible.
std::vector<std::string> seeds();

/// Tokens with a meaning for the parser.
std::vector<std::string> dictionary();

struct counters {
  std::uint64_t accepted = 0, refused = 0;
};
inline counters counted;

/// Runs `use`; false if it throws input_error.
template <class Use>
bool accepted(Use&& use) {
  try {
    use();
    ++counted.accepted;
    return true;
  } catch (const runtime::input_error&) {
    ++counted.refused;
    return false;
  }
}

/// Aborts if a property of an accepted input does not hold; the driver then keeps the input.
inline void require(bool kept, const char* what) {
  if (kept)
    return;
  std::fprintf(stderr, "fuzz: not kept: %s\n", what);
  std::abort();
}

inline std::string_view text_of(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

inline constexpr std::string_view section_mark = "\n====\n";

/// Splits an input for a parser of several files at the marks into exactly `count` parts; missing
/// parts are empty.
inline std::vector<std::string_view> sections(std::string_view all, std::size_t count) {
  std::vector<std::string_view> out;
  while (out.size() + 1 < count) {
    const auto end = std::min(all.find(section_mark), all.size());
    out.push_back(all.substr(0, end));
    all.remove_prefix(std::min(end + section_mark.size(), all.size()));
  }
  out.push_back(all);
  return out;
}

inline std::string joined(const std::vector<std::string>& parts) {
  std::string out;
  for (const auto& part : parts)
    out += (&part == &parts.front() ? "" : std::string(section_mark)) + part;
  return out;
}

/// A folder for the whole process, in memory if the system has such a folder.
inline const std::filesystem::path& folder() {
  static const scratch_folder it = [] {
    std::error_code failure;
    if (std::filesystem::is_directory("/dev/shm", failure))
      ::setenv("TMPDIR", "/dev/shm", 0);
    return scratch_folder();
  }();
  return it.path();
}

/// Writes without fsync, because targets write thousands of files.
inline void put(const std::filesystem::path& path, std::string_view bytes) {
  std::ofstream(path, std::ios::binary).write(bytes.data(), std::streamsize(bytes.size()));
}

inline std::string get(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace troupe::tests::fuzz
