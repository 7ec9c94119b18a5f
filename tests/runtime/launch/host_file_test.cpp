#include "runtime/launch/host_file.hpp"

#include "runtime/core/error.hpp"
#include "runtime/file/file.hpp"
#include "tests/support/scratch_folder.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <string>
#include <vector>

using namespace troupe::runtime;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;

namespace {

using lines = std::vector<host_line>;

void refused(const std::string& text, const std::string& because) {
  CAPTURE(text);
  CHECK_THROWS_MATCHES(
      host_lines(text, "'hosts'"), input_error, MessageMatches(ContainsSubstring(because)));
}

}  // namespace

TEST_CASE("a host file has hosts with slots, empty lines and comments", "[launch]") {
  CHECK(host_lines("# two\n\n gpu-1\tslots=4 # the first\r\nme@10.0.0.2 slots=4", "'hosts'")
        == lines{{"gpu-1", 4}, {"me@10.0.0.2", 4}});
  CHECK(host_lines("a\nb slots=2", "'hosts'") == lines{{"a", 1}, {"b", 2}});
  CHECK(without_user("me@10.0.0.2") == "10.0.0.2");
  CHECK(without_user("10.0.0.2") == "10.0.0.2");
}

TEST_CASE("a wrong line of a host file is refused by its number", "[launch]") {
  refused("", "names no host");
  refused("# none\n", "names no host");
  refused("a\nb slots=0", "line 2, 'b slots=0': expected slots=N with a whole number from 1");
  refused("a slots=x", "expected slots=N");
  refused("a max_slots=4", "expected slots=N");
  refused("a b", "expected slots=N");
  refused("-oProxyCommand=x", "expected the name or address of a host");
  refused("me@", "expected the name or address of a host");
  refused("a\nb\na", "line 3, 'a': the host is there twice");
}

TEST_CASE("a host file is read from a path", "[launch]") {
  const troupe::tests::scratch_folder folder;
  write_text(folder / "hosts", "a slots=2\n");
  CHECK(read_host_file(folder / "hosts") == lines{{"a", 2}});
  CHECK_THROWS_AS(read_host_file(folder / "none"), error);
}
