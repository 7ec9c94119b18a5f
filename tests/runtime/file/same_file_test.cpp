#include "runtime/file/same_file.hpp"

#include "runtime/core/error.hpp"
#include "runtime/file/file.hpp"
#include "tests/support/scratch_folder.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <vector>

using namespace troupe::runtime;
using Catch::Matchers::ContainsSubstring;
namespace fs = std::filesystem;

TEST_CASE("a file is recognised by all its names, also before it exists", "[core]") {
  const troupe::tests::scratch_folder folder;
  const auto file = folder.path() / "a";
  write_text(file, "text");
  fs::create_symlink("a", folder.path() / "link");
  fs::create_hard_link(file, folder.path() / "hard");
  fs::create_directory_symlink(folder.path(), folder.path() / "loop");
  for (const auto* name : {"a", "./a", "link", "hard", "loop/a"})
    CHECK(name_one_file(file, folder.path() / name));
  CHECK(name_one_file(folder.path() / "new", folder.path() / "loop/x/../new"));
  write_text(folder.path() / "b", "text");
  CHECK_FALSE(name_one_file(file, folder.path() / "b"));
  CHECK_FALSE(name_one_file(file, folder.path() / "new"));
  CHECK_FALSE(name_one_file("", ""));
  CHECK_FALSE(name_one_file("-", "-"));
}

TEST_CASE("an output that is also an input is refused with both names", "[core]") {
  const troupe::tests::scratch_folder folder;
  const std::vector<fs::path> inputs = {folder.path() / "a", folder.path() / "b"};
  CHECK_NOTHROW(require_no_input("--output", folder.path() / "c", inputs));
  CHECK_THROWS_WITH(require_no_input("--output", folder.path() / "./b", inputs),
                    ContainsSubstring("--output") && ContainsSubstring("name another file"));
}
