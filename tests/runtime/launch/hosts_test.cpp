#include "runtime/launch/hosts.hpp"

#include "runtime/core/error.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <string>
#include <vector>

using namespace troupe::runtime;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;

namespace {

using words = std::vector<std::string>;

words hosts(std::string_view list) {
  return hosts_in_list(list, "SLURM_STEP_NODELIST");
}

void list_is_refused(std::string_view list, const std::string& because) {
  INFO(list);
  CHECK_THROWS_MATCHES(hosts(list), input_error, MessageMatches(ContainsSubstring(because)));
}

void counts_are_refused(std::string_view list, const std::string& because) {
  INFO(list);
  CHECK_THROWS_MATCHES(
      counts_in_list(list, "x"), input_error, MessageMatches(ContainsSubstring(because)));
}

}  // namespace

TEST_CASE("a list of hosts of Slurm is expanded in order, with the widths of its numbers",
          "[launch]") {
  CHECK(hosts("n0") == words{"n0"});
  CHECK(hosts("gpu[001-004,7],login-[a,b]")
        == words{"gpu001", "gpu002", "gpu003", "gpu004", "gpu7", "login-a", "login-b"});
  CHECK(hosts("n[8-11]") == words{"n8", "n9", "n10", "n11"});
  CHECK(hosts("n[08-10],n[099-100].cluster")
        == words{"n08", "n09", "n10", "n099.cluster", "n100.cluster"});
  CHECK(hosts("x[1-2]-rack[3-4]") == words{"x1-rack3", "x1-rack4", "x2-rack3", "x2-rack4"});
  CHECK(hosts("[1-2]") == words{"1", "2"});
  CHECK(hosts("n[00001-65536]").size() == 65536);
}

TEST_CASE("a malformed list of hosts is refused with the place of the fault", "[launch]") {
  list_is_refused(
      "",
      "cannot read SLURM_STEP_NODELIST '': expected a name not beginning with '-' at character 1");
  list_is_refused("a,,b", "at character 3; leave it as Slurm set it");
  list_is_refused("a,", "at character 3");
  list_is_refused("gpu[1-4", "expected ']' at character 8");
  list_is_refused("gpu]1", "expected ',' or the end at character 4");
  list_is_refused("gpu[]", "expected a number or name at character 5");
  list_is_refused("gpu[1,]", "expected a number or name at character 7");
  list_is_refused("gpu[1-4-5]", "expected an ascending range of numbers");
  list_is_refused("gpu[4-1]", "expected an ascending range of numbers");
  list_is_refused("gpu[a-c]", "expected an ascending range of numbers");
  list_is_refused("gpu[-4]", "expected an ascending range of numbers");
  list_is_refused("gpu[1-99999999999999999999]", "expected an ascending range of numbers");
  list_is_refused("gpu[1[2]]", "expected ']' at character 6");
  list_is_refused("a b", "expected ',' or the end at character 2");
  list_is_refused("-oProxyCommand=x", "expected a name not beginning with '-'");
  list_is_refused("n[0-65536]", "expected at most 65536 hosts");
  list_is_refused("n[1-300][1-300]", "expected at most 65536 hosts");
  list_is_refused("n[1-65536],n0", "expected at most 65536 hosts");
  list_is_refused(std::string(254, 'a'), "expected a shorter name");
  list_is_refused("n[" + std::string(254, '0') + "-1]", "expected an ascending range of numbers");
}

TEST_CASE("counts of tasks of Slurm are expanded", "[launch]") {
  CHECK(counts_in_list("4", "x") == std::vector{4});
  CHECK(counts_in_list("2(x3),1", "x") == std::vector{2, 2, 2, 1});
  CHECK(counts_in_list("8,2(x1),16(x2)", "x") == std::vector{8, 2, 16, 16});
  counts_are_refused("", "expected a whole number from 1 to 4096 at character 1");
  counts_are_refused("0", "expected a whole number from 1 to 4096");
  counts_are_refused("2(x", "expected a whole number from 1 to 65536 at character 4");
  counts_are_refused("2(x3", "expected ')' at character 5");
  counts_are_refused("2(3)", "expected ',' or the end at character 2");
  counts_are_refused("2(x65536),1", "expected at most 65536 hosts");
  counts_are_refused("2,", "at character 3");
}
