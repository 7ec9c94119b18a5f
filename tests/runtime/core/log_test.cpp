#include "runtime/core/log.hpp"

#include <catch2/catch_test_macros.hpp>

#include <string>
#include <vector>

namespace troupe::tests {

TEST_CASE("a watcher of the log gets warnings and errors without a record until it is removed") {
  std::vector<std::string> seen;
  runtime::watch_warnings([&seen](runtime::severity level, std::string_view text) {
    seen.push_back((level == runtime::severity::error ? "error: " : "warning: ")
                   + std::string(text));
  });
  runtime::log_line(runtime::severity::debug, "not a warning");
  runtime::log_warning("disk {} is full", 3);
  runtime::log_error("the run ends\n");
  runtime::log_recorded_line(runtime::severity::warning, "stage:0.1 is slow");
  runtime::watch_warnings({});
  runtime::log_warning("later");
  CHECK(seen == std::vector<std::string>{"warning: disk 3 is full", "error: the run ends\n"});
}

}  // namespace troupe::tests
