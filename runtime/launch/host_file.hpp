// Host files of MPI and DeepSpeed: one host a line, "HOST slots=N", with comments from '#'.

#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::runtime {

struct host_line {
  std::string host;  ///< "HOST", or "USER@HOST" for ssh
  int slots = 1;
  bool operator==(const host_line&) const = default;
};

/// Throws input_error with `where` and the line: a word that is not slots=N, a host that begins
/// with '-', a host that is there twice, no host at all.
std::vector<host_line> host_lines(std::string_view text, const std::string& where);

/// Reads a file, at most 16 MiB. Throws input_error and io_error.
std::vector<host_line> read_host_file(const std::filesystem::path& file);

/// "HOST" of "USER@HOST".
std::string without_user(const std::string& host);

}  // namespace troupe::runtime
