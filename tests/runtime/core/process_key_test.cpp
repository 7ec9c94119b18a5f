#include "runtime/core/process_key.hpp"

#include <catch2/catch_test_macros.hpp>

namespace troupe::tests {

using runtime::incarnation_of_key;
using runtime::name_by_process_key;
using runtime::process_key;
using runtime::process_of_key;

TEST_CASE("a process is named by its number on data planes as in the run's folder") {
  CHECK(process_key(0, 1) == 8'589'934'593U);
  CHECK(name_by_process_key(process_key(0, 1)) == "node-0");
  CHECK(name_by_process_key(process_key(12, 3)) == "node-12");
  CHECK(name_by_process_key(process_key(-1, 2)) == "supervisor");
  CHECK(name_by_process_key(7) == "process 7");
  CHECK(process_of_key(process_key(12, 3)) == 12);
  CHECK(process_of_key(process_key(-1, 2)) == -1);
  CHECK(incarnation_of_key(process_key(12, 3)) == 3);
}

}  // namespace troupe::tests
