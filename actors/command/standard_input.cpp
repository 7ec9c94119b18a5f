#include "actors/command/standard_input.hpp"

#include "runtime/core/error.hpp"

#include <cerrno>
#include <unistd.h>

namespace troupe::command {

std::string read_standard_input() {
  constexpr std::size_t piece = 1 << 16;
  std::string out;
  while (true) {
    const auto before = out.size();
    out.resize(before + piece);
    const auto n = ::read(STDIN_FILENO, out.data() + before, piece);
    if (n < 0 && errno != EINTR)
      throw runtime::io_error("cannot read standard input: {}", runtime::system_message(errno));
    out.resize(before + std::size_t(n > 0 ? n : 0));
    if (n == 0)
      return out;
  }
}

}  // namespace troupe::command
