#include "runtime/file/same_file.hpp"

#include "runtime/core/error.hpp"

#include <system_error>

namespace troupe::runtime {

namespace fs = std::filesystem;

bool name_one_file(const fs::path& a, const fs::path& b) {
  if (a.empty() || b.empty() || a == "-" || b == "-")
    return false;
  std::error_code failure, of_a, of_b;
  if (fs::equivalent(a, b, failure))
    return true;
  const auto x = fs::weakly_canonical(a, of_a), y = fs::weakly_canonical(b, of_b);
  return !of_a && !of_b && x == y;
}

void require_no_input(const char* flag, const fs::path& output, std::span<const fs::path> inputs) {
  for (const auto& input : inputs)
    if (name_one_file(output, input))
      throw input_error("{} '{}' would overwrite '{}', which is read: name another file",
                        flag,
                        output.string(),
                        input.string());
}

}  // namespace troupe::runtime
