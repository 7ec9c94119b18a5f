// FOREIGN-BYTES, as fuzz targets: bytes from strangers go into a parser, and either they are
// accepted, and then whatever they describe can be used and means the same after a round trip, or
// they are refused with input_error. Everything else is a fault: another exception, a crash, a
// request for 256 MB, 20 seconds.
//
// A target is one source, <what>_fuzz.cpp, that defines the three functions below. It is built
// twice: with run_corpus.cpp in every build (ctest), and with libFuzzer where the preset `fuzz` is
// used.

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

/// Inputs that must be accepted, as far as possible written by the program's own writers.
std::vector<std::string> seeds();

/// Words that mean something to the parser.
std::vector<std::string> dictionary();

struct counters {
  std::uint64_t accepted = 0, refused = 0;
};
inline counters counted;

/// Runs `use` on what may be refused; whether it was accepted.
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

/// Ends the process, for the driver to keep the input, when something accepted is not what it says.
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

/// An input for a parser of several files: cut at the marks into exactly `count` parts, the missing
/// ones empty.
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

/// A folder for the whole process, in memory where there is such a place.
inline const std::filesystem::path& folder() {
  static const scratch_folder it = [] {
    std::error_code failure;
    if (std::filesystem::is_directory("/dev/shm", failure))
      ::setenv("TMPDIR", "/dev/shm", 0);
    return scratch_folder();
  }();
  return it.path();
}

/// Not durably: thousands of files are made.
inline void put(const std::filesystem::path& path, std::string_view bytes) {
  std::ofstream(path, std::ios::binary).write(bytes.data(), std::streamsize(bytes.size()));
}

inline std::string get(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace troupe::tests::fuzz
