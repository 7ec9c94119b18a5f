#include "runtime/process/run_tokens.hpp"

#include "runtime/file/file.hpp"

#include <system_error>

namespace troupe::runtime {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t digits = 32;

std::string made(const fs::path& file) {
  std::error_code failure;
  if (fs::is_regular_file(file, failure)) {
    auto text = read_text(file);
    if (text.size() == digits + 1 && text.back() == '\n'
        && text.find_first_not_of("0123456789abcdef") == digits) {
      text.pop_back();
      return text;
    }
  }
  const auto out = new_token() + new_token();
  replace_file(file, out + "\n");
  return out;
}

}  // namespace

run_tokens make_run_tokens(const held_run_folder& of) {
  return {made(of.read_token()), made(of.control_token())};
}

}  // namespace troupe::runtime
