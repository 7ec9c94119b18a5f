#include "runtime/process/run_tokens.hpp"

#include "runtime/file/file.hpp"
#include "tests/support/scratch_folder.hpp"

#include <catch2/catch_test_macros.hpp>

#include <fstream>

namespace troupe::tests {
namespace {

using runtime::held_run_folder;
using runtime::make_run_tokens;

held_run_folder run_with_tokens(const std::filesystem::path& at) {
  return {at, "troupe 1", {"train", "gpt"}};
}

bool is_token_text(const std::string& x) {
  return x.size() == 32 && x.find_first_not_of("0123456789abcdef") == std::string::npos;
}

}  // namespace

TEST_CASE("a run has two tokens in files of its user, until it ends") {
  const scratch_folder above;
  auto folder = run_with_tokens(above / "run");
  const auto made = make_run_tokens(folder);
  CHECK(is_token_text(made.read));
  CHECK(is_token_text(made.control));
  CHECK(made.read != made.control);
  CHECK(runtime::read_text(folder.read_token()) == made.read + "\n");
  CHECK(runtime::read_text(folder.control_token()) == made.control + "\n");
  for (const auto& file : {folder.read_token(), folder.control_token()})
    CHECK(std::filesystem::status(file).permissions()
          == (std::filesystem::perms::owner_read | std::filesystem::perms::owner_write));
  folder.end(0, "");
  CHECK_FALSE(std::filesystem::exists(folder.read_token()));
  CHECK_FALSE(std::filesystem::exists(folder.control_token()));
}

TEST_CASE("a successor has the run's tokens, and makes a damaged one again") {
  const scratch_folder above;
  const auto folder = run_with_tokens(above / "run");
  const auto made = make_run_tokens(folder);
  const auto again = make_run_tokens(folder);
  CHECK(again.read == made.read);
  CHECK(again.control == made.control);
  std::ofstream(folder.read_token()) << "short\n";
  const auto mended = make_run_tokens(folder);
  CHECK(is_token_text(mended.read));
  CHECK(mended.read != made.read);
  CHECK(mended.control == made.control);
}

}  // namespace troupe::tests
